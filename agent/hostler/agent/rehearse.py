"""`hostler-agent try`: one profile, against a scratch root, through the real admission, journal, resolver and runner.

Nothing here judges or runs anything by itself: it makes the trust that a task needs, sends the task, and tells.
"""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hostler.agent import capabilities
from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted, Refusal
from hostler.agent.admission.view import AdmissionView
from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.provision import ENROLMENT, STARTS_WITH
from hostler.agent.rehearse_scope import check_scope
from hostler.agent.rehearse_tell import Teller
from hostler.agent.rehearse_trust import DOMAIN, NODE, Trust, make_catalog, make_task, make_trust, read_linted
from hostler.agent.resolver.resolver import Active, Resolver
from hostler.agent.runner.runner import Runner
from hostler.base.clock import Clock, SystemClock
from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.catalog.definition import Definition
from hostler.catalog.inputs import check_inputs, with_defaults
from hostler.catalog.manifest import Catalog
from hostler.wire.task import TaskMode

MAX_INPUTS = 1_048_576


class Rehearsal(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for.

    Attributes:
        root: what stands before every path the task names; None for one that is made and removed again.
        plan: only plan; nothing is applied.
        allow_host: steps that reach beyond the root may run.
        more: capabilities that stand over what is found on this machine.
    """

    profiles: Path
    ref: str
    inputs: dict[str, Any]
    root: Path | None = None
    plan: bool = False
    allow_host: bool = False
    more: Mapping[str, str] = {}


def read_inputs(path: str) -> dict[str, Any]:
    """A JSON object, at most a mebibyte; `-` is standard input, "" no inputs.

    Raises:
        HostlerError: `invalid_request`, `file_error`.
    """
    if not path:
        return {}
    try:
        with contextlib.ExitStack() as stack:
            file = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
            data = file.read(MAX_INPUTS + 1)
    except OSError as err:
        raise error("file_error", f"{path} cannot be read: {err.strerror}") from err
    if len(data) > MAX_INPUTS:
        raise error("invalid_request", f"{path} is larger than {MAX_INPUTS} bytes")
    return decode_json(data, dict[str, Any], what="inputs")


async def rehearse(wanted: Rehearsal, tell: Callable[[str], None]) -> Teller:
    """Plans, and unless told otherwise runs. `tell` gets lines for people as things happen.

    Raises:
        HostlerError: what keeps it from starting: `invalid_definition`, `input_schema`, `beyond_scratch_root`.
    """
    definition, profiles = read_linted(wanted.profiles, wanted.ref)
    tell(f"linted      {definition.ref}: {len(definition.steps)} steps, in order")
    if definition.backend_type != "node_agent":
        raise error("backend_not_implemented", f"{definition.ref} is for a {definition.backend_type}, not for an agent")
    check_inputs(definition.inputs, wanted.inputs)
    if not wanted.allow_host:
        check_scope(definition, with_defaults(definition.inputs, wanted.inputs))
    clock = SystemClock()
    trust = make_trust(clock.now_ms())
    catalog = make_catalog(trust, definition, profiles, clock.now_ms())
    with tempfile.TemporaryDirectory(prefix="hostler-try-") as scratch:
        root = _root(wanted.root, Path(scratch))
        tell(f"root        {root}{'' if wanted.root else ', removed at the end'}")
        async with _node(Path(scratch), root, trust, catalog, wanted.more, tell, clock) as node:
            with node.ended_by_signals():
                await node.both(definition, wanted)
            return node.teller


class _Node:
    """One agent's core, as the daemon builds it, without a control plane."""

    def __init__(self, journal: Journal, runner: Runner, view: Callable[[], AdmissionView], trust: Trust) -> None:
        self._journal, self._runner, self._view, self._trust = journal, runner, view, trust
        self._cancelled = asyncio.Event()
        self._clock: Clock = SystemClock()
        self.teller: Teller

    async def both(self, definition: Definition, wanted: Rehearsal) -> None:
        """The plan, as a task of its own; then the task."""
        planned = await self._send(wanted.inputs, TaskMode.PLAN, 1)
        if wanted.plan or planned.status == "refused" or self._cancelled.is_set():
            return
        if planned.error_code:
            self.teller.say("  it cannot be planned as a whole; each step is planned when its turn comes")
        approved = planned.plan_digest if definition.require_plan_approval else ""
        await self._send(wanted.inputs, TaskMode.APPLY, 2, approved)

    async def _send(self, inputs: Mapping[str, Any], mode: TaskMode, sequence: int, approved: str = "") -> Any:
        view, now_ms = self._view(), self._clock.now_ms()
        assert view.catalog is not None
        envelope = make_task(self._trust, view.catalog, inputs, mode, sequence, now_ms, approved)
        self.teller.begin(mode)
        verdict = admit(envelope, view, now_ms)
        if isinstance(verdict, Admitted):
            self.teller.say("admitted    by every gate")
            await self._journal.accept(verdict)
            await self._runner.run(verdict, self._cancelled)
        elif isinstance(verdict, Refusal):
            await self._journal.refuse(verdict)
        else:  # nothing was sent before that it could be taken for
            raise error("internal_error", "a task was taken for another one")
        return await self.teller.ended()

    @contextlib.contextmanager
    def ended_by_signals(self) -> Any:
        """Ctrl-C and SIGTERM cancel the task, as an order from the control plane would."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._cancelled.set)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


@asynccontextmanager
async def _node(
    scratch: Path,
    root: Path,
    trust: Trust,
    catalog: Catalog,
    more: Mapping[str, str],
    tell: Callable[[str], None],
    clock: Clock,
) -> AsyncIterator[_Node]:
    here = {**capabilities.detect(Path("/")), **more}
    journal = await Journal.open(scratch / "journal.db", clock)
    host = Host(root=root, clock=clock, spool=scratch / "spool")
    teller = Teller(journal, trust.node.public, NODE, tell)
    try:
        resolver = Resolver(scratch / "resolver", journal, lambda: catalog, lambda: here)
        await journal.save_catalog(catalog.manifest_envelope, catalog.documents)
        if digest := catalog.manifest.resolvers.get(STARTS_WITH):
            await resolver.apply(Active(config=STARTS_WITH, version=1, digest=digest, origin=ENROLMENT))

        def view() -> AdmissionView:
            return AdmissionView(
                node_id=NODE, thumbprint=trust.node.public.key_id, trust=trust.store, catalog=catalog,
                capabilities=here, high_sequence=journal.high_sequence, control_epoch=max(1, journal.control_epoch),
                held=journal.held, known=journal.known, storage=journal.storage,
            )  # fmt: skip

        runner = Runner(
            journal=journal, host=host, signer=trust.node, node_id=NODE, trust_domain=DOMAIN, clock=clock,
            progress=teller.progress, trust=lambda: trust.store, authority=view().authority, resolver=resolver,
        )  # fmt: skip
        node = _Node(journal, runner, view, trust)
        node.teller = teller
        async with teller.listening():
            yield node
    finally:
        await host.close()
        await journal.close()


def _root(given: Path | None, scratch: Path) -> Path:
    """Raises `invalid_config` for what is no directory, or is the machine itself."""
    root = scratch / "root" if given is None else given.resolve()
    if given is None:
        root.mkdir()
    if root == Path("/"):
        raise error("invalid_config", "the root of a rehearsal is a scratch directory, not the machine's own root")
    if not root.is_dir():
        raise error("invalid_config", f"{root} is no directory", hint="make it first, or leave --root out")
    return root
