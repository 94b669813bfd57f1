"""The command line: `knowledge-store`. One command a file."""

from __future__ import annotations

import sys

from knowledge_store.cli.root import app
from knowledge_store_sdk.errors import KnowledgeStoreError


def main() -> None:
    """Runs a command. An error that someone can act on is one sentence and exit code 1, or the code of its kind."""
    # The commands register themselves; they are imported here so that importing one does not import all.
    from knowledge_store.cli import doctor, init, keys, load, search, serve  # noqa: F401
    from knowledge_store.cli.exits import exit_code
    from knowledge_store.cli.root import errors

    try:
        app()
    except KnowledgeStoreError as error:
        errors.print(f"knowledge-store: {error.detail}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)
