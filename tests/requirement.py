"""What a test needs and does not find: skipped and listed at the end, or failed with `--servers=require`."""

from typing import Final, NoReturn

import pytest

NOT_TESTED: Final = pytest.StashKey[dict[str, None]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--servers",
        choices=("auto", "require"),
        default="auto",
        help="auto: skip the tests whose server or data is missing, and say why; require: let them fail (as CI does)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[NOT_TESTED] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason in config.stash[NOT_TESTED]:
        terminalreporter.write_line(f"NOT TESTED: {reason}", red=True, bold=True)


def missing(config: pytest.Config, reason: str) -> NoReturn:
    """Ends a fixture whose server or data is not there, as `--servers` says."""
    if config.getoption("--servers") == "require":
        # from None: a report of a program that is not installed need not open with a traceback
        raise pytest.fail.Exception(reason, pytrace=False) from None
    config.stash[NOT_TESTED][reason] = None
    pytest.skip(reason)
