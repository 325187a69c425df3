"""LC-10, LC-12, LC-14, LC-21, EV-06..09: an automated lifecycle run, from its start to every end it can have."""

from pathlib import Path

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.load import read_source, typed
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.agent_commands import AdvanceAgents
from hostler.control.kernel.agent_run_steps import MOST_STAGES
from hostler.control.kernel.allocation_commands import CordonNode
from hostler.control.kernel.commands import CancelOperation, NodeStatus, RetryOperation, RevokeNode, TargetSelector
from hostler.control.kernel.workload_commands import RecoverWorkload
from hostler.pki.agent_report import Slot
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, STAGE, UPDATE, URL, VERIFY, Agents, facts, publish, start
from support.builders import definition, render_step
from support.control import ADMIN, submit

ALL = {"version_reported", "service_healthy", "renewal_works", "schedulable"}
HOUR = 3_600_000
SHIPPED = Path(__file__).parents[4] / "profiles/definitions"


def busy(agents: Agents) -> str:
    """A tenant's task runs on the node."""
    made = agents.run(submit(target_selector=TargetSelector(nodes=(agents.nodes[0],))))
    operation_id: str = made.operation_id
    (task,) = agents.bench.tasks(operation_id)
    agents.tell(task, TaskStatus.RUNNING)
    return operation_id


def inputs(agents: Agents, type_: str) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(agents.operations(type_)[-1].inputs)
    return found


@pytest.mark.parametrize("scenario", ["in_place_upgrade", "repair_reinstall", "drift_reconcile"])
def test_LC_10_an_automated_run_goes_through_its_states_to_success(scenario: str) -> None:
    target = NEW if scenario == "in_place_upgrade" else OLD
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start(scenario=scenario, target_version=target)
    assert agents.of(run_id).state == "delivering"
    agents.stage(run_id)
    assert [op.operation_type for op in agents.operations()] == [STAGE, UPDATE]
    assert inputs(agents, UPDATE)["repair"] is (scenario != "in_place_upgrade")
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
        given = inputs(agents, type_)
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
    work = busy(agents)
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
    work = busy(agents)
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
    busy(agents)
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


@pytest.mark.parametrize("code", ["digest_mismatch", "release_untrusted", "release_rollback", "downgrade_denied"])
def test_EV_08_LC_12_a_package_that_is_not_good_ends_the_run_and_the_old_agent_runs_on(code: str) -> None:
    agents = Agents()
    run_id = agents.start()
    agents.end(agents.of(run_id).stage_operation_id, TaskStatus.FAILED, code)
    run = agents.of(run_id)
    assert (run.state, run.error_code) == ("failed", code)
    (failed,) = agents.events("agent.upgrade.failed")
    body = msgspec.json.decode(failed.body)
    assert (failed.error_code, body["run_id"], body["reason"]) == (code, run_id, "it broke")
    assert not agents.operations(UPDATE)
    assert agents.node_row().agent_version == OLD


def test_EV_09_LC_16_a_return_is_told_once_and_by_the_old_version() -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start(safety_policy="drain", rollout_id="rol_1")
    agents.stage(run_id)
    agents.restart(node, run_id)
    agents.gone(node)
    agents.hello(node, OLD, instance_id="again")
    assert not agents.events("agent.rollback.completed"), "nobody has said so yet"
    agents.came_back(node, run_id)
    run = agents.of(run_id)
    assert (run.state, run.error_code) == ("rolled_back", "upgrade_rolled_back")
    assert agents.node_row().scheduling == "schedulable"
    agents.end(run.operation_id, TaskStatus.FAILED, "upgrade_rolled_back")
    agents.bench.now += 5
    agents.came_back(node, run_id, at_ms=agents.bench.now - 5)  # a newer report about the same return
    (back,) = agents.events("agent.rollback.completed")
    body = msgspec.json.decode(back.body)
    assert (body["from_version"], body["to_version"], body["run_id"], body["rollout_id"]) == (NEW, OLD, run_id, "rol_1")
    assert body["reason"] == "no certificate in 90 s"
    assert back.error_code == "upgrade_rolled_back"
    (failed,) = agents.events("agent.upgrade.failed")
    assert failed.error_code == "upgrade_rolled_back"


