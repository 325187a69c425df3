"""K1, K2: the agent dies, or fails, at every boundary of every step kind; the operation ends once and right."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault.matrix_cases import BLOB, CASES, MAKE_DIRECTORY, Place

from conftest import need_root
from hostler.agent.runner.faults import BOUNDARIES
from hostler.catalog.kinds import KINDS
from support.blob_server import Blob, BlobServer
from support.certs import make_server_certs
from support.house import TERMINAL_EVENTS, House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-k1")]

MATRIX = [(boundary, kind) for kind in KINDS for boundary in BOUNDARIES]
# where the effect is there before the agent died: probe finds it, nothing is run again
FOUND_DONE = {"after_effect"}
RERUN_IS_HARMLESS = {"artifact.verify", "health.check", "residue.check", "device.sanitize"}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    definitions = [case.definition(kind) for kind, case in CASES.items()]
    with open_house(definitions, [MAKE_DIRECTORY]) as made:
        made.serve()
        made.enrol("a")
        (made.home / "a" / "root" / "srv" / "present").write_bytes(BLOB)
        open_directory = made.home / "open"
        open_directory.mkdir()
        open_directory.chmod(0o777)
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlobServer]:
    with BlobServer(make_server_certs(tmp_path_factory.mktemp("certs"))) as server:
        server.blobs["/blob"] = Blob(BLOB)
        yield server


def place_of(house: House, source: BlobServer, name: str) -> Place:
    return Place(house.home / "a" / "root", house.home / "open", name, source.url("/blob"))


def test_K1_every_kind_has_a_case() -> None:
    assert set(CASES) == set(KINDS)


@pytest.mark.parametrize(("boundary", "kind"), MATRIX, ids=[f"Killed_in_{b}__{k}" for b, k in MATRIX])
def test_K1_K2_an_agent_killed_at_a_boundary_converges(
    house: House, source: BlobServer, boundary: str, kind: str
) -> None:
    if CASES[kind].root:
        need_root()
    place = place_of(house, source, f"killed-{boundary}-{kind}")
    certificate = Path(source.certs.ca)
    house.configure("a", fault_points=[f"{boundary}:kill:{kind}"], ca_file=certificate)
    agent = house.start("a")
    asked = len(source.requests)
    operation_id = house.submit(f"matrix.{kind}@v1", CASES[kind].inputs(place))
    assert agent.wait(timeout=20) == -signal.SIGKILL, house.logs()
    house.run.forget("a")

    house.configure("a", ca_file=certificate)
    house.start("a")
    operation = house.finished(operation_id)
    house.stop("a")

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
    house: House, source: BlobServer, boundary: str, kind: str
) -> None:
    if CASES[kind].root:
        need_root()
    place = place_of(house, source, f"error-{boundary}-{kind}")
    house.configure("a", fault_points=[f"{boundary}:error:{kind}"], ca_file=Path(source.certs.ca))
    agent = house.start("a")
    operation_id = house.submit(f"matrix.{kind}@v1", CASES[kind].inputs(place))
    operation = house.finished(operation_id)
    after = house.finished(house.submit("node.smoke.noop@v1"))
    assert after["status"] == "succeeded", house.logs()
    assert agent.poll() is None
    os.kill(agent.pid, 0)
    house.stop("a")

    if operation["status"] == "failed":
        assert operation["error_code"] == "internal_error", operation["error_message"]
    else:
        assert boundary in {"after_receipt", "after_report"}, "a fault went unseen"
        assert CASES[kind].effect(place)
    assert len(house.receipts(operation_id)) <= 1 + len(CASES[kind].first)
    events = house.follow(operation_id)
    assert sum(events[name] for name in TERMINAL_EVENTS) == 1, events
