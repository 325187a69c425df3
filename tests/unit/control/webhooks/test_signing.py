"""Signatures by the specification's own example, and secrets that are stored nowhere."""

import base64
import os
from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.control.webhooks.signing import WebhookKey, shown, signature


def test_a_signature_is_that_of_the_standard_webhooks_example() -> None:
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "webhook.key"
    first = WebhookKey(path).secret("whk_1")
    assert path.stat().st_mode & 0o777 == 0o600
    assert WebhookKey(path).secret("whk_1") == first
    assert WebhookKey(path).secret("whk_2") != first
    assert len(first) == 32
    assert first not in path.read_bytes()
    assert base64.b64decode(shown(first).removeprefix("whsec_")) == first


def test_SE_10_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "webhook.key"
    path.write_bytes(os.urandom(32))
    path.chmod(0o644)
    with pytest.raises(HostlerError, match="open to others"):
        WebhookKey(path).ready()


def test_a_key_of_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "webhook.key"
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(HostlerError) as caught:
        WebhookKey(path).ready()
    assert caught.value.code == "invalid_config"


def test_a_key_that_cannot_be_made_is_one_sentence_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(HostlerError) as caught:
        WebhookKey(tmp_path / "absent" / "webhook.key").ready()
    assert caught.value.code == "webhook_key_unavailable"
    assert "head -c 32" in caught.value.hint