def test_LC_16_a_task_that_says_it_was_rolled_back_ends_the_run_so() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.stage(run_id)
    agents.end(agents.of(run_id).operation_id, TaskStatus.FAILED, "upgrade_rolled_back")
    assert agents.of(run_id).state == "rolled_back"
    assert not agents.events("agent.rollback.completed"), "EV-09 is the report's to tell"


def test_LC_21_renewal_that_does_not_work_never_becomes_a_success() -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start()
    agents.stage(run_id)
    agents.restart(node, run_id)
    agents.end(agents.of(run_id).verify_operation_id)
    agents.end(agents.of(run_id).operation_id)
    assert agents.checks(run_id) == ALL - {"renewal_works"}
    assert agents.of(run_id).state == "verifying"
    agents.certify(node)
    agents.report(node, NEW)
    assert "renewal_works" not in agents.checks(run_id), "a certificate that was never used proves nothing"
    agents.pass_time(HOUR)
    run = agents.of(run_id)
    assert (run.state, run.error_code) == ("failed", "upgrade_timed_out")
    assert "renewal_works" in run.error_message


def test_LC_21_a_certificate_from_before_the_change_proves_nothing() -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start()
    before = agents.certify(node)
    agents.bench.now += 1000
    agents.stage(run_id)
    agents.restart(node, run_id)
    agents.hello(node, NEW, serial=before, instance_id="new")
    assert "renewal_works" not in agents.checks(run_id)
    agents.renew(node)
    assert "renewal_works" in agents.checks(run_id)


def test_LC_21_a_node_that_is_not_well_is_not_schedulable_again() -> None:
    agents = Agents()
    (node,) = agents.nodes
    sick = NodeStatus(node_id=node, keyset_version=1, catalog_version=1, storage="disk_full", hold="", drift="")
    run_id = agents.start()
    agents.stage(run_id)
    agents.restart(node, run_id)
    agents.renew(node)
    agents.end(agents.of(run_id).verify_operation_id)
    agents.run(sick)
    agents.end(agents.of(run_id).operation_id)
    assert agents.of(run_id).state == "verifying"
    assert agents.node_row().health == "degraded"
    agents.run(msgspec.structs.replace(sick, storage="ok"))
    assert agents.of(run_id).state == "succeeded"


def test_LC_21_a_service_that_stays_sick_fails_the_run() -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start()
    agents.stage(run_id)
    agents.restart(node, run_id)
    for _ in range(3):
        assert agents.of(run_id).state == "trial", "the node decides how its trial ends"
        agents.end(agents.of(run_id).verify_operation_id, TaskStatus.FAILED, "health_failed")
    agents.end(agents.of(run_id).operation_id)
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "health_failed")
    assert len(agents.operations(VERIFY)) == 3


def test_one_run_at_a_time_on_a_node() -> None:
    agents = Agents()
    first = agents.start()
    assert agents.bench.refusal(start(agents.nodes[0])).code == "agent_run_open"
    agents.cancel(first)
    agents.start()


def test_cancel_ends_what_has_not_begun_to_change_the_node() -> None:
    agents = Agents()
    busy(agents)
    run_id = agents.start(safety_policy="drain")
    agents.stage(run_id)
    assert agents.node_row().scheduling == "draining"
    assert agents.cancel(run_id) == "canceled"
    assert agents.cancel(run_id) == "canceled"
    assert agents.node_row().scheduling == "schedulable"
    assert not agents.events("agent.upgrade.failed"), "nothing failed"
    assert [event.action for event in agents.events("agent.run_changed") if event.action] == [
        "agent.run.start",
        "agent.run.cancel",
    ]


def test_cancel_calls_a_stage_off_that_is_under_way() -> None:
    agents = Agents()
    run_id = agents.start()
    (task,) = agents.bench.tasks(agents.of(run_id).stage_operation_id)
    agents.tell(task, TaskStatus.RUNNING)
    agents.cancel(run_id)
    (task,) = agents.bench.tasks(agents.of(run_id).stage_operation_id)
    assert task.cancel_requested


