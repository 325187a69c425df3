"""Images into a container engine's own store: containerd by its client, the Docker Engine by its API.

Both get an archive that is an OCI layout of exactly one manifest, and is what `docker save` writes as well. Its
content was verified before; afterwards the store is asked whether it holds that very image.
"""

import asyncio
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hostler.agent.host.execute import Command
from hostler.agent.host.host import Host
from hostler.agent.oci.bundle import layout_files
from hostler.agent.oci.collect import Found
from hostler.agent.oci.room import BLOBS, Room
from hostler.base.clock import Deadline
from hostler.base.digest import canonical_json
from hostler.base.errors import HostlerError, error

ARCHIVE = "image.tar"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Store(Protocol):
    async def present(self, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        """What the store calls the image, "" where it is not there whole."""

    async def load(self, archive: str, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        """The same after loading it. Raises `image_store`."""


def store_of(place: str, host: Host, namespace: str) -> Store:
    if place == "containerd":
        return Containerd(host, host.fetch.containerd_socket, namespace)
    from hostler.agent.oci.docker import Docker  # the HTTP client loads where it is used

    return Docker(host.fetch.docker_socket)


def open_spool(spool: Path) -> int:
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def archive_path(spool: Path, room: Room) -> str:
    return str(spool / room.name / ARCHIVE)


def write_archive(room: Room, found: Found, name: str, stopped: Callable[[], bool]) -> None:
    """`image.tar` in the room. Raises `file_error`, `canceled`."""
    written, linked = layout_files(found, name)
    config, layers = found.manifest.config, found.manifest.layers
    saved = {"Config": f"{BLOBS}/{config.sha256}", "Layers": [f"{BLOBS}/{layer.sha256}" for layer in layers]}
    written["manifest.json"] = canonical_json([saved])
    try:
        fd = os.open(ARCHIVE, _CREATE, 0o600, dir_fd=room.descriptor)
        with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w|") as archive, room.folder(BLOBS) as blobs:
            for path, body in written.items():
                archive.addfile(_entry(path, len(body)), io.BytesIO(body))
            for path, blob in linked.items():
                if stopped():
                    raise error("canceled", "writing the image's archive was stopped")
                source = os.open(blob.sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=blobs)
                with os.fdopen(source, "rb") as content:
                    archive.addfile(_entry(path, blob.size), content)
    except OSError as err:
        raise error("file_error", f"the image's archive cannot be written: {err.strerror}") from err


def _entry(path: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    return entry


class Containerd:
    """By `ctr`, with a fixed argv; names hold no option and no pattern, because a reference cannot."""

    def __init__(self, host: Host, socket: str, namespace: str) -> None:
        self._host = host
        self._base = (host.fetch.ctr, "--address", socket, "--namespace", namespace, "images")

    async def present(self, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        rows = (await self._ctr(("check", f"name=={name}"), deadline, cancelled)).splitlines()
        whole = any(
            fields[:1] == [name] and found.descriptor.digest in fields and "complete" in fields
            for fields in (row.split() for row in rows)
        )
        return name if whole else ""

    async def load(self, archive: str, name: str, found: Found, deadline: Deadline, cancelled: asyncio.Event) -> str:
        await self._ctr(("import", archive), deadline, cancelled)
        if not await self.present(name, found, deadline, cancelled):
            raise error("image_store", f"containerd took the archive and does not hold {name} whole")
        return name

    async def _ctr(self, arguments: tuple[str, ...], deadline: Deadline, cancelled: asyncio.Event) -> str:
        command = Command(argv=(*self._base, *arguments), run_as="root", capture_stdout=True, capture_stderr=True)
        done = await self._host.execute.run(command, deadline=deadline, cancelled=cancelled)
        if done.status or done.signal:
            raise _refused(f"containerd: {done.stderr.strip()[-300:]}")
        return done.stdout


def _refused(why: str) -> HostlerError:
    return error("image_store", f"the image store refused the image; {why}")
