"""Pieces of a job's code bundle from the control plane, through the network process."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from hostler.agent.bundles.contract import Piece
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Pulling
from hostler.base.errors import error


class BundleSource:
    """Implements `bundles.contract.Source`. What comes is believed by its digest alone."""

    def __init__(self, pull: Pulling, target: Callable[[], tuple[Tls, str]]) -> None:
        self._pull = pull
        self._target = target

    async def __call__(self, task_id: str, attempt_uid: str, sha256: str, offset: int) -> AsyncGenerator[Piece, None]:
        """Raises what the control plane answered, `controller_unreachable`, `malformed_envelope`."""
        from google.protobuf.message import DecodeError

        from hostler.v1 import node_pb2

        request = node_pb2.FetchBundleRequest(task_id=task_id, attempt_uid=attempt_uid, sha256=sha256, offset=offset)
        tls, address = self._target()
        async with aclosing(self._pull(tls, address, "FetchBundle", request.SerializeToString())) as messages:
            async for data in messages:
                try:
                    chunk = node_pb2.BundleChunk.FromString(data)
                except DecodeError as err:
                    raise error("malformed_envelope", "a piece of a bundle is none") from err
                yield Piece(chunk.offset, chunk.total, chunk.data)
