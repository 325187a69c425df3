"""The witness: countersigns what extends everything it has seen, and refuses what forks, goes back or hides."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.checkpoint import (
    CheckpointPage,
    CheckpointRecord,
    countersign,
    open_checkpoint,
    open_countersignature,
    sign_checkpoint,
    witness_keys,
    witnesses_of,
)
from hostler.pki.keys import new_ed25519
from hostler.pki.keyset import parse_keyset
from hostler.pki.witness import WitnessState, follow
from hostler.pki.witness_files import attend, load_state
from support.keys import NOW
from support.ledger import Ledger, keyset_with_witness

replace = msgspec.structs.replace


@pytest.fixture
def ledger() -> Ledger:
    """Three nodes, two checkpoints."""
    made = Ledger()
    made.grow("nod_a", 3).grow("nod_b", 1).checkpoint()
    made.grow("nod_a", 2).grow("nod_c", 2).checkpoint()
    return made


def seen(ledger: Ledger, *records: CheckpointRecord, state: WitnessState | None = None) -> WitnessState:
    return follow(state or WitnessState(), records or ledger.records, [ledger.keys.dispatch.public])


def refused(ledger: Ledger, *records: CheckpointRecord, state: WitnessState | None = None) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        seen(ledger, *records, state=state)
    return caught.value


def test_an_honest_history_is_followed_and_remembered(ledger: Ledger) -> None:
    state = seen(ledger)
    assert (state.index, state.digest) == (1, ledger.checkpoints[-1].digest)
    assert state.heads == ledger.heads()
    ledger.grow("nod_b", 4).checkpoint()
    assert seen(ledger, *ledger.records[1:], state=state).heads["nod_b"].length == 5


def test_the_same_page_again_is_no_news(ledger: Ledger) -> None:
    state = seen(ledger)
    assert seen(ledger, state=state) == state


def test_a_fork_at_the_index_last_seen_is_refused(ledger: Ledger) -> None:
    state, other = seen(ledger), ledger.copy()
    other.checkpoints.pop()
    other.records.pop()
    other.seen = {name: head for name, head in state.heads.items() if name != "nod_c"}
    other.checkpoint(at_ms=NOW + 7)
    assert other.checkpoints[-1].index == state.index
    assert refused(other, other.records[-1], state=state).code == "audit_fork"
    assert refused(other, state=state).code == "audit_fork"


def test_a_fork_before_the_index_last_seen_is_refused(ledger: Ledger) -> None:
    """Two histories that part early: the later one cannot lead to what the witness remembers."""
    state = seen(ledger)
    other = Ledger(keys=ledger.keys, signers=ledger.signers)
    other.grow("nod_a", 3, name="x").grow("nod_b", 1).checkpoint()
    other.grow("nod_a", 3).checkpoint()
    other.grow("nod_a", 3).checkpoint()
    assert refused(other, state=state).code == "audit_fork"
    assert refused(other, other.records[-1], state=state).code == "audit_fork"


def test_another_past_that_is_shown_with_the_genuine_present_is_refused(ledger: Ledger) -> None:
    """What was seen stands, yet the one before it is not the one it names."""
    other = Ledger(keys=ledger.keys).grow("nod_z")
    forged = other.checkpoint()
    assert refused(ledger, forged, ledger.records[1], state=seen(ledger)).code == "audit_fork"


def test_a_page_that_leaves_out_the_one_last_seen_is_refused(ledger: Ledger) -> None:
    state, first = seen(ledger), ledger.records[0]
    record = ledger.grow("nod_a").checkpoint()
    assert refused(ledger, first, record, state=state).code == "audit_incomplete"


def test_a_checkpoint_that_names_another_one_before_it_is_refused(ledger: Ledger) -> None:
    ledger.grow("nod_a").checkpoint(previous="0" * 64)
    assert refused(ledger).code == "audit_fork"
    assert refused(ledger, ledger.records[-1], state=seen(ledger, *ledger.records[:2])).code == "audit_fork"


def test_a_control_plane_that_was_rolled_back_is_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    assert refused(ledger, ledger.records[0], state=state).code == "audit_rollback"
    with pytest.raises(HostlerError) as caught:
        follow(state, [], [ledger.keys.dispatch.public])
    assert caught.value.code == "audit_rollback"


def test_a_chain_that_shrank_is_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    del ledger.chains["nod_a"][-2:]
    ledger.checkpoint()
    problem = refused(ledger, ledger.records[-1], state=state)
    assert problem.code == "audit_rollback"
    assert "nod_a" in problem.message


def test_a_node_that_is_hidden_is_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    del ledger.chains["nod_b"]
    ledger.grow("nod_a").checkpoint()
    problem = refused(ledger, ledger.records[-1], state=state)
    assert problem.code == "audit_rollback"
    assert "2 nodes, 3 were seen" in problem.message


def test_a_node_that_is_exchanged_for_another_is_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    del ledger.chains["nod_b"]
    ledger.grow("nod_d").checkpoint()
    assert refused(ledger, ledger.records[-1], state=state).code == "audit_rollback"


def test_a_last_receipt_that_was_exchanged_is_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    ledger.chains["nod_a"].pop()
    ledger.grow("nod_a", name="x").checkpoint()
    assert refused(ledger, ledger.records[-1], state=state).code == "audit_fork"


def test_a_chain_written_anew_and_longer_than_before_is_refused(ledger: Ledger) -> None:
    """The node's own key may have been replaced by whoever owns the CA: only the old head tells."""
    state = seen(ledger)
    del ledger.chains["nod_a"]
    ledger.grow("nod_a", 9, name="x").checkpoint()
    problem = refused(ledger, ledger.records[-1], state=state)
    assert problem.code == "audit_fork"
    assert "from 5 to 9" in problem.message


