"""The exit code of each kind of failure, so that a script can tell them apart."""

from __future__ import annotations

from typing import Final

from knowledge_store_sdk.errors import KnowledgeStoreError

EXIT_CODES: Final = {
    "config_error": 2,
    "backend_unavailable": 10,
    "wrong_version": 11,
    "wrong_credentials": 12,
    "identity_mismatch": 13,
    "model_missing": 14,
    "embedder_down": 15,
    "path_not_usable": 16,
    "port_taken": 17,
}


def exit_code(error: KnowledgeStoreError) -> int:
    """The code for an error: 1 where its kind has none of its own."""
    return EXIT_CODES.get(error.code, 1)
