"""`TaskCall`: what a running task asks, through its node (API-27, X33, BK-05).

    attempt open on this node? ─▶ not too often? ─▶ body as its method says ─▶ in the task's own scope? ─▶ answer

A task reaches its own project's names (TE-17), its own root job's tree to look at, and its own job's subtree to cancel.
Whatever is refused is answered as a problem document.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.strict import convert, decode_json
from hostler.catalog.job import JobSpec, root_of
from hostler.control import child_jobs
from hostler.control.engine import Engine
from hostler.control.kernel.endpoint_commands import RegisterEndpoint, UnregisterEndpoint
from hostler.control.kernel.endpoints import JOB_TYPES
from hostler.control.rpc.namespace_keys import NamespaceKeys
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.store.endpoints import MOST_NAMED, JobState, TaskCaller
from hostler.wire import task_calls as wire
from hostler.wire.problem import problem_document
from hostler.wire.report import StepProgress

FINAL = frozenset({"succeeded", "failed", "canceled"})
RATE_PER_S, BURST = 20.0, 200.0  # calls of one attempt
_COSTS = {"jobs.submit": 5.0}
_KEPT_ATTEMPTS = 50_000
_WORKLOAD_STEP = "run"


class Pace:
    """A bucket an attempt: `BURST` at once, `RATE_PER_S` for long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, attempt_uid: str, cost: float) -> None:
        """Raises `rate_limited`."""
        now = self._clock.monotonic()
        left, at = self._buckets.pop(attempt_uid, (BURST, now))
        left = min(BURST, left + (now - at) * RATE_PER_S)
        self._buckets[attempt_uid] = max(0.0, left - cost), now
        while len(self._buckets) > _KEPT_ATTEMPTS:
            self._buckets.popitem(last=False)
        if left < cost:
            raise error("rate_limited", f"the task asks more than {RATE_PER_S:.0f} times a second")


