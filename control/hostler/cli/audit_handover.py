"""`hostler audit handover`: a node's certificate that nothing of a tenant is left, carried and verified offline."""

import sys
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import HostlerError, error
from hostler.cli.client import Client
from hostler.cli.operations_api import operation_path, operations_path
from hostler.cli.output import EXIT_REFUSED, check_target, guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings

CERTIFY = "handover.certify"
VERIFY = "node.reclaim.verify"


@click.group(name="handover")
def command() -> None:
    """Hand a node on: export its certificate, and verify one without asking anybody."""


@command.command()
@click.argument("operation")
@click.option("--node", help="node id, if the operation ran on several")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), required=True, help="hand-over to write")
@output_option
@click.pass_obj
@guarded
def export(settings: Settings, operation: str, node: str | None, target: Path, output: str) -> None:
    """Write the hand-over certificate of OPERATION with the receipts that it rests on to a file.

    OPERATION is the operation that verified the reclaim, or the id of the allocation that ended with it.
    """
    from hostler.pki.handover import build_handover

    check_target(target)
    client = Client(settings)
    found = _operation(client, settings, operation)
    certificate = certificate_of(found, node)
    bundle = client.raw(f"{operation_path(settings, found['operation_id'])}/audit-bundle")
    data = build_handover(certificate, bundle)
    target.write_bytes(data)
    text = f"wrote {target} ({len(data)} bytes); verify it with: hostler audit handover verify {target}"
    print_done({"file": str(target), "operation_id": found["operation_id"], "bytes": len(data)}, output, text)


def _operation(client: Client, settings: Settings, name: str) -> dict[str, Any]:
    """By its id, or the newest reclaim of the allocation that is called so. Raises `not_found`."""
    try:
        found: dict[str, Any] = client.call("GET", operation_path(settings, name))
        return found
    except HostlerError as err:
        if err.code != "not_found":
            raise
    for each in client.pages(operations_path(settings), status="succeeded"):
        if each["operation_type"] == VERIFY:
            whole: dict[str, Any] = client.call("GET", operation_path(settings, each["operation_id"]))
            if (whole.get("inputs") or {}).get("allocation_id") == name:
                return whole
    raise error("not_found", f"there is no operation {name!r}, and no verified reclaim of an allocation of that name")


def certificate_of(operation: dict[str, Any], node: str | None) -> bytes:
    """Raises `not_found` where no node, or more than one, gave one out."""
    made = {
        task["node_id"]: step["outputs"]["certificate"]
        for task in operation["tasks"]
        for step in task["steps"]
        if step["step_kind"] == CERTIFY and step["status"] == "succeeded" and node in (None, task["node_id"])
    }
    if len(made) != 1:
        said = f"{len(made)} nodes gave out" if made else "no node gave out"
        hint = "name one with --node" if made else "only a node.reclaim.verify that succeeded has one"
        raise error("not_found", f"{said} a hand-over certificate in {operation['operation_id']}", hint=hint)
    (certificate,) = made.values()
    return str(certificate).encode()


@command.command()
@click.argument("handover", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--trust", type=click.Path(path_type=Path, exists=True), help="trust.json made by 'pki init'")
@output_option
@guarded
def verify(handover: Path, trust: Path | None, output: str) -> None:
    """Check HANDOVER offline: receipts, the node's certificate, that every link of the release is there and succeeded.

    Without --trust the keys in it are taken at their word, and the report says so.
    """
    from hostler.pki.handover import verify_handover
    from hostler.pki.trust_files import load_trust

    report = verify_handover(handover.read_bytes(), load_trust(trust) if trust else None)
    if output == "json":
        print_json(report)
    else:
        _print(report)
    if not report.ok:
        sys.exit(EXIT_REFUSED)


def _print(report: Any) -> None:
    said = report.certificate
    if report.ok:
        click.echo(f"{click.style('ok', fg='green')}  node {said.node_id} is clean after {said.allocation_id}")
    for fault in report.faults:
        click.echo(f"{click.style('BROKEN', fg='red')} {fault}")
    click.echo(f"{len(said.receipts)} receipts; baseline {said.baseline_digest[:16]}; {len(said.devices)} disks erased")
    for device in said.devices:
        name = f"{device.get('path')} {device.get('serial')}".strip()
        click.echo(f"  {name}: {device.get('method')}, {device.get('read_bytes')} bytes read back")
    if not report.anchored:
        click.echo("note: keys are not anchored to a trust root; pass --trust trust.json to anchor them")
