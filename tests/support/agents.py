"""Lifecycle runs in the kernel alone: releases, the operations of a run, and nodes that are played by the test."""

import itertools
from typing import Any

import msgspec

from hostler.catalog.definition import Definition
from hostler.control.kernel.agent_commands import (
    AdvanceAgents,
    CancelAgentRun,
    PublishReleases,
    RecordAgentReport,
    ReleaseFacts,
    SetChannel,
    StartAgentRun,
)
from hostler.control.kernel.agent_rows import AgentRunRow, NodeAgentRow
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.commands import FoldReports, NodeGone, NodeHello, RecordCertificate, TargetSelector
from hostler.control.kernel.rows import CursorRow, EventRow, NodeRow, OperationRow, TaskRow
from hostler.pki.agent_report import AgentReport, DriftState, Returned, Trial, sign_report
from hostler.pki.keys import new_ed25519
from hostler.wire.node import Hello
from hostler.wire.report import Report, TaskReport, TaskStatus
from support.builders import definition, render_step
from support.control import ADMIN, submit
from support.keys import NOW
from support.memory_view import Bench

URL = "https://packages.example"
OLD, NEW, SUITE = "1.0.0", "1.1.0", "bookworm"
PACKAGE_INPUTS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "version": {"type": "string"},
        "suite": {"type": "string"},
        "url": {"type": "string"},
        "sha256": {"type": "string"},
        "size_bytes": {"type": "integer"},
        "metadata_url": {"type": "string"},
        "repair": {"type": "boolean"},
    },
}
RETURN_INPUTS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"to_version": {"type": "string"}, "reason": {"type": "string"}},
}
ROLLBACK = "agent.upgrade.rollback"
STAGE, UPDATE, VERIFY = "agent.upgrade.stage", "node.self_update", "node.agent.verify"


def profiles() -> list[Definition]:
    """Tiny definitions under the names that runs ask for."""
    return [
        definition(render_step("stage"), type_=STAGE, inputs=PACKAGE_INPUTS),
        definition(render_step("activate"), type_=UPDATE, inputs=PACKAGE_INPUTS),
        definition(render_step("health"), type_=VERIFY),
        definition(render_step("back"), type_=ROLLBACK, inputs=RETURN_INPUTS),
    ]


def facts(version: str, suite: str = SUITE, **changes: Any) -> ReleaseFacts:
    values: dict[str, Any] = {
        "version": version,
        "suite": suite,
        "commit": "c" * 40,
        "file": f"hostler-agent_{version}_{suite}.deb",
        "sha256": f"{hash((version, suite)) & 0xFFFF:064x}",
        "size_bytes": 20_000_000,
        "channels": ("stable", "candidate"),
    }
    return ReleaseFacts(**(values | changes))


def publish(*releases: ReleaseFacts) -> PublishReleases:
    return PublishReleases(actor=ADMIN, releases=releases, correlation_id="cor_p")


_runs = itertools.count(1)
_SIGNER = new_ed25519()  # nobody here looks at whose it is


def start(node_id: str, **changes: Any) -> StartAgentRun:
    """An automated upgrade to `NEW` as soon as the node is idle, unless told otherwise."""
    values: dict[str, Any] = {
        "actor": ADMIN,
        "run_id": f"run_{next(_runs)}",
        "node_id": node_id,
        "mode": "rebootstrap",
        "scenario": "in_place_upgrade",
        "target_version": NEW,
        "safety_policy": "idle",
        "correlation_id": "cor_r",
    }
    return StartAgentRun(**(values | changes))


def report(node_id: str, version: str = OLD, **changes: Any) -> AgentReport:
    values: dict[str, Any] = {
        "node_id": node_id,
        "at_ms": NOW,
        "version": version,
        "commit": "c" * 40,
        "suite": SUITE,
        "state": DriftState.IN_SYNC,
    }
    return AgentReport(**(values | changes))


