"""LC-16, LC-21, EV-08, EV-09: every other end of a lifecycle run: failed, brought back, called off, given up."""

import msgspec
import pytest

from hostler.control.kernel.commands import NodeStatus, RevokeNode
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, STAGE, UPDATE, VERIFY, Agents, start
from support.control import ADMIN

ALL = {"version_reported", "service_healthy", "renewal_works", "schedulable"}
HOUR = 3_600_000


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
    agents.occupy()
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
    agents.occupy()
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
