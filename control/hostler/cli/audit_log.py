"""`hostler audit log`: who changed what, what was before and what after."""

import itertools
from datetime import UTC, datetime
from typing import Any

import click

from hostler.cli.client import Client
from hostler.cli.output import guarded, output_option, print_json, table
from hostler.cli.settings import Settings

MAX_PAGE = 1000


@click.command(name="log")
@click.option("--action", default="", help="only this action, such as policy.put")
@click.option("--actor", default="", help="only this actor")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="lines at most")
@output_option
@click.pass_obj
@guarded
def command(settings: Settings, action: str, actor: str, limit: int, output: str) -> None:
    """Show the audit, newest first: who asked for which change, and what it changed.

    Refused requests are there too. For administrators and auditors.
    """
    asked = {name: value for name, value in (("action", action), ("actor", actor)) if value}
    lines = Client(settings).pages("/api/v1/admin/audit-logs", page_size=min(limit, MAX_PAGE), **asked)
    shown = list(itertools.islice(lines, limit))
    if output == "json":
        print_json(shown)
        return
    table(("WHEN", "ACTOR", "ACTION", "RESOURCE", "RESULT", "CHANGED"), [_row(line) for line in shown])


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    at = datetime.fromtimestamp(line["at_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    result = line["error_code"] if line["result"] == "refused" else line["result"]
    return at, line["actor"], line["action"], line["resource_name"], result, changed(line["before"], line["after"])


def changed(before: Any, after: Any) -> str:
    """`state=active → revoked`; `+` for what was made, `-` for what is gone."""
    old, new = _named(before), _named(after)
    if old is None or new is None:
        sign, said = ("- ", old) if new is None else ("+ ", new)
        return sign + ", ".join(f"{name}={_short(value)}" for name, value in said.items()) if said else ""
    names = dict.fromkeys([*old, *new])
    return ", ".join(f"{name}={_short(old.get(name))} → {_short(new.get(name))}" for name in names)


def _named(value: Any) -> dict[str, Any] | None:
    """Lines of older control planes hold bare values."""
    return value if value is None or isinstance(value, dict) else {"value": value}


def _short(value: Any) -> str:
    text = "-" if value in (None, "") else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
