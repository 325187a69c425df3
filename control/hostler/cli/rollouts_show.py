"""A rollout for people: its waves as a table, why it stands still, and what comes next."""

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from hostler.base.errors import HostlerError
from hostler.cli.agents_show import moment
from hostler.cli.output import literal, styled, table

OVER = frozenset({"succeeded", "failed", "aborted", "rolled_back"})
_EVERY_S = 1.0
_MOST_MISSED = 30  # answers in a row
_BAR = 12
_WAITS = {
    "node_away": "is away",
    "node_unhealthy": "is out of service",
    "run_in_progress": "is in another lifecycle run",
    "waiting_for_operator": "waits for a person",
    "server_busy": "is tried again in a minute",
    "node_busy": "is busy",
    "draining": "drains",
}
_DONE = ("succeeded", "failed", "rolled_back", "skipped")


def progress(found: dict[str, Any]) -> str:
    """`12 of 40 nodes, wave 2 of 5`; waves count from 0, the canary."""
    done = sum(found["states"].get(state, 0) for state in _DONE)
    return f"{done} of {found['nodes']} nodes, wave {found['wave']} of {found['waves'] - 1}"


def waits_for_a_person(found: dict[str, Any]) -> bool:
    moving = sum(found["states"].get(state, 0) for state in ("running", "rolling_back"))
    return found["state"] == "awaiting_approval" or (found["state"] == "paused" and not moving)


def next_step(found: dict[str, Any], now_ms: int) -> str:
    """What happens next, or who has to do what."""
    rollout_id, state, states = found["rollout_id"], found["state"], found["states"]
    if state in OVER:
        return "" if found["finished_at_ms"] else f"{states.get('running', 0)} nodes come to their end"
    if found["turning_back"] and found["waiting_for_people"]:
        node = found["waiting_for_people"][0]
        return f"node {node['node_name']}, which is to be brought back, {about(node)}"
    if states.get("rolling_back") or (found["turning_back"] and states.get("running")):
        return f"{states.get('rolling_back', 0)} nodes are on their way back"
    if state == "awaiting_approval":
        name = wave_name(found, found["wave"])
        return f"wave {name} waits: hostler rollouts approve {rollout_id} --wave {found['wave']}"
    if state == "paused":
        retry = " [--retry-failed]" if states.get("failed") or states.get("rolled_back") else ""
        return f"hostler rollouts resume {rollout_id}{retry}, or: hostler rollouts abort {rollout_id}"
    if found["waiting_for_people"]:
        node = found["waiting_for_people"][0]
        return f"node {node['node_name']} {about(node)}"
    if found["soaking_until_ms"] > now_ms:
        left = (found["soaking_until_ms"] - now_ms + 999) // 1000
        return f"wave {wave_name(found, found['wave'])} is watched for {left} s more"
    return f"wave {wave_name(found, found['wave'])} is in progress"


def wave_name(found: dict[str, Any], index: int) -> str:
    """`2 (eu-west)`."""
    boundary = next((wave["boundary"] for wave in found["wave_list"] if wave["index"] == index), "")
    return f"{index} ({boundary})" if boundary else str(index)


