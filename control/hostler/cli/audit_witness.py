"""`hostler audit witness` and what goes with it: a second party that remembers what the control plane has shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hostler.cli.client import Client
from hostler.cli.output import check_target, guarded, output_option, print_done, print_json
from hostler.cli.settings import Settings

PATH = "/api/v1/admin/checkpoints"
_PAGE = 20  # a checkpoint comes with all receipts since the one before


@click.command(name="witness-key")
@click.argument("target", type=click.Path(path_type=Path))
@output_option
@guarded
def witness_key(target: Path, output: str) -> None:
    """Make a witness's key in TARGET and show its public part, which the root puts into the keyset."""
    from hostler.base.errors import error
    from hostler.pki.keys import new_ed25519
    from hostler.pki.keyset import encode_key
    from hostler.pki.storage import write_private

    check_target(target)
    if target.exists():
        raise error("already_initialised", f"{target} exists; a key is never overwritten")
    signer = new_ed25519()
    write_private(target, signer.to_pem())
    made = {"file": str(target), "role": "witness", "keyid": signer.public.key_id, "key": encode_key(signer.public)}
    print_done(made, output, f"made {target}\n  keyid {made['keyid']}\n  key   {made['key']}")


@click.command(name="checkpoints")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), required=True, help="file to write")
@click.option("--after", type=click.IntRange(min=0), help="only those after this index")
@output_option
@click.pass_obj
@guarded
def checkpoints(settings: Settings, target: Path, after: int | None, output: str) -> None:
    """Write checkpoints, with the receipts that they are over, to a file for a witness without a network."""
    import msgspec

    from hostler.pki.checkpoint import CheckpointPage

    check_target(target)
    pages = [page for page, _ in _pages(Client(settings), after)]
    items = tuple(item for page in pages for item in page.items)
    target.write_bytes(msgspec.json.encode(CheckpointPage(items=items, keysets=pages[-1].keysets)))
    print_done({"file": str(target), "checkpoints": len(items)}, output, f"wrote {target} ({len(items)} checkpoints)")


@click.command()
@click.argument("checkpoints", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option("--key", type=click.Path(path_type=Path, exists=True), required=True, help="the witness's private key")
@click.option(
    "--state", type=click.Path(path_type=Path), required=True, help="what the witness remembers; keep it safe"
)
@click.option("--trust", type=click.Path(path_type=Path, exists=True), required=True, help="trust.json of the fleet")
@click.option("--file", "-o", "target", type=click.Path(path_type=Path), help="write the countersignature to a file")
@output_option
@click.pass_obj
@guarded
def witness(
    settings: Settings,
    checkpoints: Path | None,
    key: Path,
    state: Path,
    trust: Path,
    target: Path | None,
    output: str,
) -> None:
    """Countersign the newest checkpoint, if it extends everything that was seen before.

    Reads CHECKPOINTS, a file made by 'audit checkpoints', or without it asks the control plane and hands the
    countersignature in. A fork or a rollback is refused with exit code 1; what was refused is kept beside the
    state file, as evidence.
    """
    from hostler.base.clock import SystemClock
    from hostler.pki.ceremony import load_signer
    from hostler.pki.trust_files import load_trust
    from hostler.pki.witness_files import attend, load_state

    if checkpoints is not None and target is None:
        raise click.UsageError("with a file of checkpoints, name one for the countersignature: -o FILE")
    check_target(target)
    check_target(state)
    client = Client(settings) if checkpoints is None else None
    last = load_state(state).index  # asked for again, to see whether it is still the same
    pages = _pages(client, last - 1 if last > 0 else None) if client else _from_file(checkpoints)
    made = attend(state, pages, load_trust(trust), load_signer(key), SystemClock().now_ms())
    if made is None:
        print_done({"index": None}, output, "there is no checkpoint yet")
        return
    if target is not None:
        target.write_bytes(made.countersignature)
    if client is not None:
        _hand_in(client, made.index, made.countersignature)
    about = {"index": made.index, "digest": made.digest, "news": made.news, "nodes": made.nodes}
    text = f"countersigned checkpoint {made.index} ({made.news} new): {made.receipts} receipts of {made.nodes} nodes"
    print_done(about | {"receipts": made.receipts}, output, text)


@click.command()
@click.argument("countersignature", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_option
@click.pass_obj
@guarded
def countersign(settings: Settings, countersignature: Path, output: str) -> None:
    """Hand in a COUNTERSIGNATURE that 'audit witness' wrote to a file."""
    from hostler.base.strict import decode_json
    from hostler.pki import dsse
    from hostler.pki.checkpoint import Countersignature

    data = countersignature.read_bytes()
    word = decode_json(dsse.from_json(data).payload, Countersignature, what="countersignature")
    answer = _hand_in(Client(settings), word.index, data)
    if output == "json":
        print_json(answer)
    else:
        click.echo(f"checkpoint {word.index} is countersigned by {answer['keyid'][:16]}")


COMMANDS = (witness_key, checkpoints, witness, countersign)


def _pages(client: Client | None, after: int | None) -> Iterator[tuple[Any, bytes]]:
    """Every page with its bytes: receipts are digested as they came."""
    from hostler.base.strict import decode_json
    from hostler.pki.checkpoint import CheckpointPage

    assert client is not None
    asked: dict[str, Any] = {} if after is None else {"after": after}
    while True:
        data = client.raw(PATH, receipts="true", page_size=_PAGE, **asked)
        page = decode_json(data, CheckpointPage, what="checkpoints")
        yield page, data
        if not page.next_cursor:
            return
        asked = {"cursor": page.next_cursor}


def _from_file(path: Path | None) -> Iterator[tuple[Any, bytes]]:
    from hostler.base.strict import decode_json
    from hostler.pki.checkpoint import CheckpointPage

    assert path is not None
    data = path.read_bytes()
    yield decode_json(data, CheckpointPage, what=str(path)), data


def _hand_in(client: Client, index: int, countersignature: bytes) -> Any:
    import msgspec

    return client.call("POST", f"{PATH}/{index}/countersignatures", body=msgspec.Raw(countersignature))
