"""What running containers need of this node, put together: runtimes, ports, devices, scratch, and the sweep.

Loop `NodeWorkloads.run`: clears away what ended attempts left, and stops containers that carry this node's label and
belong to no open attempt. Those of an attempt that the journal knows to have ended go at once. Those that it does not
know, because it was lost, go only after the control plane has been heard for a while: it sends what it still wants
again, and that adopts them (K3, EF-09). While it is silent, nothing is stopped.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from hostler.agent.containers import spec
from hostler.agent.containers.device_book import DeviceBook
from hostler.agent.containers.device_book import found as found_devices
from hostler.agent.containers.ports import PortBook, ports_in
from hostler.agent.containers.present import present_runtimes
from hostler.agent.containers.runtime import ContainerRuntime, Found
from hostler.agent.containers.settings import LOG_DIR, ContainerSettings
from hostler.agent.containers.workload import Bundles, TaskServer
from hostler.agent.host import removal
from hostler.agent.host.files import write_error
from hostler.agent.journal.journal import Journal
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.wire.report import LogLine

_log = get_logger("hostler.agent.workloads")
SWEEP_S, RETRY_S, STOP_GRACE_S, LOOK_S = 60.0, 5.0, 10.0, 5.0


class NodeWorkloads:
    """See `containers.workload.Workloads`.

    Args:
        state: scratch of running attempts.
        kept: paths of this node's own that no container may mount, besides those of the runtimes.
        runtimes: those that could be used here, by name, the preferred one first.
        silent: seconds since the control plane was known to be there.
        heard_for: seconds for which it has been there without a break.
        present: names of the runtimes that answer where they should; by their sockets unless a test says so.
    """

    def __init__(
        self,
        *,
        settings: ContainerSettings,
        state: Path,
        kept: tuple[str, ...],
        root: Path,
        node_id: str,
        runtimes: Mapping[str, ContainerRuntime],
        tasks: TaskServer,
        bundles: Bundles,
        journal: Journal,
        clock: Clock,
        silent: Callable[[], float],
        heard_for: Callable[[], float],
        present: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self.settings, self.node_id = settings, node_id
        self.node_address = settings.node_address or own_address()
        self.ports = PortBook(*settings.port_range)
        self.devices = DeviceBook(lambda: found_devices(root))
        self.tasks, self.bundles = tasks, bundles
        self.lost_devices: dict[str, set[str]] = {}
        self._state = state
        self._present = present or (lambda: present_runtimes(root, settings))
        own = (*kept, str(state), settings.containerd_socket, settings.docker_socket, settings.log_dir or LOG_DIR)
        self.kept_paths = tuple(dict.fromkeys(path for path in own if path))
        self._runtimes = dict(runtimes)
        self._journal, self._clock = journal, clock
        self._silent, self._heard_for = silent, heard_for
        self._looked: set[str] = set()
        self._begun_in: dict[str, str] = {}  # attempt → runtime: its silence is no proof that nothing of it is there
        self._left: set[str] = set()  # attempts whose end is durable, and of which something may be here
        self._wake = asyncio.Event()

    # -- for steps ----------------------------------------------------------------------------

    def runtime(self, name: str = "") -> ContainerRuntime:
        """Raises `runtime_unavailable`."""
        if name:
            found = self._runtimes.get(name)
        else:
            present = self._present()
            found = next((each for each in self._runtimes.values() if each.name in present), None)
        if found is None:
            what = f"the runtime {name}" if name else "no container runtime"
            raise error("runtime_unavailable", f"this node has {'not ' if name else ''}{what}")
        return found

    def runtimes(self) -> tuple[ContainerRuntime, ...]:
        return self._named(self._present())

    def _named(self, names: Collection[str]) -> tuple[ContainerRuntime, ...]:
        return tuple(each for each in self._runtimes.values() if each.name in names)

    async def look(self, runtime: ContainerRuntime) -> None:
        if runtime.name in self._looked:
            return
        for one in await runtime.list({spec.NODE: self.node_id}):
            self._hold(runtime, one)
        self._looked.add(runtime.name)

    def pids(self) -> frozenset[int]:
        """Children of this process that belong to a runtime and outlive it: no leftovers of a helper."""
        asked = (getattr(each, "pids", frozenset) for each in self._runtimes.values())
        return frozenset[int]().union(*(pids() for pids in asked))

    def begun(self, attempt_uid: str, runtime: ContainerRuntime) -> None:
        self._begun_in[attempt_uid] = runtime.name

    def scratch(self, attempt_uid: str) -> Path:
        """Its parent lets nobody else of this node in, so a set-user-id file that a task leaves there is of no use.

        Raises `disk_full`, `file_error`.
        """
        folder = self._state / "scratch" / attempt_uid
        try:
            for made, mode in ((folder.parent, 0o711), (folder, 0o1777)):
                made.mkdir(parents=True, exist_ok=True)
                made.chmod(mode)
            folder.parent.parent.chmod(0o700)
        except OSError as err:
            raise write_error(f"the scratch of {attempt_uid}", err) from err
        return folder

    def device_lost(self, attempt_uid: str, node: str) -> None:
        _log.error("device.lost", attempt_uid=attempt_uid, device=node)
        self.lost_devices.setdefault(attempt_uid, set()).add(node)

    def silent_seconds(self) -> float:
        return self._silent()

    def ended(self, attempt_uid: str) -> None:
        self._left.add(attempt_uid)
        self._wake.set()

    async def close(self) -> None:
        """Lets go of the runtimes; what runs in them goes on."""
        for each in self._runtimes.values():
            if (close := getattr(each, "close", None)) is not None:
                await close()

    # -- the loop -----------------------------------------------------------------------------

    async def recover(self) -> None:
        """Before anything new is placed: ports and devices of what outlived the last agent (TE-21)."""
        for runtime in self.runtimes():
            with contextlib.suppress(TimeoutError):
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self.look(runtime)
                except HostlerError as err:  # whoever uses it waits until it was looked at
                    _log.warning("containers.not_listed", error=err, runtime=runtime.name)

    async def run(self) -> None:
        next_sweep, heard_before = 0.0, False
        while True:
            self._wake.clear()
            failed = not await self._clear_left()
            heard = self._was_heard()
            if self._clock.monotonic() >= next_sweep or (heard and not heard_before):
                failed |= not await self.sweep()
                next_sweep, heard_before = self._clock.monotonic() + SWEEP_S, heard
            waits = bool(self._runtimes) and not heard and self._heard_for() > 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if failed or waits else SWEEP_S):
                    await self._wake.wait()

    def _was_heard(self) -> bool:
        """Whether the control plane has had the time to send again what it still wants."""
        return 0 < self._heard_for() >= self.settings.orphan_grace_seconds

    async def _clear_left(self) -> bool:
        """Whether all of it is gone."""
        for uid in tuple(self._left):
            if await self.clear(uid):
                self._left.discard(uid)
        return not self._left

    async def clear(self, attempt_uid: str) -> bool:
        """Containers, scratch, ports and devices of an attempt; whether nothing of it is left (RN-11)."""
        gone = True
        for runtime in self._named({*self._present(), self._begun_in.get(attempt_uid, "")}):
            try:
                for one in await runtime.list({spec.ATTEMPT: attempt_uid, spec.NODE: self.node_id}):
                    await self._remove(runtime, one)
            except HostlerError as err:
                _log.warning("container.not_removed", error=err, runtime=runtime.name, attempt_uid=attempt_uid)
                gone = False
        if gone:
            self.tasks.discard(attempt_uid)
            await self.bundles.release(attempt_uid)
            self.ports.free(attempt_uid)
            self.devices.free(attempt_uid)
            self.lost_devices.pop(attempt_uid, None)
            self._begun_in.pop(attempt_uid, None)
            gone = await self._scratch_is_gone(attempt_uid)
        return gone

    async def _scratch_is_gone(self, attempt_uid: str) -> bool:
        """Nothing runs any more that could write to it."""
        try:
            await asyncio.to_thread(removal.remove, self._state / "scratch" / attempt_uid)
        except HostlerError as err:
            _log.warning("scratch.not_removed", error=err, attempt_uid=attempt_uid)
            return False
        return True

    async def sweep(self) -> bool:
        """Looks at every container of this node; whether that could be done."""
        done = True
        for runtime in self.runtimes():
            try:
                found = await runtime.list({spec.NODE: self.node_id})
            except HostlerError as err:
                _log.warning("containers.not_swept", error=err, runtime=runtime.name)
                done = False
                continue
            for one in filter(self._is_orphan, found):
                try:
                    await self._stop_orphan(runtime, one)
                except HostlerError as err:  # the others go all the same
                    _log.warning("container.not_removed", error=err, runtime=runtime.name, container=one.name)
                    done = False
        return await self._sweep_scratch() and done

    async def _sweep_scratch(self) -> bool:
        """Of attempts that nobody knows, or whose clearing was cut off: while it is there, not all of it is gone."""
        left = {path.name for path in (self._state / "scratch").glob("*")} if self._was_heard() else set()
        left -= self._journal.open_attempts()  # after the look: whose is made meanwhile belongs to an open task
        return all([await self.clear(uid) for uid in left])

    def _is_orphan(self, one: Found) -> bool:
        known = self._journal.known(one.labels.get(spec.TASK, ""))
        if known is not None:
            return not (known.open and known.attempt_uid == one.labels.get(spec.ATTEMPT, ""))
        return self._was_heard()

    async def _stop_orphan(self, runtime: ContainerRuntime, one: Found) -> None:
        uid = one.labels.get(spec.ATTEMPT, "")
        await self._remove(runtime, one)
        if uid:
            await self.clear(uid)
        message = f"container {one.name} belonged to no open task of this node; it was stopped and removed"
        _log.warning("container.orphan_removed", container=one.name, attempt_uid=uid, runtime=runtime.name)
        if task_id := one.labels.get(spec.TASK, ""):
            step_id = one.labels.get(spec.STEP, "")
            now = self._clock.now_ms()
            line = LogLine(
                task_id=task_id, attempt_uid=uid, step_id=step_id, step_index=0, stream="agent", text=message, at_ms=now
            )
            self._journal.append_logs([line])

    async def _remove(self, runtime: ContainerRuntime, one: Found) -> None:
        await runtime.stop(one.id, STOP_GRACE_S)
        await runtime.remove(one.id)

    def _hold(self, runtime: ContainerRuntime, one: Found) -> None:
        uid = one.labels.get(spec.ATTEMPT, "")
        if uid:
            self.begun(uid, runtime)
            self.ports.hold(uid, ports_in(one.labels.get(spec.PORTS, "")))
            self.devices.hold(uid, one.labels.get(spec.DEVICES, ""))


def own_address() -> str:
    """Under which this node leaves through its default route; "" without one. Nothing is sent."""
    for family, anywhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.connect((anywhere, 9))
            return str(probe.getsockname()[0])
    return ""
