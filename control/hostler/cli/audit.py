"""`hostler audit`: receipts, exported and verified without asking anybody; checkpoints and their witness."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import error
from hostler.cli import audit_handover, audit_log, audit_witness
from hostler.cli.client import Client
from hostler.cli.operations_api import operation_path
from hostler.cli.output import EXIT_REFUSED, check_target, guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings


@click.group(name="audit")
def command() -> None:
    """Who changed what; export receipts and verify them offline; witness what the control plane shows."""


for each in audit_witness.COMMANDS:
    command.add_command(each)
command.add_command(audit_handover.command)
command.add_command(audit_log.command)


@command.command()
@click.argument("operation_id", required=False)
@click.option("--node", help="export one node's whole chain instead of an operation's nodes")
@click.option("--all", "everything", is_flag=True, help="export every node's whole chain (administrators)")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), required=True, help="bundle to write")
@output_option
@click.pass_obj
@guarded
def export(
    settings: Settings, operation_id: str | None, node: str | None, everything: bool, target: Path, output: str
) -> None:
    """Write the receipt chains of OPERATION_ID's nodes (or of one node, or of all) to a bundle file.

    The bundle carries the newest checkpoint, and the newest one that a witness has seen, with the proof that the
    chains are in them.
    """
    if [operation_id is None, node is None, not everything].count(False) != 1:
        raise click.UsageError("name an operation, or a node with --node, or every node with --all")
    check_target(target)
    client = Client(settings)
    if everything:
        data = client.raw("/api/v1/admin/audit-bundle", all="true")
    elif node:
        data = client.raw("/api/v1/admin/audit-bundle", node_id=node)
    else:
        data = client.raw(f"{operation_path(settings, operation_id or '')}/audit-bundle")
    target.write_bytes(data)
    text = f"wrote {target} ({len(data)} bytes); verify it with: hostler audit verify {target}"
    print_done({"file": str(target), "bytes": len(data)}, output, text)


@command.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--trust", type=click.Path(path_type=Path, exists=True), help="trust.json made by 'pki init'")
@click.option(
    "--require-witness", is_flag=True, help="every receipt must be under a checkpoint that a witness has seen"
)
@click.option("--require-all", is_flag=True, help="the bundle must hold every chain that its newest checkpoint is over")
@click.option(
    "--since",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="an earlier bundle, which this one must extend: finds forks, rollbacks and hidden nodes",
)
@output_option
@guarded
def verify(
    bundle: Path, trust: Path | None, require_witness: bool, require_all: bool, since: Path | None, output: str
) -> None:
    """Check every receipt of BUNDLE offline: signatures, chain, the nodes' certificates, and the checkpoints.

    Names the exact index that was altered, dropped, reordered or inserted, and the one from which receipts are
    missing at the end. Without --trust the keys in the bundle are taken at their word, and the report says so.
    """
    from hostler.pki.bundle import verify_bundle
    from hostler.pki.trust_files import load_trust

    report = verify_bundle(
        _read(bundle),
        load_trust(trust) if trust else None,
        require_witness=require_witness,
        require_all=require_all,
        earlier=_read(since) if since else None,
    )
    if output == "json":
        print_json(report)
    else:
        _print_report(report)
    if not report.ok:
        sys.exit(EXIT_REFUSED)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as err:
        raise error("file_error", f"{path} cannot be read: {err.strerror}") from err


def _print_report(report: Any) -> None:
    for node in report.nodes:
        if node.fault is None:
            covered = f"{node.covered} under a checkpoint, {node.witnessed} witnessed"
            sign, text = click.style("ok", fg="green"), f"{node.length} receipts, {covered}, head {node.head[:16]}"
        else:
            sign, text = click.style("BROKEN", fg="red"), f"receipt {node.fault.index}: {node.fault.message}"
        click.echo(f"{sign:6} {node.node_id}  {text}")
    for fault in report.faults:
        click.echo(f"{click.style('BROKEN', fg='red')} {fault.message} [{fault.code}]")
    for each in report.checkpoints:
        seen = f"witnessed by {len(each.witnesses)}" if each.witnessed else "no witness has seen it"
        click.echo(
            f"checkpoint {each.index} of {_when(each.at_ms)}: {each.receipts} receipts of {each.nodes} nodes, {seen}"
        )
    if not report.checkpoints:
        click.echo("note: no checkpoint in the bundle; receipts missing at the end cannot be seen")
    if not report.anchored:
        click.echo("note: keys are not anchored to a trust root; pass --trust trust.json to anchor them")


def _when(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # whoever signed it may have written any number
        return f"{at_ms} ms"
