"""What a command prints: a table for people, JSON for programs, one sentence for what went wrong."""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from hostler.base.errors import HostlerError, error

F = TypeVar("F", bound=Callable[..., Any])

EXIT_REFUSED, EXIT_USAGE, EXIT_UNREACHABLE = 1, 2, 3
_PIPE_WIDTH = 1000
_USAGE_CODES = {"invalid_config", "invalid_yaml"}


# What a terminal would act on, but for tabs: a task writes its own log, and whoever reads it is somebody else.
_ACTIVE = {code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160))}


def harmless(text: str) -> str:
    """The text with control characters spelled out."""
    return text.translate(_ACTIVE)


def output_option(function: F) -> F:
    """Adds `--output text|json` to a command."""
    option = click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="text for people, json for programs",
    )
    return option(function)


def print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Aligned columns; on a terminal with colours, in a pipe as plain text."""
    from rich.console import Console
    from rich.table import Table

    # a pipe has no width: nothing is cut off for programs that read the table
    console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(*(styled(cell) for cell in row))
    console.print(grid)


_STYLES = {
    "succeeded": "green",
    "connected": "green",
    "active": "green",
    "planned": "green",
    "failed": "red",
    "refused": "red",
    "revoked": "red",
    "lost": "red",
    "retired": "red",
    "enrolling": "cyan",
    "canceled": "yellow",
    "deprecated": "yellow",
    "running": "cyan",
    "ok": "green",
    "clean": "green",
    "released": "green",
    "quarantined": "red",
    "held": "red",
    "abandoned": "red",
    "cleaning": "yellow",
    "cordoned": "yellow",
    "draining": "yellow",
    "waiting": "cyan",
    "pending": "yellow",
    "soaking": "cyan",
    "paused": "yellow",
    "awaiting_approval": "yellow",
    "rolling_back": "yellow",
    "rolled_back": "yellow",
    "aborted": "yellow",
    "skipped": "dim",
}


def literal(text: str) -> str:
    """For rich: shown as it is, neither markup nor anything else that a terminal acts on."""
    from rich.markup import escape

    return escape("\n".join(map(harmless, text.split("\n"))))


def styled(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    style = _STYLES.get(text)
    return f"[{style}]{text}[/{style}]" if style else literal(text)


def print_done(done: dict[str, Any], output: str, text: str) -> None:
    """What a command without an answer of its own has done."""
    if output == "json":
        print_json(done)
    else:
        click.echo(text)


def check_target(target: Path | None) -> None:
    """Before anything is made that could not be written down afterwards. Raises `file_error`."""
    if target is not None and (target.is_dir() or not target.absolute().parent.is_dir()):
        raise error("file_error", f"{target} cannot be written: it is a directory, or lies in none")


def print_error(err: HostlerError, output: str) -> None:
    """One sentence, its code, and what to do, on standard error."""
    if output == "json":
        document = {"error_code": err.code, "detail": err.message, "hint": err.hint, "pointer": err.pointer}
        click.echo(msgspec.json.encode(document | err.ids).decode(), err=True)
        return
    click.echo(f"{click.style('error', fg='red')}: {harmless(err.message)} [{err.code}]", err=True)
    if err.hint:
        click.echo(f"  {harmless(err.hint)}", err=True)
    if err.ids.get("correlation_id"):
        click.echo(f"  correlation id {err.ids['correlation_id']}", err=True)


def exit_code(err: HostlerError) -> int:
    if err.code in {"controller_unreachable", "store_unavailable"}:
        return EXIT_UNREACHABLE
    return EXIT_USAGE if err.code in _USAGE_CODES else EXIT_REFUSED


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turns a `HostlerError`, or a file that cannot be used, into one sentence and an exit code. Every command
    wears it."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except HostlerError as err:
            failed = err
        except OSError as err:
            if err.filename is None:
                raise
            failed = error("file_error", f"{err.filename} cannot be used: {err.strerror}")
        print_error(failed, kwargs.get("output", "text"))
        sys.exit(exit_code(failed))

    return run
