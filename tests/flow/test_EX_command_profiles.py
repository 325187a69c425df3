"""EX-01, EX-02, EX-09: who may define a command profile, what is written down of it, and who has the last word."""

import contextlib
import sqlite3
from collections.abc import Iterator

import httpx
import msgspec
import pytest

from hostler.catalog.command_profile import command_profile_from
from hostler.control.api.authz import ROLES
from support.house import ORG, PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(60), pytest.mark.xdist_group("house-ex")]
WRITE = "/api/v1/admin/operation-definitions"
MARK = {
    "id": "mark", "command": "/usr/bin/mkdir", "args": ["--", "${path}"], "timeout_seconds": 5,
    "arg_schema": {"path": {"type": "string", "pattern": "^/[A-Za-z0-9_/.-]+$"}},
}  # fmt: skip
DEFINITION = {
    "type": "unit.mark",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": {"type": "string"}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "one",
            "kind": "command.exec_allowlisted",
            "params": {"profile": "mark", "args": {"path": "${inputs.path}"}},
        }
    ],
}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house([DEFINITION], [MARK]) as made:
        made.serve()
        made.enrol("a")
        (made.home / "open").mkdir()
        (made.home / "open").chmod(0o777)
        yield made


def token(house: House, role: str) -> str:
    scope = {"org_id": ORG, "project_id": PROJECT if role.startswith("project") else ""}
    body = {"name": f"ex-{role}", "role": role} | ({} if role in ("platform_admin", "auditor") else scope)
    made: str = house.client.call("POST", "/api/v1/admin/principals", body=body)["token"]
    return made


def audit(house: House) -> list[tuple[str, str, str, str]]:
    """(actor, action, result, error code) of every line, as the store holds it."""
    (database,) = (house.home / "control").glob("*.db")
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
        return store.execute("SELECT actor, action, result, error_code FROM audit_logs").fetchall()


def test_EX_01_EX_02_only_the_platform_s_administrator_writes_profiles_and_each_try_is_written_down(
    house: House,
) -> None:
    bundle = msgspec.json.decode((house.home / "catalog.json").read_bytes())
    for role in ROLES:
        headers = {"authorization": f"Bearer {token(house, role)}"}
        with httpx.Client(base_url=house.ports.server, headers=headers, trust_env=False) as http:
            answer = http.post(WRITE, json=bundle)
        if role == "platform_admin":
            assert answer.status_code < 400, answer.text
            continue
        assert (answer.status_code, answer.json()["error_code"]) == (403, "scope_denied"), role
    lines = [line for line in audit(house) if line[1] == "catalog.register"]
    assert ("house", "catalog.register", "accepted", "") in lines
    refused = [
        (f"ex-{role}", "catalog.register", "refused", "scope_denied") for role in ROLES if role != "platform_admin"
    ]
    assert sorted(line for line in lines if line[2] == "refused") == sorted(refused)


def test_EX_01_an_input_cannot_bring_a_profile_along(house: House) -> None:
    house.start("a")
    try:
        for inputs in ({"path": "/x", "command": "/bin/sh"}, {"path": "/x", "profile": "noop_true"}):
            with pytest.raises(Exception, match="Additional properties"):
                house.submit("unit.mark@v1", inputs)
    finally:
        house.stop("a")


def test_EX_09_what_root_of_the_node_denies_starts_no_process(house: House) -> None:
    config = house.home / "a" / "agent.toml"
    kept = config.read_text()
    target = house.home / "open" / "made"
    try:
        config.write_text(kept + '\n[authority]\ndeny_command_profiles = ["mark"]\n')
        house.start("a")
        operation_id = house.submit("unit.mark@v1", {"path": str(target)})
        operation = house.finished(operation_id)
        assert (operation["status"], operation["error_code"]) == ("failed", "local_policy_denied")
        assert [receipt["error_code"] for receipt in house.receipts(operation_id)] == ["local_policy_denied"]
        assert not target.exists()
    finally:
        house.stop("a")
        config.write_text(kept)
    house.start("a")
    assert house.finished(house.submit("unit.mark@v1", {"path": str(target)}))["status"] == "succeeded"
    assert target.is_dir()
    house.stop("a")


def test_EX_02_a_profile_that_is_altered_is_another_profile() -> None:
    """A catalog names it by digest: the smallest change is a new registration."""
    assert command_profile_from(MARK).digest() != command_profile_from(MARK | {"timeout_seconds": 6}).digest()
