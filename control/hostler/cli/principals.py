"""`hostler principals`: who may call the API, in which role and scope."""

from pathlib import Path
from typing import Any

import click

from hostler.cli.client import Client, quoted
from hostler.cli.output import check_target, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings

ROLES = ("platform_admin", "tenant_admin", "project_admin", "project_member", "project_viewer", "auditor")


@click.group(name="principals")
def command() -> None:
    """Who may call the API."""


@command.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="what it may do")
@click.option("--org", default="", help="tenant the role is limited to")
@click.option("--scope-project", default="", help="project the role is limited to")
@click.option(
    "--valid-days", type=click.IntRange(1, 3650), default=365, show_default=True, help="how long its token is good"
)
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), help="write the token here, mode 0600")
@output_option
@click.pass_obj
@guarded
def add(settings: Settings, name: str, role: str, target: Path | None, output: str, **options: Any) -> None:
    """Make a principal and its bearer token, which is shown once and stored only as a hash."""
    body = {
        "name": name,
        "role": role,
        "org_id": options["org"],
        "project_id": options["scope_project"],
        "valid_seconds": options["valid_days"] * 86_400,
    }
    check_target(target)
    made = Client(settings).call("POST", "/api/v1/admin/principals", body=body)
    if target:
        from hostler.pki.storage import write_private

        write_private(target, made["token"].encode())
        made = {**made, "token": ""}
    if output == "json":
        print_json(made)
    else:
        click.echo(f"wrote {target}" if target else made["token"])


@command.command(name="list")
@output_option
@click.pass_obj
@guarded
def list_principals(settings: Settings, output: str) -> None:
    """List principals. Tokens cannot be shown again."""
    items = list(Client(settings).pages("/api/v1/admin/principals", page_size=200))
    if output == "json":
        print_json(items)
        return
    table(
        ("NAME", "ROLE", "ORG", "PROJECT", "STATE"),
        [(p["name"], p["role"], p["org_id"], p["project_id"], p["state"]) for p in items],
    )


@command.command()
@click.argument("name")
@output_option
@click.pass_obj
@guarded
def revoke(settings: Settings, name: str, output: str) -> None:
    """Revoke a principal's token at once."""
    done = Client(settings).call("DELETE", f"/api/v1/admin/principals/{quoted(name)}")
    print_done(done, output, f"revoked {name}")
