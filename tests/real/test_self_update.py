"""LC-10, LC-12, LC-13, LC-16, LC-21, PG-06; U1, U2, U3, K7: a booted host that replaces its own agent, and goes back.

What is killed at the boundaries of the steps: `test_upgrade_boundaries.py`.
"""

import signal
import time
from collections.abc import Iterator

import pytest

from conftest import need_slow
from support.agent_packages import version_of
from support.agent_releases import CA, open_releases
from support.debs import NUMBERS, need_suite
from support.hosts import AGENT, SESSION, Busy, open_hosts
from support.updating import ACTIVATE, BASE, LIMIT_S, ROLLBACK, SHORT_S, STAGE, TRIAL, Updater

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.xdist_group("machines")]


@pytest.fixture(scope="module", params=NUMBERS)
def updater(request: pytest.FixtureRequest) -> Iterator[Updater]:
    need_suite(request.param)
    with open_hosts(1, suite=request.param) as bed, open_releases(bed) as releases:
        yield Updater(bed, releases)


# -- every run of the tests -------------------------------------------------------------------------------------------


def test_LC_13_LC_21_a_good_version_is_staged_without_a_trace_and_then_activated(updater: Updater) -> None:
    host, before = updater.host, updater.host.unit()
    version = updater.staged()
    assert host.unit() == before
    assert updater.version() == updater.runs
    serial = updater.host.read("/var/lib/hostler/identity/node.json")
    operation_id = updater.activate(version)
    host.until(lambda: host.unit().pid not in (0, before.pid), "the agent was not restarted")
    outputs = updater.kept(version, operation_id)
    assert all(outputs["checks"][name] for name in ("started", "renewed", "connected", "task_done"))
    assert updater.host.read("/var/lib/hostler/identity/node.json") != serial
    assert outputs["from_version"] == "0.1.0"
    assert host.unit().restarts == 0


def test_U1_LC_16_a_version_that_crashes_at_its_start_is_given_up_at_once(updater: Updater) -> None:
    version = updater.staged("crash_loops")
    began = time.monotonic()
    reason = updater.returned(version, updater.activate(version, 100))
    assert reason == "3 starts of it failed"
    assert time.monotonic() - began < 100, "its trial went on to the end"
    again = updater.submit(STAGE, updater.releases.inputs(version))
    assert updater.ended(again)["status"] == "succeeded", "the node has learned nothing from it that is not known"


def test_U3_LC_12_what_is_not_signed_or_is_older_is_refused_and_the_agent_runs_on(updater: Updater) -> None:
    host, before = updater.host, updater.host.unit()
    inputs = updater.releases.inputs(updater.published(small=True))
    old = updater.releases.served["/releases.json"]
    updater.releases.publish(updater.small("0.0.9"))
    for wanted, code in (
        (updater.releases.inputs("0.0.9"), "downgrade_denied"),
        (inputs | {"sha256": "a" * 64}, "release_untrusted"),
        (inputs | {"url": inputs["url"] + "?expired"}, "source_unreachable"),
    ):
        operation = updater.ended(updater.submit(STAGE, wanted))
        assert (operation["status"], operation["error_code"]) == ("failed", code), operation
    updater.releases.served["/releases.json"] = old
    operation = updater.ended(updater.submit(STAGE, inputs))
    assert operation["error_code"] == "release_rollback"
    operation = updater.ended(updater.activate("9.9.9"))
    assert operation["error_code"] == "upgrade_not_staged"
    assert host.unit() == before


# -- with HOSTLER_SLOW=1 ----------------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> None:
    need_slow("it waits for the ends of trials")


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("kind", "missed"),
    [
        ("cannot_renew", "renew its certificate"),
        ("cannot_poll", "hold its session"),
        ("hangs", "did not start"),
    ],
)
def test_U1_LC_21_a_version_that_is_bad_in_another_way_is_given_up(updater: Updater, kind: str, missed: str) -> None:
    version = updater.staged(kind)
    began = time.monotonic()
    operation_id = updater.activate(version)
    updater.host.until(lambda: updater.version() == version or kind == "hangs", "it was not started")
    updater.verify()
    assert missed in updater.returned(version, operation_id)
    assert time.monotonic() - began < LIMIT_S


@pytest.mark.usefixtures("slow")
def test_U1_a_version_that_is_slow_to_start_is_kept(updater: Updater) -> None:
    version = updater.staged("slow_start")
    operation_id = updater.activate(version, 90)
    updater.kept(version, operation_id)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_U1_a_watcher_that_is_killed_comes_back_and_judges(updater: Updater, how: signal.Signals) -> None:
    version = updater.staged("hangs")
    operation_id = updater.activate(version)
    updater.host.until(lambda: updater.host.exists(f"{BASE}/trial.json"), "there is no trial")
    for _ in range(5):
        updater.host.until(lambda: updater.host.unit(TRIAL).pid != 0, "the watcher does not come back")
        updater.host.signal(how, TRIAL)
        time.sleep(1.0)
    assert "did not start" in updater.returned(version, operation_id)


