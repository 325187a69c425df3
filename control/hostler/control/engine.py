"""The one write path: command → view → decide → seal → apply → commit → wake.

    execute(command) ─▶ writer thread, one group:  decide (kernel)  ─▶ seal (dispatch) ─▶ apply (store)
                                                   ─▶ COMMIT ─▶ loop: answers, then wakes

Everything a command needs and changes happens between one BEGIN and one COMMIT, in one thread.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
from hostler.base.ids import new_id
from hostler.catalog.manifest import Catalog
from hostler.catalog.policy import policy_digest
from hostler.control.dispatch.build import Shared, build_cancel, build_task, share
from hostler.control.dispatch.sign import seal, seal_checkpoint
from hostler.control.judging import Outside, judged
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.all_commands import Command
from hostler.control.kernel.audit_rows import CheckpointRow
from hostler.control.kernel.commands import ControlStarted, PublishKeyset, RegisterCatalog
from hostler.control.kernel.decide import decide
from hostler.control.kernel.model import Decision, Ids, Settings
from hostler.control.kernel.orders import CheckpointOrder, TaskOrder
from hostler.control.kernel.rows import (
    AttemptRow,
    CatalogRow,
    DefinitionRow,
    EventRow,
    MetaRow,
    OperationRow,
    Row,
    TaskRow,
)
from hostler.control.kernel.trust_rows import KeysetRow
from hostler.control.published import Published
from hostler.control.store.apply import Applier
from hostler.control.store.db import hold, open_writer
from hostler.control.store.reader import Reader
from hostler.control.store.view import StoreView
from hostler.control.store.writer import Done, Writer
from hostler.control.wakes import Wakes
from hostler.pki.keys import Signer
from hostler.pki.keyset import Keyset
from hostler.pki.trust import TrustStore
from hostler.wire.task import Policy

EPOCH, CLUSTER = "control_epoch", "cluster_id"


class News(NamedTuple):
    """What a committed command has to tell."""

    topics: dict[str, int]
    wake: set[str]
    revoked: list[str]
    new_catalog: bool
    new_keyset: bytes = b""
    scheduling: dict[str, str] = {}  # noqa: RUF012 - replaced, never changed
    desired: dict[str, str] = {}  # noqa: RUF012 - as above
    events: Sequence[EventRow] = ()


class SystemIds:
    """Ids and nonces from the system's randomness, drawn a page at a time: each draw gives up the GIL."""

    def __init__(self) -> None:
        self._pool = b""

    def new(self, prefix: str, now_ms: int) -> str:
        return new_id(prefix, now_ms, int.from_bytes(self._draw(10)))

    def nonce(self) -> bytes:
        return self._draw(16)

    def _draw(self, count: int) -> bytes:
        """In the writer thread only; no byte is used twice."""
        if len(self._pool) < count:
            self._pool = secrets.token_bytes(4096)
        drawn, self._pool = self._pool[:count], self._pool[count:]
        return drawn


