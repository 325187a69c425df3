"""Checkpoints from the store: made when a chain has grown, over what really follows, and never twice."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from hostler.base.digest import sha256_hex
from hostler.base.errors import HostlerError
from hostler.control.api.bundles import Bundles
from hostler.control.kernel.commands import MakeCheckpoint, RecordCountersignature
from hostler.control.loops.checkpoints import CheckpointMaker
from hostler.pki.bundle import Bundle, BundleReport, NodeKey, verify_bundle
from hostler.pki.checkpoint import Checkpoint, countersign, open_checkpoint, tree_of
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import encode_key
from hostler.wire.report import TaskReport, TaskStatus
from support.control import ADMIN, FakeNode, Fleet, fleet_in
from support.keys import DOMAIN, NOW, Keys
from support.ledger import Ledger, keyset_with_witness


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_in(tmp_path) as made:
        yield made


async def tell(fleet: Fleet, node: FakeNode, receipts: Sequence[bytes], first: int = 0) -> None:
    """The node reports receipts, claiming indexes from `first` on."""
    for index, receipt in enumerate(receipts, first):
        body = TaskReport(
            task_id="",
            attempt_uid="",
            status=TaskStatus.REFUSED,
            receipt=receipt,
            receipt_digest=sha256_hex(receipt),
            chain_index=index,
        )
        await fleet.report(node, body)


async def newest(fleet: Fleet, keys: Keys | None = None) -> Checkpoint:
    stored = await fleet.engine.reader.newest_checkpoint()
    assert stored is not None
    checkpoint = open_checkpoint(stored.envelope, [(keys or fleet.keys).dispatch.public])
    assert checkpoint.digest == stored.digest
    return checkpoint


async def exported(fleet: Fleet, ledger: Ledger) -> BundleReport:
    """What a verifier makes of the export; the fleet's nodes have no keys, so they get those of the ledger."""
    bundles = Bundles(DOMAIN, lambda: [keyset_with_witness(fleet.keys, ledger.witness)])
    bundle = msgspec.json.decode(await bundles.make(fleet.engine.reader), type=Bundle)
    nodes = {
        name: msgspec.structs.replace(chain, keys=(NodeKey(encode_key(ledger.signers[name].public)),))
        for name, chain in bundle.nodes.items()
    }
    return verify_bundle(msgspec.json.encode(msgspec.structs.replace(bundle, nodes=nodes)))


def found_in(report: BundleReport) -> dict[str, tuple[int, int | None]]:
    """Node → how far it is covered, and the index of its fault."""
    return {each.node_id: (each.covered, each.fault.index if each.fault else None) for each in report.nodes}


