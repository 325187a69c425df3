"""What tests of jobs in the kernel do to their bench: cancel, lose a node, let it say hello, submit a child."""

import msgspec

from hostler.control.kernel.commands import NodeGone, NodeHello
from hostler.control.kernel.job_commands import CancelJob, SubmitChildJob
from hostler.wire.node import Hello
from support.control import USER
from support.jobs import JobBench, spec

TASK_OF_ANN = msgspec.structs.replace(USER, kind="task", name="ann", role="")


def cancel(bench: JobBench, job_id: str, **more: str) -> list[str]:
    told: list[str] = bench.run(CancelJob(actor=USER, project_id="train", job_id=job_id, **more))
    return told


def hello(bench: JobBench, node, high: int = 0, **more) -> None:
    caps = msgspec.json.decode(bench.node_row(node.node_id).capabilities, type=dict[str, str])
    said = Hello(agent_version="1", high_sequence=high, capabilities=caps, **more)
    bench.run(NodeHello(node_id=node.node_id, session_id="s2", hello=said))


def lose(bench: JobBench, node) -> None:
    session = bench.node_row(node.node_id).session_id
    bench.run(NodeGone(node_id=node.node_id, session_id=session))


def child(bench: JobBench, parent: str, **more) -> str:
    task = bench.tasks(parent)[0]
    values = {
        "actor": TASK_OF_ANN, "node_id": task.node_id, "task_id": task.task_id, "attempt_uid": task.attempt_uid,
        "spec": spec("child"), "idempotency_key": f"c{bench.ids.new('k', 1)}", "correlation_id": "",
    }  # fmt: skip
    made: str = bench.run(SubmitChildJob(**(values | more))).job_id
    return made
