"""One attempt's side of the task API: who it is, and what it may go on with while the control plane is away."""

from collections import OrderedDict
from typing import Any

import msgspec

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.taskapi.calls import Calls, Reply
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError

_KEPT_LISTS, _KEPT_BYTES = 64, 2 << 20  # the newest whatever its length
_STALE_S = 900.0  # a list that is older helps nobody
_PROGRESS_EVERY_S = 0.5


class Session:
    """Facts come from the signed task; nothing of it can be changed from inside."""

    def __init__(self, facts: TaskFacts, calls: Calls, clock: Clock) -> None:
        self.facts = facts
        self._calls = calls
        self._clock = clock
        self._lists: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._keys = b""
        self._progress_at = float("-inf")

    def context(self) -> dict[str, Any]:
        """TE-07, TE-08: `parent_job` is None for a root job."""
        facts = self.facts
        return {
            "job_id": facts.job_id,
            "job": facts.job,
            "parent_job": facts.parent or None,
            "namespace": facts.namespace,
            "task_id": facts.task_id,
            "task_index": facts.task_index,
            "num_tasks": facts.num_tasks,
            "attempt_uid": facts.attempt_uid,
            "attempt_number": facts.attempt_number,
            "org_id": facts.org_id,
            "project_id": facts.project_id,
            "worker_id": facts.node_id,
            "node_address": facts.node_address,
            "ports": facts.ports,
        }

    async def call(self, method: str, body: Any = None, wait_s: float = 0.0) -> Reply:
        return await self._calls(self.facts, method, body, wait_s)

    async def keys(self) -> Reply:
        """They never change within an attempt."""
        if self._keys:
            return Reply(200, self._keys)
        reply = await self.call("keys")
        if reply.status == 200:
            self._keys = reply.body
        return reply

    async def endpoints(self, body: dict[str, str]) -> tuple[Reply, float]:
        """The list, and how many seconds old it is: above 0 only while the control plane is away.

        Raises:
            HostlerError: `controller_unreachable` where there is none to go on with.
        """
        key = msgspec.json.encode(body).decode()
        try:
            reply = await self.call("endpoints.list", body)
        except HostlerError as err:
            kept = self._lists.get(key)
            age = self._clock.monotonic() - kept[0] if kept else _STALE_S
            if err.code != "controller_unreachable" or kept is None or age >= _STALE_S:
                raise
            return Reply(200, self._still_leased(kept[1])), max(age, 0.001)
        if reply.status == 200:
            self._lists[key] = self._clock.monotonic(), reply.body
            self._lists.move_to_end(key)
            self._forget()
        return reply, 0.0

    def _forget(self) -> None:
        """A task chooses for what it asks, and what its own endpoints say: the oldest lists go."""
        size = sum(len(body) for _, body in self._lists.values())
        while len(self._lists) > _KEPT_LISTS or (size > _KEPT_BYTES and len(self._lists) > 1):
            size -= len(self._lists.popitem(last=False)[1][1])

    def _still_leased(self, body: bytes) -> bytes:
        listed, now_ms = msgspec.json.decode(body), self._clock.now_ms()
        kept = [each for each in listed["items"] if (each["lease_deadline_ms"] or now_ms + 1) > now_ms]
        return msgspec.json.encode(listed | {"items": kept})

    def may_report_progress(self, *, is_last: bool) -> bool:
        """Twice a second is enough for whoever looks; the last word always goes through."""
        now = self._clock.monotonic()
        if not is_last and now - self._progress_at < _PROGRESS_EVERY_S:
            return False
        self._progress_at = now
        return True
