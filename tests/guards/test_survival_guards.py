# ruff: noqa: E501 - a table: one guard a line
"""Each guard that lets trust survive a taken-over control plane, taken out of the source: a test goes red."""

import pytest

from support.mutant import Guard, outcome_without

TRUST, KEYSET, MANIFEST = "hostler.pki.trust", "hostler.pki.keyset", "hostler.catalog.manifest"
APPROVAL, AGENT_TRUST = "hostler.catalog.approval", "hostler.agent.lifecycle.trust"
FRESH, JOURNAL, ENGINE = (
    "hostler.agent.admission.freshness",
    "hostler.agent.journal.journal",
    "hostler.control.published",
)
SESSIONS, KEYSETS = "hostler.control.kernel.sessions", "hostler.control.kernel.keysets"
ENROL, ROTATION, FILES = "hostler.control.rpc.enrolment_service", "hostler.pki.rotation", "hostler.pki.rotate_files"
CONFINE, WATCHER, SPAWN = "hostler.agent.host.confine", "hostler.agent.host.watcher", "hostler.agent.outside.spawn"
FRAMES, OUTSIDE, EXEC = (
    "hostler.agent.outside.frames",
    "hostler.agent.outside.outside",
    "hostler.agent.steps.command_run",
)
EFFECTS, PROCESS = "hostler.catalog.effects", "hostler.agent.outside.process"

U, F = "tests/unit", "tests/fault"
T_TRUST, T_APPROVAL = f"{U}/pki/test_trust.py", f"{U}/catalog/test_approval.py"
T_TRUSTED, T_HOLDS = f"{U}/agent/lifecycle/test_trusted.py", f"{U}/control/kernel/test_holds.py"
T_KEYSETS, T_ROTATION = f"{U}/control/engine/test_keysets.py", f"{U}/pki/test_rotation.py"
T_GATES, T_JOURNAL = f"{U}/agent/admission/test_gates.py", f"{U}/agent/journal/test_journal.py"
T_ID, T_TUF = f"{F}/test_PK_05_identity.py", "tests/conformance/test_tuf_cases.py"
T_WALLS, T_TWO = f"{U}/agent/host/test_walls_alone.py", f"{F}/test_SE_04_two_processes.py"

