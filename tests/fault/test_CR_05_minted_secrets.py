"""CR-03..CR-06, S1: credentials that a control plane really mints, in a real house, after every end; and a restart."""

import shutil
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from conftest import need_root
from support.canary import Canary, Scan, below
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(115), pytest.mark.xdist_group("house-cr05")]

CANARY = Canary.fresh("secret")
DIGEST = sha256(CANARY.data).hexdigest()
COMMANDS: list[dict[str, Any]] = [
    {"id": "cr_digest", "command": "/usr/bin/sha256sum", "args": ["${secret}"], "secret_files": ["secret"],
     "timeout_seconds": 30},
    {"id": "cr_fails", "command": "/usr/bin/cmp", "args": ["${secret}", "/dev/null"], "secret_files": ["secret"],
     "timeout_seconds": 30},
    # tail follows what it was given for ever; the profile's time ends it
    {"id": "cr_hangs", "command": "/usr/bin/tail", "base_args": ["-c1", "-f"], "args": ["${secret}"],
     "secret_files": ["secret"], "timeout_seconds": 1},
    {"id": "cr_env", "command": "/usr/bin/sleep", "args": ["0"], "secret_env": ["HF_TOKEN"], "timeout_seconds": 30},
]  # fmt: skip
INTENT = {"endpoint": "https://hub.test", "repository": "team/model"}


def definition(command: str, name: str, type_: str = "hf_token", **intent: str) -> dict[str, Any]:
    params = {
        "credential_type": type_,
        "intent": intent or INTENT,
        "for_steps": ["use"],
        "part": "key" if type_ == "cluster_join_token" else "token",
    }
    use = {"profile": command, "secrets": {name: "${steps.mint.handle}"}}
    return {
        "type": f"unit.{command}{'_join' if intent else ''}",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {"id": "mint", "kind": "credential.mint", "params": params, "reusable": False, "timeout_seconds": 30},
            {"id": "use", "kind": "command.exec_allowlisted", "params": use},
        ],
    }


DEFINITIONS = [
    *(definition(str(each["id"]), "HF_TOKEN" if each["id"] == "cr_env" else "secret") for each in COMMANDS),
    definition("cr_digest", "secret", "cluster_join_token", cluster="east"),
]
SCOPE = '[[minters.scopes]]\norg = "test-org"\nproject = "test"\n'


def minters(home: Path) -> str:
    """Its files lie outside the house: they are there to hold the secret."""
    kept = home.with_name(f"{home.name}-kept")
    kept.mkdir(0o700)
    for name in ("hub.token", "slurm.key"):
        (kept / name).touch(0o600)
        (kept / name).write_bytes(CANARY.data)
    hub = f'[[minters]]\nbackend = "read_token"\nname = "hub"\nsecret_file = "{kept}/hub.token"\n'
    slurm = '[[minters]]\nbackend = "slurm_key"\nname = "east"\ncluster_name = "east"\ncontrollers = ["ctl"]\n'
    return (
        f'{hub}{SCOPE}sources = ["https://hub.test/"]\n'
        f'{slurm}secret_file = "{kept}/slurm.key"\n{SCOPE}clusters = ["east"]\n'
    )


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    need_root()
    with open_house(DEFINITIONS, COMMANDS, minters=minters) as made:
        made.serve()
        made.enrol("a")
        made.start("a")
        yield made
        shutil.rmtree(made.home.with_name(f"{made.home.name}-kept"))


def clean(house: House, operation: str) -> None:
    """Nothing of the secret is anywhere but in the minter's own files and, maybe, the control plane's memory."""
    scan = Scan(CANARY)
    scan.surroundings()
    scan.files(house.home)
    scan.database(next((house.home / "control").glob("*.db")))
    scan.database(house.home / "a" / "state" / "journal.db")
    path = f"/api/v1/projects/test/operations/{operation}"
    for name in (path, f"{path}/logs", f"{path}/audit-bundle", "/metrics"):
        scan.text(name, house.client.raw(name), "answers")
    for event in house.client.events(f"{path}/events"):
        scan.text("an event", repr(event), "events")
    scan.memory(*below(house.pids["a"]))
    assert all(scan.looked[kind] for kind in ("files", "rows", "cmdline", "environ", "answers", "events", "memory"))
    assert scan.hits == [], scan.hits


def endings(house: House, operation: str) -> list[list[str]]:
    return [[end["end"] for end in receipt.get("secrets", ())] for receipt in house.receipts(operation)]


ENDS = {
    "success": ("cr_digest", "succeeded", ""),
    "failure": ("cr_fails", "failed", "exit_status"),
    "timeout": ("cr_hangs", "failed", "timeout"),
    "environment": ("cr_env", "succeeded", ""),
    "cluster key": ("cr_digest_join", "succeeded", ""),
}


@pytest.mark.parametrize("how", ENDS)
def test_S1_CR_05_a_minted_credential_leaves_no_trace(house: House, how: str) -> None:
    command, status, code = ENDS[how]
    operation = house.submit(f"unit.{command}@v1")
    ended = house.finished(operation)
    assert (ended["status"], ended["error_code"]) == (status, code), house.logs()
    handle = ended["tasks"][0]["steps"][0]["outputs"]["handle"]
    assert handle.startswith("secret:")  # SK-04: a name, never the value
    assert endings(house, operation) == [[], ["wiped"]]  # CR-06
    if command.startswith("cr_digest"):
        assert DIGEST.encode() in house.client.raw(f"/api/v1/projects/test/operations/{operation}/logs")
    clean(house, operation)


@pytest.mark.parametrize(
    "boundary", ["after_report:kill:credential.mint", "before_intent:kill:command.exec_allowlisted"]
)
def test_CR_05_a_credential_lost_in_a_restart_is_minted_again(house: House, boundary: str) -> None:
    house.stop("a")
    house.configure("a", fault_points=[boundary])
    agent = house.start("a")
    operation = house.submit("unit.cr_digest@v1")
    assert agent.wait(timeout=30) == -signal.SIGKILL, house.logs()
    house.run.forget("a")
    house.configure("a")
    house.start("a")
    ended = house.finished(operation)
    assert ended["status"] == "succeeded", (ended["error_message"], house.logs())
    logs = house.client.raw(f"/api/v1/projects/test/operations/{operation}/logs")
    assert DIGEST.encode() in logs
    assert b"made again" in logs
    assert endings(house, operation) == [[], ["wiped"]]
    events = house.client.events(f"/api/v1/projects/test/operations/{operation}/events")
    assert [event.name for event in events].count("credential.minted") == 2
    clean(house, operation)


def test_CR_05_a_minter_that_is_out_of_order_for_a_while_is_asked_again(house: House) -> None:
    """Its file has become readable by others meanwhile, and is not used as long as it is."""
    token = house.home.with_name(f"{house.home.name}-kept") / "hub.token"
    house.stop("a")
    house.configure("a", fault_points=["after_report:kill:credential.mint"])
    agent = house.start("a")
    operation = house.submit("unit.cr_digest@v1")
    assert agent.wait(timeout=30) == -signal.SIGKILL, house.logs()
    house.run.forget("a")
    token.chmod(0o644)
    try:
        house.configure("a")
        house.start("a")
        house.until(lambda: b"minter_failed" in house.log("control").read_bytes())
    finally:
        token.chmod(0o600)
    assert house.finished(operation)["status"] == "succeeded"  # it asked again, until it could be had
    clean(house, operation)