def test_heads_that_are_shown_without_their_receipts_are_refused(ledger: Ledger) -> None:
    state = seen(ledger)
    record = ledger.grow("nod_a").checkpoint()
    assert refused(ledger, replace(record, receipts={}), state=state).code == "audit_fork"


def test_a_root_over_other_heads_than_those_shown_is_refused(ledger: Ledger) -> None:
    ledger.grow("nod_a").checkpoint(root="ab" * 32)
    assert refused(ledger).code == "audit_fork"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"receipts": 1}, "audit_rollback"),
        ({"receipts": 99}, "audit_fork"),
        ({"nodes": 9}, "audit_fork"),
        ({"nodes": 1}, "audit_rollback"),
        ({"control_epoch": 0}, "audit_rollback"),
        ({"at_ms": NOW - 1}, "audit_rollback"),
        ({"cluster_id": "other"}, "audit_fork"),
        ({"trust_domain": "other"}, "audit_fork"),
        ({"index": 3}, "audit_incomplete"),
        ({"index": 1}, "audit_fork"),
        ({"index": 0}, "audit_fork"),
    ],
)
def test_a_checkpoint_that_says_something_else_is_refused(
    ledger: Ledger, changes: dict[str, object], code: str
) -> None:
    ledger.grow("nod_a").checkpoint(**changes)
    assert refused(ledger).code == code


def test_checkpoints_that_are_missing_between_are_asked_for(ledger: Ledger) -> None:
    state = seen(ledger)
    ledger.grow("nod_a").checkpoint()
    ledger.grow("nod_a").checkpoint()
    assert refused(ledger, ledger.records[-1], state=state).code == "audit_incomplete"
    assert refused(ledger, ledger.records[1]).code == "audit_incomplete"


def test_a_checkpoint_that_the_dispatch_key_has_not_signed_counts_for_nothing(ledger: Ledger) -> None:
    ledger.grow("nod_a").checkpoint(signer=new_ed25519())
    assert refused(ledger).code == "untrusted_key"


def test_neither_kind_of_signature_passes_for_the_other(ledger: Ledger) -> None:
    """Even by one key that held both roles."""
    checkpoint, key = ledger.checkpoints[-1], ledger.keys.dispatch
    with pytest.raises(HostlerError):
        open_checkpoint(countersign(checkpoint, key, NOW), [key.public])
    with pytest.raises(HostlerError):
        open_countersignature(sign_checkpoint(checkpoint, key), key.public)


def test_a_countersignature_counts_for_its_own_checkpoint_and_by_a_witness_only(ledger: Ledger) -> None:
    keyset = parse_keyset(dsse.from_json(keyset_with_witness(ledger.keys, ledger.witness)).payload)
    first, second = ledger.checkpoints
    word = countersign(second, ledger.witness, NOW)
    assert witnesses_of(second, [word, word], keyset) == {ledger.witness.public.key_id}
    assert witnesses_of(first, [word], keyset) == set()
    assert witnesses_of(replace(second, cluster_id="other"), [word], keyset) == set()
    assert witnesses_of(second, [countersign(second, new_ed25519(), NOW), b"{}"], keyset) == set()


