"""Which protocol two sides speak: the highest that both know, or a refusal that says who has to be updated (CG-03).

Raise `PROTOCOL` when a message gets a meaning that the other side has to know; keep what is one below working.
"""

from hostler.base.envelope import CANCEL_TYPE, TASK_TYPE
from hostler.base.errors import error

PROTOCOL = 2  # 1: hellos without versions; 2: versions, capability changes, resolver configurations
OLDEST = 1
ENVELOPES = (TASK_TYPE, CANCEL_TYPE)
_FIRST = 1  # what a side speaks that says nothing


def negotiate(newest: int, oldest: int, *, ours: int = PROTOCOL, our_oldest: int = OLDEST) -> int:
    """The protocol of this session, as the control plane decides it.

    Args:
        newest, oldest: what the agent says that it speaks; 0 for an agent that says nothing.

    Raises:
        HostlerError: `protocol_mismatch`.
    """
    newest, oldest = newest or _FIRST, oldest or _FIRST
    if newest < our_oldest:
        raise error(
            "protocol_mismatch",
            f"the agent speaks protocol {newest}, this control plane {our_oldest} to {ours}: update the agent",
        )
    if oldest > ours:
        raise error(
            "protocol_mismatch",
            f"the agent speaks protocol {oldest} and later, this control plane {our_oldest} to {ours}:"
            " update the control plane first, then the agents",
        )
    return min(newest, ours)


def check_envelopes(taken: tuple[str, ...]) -> None:
    """Whether an agent takes the envelopes that are signed here; one that says nothing takes the first ones.

    Raises:
        HostlerError: `protocol_mismatch`.
    """
    missing = [type_ for type_ in ENVELOPES if taken and type_ not in taken]
    if missing:
        raise error(
            "protocol_mismatch",
            f"the agent does not take envelopes of type {missing[0]}, which this control plane signs:"
            " bring both to versions that are at most one apart",
        )


def check_agreed(agreed: int) -> None:
    """The agent's side: what a welcome says was agreed; 0 for a control plane that says nothing.

    Raises:
        HostlerError: `protocol_mismatch`.
    """
    agreed = agreed or _FIRST
    if not OLDEST <= agreed <= PROTOCOL:
        raise error(
            "protocol_mismatch",
            f"the control plane speaks protocol {agreed}, this agent {OLDEST} to {PROTOCOL}:"
            " update the control plane first, then the agents",
        )
