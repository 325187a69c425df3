"""The last judge can be asked beforehand: `hostler-agent policy check` over a real envelope."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from hostler.cli.demo_files import program
from support.house import House, open_house

NOOP = "node.smoke.noop@v1"


@pytest.fixture
def house() -> Iterator[House]:
    with open_house() as made:
        yield made


def asked(house: House, name: str, *more: str) -> tuple[int, dict[str, str]]:
    arguments = [program("hostler-agent"), "policy", "check", str(house.home / "envelope.json"), "--json"]
    config = ["--config", str(house.home / name / "agent.toml")]
    done = subprocess.run([*arguments, *config, *more], check=False, capture_output=True, text=True)
    return done.returncode, {word["gate"]: word["error_code"] or word["verdict"] for word in json.loads(done.stdout)}


def test_AZ_09_what_would_be_refused_and_why_without_running_it(house: House) -> None:
    house.serve()
    for name in ("a", "b"):
        house.enrol(name)
        house.start(name)
    operation_id = house.submit(NOOP, nodes=("a",))
    assert house.finished(operation_id)["status"] == "succeeded"
    house.cli("operations", "envelope", operation_id, "--node", "a", "-o", str(house.home / "envelope.json"))
    status, words = asked(house, "a")
    assert (status, words["replay"], words["authority"]) == (0, "replayed", "not judged")
    assert asked(house, "a", "--as-new")[0] == 0
    status, words = asked(house, "b")
    assert (status, words["target"], words["signature"]) == (1, "wrong_node", "passed")
    assert asked(house, "a", "--as-new", "--at-ms", "1")[1]["freshness"] == "not_yet_valid"
    config = house.home / "a" / "agent.toml"
    config.write_text(config.read_text() + '\n[authority]\ndeny_operations = ["node.smoke.noop"]\n')
    status, words = asked(house, "a", "--as-new")
    assert (status, words["authority"]) == (1, "local_policy_denied")
    assert len(house.receipts(operation_id)) == 1, "asking runs nothing and leaves no receipt"
