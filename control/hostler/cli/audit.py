"""`hostler audit`: receipts, exported and verified without asking anybody."""

import sys
from pathlib import Path
from typing import Any

import click

from hostler.base.errors import error
from hostler.cli.client import Client
from hostler.cli.operations_api import operation_path
from hostler.cli.output import EXIT_REFUSED, check_target, guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings


@click.group(name="audit")
def command() -> None:
    """Export receipts and verify them offline."""


@command.command()
@click.argument("operation_id", required=False)
@click.option("--node", help="export one node's whole chain instead of an operation's nodes")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), required=True, help="bundle to write")
@output_option
@click.pass_obj
@guarded
def export(settings: Settings, operation_id: str | None, node: str | None, target: Path, output: str) -> None:
    """Write the receipt chains of OPERATION_ID's nodes (or of one node) to a bundle file."""
    if (operation_id is None) == (node is None):
        raise click.UsageError("name an operation, or a node with --node")
    check_target(target)
    client = Client(settings)
    if node:
        data = client.raw("/api/v1/admin/audit-bundle", node_id=node)
    else:
        data = client.raw(f"{operation_path(settings, operation_id or '')}/audit-bundle")
    target.write_bytes(data)
    text = f"wrote {target} ({len(data)} bytes); verify it with: hostler audit verify {target}"
    print_done({"file": str(target), "bytes": len(data)}, output, text)


@command.command()
@click.argument("bundle", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--trust", type=click.Path(path_type=Path, exists=True), help="trust.json made by 'pki init'")
@output_option
@guarded
def verify(bundle: Path, trust: Path | None, output: str) -> None:
    """Check every receipt of BUNDLE offline: signatures, chain, and the nodes' certificates.

    Names the exact index that was altered, dropped, reordered or inserted. Without --trust the keys in the
    bundle are taken at their word, and the report says so.
    """
    from hostler.pki.bundle import verify_bundle
    from hostler.pki.trust_files import load_trust

    try:
        data = bundle.read_bytes()
    except OSError as err:
        raise error("file_error", f"{bundle} cannot be read: {err.strerror}") from err
    report = verify_bundle(data, load_trust(trust) if trust else None)
    if output == "json":
        print_json(report)
    else:
        _print_report(report)
    if not report.ok:
        sys.exit(EXIT_REFUSED)


def _print_report(report: Any) -> None:
    for node in report.nodes:
        if node.fault is None:
            sign, text = click.style("ok", fg="green"), f"{node.length} receipts, head {node.head[:16]}"
        else:
            sign, text = click.style("BROKEN", fg="red"), f"receipt {node.fault.index}: {node.fault.message}"
        click.echo(f"{sign:6} {node.node_id}  {text}")
    if not report.anchored:
        click.echo("note: keys are not anchored to a trust root; pass --trust trust.json to anchor them")
