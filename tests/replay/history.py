"""A long life of a control plane from a seed: what people ask for, what nodes say, and what goes wrong."""

import random
from collections.abc import Awaitable, Callable

from replay.recording import RecordedFleet

from hostler.base.errors import HostlerError
from hostler.catalog.policy import PolicyOverlay
from hostler.control.kernel.commands import (
    CancelOperation,
    ExpireTasks,
    GrownChain,
    MakeCheckpoint,
    NodeStatus,
    PutPolicy,
    RetryOperation,
    RevokeNode,
)
from hostler.control.kernel.job_commands import CancelJob
from hostler.wire.report import TaskStatus
from hostler.wire.task import TaskSpec
from support.builders import definition, render_step
from support.control import ADMIN, USER, FakeNode, enrolment, submit, task_report, token
from support.job_fleet import connect
from support.jobs import job_definitions, spec, submit_job

NODES, STEPS = 12, 5
CHANCES = (  # how often each thing happens, per hundred turns
    ("ask", 25),
    ("job", 5),
    ("serve", 44),
    ("cancel", 6),
    ("retry", 6),
    ("lose", 5),
    ("wait", 4),
    ("policy", 2),
    ("status", 2),
    ("replace", 1),
)


class Life:
    """One story. Everything is drawn from `seed` but the ids, which the control plane draws by itself."""

    def __init__(self, fleet: RecordedFleet, seed: int) -> None:
        self.fleet, self.random = fleet, random.Random(seed)
        self.here: list[FakeNode] = []
        self.away: list[FakeNode] = []
        self.operations: list[str] = []
        self._sessions: dict[str, str] = {}
        self._opened, self._names, self._keys, self._checkpoints = 0, 0, 0, 0

    async def go_on(self, turns: int) -> None:
        """Everything that happens in a number of turns; a refusal is part of it."""
        names, weights = zip(*CHANCES, strict=True)
        for _ in range(turns):
            self.fleet.clock.move(self.random.randrange(1, 4000))
            act: Callable[[], Awaitable[None]] = getattr(self, f"_{self.random.choices(names, weights)[0]}")
            try:
                await act()
            except HostlerError:
                continue

    async def begin(self) -> None:
        steps = definition(*(render_step(f"s{n}", path=f"/srv/app/{n}") for n in range(STEPS)))
        await self.fleet.publish(steps, *job_definitions())
        for _ in range(NODES):
            await self._enrol()

    async def _enrol(self) -> None:
        self._names += 1
        name, token_id = f"gpu-{self._names}", f"life{self._names}"
        later = self.fleet.clock.now + 60_000
        await self.fleet.execute(token(token_id, name, expires_at_ms=later))
        made = await self.fleet.execute(enrolment(token_id, f"spki of {name}".encode()))
        await self._connect(FakeNode(made.node_id, name, b""))

    async def _connect(self, node: FakeNode) -> None:
        self._opened += 1
        self._sessions[node.node_id] = session = f"s{self._opened}"
        await connect(self.fleet, node, session, cpu=2000)
        self.here.append(node)

    async def _ask(self) -> None:
        """A few targets, now and then one that is away, now and then the same request again."""
        self._keys += 1
        count = self.random.randrange(2, 9)
        targets = self.random.sample(self.here + self.away, count)
        command = submit(*targets, idempotency_key=f"life-{self._keys}")
        made = await self.fleet.execute(command)
        self.operations = [*self.operations[-60:], made.operation_id]
        if self.random.random() < 0.1:
            await self.fleet.execute(command)

    async def _job(self) -> None:
        """Of every sort; now and then one ends with all below it."""
        self._keys += 1
        draw = self.random.random
        said = {
            "replicas": self.random.randrange(1, 5),
            "priority": self.random.choice(("low", "normal", "critical")),
            "relocatable": draw() < 0.5,
            "retries": {"failure": self.random.randrange(3)},
            "existing": self.random.choice(("keep", "replace")),
        }
        if draw() < 0.3:
            said["gang"] = {}
        asked = submit_job(spec(f"j{self.random.randrange(9)}", **said), idempotency_key=f"life-job-{self._keys}")
        made = await self.fleet.execute(asked)
        self.operations = [*self.operations[-60:], made.job_id]
        if draw() < 0.1:
            chosen = self.random.choice(self.operations)
            await self.fleet.execute(CancelJob(actor=USER, project_id="train", job_id=chosen))

    async def _serve(self) -> None:
        """A node takes what is due and runs it: well, badly, in part, or to its cancellation."""
        node = self.random.choice(self.here)
        await self.fleet.take(node)
        for cancel in node.cancels:
            spec = node.open.pop(cancel.task_id, None)
            if spec is not None:
                await self.fleet.report(node, task_report(spec, TaskStatus.CANCELED, error_code="canceled"))
        node.cancels.clear()
        for spec in list(node.open.values()):
            await self._run(node, spec)

    async def _run(self, node: FakeNode, spec: TaskSpec) -> None:
        luck = self.random.random()
        if luck < 0.15:  # begins, and is interrupted
            await self.fleet.report(node, *self.fleet.story(node, spec)[:2])
        else:
            await self.fleet.run(node, spec, fail_at=self.random.randrange(len(spec.steps)) if luck < 0.35 else -1)

    async def _cancel(self) -> None:
        chosen = self.random.choice(self.operations)
        await self.fleet.execute(CancelOperation(actor=USER, project_id="train", operation_id=chosen))

    async def _retry(self) -> None:
        chosen = self.random.choice(self.operations)
        await self.fleet.execute(RetryOperation(actor=USER, project_id="train", operation_id=chosen))

    async def _lose(self) -> None:
        """A session ends, or one that ended comes back."""
        if self.away and (len(self.here) < NODES // 2 or self.random.random() < 0.6):
            await self._connect(self.away.pop(self.random.randrange(len(self.away))))
            return
        node = self.here.pop(self.random.randrange(len(self.here)))
        self.away.append(node)
        await self.fleet.lose(node, self._sessions[node.node_id])

    async def _wait(self) -> None:
        """Minutes to a day: windows pass, tasks that nobody took end."""
        self.fleet.clock.move(self.random.choice((700_000, 3_600_000, 90_000_000)))
        await self.fleet.execute(ExpireTasks())
        heads = tuple(GrownChain(node.node_id, node.chain + 1, "a" * 64) for node in self.here if node.chain >= 0)
        made = MakeCheckpoint(index=self._checkpoints, heads=heads, root="b" * 64, nodes=len(heads), receipts=1)
        self._checkpoints = await self.fleet.execute(made) + 1

    async def _policy(self) -> None:
        scope, scope_id = self.random.choice((("global", ""), ("tenant", "acme"), ("project", "train")))
        overlay = PolicyOverlay(max_concurrency=self.random.choice((None, 2, 3, 8)))
        put = PutPolicy(actor=ADMIN, scope=scope, scope_id=scope_id, org_id="acme", operation_type="*", overlay=overlay)
        await self.fleet.execute(put)

    async def _status(self) -> None:
        node = self.random.choice(self.here)
        hold = self.random.choice(("", "", "keyset_expired"))
        said = NodeStatus(node_id=node.node_id, keyset_version=1, catalog_version=1, storage="ok", hold=hold, drift="")
        await self.fleet.execute(said)

    async def _replace(self) -> None:
        """A node is revoked for ever, and a new one comes."""
        node = self.here.pop(self.random.randrange(len(self.here)))
        await self.fleet.execute(RevokeNode(actor=ADMIN, node_id=node.node_id))
        await self._enrol()
