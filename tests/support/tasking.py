"""Tasks of jobs as processes, below a real control plane: real task API, real calls, no container runtime.

`TaskAgent` stands for the agent and the runtime that jobs will have: it takes signed tasks of the job types, starts
each command with the environment of a task, and reports its end.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside
from hostler.agent.taskapi.calls import TaskCalls
from hostler.agent.taskapi.server import SOCKET, TaskApi
from hostler.base.clock import SystemClock
from hostler.base.envelope import TASK_TYPE
from hostler.catalog.job import Constraint, JobSpec
from hostler.catalog.load import load_profiles
from hostler.cli.demo_files import builtin_profiles
from hostler.wire.codec_task import decode_cancel, decode_task
from hostler.wire.node import Reports, TaskAccepted, Tasks
from hostler.wire.report import TaskReport, TaskStatus
from hostler.wire.task import TaskSpec
from support.fake_node import FakeNode, Session
from support.jobs import can
from support.outside import InProcess
from support.plane import ORG, PROJECT, Plane, operations
from support.ports import next_port

_SHIPPED = {each.ref: each for each, _ in load_profiles(builtin_profiles()).definitions}
JOBS, PRIVATE = _SHIPPED["job.container.run@v1"], _SHIPPED["job.container.private@v1"]
CAPABILITIES = can(workload_runtimes="containerd,process", os_kernel="linux")
ROOT = Path(__file__).resolve().parents[2]


def facts_of(spec: TaskSpec, node_id: str, ports: dict[str, int]) -> TaskFacts:
    inputs = msgspec.json.decode(spec.inputs_json)
    return TaskFacts(
        job_id=spec.operation_id,
        job=inputs["job"],
        parent=inputs["parent"],
        namespace=inputs["namespace"],
        task_id=spec.task_id,
        attempt_uid=spec.attempt_uid,
        attempt_number=1,
        task_index=0,
        num_tasks=1,
        org_id=spec.org_id,
        project_id=spec.project_id,
        node_id=node_id,
        node_address="127.0.0.1",
        ports=ports,
    )


def environment_of(facts: TaskFacts, folder: Path) -> dict[str, str]:
    said = {
        "HOSTLER_JOB_ID": facts.job_id,
        "HOSTLER_JOB": facts.job,
        "HOSTLER_TASK_ID": facts.task_id,
        "HOSTLER_TASK_INDEX": str(facts.task_index),
        "HOSTLER_NUM_TASKS": str(facts.num_tasks),
        "HOSTLER_ATTEMPT": str(facts.attempt_number),
        "HOSTLER_ATTEMPT_UID": facts.attempt_uid,
        "HOSTLER_WORKER_ID": facts.node_id,
        "HOSTLER_NAMESPACE": facts.namespace,
        "HOSTLER_PARENT_JOB": facts.parent,
        "HOSTLER_VM_ADDRESS": facts.node_address,
        "HOSTLER_CONTROLLER_ADDRESS": f"unix://{folder / SOCKET}",
    }
    return said | {f"HOSTLER_PORT_{name.upper()}": str(port) for name, port in facts.ports.items()}


class TaskAgent:
    """Runs what its node is sent, until the block around it ends."""

    def __init__(self, node: FakeNode, api: TaskApi, path: str) -> None:
        self.node, self.api, self._path = node, api, path
        self.said: dict[str, str] = {}  # path of a job → what its task printed
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._told: set[str] = set()  # tasks that were told to end

    async def run(self, session: Session) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                tasks: Tasks = await session.next(Tasks, 300)
                for envelope in tasks.envelopes:
                    if envelope.payload_type != TASK_TYPE:
                        self._end(decode_cancel(envelope.payload).task_id)
                        continue
                    spec = decode_task(envelope.payload)
                    await session.say(TaskAccepted((spec.task_id,)))
                    group.create_task(self._task(session, spec))

    def _end(self, task_id: str) -> None:
        self._told.add(task_id)
        process = self._running.get(task_id)
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)

    async def _task(self, session: Session, spec: TaskSpec) -> None:
        inputs = msgspec.json.decode(spec.inputs_json)
        facts = facts_of(spec, self.node.node_id, {name: next_port() for name in inputs["ports"]})
        async with self.api.serve(facts) as folder:
            command = [sys.executable if word == "python3" else word for word in inputs["command"]]
            environment = environment_of(facts, folder) | {"PYTHONPATH": self._path, "PATH": os.environ["PATH"]}
            process = await asyncio.create_subprocess_exec(
                *command,
                env=environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            self._running[spec.task_id] = process
            try:
                out, _ = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
        self.said[facts.job] = out.decode()
        if spec.task_id in self._told:
            common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
            ended = TaskReport(**common, status=TaskStatus.CANCELED, error_code="canceled", at_ms=spec.not_before_ms)
            await session.say(Reports(tuple(self.node.reports(ended))))
            return
        await session.say(Reports(tuple(self.node.finished(spec, failed="exit_status" if process.returncode else ""))))


@asynccontextmanager
async def calls_of(node: FakeNode) -> AsyncIterator[TaskCalls]:
    """The agent's own way to the control plane, as that node."""
    inside = InProcess()
    outside = Outside(inside.connect)
    running = asyncio.create_task(outside.run())
    key, chain = node.signer.to_pem(), node.certificate
    tls = Tls(trust_domain=node.trust_domain, ca_pems=node.ca_pems, key_pem=key, chain_pem=chain)
    try:
        yield TaskCalls(outside.ask, lambda: (tls, node.address))
    finally:
        running.cancel()
        await asyncio.wait([running])
        if inside.servers:
            await asyncio.wait(inside.servers, timeout=5)


@asynccontextmanager
async def agent(control: Plane, name: str = "gpu-1", path: str = "", **more: Any) -> AsyncIterator[TaskAgent]:
    """An enrolled node with an open session that runs what it is sent."""
    node = await control.enroll(name, **more)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(node.session(capabilities=CAPABILITIES))
        calls = await stack.enter_async_context(calls_of(node))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hostler-tasks-"))
        made = TaskAgent(node, TaskApi(Path(folder) / "tasks", calls, SystemClock()), path)
        running = asyncio.create_task(made.run(session))
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.wait([running], timeout=10)


async def submit_job(
    control: Plane, node: FakeNode, spec: JobSpec, user: str = "ann", *, org: str = ORG, project: str = PROJECT
) -> str:
    """A root job of that user, which runs on that node."""
    here = Constraint(key="node.id", values=(node.node_id,))
    body = msgspec.to_builtins(msgspec.structs.replace(spec, constraints=(*spec.constraints, here)))
    client = await control.member(user, org, project)
    answer = await client.post(f"/api/v1/projects/{project}/jobs", json=body)
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


async def ended(control: Plane, job_id: str, limit_s: float = 60.0, project: str = PROJECT) -> Any:
    async with asyncio.timeout(limit_s):
        while True:
            found = await control.call("GET", f"{operations(project)}/{job_id}")
            if found["status"] in ("succeeded", "failed", "canceled"):
                return found
            await asyncio.sleep(0.05)
