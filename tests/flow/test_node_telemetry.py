"""OB-09: measurements of a real agent, and that taking them away while serving changes no decision."""

import sqlite3
from collections.abc import Iterator

import pytest

from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-telemetry")]
PATH = "/api/v1/admin/nodes/a/telemetry"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        config = made.home / "control.toml"
        config.write_text(config.read_text().replace("heartbeat_seconds = 5", "heartbeat_seconds = 1"))
        made.serve()
        made.enrol("a")
        config = made.home / "a" / "agent.toml"
        text = config.read_text().replace(
            f'root = "{made.home}/a/root"', 'root = "/"'
        )  # a machine of its own has nothing to tell
        config.write_text(f"telemetry_seconds = 0.5\n{text}")
        made.start("a")
        yield made


def count(house: House) -> int:
    return len(house.client.call("GET", PATH)["items"])


def test_OB_09_a_node_s_measurements_are_kept_shown_and_scraped(house: House) -> None:
    house.until(lambda: count(house) > 0, "control")
    item = house.client.call("GET", PATH, page_size=1)["items"][0]
    assert item["memory_total_bytes"] > item["memory_used_bytes"] > 0
    assert item["load_1m"] >= 0
    later = house.client.call("GET", PATH, since=item["at_ms"] + 1)["items"]
    assert item not in later
    assert house.node("a")["telemetry"]["disk_total_bytes"] > 0
    assert "memory" in house.cli("nodes", "get", "a").partition("telemetry")[2]
    assert "GiB" in house.cli("nodes", "telemetry", "a", "--since", "10m")
    node_id = house.node("a")["node_id"]
    assert f'hostler_node_load_1m{{node_id="{node_id}"}}'.encode() in house.client.raw("/metrics")
    db = sqlite3.connect(f"file:{house.home}/control/control.db?mode=ro", uri=True)
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
    db.close()
    assert "samples" not in tables, "they are kept apart from decision data"


def test_OB_09_taking_the_file_away_while_serving_changes_no_decision(house: House) -> None:
    house.until(lambda: count(house) > 0, "control")
    for path in house.home.rglob("telemetry.db*"):
        path.unlink()
    assert house.finished(house.submit("node.smoke.noop@v1"))["status"] == "succeeded", house.logs()
    assert house.node("a")["connection"] == "connected"
    house.until(lambda: count(house) > 0, "control")
    for path in house.home.rglob("telemetry.db"):
        db = sqlite3.connect(path)
        db.execute("DROP TABLE samples")
        db.commit()
        db.close()
    assert house.finished(house.submit("node.smoke.noop@v1"))["status"] == "succeeded", house.logs()
    house.until(lambda: count(house) > 0, "control")
    assert house.node("a")["connection"] == "connected"
