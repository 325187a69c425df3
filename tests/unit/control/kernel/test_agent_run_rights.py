"""U3, S2, SK-20: which version a lifecycle run may bring, whose a run is, and what its operations are given."""

from pathlib import Path

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.load import read_source, typed
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.commands import CancelOperation, RetryOperation, TargetSelector
from hostler.control.kernel.workload_commands import RecoverWorkload
from hostler.pki.agent_report import Slot
from hostler.wire.report import TaskStatus
from support.agents import NEW, OLD, STAGE, Agents, facts, publish, start
from support.builders import definition, render_step
from support.control import ADMIN, submit

SHIPPED = Path(__file__).parents[4] / "profiles/definitions"


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
    assert agents.inputs("agent.upgrade.rollback")["to_version"] == OLD
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
