"""PF-01, PF-02, PF-03: the bootstrap profiles as they ship, planned by a real agent, and nothing is touched."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.agent.admission.test_shipped_definitions import DEFINITIONS, INPUTS

from conftest import need_root
from hostler.agent.host.files import within
from hostler.catalog.auto_executed import files_of
from support.fake_systemd import FakeSystemd
from support.house import House, open_house

pytestmark = [pytest.mark.timeout(90), pytest.mark.xdist_group("house-plans")]
ROOT = Path(__file__).resolve().parents[2]
# What is installed already asks no archive.
PRESENT: dict[str, dict[str, Any]] = {
    "k8s.node.bootstrap@v1": {"packages": [{"name": "kubelet"}]},
    "slurm.node.bootstrap@v1": {"packages": [{"name": "slurmd"}]},
    "ray.node.bootstrap@v1": {},
}
STATUS = "Package: {}\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: a\nDescription: b\n\n"


def documented() -> str:
    """The prefixes that the operator's guide has a node of a cluster allow."""
    found = re.search(
        r"^write_prefixes = \[\n.*?^\]\n", (ROOT / "docs/operator.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    need_root()
    with open_house() as made:
        made.serve()
        made.enrol("a")
        config = made.home / "a" / "agent.toml"
        config.write_text(config.read_text().replace("[files]\n", f"[files]\n{documented()}"))
        dpkg = made.home / "a/root/var/lib/dpkg"
        dpkg.mkdir(parents=True)
        (dpkg / "status").write_text("".join(map(STATUS.format, ("kubelet", "slurmd"))))
        made.start("a")
        with FakeSystemd(made.home / "a" / "root"):
            yield made


@pytest.mark.parametrize("ref", PRESENT)
def test_PF_01_PF_02_PF_03_a_bootstrap_is_planned_as_it_ships(house: House, ref: str) -> None:
    root = house.home / "a" / "root"
    before = {path for path in root.rglob("*") if path.is_file()}
    ended = house.finished(house.submit(ref, INPUTS[ref] | PRESENT[ref], mode="plan"))
    assert ended["status"] == "succeeded", (ended["error_code"], ended["error_message"], house.logs())
    (task,) = ended["tasks"]
    assert {step["status"] for step in task["steps"]} == {"planned"}
    assert {path for path in root.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("ref", PRESENT)
def test_what_a_bootstrap_writes_lies_below_the_documented_prefixes(ref: str) -> None:
    """Also what its join writes, whose plan waits for the credential."""
    prefixes = tomllib.loads(documented())["write_prefixes"]
    params = [step.params for step in DEFINITIONS[ref].steps]
    written = [path for each in params for path in (*files_of(each), each.get("path")) if path]
    assert written
    assert [path for path in written if not any(within(path, prefix) for prefix in prefixes)] == []
