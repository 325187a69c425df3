"""LC-13, LC-16: a version reads what a later one wrote before the node returned from that. What comes from outside is
read as strictly as ever."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.host.holdings import GRANTS, Granted, Grants, Holdings
from hostler.agent.lifecycle.identity import Facts
from hostler.agent.upgrade import records
from hostler.agent.upgrade.offered import Known
from hostler.agent.upgrade.records import Book, Said, Trial, Verdict
from hostler.agent.upgrade.slots import Ready
from hostler.base.errors import HostlerError
from hostler.base.strict import decode_json, decode_record
from hostler.pki.agent_report import AgentReport, DriftState, Returned
from hostler.pki.releases import Release
from hostler.pki.trust import TrustState
from hostler.pki.trust_files import load_trust, save_trust
from support.slots import release

FACTS = Facts(
    node_id="n", trust_domain="d", org_id="o", project_id="p", not_before_ms=1, not_after_ms=2, serial="3"
)  # fmt: skip
BACK = Returned(version="2", to_version="1", task_id="t", error_code="c", reason="r", at_ms=5)
TRIAL = Trial(
    key="k", task_id="t", kind="activate", version="2", commit="c", slot="two", from_version="1", from_slot="one",
    trial_ms=1, baseline_serial="1", boot_id="b", ordered_ms=1, held={"started": 1},
)  # fmt: skip
VERDICT = Verdict(
    key="k", task_id="t", end="kept", version="2", commit="c", slot="two", from_version="1", to_version="2",
    checks={"started": 1}, extended=0, boots=1, at_ms=1,
)  # fmt: skip
RECORDS = [
    TRIAL, VERDICT, BACK, FACTS, release("1.0.0", replaces=("2.0.0",)), Ready(manifest_sha256="a"),
    Book(good=("one",), bad={"two": "x"}, previous="one"), Said(key="k", slot="two", version="2"),
    Known(trusted={"root": b"\0\xff"}),
]  # fmt: skip


def with_more(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(value) | {"of_a_later_version": {"x": [1]}})


@pytest.mark.parametrize("value", RECORDS, ids=lambda value: type(value).__name__)
def test_LC_16_a_record_of_a_later_version_is_read(tmp_path: Path, value: msgspec.Struct) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(with_more(value))
    assert records.read(path, type(value)) == value
    assert decode_record(with_more(value), type(value)) == value


def test_LC_16_at_any_depth(tmp_path: Path) -> None:
    kept = Holdings(tmp_path)
    grants = Grants(users=(Granted(name="u", uid=1, home="/home/u"),), storage=("/srv",))
    said: dict[str, Any] = msgspec.to_builtins(grants)
    said["users"][0]["of_a_later_version"] = 1
    kept.write("alc_1", GRANTS, json.dumps(said | {"more": 1}).encode())
    assert kept.grants("alc_1") == grants


def test_LC_16_trust_of_a_later_version_is_read(tmp_path: Path) -> None:
    path, state = tmp_path / "trust.json", TrustState(trust_domain="d", root_keys=("k",), root_threshold=1, keyset=b"x")
    save_trust(path, state)
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | {"of_a_later_version": 1}))
    assert load_trust(path) == state


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"node_id": 3}', b"[" * 100_000])
def test_what_is_no_record_is_refused_as_before(data: bytes) -> None:
    with pytest.raises(HostlerError) as caught:
        decode_record(data, Facts)
    assert caught.value.code == "invalid_config"


REPORT = AgentReport(node_id="n", at_ms=1, version="1", commit="c", state=DriftState.IN_SYNC, returned=BACK)
FOREIGN: list[tuple[type[Any], Callable[[], bytes]]] = [
    (Release, lambda: with_more(release("1.0.0"))),
    (AgentReport, lambda: with_more(REPORT)),
]


@pytest.mark.parametrize(("type_", "data"), FOREIGN)
def test_T5_what_others_signed_or_sent_is_read_as_strictly_as_ever(type_: type[Any], data: Callable[[], bytes]) -> None:
    with pytest.raises(HostlerError) as caught:
        decode_json(data(), type_)
    assert caught.value.code == "unknown_field"
