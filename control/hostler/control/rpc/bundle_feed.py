"""The code bundle of a job to the node that runs a task of it, from any offset on (JB-08)."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

from hostler.base.errors import error
from hostler.control.bundles.files import BundleFiles, Key
from hostler.control.engine import Engine
from hostler.control.kernel.actor import Actor
from hostler.control.kernel.bundle_commands import BundleGrant, UseBundle
from hostler.control.rpc.identity import Identities
from hostler.pki.x509 import PeerIdentity
from hostler.v1 import node_pb2

CHUNK_BYTES = 256 * 1024
MOST_AT_ONCE = 8  # of one node
_LOOK_AGAIN_BYTES = 16 << 20


class BundleFeed:
    """Every byte is read by the node's own right: the grant is asked for again now and then, as is the certificate."""

    def __init__(self, engine: Engine, identities: Identities, files: BundleFiles) -> None:
        self._engine = engine
        self._identities = identities
        self._files = files
        self._open: Counter[str] = Counter()

    async def chunks(
        self, peer: PeerIdentity, request: node_pb2.FetchBundleRequest
    ) -> AsyncGenerator[node_pb2.BundleChunk, None]:
        """Raises `bundle_not_bound`, `bundle_missing`, `bad_range`, `rate_limited`, `revoked`."""
        if self._open[peer.name] >= MOST_AT_ONCE:
            raise error("rate_limited", f"node {peer.name} fetches {MOST_AT_ONCE} bundles at once already")
        self._open[peer.name] += 1
        try:
            async with contextlib.aclosing(self._chunks(peer, request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self._open -= Counter([peer.name])

    async def _chunks(
        self, peer: PeerIdentity, request: node_pb2.FetchBundleRequest
    ) -> AsyncGenerator[node_pb2.BundleChunk, None]:
        grant = await self._grant(peer, request)
        if request.offset > grant.size_bytes:
            raise error("invalid_request", f"the bundle has {grant.size_bytes} bytes, and none at {request.offset}")
        path = self._files.path(Key(grant.org_id, grant.project_id, request.sha256))
        descriptor = await asyncio.to_thread(_opened, path, grant.size_bytes)
        try:
            offset, looked = request.offset, request.offset
            while offset < grant.size_bytes:
                if offset - looked >= _LOOK_AGAIN_BYTES:
                    await self._look_again(peer, request)
                    looked = offset
                size = min(CHUNK_BYTES, grant.size_bytes - offset)
                data = await asyncio.to_thread(os.pread, descriptor, size, offset)
                if not data:
                    raise error("bundle_missing", f"bundle {request.sha256} is cut off here")
                yield node_pb2.BundleChunk(offset=offset, total=grant.size_bytes, data=data)
                offset += len(data)
        finally:
            os.close(descriptor)

    async def _look_again(self, peer: PeerIdentity, request: node_pb2.FetchBundleRequest) -> None:
        await self._identities.check(peer)
        await self._grant(peer, request)

    async def _grant(self, peer: PeerIdentity, request: node_pb2.FetchBundleRequest) -> BundleGrant:
        grant: BundleGrant = await self._engine.execute(
            UseBundle(
                actor=Actor(kind="node", name=peer.name),
                node_id=peer.name,
                task_id=request.task_id,
                attempt_uid=request.attempt_uid,
                sha256=request.sha256,
            )
        )
        return grant


def _opened(path: Path, size: int) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as err:
        raise error("bundle_missing", f"the bytes of bundle {path.name} are gone", hint="send it again") from err
    if os.fstat(descriptor).st_size != size:
        os.close(descriptor)
        raise error("bundle_missing", f"the bytes of bundle {path.name} are not whole", hint="send it again")
    return descriptor
