"""K1, LC-13: the agent dies at every boundary of every step that replaces it; one agent is left, old or new.

The step that switches versions begins in the old agent and ends in the new one: before and after its intent it is the
old one that dies, and after its effect, its receipt and its report the new one. What dies of the watcher at its own
boundaries, and power cuts: `test_self_update.py`.
"""

import itertools
import signal
from collections.abc import Iterator

import pytest

from conftest import need_slow
from hostler.agent.runner.faults import BOUNDARIES
from support.agent_releases import open_releases
from support.hosts import open_hosts
from support.updating import ACTIVATE, ROLLBACK, SHORT_S, STAGE, TRIAL, Updater

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.xdist_group("machines")]

# In this order each version is staged, goes on trial, and is turned back, once for each boundary.
MATRIX = [
    ("before_intent", STAGE), ("before_intent", ACTIVATE), ("before_intent", ROLLBACK),
    ("after_intent", STAGE), ("after_intent", ACTIVATE), ("after_intent", ROLLBACK),
    ("after_effect", STAGE), ("after_effect", ACTIVATE), ("after_effect", ROLLBACK),
    ("after_receipt", STAGE), ("after_receipt", ACTIVATE), ("after_receipt", ROLLBACK),
    ("after_report", STAGE), ("after_report", ACTIVATE), ("after_report", ROLLBACK),
]  # fmt: skip
BY_THE_NEW_ONE = ("after_effect", "after_receipt", "after_report")


def test_K1_every_boundary_of_every_kind_is_in_the_matrix() -> None:
    assert sorted(MATRIX) == sorted(itertools.product(BOUNDARIES, (STAGE, ACTIVATE, ROLLBACK)))


@pytest.fixture(scope="module")
def updater() -> Iterator[Updater]:
    need_slow("fifteen agents die, and ten trials are stood")
    with open_hosts(1) as bed, open_releases(bed) as releases:
        yield Updater(bed, releases)


def on_disk(updater: Updater) -> str:
    """A version that is higher than the one that runs."""
    return updater.lies_ready() or updater.staged()


def the_one_before(updater: Updater) -> str:
    if not updater.before():
        updater.kept(version := updater.staged(), updater.activate(version))
    return updater.before()


@pytest.mark.parametrize(("boundary", "kind"), MATRIX, ids=[f"Killed_in_{b}__{k}" for b, k in MATRIX])
def test_K1_LC_13_an_agent_killed_at_a_boundary_of_its_own_upgrade_converges(
    updater: Updater, boundary: str, kind: str
) -> None:
    host, house = updater.host, updater.house
    wanted = {STAGE: updater.published, ACTIVATE: lambda: on_disk(updater), ROLLBACK: lambda: the_one_before(updater)}
    version = wanted[kind]()
    inputs = {
        STAGE: updater.releases.inputs(version) if kind == STAGE else {},
        ACTIVATE: {"version": version, "trial_seconds": SHORT_S},
        ROLLBACK: {"reason": "it leaks", "trial_seconds": SHORT_S},
    }
    runs = updater.runs
    with updater.held_at(f"{boundary}:stop:{kind}", agent=True) as held:
        operation_id = updater.submit(kind, inputs[kind])
        if kind != STAGE and boundary in BY_THE_NEW_ONE:
            host.until(lambda: updater.version() == version, "it was not switched", 60)
            updater.verify()
        held()
    who = updater.version()
    assert who == (version if kind != STAGE and boundary in BY_THE_NEW_ONE else runs), "another agent is to die"
    killed = host.unit().pid
    host.signal(signal.SIGKILL)

    if kind == STAGE:
        operation = updater.ended(operation_id)
        assert operation["status"] == "succeeded", operation
        updater.outputs(operation_id)
        updater.check_one_agent(runs)
        assert host.run("ls", "/var/lib/hostler-agent/slots").count(f"{version}-") == 1
    else:
        updater.kept(version, operation_id)
    assert house.follow(operation_id)["operation.completed"] == 1
    assert host.unit().pid not in (0, killed)


@pytest.mark.parametrize("point", ["before_intent"])
def test_K1_LC_16_a_watcher_killed_at_its_judgement_keeps_a_version_that_stands(updater: Updater, point: str) -> None:
    version = updater.staged()
    with updater.held_at(f"{point}:stop:trial.judge", agent=False) as held:
        operation_id = updater.activate(version)
        updater.host.until(lambda: updater.version() == version, "it was not switched", 60)
        updater.verify()
        held()
    updater.host.signal(signal.SIGKILL, TRIAL)
    updater.kept(version, operation_id)
