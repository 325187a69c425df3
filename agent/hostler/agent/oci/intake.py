"""An image from a registry into a container engine's store: gathered and verified in a room, loaded, looked for.

Whoever calls has asked the registry before (`collect.find`), as the very task that wants the image: that it is here
already gives it to nobody (A7).
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hostler.agent.fetch.blob import Owner
from hostler.agent.fetch.stream import Gauge
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.threads import start
from hostler.agent.oci.collect import Bounds, Found, collect
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.room import Room, Taken, sweep, workroom
from hostler.agent.oci.stores import Store, archive_path, open_spool, write_archive

_TAKEN_S = 0.2
_KEPT_S = 86_400.0  # what a try has gathered, for the next one


@dataclass(frozen=True)
class Loaded:
    """`image` is what the store calls it; `changed` is False where it was there whole."""

    image: str
    transferred: int
    changed: bool


@dataclass(frozen=True)
class Intake:
    """
    Attributes:
        spool: private directory with room for the image twice, as the registry holds it and as an archive.
        allowed: whether a URL may be asked; each redirect is put to it.
    """

    store: Store
    spool: Path
    owner: Owner
    bounds: Bounds
    allowed: Callable[[str], bool]

    async def bring(self, registry: Registry, found: Found) -> Loaded:
        """Where several tasks want the same image at once, one brings it and the others wait for that.

        Raises:
            HostlerError: `image_store`, `disk_full`, `file_error`, `canceled`, `timeout`, and what ends a transfer.
        """
        name = registry.reference.at(found.descriptor.digest)
        if image := await self._present(name, found):
            return Loaded(image, 0, changed=False)
        watch = Watch(self.owner.deadline, self.owner.cancelled, self.owner.settings, Gauge())
        spool = open_spool(self.spool)
        waited = False
        try:
            before_s = self.owner.clock.now_ms() / 1000 - _KEPT_S
            await watch.worker(start(lambda: sweep(spool, before_s), "oci-sweep"), None)
            while True:
                try:
                    with workroom(spool, "store", found.descriptor.digest) as room:
                        if waited and (image := await self._present(name, found)):
                            room.discard()
                            return Loaded(image, 0, changed=False)
                        return await self._load_or_leave(registry, found, name, room)
                except Taken:
                    waited = True
                await watch.pause(_TAKEN_S)
        finally:
            os.close(spool)

    async def _load_or_leave(self, registry: Registry, found: Found, name: str, room: Room) -> Loaded:
        """An agent that stops leaves what it has to the next one; a task that was cancelled has no next try."""
        try:
            return await self._load(registry, found, name, room)
        except asyncio.CancelledError:
            if self.owner.cancelled.is_set():
                room.discard()
            raise

    async def _load(self, registry: Registry, found: Found, name: str, room: Room) -> Loaded:
        owner, reserve = self.owner, self.bounds.reserve
        watch = Watch(owner.deadline, owner.cancelled, owner.settings, Gauge())
        transferred = await collect(registry, found, room, owner, self.bounds, self.allowed)
        room.free(reserve, found.size)
        writing = start(lambda: write_archive(room, found, name, lambda: watch.stopped), "oci")
        await watch.worker(writing, None)
        archive = archive_path(self.spool, room)
        image = await self.store.load(archive, name, found, owner.deadline, owner.cancelled)
        await watch.worker(start(room.discard, "oci"), None)
        return Loaded(image, transferred, changed=True)

    async def _present(self, name: str, found: Found) -> str:
        return await self.store.present(name, found, self.owner.deadline, self.owner.cancelled)