def test_the_dispatch_key_is_no_witness_of_itself(ledger: Ledger) -> None:
    dispatch = ledger.keys.dispatch
    keyset = parse_keyset(dsse.from_json(keyset_with_witness(ledger.keys, ledger.witness, dispatch)).payload)
    assert [key.key_id for key in witness_keys(keyset)] == [ledger.witness.public.key_id]


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_two_histories_that_part_are_never_both_followed(data: st.DataObject) -> None:
    """One witness, two continuations of the same past: whichever comes second is refused."""
    step = st.lists(st.tuples(st.sampled_from(["nod_a", "nod_b", "nod_c"]), st.integers(1, 2)), min_size=1, max_size=3)
    common = Ledger()
    for moves in data.draw(st.lists(step, max_size=3)):
        for node, count in moves:
            common.grow(node, count)
        common.checkpoint()
    left, right = common.copy(), common.copy()
    for name, side in (("l", left), ("r", right)):
        for moves in data.draw(st.lists(step, min_size=1, max_size=3)):
            for node, count in moves:
                side.grow(node, count, name=name)
            side.checkpoint()
    state = follow(WitnessState(), left.records, [common.keys.dispatch.public])
    problem = refused(right, *right.records, state=state)
    assert problem.code in ("audit_fork", "audit_rollback")


def page(ledger: Ledger, *records: CheckpointRecord) -> list[tuple[CheckpointPage, bytes]]:
    keysets = (msgspec.Raw(keyset_with_witness(ledger.keys, ledger.witness)),)
    made = CheckpointPage(items=records or tuple(ledger.records), keysets=keysets)
    data = msgspec.json.encode(made)
    return [(msgspec.json.decode(data, type=CheckpointPage), data)]


def trust(ledger: Ledger) -> object:
    return replace(ledger.keys.state(), keyset=keyset_with_witness(ledger.keys, ledger.witness))


def test_a_round_saves_before_it_signs_and_signs_the_newest(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "witness.json"
    made = attend(path, page(ledger), trust(ledger), ledger.witness, NOW)
    assert made is not None
    assert (made.index, made.news) == (1, 2)
    word = open_countersignature(made.countersignature, ledger.witness.public)
    assert word.checkpoint == ledger.checkpoints[1].digest
    assert load_state(path) == seen(ledger)
    assert path.stat().st_mode & 0o077 == 0


def test_a_refused_round_leaves_the_state_and_keeps_the_evidence(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "witness.json"
    attend(path, page(ledger), trust(ledger), ledger.witness, NOW)
    before = path.read_bytes()
    with pytest.raises(HostlerError) as caught:
        attend(path, page(ledger, ledger.records[0]), trust(ledger), ledger.witness, NOW)
    assert caught.value.code == "audit_rollback"
    assert path.read_bytes() == before
    kept = msgspec.json.decode((tmp_path / "witness.json.refused").read_bytes(), type=CheckpointPage)
    assert bytes(kept.items[0].envelope) == bytes(ledger.records[0].envelope)


def test_a_key_that_is_no_witness_swears_nothing(ledger: Ledger, tmp_path: Path) -> None:
    for key in (new_ed25519(), ledger.keys.dispatch):
        with pytest.raises(HostlerError) as caught:
            attend(tmp_path / "witness.json", page(ledger), trust(ledger), key, NOW)
        assert caught.value.code == "untrusted_key"
    assert not (tmp_path / "witness.json").exists()


def test_two_rounds_at_once_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "witness.json"

    def meanwhile():
        with pytest.raises(HostlerError) as caught:
            attend(path, page(ledger), trust(ledger), ledger.witness, NOW)
        assert caught.value.code == "store_unavailable"
        yield from page(ledger)

    assert attend(path, meanwhile(), trust(ledger), ledger.witness, NOW) is not None


def test_a_witness_of_one_fleet_swears_nothing_about_another(ledger: Ledger, tmp_path: Path) -> None:
    foreign = Ledger(keys=ledger.keys, witness=ledger.witness).grow("nod_a")
    foreign.checkpoint(trust_domain="other.fleet")
    with pytest.raises(HostlerError) as caught:
        attend(tmp_path / "witness.json", page(foreign), trust(ledger), ledger.witness, NOW)
    assert caught.value.code == "keyset_untrusted"
    assert not (tmp_path / "witness.json").exists()


def test_a_keyset_that_the_root_has_not_signed_makes_nobody_a_dispatcher(ledger: Ledger, tmp_path: Path) -> None:
    """Whoever owns the control plane can show any keyset it likes."""
    forged = Ledger(witness=ledger.witness).grow("nod_a")
    forged.checkpoint()
    with pytest.raises(HostlerError) as caught:
        attend(tmp_path / "witness.json", page(forged), trust(ledger), ledger.witness, NOW)
    assert caught.value.code == "untrusted_key"
    assert not (tmp_path / "witness.json").exists()
