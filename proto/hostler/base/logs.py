"""Logs: a constant event name and fields; JSON for machines, coloured lines on a terminal, to standard error."""

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

Event = MutableMapping[str, Any]


def set_up(form: str = "auto", level: str = "info") -> None:
    """Configures structlog for the process.

    Args:
        form: `json`, `pretty`, or `auto` for pretty on a terminal only.
        level: debug, info, warning or error.
    """
    pretty = sys.stderr.isatty() if form == "auto" else form == "pretty"
    last: Any = structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer()
    levels = {"debug": 10, "info": 20, "warning": 30, "error": 40}
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _causes,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(levels[level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def _causes(_logger: Any, _method: str, event: Event) -> Event:
    """`error=err` becomes its sentence and code, and the chain of its causes."""
    err = event.pop("error", None)
    if not isinstance(err, BaseException):
        if err is not None:
            event["error"] = err
        return event
    event["error"] = _sentence(err)
    event["error_code"] = getattr(err, "code", "internal_error")
    causes: list[str] = []
    cause = err.__cause__
    while cause is not None and len(causes) < 8:
        causes.append(f"{type(cause).__name__}: {_sentence(cause)}")
        cause = cause.__cause__
    if causes:
        event["causes"] = causes
    return event


def _sentence(err: BaseException) -> str:
    return str(err) or type(err).__name__
