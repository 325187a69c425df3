"""`hostler releases publish` and `check`: a repository to a control plane, and one package against signed metadata."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.cli.client import Client, quoted
from hostler.cli.output import guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings

if TYPE_CHECKING:
    from hostler.pki.releases import Release

PATH = "/api/v1/admin/agent-releases"
METADATA = "/packages/v1/metadata.json"
_CHUNK = 1 << 20
_SHA256 = re.compile("[0-9a-f]{64}", re.ASCII)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def add_to(group: click.Group) -> None:
    group.add_command(publish)
    group.add_command(check)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@output_option
@click.pass_obj
@guarded
def publish(settings: Settings, directory: Path, output: str) -> None:
    """Put the releases in DIRECTORY in force at the control plane, with the packages that it lacks.

    It judges the metadata by its own keyset before it keeps anything. Do the same after every refresh.
    """
    from hostler.pki.releases import pack_metadata

    client, document = Client(settings), pack_metadata(directory)
    judged = client.call("PUT", PATH, content=document)
    for wanted in judged["missing"]:
        _send(client, directory, wanted, quiet=output == "json")
    if judged["missing"]:
        judged = client.call("PUT", PATH, content=document)
    if not judged["published"]:
        raise error("release_missing", "the control plane still lacks packages", hint="run the same command again")
    if output == "json":
        print_json(judged)
        return
    new = ", ".join(judged["new"]) or "nothing new"
    print_done(judged, output, f"published {directory}: {new}")


def _send(client: Client, directory: Path, wanted: dict[str, Any], *, quiet: bool) -> None:
    path = _package(directory, wanted)
    if not quiet:
        click.echo(f"sending {path.name} ({wanted['size_bytes'] / 1e6:.1f} MB)", err=True)
    client.send(f"{PATH}/packages/{quoted(wanted['sha256'])}", _chunks(path), path.stat().st_size)


def _package(directory: Path, wanted: dict[str, Any]) -> Path:
    """TUF keeps targets under their digest, so that two states of a repository may stand side by side."""
    from hostler.pki.release_files import TARGETS

    path = directory / TARGETS / f"{wanted['sha256']}.{wanted['file']}"
    if not path.exists():
        raise error("release_missing", f"{path} is not there", hint="'hostler releases verify' says what is wrong")
    return path


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data


@click.command()
@click.argument("package")
@click.option("--trust", required=True, type=_FILE, help="trust.json: its keyset says whose signatures count")
@click.option("--metadata", type=_FILE, help="metadata.json, as it is served  [asked of the control plane]")
@output_option
@click.pass_obj
@guarded
def check(settings: Settings, package: str, metadata: Path | None, trust: Path, output: str) -> None:
    """Whether PACKAGE, a file or the SHA-256 of one, is a release that enough update keys have signed.

    The control plane is asked for the signed metadata and believed in nothing: TRUST says whose signatures count.
    Exits 1 for a package that is none.
    """
    from hostler.cli.releases import keyset_of
    from hostler.pki.releases import parse_metadata, verify_releases

    now_ms, digest = SystemClock().now_ms(), _digest_of(package)
    document = metadata.read_bytes() if metadata else msgspec.json.encode(Client(settings).call("GET", METADATA))
    verified = verify_releases(parse_metadata(document), keyset_of(trust, now_ms), {}, now_ms)
    release = _signed(package, digest, verified.releases)
    print_done(msgspec.to_builtins(release), output, f"{package} is release {release.version} for {release.suite}")


def _digest_of(package: str) -> str:
    path = Path(package)
    if _SHA256.fullmatch(package) and not path.exists():
        return package
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as err:
        raise error("invalid_request", f"{package} cannot be read: {err.strerror}; nor is it a SHA-256") from err


def _signed(package: str, digest: str, releases: "tuple[Release, ...]") -> "Release":
    for release in releases:
        if release.sha256 == digest:
            return release
    raise error("release_untrusted", f"{package} is none of the {len(releases)} releases that are signed")
