"""LC-07..LC-11, API-15: five scenarios by three modes; every one makes a run, and none is quietly another."""

import msgspec
import pytest

from hostler.control.kernel.agent_commands import StartAgentRun
from hostler.control.kernel.agent_matrix import KINDS, MODES, PLANS, POLICIES, SCENARIOS, plan
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.allocation_commands import CordonNode, QuarantineNode
from hostler.control.kernel.commands import EnrollNode, TargetSelector
from hostler.control.kernel.rows import NodeRow, TokenRow
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, STAGE, VERIFY, Agents, start
from support.control import ADMIN, submit

HOUR = 3_600_000
# written out by hand from the seed: who does it, does it need a package, does the host enrol anew
EXPECTED = {
    ("bootstrap_install", "reimage"): ("provider", True, True),
    ("bootstrap_install", "manual_install"): ("manual", True, True),
    ("bootstrap_install", "rebootstrap"): ("brokered", True, False),
    ("in_place_upgrade", "reimage"): ("provider", True, True),
    ("in_place_upgrade", "manual_install"): ("manual", True, False),
    ("in_place_upgrade", "rebootstrap"): ("automated", True, False),
    ("repair_reinstall", "reimage"): ("provider", True, True),
    ("repair_reinstall", "manual_install"): ("manual", True, False),
    ("repair_reinstall", "rebootstrap"): ("automated", True, False),
    ("certificate_repair", "reimage"): ("provider", True, True),
    ("certificate_repair", "manual_install"): ("manual", False, True),
    ("certificate_repair", "rebootstrap"): ("brokered", False, False),
    ("drift_reconcile", "reimage"): ("provider", True, True),
    ("drift_reconcile", "manual_install"): ("manual", True, False),
    ("drift_reconcile", "rebootstrap"): ("automated", True, False),
}
TOKEN = {"token_id": "tok_r", "token_sha256": "hash of tok_r"}


def begun(agents: Agents, scenario: str, mode: str, **changes: object) -> str:
    """A run of that kind, with a token where it takes one."""
    token = TOKEN | {"token_expires_at_ms": agents.bench.now + HOUR} if EXPECTED[scenario, mode][2] else {}
    target = OLD if scenario in ("repair_reinstall", "certificate_repair") else NEW
    return agents.start(scenario=scenario, mode=mode, **(token | {"target_version": target} | changes))


def enrol(agents: Agents, thumbprint: str = "e" * 64) -> str:
    made = agents.run(
        EnrollNode(
            token_id="tok_r",
            token_sha256="hash of tok_r",
            public_key_spki=thumbprint.encode(),
            thumbprint=thumbprint,
            agent_version=NEW,
            labels={"rack": "9"},
            peer="10.0.0.9",
        )
    )
    node_id: str = made.node_id
    return node_id


def test_API_15_the_matrix_is_total_and_as_the_seed_says() -> None:
    assert set(PLANS) == {(scenario, mode) for scenario in SCENARIOS for mode in MODES} == set(EXPECTED)
    assert {at: (how.kind, how.release, how.token) for at, how in PLANS.items()} == EXPECTED
    assert {how.kind for how in PLANS.values()} == set(KINDS)
    for (_, mode), how in PLANS.items():
        assert (how.kind == "automated") == (not how.action), "what people do has a name and a reason"
        assert mode not in how.instead


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("mode", MODES)
def test_LC_09_every_scenario_by_every_mode_makes_a_run_of_its_own_kind(scenario: str, mode: str) -> None:
    """Never collapsed into a reimage."""
    agents = Agents()
    run_id = begun(agents, scenario, mode)
    run = agents.of(run_id)
    kind = EXPECTED[scenario, mode][0]
    assert (run.scenario, run.mode, run.kind) == (scenario, mode, kind)
    assert run.state == ("delivering" if kind == "automated" else "awaiting_operator")
    assert bool(agents.operations(STAGE)) == (kind == "automated")
    said = msgspec.json.decode(run.next_action)
    assert bool(said) == (kind != "automated")
    if kind == "brokered":
        assert said["instead"] == ["manual_install", "reimage"]
    if said and EXPECTED[scenario, mode][1] and kind != "brokered":
        assert (said["package"]["version"], len(said["package"]["sha256"])) == (run.target_version, 64)
    agent = agents.agent()
    assert (agent.delivery_mode, agent.last_delivery_result, agent.last_delivery_correlation_id, agent.run_id) == (
        mode,
        run.state,
        "cor_r",
        run_id,
    ), "LC-03"
    assert agent.last_delivery_attempt_ms == agents.bench.now


@pytest.mark.parametrize("scenario", ["bootstrap_install", "certificate_repair"])
def test_LC_11_what_rebootstrap_cannot_do_is_brokered_and_ends_when_it_was_done(scenario: str) -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = begun(agents, scenario, "rebootstrap")
    said = msgspec.json.decode(agents.of(run_id).next_action)
    assert said["action"] == "choose_another_mode"
    assert said["reason"]
    version = agents.of(run_id).target_version
    agents.hello(node, version, instance_id="mended by hand")
    agents.renew(node, version)
    agents.end(agents.of(run_id).verify_operation_id)
    assert agents.of(run_id).state == "succeeded"


