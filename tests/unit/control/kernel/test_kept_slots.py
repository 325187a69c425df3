"""LC-13, LC-16, U3: by what a node says of its slots the control plane knows what it can be sent back to."""

import pytest

from hostler.pki.agent_report import Slot
from support.agents import NEW, OLD, Agents, start


@pytest.mark.parametrize("state", ["previous", "packaged", "kept"])
def test_LC_16_back_goes_a_node_to_what_has_stood_its_trial_there(state: str) -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.hello(node, NEW)
    agents.report(node, NEW, slots=(Slot(version=OLD, commit="c" * 40, state=state),))
    agents.start(node, target_version=OLD)
    assert [operation.operation_type for operation in agents.operations()] == ["agent.upgrade.rollback"]


@pytest.mark.parametrize("state", ["staged", "superseded", "bad", "of a later version"])
def test_U3_and_to_nothing_else(state: str) -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.hello(node, NEW)
    agents.report(node, NEW, slots=(Slot(version=OLD, commit="c" * 40, state=state),))
    assert agents.bench.refusal(start(node, target_version=OLD)).code == "downgrade_denied"
