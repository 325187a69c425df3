"""S1: after every end of a task nobody finds the secret it used; nor tokens and keys, after a whole life."""

import os
import signal
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from conftest import need_root
from hostler.cli.client import Client
from hostler.cli.settings import Settings
from hostler.control.api.table import ROUTES
from support import minting
from support.canary import Canary, Scan, below
from support.commands import until
from support.house import ORG, PATH, PROJECT, House, open_house
from support.routes import path_of

pytestmark = [pytest.mark.timeout(115), pytest.mark.xdist_group("house-s1")]

# Reads its secret, says which it was, names itself in a file, stays as long as it is told, ends as it is told.
# In Perl, because the service user cannot enter every place where Python may be installed.
USES = (
    "$SIG{TERM} = 'DEFAULT';"
    " my ($how, $marker, $seconds, $status) = @ARGV;"
    " open(my $f, '<', $how) or exit 9; read($f, my $word, 65536);"
    ' open(my $m, \'>\', "$marker.new"); print $m "$$ " . length($word); close $m;'
    ' rename "$marker.new", $marker; select(undef, undef, undef, $seconds); exit $status;'
)
NUMBER = {"type": "integer", "minimum": 0, "maximum": 600}
TEXT = {"type": "string", "pattern": "^/[A-Za-z0-9._/-]*$"}
BASE: dict[str, Any] = {
    "id": "s1_file",
    "command": "/usr/bin/perl",
    "base_args": ["-e", USES, "--"],
    "args": ["${secret}", "${marker}", "${seconds}", "${status}"],
    "arg_schema": {"marker": TEXT, "seconds": NUMBER, "status": NUMBER},
    "secret_files": ["secret"],
    "timeout_seconds": 60,
}
IN_ENV = BASE | {
    "id": "s1_env",
    "base_args": ["-e", USES.replace("'<', $how", "'<', \\$ENV{TOKEN}"), "--"],
    "args": ["/dev/null", "${marker}", "${seconds}", "${status}"],
    "secret_files": [],
    "secret_env": ["TOKEN"],
}
SHORT = BASE | {"id": "s1_short", "timeout_seconds": 2}
DIGEST = {"id": "s1_digest", "command": "/usr/bin/sha256sum", "args": ["${secret}"], "secret_files": ["secret"],
          "timeout_seconds": 10}  # fmt: skip
PRINTS = DIGEST | {"id": "s1_prints", "command": "/usr/bin/cat"}
COMMANDS = [BASE, IN_ENV, SHORT, DIGEST, PRINTS]


def definition(command: dict[str, Any], name: str) -> dict[str, Any]:
    given = {arg: f"${{inputs.{arg}}}" for arg in command.get("arg_schema", {})}
    return {
        "type": f"unit.{command['id']}",
        "version": "v1",
        "inputs": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"file": TEXT, **command.get("arg_schema", {})},
        },
        "capabilities": {"os.kernel": "linux"},
        "steps": [
            {
                "id": "mint",
                "kind": minting.KIND_NAME,
                "params": {"file": "${inputs.file}", "steps": ["use"], "one_time": True},
                "reusable": False,
            },
            {
                "id": "use",
                "kind": "command.exec_allowlisted",
                "params": {"profile": command["id"], "args": given, "secrets": {name: "${steps.mint.handle}"}},
            },
        ],
    }


DEFINITIONS = [definition(c, "TOKEN" if c is IN_ENV else "secret") for c in COMMANDS]


