"""Bundles with checkpoints: what is altered, dropped, reordered, inserted, cut off or hidden is named, exactly."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.pki.bundle import Bundle, BundleReport, NodeReport, verify_bundle
from hostler.pki.keys import new_ed25519
from support.keys import NOW
from support.ledger import Ledger, keyset_with_witness

replace = msgspec.structs.replace
NODE, OTHER = "nod_b", "nod_a"


@pytest.fixture
def ledger() -> Ledger:
    """Three nodes; the first checkpoint is witnessed, the second is not."""
    made = Ledger()
    made.grow("nod_a", 3).grow("nod_b", 4).checkpoint()
    made.countersign()
    made.grow("nod_b", 2).grow("nod_c", 1).checkpoint()
    return made


def edited(data: bytes, **changes: Any) -> bytes:
    """A bundle with other receipts for some nodes; None takes a node out."""
    bundle = msgspec.json.decode(data, type=Bundle)
    nodes = dict(bundle.nodes)
    for name, receipts in changes.items():
        if receipts is None:
            del nodes[name]
        else:
            nodes[name] = replace(nodes[name], receipts=tuple(map(msgspec.Raw, receipts)))
    return msgspec.json.encode(replace(bundle, nodes=nodes))


def of(report: BundleReport, node: str) -> NodeReport:
    return next(each for each in report.nodes if each.node_id == node)


def fault(report: BundleReport, node: str = NODE) -> tuple[int, str]:
    found = of(report, node).fault
    assert found is not None
    assert not report.ok
    return found.index, found.kind


def test_a_whole_bundle_is_good_and_says_how_far_it_is_covered(ledger: Ledger) -> None:
    ledger.grow("nod_b", 1)  # after the newest checkpoint
    report = verify_bundle(ledger.bundle(newest=2))
    assert report.ok
    assert [(each.length, each.covered, each.witnessed) for each in report.nodes] == [(3, 3, 3), (7, 6, 4), (1, 1, 0)]
    assert [(each.index, each.witnessed) for each in report.checkpoints] == [(0, True), (1, False)]


def rival(ledger: Ledger, place: int) -> bytes:
    """Another receipt by the node's own key that fits just as well after the ones before `place`."""
    other = Ledger(signers=ledger.signers, chains={NODE: ledger.chains[NODE][:place]})
    return other.grow(NODE, name="x").chains[NODE][place]


def bent(kind: str, ledger: Ledger, place: int) -> list[bytes]:
    """The chain with one thing done to it at `place`."""
    made = list(ledger.chains[NODE])
    if kind == "altered":
        document = msgspec.json.decode(made[place])
        middle = len(document["payload"]) // 2
        flipped = "A" if document["payload"][middle] != "A" else "B"
        document["payload"] = document["payload"][:middle] + flipped + document["payload"][middle + 1 :]
        made[place] = msgspec.json.encode(document)
    elif kind == "dropped":
        del made[place]
    elif kind == "reordered":
        made[place], made[place + 1] = made[place + 1], made[place]
    elif kind == "inserted":
        made.insert(place, rival(ledger, place))
    elif kind == "truncated":
        del made[place:]
    return made


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(2, 7),
    kind=st.sampled_from(["altered", "dropped", "reordered", "inserted", "truncated"]),
    data=st.data(),
)
def test_any_single_change_of_a_chain_is_named_at_its_exact_index(length: int, kind: str, data: st.DataObject) -> None:
    ledger = Ledger().grow(OTHER, 2).grow(NODE, length)
    ledger.checkpoint()
    last = length - 2 if kind == "reordered" else length - 1
    place = data.draw(st.integers(0, last), label="place")
    report = verify_bundle(edited(ledger.bundle(), **{NODE: bent(kind, ledger, place)}))
    found, named = fault(report)
    assert found == place
    # a chain without its last receipt is one that is cut off
    assert named == ("truncated" if kind == "dropped" and place == length - 1 else kind)
    assert of(report, OTHER).fault is None


def test_a_cut_off_end_is_named_with_what_is_missing(ledger: Ledger) -> None:
    report = verify_bundle(edited(ledger.bundle(), nod_b=ledger.chains["nod_b"][:4]))
    assert fault(report) == (4, "truncated")
    found = of(report, NODE).fault
    assert found is not None
    assert "receipts 4 to 5 are missing" in found.message


def test_without_checkpoints_a_cut_off_end_is_not_seen_and_nothing_is_said_to_be_covered(ledger: Ledger) -> None:
    data = edited(ledger.bundle(newest=1), nod_b=ledger.chains["nod_b"][:4])
    bare = msgspec.json.encode(replace(msgspec.json.decode(data, type=Bundle), checkpoints=()))
    report = verify_bundle(bare)
    assert report.ok
    assert {each.covered for each in report.nodes} == {0}


