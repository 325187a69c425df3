"""LC-16: whatever the version on trial has made of this node, its watcher goes on and finds that it cannot be kept."""

from pathlib import Path

import pytest

from hostler.agent import trial_run
from hostler.agent.config import AgentConfig, Control
from hostler.agent.trial_run import has_answer, is_renewed
from hostler.agent.upgrade import records
from hostler.agent.upgrade.records import Said


@pytest.fixture
def config(tmp_path: Path) -> AgentConfig:
    control = Control(address="control.example:7443", enroll_address="control.example:7444")
    return AgentConfig(control=control, state_dir=str(tmp_path))


async def test_LC_16_a_node_without_its_identity_counts_as_answered(config: AgentConfig) -> None:
    """It cannot ask, so it must not wait for an answer, nor fall over."""
    assert await has_answer(config)


async def test_LC_16_whatever_keeps_us_from_asking_counts_as_answered(
    config: AgentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: AgentConfig) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trial_run, "is_served", broken)
    assert await has_answer(config)


async def test_U2_what_the_control_plane_says_is_passed_on(
    config: AgentConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: AgentConfig) -> bool:
        return False

    monkeypatch.setattr(trial_run, "is_served", away)
    assert not await has_answer(config)


@pytest.mark.parametrize("left", [b"", b"\0" * 100, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_LC_21_garbage_is_no_renewed_certificate(tmp_path: Path, left: bytes) -> None:
    folder = tmp_path / "identity"
    folder.mkdir()
    for name in ("node.key", "certificate.pem", "node.json"):
        (folder / name).write_bytes(left)
        (folder / name).chmod(0o600)
    assert is_renewed(tmp_path, "1") is False


def test_U1_words_nested_beyond_reason_are_no_words(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_bytes(b'{"x":' + b"[" * 200_000)
    assert records.read(path, Said) is None
