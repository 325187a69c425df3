"""Each guard of the policy engine, taken out of the source: a test that exists for it goes red (AZ-11, OD-35)."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL, CONTROL = "hostler.control.kernel", "hostler.control"
ENGINE, CHILD, WORKER = (f"{CONTROL}.policy_engine.{name}" for name in ("engine", "child", "worker"))
ASKING = "tests/unit/control/kernel/test_asking.py"
JUDGING = "tests/unit/control/engine/test_judging.py"
ASKED = "tests/unit/control/policy_engine/test_engine.py"
WORKING = "tests/unit/control/policy_engine/test_worker.py"

GUARDS = {
    "the policy of the house comes first": (
        f"{KERNEL}.permitted",
        "refusal = refused(question, BUILT_IN, *also)",
        "refusal = refused(question, *(also or (BUILT_IN,)))",
        ASKING,
    ),
    "no answer has not agreed": (
        f"{KERNEL}.submit",
        "permitted.check(question, command.answer or permitted.Unasked())",
        "permitted.check(question, *filter(None, (command.answer,)))",
        ASKING,
    ),
    "no answer gets no allocation": (
        f"{KERNEL}.allocations",
        "command.answer or permitted.Unasked())",
        "*filter(None, (command.answer,)))",
        ASKING,
    ),
    "an answer is to one question": (
        f"{KERNEL}.permitted",
        "        if question.digest() != self.question_digest:\n",
        "        if False:\n",
        ASKING,
    ),
    "the house is not asked about": (
        f"{KERNEL}.submit",
        "if draft.settings.asks_outside and command.trigger_source == ASKED:",
        "if draft.settings.asks_outside:",
        ASKING,
    ),
    "a refusal is heard": (f"{KERNEL}.permitted", "return ALLOWED if self.allowed else", "return", ASKING),
    "silence is a refusal": (
        ENGINE,
        'raise Away(f"it gave no answer within {self._timeout_s:g} s") from err',
        "said = ()",
        f"{ASKED}::test_AZ_11_a_rule_without_end_is_a_refusal_and_holds_nobody_up",
    ),
    "a crash is a refusal": (
        ENGINE,
        "            return self._away(digest, str(err))\n",
        "            return Answer(question_digest=digest, allowed=True)\n",
        f"{ASKED}::test_AZ_11_a_rule_that_eats_memory_is_ended_and_refused",
    ),
    "a rule that fails is a refusal": (
        ENGINE,
        "        if isinstance(said, str):\n            return self._away(digest, said)\n",
        "        if isinstance(said, str):\n            return Answer(question_digest=digest, allowed=True)\n",
        f"{ASKED}::test_AZ_11_a_policy_that_fails_over_one_request_refuses_that_one",
    ),
    "who gave no answer is ended": (
        ENGINE,
        "                child.kill()\n        return said",
        "                self._idle.put_nowait(child)\n        return said",
        f"{ASKED}::test_AZ_11_a_rule_without_end_is_a_refusal_and_holds_nobody_up",
    ),
    "memory is watched": (
        CHILD,
        "if _resident(self._process.pid) > self._memory_bytes:",
        "if False:",
        f"{ASKED}::test_AZ_11_a_rule_that_eats_memory_is_ended_and_refused",
    ),
    "only a list of reasons is an answer": (
        WORKER,
        "if not isinstance(value, list) or",
        "if not isinstance(value, list):\n            return []\n        if",
        f"{WORKING}::test_only_a_list_of_texts_is_an_answer",
    ),
    "a rule sees the request as it is": (
        WORKER,
        "self._rego.set_input_term(question)",
        "self._rego.set_input(json.loads(question))",
        f"{WORKING}::test_a_rule_sees_the_very_request_that_is_run",
    ),
    "nothing can be opened": (
        WORKER,
        "resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)",
        "resource.RLIMIT_FSIZE)",
        f"{WORKING}::test_once_set_up_it_opens_nothing",
    ),
    "nobody else writes the rules": (
        f"{CONTROL}.policy_engine.files",
        "        if mode & stat.S_IWOTH:\n",
        "        if False:\n",
        f"{ASKED}::test_a_file_that_anybody_could_write_or_that_is_none_is_refused",
    ),
    "a question changed is asked again": (
        f"{CONTROL}.judging",
        'if err.code != "policy_changed":',
        "if True:",
        JUDGING,
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_without_the_guard_the_suite_is_red(name: str) -> None:
    module, text, without, test = GUARDS[name]
    outcome = outcome_without(Guard(module, text, without), test)
    assert outcome.returncode == 1, f"nobody noticed that the guard was gone: {name}\n{outcome.stdout[-2000:]}"
