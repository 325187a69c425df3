"""Jobs on a control plane with a real store, and agents that say what they are told to."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler.control.kernel.commands import NodeHello
from hostler.wire.node import Hello
from support.control import FakeNode, Fleet, fleet_in
from support.jobs import can, job_definitions, submit_job

# what is booked is what the tasks say (EF-10, BK-06)
WRONG = {
    "a node's load": """
        SELECT n.node_id FROM nodes n LEFT JOIN node_loads l USING (node_id)
        WHERE coalesce(l.tasks, 0) != (SELECT count(*) FROM job_tasks t WHERE t.node_id = n.node_id)""",
    "an owner's share": """
        SELECT s.owner FROM job_shares s WHERE s.tasks != (
          SELECT count(*) FROM job_tasks t JOIN jobs j USING (job_id)
          WHERE t.node_id != '' AND (j.org_id, j.project_id, j.owner) = (s.org_id, s.project_id, s.owner))""",
    "a task without a place that holds one": """
        SELECT t.task_id FROM job_tasks t JOIN local_tasks l USING (task_id)
        WHERE t.node_id != iif(l.finished_at_ms > 0, '', l.node_id)""",
    "a job's count of what waits": """
        SELECT job_id FROM jobs j
        WHERE pending != (SELECT count(*) FROM job_tasks t WHERE t.job_id = j.job_id AND t.pending = 1)""",
    "a waiting task that does not know why": """
        SELECT task_id FROM job_tasks WHERE pending = 1 AND reason = '' AND not_before_ms = 0""",
    "a job that is over and not over": """
        SELECT job_id FROM jobs j JOIN operations o ON o.operation_id = j.job_id
        WHERE (gone_ms > 0) != (status IN ('succeeded', 'failed', 'canceled'))""",
}


@asynccontextmanager
async def jobs_in(directory: Path, **more: Any) -> AsyncIterator[Fleet]:
    """Open it again to restart the control plane."""
    async with fleet_in(directory, **more) as fleet:
        if await fleet.engine.reader.definition("job.container.run@v1") is None:
            await fleet.publish(*job_definitions())
        yield fleet


async def worker(fleet: Fleet, name: str = "w1", **caps: Any) -> FakeNode:
    node = await fleet.enroll(name)
    await connect(fleet, node, **caps)
    return node


async def connect(fleet: Fleet, node: FakeNode, session: str = "s1", **caps: Any) -> None:
    hello = Hello(
        agent_version="1", high_sequence=node.high_sequence, open_tasks=tuple(node.open), capabilities=can(**caps)
    )
    await fleet.execute(NodeHello(node_id=node.node_id, session_id=session, hello=hello))


async def submitted(fleet: Fleet, asked: Any, **more: Any) -> str:
    job_id: str = (await fleet.execute(submit_job(asked, **more))).job_id
    return job_id


def wrong(directory: Path) -> dict[str, Any]:
    """Every rule of the books that is broken, with what breaks it."""
    db = sqlite3.connect(f"file:{directory / 'control.db'}?mode=ro", uri=True)
    try:
        found = {name: db.execute(query).fetchall() for name, query in WRONG.items()}
    finally:
        db.close()
    return {name: rows for name, rows in found.items() if rows}
