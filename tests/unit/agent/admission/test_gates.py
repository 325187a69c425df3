"""Every gate on its own: what it refuses, with which code (OP-16, SE-08)."""

import dataclasses
from typing import Any

import msgspec
import pytest

from hostler.agent.admission import admit as admit_module
from hostler.agent.admission.admit import FIELD_GATES, admit
from hostler.agent.admission.verdict import CANCEL_GATES, TASK_GATES, Admitted, AdmittedCancel, Proof, Refusal, Replayed
from hostler.agent.journal.binding import Binding
from hostler.agent.journal.rows import KnownTask
from hostler.catalog.definition import StepTemplate
from hostler.wire.task import ReusedStep, TaskSpec
from support import builders
from support.agent import refused
from support.gates import CATALOG, EXEC, KEYS, NAMED, PROFILE, a_task, judge
from support.keys import NOW, Keys

# -- the table --------------------------------------------------------------------------------------


def test_every_signed_field_has_a_gate_that_answers_for_it() -> None:
    """OP-16: a field nobody checks would be a field nobody has to sign."""
    assert set(FIELD_GATES) == set(TaskSpec.__struct_fields__)
    assert set(FIELD_GATES.values()) <= set(TASK_GATES)


def test_the_gates_run_in_the_order_that_the_verdict_demands() -> None:
    assert tuple(admit_module.TASK) == TASK_GATES
    assert tuple(admit_module.CANCEL) == CANCEL_GATES


def test_an_honest_task_is_admitted_with_what_it_needs() -> None:
    verdict = judge(a_task())
    assert isinstance(verdict, Admitted)
    assert verdict.definition.ref == "demo.write@v1"
    assert verdict.keyset_version == 1


def test_nobody_makes_an_admitted_without_every_gate() -> None:
    admitted = judge(a_task())
    for proof in (Proof(), Proof(TASK_GATES[:-1]), Proof(TASK_GATES[::-1]), TASK_GATES, None):
        with pytest.raises(TypeError):
            dataclasses.replace(admitted, proof=proof)


def test_a_gate_that_vanishes_from_the_table_admits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TASK_GATES[2:]:
        with monkeypatch.context() as patch:
            patch.delitem(admit_module.TASK, name)
            with pytest.raises((TypeError, AssertionError)):
                judge(a_task())


def test_admission_is_pure() -> None:
    sent, view = builders.envelope(KEYS, a_task()), builders.view(KEYS, CATALOG)
    first, second = admit(sent, view, NOW), admit(sent, view, NOW)
    assert isinstance(first, Admitted)
    assert isinstance(second, Admitted)
    assert first.spec == second.spec


