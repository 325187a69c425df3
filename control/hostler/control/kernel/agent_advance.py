"""What time alone does to agents: see `AdvanceAgents`."""

from hostler.control.kernel import agent_runs, rollout_flow
from hostler.control.kernel.agent_commands import AdvanceAgents
from hostler.control.kernel.model import Decision, Draft


def advance(draft: Draft, _: AdvanceAgents) -> Decision:
    """→ how many runs were over; open rollouts are looked at before the decision is handed out."""
    moved = agent_runs.advance(draft)
    rollout_flow.advance(draft)
    return draft.decision(moved)
