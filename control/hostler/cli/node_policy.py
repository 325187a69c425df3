"""`hostler nodes cordon|drain|uncordon|quarantine|clear|probe|recover|breaker`: what keeps a node from being lent."""

import time
from typing import Any

import click

from hostler.cli.client import Client, quoted
from hostler.cli.output import guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings

_BREAKER = "/api/v1/admin/quarantine/breaker"


def add_to(group: click.Group) -> None:
    """The commands, under `hostler nodes`."""
    for each in (cordon, drain, uncordon, quarantine, clear, probe, recover, breaker):
        group.add_command(each)


def _post(settings: Settings, node: str, what: str, body: dict[str, Any] | None = None) -> Any:
    return Client(settings).call("POST", f"/api/v1/admin/nodes/{quoted(node)}/{what}", body=body)


_owner = click.option(
    "--owner", default="operator", show_default=True, help="in whose name; each lifts its own and nobody else's"
)
_why = click.option("--reason", required=True, help="what the audit will say of it")


@click.command()
@click.argument("node")
@_owner
@click.option("--reason", default="", help="for whoever looks at the node")
@output_option
@click.pass_obj
@guarded
def cordon(settings: Settings, node: str, owner: str, reason: str, output: str) -> None:
    """Let no allocation choose the node; what it has goes on."""
    done = _post(settings, node, "cordon", {"owner": owner, "reason": reason})
    print_done(done, output, f"{node} is {done['scheduling']}")


@click.command()
@click.argument("node")
@_owner
@click.option("--reason", default="", help="for whoever looks at the node")
@output_option
@click.pass_obj
@guarded
def drain(settings: Settings, node: str, owner: str, reason: str, output: str) -> None:
    """Let the node finish what runs and start nothing new of a tenant's."""
    done = _post(settings, node, "drain", {"owner": owner, "reason": reason})
    print_done(done, output, f"{node} is {done['scheduling']}")


@click.command()
@click.argument("node")
@_owner
@output_option
@click.pass_obj
@guarded
def uncordon(settings: Settings, node: str, owner: str, output: str) -> None:
    """Lift your own cordon or drain; the node may still be cordoned by somebody else."""
    done = _post(settings, node, "uncordon", {"owner": owner})
    print_done(done, output, f"{node} is {done['scheduling']}")


@click.command()
@click.argument("node")
@_why
@output_option
@click.pass_obj
@guarded
def quarantine(settings: Settings, node: str, reason: str, output: str) -> None:
    """Put a node into quarantine: whoever has it keeps it, nobody else gets it."""
    done = _post(settings, node, "quarantine", {"reason": reason})
    print_done(done, output, f"{node} is {done['health']}")


@click.command()
@click.argument("node")
@_why
@output_option
@click.pass_obj
@guarded
def clear(settings: Settings, node: str, reason: str, output: str) -> None:
    """Vouch for a node in quarantine. One whose lease has not ended clean: 'hostler allocations retry' instead."""
    done = _post(settings, node, "clear", {"reason": reason})
    print_done(done, output, f"{node} is {done['health']}")


@click.command()
@click.argument("node")
@output_option
@click.pass_obj
@guarded
def probe(settings: Settings, node: str, output: str) -> None:
    """Verify that nothing is left on a node since its last baseline; if so, one that nobody holds is cleared.

    A node that has none yet has its first baseline taken, and is no longer unverified.
    """
    done = _post(settings, node, "probe")
    text = f"follow it with: hostler --project {done['project_id']} operations watch {done['operation_id']}"
    print_done(done, output, text)


@click.command()
@click.argument("node")
@_why
@output_option
@click.pass_obj
@guarded
def recover(settings: Settings, node: str, reason: str, output: str) -> None:
    """Do the next honest thing for a node in trouble: end a hold, send what waited, retry a link, probe.

    Says what it did and what remains; call it again for whatever is next then.
    """
    done = _post(settings, node, "recover", {"reason": reason})
    if output == "json":
        print_json(done)
        return
    for each in done["did"]:
        follow = f" (hostler --project {each['project_id']} operations watch {each['operation_id']})"
        click.echo(f"did: {each['text']}{follow if each['operation_id'] else ''}")
    for text in done["remains"]:
        click.echo(f"remains: {text}")
    if not done["did"] and not done["remains"]:
        click.echo(f"{node} needs nothing")


@click.command()
@click.option("--close", "reason", default="", metavar="REASON", help="close it, for this reason")
@output_option
@click.pass_obj
@guarded
def breaker(settings: Settings, reason: str, output: str) -> None:
    """Show, or close, the breaker that holds nodes when too many fail their verification."""
    client = Client(settings)
    if reason:
        found = client.call("POST", f"{_BREAKER}/close", body={"reason": reason})
    else:
        found = client.call("GET", _BREAKER)
    if output == "json":
        print_json(found)
    elif found["opened_at_ms"]:
        since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(found["opened_at_ms"] / 1000))
        click.echo(f"open since {since}: nodes that fail their verification are held")
    else:
        click.echo("closed")