@pytest.mark.parametrize("scenario", ["in_place_upgrade", "repair_reinstall", "drift_reconcile"])
def test_LC_08_a_manual_run_stays_open_until_the_agent_reports_and_the_checks_hold(scenario: str) -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = begun(agents, scenario, "manual_install")
    version = agents.of(run_id).target_version
    agents.pass_time(24 * HOUR)
    assert agents.of(run_id).state == "awaiting_operator"
    agents.gone(node)
    asked = agents.hello(node, version, instance_id="installed")
    assert asked is True, "it is asked for a new certificate, as nobody waits half its life for that"
    assert agents.of(run_id).state == "verifying"
    assert agents.operations(VERIFY)
    agents.renew(node, version)
    agents.end(agents.of(run_id).verify_operation_id)
    assert (agents.of(run_id).state, agents.agent().last_delivery_result) == ("succeeded", "succeeded")
    assert agents.hello(node, version, instance_id="installed") is False


def test_LC_08_nobody_comes() -> None:
    agents = Agents()
    run_id = begun(agents, "in_place_upgrade", "manual_install")
    agents.pass_time(7 * 24 * HOUR)
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "upgrade_timed_out")
    assert len(agents.events("agent.upgrade.failed")) == 1


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_LC_07_a_reimaged_host_comes_back_as_a_fresh_agent_of_the_same_name(scenario: str) -> None:
    agents = Agents()
    (old,) = agents.nodes
    agents.bench.view.put(msgspec.structs.replace(agents.node_row(old), labels='{"zone":"b"}'))
    run_id = begun(agents, scenario, "reimage")
    version = agents.of(run_id).target_version
    agents.hello(old, version, instance_id="by some other way")
    assert agents.of(run_id).state == "awaiting_operator", "the host was not installed anew"
    new = enrol(agents)
    before, after = agents.node_row(old), agents.node_row(new)
    assert (before.state, after.state, after.name) == ("revoked", "active", before.name)
    assert (after.org_id, after.project_id) == (before.org_id, before.project_id)
    assert msgspec.json.decode(after.labels) == {"rack": "9", "zone": "b"}
    assert after.agent_version == "", "LC-02: its first hello says it"
    assert agents.of(run_id).state == "awaiting_operator"
    agents.hello(new, version, serial=agents.certify(new))
    agents.end(agents.of(run_id).verify_operation_id)
    assert (agents.of(run_id).state, agents.checks(run_id)) == (
        "succeeded",
        {"version_reported", "service_healthy", "renewal_works", "schedulable"},
    )
    assert agents.agent(new).run_id == run_id
    assert agents.agent(new).last_delivery_result == "succeeded"


def test_LC_07_the_same_host_may_try_again_and_another_key_may_not() -> None:
    agents = Agents()
    begun(agents, "in_place_upgrade", "reimage")
    assert enrol(agents) == enrol(agents)
    with pytest.raises(Exception, match="used by another key"):
        enrol(agents, "d" * 64)


def test_LC_07_a_token_is_worth_nothing_after_its_run() -> None:
    agents = Agents()
    run_id = begun(agents, "in_place_upgrade", "reimage")
    agents.cancel(run_id)
    agents.bench.now += 1
    with pytest.raises(Exception, match="has expired"):
        enrol(agents)
    assert agents.node_row().state == "active"
    token = agents.bench.view.get(TokenRow, "tok_r")
    assert token.expires_at_ms < agents.bench.now


def test_LC_07_a_run_whose_token_ended_unused_does_not_stay_open() -> None:
    agents = Agents()
    run_id = begun(agents, "in_place_upgrade", "reimage")
    agents.pass_time(HOUR)
    assert agents.of(run_id).state == "awaiting_operator", "who enrolled in the last moment may yet speak"
    agents.pass_time(agents.bench.settings.agents.verify_ms)
    run = agents.of(run_id)
    assert (run.state, run.error_code) == ("failed", "upgrade_timed_out")
    assert "before its token ended" in run.error_message
    assert agents.start(), "another run may begin"


def test_LC_07_no_token_stands_in_what_a_run_keeps_or_tells() -> None:
    agents = Agents()
    run_id = begun(agents, "bootstrap_install", "reimage")
    kept = msgspec.json.encode(agents.of(run_id)) + msgspec.json.encode(agents.bench.events)
    assert b"hash of" not in kept


def test_LC_14_the_safety_policy_shows_in_what_people_do_too() -> None:
    agents = Agents()
    work = agents.run(submit(target_selector=TargetSelector(nodes=(agents.nodes[0],)))).operation_id
    (task,) = agents.bench.tasks(work)
    agents.tell(task, TaskStatus.RUNNING)
    run_id = begun(agents, "in_place_upgrade", "manual_install", safety_policy="drain")
    assert (agents.of(run_id).waiting_for, agents.node_row().scheduling) == ("draining", "draining")
    agents.tell(task)
    assert (agents.of(run_id).state, agents.of(run_id).waiting_for) == ("awaiting_operator", "")
    agents.cancel(run_id)
    assert agents.node_row().scheduling == "schedulable"
    busy = agents.run(submit(target_selector=TargetSelector(nodes=(agents.nodes[0],)))).operation_id
    (task,) = agents.bench.tasks(busy)
    agents.tell(task, TaskStatus.RUNNING)
    run_id = begun(agents, "in_place_upgrade", "manual_install", safety_policy="idle")
    assert agents.of(run_id).waiting_for == "node_busy"