class Engine:
    """Open it with `open`. `execute` runs on the loop that did; everything else it owns runs in its threads.

    Attributes:
        clock: what it was opened with.
        published: keysets, and what counts under them.
        reader: read-only queries.
        wakes: who is told after a commit.
        outside: a policy engine; None for none, which refuses all that settings want to have asked about.
    """

    def __init__(
        self,
        store_path: Path,
        trust: TrustStore,
        signer: Signer,
        clock: Clock,
        settings: Settings,
        ids: Ids,
        recovering: bool,
        older_keysets: tuple[bytes, ...] = (),
    ) -> None:
        self.published = Published(trust, signer.public.key_id)
        self.published.check_dispatch()
        self.clock = clock
        self._signer = signer
        self._ids = ids
        self._settings = msgspec.structs.replace(settings, policy_digest=policy_digest(settings.policy))
        self._held = hold(store_path)
        try:
            self._db = open_writer(store_path)
        except HostlerError:
            os.close(self._held)
            raise
        self._view = StoreView(self._db)
        try:
            self.published.load(self._db, older_keysets, clock.now_ms())
            self.published.check_dispatch()  # the store may know a newer keyset
            self._epoch = self.published.take_up_epoch(self._stored_epoch(), recovering=recovering)
        except HostlerError:
            self._db.close()
            os.close(self._held)
            raise
        self._applier = Applier(self._db, self._view)
        self._settings = msgspec.structs.replace(self._settings, control_epoch=self._epoch)
        self._cluster_id = ""
        self.outside: Outside | None = None
        self.wakes = Wakes()
        self._watchers: list[Callable[[Sequence[EventRow]], None]] = []
        self.reader = Reader(store_path, clock)
        self._writer = Writer(self._db, self._work, self._applier.flush, self._forget, self._publish)

    @classmethod
    async def open(
        cls,
        *,
        store_path: Path,
        trust: TrustStore,
        dispatch_signer: Signer,
        clock: Clock,
        settings: Settings | None = None,
        ids: Ids | None = None,
        cluster_id: str = "",
        recovering: bool = False,
        older_keysets: tuple[bytes, ...] = (),
    ) -> "Engine":
        """Opens the store, making it if it is absent, and marks every session of the past as ended.

        Args:
            older_keysets: those before the one in `trust` that the keys directory still holds (DSSE JSON).
            recovering: open a store whose epoch is below the keyset's, to execute `RecoverEpoch` on it.

        Raises:
            HostlerError: `store_unavailable`; `untrusted_key` when no node would accept what we sign (P2);
                `controller_rollback` when store and keyset are not of the same epoch (P1).
        """
        engine = cls(
            store_path,
            trust,
            dispatch_signer,
            clock,
            settings or Settings(),
            ids or SystemIds(),
            recovering,
            older_keysets,
        )
        engine._cluster_id = engine._meta(CLUSTER, cluster_id or trust.keyset.trust_domain)
        engine._meta(EPOCH, str(engine.control_epoch))
        await engine.execute(ControlStarted(dispatch_key_id=engine.dispatch_keyid))
        return engine

    @property
    def trust(self) -> TrustStore:
        """The newest keyset."""
        return self.published.trust

    @property
    def control_epoch(self) -> int:
        """Whose tasks are signed now."""
        return self._epoch

    @property
    def policy(self) -> Policy:
        """What holds before any overlay."""
        return self._settings.policy

    @property
    def agents(self) -> AgentSettings:
        """How versions of the agent get to nodes."""
        return self._settings.agents

    async def execute(self, command: Command) -> Any:
        """Runs one command in the next group. Returns when it is on disk.

        Raises:
            HostlerError: the command's refusal, or `store_unavailable`.
        """
        if self.outside is not None:
            return await judged(self.outside, command, self._writer.submit)
        return await self._writer.submit(command)

    @property
    def dispatch_keyid(self) -> str:
        """The key that signs what is sealed now."""
        return self._signer.public.key_id

    def watch(self, watcher: Callable[[Sequence[EventRow]], None]) -> None:
        """Calls it on the loop with the events of every committed command. It must neither wait nor raise."""
        self._watchers.append(watcher)

    async def close(self) -> None:
        """Finishes what was asked for."""
        await self._writer.close()
        await self.reader.close()
        self._db.close()
        os.close(self._held)

    @property
    def health(self) -> str:
        """`ok`, or `store_unavailable` when the last commit failed or the writer has ended (P3)."""
        return "ok" if self._writer.alive else "store_unavailable"

    def _meta(self, name: str, default: str) -> str:
        """A value of the meta table, set to `default` on the first start."""
        self._db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (name, default))
        row = self._view.get(MetaRow, name)
        assert row is not None
        return row.value

    def _stored_epoch(self) -> int | None:
        row = self._view.get(MetaRow, EPOCH)
        return int(row.value) if row else None

    # -- in the writer thread ---------------------------------------------------------------------

    def _work(self, command: Command) -> Done:
        now_ms = self.clock.now_ms()
        opened = self._open(command, now_ms) if isinstance(command, RegisterCatalog | PublishKeyset) else None
        decision = decide(self._view, command, now_ms, self._ids, self._settings, opened)
        if decision.orders:
            self._seal(decision, now_ms)
        topics = self._applier.add(decision)
        keyset = command.keyset if isinstance(command, PublishKeyset) and KeysetRow in decision.inserts else b""
        news = News(
            topics=topics,
            wake=decision.wake,
            revoked=decision.revoked,
            new_catalog=CatalogRow in decision.inserts,
            new_keyset=keyset,
            scheduling=decision.scheduling,
            desired=decision.desired,
            events=decision.events,
        )
        return Done(decision.result, decision.refusal, news)

    def _open(self, command: RegisterCatalog | PublishKeyset, now_ms: int) -> Catalog | Keyset | HostlerError:
        """The catalog or keyset that the bytes prove to be, or why they prove nothing."""
        try:
            if isinstance(command, PublishKeyset):
                return self.published.open_keyset(command.keyset, self._epoch, now_ms)
            return self.published.open_catalog(command, self._view.current_catalog(), now_ms)
        except HostlerError as refusal:
            return refusal

    def _seal(self, decision: Decision, now_ms: int) -> None:
        """Signs what the decision ordered; each task's row learns the digest of its envelope."""
        rows = _Rows(decision, self._view)
        shared: dict[str, Shared] = {}
        epoch = self._epoch
        for order in decision.orders:
            if isinstance(order, CheckpointOrder):
                self._seal_checkpoint(decision, order)
                continue
            task = rows.task(order.task_id)
            if not isinstance(order, TaskOrder):
                operation = rows.get(OperationRow, task.operation_id)
                spec = build_cancel(order, operation, task, epoch)
                decision.envelopes.append(seal(spec, self._signer, now_ms))
                continue
            if task.operation_id not in shared:
                shared[task.operation_id] = self._share(rows.get(OperationRow, task.operation_id))
            attempt = rows.get(AttemptRow, task.attempt_uid)
            envelope = seal(build_task(order, shared[task.operation_id], task, attempt, epoch), self._signer, now_ms)
            decision.envelopes.append(envelope)
            rows.put(msgspec.structs.replace(task, envelope_digest=envelope.digest))

    def _seal_checkpoint(self, decision: Decision, order: CheckpointOrder) -> None:
        sealed = seal_checkpoint(
            order,
            self._signer,
            control_epoch=int(self._epoch),
            trust_domain=self.trust.keyset.trust_domain,
            cluster_id=self._cluster_id,
        )
        decision.inserts.setdefault(CheckpointRow, []).append(sealed)

    def _share(self, operation: OperationRow) -> Shared:
        definition = self._view.get(DefinitionRow, f"{operation.operation_type}@{operation.version}")
        catalog = self._view.current_catalog()
        assert definition is not None
        assert catalog is not None
        return share(operation, definition, catalog)

    def _forget(self) -> None:
        self._view.forget()
        self._applier.reset()

    # -- on the loop ------------------------------------------------------------------------------

    def _publish(self, news: list[News]) -> None:
        topics: dict[str, int] = {}
        nodes: set[str] = set()
        for each in news:
            topics |= each.topics
            nodes |= each.wake
            self.wakes.schedule(each.scheduling)
            self.wakes.desire(each.desired)
        self.wakes.publish(topics, nodes, [node_id for each in news for node_id in each.revoked])
        for each in news:
            if each.new_keyset:
                self.published.take(each.new_keyset, self.clock.now_ms())
        if any(each.new_catalog or each.new_keyset for each in news):
            self.wakes.publish_all_nodes()
        for watcher in self._watchers:
            for each in news:
                watcher(each.events)


