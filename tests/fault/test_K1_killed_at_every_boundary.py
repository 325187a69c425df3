"""K1, K2: the agent dies, or fails, at every boundary of every step kind; the operation ends once and right."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault.matrix_cases import (
    ALIKE,
    BLOB,
    BUNDLE,
    BUNDLE_DIGEST,
    CASES,
    ELSEWHERE,
    GPU_TOOLS,
    MAKE_DIRECTORY,
    WHEEL,
    Place,
    minters,
)

from conftest import need, need_root
from hostler.agent.runner.faults import BOUNDARIES
from hostler.catalog.kinds import KINDS
from support.archive import Archive
from support.blob_server import Blob, BlobServer
from support.certs import make_server_certs
from support.fake_systemd import FakeSystemd
from support.gpu_tools import vendor_tools
from support.hardware import plant
from support.house import TERMINAL_EVENTS, House, open_house
from support.kube_api import serving
from support.wheels import offer

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-k1")]

MATRIX = [(b, k) for k in CASES for b in BOUNDARIES if k not in ALIKE or b == "after_effect"]
# where the effect is there before the agent died: probe finds it, nothing is run again
FOUND_DONE = {"after_effect"}
RERUN_IS_HARMLESS = {
    "cluster.verify",
    "container.run",  # not run again either: apply takes its container up, which the command itself would tell
    "container.stop",
    "credential.mint",
    "artifact.verify",
    "health.check",
    "network.fabric.verify",
    "gpu.runtime.check",
    "residue.check",
    "task.probe",
    "device.sanitize",
    *ALIKE,
}


def node_of(kind: str) -> str:
    """`g` is planted with hardware, which a plain host could not be proved clean with."""
    return "g" if kind.startswith(("gpu.", "network.fabric.")) else "a"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    definitions = [case.definition(kind) for kind, case in CASES.items()]
    with (
        vendor_tools(GPU_TOOLS) as tools,
        open_house(definitions, [MAKE_DIRECTORY, *tools], minters=minters) as made,
    ):
        made.serve()
        for node in ("a", "g"):
            made.enrol(node)
        plant("nvidia_h100", made.home / "g" / "root")
        (made.home / "a" / "root" / "srv" / "present").write_bytes(BLOB)
        open_directory = made.home / "open"
        open_directory.mkdir()
        open_directory.chmod(0o777)
        yield made
        for left in Path("/var/tmp").glob(f"{made.home.name}-*"):
            left.rmdir()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as server:
        server.blobs["/blob"] = Blob(BLOB)
        server.blobs |= {path: Blob(body) for path, body in BUNDLE.items()}
        yield server


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    need("apt-get", "dpkg-deb", "gpg")
    with Archive(tmp_path_factory.mktemp("archive")) as made:
        made.add("demo", "1.0")
        made.publish()
        yield made


@pytest.fixture(scope="module")
def systemd(house: House) -> Iterator[FakeSystemd]:
    with FakeSystemd(house.home / "a" / "root") as made:
        yield made


@pytest.fixture(scope="module")
def head() -> Iterator[str]:
    """A stand-in for the API of a Ray cluster's head, where every node is alive."""
    node = {"node_ip": "127.0.0.9", "state": "ALIVE", "is_head_node": False}
    answer = {"data": {"result": {"result": [node]}}}
    with serving(lambda *asked: (200, answer)) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def place(request: pytest.FixtureRequest, house: House, source: BlobServer, boundary: str, kind: str) -> Place:
    """Set up for one run; a package archive and a systemd only where the kind has to do with them."""
    case = CASES[kind]
    if case.as_root:
        need_root()
    repository = request.getfixturevalue("archive").repository() if kind == "package.install" else {}
    index = offer(source, WHEEL) if kind == "python.env.create" else ""
    fake: FakeSystemd | None = request.getfixturevalue("systemd") if kind == "service.control" else None
    how = "killed" if "killed" in request.node.originalname else "error"
    made = Place(
        house.home / "a" / "root", house.home / "open", f"{how}-{boundary}-{kind}", source.url("/blob"),
        f"localhost:{source.port}/matrix/bundle@{BUNDLE_DIGEST}", repository, index,
        fake.active if fake else set(), fake.told if fake else Counter(),
        request.getfixturevalue("head") if kind.startswith("cluster.") else "",
    )  # fmt: skip
    case.before(made)
    return made


def test_K1_every_kind_has_a_case() -> None:
    assert set(CASES) | set(ELSEWHERE) == set(KINDS)
    assert not set(CASES) & set(ELSEWHERE)


@pytest.mark.parametrize(("boundary", "kind"), MATRIX, ids=[f"Killed_in_{b}__{k}" for b, k in MATRIX])
def test_K1_K2_an_agent_killed_at_a_boundary_converges(
    house: House, source: BlobServer, place: Place, boundary: str, kind: str
) -> None:
    certificate, node = Path(source.certs.ca), node_of(kind)
    house.configure(node, fault_points=[f"{boundary}:kill:{kind}"], ca_file=certificate)
    agent = house.start(node)
    asked = len(source.requests)
    operation_id = house.submit(f"matrix.{kind}@v1", CASES[kind].inputs(place), nodes=(node,))
    assert agent.wait(timeout=20) == -signal.SIGKILL, house.logs()
    house.run.forget(node)

    house.configure(node, ca_file=certificate)
    house.start(node)
    operation = house.finished(operation_id)
    house.stop(node)

    assert operation["status"] == "succeeded", (operation["error_code"], operation["error_message"], house.logs())
    assert CASES[kind].effect(place)
    steps = operation["tasks"][0]["steps"]
    step = steps[-1]
    if boundary in FOUND_DONE and kind not in RERUN_IS_HARMLESS:
        assert step["recovered"], step
    if kind == "artifact.pull_blob":
        assert len(source.requests) - asked == 1, "the blob was asked for a second time"
    receipts = house.receipts(operation_id)
    assert [receipt["status"] for receipt in receipts] == ["succeeded"] * len(steps)
    events = house.follow(operation_id)
    assert sum(events[name] for name in TERMINAL_EVENTS) == 1, events


@pytest.mark.parametrize(("boundary", "kind"), MATRIX, ids=[f"Error_in_{b}__{k}" for b, k in MATRIX])
def test_K1_a_fault_of_ours_at_a_boundary_ends_the_task_and_not_the_agent(
    house: House, source: BlobServer, place: Place, boundary: str, kind: str
) -> None:
    node = node_of(kind)
    house.configure(node, fault_points=[f"{boundary}:error:{kind}"], ca_file=Path(source.certs.ca))
    agent = house.start(node)
    operation_id = house.submit(f"matrix.{kind}@v1", CASES[kind].inputs(place), nodes=(node,))
    operation = house.finished(operation_id)
    after = house.finished(house.submit("node.smoke.noop@v1", nodes=(node,)))
    assert after["status"] == "succeeded", house.logs()
    assert agent.poll() is None
    os.kill(agent.pid, 0)
    house.stop(node)

    if operation["status"] == "failed":
        assert operation["error_code"] == "internal_error", operation["error_message"]
    else:
        assert boundary in {"after_receipt", "after_report"}, "a fault went unseen"
        assert CASES[kind].effect(place)
    assert len(house.receipts(operation_id)) <= 1 + len(CASES[kind].first)
    events = house.follow(operation_id)
    assert sum(events[name] for name in TERMINAL_EVENTS) == 1, events
