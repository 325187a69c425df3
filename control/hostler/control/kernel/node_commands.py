"""Commands about bringing nodes back; see `commands`."""

import msgspec

from hostler.control.kernel.actor import Actor


class RecoverNode(msgspec.Struct, frozen=True, kw_only=True):
    """→ `Recovered`. The next honest thing for a node that is held, stuck in its chain, or whose tasks are unclear."""

    actor: Actor
    node_id: str
    reason: str
    correlation_id: str


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was done. `operation_id` is what can be watched, in `project_id`; "" where it is done already."""

    what: str  # hold_ended, work_sent, link_retried, node_probed, task_probed
    text: str
    operation_id: str = ""
    project_id: str = ""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """`remains` names what recovery cannot mend, each with what would."""

    node_id: str
    did: tuple[Done, ...]
    remains: tuple[str, ...]


NodeCommand = RecoverNode