class Place:
    """One house for all, and what a scan must leave out: files whose purpose is to hold a secret."""

    def __init__(self, house: House, outside: Path) -> None:
        self.house, self.outside = house, outside
        self.open = house.home / "open"
        self.open.mkdir()
        self.open.chmod(0o777)
        self.enrolment = Scan()
        self.job = ""

    def plant(self) -> tuple[Canary, Path]:
        canary = Canary.fresh("secret")
        path = self.outside / sha256(canary.data).hexdigest()[:12]
        path.touch(0o600)
        path.write_bytes(canary.data)
        return canary, path

    def start(self, ref: str, path: Path, seconds: int, status: int = 0) -> tuple[str, Path]:
        marker = self.open / path.name
        inputs = {"file": str(path), "marker": str(marker), "seconds": seconds, "status": status}
        return self.house.submit(f"unit.{ref}@v1", inputs), marker

    def everywhere(self, scan: Scan, *operations: str, but: tuple[Path, ...] = ()) -> None:
        """All that is outside the memory of processes."""
        home = self.house.home
        scan.surroundings()
        scan.files(home, but=but)
        for path in Path.cwd().glob("core*"):  # where the kernel puts core files of what was started here
            if path.is_file():
                scan.text(str(path), path.read_bytes())
        scan.database(next((home / "control").glob("*.db")))
        scan.database(home / "a" / "state" / "journal.db")
        client = self.house.client
        for name, asked in {"/metrics": {}, "/openapi.json": {}, **paths(self.job, *operations)}.items():
            if name.endswith("/envelope"):
                tasks = client.call("GET", name.removesuffix("/envelope"))["tasks"]
                asked = {"node": tasks[0]["node_name"]}
            if name.endswith("/events") and "/operations/" in name:  # that stream ends with its operation
                for event in client.events(name):
                    scan.text(f"an event of {name}", repr(event), "events")
            else:
                scan.text(name, client.raw(name, **asked), "answers")
        assert all(scan.looked[kind] for kind in ("files", "rows", "cmdline", "environ", "answers")), scan.looked
        assert bool(scan.looked["events"]) == bool(operations)

    def memory(self, scan: Scan) -> None:
        """Of the agent and all its helpers. The control plane never had the secret; it is asked as well."""
        for name in ("a", "control"):
            scan.memory(*below(self.house.pids[name]))
        assert scan.looked["memory"] > 10_000_000


ASKED = {"node_id": "a", "node": "a", "key_id": "0" * 64}


def paths(job: str, *operations: str) -> dict[str, dict[str, str]]:
    """Whatever the API lets an administrator read, from its own table of routes, and what to ask with."""
    found, absent = (
        {},
        ("{allocation_id}", "{endpoint_id}", "{webhook_id}", "{sha256}", "{rollout_id}", "{run_id}"),
    )  # there is none in this house
    for route in (route for route in ROUTES if not any(name in route.path for name in absent)):
        for operation in operations if "{operation_id}" in route.path else ("",):
            named = {"project_id": PROJECT, "operation_id": operation, "node_id": "a", "ref": "node.smoke.noop@v1"}
            named["job_id"] = job
            if route.method == "GET" and "{artifact_id}" not in route.path:  # kept content is searched in the store
                found[path_of(route, **named)] = {each: ASKED[each] for each in ASKED if each in route.query}
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_root()
    with open_house(DEFINITIONS, COMMANDS, minting.programs) as house:
        house.serve()
        made = Place(house, tmp_path_factory.mktemp("outside"))
        house.enrol("a")
        house.start("a")
        body = {"name": "open", "command": ["/bin/true"]}
        made.job = house.client.call("POST", f"/api/v1/projects/{PROJECT}/jobs", body=body)["job_id"]
        assert house.finished(made.job)["status"] == "succeeded"
        yield made


def said(place: Place, operation: str) -> list[Any]:
    """What the receipts say became of secrets, step by step."""
    return [[end["end"] for end in receipt.get("secrets", ())] for receipt in place.house.receipts(operation)]


