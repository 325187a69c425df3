"""LC-10, LC-12, LC-14, EV-06, EV-07: an automated lifecycle run on its way to success, and what it waits for."""

import msgspec
import pytest

from hostler.control.kernel.agent_commands import AdvanceAgents
from hostler.control.kernel.agent_run_steps import MOST_STAGES
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.commands import TargetSelector
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, STAGE, UPDATE, URL, VERIFY, Agents
from support.control import ADMIN, submit

ALL = {"version_reported", "service_healthy", "renewal_works", "schedulable"}
HOUR = 3_600_000


@pytest.mark.parametrize("scenario", ["in_place_upgrade", "repair_reinstall", "drift_reconcile"])
def test_LC_10_an_automated_run_goes_through_its_states_to_success(scenario: str) -> None:
    target = NEW if scenario == "in_place_upgrade" else OLD
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start(scenario=scenario, target_version=target)
    assert agents.of(run_id).state == "delivering"
    agents.stage(run_id)
    assert [op.operation_type for op in agents.operations()] == [STAGE, UPDATE]
    assert agents.inputs(UPDATE)["repair"] is (scenario != "in_place_upgrade")
    agents.restart(node, run_id, target)
    assert agents.of(run_id).state == "trial"
    assert [op.operation_type for op in agents.operations()] == [STAGE, UPDATE, VERIFY]
    agents.stand(node, run_id, target)
    assert (agents.of(run_id).state, agents.checks(run_id)) == ("succeeded", ALL)
    assert agents.node_row().scheduling == "schedulable"
    assert agents.agent().last_delivery_result == "succeeded"
    said = [msgspec.json.decode(event.body)["state"] for event in agents.events("agent.run_changed")]
    assert said == ["waiting", "delivering", "trial", "verifying", "succeeded"]


def test_EV_06_EV_07_a_run_that_went_well_is_told_once_at_each_end() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.stage(run_id)
    agents.restart(agents.nodes[0], run_id)
    assert not agents.events("agent.upgrade.completed"), "LC-21: only after the four checks"
    agents.stand(agents.nodes[0], run_id)
    agents.hello(agents.nodes[0], NEW)
    (started,), (completed,) = agents.events("agent.upgrade.started"), agents.events("agent.upgrade.completed")
    for event in (started, completed):
        body = msgspec.json.decode(event.body)
        assert (body["node_id"], body["run_id"], body["from_version"], body["to_version"]) == (
            agents.nodes[0],
            run_id,
            OLD,
            NEW,
        )
        assert event.correlation_id == "cor_r"
    assert not agents.events("agent.upgrade.failed", "agent.rollback.completed")


def test_LC_12_the_tasks_name_a_short_lived_address_and_the_signed_digest() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.stage(run_id)
    release = agents.of(run_id)
    for type_ in (STAGE, UPDATE):
        given = agents.inputs(type_)
        assert str(given["url"]).startswith(f"{URL}/packages/v1/")
        assert str(given["url"]).endswith(f"/hostler-agent_{NEW}_bookworm.deb")
        assert given["metadata_url"] == f"{URL}/packages/v1/metadata.json"
        assert (given["version"], given["suite"]) == (release.target_version, "bookworm")
        assert len(str(given["sha256"])) == 64
    (operation,) = agents.operations(UPDATE)
    assert (operation.trigger_source, operation.linked_node_id) == ("agent_lifecycle", agents.nodes[0])


def test_LC_02_only_a_hello_makes_the_version_that_a_node_reports() -> None:
    """X20: neither what was scheduled, nor what a report says, nor that the task is done."""
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start()
    agents.stage(run_id)
    (task,) = agents.bench.tasks(agents.of(run_id).operation_id)
    agents.tell(task, TaskStatus.RUNNING)
    agents.report(node, NEW)
    agents.tell(task)
    assert (agents.node_row().agent_version, agents.of(run_id).state) == (OLD, "verifying")
    assert "version_reported" not in agents.checks(run_id)
    agents.hello(node, NEW)
    assert agents.node_row().agent_version == NEW
    assert "version_reported" in agents.checks(run_id)


def test_LC_14_a_busy_node_makes_an_idle_run_wait_and_says_why() -> None:
    agents = Agents()
    work = agents.occupy()
    run_id = agents.start(safety_policy="idle")
    agents.stage(run_id)
    run = agents.of(run_id)
    assert (run.state, run.waiting_for, run.safety_policy) == ("waiting", "node_busy", "idle")
    assert not agents.operations(UPDATE), "staging disturbs nobody, the change would"
    assert agents.node_row().scheduling == "schedulable", "idle keeps no work away"
    agents.end(work)
    assert agents.of(run_id).state == "delivering", "the end of the task is what it waited for"
    assert agents.node_row().scheduling == "draining", "nothing new begins while the agent changes"


