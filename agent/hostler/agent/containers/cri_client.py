"""Calls to containerd over its socket, and what its refusals mean. Imports gRPC: load it where it is used."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from hostler.agent.containers.present import CRI_NAMESPACE
from hostler.agent.containers.pulls import refused, short
from hostler.agent.containers.runtime import PullAuth
from hostler.base.errors import HostlerError, error
from hostler.cri.v1 import api_pb2 as cri
from hostler.cri.v1.api_pb2_grpc import ImageServiceStub, RuntimeServiceStub
from hostler.cri.v1.tasks_pb2_grpc import TasksStub

CRI_METADATA = (("containerd-namespace", CRI_NAMESPACE),)
CALL_S = 60.0
PULL_S = 6 * 3600.0
_MESSAGE_BYTES = 32 << 20
_OPTIONS = (
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),  # a daemon that restarts is back within a second
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 250),
    ("grpc.enable_http_proxy", 0),
)
_Answer = TypeVar("_Answer")
_TAKEN = "is reserved for"

# A caller that was killed leaves its calls behind: until they have ended, the same again is refused with these.
# A daemon that has just begun refuses everything; a container that has ended meanwhile only needs another look.
_BUSY = (
    "is already in starting state",
    "is in starting state",
    "is already in removing state",
    _TAKEN,
    "server is not initialized yet",
    "starting state for container",
)


class Client:
    """One channel. Belongs to the loop that it was made in."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=_OPTIONS)
        self.runtime: Any = RuntimeServiceStub(self._channel)
        self.images: Any = ImageServiceStub(self._channel)
        self.tasks: Any = TasksStub(self._channel)

    async def close(self) -> None:
        await self._channel.close(None)

    async def call(
        self,
        method: Callable[..., Awaitable[_Answer]],
        request: object,
        what: str,
        timeout: float = CALL_S,
        **options: Any,
    ) -> _Answer:
        """Raises `runtime_unavailable`, `container_missing`, `image_missing`, `timeout`, `container_failed`."""
        try:
            return await method(request, timeout=timeout, **options)
        except grpc.aio.AioRpcError as err:
            raise failure(what, err.code(), err.details() or "") from err

    async def native(self, method: Callable[..., Awaitable[_Answer]], request: object, what: str) -> _Answer:
        """A call of containerd's own interface."""
        return await self.call(method, request, what, metadata=CRI_METADATA)

    async def has_image(self, reference: str) -> bool:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=reference))
        said = await self.call(self.images.ImageStatus, request, f"looking for {reference}")
        return bool(said.HasField("image"))

    async def pull(self, reference: str, auth: PullAuth | None) -> str:
        """Raises `source_denied`, `source_unreachable`, `digest_mismatch`, `image_missing` besides."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=reference))
        if auth is not None:
            request.auth.username = auth.username
            request.auth.password = auth.password().decode()
        try:
            answer = await self.images.PullImage(request, timeout=PULL_S)
        except grpc.aio.AioRpcError as err:
            raise pull_failure(reference, err.code(), err.details() or "") from err
        finally:
            request.Clear()
        made: str = answer.image_ref
        return made


def failure(what: str, code: grpc.StatusCode, details: str) -> HostlerError:
    if any(words in details for words in _BUSY):
        return error("runtime_unavailable", f"containerd is still at what was asked before, so {what} was not done")
    if code is grpc.StatusCode.UNAVAILABLE:
        return error("runtime_unavailable", f"containerd does not answer, so {what} was not done")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return error("timeout", f"{what} did not end in time")
    if code is grpc.StatusCode.NOT_FOUND:
        if "image" in details and "container" not in details.partition("image")[0]:
            return error("image_missing", f"{what}: containerd does not hold the image: {short(details)}")
        return error("container_missing", f"{what}: {short(details)}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return error("runtime_unavailable", f"containerd offers no container runtime interface, so {what} was not done")
    return error("container_failed", f"{what}: {short(details)}")


def is_taken(err: HostlerError) -> bool:
    """Whether a sandbox or container of that name is there, or on its way."""
    cause = err.__cause__
    return isinstance(cause, grpc.aio.AioRpcError) and _TAKEN in (cause.details() or "")


def pull_failure(reference: str, code: grpc.StatusCode, details: str) -> HostlerError:
    away = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED)
    if away or any(words in details for words in _BUSY):
        return failure(f"pulling {reference}", code, details)
    return refused(reference, details)
