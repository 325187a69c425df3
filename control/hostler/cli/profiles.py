"""`hostler profiles`: definitions and command profiles, from YAML to the signed catalog."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from hostler.cli import rehearse
from hostler.cli.catalog import build
from hostler.cli.client import Client, quoted
from hostler.cli.output import EXIT_REFUSED, check_target, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings


@click.group(name="profiles")
def command() -> None:
    """Lint, test, sign, publish and read operation profiles."""


command.add_command(rehearse.command)


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option
@guarded
def lint(directory: Path, output: str) -> None:
    """Check every profile in DIRECTORY (definitions, commands and resolver, *.yaml). Exit code 1 on findings."""
    from hostler.catalog.lint import lint as check
    from hostler.catalog.load import load_profiles

    profiles = load_profiles(directory)
    findings = check(profiles)
    if output == "json":
        print_json(findings)
    for finding in findings if output == "text" else ():
        click.echo(f"{finding.file}:{finding.line}: [{finding.rule}] {finding.message}")
        if finding.hint:
            click.echo(f"    {finding.hint}")
    if findings:
        sys.exit(EXIT_REFUSED)
    if output == "text":
        click.echo(f"{len(profiles.definitions)} definitions and {len(profiles.commands)} commands are in order")
        for name, config in profiles.configs.items():
            click.echo(f"resolver configuration {name} is in order: sha256 {config.digest()}")


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--key", "keys", multiple=True, required=True, type=click.Path(path_type=Path), help="catalog key")
@click.option("--version", "number", type=click.IntRange(min=1), help="catalog version [default: minutes since 1970]")
@click.option(
    "--valid-days", type=click.IntRange(1, 3650), default=180, show_default=True, help="how long the catalog is good"
)
@click.option("--file", "-o", "target", required=True, type=click.Path(path_type=Path), help="bundle to write")
@output_option
@guarded
def sign(
    directory: Path, keys: tuple[Path, ...], number: int | None, valid_days: int, target: Path, output: str
) -> None:
    """Lint DIRECTORY and sign it into a catalog bundle. Needs no network: do it where the catalog key is."""
    from hostler.catalog.proposal import sign as add
    from hostler.pki.ceremony import load_signer

    check_target(target)
    signed = add(build(directory, None, number, valid_days), [load_signer(key) for key in keys])
    target.write_bytes(signed.to_bundle())
    said = signed.said
    written: dict[str, Any] = {"file": str(target), "version": said.version, "definitions": sorted(said.definitions)}
    written["resolvers"] = said.resolvers
    text = f"wrote {target}: catalog version {said.version}, {len(said.definitions)} definitions"
    for name, digest in said.resolvers.items():
        text += f"\nresolver configuration {name}: version {said.version}, digest {digest}"
    print_done(written, output, f"{text}\npublish it with: hostler profiles publish {target}")


@command.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_option
@click.pass_obj
@guarded
def publish(settings: Settings, bundle: Path, output: str) -> None:
    """Register a signed catalog bundle with the control plane; connected nodes get it at once."""
    answer = Client(settings).call("POST", "/api/v1/admin/operation-definitions", content=bundle.read_bytes())
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"published; new: {', '.join(answer['registered']) or 'nothing'}")


@command.command(name="list")
@output_option
@click.pass_obj
@guarded
def list_definitions(settings: Settings, output: str) -> None:
    """List the registered definitions and their state."""
    items = list(Client(settings).pages("/api/v1/admin/operation-definitions", page_size=200))
    if output == "json":
        print_json(items)
        return
    rows = [(i["ref"], i["state"], i["backend_type"], i["description"] or i["document"]["description"]) for i in items]
    table(("DEFINITION", "STATE", "BACKEND", "DESCRIPTION"), rows)


@command.command()
@click.argument("ref", metavar="TYPE@VERSION")
@output_option
@click.pass_obj
@guarded
def show(settings: Settings, ref: str, output: str) -> None:
    """Show one definition: its inputs and steps."""
    found: Any = Client(settings).call("GET", _path_of(ref))
    if output == "json":
        print_json(found)
        return
    document = found["document"]
    click.echo(f"{found['ref']}  {found['state']}  {found['description'] or document['description']}")
    if found["deprecation_note"]:
        click.echo(f"note: {found['deprecation_note']}")
    table(
        ("INPUT", "RULE", "ABOUT"),
        [_about(name, document["inputs"]) for name in document["inputs"].get("properties", ())],
    )
    table(("STEP", "KIND", "ABOUT"), [(s["id"], s["kind"], s.get("description", "")) for s in document["steps"]])


@command.command()
@click.argument("ref", metavar="TYPE@VERSION")
@click.option("--description", help="shown instead of the document's own")
@click.option("--channel", type=click.Choice(["stable", "candidate", "pinned"]), help="whom a rollout offers it first")
@click.option("--deprecation-note", help="what to use instead")
@output_option
@click.pass_obj
@guarded
def describe(settings: Settings, ref: str, output: str, **words: str | None) -> None:
    """Change the words about a definition. What it does was signed, and never changes."""
    given = {"description": words["description"], "default_channel": words["channel"]}
    given["deprecation_note"] = words["deprecation_note"]
    body = {name: value for name, value in given.items() if value is not None}
    if not body:
        raise click.UsageError("say what to change: --description, --channel or --deprecation-note")
    done = Client(settings).call("PATCH", _path_of(ref), body=body)
    print_done(done, output, f"{ref} is described anew")


@command.command()
@click.argument("ref", metavar="TYPE@VERSION")
@click.option("--note", default="", help="what to use instead; submits show it")
@output_option
@click.pass_obj
@guarded
def deprecate(settings: Settings, ref: str, note: str, output: str) -> None:
    """Mark a definition as deprecated: it still runs, and says so."""
    client = Client(settings)
    if note:
        client.call("PATCH", _path_of(ref), body={"deprecation_note": note})
    done = client.call("POST", f"{_path_of(ref)}/deprecate")
    print_done(done, output, f"{ref} is deprecated")


@command.command()
@click.argument("ref", metavar="TYPE@VERSION")
@output_option
@click.pass_obj
@guarded
def retire(settings: Settings, ref: str, output: str) -> None:
    """Retire a definition: new submits are refused, running operations finish."""
    done = Client(settings).call("POST", f"{_path_of(ref)}/retire")
    print_done(done, output, f"{ref} is retired")


def _about(name: str, schema: dict[str, Any]) -> tuple[str, str, str]:
    rule = {key: value for key, value in schema["properties"][name].items() if key != "description"}
    if name in schema.get("required", ()):
        rule = {"required": True} | rule
    return name, msgspec.json.encode(rule).decode(), schema["properties"][name].get("description", "")


def _path_of(ref: str) -> str:
    return f"/api/v1/admin/operation-definitions/{quoted(ref)}"