def test_LC_14_a_drain_keeps_new_work_away_and_ends_with_the_run() -> None:
    agents = Agents()
    work = agents.occupy()
    run_id = agents.start(safety_policy="drain")
    assert agents.node_row().scheduling == "schedulable", "work goes on while the package is fetched"
    agents.stage(run_id)
    run = agents.of(run_id)
    assert (run.state, run.waiting_for) == ("waiting", "draining")
    assert agents.node_row().scheduling == "draining"
    later = agents.run(submit(target_selector=TargetSelector(nodes=(agents.nodes[0],)))).operation_id
    assert agents.bench.operation(later).status == "queued"
    agents.end(work)
    assert agents.of(run_id).state == "delivering", "what waits for the end of the drain does not hold it up"
    agents.restart(agents.nodes[0], run_id)
    agents.stand(agents.nodes[0], run_id)
    assert agents.of(run_id).state == "succeeded"
    assert agents.node_row().scheduling == "schedulable"
    assert [task.state for task in agents.bench.tasks(later)] == ["assigned"]


def test_LC_14_force_waits_for_nothing() -> None:
    agents = Agents()
    agents.occupy()
    run_id = agents.start(safety_policy="force")
    agents.stage(run_id)
    assert agents.of(run_id).state == "delivering"
    assert agents.operations(UPDATE)
    assert agents.node_row().scheduling == "schedulable"


def test_LC_14_a_persons_cordon_stands_after_the_run() -> None:
    agents = Agents()
    agents.run(CordonNode(actor=ADMIN, node_id=agents.nodes[0], owner="ops", kind="cordoned"))
    run_id = agents.start(safety_policy="drain")
    agents.stage(run_id)
    agents.restart(agents.nodes[0], run_id)
    agents.stand(agents.nodes[0], run_id)
    assert (agents.of(run_id).state, agents.node_row().scheduling) == ("succeeded", "cordoned")


def test_a_node_that_is_away_is_waited_for_before_and_after_the_package_is_there() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.gone(node)
    run_id = agents.start()
    assert (agents.of(run_id).state, agents.of(run_id).waiting_for) == ("waiting", "node_away")
    assert not agents.operations()
    agents.hello(node)
    assert agents.of(run_id).state == "delivering"
    agents.gone(node)
    assert (agents.of(run_id).state, agents.of(run_id).waiting_for) == ("delivering", "node_away")
    agents.stage(run_id)
    assert (agents.of(run_id).state, agents.of(run_id).waiting_for) == ("waiting", "node_away")
    agents.hello(node)
    assert agents.operations(UPDATE)


def test_LC_12_an_address_that_ran_out_is_made_anew_and_not_for_ever() -> None:
    agents = Agents(run_ms=10 * 24 * HOUR)
    run_id = agents.start()
    for count in range(1, MOST_STAGES + 1):
        assert (len(agents.operations(STAGE)), agents.of(run_id).state) == (count, "delivering")
        agents.pass_time(HOUR)
        agents.end(agents.of(run_id).stage_operation_id, TaskStatus.FAILED, "source_unavailable")
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "source_unavailable")
    urls = {msgspec.json.decode(op.inputs)["url"] for op in agents.operations(STAGE)}
    assert len(urls) == MOST_STAGES


def test_an_upgrade_to_what_runs_already_needs_no_restart() -> None:
    agents = Agents()
    run_id = agents.start(target_version=OLD)
    agents.stage(run_id)
    agents.end(agents.of(run_id).operation_id)
    agents.end(agents.of(run_id).verify_operation_id)
    assert (agents.of(run_id).state, agents.checks(run_id)) == ("succeeded", ALL)


def test_what_a_run_wants_is_what_the_node_should_run_until_it_fails() -> None:
    agents = Agents()
    agents.channel("stable", OLD)
    run_id = agents.start()
    assert agents.agent().desired_version == NEW
    agents.end(agents.of(run_id).stage_operation_id, TaskStatus.FAILED, "digest_mismatch")
    assert agents.agent().desired_version == OLD


def test_ended_runs_are_noted_for_whoever_follows_them() -> None:
    from hostler.control.kernel import agent_runs
    from hostler.control.kernel.agent_commands import CancelAgentRun
    from hostler.control.kernel.model import Draft

    agents = Agents()
    run_id = agents.start()
    draft = Draft(agents.bench.view, agents.bench.settings, agents.bench.ids, agents.bench.now)
    agent_runs.end(draft, CancelAgentRun(actor=ADMIN, run_id=run_id, reason="", correlation_id="c"))
    assert list(draft.ended_runs) == [run_id]


def test_advance_without_anything_due_does_nothing() -> None:
    agents = Agents()
    agents.start()
    assert agents.run(AdvanceAgents()) == 0
