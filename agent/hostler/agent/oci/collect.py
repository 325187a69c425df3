"""From a reference to verified blobs in a room: each by digest and size on the way, each resumed where it stood."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from hostler.agent.fetch.blob import Owner, Wanted, pull
from hostler.agent.fetch.stream import Gauge
from hostler.agent.fetch.watch import Watch
from hostler.agent.host.threads import start
from hostler.agent.oci.manifest import ACCEPT, MAX_BYTES, Descriptor, Index, Manifest, choose, parse
from hostler.agent.oci.registry import Registry
from hostler.agent.oci.room import BLOBS, Room
from hostler.agent.oci.tree import hash_file
from hostler.base.errors import error

BLOB_MODE = 0o644


@dataclass(frozen=True)
class Found:
    """What a reference turned out to be.

    Attributes:
        descriptor: of the manifest that was chosen; the reference's own unless that was an index.
        body: the manifest, byte by byte.
    """

    descriptor: Descriptor
    manifest: Manifest
    body: bytes

    @property
    def size(self) -> int:
        return sum(blob.size for blob in self.manifest.blobs)


async def find(registry: Registry, platform: str) -> Found:
    """Asks the registry, whatever is here already: whoever may not pull it may not be told that it is here (A7).

    Raises:
        HostlerError: `digest_mismatch`, `bad_response`, `incompatible`, `source_denied`, `source_unreachable`.
    """
    digest = registry.reference.digest
    body, found, media_type = await _ask(registry, digest)
    if isinstance(found, Index):
        one = choose(found, platform)
        body, found, media_type = await _ask(registry, one.digest)
        if isinstance(found, Index):
            raise error("bad_response", f"the index {digest} names another index where a manifest belongs")
        digest = one.digest
    return Found(Descriptor(media_type, digest, len(body)), found, body)


async def _ask(registry: Registry, digest: str) -> tuple[bytes, Manifest | Index, str]:
    got = await registry.document(digest, ACCEPT, MAX_BYTES)
    content_type = got.answer.get("content-type")
    found = parse(got.body, digest, content_type)
    return got.body, found, found.media_type or content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of a whole artifact: bytes, 0 for no limit; bytes a second, 0 for no limit."""

    most: int
    most_per_s: int
    retries: int
    reserve: int


def refuse_excess(found: Found, bounds: Bounds) -> None:
    """Raises `too_large` before anything is fetched; each blob is held to its stated size later."""
    refuse_excess_of(found.size, bounds.most)


def refuse_excess_of(size: int, most: int) -> None:
    if most and size > most:
        raise error("too_large", f"the artifact has {size} bytes, {most} are allowed")


async def collect(
    registry: Registry, found: Found, room: Room, owner: Owner, bounds: Bounds, allowed: Callable[[str], bool]
) -> int:
    """Every blob of the manifest, verified, under its digest; returns how many bytes went over the network."""
    done = transferred = 0
    with room.folder(BLOBS) as folder:
        missing = await _missing(folder, found, owner)
        room.free(bounds.reserve, sum(blob.size for blob in missing))
        done = found.size - sum(blob.size for blob in missing)
        for blob in missing:
            wanted = Wanted(
                url=registry.blob_url(blob.digest),
                sha256=blob.sha256,
                directory=folder,
                name=blob.sha256,
                mode=BLOB_MODE,
                size=blob.size,
                most=blob.size or 1,
                retries=bounds.retries,
                allowed=allowed,
                headers=registry.headers,
                challenged=registry.challenged,
                most_per_s=bounds.most_per_s,
            )
            pulled = await pull(wanted, _for_one(owner, blob, done, found.size))
            done += pulled.size_bytes
            transferred += pulled.bytes_transferred
    return transferred


async def _missing(folder: int, found: Found, owner: Owner) -> list[Descriptor]:
    """What an earlier try has left is hashed again before it counts."""
    watch = Watch(owner.deadline, owner.cancelled, owner.settings, Gauge())

    def work() -> list[Descriptor]:
        return [blob for blob in found.manifest.blobs if not _is_here(folder, blob, lambda: watch.stopped)]

    return await watch.worker(start(work, "oci-look"), None)


def _is_here(folder: int, blob: Descriptor, stopped: Callable[[], bool]) -> bool:
    try:
        if os.stat(blob.sha256, dir_fd=folder, follow_symlinks=False).st_size != blob.size:
            return False
        return hash_file(folder, blob.sha256, stopped) == (blob.size, blob.sha256)
    except OSError:
        return False


def _for_one(owner: Owner, blob: Descriptor, before: int, total: int) -> Owner:
    """The step's checkpoint is that of the blob on its way; progress is that of the whole."""
    save: Callable[[dict[str, Any]], Awaitable[None]] = owner.save

    async def save_one(state: dict[str, Any]) -> None:
        await save({"blob": blob.digest, "state": state})

    saved = owner.saved.get("state", {}) if owner.saved.get("blob") == blob.digest else {}
    return replace(
        owner,
        saved=saved if isinstance(saved, dict) else {},
        save=save_one,
        progress=lambda done, _: owner.progress(before + done, total),
    )