async def test_S1_CR_04_while_a_command_uses_its_secret_only_memory_holds_it(place: Place) -> None:
    canary, path = place.plant()
    operation, marker = place.start("s1_file", path, 600)
    pid, length = (await until(marker)).split()
    assert int(length) == len(canary.data)
    scan = Scan(canary)
    place.everywhere(scan)
    assert scan.hits == []
    child = Scan(canary)
    child.memory(int(pid))
    assert child.hits  # the command has read it, of course
    agent = Scan(canary)
    place.memory(agent)
    here = {hit.where.partition(", ")[2].split("(")[0].strip() for hit in agent.hits if f" {pid} " not in hit.where}
    assert here == {"/memfd:hostler-secret"}  # and in no other place of the agent, its helpers, the control plane
    place.house.client.call("POST", f"{PATH}/{operation}/cancel")
    assert place.house.finished(operation)["status"] == "canceled"


async def test_S1_CR_04_the_command_reads_the_very_bytes(place: Place) -> None:
    canary, path = place.plant()
    operation = place.house.submit("unit.s1_digest@v1", {"file": str(path)})
    assert place.house.finished(operation)["status"] == "succeeded"
    assert sha256(canary.data).hexdigest().encode() in place.house.client.raw(f"{PATH}/{operation}/logs")


async def test_S1_CR_09_a_command_that_prints_its_secret_leaves_it_nowhere_but_in_passing(place: Place) -> None:
    canary, path = place.plant()
    operation = place.house.submit("unit.s1_prints@v1", {"file": str(path)})
    assert place.house.finished(operation)["status"] == "succeeded"
    assert b"[secret]" in place.house.client.raw(f"{PATH}/{operation}/logs")
    scan = Scan(canary)
    place.everywhere(scan, operation)
    assert scan.hits == []


