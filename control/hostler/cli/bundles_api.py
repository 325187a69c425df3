"""A workspace to the control plane: packed, asked for by its digest, and sent only where it is not there."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click

from hostler.base.errors import HostlerError
from hostler.cli.bundle_pack import MAX_BYTES, pack
from hostler.cli.client import Client, quoted
from hostler.cli.operations_api import project_of
from hostler.cli.quantities import shown_bytes
from hostler.cli.settings import Settings

_CHUNK = 1 << 20


def bundles_path(settings: Settings) -> str:
    return f"/api/v1/projects/{quoted(project_of(settings))}/bundles"


def sent(client: Client, settings: Settings, folder: Path, *, quiet: bool, most_bytes: int = MAX_BYTES) -> str:
    """The digest of the bundle that the project holds now."""
    packed = pack(folder, most_bytes)
    try:
        path = f"{bundles_path(settings)}/{packed.sha256}"
        if not _is_there(client, path):
            if not quiet:
                what = f"{packed.entries} files, {shown_bytes(packed.size)}"
                click.echo(f"sending {folder} ({what}) as bundle {packed.sha256[:12]}", err=True)
            client.send(path, _chunks(packed.file), packed.size)
    finally:
        packed.file.close()
    return packed.sha256


def _is_there(client: Client, path: str) -> bool:
    try:
        client.call("GET", path)
    except HostlerError as err:
        if err.code != "not_found":
            raise
        return False
    return True


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(_CHUNK):
        yield data
