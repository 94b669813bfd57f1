# make install | run | test | lint | bench. Each of the others calls install first, which costs nothing when it is done.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INPUTS := $(wildcard */pyproject.toml) constraints.txt requirements-dev.txt
# servers and data that are not there skip tests on a developer's machine and fail them in CI
SERVERS := $(if $(CI),require,auto)
PYTEST_ARGS ?=

.PHONY: install run test lint format bench clean

install: $(STAMP)

$(STAMP): $(INPUTS)
	@test -x $(BIN)/python || { \
	  for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    if $$candidate -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      echo "making $(VENV) with $$($$candidate --version)"; $$candidate -m venv $(VENV) && break; \
	    fi; \
	  done; }
	@test -x $(BIN)/python || { echo "no Python 3.11 or newer found; name one: make install PYTHON=/path/to/python" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --requirement requirements-dev.txt \
	  --editable ./sdk --editable ./connectors --editable "./service[minilm]"
	@touch $@

run: install
	$(BIN)/knowledge-store serve --load docs

test: install
	$(BIN)/python -m pytest --servers=$(SERVERS) $(PYTEST_ARGS)

lint: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: install
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
