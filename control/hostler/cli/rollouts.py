"""`hostler rollouts`: bring a version of the agent to many nodes in waves, follow it, stop it, turn it back."""

import sys
from itertools import islice
from typing import Any

import click

from hostler.cli import operations_api as api
from hostler.cli import rollouts_show as shown
from hostler.cli.agents_show import SAFETY, SAFETY_HELP
from hostler.cli.client import Client, quoted
from hostler.cli.output import EXIT_REFUSED, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings

PATH = "/api/v1/admin/agent-rollouts"
STATES = [
    "running",
    "awaiting_approval",
    "paused",
    "rolling_back",
    "succeeded",
    "failed",
    "aborted",
    "rolled_back",
]
_APPROVAL_HELP = "before which waves a person is asked: none, the first after the canary, or each  [none]"
NODE_STATES = ["pending", "running", "soaking", "rolling_back", "succeeded", "failed", "rolled_back", "skipped"]


@click.group(name="rollouts")
def command() -> None:
    """Bring a version of the agent to many nodes, in waves."""


def _one(rollout_id: str, action: str = "") -> str:
    return f"{PATH}/{quoted(rollout_id)}" + (f"/{action}" if action else "")


@command.command()
@click.argument("version")
@click.option("--node", "--nodes", "nodes", multiple=True, help="name or id, or several with commas (repeatable)")
@click.option("--label", "labels", multiple=True, help="only nodes with this label, name=value (repeatable)")
@click.option("--canary", type=int, help="how many nodes go first  [1]")
@click.option("--by", "boundary", help="label that makes the waves, such as region; or pool, or tenant")
@click.option("--order", help="values of --by that go first, with commas")
@click.option("--max-parallel", type=int, help="nodes that change at one time  [10]")
@click.option("--success-percent", type=int, help="of a wave's nodes, before the next begins  [100]")
@click.option("--max-failures", type=int, help="so many in all pause it  [1]")
@click.option("--soak-seconds", type=int, help="how long a finished wave is watched  [60]")
@click.option("--timeout-seconds", "run_timeout_seconds", type=int, help="for one node, waiting included  [3600]")
@click.option("--safety", "safety_policy", type=click.Choice(SAFETY), help=f"{SAFETY_HELP}  [drain]")
@click.option("--approval", type=click.Choice(["none", "after_canary", "each_wave"]), help=_APPROVAL_HELP)
@click.option("--auto-rollback/--no-auto-rollback", default=None, help="when it pauses by itself  [on]")
@click.option("--dry-run", is_flag=True, help="show the waves and make nothing")
@click.option("--watch/--no-watch", "follow", default=False, help="follow until it is over or waits for a person")
@output_option
@click.pass_obj
@guarded
def create(settings: Settings, version: str, follow: bool, dry_run: bool, output: str, **options: Any) -> None:
    """Bring VERSION to nodes: a canary, then wave by wave. Without --node and --label to all that run another one.
    A node that is pinned to another version is left out unless --node names it.

    \b
    hostler rollouts create 1.4.0 --by region --canary 2 --approval after_canary --dry-run
    """
    client = Client(settings)
    body = {
        "version": version,
        "nodes": _split(options.pop("nodes")),
        "labels": api.split_pairs(options.pop("labels"), "label"),
        "dry_run": dry_run,
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    if "order" in chosen:
        chosen["order"] = _split((chosen["order"],))
    made = client.call("POST", PATH, body=body | {"settings": chosen})
    if follow and not dry_run:
        _follow(client, made["rollout_id"], output)
    elif output == "json":
        print_json(made)
    else:
        shown.print_plan(made)


def _split(given: tuple[str, ...]) -> list[str]:
    return [name for each in given for name in each.split(",") if name]


@command.command(name="list")
@click.option("--state", type=click.Choice(STATES), help="only those in this state")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most")
@output_option
@click.pass_obj
@guarded
def list_rollouts(settings: Settings, state: str | None, limit: int, output: str) -> None:
    """List rollouts, newest first."""
    items = list(islice(Client(settings).pages(PATH, state=state, page_size=min(limit, 200)), limit))
    if output == "json":
        print_json(items)
        return
    rows = [(r["rollout_id"], r["target_version"], r["state"], shown.progress(r), r["reason"]) for r in items]
    table(("ROLLOUT", "VERSION", "STATE", "PROGRESS", "REASON"), rows)


@command.command()
@click.argument("rollout_id")
@click.option("--wave", type=click.IntRange(0), help="only the nodes of this wave")
@click.option("--node-state", type=click.Choice(NODE_STATES), help="only nodes in this state")
@output_option
@click.pass_obj
@guarded
def show(settings: Settings, rollout_id: str, wave: int | None, node_state: str | None, output: str) -> None:
    """Show a rollout: its waves, why it stands still, what comes next, and every node with its reason."""
    client, cursor = Client(settings), ""
    found: dict[str, Any] = {}
    nodes: list[Any] = []
    while not found or cursor:
        found = client.call("GET", _one(rollout_id), wave=wave, node_state=node_state, page_size=500, cursor=cursor)
        nodes += found["members"]["items"]
        cursor = found["members"]["next_cursor"]
    found["members"] = {"items": nodes, "next_cursor": ""}
    if output == "json":
        print_json(found)
    else:
        shown.print_rollout(found)


@command.command()
@click.argument("rollout_id")
@click.option("--stay", is_flag=True, help="go on while it waits for a person, too")
@output_option
@click.pass_obj
@guarded
def watch(settings: Settings, rollout_id: str, stay: bool, output: str) -> None:
    """Follow a rollout until it is over or waits for a person. Exit code 0 only if it succeeded."""
    _follow(Client(settings), rollout_id, output, stay=stay)


def _follow(client: Client, rollout_id: str, output: str, *, stay: bool = False) -> None:
    def ask() -> dict[str, Any]:
        found: dict[str, Any] = client.call("GET", _one(rollout_id), page_size=1)
        return found

    found = shown.follow(ask, quiet=output == "json", stay=stay)
    if output == "json":
        print_json(found)
    if found["state"] != "succeeded":
        sys.exit(EXIT_REFUSED)


def _move(action: str, summary: str) -> None:
    @command.command(name=action, help=summary)
    @click.argument("rollout_id")
    @click.option("--reason", default="", help="what the audit will say of it")
    @output_option
    @click.pass_obj
    @guarded
    def moved(settings: Settings, rollout_id: str, reason: str, output: str) -> None:
        done = Client(settings).call("POST", _one(rollout_id, action), body={"reason": reason})
        print_done(done, output, f"{rollout_id} is {done['state']}")


@command.command()
@click.argument("rollout_id")
@click.option("--wave", type=click.IntRange(0), required=True, help="the wave that waits: see 'show'")
@click.option("--reason", default="", help="what the audit will say of it")
@output_option
@click.pass_obj
@guarded
def approve(settings: Settings, rollout_id: str, wave: int, reason: str, output: str) -> None:
    """Let the wave that waits for it begin. It is named, so that nobody approves another one than they looked at."""
    done = Client(settings).call("POST", _one(rollout_id, "approve"), body={"wave": wave, "reason": reason})
    print_done(done, output, f"{rollout_id} is {done['state']}")


_move("pause", "Let nothing new begin; nodes that are changing come to their end.")
_move("abort", "End it: what has not begun is skipped, what is changing comes to its end.")
_move("rollback", "Bring every node that took the version back to the one before, also of one that is over.")


@command.command()
@click.argument("rollout_id")
@click.option("--retry-failed", is_flag=True, help="nodes that failed are tried once more")
@click.option("--reason", default="", help="what the audit will say of it")
@output_option
@click.pass_obj
@guarded
def resume(settings: Settings, rollout_id: str, retry_failed: bool, reason: str, output: str) -> None:
    """Let a paused rollout go on; nodes that were brought back get the version again."""
    body = {"reason": reason, "retry_failed": retry_failed}
    done = Client(settings).call("POST", _one(rollout_id, "resume"), body=body)
    print_done(done, output, f"{rollout_id} is {done['state']}")