def print_plan(made: dict[str, Any]) -> None:
    nodes = sum(len(wave["nodes"]) for wave in made["waves"])
    what = "would go" if made["dry_run"] else f"goes, as {made['rollout_id']},"
    click.echo(f"{made['version']} {what} to {nodes} nodes in {len(made['waves'])} waves")
    rows = [(wave["index"], wave["boundary"] or "-", len(wave["nodes"]), _few(wave["nodes"])) for wave in made["waves"]]
    table(("WAVE", "BOUNDARY", "NODES", "WHICH"), rows)
    if made["skipped"]:
        table(("SKIPPED", "WHY"), [(node["name"], node["reason"]) for node in made["skipped"]])
    if not made["dry_run"]:
        click.echo(f"hostler rollouts watch {made['rollout_id']}")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def view(found: dict[str, Any], now_ms: int) -> Any:
    """The head, the table of waves, why, and what next, for rich."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("WAVE", "BOUNDARY", "", "DONE", "RUNNING", "SOAKING", "FAILED", "SKIPPED", "BACK"):
        grid.add_column(heading)
    for wave in found["wave_list"]:
        grid.add_row(*_wave_cells(found, wave))
    parts: list[Any] = [
        Text.from_markup(f"{found['rollout_id']}  {literal(found['target_version'])}  {styled(found['state'])}"),
        Text(progress(found)),
        grid,
    ]
    if found["reason"]:
        code = f" [red]{found['error_code']}[/]" if found["error_code"] else ""
        parts.append(Text.from_markup(f"why: {literal(found['reason'])}{code}"))
    if said := next_step(found, now_ms):
        parts.append(Text(f"next: {said}"))
    return Group(*parts)


def _wave_cells(found: dict[str, Any], wave: dict[str, Any]) -> tuple[str, ...]:
    states, nodes = wave["states"], wave["nodes"]
    done = sum(states.get(state, 0) for state in _DONE)
    filled = _BAR * done // nodes if nodes else 0
    mark = ">" if wave["index"] == found["wave"] and found["state"] not in OVER else " "
    bar = f"[green]{'━' * filled}[/][dim]{'·' * (_BAR - filled)}[/]"
    counts = (str(states.get(state, 0) or "") for state in ("running", "soaking", "failed", "skipped"))
    back = states.get("rolled_back", 0) + states.get("rolling_back", 0)
    return (f"{mark}{wave['index']}", literal(wave["boundary"]), bar, f"{done}/{nodes}", *counts, str(back or ""))


def print_rollout(found: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(width=1000)
    console.print(view(found, int(time.time() * 1000)))
    rows = [
        (
            node["node_name"],
            node["wave"],
            node["boundary"],
            node["state"],
            node["agent_version"],
            ended(node),
            about(node),
        )
        for node in found["members"]["items"]
    ]
    if rows:
        table(("NODE", "WAVE", "BOUNDARY", "STATE", "RUNS", "ENDED", "WHY"), rows)


def ended(node: dict[str, Any]) -> str:
    """When the node came to its end in this rollout; nothing for one that has not."""
    return moment(node["finished_at_ms"]) if node["finished_at_ms"] else ""


def about(node: dict[str, Any]) -> str:
    """Why the node is where it is."""
    waits = node["waiting_for"] or (node["run_waiting_for"] if node["state"] in ("running", "rolling_back") else "")
    if waits and (not node["finished_at_ms"] or node["blocking_run_id"]):
        return _WAITS.get(waits, waits) + _behind(node)
    if node["state"] in ("running", "rolling_back"):
        return str(node["run_state"])
    code = f" [{node['error_code']}]" if node["error_code"] else ""
    check = f"{node['failed_check']}: " if node["failed_check"] else ""
    return f"{check}{node['reason']}{code}"


def _behind(node: dict[str, Any]) -> str:
    """Whose run it is that the node waits for, and what to do about it."""
    if not node["blocking_run_id"]:
        return ""
    what = node["next_command"] or node["blocking_run_id"]
    return f" (run of {node['blocking_requested_by']}): {what}"


def follow(ask: Callable[[], dict[str, Any]], *, quiet: bool = False, stay: bool = False) -> dict[str, Any]:
    """Shows the waves as they move; → the rollout, over or waiting for a person."""
    if quiet:
        return _until_still(ask, lambda _: None, stay=stay)
    if not sys.stdout.isatty():
        return _in_lines(ask, stay=stay)
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        return _until_still(
            ask, lambda found: live.update(view(found, int(time.time() * 1000)), refresh=True), stay=stay
        )


def _in_lines(ask: Callable[[], dict[str, Any]], *, stay: bool) -> dict[str, Any]:
    """For a pipe: a line whenever something has moved."""
    last = ""

    def say(found: dict[str, Any]) -> None:
        nonlocal last
        counts = "  ".join(f"{state} {count}" for state, count in found["states"].items())
        wave = f"wave {wave_name(found, found['wave'])}"
        line = "  ".join(filter(None, (found["rollout_id"], found["state"], wave, counts, found["reason"])))
        if line != last:
            click.echo(line)
            last = line

    found = _until_still(ask, say, stay=stay)
    if said := next_step(found, int(time.time() * 1000)):
        click.echo(f"next: {said}")
    return found


def _until_still(
    ask: Callable[[], dict[str, Any]], say: Callable[[dict[str, Any]], None], *, stay: bool
) -> dict[str, Any]:
    found = ask()
    while True:
        say(found)
        if found["finished_at_ms"] or (waits_for_a_person(found) and not stay):
            return found
        time.sleep(_EVERY_S)
        found = _again(ask)


def _again(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A control plane that starts anew is away for a while, and the rollout goes on."""
    for _ in range(_MOST_MISSED):
        try:
            return ask()
        except HostlerError as err:
            if err.code != "controller_unreachable":
                raise
            time.sleep(_EVERY_S)
    return ask()
