"""What a session carries about the agent itself: signed reports up, what it should be down (LC-02, LC-04, EF-07)."""

import asyncio

from hostler.base.clock import Pace
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.control.engine import Engine
from hostler.control.kernel.agent_commands import RecordAgentReport
from hostler.control.kernel.allocation_states import SCHEDULABLE
from hostler.control.wakes import Wakes
from hostler.pki.agent_report import MOST_BYTES, open_report
from hostler.pki.keys import PublicKey
from hostler.wire.node import Hello, WorkerPolicy

_log = get_logger("hostler.control.rpc.agent_feed")
_WORD = 64
RATE = 16_384  # bytes of reports in a second, of one session: each is stored whole
_LONGEST_S = 10.0  # a stream that stands still for longer looks like one that is dead


class SaidOfItself:
    """One session's reports. One that does not hold together is dropped: the session is about work."""

    def __init__(self, engine: Engine, node_id: str) -> None:
        self._engine = engine
        self._node_id = node_id
        self._last = b""
        self._pace = Pace(RATE, engine.clock)

    async def take(self, document: bytes) -> None:
        """Stores a report that the node's own key signed about that node. One that says much waits for its turn."""
        if not document or document == self._last:
            return
        self._last = document
        wait_s = self._pace.debt(min(len(document), MOST_BYTES))
        if wait_s:
            await asyncio.sleep(min(wait_s, _LONGEST_S))
        known = await self._engine.reader.node_identity(self._node_id)
        if known is None:
            return
        try:
            report = open_report(document, self._node_id, PublicKey(known.public_key))
        except HostlerError as err:
            _log.warning("agent.report_refused", error=err, node_id=self._node_id)
            return
        await self._engine.execute(RecordAgentReport(node_id=self._node_id, report=report, document=document))


async def wanted_of(engine: Engine, node_id: str) -> WorkerPolicy:
    """What is wanted of a node now."""
    scheduling, version = await engine.reader.agents.wanted(node_id)
    return WorkerPolicy(scheduling, version, engine.agents.report_seconds)


def known_to(hello: Hello, wanted: WorkerPolicy) -> WorkerPolicy:
    """What the agent knows already. One that reports on itself is told once in a session what it should be."""
    scheduling = hello.scheduling[:_WORD] or SCHEDULABLE
    if hello.agent_report or wanted.desired_agent_version:
        return WorkerPolicy(scheduling, "", -1)
    return WorkerPolicy(scheduling, "", wanted.report_seconds)


def changed_by(wakes: Wakes, node_id: str, wanted: WorkerPolicy) -> WorkerPolicy:
    """As it was at the hello, with what has changed since."""
    desired = wakes.desired(node_id)
    return WorkerPolicy(
        wakes.scheduling(node_id) or wanted.scheduling,
        wanted.desired_agent_version if desired is None else desired,
        wanted.report_seconds,
    )
