"""The structured log: one event a line, each with the id of the request that it belongs to."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

from knowledge_store.settings import LogSettings


def configure_logs(settings: LogSettings) -> None:
    """Sends every log line of the process to standard error, in one form."""
    level = getattr(logging, settings.level.upper())
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_json)
        if settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)


def _json(event: Any, **options: Any) -> str:
    return orjson.dumps(event, default=options.get("default", str)).decode()
