"""Each guard of a node's own metrics, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

OBSERVE, TESTS = "hostler.agent.observe", "tests/unit/agent/test_observe.py"

GUARDS = [
    pytest.param(
        Guard(OBSERVE, "before = os.umask(0o117)", "before = os.umask(0)"),
        f"{TESTS}::test_OB_04_both_are_served_to_owner_and_group_alone",
        id="modes",
    ),
    pytest.param(
        Guard(OBSERVE, " and stat.S_ISSOCK(self._path.lstat().st_mode):", ":"),
        f"{TESTS}::test_a_file_that_is_no_socket_is_not_replaced",
        id="what is replaced",
    ),
    pytest.param(
        Guard(OBSERVE, "asyncio.timeout(TIMEOUT_S):", "asyncio.timeout(None):"),
        f"{TESTS}::test_OB_04_nonsense_gets_no_answer_and_ends_nothing",
        id="silence",
    ),
]


@pytest.mark.parametrize(("guard", "test"), GUARDS)
def test_a_test_goes_red_without_the_guard(guard: Guard, test: str) -> None:
    done = outcome_without(guard, *((test, "--timeout", "10")))
    assert done.returncode == 1, done.stdout + done.stderr
