"""`hostler catalog`: a reviewable way from YAML to a signed catalog, with as many signers as it takes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.cli.client import Client
from hostler.cli.output import EXIT_REFUSED, check_target, guarded, output_option, print_done, print_json, table
from hostler.cli.settings import Settings

if TYPE_CHECKING:
    from hostler.catalog.proposal import Proposal
    from hostler.pki.keyset import Keyset

_DAY_MS = 86_400_000
_KEY = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group(name="catalog")
def command() -> None:
    """Propose, review, sign and publish catalogs.

    \b
    hostler catalog propose profiles -o proposal.json --base catalog.json
    hostler catalog review proposal.json --base catalog.json     what would change
    hostler catalog sign proposal.json --key catalog.key         each signer, where the key is
    hostler catalog publish proposal.json

    What destroys or runs as root needs the approvers' signatures besides the catalog key's.
    """


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--base", type=_FILE, help="the catalog in use: its approvals are kept for what has not changed")
@click.option("--version", "number", type=click.IntRange(min=1), help="catalog version [default: minutes since 1970]")
@click.option(
    "--valid-days", type=click.IntRange(1, 3650), default=180, show_default=True, help="how long the catalog is good"
)
@click.option("--file", "-o", "target", required=True, type=click.Path(path_type=Path), help="proposal to write")
@output_option
@guarded
def propose(directory: Path, base: Path | None, target: Path, output: str, **options: Any) -> None:
    """Lint DIRECTORY and write it down as a proposal that nobody has signed yet."""
    from hostler.catalog.proposal import changes

    check_target(target)
    before = _read(base) if base else None
    proposal = build(directory, before, options["number"], options["valid_days"])
    target.write_bytes(proposal.to_bundle())
    found = changes(proposal, before)
    body = {"file": str(target), "version": proposal.said.version, "changes": [change._asdict() for change in found]}
    lines = [f"wrote {target}: catalog version {proposal.said.version}"]
    lines += [f"  {change.what:8} {change.name}{'  needs approval' if change.approval else ''}" for change in found]
    print_done(body, output, "\n".join([*lines, f"sign it with: hostler catalog sign {target} --key KEY"]))


@command.command()
@click.argument("proposal", type=_FILE)
@click.option("--base", type=_FILE, help="the catalog it is to replace")
@click.option("--keyset", type=_FILE, help="count the signatures that this keyset asks for")
@output_option
@guarded
def review(proposal: Path, base: Path | None, keyset: Path | None, output: str) -> None:
    """What PROPOSAL would change, and which signatures it still lacks. Exits 1 while it lacks any."""
    from hostler.catalog.proposal import changes, standing

    read = _read(proposal)
    found = changes(read, _read(base) if base else None)
    owed = standing(read, _keyset(keyset)) if keyset else None
    if output == "json":
        print_json(
            {
                "version": read.said.version,
                "changes": [change._asdict() for change in found],
                "missing": None if owed is None else {"manifest": owed.manifest, "approvals": owed.approvals},
            }
        )
    else:
        rows = [(change.what, change.name, "approval" if change.approval else "") for change in found]
        table(("CHANGE", "NAME", "NEEDS"), rows)
        if owed is not None:
            click.echo(f"signatures missing: catalog {owed.manifest}, approvals {owed.approvals or 'none needed'}")
    if owed is not None and not owed.complete:
        raise SystemExit(EXIT_REFUSED)


@command.command()
@click.argument("proposal", type=_FILE)
@click.option(
    "--key", "keys", multiple=True, required=True, type=click.Path(path_type=Path), help="catalog or approver key"
)
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), help="write here instead of into PROPOSAL")
@output_option
@guarded
def sign(proposal: Path, keys: tuple[Path, ...], target: Path | None, output: str) -> None:
    """Sign PROPOSAL, its approvals included. Review it first: this is what you vouch for."""
    from hostler.catalog.proposal import sign as add
    from hostler.pki.ceremony import load_signer

    check_target(target)
    signed = add(_read(proposal), [load_signer(key) for key in keys])
    written = target or proposal
    written.write_bytes(signed.to_bundle())
    body = {"file": str(written), "signatures": len(signed.manifest.signatures), "approvals": sorted(signed.approvals)}
    print_done(body, output, f"signed {written}: {len(signed.manifest.signatures)} signatures on the manifest")


@command.command()
@click.argument("copies", nargs=-1, required=True, type=_FILE)
@click.option("--file", "-o", "target", required=True, type=click.Path(path_type=Path), help="file to write")
@output_option
@guarded
def merge(copies: tuple[Path, ...], target: Path, output: str) -> None:
    """Bring the signatures of several COPIES of one proposal together."""
    from hostler.catalog.proposal import merge as both

    check_target(target)
    merged = _read(copies[0])
    for copy in copies[1:]:
        merged = both(merged, _read(copy))
    target.write_bytes(merged.to_bundle())
    count = len(merged.manifest.signatures)
    text = f"wrote {target}: {count} signatures on the manifest"
    print_done({"file": str(target), "signatures": count}, output, text)


@command.command()
@click.argument("proposal", type=_FILE)
@output_option
@click.pass_obj
@guarded
def publish(settings: Settings, proposal: Path, output: str) -> None:
    """Register a signed PROPOSAL with the control plane; connected nodes get it at once."""
    answer = Client(settings).call("POST", "/api/v1/admin/operation-definitions", content=proposal.read_bytes())
    print_done(answer, output, f"published {proposal}: {len(answer['registered'])} new definitions")


def build(directory: Path, base: "Proposal | None", number: int | None, valid_days: int) -> "Proposal":
    """The proposal that a directory of YAML makes. Raises `invalid_definition` for the linter's first finding."""
    from hostler.catalog.lint import lint
    from hostler.catalog.load import load_profiles
    from hostler.catalog.manifest import make_manifest
    from hostler.catalog.proposal import propose as make

    profiles = load_profiles(directory)
    findings = lint(profiles)
    if findings:
        first = findings[0]
        where = f"{first.file}:{first.line}"
        raise error("invalid_definition", f"{where}: {first.message} ({len(findings)} findings)")
    now_ms = SystemClock().now_ms()
    definitions = [definition for definition, _ in profiles.definitions]
    commands = [profile for profile, _ in profiles.commands]
    version = number or now_ms // 60_000
    configs = profiles.configs
    lifetime_ms = valid_days * _DAY_MS
    manifest = make_manifest(version, definitions, commands, configs, now_ms=now_ms, lifetime_ms=lifetime_ms)
    return make(manifest, definitions, commands, base, configs.values())


def _read(path: Path) -> "Proposal":
    from hostler.catalog.proposal import read_proposal

    try:
        return read_proposal(path.read_bytes())
    except msgspec.MsgspecError as err:
        raise error("invalid_request", f"{path} is no catalog") from err


def _keyset(path: Path) -> "Keyset":
    from hostler.pki.ceremony import read_keyset

    return read_keyset(path.read_bytes())