def test_a_node_that_changes_itself_is_not_called_off() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.stage(run_id)
    with pytest.raises(Exception, match="is changing the node"):
        agents.cancel(run_id)
    agents.end(agents.of(run_id).operation_id, TaskStatus.FAILED)
    with pytest.raises(Exception, match="is failed"):
        agents.cancel(run_id)


def test_a_run_that_waits_for_too_long_ends_and_lets_go() -> None:
    agents = Agents()
    busy(agents)
    run_id = agents.start(safety_policy="drain", run_timeout_seconds=600)
    agents.stage(run_id)
    agents.pass_time(599_999)
    assert agents.of(run_id).state == "waiting"
    agents.pass_time(1)
    run = agents.of(run_id)
    assert (run.state, run.error_code) == ("failed", "upgrade_timed_out")
    assert "draining" in run.error_message
    assert agents.node_row().scheduling == "schedulable"


def test_a_node_that_vanishes_in_its_trial_is_given_up_and_not_called_off() -> None:
    agents = Agents()
    (node,) = agents.nodes
    run_id = agents.start()
    agents.stage(run_id)
    (task,) = agents.bench.tasks(agents.of(run_id).operation_id)
    agents.tell(task, TaskStatus.RUNNING)
    agents.gone(node)
    agents.pass_time(HOUR)
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "upgrade_timed_out")
    (task,) = agents.bench.tasks(agents.of(run_id).operation_id)
    assert not task.cancel_requested, "its trial ends by itself"


def test_a_change_that_nobody_began_does_not_begin_after_its_run() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.stage(run_id)
    agents.gone(agents.nodes[0])
    agents.pass_time(HOUR)
    (task,) = agents.bench.tasks(agents.of(run_id).operation_id)
    assert task.cancel_requested


def test_a_revoked_node_ends_its_run() -> None:
    agents = Agents()
    run_id = agents.start()
    agents.run(RevokeNode(actor=ADMIN, node_id=agents.nodes[0]))
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "revoked")


def test_an_operation_that_is_not_registered_fails_the_run_and_not_the_hello() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.gone(node)
    run_id = agents.start()
    agents.bench.view.rows.pop(type(agents.bench.view.get(*_definition())))
    agents.bench.view.rows[_definition()[0]] = {}
    agents.hello(node)
    assert agents.node_row().connection == "connected"
    assert (agents.of(run_id).state, agents.of(run_id).error_code) == ("failed", "unknown_definition")


def _definition() -> tuple[type, str]:
    from hostler.control.kernel.rows import DefinitionRow

    return DefinitionRow, f"{STAGE}@v1"


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


def test_U3_a_downgrade_without_authority_makes_no_run() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.hello(node, NEW)
    assert agents.bench.refusal(start(node, target_version=OLD)).code == "downgrade_denied"
    agents.run(publish(facts(OLD, replaces=(NEW,)), facts(NEW)))
    agents.start(node, target_version=OLD)
    assert agents.operations(STAGE), "signed as its replacement, it is brought like any other"


def test_LC_16_a_node_goes_back_to_what_lies_there_without_fetching_anything() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.hello(node, NEW)
    agents.report(node, NEW, slots=(Slot(version=OLD, commit="c" * 40, state="previous"),))
    run_id = agents.start(node, target_version=OLD)
    assert [op.operation_type for op in agents.operations()] == ["agent.upgrade.rollback"]
    assert inputs(agents, "agent.upgrade.rollback")["to_version"] == OLD
    agents.restart(node, run_id, OLD)
    agents.stand(node, run_id, OLD)
    assert agents.of(run_id).state == "succeeded"


def test_U3_a_slot_that_never_stood_its_trial_is_no_way_back() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.hello(node, NEW)
    slots = (Slot(version=OLD, commit="c" * 40, state="staged"), Slot(version="0.9.0", commit="c" * 40, state="bad"))
    agents.report(node, NEW, slots=slots)
    assert agents.bench.refusal(start(node, target_version=OLD)).code == "downgrade_denied"
    assert agents.bench.refusal(start(node, target_version="0.9.0")).code == "release_missing"


