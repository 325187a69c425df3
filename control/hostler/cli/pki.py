"""`hostler pki`: the trust root, made and kept offline."""

from pathlib import Path

import click

from hostler.base.clock import SystemClock
from hostler.cli.output import guarded, output_option, print_json


@click.group(name="pki")
def command() -> None:
    """Make and look at the trust root, keyset and keys."""


@command.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--trust-domain", required=True, help="name of the fleet, such as gpu.example.com")
@click.option("--cluster", default="main", show_default=True, help="name of this control plane")
@click.option("--host", "hosts", multiple=True, help="DNS name or address of the control plane (repeatable)")
@click.option("--root-keys", default=1, show_default=True, help="number of root keys")
@click.option("--root-threshold", default=1, show_default=True, help="root keys that must sign a keyset")
@output_option
@guarded
def init(
    directory: Path,
    trust_domain: str,
    cluster: str,
    hosts: tuple[str, ...],
    root_keys: int,
    root_threshold: int,
    output: str,
) -> None:
    """Make every key of a new fleet in DIRECTORY, which must be empty.

    \b
    DIRECTORY/root/      root keys: take them offline, they sign keysets only
    DIRECTORY/catalog/   catalog key: take it offline, it signs profiles
    DIRECTORY/control/   what the control plane needs (dispatch key, CA, server certificate, keyset)
    DIRECTORY/trust.json what every node is given together with its enrolment token
    """
    from hostler.pki import ceremony

    made = ceremony.init(
        directory,
        trust_domain=trust_domain,
        cluster_id=cluster,
        hosts=hosts or ("127.0.0.1", "localhost"),
        now_ms=SystemClock().now_ms(),
        root_count=root_keys,
        root_threshold=root_threshold,
    )
    if output == "json":
        print_json({"directory": str(directory), "files": [str(path) for path in made]})
        return
    for path in made:
        click.echo(f"  made {path}")
    click.echo("\nNext: move root/ and catalog/ off this machine, then")
    click.echo(f"  hostler profiles sign profiles --key {directory}/catalog/catalog.key -o catalog.json")


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True))
@output_option
@guarded
def show(directory: Path, output: str) -> None:
    """What DIRECTORY holds: keys by role, versions, expiry. No private key is printed."""
    from hostler.pki import ceremony

    described = ceremony.describe(directory)
    if output == "json":
        print_json(described)
        return
    for name, value in described.items():
        click.echo(f"{name:24} {value}")
