"""`task.profile`: what the processes of a running task do for a while, looked at from outside (API-26)."""

import asyncio
from collections import Counter
from typing import Any

from hostler.agent.containers.find import running
from hostler.agent.containers.runtime import ContainerRuntime
from hostler.agent.host.sampling import Sampling, Thread
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.base.errors import error
from hostler.catalog.params.task import TaskProfile

SHOWN = 200  # entries of a profile
_EVERY_S = 0.2


class TaskProfileKind:
    name = "task.profile"

    async def plan(self, view: StepView) -> Plan:
        params: TaskProfile = view.params
        return Plan((Change(action="check", target=f"task {params.task_id}", detail=f"{params.seconds} s"),))

    async def apply(self, context: StepContext) -> Outcome:
        params: TaskProfile = context.params
        runtime, container = await running(
            context.workloads,
            task_id=params.task_id,
            attempt_uid=params.attempt_uid,
            org_id=context.org_id,
            project_id=context.project_id,
        )
        pid = (await runtime.status(container)).pid
        if not pid:
            raise error("task_not_running", f"runtime {runtime.name} names no process of task {params.task_id}")
        before = await runtime.stats(container)
        watched = await _WATCHES[params.kind](context, pid, params.seconds)
        after = await _stats(runtime, container)
        cgroup = {"cpu_ms": (after.cpu_nanos - before.cpu_nanos) // 1_000_000, "memory_bytes": after.memory_bytes,
                  "pids": after.pids} if after else {}  # fmt: skip
        profile = {"kind": params.kind, "seconds": params.seconds, "cgroup": cgroup} | watched
        return Outcome(outputs={"profile": profile}, changed=False)

    async def probe(self, view: StepView) -> Probe:
        """It changes nothing, so it can be done again."""
        return Probe(truth=Truth.NOT_DONE)


KIND = TaskProfileKind()


async def _stats(runtime: ContainerRuntime, container: str) -> Any:
    """None for a task that has ended meanwhile: what was seen of it is still worth telling."""
    try:
        return await runtime.stats(container)
    except Exception as err:  # noqa: BLE001 - whatever it is, the profile is there
        del err
        return None


async def _pause(context: StepContext, seconds: float) -> None:
    """Raises `canceled`."""
    try:
        async with asyncio.timeout(seconds):
            await context.cancelled.wait()
    except TimeoutError:
        return
    raise error("canceled", "the profile was cancelled")


async def _cpu(context: StepContext, pid: int, seconds: int) -> dict[str, Any]:
    """Threads by the processor time they used in the window; those that began in it from nothing."""
    before = {thread.tid: thread for thread in await _threads(context, pid)}
    await _pause(context, seconds)
    after = await _threads(context, pid)
    used = [(thread.cpu_ms - (before[thread.tid].cpu_ms if thread.tid in before else 0), thread) for thread in after]
    used.sort(key=lambda each: -each[0])
    shown = [
        {"pid": thread.pid, "tid": thread.tid, "name": thread.name, "cpu_ms": ms} for ms, thread in used[:SHOWN] if ms
    ]
    return {"threads": len(after), "top": shown}


async def _waits(context: StepContext, pid: int, seconds: int) -> dict[str, Any]:
    """How often each thread was seen in which state, and in what it waited."""
    seen: Counter[tuple[int, int, str, str, str]] = Counter()
    samples = 0
    for _ in range(max(1, int(seconds / _EVERY_S))):
        samples += 1
        for thread in await _threads(context, pid):
            seen[thread.pid, thread.tid, thread.name, thread.state, thread.waits_in] += 1
        await _pause(context, _EVERY_S)
    shown = [
        {"pid": pid, "tid": tid, "name": name, "state": state, "waits_in": waits_in, "samples": count}
        for (pid, tid, name, state, waits_in), count in seen.most_common(SHOWN)
    ]
    return {"samples": samples, "top": shown}


async def _memory(context: StepContext, pid: int, seconds: int) -> dict[str, Any]:
    """Processes by what they hold at the end of the window, and how it changed."""
    sampling = context.host.sampling
    before = {each.pid: each.resident for each in await asyncio.to_thread(sampling.memory, pid)}
    await _pause(context, seconds)
    after = sorted(await asyncio.to_thread(sampling.memory, pid), key=lambda each: -each.resident)
    shown = [
        {"pid": each.pid, "name": each.name, "resident": each.resident, "shared": each.shared, "swapped": each.swapped,
         "grown": each.resident - before.get(each.pid, 0)}
        for each in after[:SHOWN]
    ]  # fmt: skip
    return {"processes": len(after), "top": shown}


async def _threads(context: StepContext, pid: int) -> list[Thread]:
    sampling: Sampling = context.host.sampling
    return await asyncio.to_thread(sampling.threads, pid)


_WATCHES = {"cpu": _cpu, "threads": _waits, "memory": _memory}
