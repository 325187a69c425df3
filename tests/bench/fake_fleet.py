"""Many light agents in one process: real mutual-TLS sessions that answer every task at once with success.

`python -m tests.bench.fake_fleet DIRECTORY ADDRESS TRUST_DOMAIN` reads DIRECTORY/nodes.json, connects them all,
prints READY, and ends on SIGTERM. Every answer carries a signed, chained receipt; no process is spawned.
"""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import grpc.aio

from hostler.pki import tls
from hostler.pki.chain import receipt_digest
from hostler.pki.keys import FileSigner
from hostler.pki.statements import chain_link, sign_statement, step_statement
from hostler.v1 import node_pb2, node_pb2_grpc
from hostler.wire.codec_node import agent_message, control_value
from hostler.wire.codec_task import decode_task
from hostler.wire.node import Hello, Reports, TaskAccepted, Tasks
from hostler.wire.report import Report, StepReport, StepStatus, TaskReport, TaskStatus
from hostler.wire.task import TaskSpec

IN_FLIGHT = 50


class FakeNode:
    def __init__(self, entry: dict[str, str], ca: str, address: str, trust_domain: str) -> None:
        self.node_id = entry["node_id"]
        self._signer = FileSigner.from_pem(entry["key"].encode())
        options: list[tuple[str, Any]] = [*tls.channel_options(trust_domain), ("grpc.use_local_subchannel_pool", 1)]
        credentials = tls.channel_credentials((ca,), entry["key"].encode(), entry["certificate"].encode())
        self._channel = grpc.aio.secure_channel(address, credentials, options)
        self._outbox = self._index = 0
        self._head = ""

    async def run(self, gate: asyncio.Semaphore, connected: asyncio.Queue[int]) -> None:
        async with gate:
            call = node_pb2_grpc.NodeServiceStub(self._channel).Session(wait_for_ready=True)
            hello = Hello(
                agent_version="fake",
                parallel_tasks=64,
                catalog_version=1 << 40,
                keyset_version=1 << 40,
                capabilities={"os.kernel": "linux"},
            )
            await call.write(agent_message(hello))
            await call.read()
        connected.put_nowait(1)
        while True:
            value = control_value(await call.read())
            if isinstance(value, Tasks):
                specs = [decode_task(envelope.payload) for envelope in value.envelopes]
                await call.write(agent_message(TaskAccepted(tuple(spec.task_id for spec in specs))))
                await call.write(self._answer(specs))

    def _answer(self, specs: list[TaskSpec]) -> node_pb2.AgentMessage:
        reports = [report for spec in specs for report in self._reports(spec)]
        return agent_message(Reports(tuple(reports)))

    def _reports(self, spec: TaskSpec) -> list[Report]:
        step = spec.steps[0]
        predicate = {"task_id": spec.task_id, "step_id": step.step_id, "status": "succeeded"}
        statement = step_statement(predicate, chain_link(self.node_id, self._index, self._head))
        receipt = sign_statement(statement, self._signer)
        self._head = receipt_digest(receipt)
        common = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
        done = StepReport(
            **common,
            step_id=step.step_id,
            step_index=0,
            step_kind=step.kind,
            status=StepStatus.SUCCEEDED,
            started_at_ms=spec.not_before_ms,
            finished_at_ms=spec.not_before_ms + 1,
            receipt=receipt,
            receipt_digest=self._head,
            chain_index=self._index,
        )
        self._index += 1
        ended = TaskReport(**common, status=TaskStatus.SUCCEEDED, at_ms=spec.not_before_ms + 1)
        self._outbox += 2
        return [Report(self._outbox - 1, done), Report(self._outbox, ended)]


async def main(directory: Path, address: str, trust_domain: str) -> None:
    entries = json.loads((directory / "nodes.json").read_text())
    ca = (directory / "pki/control/ca.pem").read_text()
    nodes = [FakeNode(entry, ca, address, trust_domain) for entry in entries]
    gate, connected = asyncio.Semaphore(IN_FLIGHT), asyncio.Queue[int]()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(node.run(gate, connected)) for node in nodes]
        for _ in nodes:
            await connected.get()
        print("READY", flush=True)
        await stop.wait()
        for task in running:
            task.cancel()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
