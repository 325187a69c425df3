"""Each gate of admission, taken away: the attack it stops then passes. And the suites that would notice.

A gate nobody would miss is no gate. The first half replaces one gate by what is left when its check is
gone and shows the attack admitted; the second takes a line out of the source and runs the tests.
"""

from collections.abc import Callable
from typing import Any

import pytest

from hostler.agent.admission import admit as admit_module
from hostler.agent.admission.admit import admit
from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.case import Case
from hostler.agent.admission.catalog_view import facts_of
from hostler.agent.admission.verdict import TASK_GATES, Admitted
from hostler.agent.journal.rows import KnownTask
from hostler.pki.keys import new_ed25519
from hostler.wire.codec_task import decode_task
from hostler.wire.task import Policy
from support import builders
from support.agent import refused
from support.keys import NOW, Keys
from support.mutant import Guard, outcome_without

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
DEMANDING = builders.catalog(KEYS, builders.definition(capabilities={"gpu.vendor": "nvidia"}))


def believe_the_payload(case: Case) -> None:
    case.payload, case.authentic = case.envelope.payload, True


def decode_only(case: Case) -> None:
    case.spec = decode_task(case.payload)


def address_to_us(case: Case) -> None:
    case.addressed = True


def take_any_definition(case: Case) -> None:
    facts = facts_of(CATALOG, "demo.write@v1")
    case.definition, case.commands = facts.definition, facts.commands


def take_any_inputs(case: Case) -> None:
    case.inputs = {}


def nothing(case: Case) -> None:
    pass


def seen(spec: Any) -> Any:
    found = KnownTask(spec.task_id, 1, spec.attempt_uid, "succeeded", "d" * 64)
    return lambda task_id: found


# gate: what is left without it, the attack, its code
Attack = Callable[[], tuple[Any, dict[str, Any]]]
ATTACKS: dict[str, tuple[Callable[[Case], None], Attack, str]] = {
    "signature": (
        believe_the_payload,
        lambda: (builders.envelope(KEYS, builders.task(KEYS, CATALOG), signer=new_ed25519()), {}),
        "untrusted_key",
    ),
    "form": (decode_only, lambda: (_sent(nonce=b""), {}), "malformed_envelope"),
    "target": (address_to_us, lambda: (_sent(node_id="nod_b"), {}), "wrong_node"),
    "replay": (nothing, lambda: _with_view(lambda spec: {"known": seen(spec)}), ""),
    "allocation": (nothing, lambda: (_sent(allocation_id="alc_1"), {}), "wrong_allocation"),
    "epoch": (nothing, lambda: (_sent(), {"control_epoch": 2}), "controller_rollback"),
    "freshness": (nothing, lambda: (_sent(expires_at_ms=NOW), {}), "expired"),
    "sequence": (nothing, lambda: (_sent(), {"high_sequence": 10**9}), "stale_sequence"),
    "storage": (nothing, lambda: (_sent(), {"storage": "disk_full"}), "storage_unhealthy"),
    "catalog": (take_any_definition, lambda: (_sent(definition_digest="0" * 64), {}), "catalog_mismatch"),
    "inputs": (take_any_inputs, lambda: (_sent(inputs={"more": 1}), {}), "input_schema"),
    "policy": (nothing, lambda: (_sent(policy=Policy(enabled=False)), {}), "policy_denied"),
    "authority": (
        nothing,
        lambda: (_sent(), {"authority": LocalAuthority(deny_step_kinds=("file.render",))}),
        "local_policy_denied",
    ),
    "capability": (
        nothing,
        lambda: (builders.envelope(KEYS, builders.task(KEYS, DEMANDING)), {"catalog": DEMANDING}),
        "incompatible",
    ),
}


def _sent(**changes: Any) -> Any:
    return builders.envelope(KEYS, builders.task(KEYS, CATALOG, **changes))


