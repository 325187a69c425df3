"""PK-08: every key is rotated while operations run. No task is refused, no node is locked out."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hostler.pki.x509 import subject_key
from support.house import House, open_house

NOOP = "node.smoke.noop@v1"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as made:
        yield made


def proved(house: House, count: int) -> None:
    house.until(lambda: msgspec.json.decode(house.cli("pki", "status", "--output", "json"))["proved"] == count)


def publish(house: House, nodes: int) -> None:
    house.cli("pki", "publish", str(house.home / "pki"))
    proved(house, nodes)


def restart_control(house: House) -> None:
    house.stop("control")
    house.serve()


def succeeded(house: House, *operations: str) -> bool:
    return all(house.finished(each)["status"] == "succeeded" for each in operations)


def stage(house: House, role: str) -> dict[str, Any]:
    done: dict[str, Any] = msgspec.json.decode(
        house.cli("pki", "rotate", role, str(house.home / "pki"), "--output", "json")
    )
    return done


@pytest.mark.parametrize("role", ["dispatch", "ca", "root"])
def test_PK_08_a_rotation_under_load_refuses_nothing(house: House, role: str) -> None:
    house.serve()
    for name in ("a", "b"):
        house.enrol(name)
        house.start(name)
    pids = dict(house.pids)
    first = house.submit(NOOP, nodes=("a", "b"), replicas=20)
    stages = []
    while True:
        stages.append(stage(house, role)["stage"])
        during = house.submit(NOOP, nodes=("a", "b"), replicas=20)
        if stages[-1] == "activate":
            restart_control(house)
        else:
            publish(house, 2)
        if stages[-1] == "activate" and role == "ca":
            house.until(lambda: _on_the_new_ca(house))
        assert succeeded(house, first, during)
        if stages[-1] in ("retire", "replace"):
            break
    assert stages == (["replace"] if role == "root" else ["introduce", "activate", "retire"])
    assert succeeded(house, house.submit(NOOP, nodes=("a", "b")))
    assert {name: house.pids[name] for name in ("a", "b")} == {name: pids[name] for name in ("a", "b")}
    house.enrol("c")  # a newcomer, by the trust file of today
    house.start("c")


def _on_the_new_ca(house: House) -> bool:
    """Agents renew by themselves once the control plane has told them that their CA goes."""
    trust = msgspec.json.decode(house.cli("pki", "status", "--output", "json"))
    current = subject_key((house.home / "pki/control/ca.pem").read_bytes())
    return {node["ca_key"] for node in trust["nodes"]} == {current}


def test_PK_08_the_next_stage_waits_for_the_node_that_has_not_proved_the_last(house: House) -> None:
    house.serve()
    for name in ("a", "b"):
        house.enrol(name)
        house.start(name)
    house.stop("b")
    stage(house, "dispatch")
    house.cli("pki", "publish", str(house.home / "pki"))
    proved(house, 1)
    with pytest.raises(AssertionError, match=r"(?s)1 of 2 nodes have not proved the new dispatch key: b"):
        stage(house, "dispatch")
    house.start("b")
    proved(house, 2)
    assert stage(house, "dispatch")["stage"] == "activate"


def test_T11_what_a_key_signed_and_nobody_took_is_listed_and_signed_again(house: House) -> None:
    house.serve()
    house.enrol("a")
    house.start("a")
    house.kill("a")
    house.until(lambda: house.node("a")["connection"] != "connected")
    waiting = house.submit(NOOP)
    house.start("a")
    assert succeeded(house, waiting)
    shown = msgspec.json.decode(house.cli("pki", "blast-radius", "dispatch", "--output", "json"))
    assert (shown["nodes"], shown["open_tasks"], shown["roles"][0]["role"]) == (["a"], [], "dispatch")
    leaked = house.cli("pki", "rotate", "dispatch", str(house.home / "pki"), "--leaked")
    assert "restart" in leaked
    refused = house.submit(NOOP)
    assert succeeded(house, refused), "the running control plane still signs with the key it has"
    restart_control(house)
    assert succeeded(house, house.submit(NOOP))
    proved(house, 1)
