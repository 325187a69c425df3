"""`policy check`: every gate is asked, in the order of `admit`, and the first refusal is the one `admit` gives."""

import pytest

from hostler.agent.admission.admit import TASK, admit
from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.explain import explain
from hostler.agent.admission.verdict import Admitted, Refusal
from support import builders
from support.keys import NOW, Keys

KEYS = Keys()
CATALOG = builders.catalog(KEYS)


def judged(spec=None, **view):
    sent = builders.envelope(KEYS, spec or builders.task(KEYS, CATALOG))
    looked = builders.view(KEYS, CATALOG, **view)
    return explain(sent, looked, NOW), admit(sent, looked, NOW)


def test_an_honest_envelope_passes_every_gate() -> None:
    words, verdict = judged()
    assert [word.gate for word in words] == list(TASK)
    assert {word.verdict for word in words} == {"passed"}
    assert isinstance(verdict, Admitted)


@pytest.mark.parametrize(
    "view",
    [
        {"held": True},
        {"node_id": "nod_other"},
        {"authority": LocalAuthority(deny_operations=("demo.write",))},
        {"storage": "disk_full"},
        {"high_sequence": 10**9},
    ],
)
def test_the_first_refusal_is_the_one_that_counts_and_the_others_are_told_as_well(view) -> None:
    words, verdict = judged(**view)
    assert isinstance(verdict, Refusal)
    refused = [word for word in words if word.verdict == "refused"]
    assert (refused[0].gate, refused[0].error_code) == (verdict.gate, verdict.error_code)
    assert len(words) == len(TASK)


def test_several_reasons_are_all_named() -> None:
    words, _ = judged(held=True, storage="disk_full", authority=LocalAuthority(deny_operations=("demo.write",)))
    assert [word.gate for word in words if word.verdict == "refused"] == ["epoch", "storage", "authority"]


def test_T6_what_is_not_signed_is_not_judged_further() -> None:
    sent = builders.envelope(Keys(), builders.task(KEYS, CATALOG))
    words = explain(sent, builders.view(KEYS, CATALOG), NOW)
    assert (words[0].verdict, words[0].error_code) == ("refused", "untrusted_key")
    assert {word.verdict for word in words[1:]} == {"not judged"}
