"""`hostler webhooks`: who is told of events over HTTPS."""

import time
from pathlib import Path

import click

from hostler.base.errors import error
from hostler.cli.client import Client, quoted
from hostler.cli.output import check_target, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings

_LOOK_S = 0.5


@click.group(name="webhooks")
def command() -> None:
    """Who is told of events: with --project of that project's, else of all (platform_admin).

    \b
    hostler --project train webhooks add https://hooks.example.com/hostler --type operation --secret-file hook.secret
    hostler --project train webhooks test WEBHOOK
    """


def path_of(settings: Settings, *more: str) -> str:
    base = f"projects/{quoted(settings.project)}" if settings.project else "admin"
    return "/".join(("/api/v1", base, "webhooks", *map(quoted, more)))


@command.command()
@click.argument("url")
@click.option("--type", "types", multiple=True, help="an event type or family, such as operation.failed or node")
@click.option("--secret-file", "target", type=click.Path(path_type=Path), help="write the secret here, mode 0600")
@output_option
@click.pass_obj
@guarded
def add(settings: Settings, url: str, types: tuple[str, ...], target: Path | None, output: str) -> None:
    """Tell the receiver at URL of events from now on. Its secret is shown once and stored nowhere."""
    check_target(target)
    made = Client(settings).call("POST", path_of(settings), body={"url": url, "types": list(types)})
    if target:
        from hostler.pki.storage import write_private

        write_private(target, made["secret"].encode())
        made = {**made, "secret": ""}
    if output == "json":
        print_json(made)
    else:
        click.echo(f"{made['webhook_id']}  {f'wrote {target}' if target else made['secret']}")


@command.command(name="list")
@output_option
@click.pass_obj
@guarded
def list_webhooks(settings: Settings, output: str) -> None:
    """List webhooks: what they were told, what waits, and why."""
    items = list(Client(settings).pages(path_of(settings), page_size=200))
    if output == "json":
        print_json(items)
        return
    table(
        ("WEBHOOK", "STATE", "URL", "TYPES", "DELIVERED", "PARKED", "LAST ERROR"),
        [
            (
                item["webhook_id"],
                "failing" if item["attempts"] and item["state"] == "active" else item["state"],
                item["url"],
                ", ".join(item["types"]) or "all",
                item["delivered"],
                item["parked"],
                item["last_error"] or "-",
            )
            for item in items
        ],
    )


@command.command()
@click.argument("webhook")
@output_option
@click.pass_obj
@guarded
def remove(settings: Settings, webhook: str, output: str) -> None:
    """End WEBHOOK: its receiver is told of nothing any more."""
    done = Client(settings).call("DELETE", path_of(settings, webhook))
    print_done(done, output, f"removed {webhook}")


@command.command()
@click.argument("webhook")
@output_option
@click.pass_obj
@guarded
def enable(settings: Settings, webhook: str, output: str) -> None:
    """Try WEBHOOK again at once, also one that its receiver had disabled."""
    done = Client(settings).call("POST", path_of(settings, webhook, "enable"))
    print_done(done, output, f"enabled {webhook}")


@command.command()
@click.argument("webhook")
@output_option
@click.pass_obj
@guarded
def parked(settings: Settings, webhook: str, output: str) -> None:
    """List the events that WEBHOOK's receiver did not take, oldest first."""
    items = list(Client(settings).pages(path_of(settings, webhook, "parked"), page_size=200))
    if output == "json":
        print_json(items)
        return
    rows = [(i["event_id"], i["event_type"], _moment(i["parked_at_ms"]), i["state"], i["reason"]) for i in items]
    table(("EVENT", "TYPE", "PARKED", "STATE", "WHY"), rows)


@command.command()
@click.argument("webhook")
@output_option
@click.pass_obj
@guarded
def resend(settings: Settings, webhook: str, output: str) -> None:
    """Send again what WEBHOOK's receiver did not take, in order, before anything new.

    It ends at the first event that is not taken this time either; the rest stays parked.
    """
    done = Client(settings).call("POST", path_of(settings, webhook, "resend"))
    print_done(done, output, f"{done['events']} events are sent again; 'hostler webhooks parked' shows what is left")


def _moment(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at_ms / 1000))


@command.command(name="test")
@click.argument("webhook")
@click.option("--wait", "wait_s", type=click.IntRange(0, 600), default=30, show_default=True, help="seconds")
@output_option
@click.pass_obj
@guarded
def try_out(settings: Settings, webhook: str, wait_s: int, output: str) -> None:
    """Send the event webhook.test to WEBHOOK's receiver and wait until it has taken it."""
    client = Client(settings)
    sent = client.call("POST", path_of(settings, webhook, "test"))["event_id"]
    end = time.monotonic() + wait_s
    while True:
        found = next((i for i in client.pages(path_of(settings), page_size=200) if i["webhook_id"] == webhook), None)
        if found and found["position"] >= sent:
            print_done({"webhook_id": webhook, "event_id": sent}, output, f"{webhook} took event {sent}")
            return
        if found is None or found["state"] != "active" or time.monotonic() >= end:
            why = found["last_error"] if found else "it was removed"
            raise error("webhook_undelivered", f"{webhook} has not taken event {sent}: {why or 'no answer yet'}")
        time.sleep(_LOOK_S)
