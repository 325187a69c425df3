"""EF-07: a drained node finishes what runs and starts nothing new, also when it is started again while offline."""

from collections.abc import Iterator

import msgspec
import pytest

from support.house import House, open_house

pytestmark = [pytest.mark.timeout(110), pytest.mark.xdist_group("house-drain")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        made.enrol("a")
        made.configure("a", parallel=1)
        made.start("a")
        yield made


def told(house: House) -> str:
    status = msgspec.json.decode((house.home / "a" / "state" / "status.json").read_bytes())
    return f"{status['pid']} {status['scheduling']}"


def drain(house: House) -> None:
    """Before what runs has ended: a process of its own could begin too late."""
    house.client.call("POST", "/api/v1/admin/nodes/a/drain", body={"reason": "new memory"})


def begun(house: House, operation_id: str) -> bool:
    (task,) = house.operation(operation_id)["tasks"]
    return bool(task["steps"])


def test_EF_07_running_finishes_and_nothing_new_starts_also_after_a_restart_offline(house: House) -> None:
    running = house.submit("node.smoke.sleep@v1", {"seconds": 6})
    house.until(lambda: begun(house, running))
    taken = house.submit("node.smoke.noop@v1")
    house.until(lambda: house.operation(taken)["tasks"][0]["sequence"] > 0)
    drain(house)
    later = house.submit("node.smoke.noop@v1")
    assert house.finished(running)["status"] == "succeeded"
    house.until(lambda: told(house).endswith("draining"))
    house.kill("control")
    house.kill("a")
    pid = house.launch("a").pid
    house.until(lambda: told(house) == f"{pid} draining")
    house.serve()
    house.until(lambda: house.node("a")["connection"] == "connected")
    assert house.node("a")["scheduling"] == "draining"
    assert not begun(house, taken)
    assert not begun(house, later)
    house.cli("nodes", "uncordon", "a")
    for operation_id in (taken, later):
        assert house.finished(operation_id)["status"] == "succeeded"
    house.until(lambda: told(house).endswith("schedulable"))


def test_EF_07_a_task_that_waits_out_a_drain_can_be_cancelled(house: House) -> None:
    running = house.submit("node.smoke.sleep@v1", {"seconds": 5})
    house.until(lambda: begun(house, running))
    taken = house.submit("node.smoke.noop@v1")
    house.until(lambda: house.operation(taken)["tasks"][0]["sequence"] > 0)
    drain(house)
    house.finished(running)
    house.cli("operations", "cancel", taken)
    ended = house.finished(taken)
    assert ended["status"] == "canceled"
    assert not begun(house, taken)
    house.cli("nodes", "uncordon", "a")