GUARDS = {
    "the epoch never falls": (TRUST, "if keyset.control_epoch < self._keyset.control_epoch:", "if False:", T_TRUST),
    "the catalog mark stays through an overlap": (TRUST, "if before.isdisjoint(key.key_id for key in self.keys(KeyRole.CATALOG)):", "if True:", T_TUF),
    "the catalog mark starts again with new keys": (TRUST, "if before.isdisjoint(key.key_id for key in self.keys(KeyRole.CATALOG)):", "if False:", T_TUF),
    "a catalog mark only rises": (TRUST, "if version > self._state.catalog_version:", "if True:", T_TRUST),
    "keyset numbers have a successor": (KEYSET, "if not 1 <= getattr(keyset, name) <= BIGGEST:", "if False:", T_TRUST),
    "catalog numbers have a successor": (MANIFEST, "if not 1 <= manifest.version <= BIGGEST:", "if False:", T_TUF),
    "what destroys is approved": (MANIFEST, "if needs_approval(definition, commands)", "if False", T_APPROVAL),
    "as root is destructive": (APPROVAL, "return any(profile.run_as in _ROOT for", "return any(False and profile for", T_APPROVAL),
    "an approval has enough signatures": (APPROVAL, "trust.verify(envelope, APPROVAL_TYPE, KeyRole.DESTRUCTIVE, now_ms)", "pass", T_APPROVAL),
    "an approval binds the commands": (APPROVAL, "commands={name: profile.digest() for name, profile in used.items()},", "commands={},", T_APPROVAL),
    "one catalog number, one content": (AGENT_TRUST, "            _refuse_fork(self.catalog, fresh)\n", "", T_TRUSTED),
    "a new keyset judges the catalog in force": (AGENT_TRUST, "            if self.catalog is not None:\n                self._use(", "            if False:\n                self._use(", T_TRUSTED),
    "the catalog mark is saved": (AGENT_TRUST, "        self.store.note_catalog(fresh.version)\n        save_trust", "        save_trust", T_TRUSTED),
    "a keyset brings its epoch": (AGENT_TRUST, "            self.refused = \"\"\n            await self._journal.begin_epoch(self.store.control_epoch)\n", "            self.refused = \"\"\n", T_TRUSTED),
    "a node that holds takes nothing": (FRESH, "if case.view.held:", "if False:", T_GATES),
    "dispatch alone opens no epoch": (FRESH, "if named > present:", "if False:", T_GATES),
    "memories are compared": ("hostler.agent.session.session", "welcome.sequence < journal.high_sequence:", "False:", f"{U}/agent/session/test_session.py"),
    "a lower epoch is held off": ("hostler.agent.session.session", "if welcome.control_epoch < journal.control_epoch:", "if False:", f"{U}/agent/session/test_session.py"),
    "a stalled link holds nobody up": ("hostler.agent.outside.serve", "            async with asyncio.timeout(_STALLED_S):\n                await link.outgoing", "            if True:\n                await link.outgoing", T_TWO),
    "calls are from a list": ("hostler.agent.outside.serve", "if ask.method not in METHODS:", "if False:", T_TWO),
    "the same epoch ends no hold": (JOURNAL, "if epoch <= self.control_epoch:", "if epoch < self.control_epoch:", T_JOURNAL),
    "store and keyset are of one epoch": (ENGINE, "if stored > signed or (stored < signed and not recovering):", "if False:", f"{U}/control/engine/test_epochs.py"),
    "a published keyset opens no epoch": (ENGINE, "if keyset.control_epoch != epoch:", "if False:", T_KEYSETS),
    "a published keyset keeps our dispatch key": (ENGINE, "if self._dispatch_keyid not in {key.key_id for key in after.keys(KeyRole.DISPATCH)}:", "if False:", T_KEYSETS),
    "a published keyset keeps our CA": (ENGINE, "if self.ca_in_use & lost:", "if False:", T_KEYSETS),
    "nothing is sent to a held node": (SESSIONS, "    if not here.hold:\n", "    if True:\n", T_HOLDS),
    "a clone is noticed": (SESSIONS, "(said.instance_id and said.instance_id in past)", "False", T_HOLDS),
    "a clone stays held": (SESSIONS, "if node.hold == CLONED or", "if False or", T_HOLDS),
    "a recovery needs a higher epoch": (KEYSETS, "if command.control_epoch <= before:", "if False:", T_HOLDS),
    "recovery asks for the enrolled key": (ENROL, "if known is None or not same_digest(known.thumbprint, key.key_id):", "if known is None:", T_ID),
    "recovery knows the revoked": (ENROL, "        if known.revoked:\n", "        if False:\n", T_ID),
    "recovery has an end": (ENROL, "if away_ms > self._recovery_ms:", "if False:", T_ID),
    "no role is left without keys": (ROTATION, "if len(left) < roles[each].threshold:", "if False:", T_ROTATION),
    "a CA is never replaced without an overlap": (FILES, "    if role is KeyRole.CA:\n        raise error(", "    if False:\n        raise error(", T_ROTATION),
    "an unsigned keyset counts nowhere": (FILES, "    if missing:\n", "    if False:\n", T_ROTATION),
    "no new privileges": (CONFINE, "if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:", "if False:", T_WALLS),
    "calls nobody needs": (CONFINE, "seccomp.install(kind, seccomp.baseline(kind, allowed), listener=False)", "pass", T_WALLS),
    "Landlock behind the watcher": (CONFINE, "version = landlock.restrict_writes(walls.writes)", "version = 7", T_WALLS),
    "no network undeclared": (CONFINE, "seccomp.declared(kind, walls.network, watched)", "seccomp.declared(kind, True, watched)", T_WALLS),
    "the user is given up": (CONFINE, "        _become(kind, *user)\n", "        pass\n", T_WALLS),
    "what was not declared is noted": (WATCHER, "self.undeclared.append(path)", "pass", T_WALLS),
    "an undeclared write fails the step": (EXEC, "undeclared(argv[0], finished) or failure_of", "failure_of", f"{U}/agent/steps/test_command_exec_allowlisted.py"),
    "effects are not everything": (EFFECTS, "elif path in _TOO_WIDE or auto_executed(path):", "elif False:", f"{U}/catalog/test_lint.py"),
    "the socket is for one user": (SPAWN, "if uid == self._uid:", "if True:", T_TWO),
    "the session is never root": (SPAWN, "if found.pw_uid == 0:", "if False:", T_TWO),
    "frames have an end": (FRAMES, "if size > MAX_FRAME:", "if False:", f"{T_TWO}::test_SE_04_a_frame_longer_than_any_is_refused_before_it_is_read"),
    "frames are strict": (FRAMES, "class _Frame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):", "class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag=True):", T_TWO),
    "a key is not printed": (FRAMES, "    def __repr__(self) -> str:", "    def _repr(self) -> str:", T_TWO),
    "codes from the network are known ones": (OUTSIDE, "code if code in CODES else", "code if True else", T_TWO),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_the_guard_a_test_goes_red(name: str) -> None:
    module, text, without, test = GUARDS[name]
    outcome = outcome_without(Guard(module, text, without), test)
    assert outcome.returncode == 1, outcome.stdout[-2000:] + outcome.stderr[-2000:]