def test_a_chain_that_was_written_anew_is_named_where_the_checkpoint_knows_better(ledger: Ledger) -> None:
    forged = Ledger(signers=ledger.signers).grow("nod_b", 8, name="x")
    assert fault(verify_bundle(edited(ledger.bundle(newest=2), nod_b=forged.chains["nod_b"]))) == (3, "replaced")
    assert fault(verify_bundle(edited(ledger.bundle(newest=1), nod_b=forged.chains["nod_b"]))) == (5, "replaced")


def checkpointed(data: bytes, place: int = 0, **changes: Any) -> bytes:
    """The bundle with another proof for `NODE` in a checkpoint."""
    bundle = msgspec.json.decode(data, type=Bundle)
    entry = bundle.checkpoints[place]
    included = entry.included | {NODE: replace(entry.included[NODE], **changes)}
    made = (*bundle.checkpoints[:place], replace(entry, included=included), *bundle.checkpoints[place + 1 :])
    return msgspec.json.encode(replace(bundle, checkpoints=made))


@pytest.mark.parametrize(
    "changes", [{"length": 4}, {"digest": "0" * 64}, {"index": 0}, {"path": ()}, {"path": ("zz",)}, {"index": -1}]
)
def test_a_proof_that_does_not_lead_to_the_root_proves_nothing(ledger: Ledger, changes: dict[str, Any]) -> None:
    assert fault(verify_bundle(checkpointed(ledger.bundle(), **changes)))[1] == "unproved"


def test_a_shorter_head_cannot_be_proved_to_hide_a_cut_off_end(ledger: Ledger) -> None:
    """The old head, with its own digest, is no leaf of the newer checkpoint."""
    old = ledger.records[0].heads[1]
    data = edited(checkpointed(ledger.bundle(), length=old.length, digest=old.digest), nod_b=ledger.chains["nod_b"][:4])
    assert fault(verify_bundle(data))[1] == "unproved"


def test_a_proof_that_is_left_out_of_the_newer_checkpoint_hides_no_cut_off_end(ledger: Ledger) -> None:
    """The older checkpoint alone would be content with the shorter chain."""
    bundle = msgspec.json.decode(edited(ledger.bundle(newest=2), nod_b=ledger.chains["nod_b"][:4]), type=Bundle)
    newer = bundle.checkpoints[1]
    left = {name: each for name, each in newer.included.items() if name != NODE}
    checkpoints = (bundle.checkpoints[0], replace(newer, included=left))
    report = verify_bundle(msgspec.json.encode(replace(bundle, checkpoints=checkpoints)))
    assert fault(report)[1] == "unproved"
    assert of(report, "nod_c").fault is None  # new in the newer one


def test_a_checkpoint_by_a_foreign_key_is_a_fault(ledger: Ledger) -> None:
    ledger.grow("nod_a").checkpoint(signer=new_ed25519())
    report = verify_bundle(ledger.bundle())
    assert not report.ok
    assert [each.code for each in report.faults] == ["untrusted_key"]


def test_require_all_misses_a_chain_that_is_left_out(ledger: Ledger) -> None:
    assert verify_bundle(ledger.bundle(), require_all=True).ok
    report = verify_bundle(edited(ledger.bundle(), nod_c=None), require_all=True)
    assert codes(report) == {"audit_incomplete"}
    assert "2 of the 3 chains" in report.faults[0].message
    assert verify_bundle(edited(ledger.bundle(), nod_c=None)).ok  # as in the bundle of one operation
    bare = msgspec.json.encode(replace(msgspec.json.decode(ledger.bundle(), type=Bundle), checkpoints=()))
    assert codes(verify_bundle(bare, require_all=True)) == {"audit_incomplete"}


def test_require_witness_names_the_first_receipt_that_no_witness_has_seen(ledger: Ledger) -> None:
    report = verify_bundle(ledger.bundle(newest=2), require_witness=True)
    assert (fault(report, "nod_b"), fault(report, "nod_c")) == ((4, "unwitnessed"), (0, "unwitnessed"))
    assert of(report, "nod_a").fault is None
    assert verify_bundle(ledger.countersign().bundle(), require_witness=True).ok


def test_a_countersignature_by_the_control_plane_itself_is_no_witness(ledger: Ledger) -> None:
    keyset = keyset_with_witness(ledger.keys, ledger.witness, ledger.keys.dispatch)
    data = ledger.countersign(ledger.keys.dispatch).bundle(keyset=keyset)
    assert verify_bundle(data).checkpoints[0].witnesses == ()
    assert not verify_bundle(data, require_witness=True).ok


def test_two_witnesses_are_needed_where_the_keyset_says_so(ledger: Ledger) -> None:
    keyset = keyset_with_witness(ledger.keys, ledger.witness, new_ed25519(), threshold=2)
    report = verify_bundle(ledger.countersign().bundle(keyset=keyset))
    assert [(len(each.witnesses), each.witnessed) for each in report.checkpoints] == [(1, False)]