# -- form -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": b"x" * 15},
        {"task_id": ""},
        {"task_id": "x" * 129},
        {"correlation_id": "a\nb"},
        {"attempt_uid": "é"},
        {"attempt_number": 0},
        {"sequence": 2**63},
        {"control_epoch": 2**63},
        {"catalog_version": 2**63},
        {"expires_at_ms": NOW - 1000},
        {"steps": ()},
        {"traceparent": "x" * 257},
        {"reused": (ReusedStep("absent", "0" * 64, b"{}"),)},
        {"reused": (ReusedStep("write", "0" * 64, b"{}"), ReusedStep("write", "1" * 64, b"{}"))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_signed_task_out_of_form_is_malformed(changes: dict[str, Any]) -> None:
    assert refused(judge(a_task(**changes))) == ("malformed_envelope", "form")


# -- target, allocation, replay, epoch, sequence, storage -------------------------------------------


def test_OP_09_a_task_for_another_allocation_is_refused_both_ways() -> None:
    assert refused(judge(a_task(allocation_id="alc_1"))) == ("wrong_allocation", "allocation")
    inside = Binding(allocation_id="alc_1")
    assert refused(judge(a_task(), binding=inside)) == ("wrong_allocation", "allocation")
    assert refused(judge(a_task(allocation_id="alc_2"), binding=inside)) == ("wrong_allocation", "allocation")
    assert isinstance(judge(a_task(allocation_id="alc_1"), binding=inside), Admitted)


def known(spec: TaskSpec, state: str = "succeeded", **changes: Any) -> Any:
    found = KnownTask(spec.task_id, spec.attempt_number, spec.attempt_uid, state, "d" * 64)
    found = msgspec.structs.replace(found, **changes)
    return lambda task_id: found if task_id == spec.task_id else None


def test_T1_a_known_task_is_replayed_even_when_every_later_gate_would_refuse_it() -> None:
    spec = a_task(expires_at_ms=NOW - 1, not_before_ms=NOW - 2, definition_digest="0" * 64, allocation_id="x")
    verdict = judge(spec, known=known(spec), high_sequence=10**6, storage="disk_full")
    assert isinstance(verdict, Replayed)
    assert not verdict.open


def test_RT_06_a_new_attempt_waits_for_the_end_of_the_last() -> None:
    spec = a_task(attempt_number=2)
    earlier = {"attempt_number": 1, "attempt_uid": "att_before"}
    assert isinstance(judge(spec, known=known(spec, **earlier)), Admitted)
    assert isinstance(judge(spec, known=known(spec, "open", **earlier)), Replayed)
    assert isinstance(judge(spec, known=known(spec, **(earlier | {"attempt_number": 3}))), Replayed)


def test_P1_a_lower_epoch_is_controller_rollback() -> None:
    assert refused(judge(a_task(control_epoch=4), control_epoch=5)) == ("controller_rollback", "epoch")
    assert isinstance(judge(a_task(control_epoch=5), control_epoch=5), Admitted)
    assert refused(judge(a_task(control_epoch=6), control_epoch=5)) == ("epoch_unsigned", "epoch")


def test_P1_a_node_that_holds_takes_nothing_new() -> None:
    assert refused(judge(a_task(), held=True)) == ("controller_rollback", "epoch")


@pytest.mark.parametrize("sequence", [0, 6, 7])
def test_a_sequence_not_above_the_last_is_stale(sequence: int) -> None:
    assert refused(judge(a_task(sequence=sequence), high_sequence=7)) == ("stale_sequence", "sequence")


def test_K4_nothing_is_started_that_cannot_be_remembered() -> None:
    assert refused(judge(a_task(), storage="disk_full")) == ("storage_unhealthy", "storage")


# -- catalog ----------------------------------------------------------------------------------------


def test_SE_08_the_dispatch_key_alone_starts_nothing() -> None:
    """A definition that no catalog key signed, sent with a perfect dispatch signature."""
    rogue = Keys(root=KEYS.root, dispatch=KEYS.dispatch, node=KEYS.node)
    evil = builders.catalog(rogue, builders.definition(builders.render_step(path="/etc/shadow"), type_="demo.evil"))
    assert refused(judge(a_task(evil))) == ("catalog_mismatch", "catalog")


def test_SE_08_a_changed_step_plan_is_refused_wherever_it_is_changed() -> None:
    spec = a_task()
    (step,) = spec.steps
    for changes in (
        {"kind": "health.check"},
        {"params_json": b'{"path":"/etc/shadow","template":"x"}'},
        {"timeout_seconds": 1},
        {"reusable": False},
        {"step_id": "other"},
        {"command_profile": "evil"},
        {"command_digest": "0" * 64},
    ):
        other = msgspec.structs.replace(step, **changes)
        verdict = judge(builders.changed(spec, steps=(other,)))
        assert refused(verdict) == ("catalog_mismatch", "catalog")
    assert refused(judge(builders.changed(spec, steps=(step, step)))) == ("catalog_mismatch", "catalog")


def test_a_definition_of_the_right_name_and_the_wrong_digest_is_refused() -> None:
    assert refused(judge(a_task(definition_digest="0" * 64))) == ("catalog_mismatch", "catalog")


def test_a_node_without_a_catalog_runs_nothing() -> None:
    assert refused(judge(a_task(), None)) == ("catalog_mismatch", "catalog")


def test_T8_a_task_of_a_newer_catalog_and_an_expired_catalog_are_refused() -> None:
    assert refused(judge(a_task(catalog_version=2))) == ("catalog_mismatch", "catalog")
    short = builders.catalog(KEYS, lifetime_ms=10)
    late = builders.envelope(KEYS, a_task(short, expires_at_ms=NOW + 1000))
    assert refused(admit(late, builders.view(KEYS, short), NOW + 10)) == ("catalog_stale", "catalog")


def test_SK_18_a_step_kind_unknown_to_the_agent_is_refused_never_skipped() -> None:
    odd = builders.definition(StepTemplate(id="odd", kind="foo.bar"))
    held = builders.catalog(KEYS, odd)
    spec = a_task(CATALOG, operation_type=odd.type, definition_digest=odd.digest())
    assert refused(judge(spec, held)) == ("unknown_step_kind", "catalog")


def test_EX_09_a_command_profile_of_another_digest_is_refused() -> None:
    held = builders.catalog(KEYS, EXEC, commands=[PROFILE])
    spec = a_task(held)
    assert (spec.steps[0].command_profile, spec.steps[0].command_digest) == ("say", PROFILE.digest())
    assert isinstance(judge(spec, held), Admitted)
    swapped = msgspec.structs.replace(PROFILE, command="/bin/false")
    other = builders.catalog(KEYS, EXEC, commands=[swapped])
    assert refused(judge(spec, other)) == ("catalog_mismatch", "catalog")


def test_OP_02_inputs_are_checked_against_the_schema_again() -> None:
    held = builders.catalog(KEYS, NAMED)
    assert isinstance(judge(a_task(held, inputs={"path": "/srv/x"}), held), Admitted)
    for inputs in ({}, {"path": 1}, {"path": "/etc/x"}, {"path": "/srv/x", "more": 1}):
        assert refused(judge(a_task(held, inputs=inputs), held)) == ("input_schema", "inputs")


def test_inputs_that_do_not_have_the_digest_beside_them_are_refused() -> None:
    assert refused(judge(a_task(inputs_digest="0" * 64))) == ("malformed_envelope", "inputs")


# -- cancel -----------------------------------------------------------------------------------------


def test_OP_17_a_cancel_passes_the_same_gates() -> None:
    spec = a_task()
    assert isinstance(judge(builders.cancel(spec)), AdmittedCancel)
    assert refused(judge(builders.cancel(spec, node_id="nod_b"))) == ("wrong_node", "target")
    assert refused(judge(builders.cancel(spec, node_key_thumbprint="0" * 64))) == ("wrong_node_key", "target")
    assert refused(judge(builders.cancel(spec, expires_at_ms=NOW))) == ("expired", "freshness")
    assert refused(judge(builders.cancel(spec), control_epoch=9)) == ("controller_rollback", "epoch")
    assert refused(judge(builders.cancel(spec), storage="disk_full")) == ("storage_unhealthy", "storage")


def test_OP_17_a_cancel_sent_again_while_the_task_runs_is_a_cancel_again() -> None:
    spec = a_task()
    order = builders.cancel(spec)
    assert isinstance(judge(order, known=known(spec, "open"), high_sequence=order.sequence), AdmittedCancel)


def test_OP_17_a_cancel_of_an_ended_task_is_answered_with_its_result() -> None:
    spec = a_task()
    assert isinstance(judge(builders.cancel(spec), known=known(spec)), Replayed)


def test_a_refusal_believes_nothing_of_what_was_not_signed() -> None:
    spec = a_task()
    forged = admit(builders.envelope(KEYS, spec, signer=KEYS.catalog), builders.view(KEYS, CATALOG), NOW)
    assert isinstance(forged, Refusal)
    assert (forged.task_id, forged.attempt_uid, forged.sequence, forged.authentic) == ("", "", 0, False)
    foreign = judge(builders.changed(spec, node_id="nod_b"))
    assert (foreign.task_id, foreign.sequence, foreign.addressed) == (spec.task_id, 0, False)
    ours = judge(builders.changed(spec, definition_digest="0" * 64))
    assert (ours.task_id, ours.sequence, ours.addressed) == (spec.task_id, spec.sequence, True)