class _Rows:
    """Rows as a decision leaves them: its own first, then the stored ones."""

    def __init__(self, decision: Decision, view: StoreView) -> None:
        self._view = view
        self._tasks: dict[str, tuple[list[Row], int]] = {}
        self._others: dict[tuple[type[Row], str], Row] = {}
        for group in (decision.inserts, decision.updates):
            tasks = group.get(TaskRow, [])
            self._tasks |= {row.task_id: (tasks, place) for place, row in enumerate(tasks)}  # type: ignore[attr-defined]
            for type_, name in ((OperationRow, "operation_id"), (AttemptRow, "attempt_uid")):
                self._others |= {(type_, getattr(row, name)): row for row in group.get(type_, [])}

    def task(self, task_id: str) -> TaskRow:
        if task_id not in self._tasks:  # an order about an old attempt leaves its task as it is
            found = self._view.get(TaskRow, task_id)
            assert found is not None
            return found
        held, place = self._tasks[task_id]
        return held[place]  # type: ignore[return-value]  # filed under TaskRow

    def put(self, task: TaskRow) -> None:
        held, place = self._tasks[task.task_id]
        held[place] = task

    def get(self, type_: Any, key: str) -> Any:
        found = self._others.get((type_, key)) or self._view.get(type_, key)
        assert found is not None
        return found
