"""P1: the control plane's store is yesterday's copy, or empty. Nodes hold; only the root opens the way again."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.house import House, open_house

SLEEP = "node.smoke.noop@v1"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as made:
        yield made


def copy_store(house: House, target: Path) -> None:
    """What a backup of a running store is."""
    with sqlite3.connect(house.home / "control" / "control.db") as source, sqlite3.connect(target) as copy:
        source.backup(copy)


def put_back(house: House, copy: Path) -> None:
    for path in (house.home / "control").glob("control.db*"):
        path.unlink()
    shutil.copy(copy, house.home / "control" / "control.db")


def status(house: House, name: str) -> str:
    return (house.home / name / "state" / "status.json").read_text()


def test_P1_a_restored_store_is_held_off_until_the_root_opens_an_epoch_and_nothing_runs_twice(house: House) -> None:
    house.serve()
    house.enrol("a")
    house.start("a")
    house.finished(house.submit(SLEEP))
    house.stop("a")
    waiting = house.submit(SLEEP)  # signed at the next hello; in the copy it has not run
    yesterday = house.home / "yesterday.db"
    copy_store(house, yesterday)
    house.start("a")
    assert house.finished(waiting)["status"] == "succeeded"
    forgotten = house.submit(SLEEP)
    assert house.finished(forgotten)["status"] == "succeeded"
    house.stop("control")

    put_back(house, yesterday)
    house.serve()
    house.until(lambda: house.node("a")["hold"] == "controller_rollback", "a")
    assert house.operation(waiting)["status"] == "queued", "asked for in the copy, and not sent to a node that holds"
    new = house.submit(SLEEP)
    assert house.operation(new)["status"] == "queued"
    house.restart("a")
    house.until(lambda: '"hold":"controller_rollback"' in status(house, "a"), "a")

    pki = str(house.home / "pki")
    house.stop("control")
    house.do("hostler", "pki", "recover", pki)
    said = house.do("hostler-control", "recover", "--config", str(house.home / "control.toml"))
    assert "epoch 2 is open" in said
    house.serve()
    assert house.finished(new)["status"] == "succeeded"
    assert house.finished(waiting)["status"] == "succeeded"
    assert house.node("a")["hold"] == ""
    house.stop("a")
    runs = sqlite3.connect(house.home / "a" / "state" / "journal.db").execute(
        "SELECT count(*) FROM steps WHERE task_id IN (SELECT task_id FROM tasks WHERE operation_id = ?)", (waiting,)
    )
    assert runs.fetchone() == (1,), "its first result was the answer"


def test_P1_a_recovery_needs_the_roots_word(house: House) -> None:
    house.serve()
    house.stop("control")
    with pytest.raises(AssertionError, match="is not above"):
        house.do("hostler-control", "recover", "--config", str(house.home / "control.toml"))


def test_P1_a_keyset_of_another_epoch_stops_the_start(house: House) -> None:
    house.serve()
    house.stop("control")
    house.do("hostler", "pki", "recover", str(house.home / "pki"))
    with pytest.raises(AssertionError, match="hostler-control recover"):
        house.do("hostler-control", "init", "--config", str(house.home / "control.toml"))


def test_P1_an_empty_store_is_recognised_by_the_nodes_it_does_not_know(house: House) -> None:
    house.serve()
    house.enrol("a")
    house.start("a")
    house.stop("control")
    for path in (house.home / "control").glob("control.db*"):
        path.unlink()
    house.do(
        "hostler-control", "principals", "add", "house", "--config", str(house.home / "control.toml"),
        "--role", "platform_admin", "--token-out", str(house.home / "admin.token"),
    )  # fmt: skip
    house.serve()
    house.until(lambda: '"hold":"controller_rollback"' in status(house, "a"), "a")