async def test_S1_no_process_of_ours_may_leave_a_core_file(place: Place) -> None:
    _, path = place.plant()
    operation, marker = place.start("s1_file", path, 600)
    await until(marker)
    for name in ("a", "control"):
        for pid in below(place.house.pids[name]):  # the agent, its helper, the command; the control plane
            try:
                limits = Path(f"/proc/{pid}/limits").read_text()
            except (FileNotFoundError, ProcessLookupError):  # it has ended since
                continue
            (line,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
            assert line.split()[4:6] == ["0", "0"], (name, pid)
    place.house.client.call("POST", f"{PATH}/{operation}/cancel")
    place.house.finished(operation)


ENDS = {
    "success": ("s1_file", 0, 0, "succeeded", "consumed"),
    "success with a variable": ("s1_env", 0, 0, "succeeded", "consumed"),
    "failure": ("s1_file", 0, 3, "failed", "wiped"),
    "failure with a variable": ("s1_env", 0, 3, "failed", "wiped"),
    "timeout": ("s1_short", 600, 0, "failed", "wiped"),
    "cancel": ("s1_file", 600, 0, "canceled", "wiped"),
    "cancel with a variable": ("s1_env", 600, 0, "canceled", "wiped"),
    "the helper is killed": ("s1_file", 600, 0, "failed", "wiped"),
    "the helper is killed with a variable": ("s1_env", 600, 0, "failed", "wiped"),
    "the agent is killed": ("s1_file", 600, 0, "failed", None),
    "the agent is stopped": ("s1_file", 600, 0, "failed", None),
}


@pytest.mark.parametrize("end", ENDS)
async def test_S1_CR_05_CR_09_after_the_end_of_the_task_nobody_finds_its_secret(place: Place, end: str) -> None:
    ref, seconds, status, becomes, receipt = ENDS[end]
    canary, path = place.plant()
    operation, marker = place.start(ref, path, seconds, status)
    pid = int((await until(marker)).split()[0])
    await happens(place, end, operation, pid)
    assert place.house.finished(operation)["status"] == becomes
    assert said(place, operation) == [[], [receipt] if receipt else []]
    path.unlink()
    scan = Scan(canary)
    place.everywhere(scan, operation)
    place.memory(scan)
    assert scan.hits == []


async def happens(place: Place, end: str, operation: str, pid: int) -> None:
    house = place.house
    if end.startswith("cancel"):
        house.client.call("POST", f"{PATH}/{operation}/cancel")
    elif end.startswith("the helper is killed"):
        helper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert helper != house.pids["a"]
        os.kill(helper, signal.SIGKILL)
    elif end == "the agent is killed":
        house.kill("a")
        house.start("a")
    elif end == "the agent is stopped":
        house.restart("a")


def key_bytes(path: Path) -> bytes:
    key = load_pem_private_key(path.read_bytes(), None)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.private_bytes_raw()
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.private_numbers().private_value.to_bytes(32, "big")


def test_S1_CR_09_tokens_and_keys_stand_only_where_they_are_kept(place: Place) -> None:
    house, home = place.house, place.house.home
    body = {"node_name": "late", "org_id": ORG, "project_id": PROJECT}
    made = house.client.call("POST", "/api/v1/admin/enrolment-tokens", body=body)
    principal = {"name": "auditor", "role": "platform_admin"}
    bearer = house.client.call("POST", "/api/v1/admin/principals", body=principal)["token"]
    house.configure("late")
    kept = [home / "late" / "token", home / "auditor.token", home / "admin.token"]
    for path, text in zip(kept, (made["token"], bearer), strict=False):
        path.touch(0o600)
        path.write_text(text)
    texts = {"enrolment token": made["token"], "bearer token": bearer, "administrator": kept[2].read_text()}
    tokens = [Canary.of(name, text[-43:].encode()) for name, text in texts.items()]  # without prefix and public id
    during = Scan(*tokens)
    watching = threading.Event()
    watcher = threading.Thread(target=lambda: [during.surroundings() for _ in iter(watching.is_set, True)])
    watcher.start()
    try:
        config = str(home / "late" / "agent.toml")
        house.do("hostler-agent", "enroll", "--config", config, "--token-file", str(kept[0]))
        house.start("late")
        operation = house.submit("node.smoke.noop@v1", nodes=("late",))
        assert house.finished(operation)["status"] == "succeeded"
        auditor = Client(Settings(server=house.ports.server, token_file=str(kept[1]), project=PROJECT))
        assert auditor.call("GET", "/api/v1/whoami")["name"] == "auditor"
        auditor.close()
        refused_texts = refusals(house, made["token"], bearer)
    finally:
        watching.set()
        watcher.join()
    assert during.hits == []
    assert during.looked["cmdline"] > 100

    key_files = [*home.rglob("*.key")]
    assert len(key_files) >= 6
    assert {path.name for path in key_files} >= {"node.key", "catalog.key"}
    keys = [Canary.of(str(path.relative_to(home)), key_bytes(path)) for path in key_files]
    scan = Scan(*tokens, *keys)
    place.everywhere(scan, operation, but=(*kept, home / "a" / "token", *key_files))
    for text in refused_texts:
        scan.text("a refusal", text)
    assert scan.hits == []
    tokens_only = Scan(*tokens)
    tokens_only.memory(*below(house.pids["late"]))
    assert tokens_only.hits == []
    everything = Scan(*keys, *tokens)
    everything.files(home)  # the positive: left in, each of them is found
    assert {hit.form.partition(": ")[0] for hit in everything.hits} == {c.name for c in everything.canaries}


def refusals(house: House, token: str, bearer: str) -> list[str]:
    """What is said when secrets come where they do not belong."""
    import httpx

    headers = {"authorization": f"Bearer {bearer}"}
    found = []
    with httpx.Client(base_url=house.ports.server, trust_env=False) as http:
        for inputs in ({"token": token}, {"x": token}, {"x": bearer}, {"x": [f"a {bearer} b"]}):
            body = {"operation_type": "node.smoke.noop", "version": "v1", "target_selector": {"nodes": ["late"]}}
            answer = http.post(PATH, headers=headers, json=body | {"inputs": inputs})
            assert answer.status_code in (400, 422), answer.text
            found.append(answer.text)
        for bad in (f"{bearer}x", token):
            answer = http.get("/api/v1/whoami", headers={"authorization": f"Bearer {bad}"})
            assert answer.status_code == 401
            found.append(answer.text)
    return found
