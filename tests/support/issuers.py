"""What tests ask minters for, how these are configured, and what they say when their issuer answers amiss."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.credentials import intent_of
from hostler.control.credentials import config
from hostler.control.credentials.contract import Ask
from support.tls_server import Asked

NOW = 1_800_000_000_000
DEADLINE = NOW + 600_000
DIGEST = "sha256:" + "a" * 64
SECRET = "canary-long-lived-secret-0123456789"
INTENTS: dict[str, dict[str, str]] = {
    "oci_pull": {"registry": "https://r.test", "repository": "team/model", "digest": DIGEST},
    "s3_read": {"endpoint": "https://s3.test", "bucket": "models", "prefix": "llm/v1/"},
    "gcs_read": {"bucket": "models", "prefix": "llm/v1/"},
    "hf_token": {"repository": "team/model"},
    "cluster_join_token": {"cluster": "east"},
    "https_signed_url": {"url": "https://s3.test/models/llm/v1/a.bin"},
}


def ask(type_: str, **changes: Any) -> Ask:
    values: dict[str, Any] = {
        "credential_type": type_,
        "intent": intent_of(type_, INTENTS[type_] | changes.pop("intent", {})),
        "org_id": "acme",
        "project_id": "train",
        "node_id": "nod_1",
        "task_id": "tsk_1",
        "now_ms": NOW,
        "deadline_ms": DEADLINE,
    }
    return Ask(**(values | changes))


def private(path: Path, data: bytes | str) -> str:
    path.touch(0o600)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def common(home: Path, secret: bytes | str = SECRET, **more: Any) -> dict[str, Any]:
    scope = config.Scope(org="acme", project="train", sources=("https://r.test/",), clusters=("east",))
    return {"name": "one", "secret_file": private(home / "secret", secret), "scopes": (scope,)} | more


def form(asked: Asked) -> dict[str, str]:
    return {name: value for name, (value,) in parse_qs(asked.body.decode(), strict_parsing=True).items()}


async def failure(minter: Any, order: Ask, code: str = "minter_failed") -> str:
    with pytest.raises(HostlerError) as caught:
        await minter.mint(order)
    assert caught.value.code == code
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.message
