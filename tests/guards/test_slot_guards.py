# ruff: noqa: E501 - a table: one guard a line
"""Each guard over slots that rot, trials that are lost or without end, and releases that are withdrawn, taken out."""

import pytest

from support.mutant import Guard, outcome_without

UPGRADE = "hostler.agent.upgrade"
LAUNCH, SLOTS, STAND_IN, ORDER, OFFERED, ENDING, JUDGE, SURVEY, STAGE = (
    f"{UPGRADE}.{name}"
    for name in ("launch", "slots", "stand_in", "order", "offered", "ending", "judge", "survey", "stage")
)
WATCH, STEADY, STEPS = "hostler.agent.trial_watch", "hostler.agent.steady", "hostler.agent.steps.upgrade_trial"
UNIT = "tests/unit/agent/upgrade"
FALLBACK, STOOD_IN, LOST, WITHDRAWN, LATER, UNPROVEN, REPORTED, ENDED, STAGED = (
    f"{UNIT}/test_{name}.py"
    for name in (
        "launch_fallback", "stand_in", "trial_lost", "withdrawn", "records_of_later_versions", "unproven",
        "reported_slots", "trial_ended_here", "stage",
    )
)  # fmt: skip

GUARDS = {
    "U1 a slot that fails its starts": (LAUNCH, "        most = MOST_LOOSE_STARTS * (1 + rounds)", "        most = 1 << 30", FALLBACK),
    "U1 each has its turn again": (LAUNCH, "        most = MOST_LOOSE_STARTS * (1 + rounds)", "        most = MOST_LOOSE_STARTS", FALLBACK),
    "U1 the session knows no boot": (LAUNCH, '    boots = ("", found.get("boot_id"))', '    boots = (found.get("boot_id"),)', FALLBACK),
    "K7 staged to its end": (LAUNCH, " and ready == hashlib.sha256(data).hexdigest()", "", FALLBACK),
    "U3 the link knows the way back": (LAUNCH, '    lost = "" if trial else linked(base, "before")', '    lost = ""', FALLBACK),
    "U1 a watcher that does not start": (LAUNCH, "if counts.get(WATCHER + before, 0) < MOST_STARTS else", "if True else", FALLBACK),
    "U1 a watcher's starts are none of the version's": (WATCH, " if not name.startswith(WATCHER)}", "}", LOST),
    "the usual start writes nothing": (LAUNCH, "    if not trial and name == PACKAGED_NAME and not counts:\n        return", "    if False:\n        return", FALLBACK),
    "K7 the mark comes last": (STAGE, '            slots.note_ready(self._places, slot)\n', "", STAGED),
    "K7 nothing unmarked is gone to": (SLOTS, "        unmarked = () if is_ready(places, slot) else (READY,)", "        unmarked = ()", STOOD_IN),
    "U1 what is damaged is left": (STAND_IN, "    if damage:\n        leave(", "    if False:\n        leave(", STOOD_IN),
    "U1 what is whole is not left": (STAND_IN, "    if damage:\n        leave(", "    if True:\n        leave(", STOOD_IN),
    "LC_13 a trial is the watcher's": (STAND_IN, "    if places.trial.exists():\n        return\n    before", "    before", STOOD_IN),
    "U1 a refuge is whole": (STAND_IN, " and not slots.damage(places, previous)\n", "\n", STOOD_IN),
    "U1 only what is damaged is left for its session": (STEADY, "        if damage:\n", "        if True:\n", STOOD_IN),
    "U1 a session that never comes": (STEADY, "if agent.outside.uid < 0 and running != PACKAGED", "if False and running != PACKAGED", STOOD_IN),
    "U3 back where the record is lost": (WATCH, "        if before:\n            await self._without_record(before)", "        if False:\n            await self._without_record(before)", LOST),
    "U3 what cannot be read is asked for again": (WATCH, "        if trial is None and slots.before(self._places):", "        if False:", LOST),
    "U3 the way back is noted ahead of the switch": (WATCH, "        slots.note_before(self._places, trial.from_slot)\n        self._link(trial.slot)\n", "        self._link(trial.slot)\n", LOST),
    "U3 the link goes before the record": (ENDING, "    slots.forget_before(places)\n    places.trial.unlink(missing_ok=True)\n", "    places.trial.unlink(missing_ok=True)\n    slots.forget_before(places)\n", f"{LOST}::test_K7_what_is_left_of_an_end_is_no_lost_trial"),
    "LC_13 no verdict will come": (STEPS, "        if trial is None or trial.key != context.attempt_uid:\n            raise", "        if trial is None:\n            await asyncio.sleep(LOOK_S)\n            continue\n        if False:\n            raise", ENDED),
    "PG_06 withdrawn": (ORDER, "    if slot.name not in (installed.running, PACKAGED):\n        check_offered(installed, slot, who.now_ms)\n", "", WITHDRAWN),
    "PG_06 withdrawn, on the way back": (ORDER, "        _check_order(places, slot)\n        check_offered(installed, slot, who.now_ms)\n    return _trial(installed, slot, who, trial_seconds, ROLLBACK", "        _check_order(places, slot)\n    return _trial(installed, slot, who, trial_seconds, ROLLBACK", WITHDRAWN),
    "PG_06 replaced": (OFFERED, "    if mine is None or offered.sha256 != mine.sha256:", "    if False:", WITHDRAWN),
    "PK_09 an expired keyset": (OFFERED, "    trust.check_fresh(now_ms)\n", "", WITHDRAWN),
    "LC_16 a field of a later version": ("hostler.base.strict", "for name, each in value.items() if name in fields}", "for name, each in value.items()}", LATER),
    "U2 an hour": (JUDGE, "if trial.phase == RUNNING and since > UNPROVEN_MS else 0", "if False else 0", UNPROVEN),
    "U2 it is told": ("hostler.agent.standing", "        if self._agent.report.unproven:\n            return TRIAL_UNPROVEN\n", "", UNPROVEN),
    "LC_04 older units": (SURVEY, "_unit_evidence(root, manifest, installed)", "_unit_evidence(root, installed, installed)", REPORTED),
    "LC_13 superseded is not staged": (SLOTS, '        return "staged" if _is_ahead(places, one, version) else "superseded"', '        return "staged"', REPORTED),
}  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_slots_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.rpartition("\n")[2]