async def test_a_checkpoint_is_over_every_chain_and_names_the_one_before(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    a, b = await fleet.enroll("gpu-1"), await fleet.enroll("gpu-2")
    assert await maker.make() is None  # there is nothing to say
    ledger.grow(a.node_id, 2)
    await tell(fleet, a, ledger.chains[a.node_id])
    assert await maker.make() == 0
    assert await maker.make() is None
    first = await newest(fleet)
    ledger.grow(b.node_id, 3)
    await tell(fleet, b, ledger.chains[b.node_id])
    assert await maker.make() == 1
    second = await newest(fleet)
    tree, _ = tree_of(ledger.heads().values())
    assert (second.previous, second.nodes, second.receipts, second.root) == (first.digest, 2, 5, tree.root.hex())
    assert (second.control_epoch, second.trust_domain, second.cluster_id) == (1, DOMAIN, DOMAIN)


async def test_a_restart_goes_on_from_what_is_stored(tmp_path: Path) -> None:
    ledger, keys = Ledger(), Keys()
    async with fleet_in(tmp_path, keys=keys) as fleet:
        node = await fleet.enroll("gpu-1")
        ledger.grow(node.node_id, 2)
        await tell(fleet, node, ledger.chains[node.node_id])
        assert await CheckpointMaker(fleet.engine).make() == 0
    async with fleet_in(tmp_path, keys=keys) as fleet:
        maker = CheckpointMaker(fleet.engine)
        assert await maker.make() is None
        ledger.grow(node.node_id, 1)
        await tell(fleet, node, ledger.chains[node.node_id][2:], first=2)
        assert await maker.make() == 1
        assert (await newest(fleet)).receipts == 3


async def test_a_new_dispatch_key_signs_what_stands(tmp_path: Path) -> None:
    """So that a verifier with the newest keyset alone finds a checkpoint that it can check."""
    ledger, keys = Ledger(), Keys()
    async with fleet_in(tmp_path, keys=keys) as fleet:
        node = await fleet.enroll("gpu-1")
        await tell(fleet, node, ledger.grow(node.node_id).chains[node.node_id])
        await CheckpointMaker(fleet.engine).make()
    keys.dispatch = new_ed25519()
    async with fleet_in(tmp_path, keys=keys) as fleet:
        maker = CheckpointMaker(fleet.engine)
        assert await maker.make() == 1
        assert await maker.make() is None
        assert (await newest(fleet)).receipts == 1


async def test_a_hole_in_a_chain_stops_its_head_and_nobody_else_s(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    a, b = await fleet.enroll("gpu-1"), await fleet.enroll("gpu-2")
    chain = ledger.grow(a.node_id, 4).chains[a.node_id]
    await tell(fleet, a, chain[:2])
    await tell(fleet, a, chain[3:], first=3)
    await tell(fleet, b, ledger.grow(b.node_id).chains[b.node_id])
    await maker.make()
    assert (await newest(fleet)).receipts == 3
    report = await exported(fleet, ledger)
    assert found_in(report) == {a.node_id: (2, 2), b.node_id: (1, None)}


async def test_a_node_s_rubbish_breaks_its_own_chain_and_not_the_bundle(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    a, b = await fleet.enroll("gpu-1"), await fleet.enroll("gpu-2")
    chain = ledger.grow(a.node_id, 3).chains[a.node_id]
    await tell(fleet, a, [chain[0], b'"},"x":{', b" " + chain[1] + b"\n", chain[2]])
    await tell(fleet, b, ledger.grow(b.node_id).chains[b.node_id])
    await maker.make()
    assert (await newest(fleet)).receipts == 2
    report = await exported(fleet, ledger)
    assert found_in(report) == {a.node_id: (1, 1), b.node_id: (1, None)}


async def test_a_second_history_of_a_node_s_own_does_not_move_its_head(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    node = await fleet.enroll("gpu-1")
    chain = ledger.grow(node.node_id, 3).chains[node.node_id]
    other = Ledger(signers=ledger.signers).grow(node.node_id, 3, name="x").chains[node.node_id]
    await tell(fleet, node, chain)
    await maker.make()
    await tell(fleet, node, other)
    await tell(fleet, node, ledger.grow(node.node_id).chains[node.node_id][3:], first=3)
    await maker.make()
    checkpoint, heads = await newest(fleet), await fleet.engine.reader.heads_as_of(1)
    assert (checkpoint.receipts, [head.digest for head in heads]) == (4, [ledger.heads()[node.node_id].digest])


async def test_a_checkpoint_made_from_an_old_look_is_refused(fleet: Fleet) -> None:
    command = MakeCheckpoint(index=1, heads=(), root="", nodes=0, receipts=0)
    with pytest.raises(HostlerError) as caught:
        await fleet.execute(command)
    assert caught.value.code == "internal_error"
    assert await fleet.engine.reader.newest_checkpoint() is None


async def test_a_clock_that_was_set_back_does_not_date_a_checkpoint_before_the_last(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    node = await fleet.enroll("gpu-1")
    await tell(fleet, node, ledger.grow(node.node_id).chains[node.node_id])
    await maker.make()
    before = (await newest(fleet)).at_ms
    fleet.clock.move(-60_000)
    await tell(fleet, node, ledger.grow(node.node_id).chains[node.node_id][1:], first=1)
    await maker.make()
    assert (await newest(fleet)).at_ms == before


async def test_a_countersignature_is_kept_for_the_checkpoint_it_is_about_and_once(fleet: Fleet) -> None:
    ledger, maker = Ledger(), CheckpointMaker(fleet.engine)
    node = await fleet.enroll("gpu-1")
    await tell(fleet, node, ledger.grow(node.node_id).chains[node.node_id])
    await maker.make()
    checkpoint = await newest(fleet)
    word = RecordCountersignature(
        actor=ADMIN,
        index=0,
        checkpoint=checkpoint.digest,
        keyid=ledger.witness.public.key_id,
        document=countersign(checkpoint, ledger.witness, NOW),
    )
    with pytest.raises(HostlerError) as caught:
        await fleet.execute(msgspec.structs.replace(word, checkpoint="0" * 64))
    assert caught.value.code == "not_found"
    assert (await fleet.engine.reader.checkpoint_times()).unwitnessed == 1
    await fleet.execute(word)
    await fleet.execute(word)
    stored = await fleet.engine.reader.newest_witnessed()
    assert stored is not None
    assert stored.countersignatures == (word.document,)
    times = await fleet.engine.reader.checkpoint_times()
    assert (times.made_ms, times.witnessed_ms, times.unwitnessed) == (checkpoint.at_ms, checkpoint.at_ms, 0)