class TaskCalls:
    """`answer` serves one call; who the node is was proved before."""

    def __init__(
        self,
        engine: Engine,
        board: ProgressBoard,
        clock: Clock,
        keys: NamespaceKeys,
    ) -> None:
        self._engine, self._board, self._clock, self._keys = engine, board, clock, keys
        self._pace = Pace(clock)
        self._methods: dict[str, Callable[[TaskCaller, Any], Awaitable[Any]]] = {
            "context": self._context,
            "keys": self._own_keys,
            "endpoints.register": self._register,
            "endpoints.unregister": self._unregister,
            "endpoints.list": self._list,
            "jobs.submit": self._submit,
            "jobs.show": self._show,
            "jobs.wait": self._wait,
            "jobs.cancel": self._cancel,
            "progress": self._progress,
        }

    async def answer(self, node_id: str, task_id: str, attempt_uid: str, method: str, body: bytes) -> tuple[int, bytes]:
        """Status and JSON."""
        try:
            return 200, msgspec.json.encode(await self._answer(node_id, task_id, attempt_uid, method, body))
        except HostlerError as err:
            return err.http_status, msgspec.json.encode(problem_document(err))

    async def _answer(self, node_id: str, task_id: str, attempt_uid: str, method: str, body: bytes) -> Any:
        if len(body) > wire.MAX_BODY:
            raise error("too_large", f"the body is larger than {wire.MAX_BODY} bytes")
        type_ = wire.BODIES.get(method)
        if type_ is None:
            raise error("not_found", f"there is no call {method[:64]!r}")
        caller = await self._engine.reader.task_caller(node_id, task_id, attempt_uid)
        if caller is None or caller.operation_type not in JOB_TYPES:
            raise error("stale_attempt", f"task {task_id[:64]} of a job does not run on this node at that attempt")
        self._pace.take(attempt_uid, _COSTS.get(method, 1.0))
        return await self._methods[method](caller, decode_json(body or b"{}", type_, what="body"))

    async def _context(self, caller: TaskCaller, body: wire.Nothing) -> Any:
        return {
            "job_id": caller.operation_id,
            "job": caller.job,
            "namespace": root_of(caller.job),
            "task_id": caller.task_id,
            "task_index": caller.replica_index,
            "cancel_requested": bool(caller.cancel_requested_ms),
        }

    async def _own_keys(self, caller: TaskCaller, body: wire.Nothing) -> Any:
        org_id, project_id, namespace = caller.org_id, caller.project_id, root_of(caller.job)
        return {
            "namespace": namespace,
            "project_key": self._keys.project(org_id, project_id).hex(),
            "namespace_key": self._keys.namespace(org_id, project_id, namespace).hex(),
        }

    async def _register(self, caller: TaskCaller, body: wire.Register) -> Any:
        said = msgspec.structs.asdict(body)
        command = RegisterEndpoint(
            node_id=caller.node_id, task_id=caller.task_id, attempt_uid=caller.attempt_uid, **said
        )
        return await self._engine.execute(command)

    async def _unregister(self, caller: TaskCaller, body: wire.Unregister) -> Any:
        removed = await self._engine.execute(
            UnregisterEndpoint(
                node_id=caller.node_id,
                task_id=caller.task_id,
                attempt_uid=caller.attempt_uid,
                endpoint_id=body.endpoint_id,
            )
        )
        return {"removed": removed}

    async def _list(self, caller: TaskCaller, body: wire.List) -> Any:
        namespace = body.namespace or root_of(caller.job)
        if body.job:
            namespace = await self._namespace_of(caller, body.job)
        found = await self._engine.reader.endpoints_named(caller.org_id, caller.project_id, namespace, body.name)
        return {"namespace": namespace, "items": found, "truncated": len(found) >= MOST_NAMED}

    async def _namespace_of(self, caller: TaskCaller, job: str) -> str:
        """A path says it by itself; an id is looked up among the project's jobs."""
        if job.startswith("/"):
            return root_of(job)
        found = await self._engine.reader.job_state(caller.org_id, caller.project_id, job)
        if found is None:
            raise error("not_found", f"there is no job {job[:64]!r} in the task's project")
        return root_of(found.job)

    async def _submit(self, caller: TaskCaller, body: wire.Submit) -> Any:
        if caller.cancel_requested_ms:
            raise error("operation_final", f"job {caller.job} is being cancelled, so it gets no children")
        spec = convert(body.spec, JobSpec, what="spec")
        made = await child_jobs.submit_child(self._engine, caller, spec, body.key)
        return await self._engine.reader.job_state(caller.org_id, caller.project_id, made.job_id)

    async def _show(self, caller: TaskCaller, body: wire.Show) -> JobState:
        return await self._of_tree(caller, body.job_id, root_of(caller.job))

    async def _wait(self, caller: TaskCaller, body: wire.Wait) -> JobState:
        """The job once it has ended, or as it is when the time is over."""
        end = self._clock.monotonic() + body.wait_s
        while True:
            mark = self._engine.wakes.newest(body.job_id)
            found = await self._of_tree(caller, body.job_id, root_of(caller.job))
            left = end - self._clock.monotonic()
            if found.status in FINAL or left <= 0:
                return found
            await self._engine.wakes.changed(body.job_id, mark, left)

    async def _cancel(self, caller: TaskCaller, body: wire.Cancel) -> Any:
        found = await self._of_tree(caller, body.job_id, caller.job)
        if found.status not in FINAL:
            await child_jobs.cancel_child(self._engine, caller, found.job_id)
        return await self._of_tree(caller, body.job_id, caller.job)

    async def _of_tree(self, caller: TaskCaller, job_id: str, top: str) -> JobState:
        """The job, if it is `top` or below it; else it does not exist for the task."""
        found = await self._engine.reader.job_state(caller.org_id, caller.project_id, job_id)
        if found is None or not (found.job == top or found.job.startswith(f"{top}/")):
            raise error("not_found", f"there is no job {job_id[:64]!r} in the task's scope")
        return found

    async def _progress(self, caller: TaskCaller, body: wire.Progress) -> Any:
        said = StepProgress(
            task_id=caller.task_id,
            attempt_uid=caller.attempt_uid,
            step_id=_WORKLOAD_STEP,
            step_index=int(caller.operation_type != "job.container.run"),  # a private image: after its `mint`
            done_units=body.done,
            total_units=body.total,
            unit=body.unit,
            note=body.note,
            at_ms=self._clock.now_ms(),
        )
        self._board.put(caller.node_id, (said,))
        return {}
