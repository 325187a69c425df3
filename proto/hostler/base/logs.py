"""Logs: a constant event name and fields; JSON for machines, aligned lines on a terminal, to standard error.

Over the standard library's `logging`, which asyncio has loaded anyway: every megabyte here is one that each idle
agent carries.
"""

import contextlib
import datetime
import logging
import sys
import traceback
from typing import Any

import msgspec

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FIELDS = "hostler_fields"


class Logger:
    """The module's logger; `event` is `noun.verb`, what varies is a field. `error=err` adds code and causes."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._log(10, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(20, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(30, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(40, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """An error with the trace of the exception being handled."""
        self._log(40, event, fields | {"trace": traceback.format_exc()})

    def _log(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={_FIELDS: _explained(fields)})


def get_logger(name: str) -> Logger:
    return Logger(name)


def set_up(form: str = "auto", level: str = "info") -> None:
    """Configures the process.

    Args:
        form: `json`, `pretty`, or `auto` for pretty on a terminal only.
        level: debug, info, warning or error.
    """
    pretty = sys.stderr.isatty() if form == "auto" else form == "pretty"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Pretty() if pretty else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("hostler").setLevel(_LEVELS[level])


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = {"at": _moment(record), "level": record.levelname.lower(), "event": record.getMessage()}
        fields = head | {"logger": record.name} | getattr(record, _FIELDS, {})
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields, enc_hook=str).decode()


class _Pretty(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, _FIELDS, {}))
        trace = fields.pop("trace", "")
        if record.exc_info:
            trace = self.formatException(record.exc_info)
        words = " ".join(f"{name}={value}" for name, value in fields.items())
        line = f"{_moment(record)[11:23]} {record.levelname.lower():8}{record.getMessage():24} {words}"
        return f"{line}\n{trace}" if trace else line


def _moment(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _explained(fields: dict[str, Any]) -> dict[str, Any]:
    """`error=err` as its sentence, its code, and the chain of its causes."""
    err = fields.get("error")
    if not isinstance(err, BaseException):
        return fields
    causes: list[str] = []
    cause = err.__cause__
    while cause is not None and len(causes) < 8:
        causes.append(f"{type(cause).__name__}: {_sentence(cause)}")
        cause = cause.__cause__
    told = {"error": _sentence(err), "error_code": getattr(err, "code", "internal_error")}
    return fields | told | ({"causes": causes} if causes else {})


def _sentence(err: BaseException) -> str:
    with contextlib.suppress(Exception):  # an exception that cannot be printed is still logged
        return str(err) or type(err).__name__
    return type(err).__name__
