"""P5, P6, T1: the control plane is killed while submits and reports are in flight; nothing is lost or run twice."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fault.matrix_cases import MAKE_DIRECTORY

from hostler.base.errors import HostlerError
from hostler.cli.client import Client
from hostler.cli.operations_api import submit_body
from hostler.cli.settings import Settings
from support.house import PATH, TERMINAL_EVENTS, House, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-p5")]
ROUNDS, OPERATIONS = 3, 40
MKDIR = {
    "type": "unit.mkdir",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {"path": {"type": "string"}}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [
        {
            "id": "one",
            "kind": "command.exec_allowlisted",
            "params": {"profile": "matrix_mkdir", "args": {"path": "${inputs.path}"}},
        }
    ],
}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house([MKDIR], [MAKE_DIRECTORY]) as made:
        made.serve()
        for name in ("a", "b"):
            made.enrol(name)
            made.start(name)
        made.home.joinpath("open").mkdir()
        made.home.joinpath("open").chmod(0o777)
        yield made


def a_client(house: House) -> Client:
    return Client(Settings(server=house.ports.server, token_file=str(house.home / "admin.token"), project="test"))


def until_answered(client: Client, body: dict[str, Any], stop: threading.Event) -> str:
    """Submits with the same key until the control plane answers, as a careful caller does."""
    while not stop.is_set():
        try:
            answer = client.call("POST", PATH, body=body)
        except HostlerError as err:
            if err.code not in {"controller_unreachable", "store_unavailable"}:
                raise
            stop.wait(0.05)
        else:
            return str(answer["operation_id"])
    raise TimeoutError


def test_P5_T1_a_control_plane_killed_again_and_again_loses_and_doubles_nothing(house: House) -> None:
    stop = threading.Event()

    def one(number: int) -> tuple[str, str]:
        path = house.home / "open" / f"p5-{number}"
        node = "a" if number % 2 else "b"
        body = submit_body("unit.mkdir@v1", inputs={"path": str(path)}, nodes=(node,), labels={}, key=f"p5-{number}")
        with contextlib.closing(a_client(house)) as client:
            first = until_answered(client, body, stop)
            # the same again, as after a lost answer
            return first, until_answered(client, body, stop)

    try:
        with ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(one, number) for number in range(OPERATIONS)]
            for done in range(1, ROUNDS + 1):
                target = OPERATIONS * done // (ROUNDS + 1)
                house.until(lambda target=target: sum(w.done() for w in waiting) >= target, limit_s=60)
                house.kill("control")
                house.serve()
            pairs = [w.result(timeout=60) for w in waiting]
    finally:
        stop.set()
    assert all(first == again for first, again in pairs)
    ids = {first for first, _ in pairs}
    assert len(ids) == OPERATIONS
    for operation_id in ids:
        operation = house.finished(operation_id)
        # mkdir fails when it runs a second time: success means that it ran once
        assert operation["status"] == "succeeded", (operation["error_code"], operation["error_message"])
        assert sum(house.follow(operation_id)[name] for name in TERMINAL_EVENTS) == 1
    assert len(house.receipts(next(iter(ids)))) == 1
    listed = [item["operation_id"] for item in house.client.pages(PATH, page_size=7)]
    assert sorted(listed) == sorted(set(listed))
    assert ids <= set(listed)


def test_P6_RT_01_a_hundred_equal_submits_at_once_make_one_operation(house: House) -> None:
    body = submit_body("node.smoke.noop@v1", inputs={}, nodes=("a",), labels={}, key="p6-same")

    def once(_: int) -> tuple[str, bool]:
        with contextlib.closing(a_client(house)) as client:
            answer = client.call("POST", PATH, body=body)
        return answer["operation_id"], answer["created"]

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(once, range(100)))
    assert len({operation_id for operation_id, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1


def test_P6_the_same_key_with_another_body_is_a_conflict(house: House) -> None:
    body = submit_body("node.smoke.noop@v1", inputs={}, nodes=("a",), labels={}, key="p6-other")
    house.client.call("POST", PATH, body=body)
    other = submit_body("node.smoke.noop@v1", inputs={}, nodes=("b",), labels={}, key="p6-other")
    with pytest.raises(HostlerError) as caught:
        house.client.call("POST", PATH, body=other)
    assert caught.value.code == "idempotency_mismatch"


def test_RT_07_a_result_waits_on_the_node_until_the_control_plane_is_back(house: House) -> None:
    operation_id = house.submit("node.smoke.sleep@v1", {"seconds": 1}, nodes=("b",))
    house.until(lambda: house.operation(operation_id)["status"] == "running")
    house.kill("control")
    # the step ends, and the agent is started twice more, while nobody can be told
    for _ in range(2):
        house.kill("b")
        house.launch("b")
    house.serve()
    operation = house.finished(operation_id)
    assert operation["status"] == "succeeded", (operation["error_code"], house.logs())
    assert len(house.receipts(operation_id)) == 1
    assert sum(house.follow(operation_id)[name] for name in TERMINAL_EVENTS) == 1