def since(older: Ledger, newer: Ledger, data: bytes = b"", **more: Any) -> BundleReport:
    return verify_bundle(data or newer.bundle(**more), earlier=older.bundle())


def codes(report: BundleReport) -> set[str]:
    assert not report.ok
    return {each.code for each in report.faults}


def test_a_bundle_that_extends_an_earlier_one_is_good(ledger: Ledger) -> None:
    older = ledger.copy()
    ledger.grow("nod_a", 2).grow("nod_d", 1).checkpoint()
    assert since(older, ledger).ok
    assert since(older, older).ok


def test_a_fork_shows_beside_an_earlier_bundle(ledger: Ledger) -> None:
    """Two different checkpoints for one index, each honest in itself."""
    older = ledger.copy()
    forked = Ledger(keys=ledger.keys, witness=ledger.witness, signers=ledger.signers)
    forked.grow("nod_a", 3).grow("nod_b", 6).checkpoint()
    forked.grow("nod_c", 1).checkpoint(at_ms=NOW + 9)
    assert verify_bundle(forked.bundle()).ok
    assert codes(since(older, forked)) == {"audit_fork"}


def test_a_rollback_shows_beside_an_earlier_bundle(ledger: Ledger) -> None:
    older = ledger.copy()
    older.grow("nod_a").checkpoint()
    assert codes(since(older, ledger)) == {"audit_rollback"}
    report = since(older, ledger)
    assert fault(report, "nod_a") == (3, "truncated")


def test_a_rollback_without_a_receipt_less_shows_by_the_index_alone(ledger: Ledger) -> None:
    older = ledger.copy()
    older.checkpoint()
    assert codes(since(older, ledger)) == {"audit_rollback"}


def test_a_hidden_node_shows_beside_an_earlier_bundle(ledger: Ledger) -> None:
    older = ledger.copy()
    del ledger.chains["nod_c"]
    ledger.grow("nod_a", 4).checkpoint()
    ledger.records[-1] = replace(ledger.records[-1], heads=tuple(ledger.heads().values()))
    bent_states = ledger.copy()
    bent_states.records = [ledger.records[-1]]
    report = verify_bundle(bent_states.bundle(), earlier=older.bundle())
    assert codes(report) == {"audit_rollback"}
    assert any("nod_c" in each.message or "hides" in each.message for each in report.faults)


def test_a_node_that_was_exchanged_for_another_shows_beside_an_earlier_bundle(ledger: Ledger) -> None:
    older = ledger.copy()
    del ledger.chains["nod_c"]
    ledger.grow("nod_x", 4).checkpoint()
    ledger.records = [replace(ledger.records[-1], heads=tuple(ledger.heads().values()))]
    report = verify_bundle(ledger.bundle(), earlier=older.bundle())
    assert [each.message for each in report.faults] == ["node nod_c is hidden now"]


def test_a_chain_that_was_exchanged_shows_beside_an_earlier_bundle(ledger: Ledger) -> None:
    older = ledger.copy()
    del ledger.chains["nod_b"][3:]
    ledger.grow("nod_b", 6, name="x").checkpoint()
    report = since(older, ledger)
    assert fault(report) == (3, "replaced")


def test_checkpoints_that_vanish_are_a_rollback(ledger: Ledger) -> None:
    data = msgspec.json.encode(replace(msgspec.json.decode(ledger.bundle(), type=Bundle), checkpoints=()))
    assert codes(since(ledger, ledger, data)) == {"audit_rollback"}


@pytest.mark.parametrize("changes", [{"previous": "0" * 64}, {"nodes": 1}, {"receipts": 1}, {"control_epoch": 0}])
def test_two_checkpoints_of_one_bundle_have_to_follow_each_other(ledger: Ledger, changes: dict[str, Any]) -> None:
    bundle = msgspec.json.decode(ledger.bundle(newest=1), type=Bundle)
    ledger.checkpoint(**changes)
    newer = msgspec.json.decode(ledger.bundle(newest=1), type=Bundle).checkpoints
    both = msgspec.json.encode(replace(bundle, checkpoints=(*bundle.checkpoints, *newer)))
    assert codes(verify_bundle(both)) <= {"audit_fork", "audit_rollback"}


def test_two_checkpoints_that_name_different_receipts_for_one_index_cannot_both_hold(ledger: Ledger) -> None:
    """Both signed, both proved, as long as each other: whichever the chain follows, it does not follow the other."""
    del ledger.chains["nod_b"][5:]
    ledger.grow("nod_b", 1, name="x").checkpoint()
    assert fault(verify_bundle(ledger.bundle(newest=2))) == (5, "replaced")