def _with_view(changes: Callable[[Any], dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
    spec = builders.task(KEYS, CATALOG)
    return builders.envelope(KEYS, spec), changes(spec)


def test_every_gate_has_an_attack_that_only_it_stops() -> None:
    assert set(ATTACKS) == set(TASK_GATES)


@pytest.mark.parametrize("gate", TASK_GATES)
def test_without_its_gate_the_attack_passes(gate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without, attack, code = ATTACKS[gate]
    sent, changes = attack()
    view = builders.view(KEYS, changes.pop("catalog", CATALOG), **changes)
    verdict = admit(sent, view, NOW)
    if code:
        assert refused(verdict) == (code, gate)
    assert not isinstance(verdict, Admitted)
    monkeypatch.setitem(admit_module.TASK, gate, without)
    assert isinstance(admit(sent, view, NOW), Admitted)


ROOM = "hostler.agent."
GATES = "tests/unit/agent/admission/test_gates.py"
LINES: dict[str, tuple[Guard, str]] = {
    "T2 node": (
        Guard(f"{ROOM}admission.target", "if order.node_id != view.node_id:", "if False:"),
        "tests/fault/test_T2_T3_wrong_node_or_time.py",
    ),
    "PK-10 key": (
        Guard(
            f"{ROOM}admission.target", "if not same_digest(order.node_key_thumbprint, view.thumbprint):", "if False:"
        ),
        "tests/fault/test_T2_T3_wrong_node_or_time.py",
    ),
    "T3 expiry": (
        Guard(f"{ROOM}admission.freshness", "if now >= order.expires_at_ms:", "if now > order.expires_at_ms:"),
        "tests/fault/test_T2_T3_wrong_node_or_time.py",
    ),
    "T5 canonical inputs": (
        Guard("hostler.base.strict", "if canonical_json(value) != data:", "if False:"),
        "tests/fault/test_T5_other_spellings.py",
    ),
    "T6 threshold": (
        Guard("hostler.pki.dsse", "if len(good) < threshold:", "if False:"),
        "tests/fault/test_T6_T7_keys.py",
    ),
    "T7 distinct keys": (
        Guard(
            "hostler.pki.dsse",
            "good = {s.keyid for s in claimed if trusted[s.keyid].verifies(s.sig, data)}",
            "good = [s.keyid for s in claimed if trusted[s.keyid].verifies(s.sig, data)]",
        ),
        "tests/fault/test_T6_T7_keys.py",
    ),
    "SE-08 steps": (Guard(f"{ROOM}admission.catalog_view", "if task.steps != facts.steps:", "if False:"), GATES),
    "AZ-09 paths": (
        Guard(f"{ROOM}admission.authority", '        if name == "path":', '        if name == "p":'),
        "tests/unit/agent/admission/test_authority.py",
    ),
    "T1 memory": (
        Guard(f"{ROOM}admission.freshness", "stands = same or found.open or", "stands = False and"),
        "tests/fault/test_T1_delivered_twice.py",
    ),
    "K4 kept file": (
        Guard(f"{ROOM}journal.db", "if path.stat().st_size == 0:", "if False:"),
        "tests/unit/agent/journal/test_storage.py",
    ),
    "DM-26 power-safe": (
        Guard(f"{ROOM}journal.db", 'FULL")\n        db.execute("PRAGMA tr', 'NORMAL")\n        db.execute("PRAGMA tr'),
        "tests/unit/agent/journal/test_storage.py",
    ),
    "DM-26 intent before apply": (
        Guard(f"{ROOM}runner.step_run", "            await self._write_intent()\n", ""),
        "tests/unit/agent/runner/test_restart.py",
    ),
    "RT-06 accepted once": (
        Guard(f"{ROOM}journal.tasks", "if db.execute(_INSERT, row).rowcount != 1:", "if not db.execute(_INSERT, row):"),
        "tests/unit/agent/journal/test_journal.py",
    ),
    "T4 flood": (
        Guard(f"{ROOM}journal.journal", "if not refusal.authentic and not self._flood.passes():", "if False:"),
        "tests/fault/test_T4_one_byte_changed.py",
    ),
    "T11 rotated key": (
        Guard(f"{ROOM}runner.task_run", "if trust.keyset.version != self._work.keyset_version:", "if False:"),
        "tests/unit/agent/runner/test_runner.py",
    ),
    "fault points only in tests": (
        Guard(f"{ROOM}runner.faults", "if not enabled:", "if False:"),
        "tests/unit/agent/runner/test_restart.py",
    ),
    "SE-08 reuse": (
        Guard(f"{ROOM}runner.reuse", "if mine is None or mine.outputs_json != claim.outputs_json:", "if mine is None:"),
        "tests/unit/agent/runner/test_retry.py",
    ),
    "plan approval": (
        Guard(
            f"{ROOM}runner.task_run",
            "        if task_plan_digest(self._work, planned) != self._task.approved_plan_digest:",
            "        if False:",
        ),
        "tests/unit/agent/runner/test_plan.py",
    ),
    "K2 probe": (
        Guard(f"{ROOM}runner.step_run", "if found.truth is Truth.NOT_DONE:", "if found.truth is not None:"),
        "tests/unit/agent/runner/test_restart.py",
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_without_the_line_the_suite_goes_red(name: str) -> None:
    guard, tests = LINES[name]
    done = outcome_without(guard, tests)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
