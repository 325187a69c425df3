"""I5, I1, PK-02: exactly one host redeems a token, the others are alarms; a revoked node is out at once."""

import contextlib
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.cli.demo_files import program
from support.house import ORG, PROJECT, House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-i5")]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as made:
        made.serve()
        yield made


def token(house: House, name: str, valid_seconds: int = 600) -> str:
    body = {"node_name": name, "org_id": ORG, "project_id": PROJECT, "valid_seconds": valid_seconds}
    made: str = house.client.call("POST", "/api/v1/admin/enrolment-tokens", body=body)["token"]
    return made


def enrol(house: House, host: str, text: str) -> subprocess.Popen[str]:
    """A host that tries to enrol with `text`; its own directory, its own key."""
    house.configure(host)
    path = house.home / host / "token"
    path.write_text(text)
    path.chmod(0o600)
    config = str(house.home / host / "agent.toml")
    command = [program("hostler-agent"), "enroll", "--config", config, "--token-file", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def enrolled(house: House, host: str, text: str) -> None:
    process = enrol(house, host, text)
    said = words(process)
    assert process.returncode == 0, said


def words(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=30)[1]


def events(house: House) -> list[str]:
    with contextlib.closing(sqlite3.connect(f"file:{house.home}/control/control.db?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("SELECT type FROM events ORDER BY id")]


def test_I5_a_token_enrols_one_host_and_a_second_use_is_an_alarm(house: House) -> None:
    text = token(house, "first")
    enrolled(house, "first", text)
    agent = house.start("first")
    alarms = events(house).count("node.enrolment_token_reused")
    thief = enrol(house, "thief", text)
    said = words(thief)
    assert thief.returncode == 1
    assert "[enrolment_token_used]" in said
    assert text not in said
    assert events(house).count("node.enrolment_token_reused") == alarms + 1
    # the first one's identity is as good as before
    assert house.finished(house.submit("node.smoke.noop@v1", nodes=("first",)))["status"] == "succeeded"
    assert agent.poll() is None


def test_I5_of_two_hosts_that_race_exactly_one_wins(house: House) -> None:
    text = token(house, "raced")
    racers = [enrol(house, f"racer-{number}", text) for number in range(3)]
    said = [words(racer) for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 1, 1]
    assert sum("[enrolment_token_used]" in line for line in said) == 2


def test_I5_an_unknown_and_a_malformed_token_are_refused_in_one_sentence(house: House) -> None:
    for number, text in enumerate(("hst1_0123456789abcdef_" + "a" * 43, "nonsense", "")):
        process = enrol(house, f"stranger-{number}", text)
        said = words(process)
        assert process.returncode == 1
        assert "[enrolment_token_invalid]" in said
        assert "Traceback" not in said


def test_PK_02_an_interrupted_enrolment_is_repeated_with_the_same_token_and_key(house: House) -> None:
    text = token(house, "again")
    enrolled(house, "again", text)
    # as if the answer had been lost: the key is there, the certificate is not
    identity = house.home / "again" / "state" / "identity"
    (identity / "node.json").unlink()
    (identity / "certificate.pem").unlink()
    second = enrol(house, "again", text)
    said = words(second)
    assert second.returncode == 0, said
    house.start("again")


def test_PK_01_the_node_s_key_is_private_and_stays_where_it_was_made(house: House) -> None:
    enrolled(house, "keyed", token(house, "keyed"))
    house.start("keyed")
    key = house.home / "keyed" / "state" / "identity" / "node.key"
    assert key.stat().st_mode & 0o777 == 0o600
    secret = key.read_bytes().split(b"\n")[1]
    database = (house.home / "control" / "control.db").read_bytes()
    assert secret not in database
    for log in (house.home / "control.log", house.home / "keyed" / "agent.log"):
        assert secret not in log.read_bytes()


def test_S1_no_token_is_written_anywhere_by_the_control_plane(house: House) -> None:
    text = token(house, "quiet")
    secret = text.split("_", 2)[2].encode()
    files = [path for path in Path(house.home / "control").glob("*") if path.is_file()]
    for path in (*files, house.home / "control.log"):
        assert secret not in path.read_bytes(), path


def test_I1_PK_07_a_revoked_node_s_open_stream_is_closed_within_five_seconds(house: House) -> None:
    text = token(house, "banned")
    enrolled(house, "banned", text)
    house.start("banned")
    house.client.call("POST", "/api/v1/admin/nodes/banned/revoke")
    start = time.monotonic()
    house.until(lambda: "revoked" in house.log("banned").read_text(), limit_s=5)
    assert time.monotonic() - start < 5
    assert house.node("banned")["state"] == "revoked"
    house.until(lambda: house.node("banned")["connection"] != "connected", limit_s=5)