@pytest.mark.usefixtures("slow")
def test_U1_when_both_versions_are_bad_the_package_runs(updater: Updater) -> None:
    """The one before was good until it was returned to."""
    host = updater.host
    slot = updater.record("book")["good"][-1]
    version = updater.staged("crash_loops")
    (site,) = host.path(f"{BASE}/slots/{slot}").glob("lib/*/site-packages/hostler/agent/main.py")
    good = site.read_text()
    with updater.held_at("before_intent:stop:trial.return", agent=False) as held:
        operation_id = updater.activate(version)
        held()
        bad = good.replace("def _run(", "import sys\n\ndef _run(").replace("    leave_no_core()", "    sys.exit(1)")
        site.write_text(bad)
        host.run("systemctl", "kill", "--signal=KILL", TRIAL)
    updater.ended(operation_id)
    updater.check_one_agent("0.1.0")
    assert not host.exists(f"{BASE}/current")
    updater.runs = "0.1.0"


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    "busy", [Busy(status="UNAVAILABLE", error_code="", retry_after_s=3), Busy(status="RESOURCE_EXHAUSTED")]
)
def test_U2_a_control_plane_that_turns_the_node_away_has_nothing_rolled_back(updater: Updater, busy: Busy) -> None:
    """For twice the length of the trial and more, while it is on."""
    version = updater.staged()
    operation_id = updater.activate(version)
    updater.host.until(lambda: updater.host.exists(f"{BASE}/trial.json"), "there is no trial")
    updater.bed.throttle("n1", busy=busy)
    try:
        end = time.monotonic() + 2.5 * SHORT_S
        while time.monotonic() < end:
            assert updater.host.exists(f"{BASE}/trial.json"), updater.host.journal("-u", TRIAL)
            time.sleep(0.5)
    finally:
        updater.bed.through("n1")
    assert updater.kept(version, operation_id)["extended"] >= 1


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect"])
def test_U3_K7_a_power_cut_while_the_link_is_switched_leaves_one_version_that_works(
    updater: Updater, point: str
) -> None:
    version = updater.staged()
    with updater.held_at(f"{point}:stop:trial.switch", agent=False) as held:
        operation_id = updater.activate(version)
        held()
        updater.power_cut()
        held()  # it comes to the same point again
        updater.power_cut()
    updater.host.run("systemctl", "kill", "--signal=KILL", TRIAL)
    updater.kept(version, operation_id)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect"])
def test_U3_K7_a_power_cut_on_the_way_back_leaves_one_version_that_works(updater: Updater, point: str) -> None:
    version = updater.staged("crash_loops")
    with updater.held_at(f"{point}:stop:trial.return", agent=False) as held:
        operation_id = updater.activate(version)
        held()
        updater.power_cut()
    updater.host.run("systemctl", "kill", "--signal=KILL", TRIAL, status=None)
    updater.returned(version, operation_id)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("kind", [STAGE, ACTIVATE])
@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect"])
def test_U3_K7_a_power_cut_at_a_boundary_of_the_step_converges(updater: Updater, kind: str, point: str) -> None:
    version = updater.published() if kind == STAGE else updater.staged()
    with updater.held_at(f"{point}:stop:{kind}", agent=True) as held:
        operation_id = updater.submit(STAGE, updater.releases.inputs(version)) if kind == STAGE else ""
        operation_id = operation_id or updater.activate(version)
        if (kind, point) == (ACTIVATE, "after_effect"):  # by then the new version runs, and has stood its trial
            updater.host.until(lambda: updater.version() == version, "it was not switched", 60)
            updater.verify()
        held()
        updater.power_cut()
    updater.host.signal(signal.SIGKILL)
    if kind == ACTIVATE:
        updater.kept(version, operation_id)
        return
    assert updater.ended(operation_id)["status"] == "succeeded"
    updater.check_one_agent(updater.runs)


@pytest.mark.usefixtures("slow")
def test_K7_a_power_cut_while_a_version_is_unpacked_leaves_no_half_of_it(updater: Updater) -> None:
    version = updater.published()
    operation_id = updater.submit(STAGE, updater.releases.inputs(version))
    updater.host.until(
        lambda: f".new-{version}" in updater.host.run("ls", "-a", f"{BASE}/slots", status=None), "it is not unpacked"
    )
    updater.power_cut()
    updater.bed.until_in_service("n1")
    assert updater.ended(operation_id)["status"] == "succeeded"
    assert ".new-" not in updater.host.run("ls", "-a", f"{BASE}/slots")
    activated = updater.activate(version)
    updater.kept(version, activated)


@pytest.mark.usefixtures("slow")
def test_LC_13_EV_09_an_administrator_returns_to_the_version_before(updater: Updater) -> None:
    before, version = updater.runs, updater.staged()
    operation_id = updater.activate(version)
    updater.kept(version, operation_id)
    operation_id = updater.submit(ROLLBACK, {"reason": "slower than before", "trial_seconds": SHORT_S})
    updater.host.until(lambda: updater.version() == before, "it did not return")
    updater.kept(before, operation_id)
    told = updater.record("returned")
    assert (told["version"], told["to_version"], told["task_id"], told["reason"]) == (
        version, before, "", "slower than before",
    )  # fmt: skip


# -- the last, which leaves the host without its agent ----------------------------------------------------------------


def test_LC_13_PG_03_an_installation_by_dpkg_wins_over_every_slot_and_a_purge_leaves_none(updater: Updater) -> None:
    host, version = updater.host, "3.0.0"
    if not host.exists(f"{BASE}/current"):
        activated = updater.staged()
        updater.kept(activated, updater.activate(activated))
    identity = host.read("/var/lib/hostler/identity/node.json")
    host.put("/root/next.deb", version_of(version, suite=updater.bed.suite))  # with its maintainer scripts
    host.run("systemd-run", "--wait", "--unit=install", "dpkg", "-i", "/root/next.deb", timeout_s=240)
    updater.runs = version
    updater.check_one_agent(version)
    assert not host.exists(f"{BASE}/current")
    assert host.read("/var/lib/hostler/identity/node.json") == identity
    host.run("rm", CA)  # the operator's own
    host.run("systemd-run", "--wait", "--unit=purge", "dpkg", "--purge", "hostler-agent", timeout_s=240)
    assert [host.unit(unit).active for unit in (AGENT, SESSION, TRIAL)] == ["inactive"] * 3
    found = host.run("find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-name", "*hostler*", "-print")
    assert found.split() == []
