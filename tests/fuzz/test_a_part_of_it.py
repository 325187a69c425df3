"""The part of the fuzzing that every run does; the whole is `python -m tests.fuzz.run`."""

from fuzz.run import bend
from fuzz.targets import TARGETS, believed, judge


def test_T4_T5_nothing_bent_is_believed_and_nothing_stumbles() -> None:
    share = bend(20261121, 10_000)
    assert share.found is None
    assert sum(share.words.values()) == 10_000
    assert {"bad_signature", "malformed_envelope", "untrusted_key"} <= set(share.words)


def test_the_samples_themselves_are_believed() -> None:
    """Else the rest would prove nothing."""
    for target in TARGETS:
        assert judge(target, target.samples[0]) == "the same message in another frame", target.name
        assert not believed(judge(target, target.samples[0]))


def test_a_verifier_that_believes_is_noticed(monkeypatch) -> None:

    from hostler.pki import dsse

    monkeypatch.setattr(dsse, "verify", lambda envelope, *_: envelope.payload)
    found = bend(1, 5000).found
    assert found is not None
    assert believed(found.what) or "Error" in found.what