@pytest.mark.parametrize(
    ("name", "word"), [("mode", "ssh"), ("scenario", "upgrade"), ("safety_policy", "now"), ("mode", "")]
)
def test_API_15_a_word_that_is_none_is_refused_and_makes_no_run(name: str, word: str) -> None:
    agents = Agents()
    refusal = agents.bench.refusal(start(agents.nodes[0], **{name: word}))
    assert (refusal.code, refusal.pointer) == ("invalid_request", f"/{name}")
    assert agents.agent().run_id == ""


def test_every_policy_is_a_word_of_the_matrix() -> None:
    for policy in POLICIES:
        assert plan("in_place_upgrade", "rebootstrap", policy).kind == "automated"


@pytest.mark.parametrize("mode", MODES)
def test_without_an_address_for_packages_nothing_is_delivered(mode: str) -> None:
    agents = Agents()
    agents.bench.settings = msgspec.structs.replace(agents.bench.settings, agents=AgentSettings())
    command: StartAgentRun = start(agents.nodes[0], mode=mode)
    refusal = agents.bench.refusal(command)
    assert refusal.code == "invalid_config"
    assert "public_url" in refusal.hint


def test_a_release_that_is_not_published_for_the_nodes_debian_is_refused() -> None:
    agents = Agents()
    assert agents.bench.refusal(start(agents.nodes[0], target_version="9.9.9")).code == "release_missing"
    agents.report(agents.nodes[0], suite="trixie")
    refusal = agents.bench.refusal(start(agents.nodes[0]))
    assert refusal.code == "release_missing"
    assert "trixie" in refusal.message
    fresh = agents.node(connected=False)
    assert agents.start(fresh), "who has told no Debian release gets the only one there is"


def test_a_node_that_does_not_exist_or_is_revoked_gets_no_run() -> None:
    agents = Agents()
    assert agents.bench.refusal(start("nod_none")).code == "not_found"
    row: NodeRow = agents.node_row()
    agents.bench.view.put(msgspec.structs.replace(row, state="revoked"))
    assert agents.bench.refusal(start(agents.nodes[0])).code == "revoked"


@pytest.mark.parametrize("mode", ["reimage", "manual_install"])
def test_R3_AL_08_a_host_does_not_leave_its_quarantine_by_a_new_identity(mode: str) -> None:
    """An enrolment cleans nothing: `enroll_again` even leaves the host as it is."""
    agents = Agents()
    (old,) = agents.nodes
    agents.run(QuarantineNode(actor=ADMIN, node_id=old, reason="its disk could not be erased"))
    agents.run(CordonNode(actor=ADMIN, node_id=old, owner="ops", kind="cordoned", reason="the fan"))
    begun(agents, "certificate_repair", mode, safety_policy="drain")
    after = agents.node_row(enrol(agents))
    assert (after.health, after.health_reason, after.quarantined_by) == (
        "quarantined",
        "its disk could not be erased",
        "person",
    )
    assert after.scheduling == "cordoned", "what the run itself wished for is over"


@pytest.mark.parametrize("reclaim", ["leased", "dirty"])
def test_AL_08_a_host_that_enrols_anew_while_it_is_lent_is_not_lent_again(reclaim: str) -> None:
    agents = Agents()
    (old,) = agents.nodes
    agents.bench.view.put(msgspec.structs.replace(agents.node_row(old), reclaim=reclaim))
    begun(agents, "certificate_repair", "manual_install")
    assert agents.node_row(enrol(agents)).health == "quarantined"


@pytest.mark.parametrize("mode", ["manual_install", "rebootstrap"])
def test_LC_04_PK_06_the_certificate_of_a_node_that_is_behind_is_repaired_without_its_version(mode: str) -> None:
    """The same package stays: the run waits for no other, and what the node should run is what it was."""
    agents = Agents()
    (node,) = agents.nodes
    agents.channel("stable", NEW)
    wrong = agents.bench.refusal(start(node, scenario="certificate_repair", mode=mode, target_version=NEW))
    assert (wrong.code, wrong.pointer) == ("invalid_request", "/target_version")
    run_id = begun(agents, "certificate_repair", mode, target_version="")
    assert (agents.of(run_id).target_version, agents.agent().desired_version) == (OLD, NEW)
    if mode == "manual_install":
        node = enrol(agents)
    agents.certify(node)
    agents.hello(node, OLD, instance_id="enrolled again")
    agents.renew(node, OLD)
    agents.end(agents.of(run_id).verify_operation_id)
    assert agents.of(run_id).state == "succeeded"
    assert agents.agent(node).desired_version == NEW