class Agents:
    """A control plane's kernel with two releases and nodes that run the older one."""

    def __init__(self, nodes: int = 1, **limits: Any) -> None:
        self.bench = Bench(agents=AgentSettings(public_url=URL, url_key=b"k" * 32, **limits))
        for document in profiles():
            self.bench.define(document)
        self.run(publish(facts(OLD), facts(NEW)))
        self._numbers = itertools.count(1)
        self._outbox = itertools.count(1)
        self.nodes = [self.node() for _ in range(nodes)]

    def node(self, version: str = OLD, *, connected: bool = True, **more: Any) -> str:
        """A node whose agent has said hello with a proved certificate."""
        row = self.bench.node(connected=False, **more)
        self.bench.view.put(NodeAgentRow(node_id=row.node_id))
        if connected:
            self.certify(row.node_id)
            self.hello(row.node_id, version)
            self.report(row.node_id, version)
        return row.node_id

    def run(self, command: Any) -> Any:
        return self.bench.run(command)

    def start(self, node_id: str = "", **changes: Any) -> str:
        run_id: str = self.run(start(node_id or self.nodes[0], **changes))
        return run_id

    def cancel(self, run_id: str) -> str:
        state: str = self.run(CancelAgentRun(actor=ADMIN, run_id=run_id, reason="not today", correlation_id="c"))
        return state

    def channel(self, channel: str, version: str) -> int:
        moved: int = self.run(SetChannel(actor=ADMIN, channel=channel, version=version, correlation_id="c"))
        return moved

    def pass_time(self, ms: int) -> None:
        self.bench.now += ms
        self.run(AdvanceAgents())

    # -- what is stored ---------------------------------------------------------------------------

    def of(self, run_id: str) -> AgentRunRow:
        row: AgentRunRow = self.bench.view.get(AgentRunRow, run_id)
        return row

    def agent(self, node_id: str = "") -> NodeAgentRow:
        row: NodeAgentRow = self.bench.view.get(NodeAgentRow, node_id or self.nodes[0])
        return row

    def node_row(self, node_id: str = "") -> NodeRow:
        row: NodeRow = self.bench.view.get(NodeRow, node_id or self.nodes[0])
        return row

    def operations(self, type_: str = "") -> list[OperationRow]:
        rows: list[Any] = list(self.bench.view.rows[OperationRow].values())
        return [row for row in rows if not type_ or row.operation_type == type_]

    def inputs(self, type_: str) -> dict[str, object]:
        """Of the newest operation of this type."""
        found: dict[str, object] = msgspec.json.decode(self.operations(type_)[-1].inputs)
        return found

    def events(self, *types: str) -> list[EventRow]:
        return [event for event in self.bench.events if event.type in types]

    def checks(self, run_id: str) -> set[str]:
        return set(msgspec.json.decode(self.of(run_id).checks))

    # -- what nodes do ----------------------------------------------------------------------------

    def hello(self, node_id: str, version: str = OLD, serial: str = "", **more: Any) -> Any:
        node = self.bench.view.get(NodeRow, node_id)
        high = self.bench.view.get(CursorRow, node_id).accepted_sequence
        instance = more.pop("instance_id", f"instance of {version}")
        hello = Hello(
            agent_version=version,
            agent_commit="c" * 40,
            high_sequence=high,
            instance_id=instance,
            parallel_tasks=4,
            **more,
        )
        serial = serial or self.serial(node_id)
        assert node is not None
        return self.run(NodeHello(node_id=node_id, session_id=f"s{next(self._numbers)}", hello=hello, serial=serial))

    def occupy(self) -> str:
        """A tenant's task runs on the first node. → its operation"""
        made = self.run(submit(target_selector=TargetSelector(nodes=(self.nodes[0],))))
        operation_id: str = made.operation_id
        (task,) = self.bench.tasks(operation_id)
        self.tell(task, TaskStatus.RUNNING)
        return operation_id

    def gone(self, node_id: str) -> None:
        self.run(NodeGone(node_id=node_id, session_id=self.node_row(node_id).session_id))

    def certify(self, node_id: str) -> str:
        """A new certificate, not used yet."""
        serial = f"serial{next(self._numbers)}"
        self.run(
            RecordCertificate(
                node_id=node_id,
                serial=serial,
                thumbprint="f" * 64,
                not_before_ms=self.bench.now,
                not_after_ms=self.bench.now + 86_400_000,
            )
        )
        return serial

    def serial(self, node_id: str) -> str:
        found = self.bench.view.certificates_of(node_id)
        return max(found, key=lambda row: int(row.serial[6:])).serial if found else ""

    def report(self, node_id: str, version: str = OLD, **changes: Any) -> bool:
        said = report(node_id, version, **({"at_ms": self.bench.now} | changes))
        document = sign_report(said, _SIGNER)
        new: bool = self.run(RecordAgentReport(node_id=node_id, report=said, document=document))
        return new

    def on_trial(self, node_id: str, run_id: str, version: str = NEW) -> None:
        (task,) = self.bench.tasks(self.of(run_id).operation_id)
        trial = Trial(version=version, from_version=OLD, task_id=task.task_id, deadline_ms=self.bench.now + 90_000)
        self.report(node_id, version, trial=trial)

    def came_back(self, node_id: str, run_id: str, **changes: Any) -> None:
        """The old version is there again and says so."""
        (task,) = self.bench.tasks(self.of(run_id).operation_id)
        said: dict[str, Any] = {
            "version": NEW,
            "to_version": OLD,
            "task_id": task.task_id,
            "error_code": "upgrade_rolled_back",
            "reason": "no certificate in 90 s",
            "at_ms": self.bench.now,
        }
        self.report(node_id, OLD, returned=Returned(**(said | changes)))

    def tell(self, task: TaskRow, status: TaskStatus = TaskStatus.SUCCEEDED, code: str = "exit_status") -> None:
        """The node's word about a task."""
        fails = status in (TaskStatus.FAILED, TaskStatus.REFUSED)
        body = TaskReport(
            task_id=task.task_id,
            attempt_uid=task.attempt_uid,
            status=status,
            error_code=code if fails else "",
            error_message="it broke" if fails else "",
            at_ms=self.bench.now,
        )
        self.run(FoldReports(node_id=task.node_id, reports=(Report(next(self._outbox), body),)))

    def end(self, operation_id: str, status: TaskStatus = TaskStatus.SUCCEEDED, code: str = "exit_status") -> None:
        """The node works on an operation and ends it."""
        for task in self.bench.tasks(operation_id):
            self.tell(task, TaskStatus.RUNNING)
            self.tell(task, status, code)

    def stage(self, run_id: str) -> None:
        self.end(self.of(run_id).stage_operation_id)

    def restart(self, node_id: str, run_id: str, version: str = NEW) -> None:
        """The node begins the change and comes back with the version, on trial."""
        (task,) = self.bench.tasks(self.of(run_id).operation_id)
        self.tell(task, TaskStatus.RUNNING)
        self.gone(node_id)
        self.hello(node_id, version, instance_id=f"instance {next(self._numbers)}")
        self.on_trial(node_id, run_id, version)

    def renew(self, node_id: str, version: str = NEW) -> None:
        """It asks for a certificate, and dials with it."""
        instance = self.node_row(node_id).instance_id
        self.hello(node_id, version, serial=self.certify(node_id), instance_id=instance)

    def stand(self, node_id: str, run_id: str, version: str = NEW) -> None:
        """The trial goes well to its end."""
        self.renew(node_id, version)
        self.end(self.of(run_id).verify_operation_id)
        (task,) = self.bench.tasks(self.of(run_id).operation_id)
        self.tell(task)
