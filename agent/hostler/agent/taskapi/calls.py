"""What a task asks of the control plane, on its way there: one `TaskCall` each, by the network process."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Asks
from hostler.base.errors import error

_TIMEOUT_S = 20.0
_MAX_ANSWER = 8 << 20


class Reply(NamedTuple):
    """`status` as of HTTP; from 400 on the body is a problem document."""

    status: int
    body: bytes


class Calls(Protocol):
    """Raises `controller_unreachable`, or what keeps the node itself out."""

    async def __call__(self, facts: TaskFacts, method: str, body: Any = None, wait_s: float = 0.0) -> Reply: ...


class TaskCalls:
    """The real one."""

    def __init__(self, ask: Asks, target: Callable[[], tuple[Tls, str]]) -> None:
        self._ask = ask
        self._target = target

    async def __call__(self, facts: TaskFacts, method: str, body: Any = None, wait_s: float = 0.0) -> Reply:
        """The control plane's answer.

        Raises:
            HostlerError: `controller_unreachable`; `revoked` and the like for the node itself.
        """
        from google.protobuf.message import DecodeError

        from hostler.v1 import node_pb2

        request = node_pb2.TaskCallRequest(
            task_id=facts.task_id,
            attempt_uid=facts.attempt_uid,
            method=method,
            body=msgspec.json.encode({} if body is None else body),
        )
        tls, address = self._target()
        data = await self._ask(tls, address, "TaskCall", request.SerializeToString(), _TIMEOUT_S + wait_s)
        try:
            answer = node_pb2.TaskCallResponse.FromString(data)
        except DecodeError as err:
            raise error("controller_unreachable", "the answer to a task's call is none") from err
        if not 200 <= answer.status < 600 or len(answer.body) > _MAX_ANSWER:
            raise error("controller_unreachable", "the answer to a task's call is none")
        return Reply(answer.status, answer.body)
