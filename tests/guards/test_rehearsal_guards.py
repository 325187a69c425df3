"""Every guard around a rehearsal is taken out once, and a test must go red."""

import pytest

from support.mutant import Guard, outcome_without

AGENT, TESTS = "hostler.agent", "tests/unit/agent/test_rehearse.py"
GUARDS = {
    "the host is asked for": (
        f"{AGENT}.rehearse",
        "    if not wanted.allow_host:\n",
        "    if False:\n",
        "EX_09_a_command",
    ),
    "the root is no machine": (f"{AGENT}.rehearse", '    if root == Path("/"):\n', "    if False:\n", "does_not_start"),
    "destroying kinds are out": (
        f"{AGENT}.rehearse_scope",
        "    if kind is not None and kind.destructive:\n",
        "    if False:\n        return ''\n    if step.kind == 'cluster.join':\n        return ''\n    if False:\n",
        "reaches_the_machine",
    ),
    "image stores are out": (f"{AGENT}.rehearse_scope", "not in _IMAGE_PLACES:", "in ():", "told_decides"),
    "lines are plain": (f"{AGENT}.rehearse_tell", "c if c.isprintable() else", "c if True else", "steer_a_terminal"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_guard_of_the_rehearsal_a_test_fails(name: str) -> None:
    module, text, without, test = GUARDS[name]
    done = outcome_without(Guard(module, text, without), TESTS, "-k", test)
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
