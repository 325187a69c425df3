"""`hostler releases`: signed releases of the agent, made offline: a TUF repository rooted in the keyset."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.cli.output import EXIT_REFUSED, guarded, output_option, print_done, print_json, table
from hostler.cli.releases_publish import add_to

if TYPE_CHECKING:
    from hostler.pki.keys import X509Signer
    from hostler.pki.keyset import Keyset
    from hostler.pki.release_repo import Publisher
    from hostler.pki.releases import Release, VerifiedReleases

_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_KEY = click.Path(path_type=Path)
_keys = click.option(
    "--key", "keys", multiple=True, required=True, type=_KEY, help="key that signs: a file, or one that names a token"
)
_trust = click.option(
    "--trust",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="trust.json: its keyset says whose signatures count",
)
_days = click.option(
    "--fresh-days", type=click.IntRange(1, 365), default=30, show_default=True, help="how long until the next refresh"
)
_fresh = click.option(
    "--fresh-key",
    "fresh_keys",
    multiple=True,
    type=_KEY,
    help="key that only keeps the repository fresh; made if it is not there [the update keys do it]",
)


@click.group(name="releases")
def command() -> None:
    """Publish signed releases of the agent.

    \b
    Once, with the update key at hand (see 'hostler pki init'):
      hostler releases init DIR --trust trust.json --key update.key --fresh-key fresh.key
    For each release, and before timestamp and snapshot expire:
      hostler releases add DIR hostler-agent_1.2.3-1~deb12u1_amd64.deb --channel candidate ...
      hostler releases refresh DIR --trust trust.json --key fresh.key
      hostler releases publish DIR

    DIR is a TUF repository. Nothing in it is signed again before it was verified. Without --fresh-key the update
    keys are needed for every refresh.
    """


add_to(command)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@_trust
@_keys
@_fresh
@_days
@output_option
@guarded
def init(directory: Path, fresh_keys: tuple[Path, ...], output: str, **options: Any) -> None:
    """Make an empty repository in DIRECTORY, signed by update keys of the keyset."""
    from hostler.pki import release_repo

    fresh = [_made_or_loaded(path) for path in fresh_keys]
    by = _publisher(options, output, fresh)
    verified = release_repo.init(directory, by, [signer.public for signer in fresh])
    _done(directory, verified, output, f"made {directory}; add a release with: hostler releases add {directory}")


@command.command()
@click.argument("directory", type=_DIRECTORY)
@click.argument("package", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--channel", "channels", multiple=True, required=True, type=click.Choice(["stable", "candidate"]), help="repeatable"
)
@click.option("--replaces", multiple=True, help="higher version from which a node may go down to this one (repeatable)")
@click.option("--notes", default="", help="a short text for people")
@_trust
@_keys
@_days
@output_option
@guarded
def add(directory: Path, package: Path, output: str, **options: Any) -> None:
    """Release PACKAGE, a .deb of the agent, or change the channels and notes of one that is released.

    Version, commit and suite are read out of the package, every file of which is compared with its manifest.
    """
    from hostler.pki import release_repo

    facts = release_repo.Facts(tuple(dict.fromkeys(options["channels"])), options["replaces"], options["notes"])
    release, verified = release_repo.add(directory, _publisher(options, output), package, facts)
    text = f"released {release.version} for {release.suite} to {', '.join(release.channels)}, commit {release.commit}"
    if release.replaces:
        text += f"\n  nodes may go down to it from {', '.join(release.replaces)}"
    _done(directory, verified, output, text)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@click.argument("version")
@click.option("--suite", required=True, help="Debian release it was made for")
@_trust
@_keys
@_days
@output_option
@guarded
def withdraw(directory: Path, version: str, suite: str, output: str, **options: Any) -> None:
    """Offer VERSION no more. Nodes that run it go on; a later release replaces it."""
    from hostler.pki import release_repo

    verified = release_repo.withdraw(directory, _publisher(options, output), version, suite)
    _done(directory, verified, output, f"withdrew {version} for {suite}")


@command.command()
@click.argument("directory", type=_DIRECTORY)
@_trust
@_keys
@_days
@output_option
@guarded
def refresh(directory: Path, output: str, **options: Any) -> None:
    """Sign timestamp and snapshot anew, before they expire and nodes take no release any more.

    With the update keys at hand, root and targets too, once they have less than half a year left.
    """
    from hostler.pki import release_repo

    verified = release_repo.refresh(directory, _publisher(options, output))
    _done(directory, verified, output, f"refreshed {directory}")


@command.command()
@click.argument("directory", type=_DIRECTORY)
@_trust
@_keys
@click.option("--retire", "retiring", multiple=True, type=_KEY, help="update key that signs once more, and is left out")
@_fresh
@_days
@output_option
@guarded
def rotate(
    directory: Path, retiring: tuple[Path, ...], fresh_keys: tuple[Path, ...], output: str, **options: Any
) -> None:
    """Hand DIRECTORY over to the update keys that the keyset names now, less those that retire.

    Between 'hostler pki rotate update' to activate and to retire, once the nodes have proved the keyset.
    """
    from hostler.pki import release_repo
    from hostler.pki.ceremony import load_signer

    fresh = [_made_or_loaded(path) for path in fresh_keys]
    verified = release_repo.rotate(
        directory,
        _publisher(options, output, fresh),
        [load_signer(path) for path in retiring],
        [signer.public for signer in fresh],
    )
    _done(directory, verified, output, f"handed over {directory}: root {verified.versions['root']}")


@command.command(name="list")
@click.argument("directory", type=_DIRECTORY)
@_trust
@output_option
@guarded
def list_(directory: Path, trust: Path, output: str) -> None:
    """The releases that DIRECTORY offers, signatures checked, expired or not."""
    from hostler.pki import release_repo

    now_ms = SystemClock().now_ms()
    by = release_repo.Publisher(keyset_of(trust, now_ms), (), now_ms)
    verified = release_repo.present(directory, by, lapsed=True)
    _print_releases(directory, verified, output)
    if output == "text" and verified.expires_ms <= now_ms:
        click.echo("expired: nodes take none of these until it is refreshed", err=True)


@command.command()
@click.argument("directory", type=_DIRECTORY)
@_trust
@output_option
@guarded
def verify(directory: Path, trust: Path, output: str) -> None:
    """Judge DIRECTORY as a node would, and compare every package with what was signed. Exits 1 for a wrong one."""
    from hostler.pki import release_repo
    from hostler.pki.releases import pack_metadata, parse_metadata, verify_releases

    now_ms = SystemClock().now_ms()
    verified = verify_releases(parse_metadata(pack_metadata(directory)), keyset_of(trust, now_ms), {}, now_ms)
    wrong = release_repo.check_packages(directory, verified.releases)
    _print_releases(directory, verified, output, {release.file: why for release, why in wrong})
    if wrong:
        raise SystemExit(EXIT_REFUSED)


def _publisher(options: dict[str, Any], output: str, fresh: "list[X509Signer] | None" = None) -> "Publisher":
    from hostler.pki import release_repo
    from hostler.pki.ceremony import load_signer

    signers = [*(load_signer(path) for path in options["keys"]), *(fresh or ())]
    now_ms = SystemClock().now_ms()
    keyset = keyset_of(options["trust"], now_ms)
    tell = _tell if output == "text" else lambda _: None
    return release_repo.Publisher(keyset, signers, now_ms, options["fresh_days"], tell)


def _tell(line: str) -> None:
    click.echo(f"  {line}", err=True)


def keyset_of(trust: Path, now_ms: int) -> "Keyset":
    from hostler.pki.trust import TrustStore
    from hostler.pki.trust_files import load_trust

    store = TrustStore(load_trust(trust), now_ms)
    store.check_fresh(now_ms)
    return store.keyset


def _made_or_loaded(path: Path) -> "X509Signer":
    from hostler.pki.ceremony import load_signer
    from hostler.pki.keys import new_ed25519
    from hostler.pki.storage import write_private

    if not path.exists():
        if not path.parent.is_dir():
            raise error("invalid_config", f"{path.parent} does not exist, so no key can be made there")
        write_private(path, new_ed25519().to_pem())
    return load_signer(path)


def _print_releases(
    directory: Path, verified: "VerifiedReleases", output: str, wrong: dict[str, str] | None = None
) -> None:
    if output == "json":
        print_json(_told(directory, verified) | ({} if wrong is None else {"wrong_packages": wrong}))
        return
    checked = wrong is not None
    headings = ("VERSION", "SUITE", "CHANNELS", "COMMIT", "REPLACES", *(("PACKAGE",) if checked else ()), "NOTES")
    table(headings, [_row(release, wrong) for release in verified.releases])
    click.echo(_good_until(verified))


def _row(release: "Release", wrong: dict[str, str] | None) -> tuple[str, ...]:
    verdict = () if wrong is None else (wrong.get(release.file, "ok"),)
    channels, replaces = ",".join(release.channels), ",".join(release.replaces)
    return (release.version, release.suite, channels, release.commit[:12], replaces, *verdict, release.notes)


def _done(directory: Path, verified: "VerifiedReleases", output: str, text: str) -> None:
    print_done(_told(directory, verified), output, f"{text}\n{_good_until(verified)}")


def _told(directory: Path, verified: "VerifiedReleases") -> dict[str, Any]:
    return {
        "directory": str(directory),
        "versions": verified.versions,
        "expires_ms": verified.expires_ms,
        "releases": msgspec.to_builtins(verified.releases),
    }


def _good_until(verified: "VerifiedReleases") -> str:
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(verified.expires_ms / 1000, UTC)
    return f"good until {moment:%Y-%m-%d %H:%M} UTC"
