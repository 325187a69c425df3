"""One connection to a port of a running task, in the shape that a session carries (TE-22)."""

import asyncio
import contextlib

from hostler.agent.containers.find import running
from hostler.agent.containers.workload import Workloads
from hostler.base.errors import HostlerError, error
from hostler.wire.relay import CHUNK

CONNECT_S = 5.0
LOOPBACK = "127.0.0.1"


class Connection:
    """A `Terminal` without a program: bytes in, bytes out, and each side may end its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """Raises `endpoint_unreachable` when the task cuts it."""
        try:
            return await self._reader.read(CHUNK)
        except OSError as err:
            raise _cut(err) from err

    async def write(self, data: bytes) -> None:
        """Raises `endpoint_unreachable` when the task cuts it. Returns when the task takes more."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as err:
            raise _cut(err) from err

    async def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def resize(self, rows: int, columns: int) -> None:
        """It has no screen."""

    async def wait(self) -> int:
        return 0

    async def close(self) -> None:
        self._writer.transport.abort()


async def connected(
    workloads: Workloads | None, *, task_id: str, attempt_uid: str, org_id: str, project_id: str, port: int
) -> Connection:
    """To the container's own address where it has one, else to this node; never anywhere else.

    Raises:
        HostlerError: `task_not_running`, `address_not_own` for a port that the attempt does not hold,
            `endpoint_unreachable`.
    """
    runtime, container = await running(
        workloads, task_id=task_id, attempt_uid=attempt_uid, org_id=org_id, project_id=project_id
    )
    assert workloads is not None
    if port not in workloads.ports.held(attempt_uid).values():
        raise error("address_not_own", f"attempt {attempt_uid} does not hold port {port}")
    own = (await runtime.status(container)).address
    hosts = (own,) if own else tuple(dict.fromkeys(each for each in (LOOPBACK, workloads.node_address) if each))
    why: Exception | None = None
    for host in hosts:
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(host, port, limit=CHUNK)
        except (OSError, TimeoutError) as err:
            why = err
            continue
        return Connection(reader, writer)
    raise error("endpoint_unreachable", f"nothing of the task takes connections on port {port}") from why


def _cut(err: OSError) -> HostlerError:
    return error("endpoint_unreachable", f"the task has cut the connection ({type(err).__name__})")
