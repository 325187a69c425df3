"""Asks the operator's Rego policy, and takes every silence for a no (AZ-11, OD-35).

ask ─▶ an idle process ─▶ reasons            none: allowed; any: `policy_denied`
          │ no answer in time, a crash, nonsense: killed, started again, and the request is refused
"""

import asyncio
from typing import Any

import msgspec

from hostler.base.errors import error
from hostler.base.logs import get_logger
from hostler.control.kernel.permitted import Answer, Question
from hostler.control.policy_engine.child import Away, Child, Setup
from hostler.control.policy_engine.files import read_modules
from hostler.control.policy_engine.settings import PolicyEngineSettings

_log = get_logger("hostler.control.policy_engine")
MAX_QUESTION = 262_144
MAX_REASON = 400
WAIT_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_STEADY_S = 5.0  # a process that has lived so long is started again at once


class PolicyEngine:
    """Made by `open`; `run` keeps its processes alive.

    Attributes:
        query: what is asked, for whoever wants to know.
    """

    def __init__(self, settings: PolicyEngineSettings, setup: Setup, first: Child) -> None:
        self.query = settings.query
        self._setup = setup
        self._first: Child | None = first
        self._timeout_s = settings.timeout_ms / 1000
        self._processes = settings.processes
        self._idle: asyncio.Queue[Child] = asyncio.Queue()
        self._idle.put_nowait(first)

    @classmethod
    async def open(cls, settings: PolicyEngineSettings) -> "PolicyEngine":
        """Raises `invalid_config` with file and line for modules that cannot be taken up."""
        setup = Setup(read_modules(settings.files), settings.query, settings.memory_mib * 1_048_576)
        try:
            first = await Child.start(setup)
        except Away as err:
            raise error("invalid_config", f"policy engine: {err}") from err
        if isinstance(first, str):
            raise error("invalid_config", f"policy engine: {first}")
        return cls(settings, setup, first)

    async def ask(self, question: Question) -> Answer:
        """Never raises: who cannot be asked has not agreed."""
        digest = question.digest()
        data = msgspec.to_builtins(question)
        if len(msgspec.json.encode(data)) > MAX_QUESTION:
            return _denied(digest, "the request is too large for the policy engine")
        try:
            said = await self._answer(data)
        except Away as err:
            return self._away(digest, str(err))
        if isinstance(said, str):
            return self._away(digest, said)
        if said:
            return _denied(digest, "; ".join(said)[:MAX_REASON] or "the policy engine gives no reason")
        return Answer(question_digest=digest, allowed=True)

    async def run(self) -> None:
        """Until it is cancelled, which ends the processes."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._processes):
                group.create_task(self._keep())

    async def close(self) -> None:
        """Ends what `run` never came to keep."""
        if self._first is not None:
            await self._first.end()

    async def _answer(self, data: Any) -> Any:
        """Raises `Away`. A process that gives none in time is no use to the next one either."""
        child = await self._free()
        is_whole = False
        try:
            async with asyncio.timeout(self._timeout_s):
                said = await child.ask(data)
            is_whole = True
        except TimeoutError as err:
            raise Away(f"it gave no answer within {self._timeout_s:g} s") from err
        finally:
            if is_whole:
                self._idle.put_nowait(child)
            else:
                child.kill()
        return said

    async def _free(self) -> Child:
        """A process that is idle. Others' questions and a start are waited for, not for long."""
        try:
            async with asyncio.timeout(WAIT_S):
                while not (child := await self._idle.get()).alive:
                    continue
        except TimeoutError as err:
            raise Away(f"none of its processes was free within {WAIT_S:g} s") from err
        return child

    async def _keep(self) -> None:
        """One process after the other; what dies young is waited for."""
        loop, pause = asyncio.get_running_loop(), 0.0
        child, self._first = self._first, None
        while True:
            if child is None:
                await asyncio.sleep(pause)
                child = await self._started()
            began = loop.time()
            try:
                status = await child.ended() if child else None
            finally:
                if child:
                    await child.end()
            _log.warning("policy_engine.ended", status=status)
            is_steady = child is not None and loop.time() - began > _STEADY_S
            pause = 0.0 if is_steady else min(max(pause * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            child = None

    async def _started(self) -> Child | None:
        try:
            child = await Child.start(self._setup)
        except (Away, OSError) as err:
            _log.warning("policy_engine.start_failed", reason=str(err))
            return None
        if isinstance(child, str):
            _log.warning("policy_engine.start_failed", reason=child)
            return None
        self._idle.put_nowait(child)
        return child

    def _away(self, digest: str, why: str) -> Answer:
        _log.warning("policy_engine.away", reason=why)
        return _denied(digest, f"the policy engine is away: {why}"[:MAX_REASON])


def _denied(digest: str, reason: str) -> Answer:
    return Answer(question_digest=digest, allowed=False, reason=reason)
