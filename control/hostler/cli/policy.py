"""`hostler policy`: what each scope allows, and who set it (AZ-06, AZ-07)."""

from pathlib import Path
from typing import Any

import click
import msgspec

from hostler.base.errors import error
from hostler.cli.client import Client, quoted
from hostler.cli.operations_api import project_of
from hostler.cli.output import guarded, output_option, print_json, table
from hostler.cli.settings import Settings

KEYS = (
    "enabled",
    "max_concurrency",
    "timeout_seconds",
    "allowed_artifact_sources",
    "allowed_target_kinds",
    "require_signature_verification",
    "max_artifact_size_bytes",
)
MAXIMA = ("max_concurrency", "timeout_seconds", "max_artifact_size_bytes")


@click.group(name="policy")
def command() -> None:
    """What each scope allows: global, then tenant, then project, each of which can only tighten.

    \b
    hostler policy set '*' --tenant acme max_concurrency=20 require_signature_verification=true
    hostler policy set model.artifact.stage --project train allowed_artifact_sources=https://models.example.com/
    hostler --project train policy explain model.artifact.stage
    """


def scope_options(function: Any) -> Any:
    for option in (
        click.option("--tenant", default="", help="the overlay of a tenant"),
        click.option("--global", "is_global", is_flag=True, help="the overlay that holds for everybody"),
        click.argument("operation_type"),
    ):
        function = option(function)
    return function


def path_of(settings: Settings, operation_type: str, tenant: str, is_global: bool) -> str:
    """Raises `invalid_request` when the scope is not clear."""
    if tenant and is_global:
        raise error("invalid_request", "an overlay has one scope: --tenant or --global, not both")
    tail = f"operation-policies/{quoted(operation_type)}"
    if is_global:
        return f"/api/v1/admin/{tail}"
    if tenant:
        return f"/api/v1/tenants/{quoted(tenant)}/{tail}"
    return f"/api/v1/projects/{quoted(project_of(settings))}/{tail}"


@command.command()
@scope_options
@output_option
@click.pass_obj
@guarded
def get(settings: Settings, operation_type: str, tenant: str, is_global: bool, output: str) -> None:
    """Show the overlay of one scope for an operation type, or for '*'."""
    found = Client(settings).call("GET", path_of(settings, operation_type, tenant, is_global))
    if output == "json":
        print_json(found)
        return
    said = [(key, _shown(found["overlay"][key])) for key in KEYS if found["overlay"][key] is not None]
    table(("KEY", "VALUE"), said or [("-", "this scope says nothing")])
    click.echo(f"revision {found['revision']}" + (f", by {found['updated_by']}" if found["updated_by"] else ""))


@command.command()
@scope_options
@output_option
@click.pass_obj
@guarded
def explain(settings: Settings, operation_type: str, tenant: str, is_global: bool, output: str) -> None:
    """Show the effective policy, and which scope set each value."""
    found = Client(settings).call("GET", path_of(settings, operation_type, tenant, is_global))
    if output == "json":
        print_json({name: found.get(name, "") for name in ("effective", "set_by", "asked_besides")})
        return
    rows = [(key, _shown(found["effective"][key]), found["set_by"].get(key, "nobody")) for key in KEYS]
    table(("KEY", "VALUE", "SET BY"), rows)
    if found.get("asked_besides"):
        click.echo(f"and the policy engine ({found['asked_besides']}), which may refuse what all this allows")


@command.command(name="set")
@scope_options
@click.argument("values", nargs=-1)
@click.option("--file", "source", type=click.Path(exists=True, path_type=Path), help="the whole overlay as JSON")
@click.option("--revision", type=int, help="refuse if the overlay has been changed since this revision")
@output_option
@click.pass_obj
@guarded
def set_policy(settings: Settings, operation_type: str, tenant: str, is_global: bool, **given: Any) -> None:
    """Change keys of an overlay: KEY=VALUE ...; KEY= says nothing about it any more.

    Lists are separated by commas. The keys that are not named stay as they are.
    """
    client, path = Client(settings), path_of(settings, operation_type, tenant, is_global)
    before = client.call("GET", path)
    if given["source"]:
        overlay = _read(given["source"])
    else:
        overlay = {key: value for key, value in before["overlay"].items() if value is not None}
        for text in given["values"]:
            _change(overlay, text)
    revision = before["revision"] if given["revision"] is None else given["revision"]
    made = client.call("PUT", path, body=overlay, if_match=str(revision))
    if given["output"] == "json":
        print_json(made)
    else:
        click.echo(f"revision {made['revision']}")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as err:
        raise error("invalid_request", f"{path} holds no JSON object: {err}") from err
    return found


def _change(overlay: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or key not in KEYS:
        raise error("invalid_request", f"{text!r} is not KEY=VALUE with one of: {', '.join(KEYS)}")
    if not value:
        overlay.pop(key, None)
    elif key in MAXIMA:
        if not value.isdigit():
            raise error("invalid_request", f"{key} takes a whole number, not {value!r}")
        overlay[key] = int(value)
    elif key.startswith("allowed_"):
        overlay[key] = [] if value == "none" else value.split(",")
    else:
        if value not in ("true", "false"):
            raise error("invalid_request", f"{key} takes true or false, not {value!r}")
        overlay[key] = value == "true"


def _shown(value: Any) -> str:
    if value is None:
        return "any"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "no limit" if value == 0 and not isinstance(value, bool) else str(value).lower()
