"""`hostler jobs bundle`, and the workspace of a job on its way."""

from itertools import islice
from pathlib import Path

import click

from hostler.cli.client import Client
from hostler.cli.jobs_api import client_of
from hostler.cli.output import guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings


def upload(client: Client, settings: Settings, workspace: Path, output: str, most_bytes: int | None) -> str:
    """The bundle's digest. The packer loads here: only a job with a workspace pays for it."""
    from hostler.cli.bundle_pack import MAX_BYTES
    from hostler.cli.bundles_api import sent

    return sent(client, settings, workspace, quiet=output == "json", most_bytes=most_bytes or MAX_BYTES)


@click.group()
def bundle() -> None:
    """See and remove the code bundles that the project keeps."""


@bundle.command(name="list")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="how many at most")
@output_option
@click.pass_obj
@guarded
def list_bundles(settings: Settings, limit: int, output: str) -> None:
    """List the project's code bundles."""
    from hostler.cli.bundles_api import bundles_path
    from hostler.cli.jobs_show import age
    from hostler.cli.quantities import shown_bytes

    pages = client_of(settings).pages(bundles_path(settings), page_size=min(limit, 200))
    items = list(islice(pages, limit))
    if output == "json":
        print_json(items)
        return
    rows = [
        (item["sha256"], shown_bytes(item["size_bytes"]), item["created_by"], age(item["last_used_ms"]))
        for item in items
    ]
    table(("SHA256", "SIZE", "BY", "USED"), rows)


@bundle.command()
@click.argument("sha256")
@output_option
@click.pass_obj
@guarded
def delete(settings: Settings, sha256: str, output: str) -> None:
    """Remove a code bundle that no open job names. Nodes keep their copies until they need the room."""
    from hostler.cli.bundles_api import bundles_path

    done = client_of(settings).call("DELETE", f"{bundles_path(settings)}/{sha256}")
    print_done(done, output, f"removed {sha256}")
