"""U2: whether the control plane would serve this node; what it says of the node itself is an answer all the same."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent.lifecycle import certificates
from hostler.agent.outside.grpc_errors import CODE_KEY, as_hostler_error
from hostler.base.errors import error


def served(monkeypatch: pytest.MonkeyPatch, code: str) -> bool:
    asked = []

    async def ask(*words: Any) -> bytes:
        asked.append(words)
        if code:
            raise error(code, "said")
        return b""

    monkeypatch.setattr(certificates, "tls_of", lambda me, trust: "tls")
    me: Any = SimpleNamespace()
    answer = asyncio.run(certificates.served(ask, me, me, "control:1", 8.0))
    assert asked == [("tls", "control:1", "Check", b"", 8.0)]
    return answer


@pytest.mark.parametrize(
    "code", ["controller_unreachable", "rate_limited", "store_unavailable", "disk_full", "internal_error"]
)
def test_U2_a_control_plane_that_cannot_is_at_fault(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    assert not served(monkeypatch, code)


@pytest.mark.parametrize("code", ["", "revoked", "certificate_invalid", "method_not_allowed", "not_found"])
def test_U2_a_control_plane_that_answers_is_not(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    assert served(monkeypatch, code)


@pytest.mark.parametrize(
    ("status", "named", "code"),
    [
        ("UNIMPLEMENTED", "", "method_not_allowed"),
        ("UNAVAILABLE", "", "controller_unreachable"),
        ("RESOURCE_EXHAUSTED", "", "controller_unreachable"),
        ("RESOURCE_EXHAUSTED", "rate_limited", "rate_limited"),
        ("DEADLINE_EXCEEDED", "", "controller_unreachable"),
    ],
)
def test_U2_a_control_plane_of_before_the_call_is_there_all_the_same(status: str, named: str, code: str) -> None:
    """Otherwise the trial of a bad version would never end under an older control plane."""
    told = ((CODE_KEY, named),) if named else ()
    err = SimpleNamespace(
        code=lambda: SimpleNamespace(name=status), details=lambda: "said", trailing_metadata=lambda: told
    )
    assert as_hostler_error(err, "control:1").code == code