def test_a_withdrawn_release_is_brought_to_nobody() -> None:
    agents = Agents()
    agents.run(publish(facts(OLD)))
    assert agents.bench.refusal(start(agents.nodes[0])).code == "release_missing"
    agents.run(publish(facts(OLD), facts(NEW)))
    assert agents.start()


@pytest.mark.parametrize("back", [False, True])
def test_SK_20_the_shipped_definitions_take_what_a_run_gives_them(back: bool) -> None:
    """What the profiles ask for and what a run says of a package have to be the same words."""
    agents = Agents()
    for name in ("agent.upgrade.stage", "node.self_update", "agent.upgrade.rollback", "node.agent.verify"):
        agents.bench.define(typed(read_source(SHIPPED / f"{name}@v1.yaml"), Definition))
    node = agents.node(capabilities='{"os.kernel":"linux"}')
    able = {"capabilities": {"os.kernel": "linux"}}
    version, target = (NEW, OLD) if back else (OLD, NEW)
    agents.hello(node, version, **able)
    if back:
        agents.report(node, NEW, slots=(Slot(version=OLD, commit="c" * 40, state="previous"),))
    run_id = agents.start(node, target_version=target)
    if not back:
        agents.stage(run_id)
    (task,) = agents.bench.tasks(agents.of(run_id).operation_id)
    assert (task.state, task.waiting_for) == ("assigned", "")
    agents.tell(task, TaskStatus.RUNNING)
    agents.gone(node)
    agents.hello(node, target, instance_id="the new one", **able)
    (task,) = agents.bench.tasks(agents.of(run_id).verify_operation_id)
    assert (agents.of(run_id).state, task.state) == ("trial", "assigned")


def test_EV_09_a_node_does_not_end_the_run_of_another_by_its_word() -> None:
    agents = Agents(nodes=2)
    one, other = agents.nodes
    run_id = agents.start(one)
    agents.stage(run_id)
    assert agents.of(run_id).operation_id
    agents.came_back(other, run_id)
    assert not agents.of(run_id).finished_at_ms
    (told,) = agents.events("agent.rollback.completed")
    assert (told.node_id, msgspec.json.decode(told.body)["run_id"]) == (other, "")


@pytest.mark.parametrize("command", [CancelOperation, RetryOperation, RecoverWorkload])
@pytest.mark.parametrize("whose", ["project_admin", "tenant_admin"])
def test_S2_the_operations_of_a_run_are_not_its_projects_to_move(command: type, whose: str) -> None:
    """They are shown in the project that has the node."""
    agents = Agents()
    run_id = agents.start()
    (stage,) = agents.operations(STAGE)
    if command is not CancelOperation:
        agents.end(stage.operation_id, TaskStatus.FAILED, "interrupted_apply")
    more = {"correlation_id": "c"} if command is RecoverWorkload else {}
    asked = {"project_id": stage.project_id, "operation_id": stage.operation_id, **more}
    actor = Actor(kind="user", name="ann", role=whose, org_id=stage.org_id, project_id=stage.project_id)
    before = agents.operations()
    with pytest.raises(HostlerError) as caught:
        agents.run(command(actor=actor, **asked))
    assert caught.value.code == "scope_denied"
    assert agents.operations() == before
    assert run_id


@pytest.mark.parametrize("kind", ["stage", "activate", "rollback"])
def test_S2_a_project_does_not_change_the_agent_of_its_own_node(kind: str) -> None:
    """Whatever the operation is called that has such a step."""
    agents = Agents()
    step = StepTemplate(id="do", kind=f"agent.upgrade.{kind}", params={})
    agents.bench.define(definition(render_step(), step, type_="mine.upgrade"))
    node = agents.node_row()
    values = {"org_id": node.org_id, "project_id": node.project_id, "operation_type": "mine.upgrade"}
    asked = submit(target_selector=TargetSelector(nodes=(node.node_id,)), **values)
    with pytest.raises(HostlerError) as caught:
        agents.run(asked)
    assert caught.value.code == "scope_denied"
    assert agents.run(msgspec.structs.replace(asked, actor=ADMIN)).operation_id
