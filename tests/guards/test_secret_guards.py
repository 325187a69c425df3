"""Every guard around secrets is taken out once, and a test must go red (CR-03 to CR-06, CR-09, S1)."""

import importlib.util
from pathlib import Path

import pytest

from conftest import need_root
from support import minting
from support.canary import Canary, Scan, below
from support.house import open_house
from support.mutant import ROOT, Guard, outcome_without

SECRET, TABLE = "hostler.agent.secrets.secret", "hostler.agent.secrets.table"
STEP, EXEC = "hostler.agent.runner.step_run", "hostler.agent.steps.command_exec_allowlisted"
RUNNER, EXECUTE = "hostler.agent.runner.runner", "hostler.agent.host.execute"
LINT, NO_CORE = "hostler.catalog.lint_secrets", "hostler.pki.no_core"
ONE, MANY = "tests/unit/agent/secrets/test_secret.py", "tests/unit/agent/secrets/test_table.py"
TASK, KIND = (
    "tests/unit/agent/runner/test_secrets_of_a_task.py",
    "tests/unit/agent/steps/test_command_exec_allowlisted.py",
)
CHILD, LINTED = "tests/unit/agent/host/test_execute_secrets.py", "tests/unit/catalog/test_lint_secrets.py"
REAPER, PLACES = (
    "hostler.agent.host.reaper",
    f"{CHILD}::test_CR_04_wherever_the_descriptors_stand_the_child_gets_each_in_its_place",
)
CORE = "tests/unit/pki/test_no_core.py"

GUARDS = {
    "the bytes are overwritten": (SECRET, "    mapped[:] = bytes(len(mapped))\n", "", ONE),
    "what comes in is wiped": (SECRET, "source[:] = bytes(len(source))", "pass", ONE),
    "size and content are sealed": (SECRET, "fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, _SEALS)", "pass", ONE),
    "the memory is locked": (SECRET, "if locked != 0:", "if False:", ONE),
    "it is in no core file": (SECRET, "    mapped.madvise(mmap.MADV_DONTDUMP)\n", "", ONE),
    "it is in no child": (SECRET, "    mapped.madvise(mmap.MADV_DONTFORK)\n", "", ONE),
    "it is wiped when nobody holds it": (SECRET, "weakref.finalize(self, _wipe,", "weakref.finalize(os, _wipe,", ONE),
    "its text shows nothing": (SECRET, "    def __repr__(self) -> str:\n        return SCRUBBED", "    def __repr__(self) -> str:\n        return bytes(self._map).decode()", ONE),  # noqa: E501
    "it is not pickled": (SECRET, "def __reduce_ex__", "def _reduce_ex", ONE),
    "a wiped one gives no descriptor": (SECRET, "        if self.wiped:\n            raise error", "        if False:\n            raise error", ONE),  # noqa: E501
    "lines are scrubbed": (SECRET, "if data.find(line) >= 0:", "if False:", ONE),
    "handles are for certain steps": (TABLE, "step_id not in held.steps", "False", MANY),
    "one-time is one time": (TABLE, "held.taken_by not in (\"\", step_id)", "False", MANY),
    "expiry is looked at": (TABLE, "held.deadline.passed()", "False", MANY),
    "expiry wipes on time": (TABLE, "call_later(seconds, self._end,", "call_later(seconds + 60, self._end,", MANY),
    "no secret outlives the task": (TABLE, "min(lifetime_s, self._deadline.remaining())", "lifetime_s", MANY),
    "the last user ends it": (TABLE, "elif used_up or last or not succeeded or not held.steps:", "elif used_up or last or not succeeded:", MANY),  # noqa: E501
    "failure wipes": (TABLE, "or last or not succeeded or", "or last or", MANY),
    "the last step wipes": (TABLE, "elif used_up or last or", "elif used_up or", MANY),
    "success consumes": (TABLE, "if used_up and succeeded:", "if False:", MANY),
    "close wipes": (TABLE, "        for handle in tuple(self._held):\n", "        for handle in ():\n", MANY),
    "a closed table takes nothing": (TABLE, "if self._closed or", "if", MANY),
    "the end of a step wipes": (STEP, "self._secrets.step_ended(self._spec.step_id, succeeded=ended.err is None, last=final is not None)", "()", TASK),  # noqa: E501
    "the end of a task wipes": (RUNNER, "            task.close()\n", "            pass\n", TASK),
    "log lines are scrubbed": (STEP, "self._secrets.scrub(self._parts.redact(line))", "self._parts.redact(line)", TASK),
    "outputs are scrubbed": (EXEC, "context.secrets.scrub(text)", "text", KIND),
    "a step gives what the profile names": (EXEC, "if params.secrets.keys() != ", "if False and ", KIND),
    "a helper that saw a value ends": (EXECUTE, "                await helper.leave()\n", "                pass\n", CHILD),  # noqa: E501
    "secrets stand above the child's own descriptors": (REAPER, "fcntl.fcntl(secret, fcntl.F_DUPFD_CLOEXEC, _ABOVE)", "secret", PLACES),  # noqa: E501
    "the pinned executable stands above too": (REAPER, "fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _ABOVE)", "os.dup(low)", PLACES),  # noqa: E501
    "copies of descriptors are closed": (REAPER, "for held in (*above, fd):", "for held in (fd,):", PLACES),
    "secrets come from steps": (LINT, "if found is None or not found[0]:", "if False:", LINTED),
    "handles are not reused": (LINT, "earlier.id == found[0] and earlier.reusable", "False", LINTED),
    "no core file": (NO_CORE, "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "pass", CORE),
    "not dumpable": (NO_CORE, "prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)", "prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)", CORE),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_secrets_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]


KEEP = "    globals().setdefault('_kept', []).append(mapped)\n    return\n"
LEAVE = "                await helper.leave()\n"
LEAKS = {
    "wiping": Guard(SECRET, "    mapped[:] = bytes(len(mapped))\n", KEEP),
    "scrubbing of the log": Guard(STEP, "self._secrets.scrub(self._parts.redact(line))", "line"),
    "the end of the helper that saw a value": Guard(EXECUTE, LEAVE, LEAVE.replace("await helper.leave()", "pass")),
}  # fmt: skip
PRINTS = {"id": "prints", "command": "/usr/bin/cat", "args": ["${secret}"], "secret_files": ["secret"]}
IN_ENV = {"id": "in_env", "command": "/usr/bin/true", "secret_env": ["TOKEN"]}


@pytest.mark.parametrize("leak", LEAKS)
def test_S1_the_scan_finds_what_an_agent_without_a_guard_leaves_behind(leak: str, tmp_path: Path) -> None:
    need_root()
    spec = importlib.util.spec_from_file_location("s1", ROOT / "tests/fault/test_S1_canary.py")
    assert spec is not None
    assert spec.loader is not None
    s1 = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(s1)
    canary = Canary.fresh("secret")
    (tmp_path / "file").write_bytes(canary.data)
    definitions = [s1.definition(PRINTS, "secret"), s1.definition(IN_ENV, "TOKEN")]
    ref = "unit.prints@v1" if "log" in leak else "unit.in_env@v1"
    with open_house(definitions, [PRINTS, IN_ENV], minting.weakened(LEAKS[leak])) as house:
        house.serve()
        house.enrol("a")
        house.start("a")
        assert house.finished(house.submit(ref, {"file": str(tmp_path / "file")}))["status"] == "succeeded"
        scan = Scan(canary)
        if "log" not in leak:  # what a command prints passes through memory in any case
            scan.memory(*below(house.pids["a"]))
        scan.files(house.home)
        assert scan.hits
