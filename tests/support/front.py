"""What hosts dial: it hands every byte on to the control plane, keeps it back, or answers that it is too busy.

    with Front("198.18.0.1", house.ports, house.home / "pki/control") as front:
        front.throttle("198.18.0.11", Busy(status="UNAVAILABLE"))
        ... front.refused["198.18.0.11"] grows ...
        front.through("198.18.0.11")

Hosts are told apart by their addresses. TLS goes through it untouched; the answer of a busy control plane is given by
a server of its own with the same keys, and that server asks for a node's certificate as the real one does.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import grpc

from hostler.cli.demo_files import Ports
from hostler.pki.storage import read_private
from hostler.pki.tls import enrolment_credentials, server_credentials
from hostler.wire.codec_node import control_message
from hostler.wire.node import Close

NODE, ENROL = 7081, 7082
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Busy:
    """
    Attributes:
        status: the gRPC status of every call.
        error_code: ours, as the control plane sends it along; "" for none, as by a proxy before it.
        retry_after_s: sent along with the status (`grpc-retry-pushback-ms`), or in the `Close`.
        close: a session is taken and ended by a `Close`, which is the control plane's own way; other calls get the
            status all the same.
    """

    status: str = "RESOURCE_EXHAUSTED"
    error_code: str = "rate_limited"
    retry_after_s: float = 1.0
    close: bool = False


class Front:
    """`refused`: when (monotonic, seconds) sessions of each address were answered as by a busy control plane."""

    def __init__(self, address: str, ports: Ports, keys: Path) -> None:
        self.address = address
        self.refused: dict[str, list[float]] = defaultdict(list)
        self._targets = {NODE: ports.node, ENROL: ports.enroll}
        self._busy_ports: dict[int, int] = {}
        self._keys = keys
        self._busy: dict[str, Busy] = {}
        self._flowing: dict[str, asyncio.Event] = {}  # what an address is told
        self._heard: dict[str, asyncio.Event] = {}  # what it says
        self._origins: dict[int, str] = {}  # the hosts' addresses by the port we dial the busy server from
        self._pairs: dict[asyncio.Task[None], str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._server is not None:
            self._server.stop(0).wait()

    def throttle(self, *addresses: str, busy: Busy | None = None) -> None:
        """From now on these are told to come later; their open connections are cut."""
        if self._server is None:
            self._serve()
        self._do(self._turn(dict.fromkeys(addresses, busy or Busy())))

    def stall(self, *addresses: str) -> None:
        """Connections of these stay open, and nothing comes through any more, in either direction."""
        self._do(self._let(addresses, flow=False))

    def mute(self, *addresses: str) -> None:
        """These are told everything, and what they say is kept back."""
        self._do(self._let(addresses, flow=False, told=True))

    def flow(self, *addresses: str) -> None:
        """What was kept back goes on its way."""
        self._do(self._let(addresses, flow=True))

    def through(self, *addresses: str) -> None:
        """These reach the control plane again, by new connections."""
        self._do(self._turn(dict.fromkeys(addresses)))
        self.flow(*addresses)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> None:
        self._listening = [
            await asyncio.start_server(lambda r, w, port=port: self._accept(r, w, port), self.address, port)
            for port in self._targets
        ]

    async def _stop(self) -> None:
        for server in self._listening:
            server.close()
        await self._drop(set(self._pairs.values()))

    async def _turn(self, said: dict[str, Busy | None]) -> None:
        for address, busy in said.items():
            self._busy.pop(address, None)
            if busy is not None:
                self._busy[address] = busy
        await self._drop(set(said))

    async def _let(self, addresses: Iterable[str], *, flow: bool, told: bool = False) -> None:
        for address in addresses:
            for gates in (self._heard, self._flowing):
                gate = _gate(gates, address)
                gate.set() if flow or (told and gates is self._flowing) else gate.clear()

    async def _drop(self, addresses: set[str]) -> None:
        dropped = [pair for pair, address in self._pairs.items() if address in addresses]
        for pair in dropped:
            pair.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        address = writer.get_extra_info("peername")[0]
        pair = self._loop.create_task(self._join(reader, writer, port, address))
        self._pairs[pair] = address
        pair.add_done_callback(self._pairs.pop)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, address: str) -> None:
        target = self._busy_ports[port] if address in self._busy else self._targets[port]
        with suppress(OSError):
            try:
                above, down = await asyncio.open_connection(_HERE, target)
                try:
                    self._origins[down.get_extra_info("sockname")[1]] = address
                    says = asyncio.create_task(_pump(reader, down, _gate(self._heard, address)))
                    await self._both(says, asyncio.create_task(_pump(above, writer, _gate(self._flowing, address))))
                finally:
                    down.close()
            finally:
                writer.close()

    async def _both(self, *halves: "asyncio.Task[None]") -> None:
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)

    # -- the busy server ----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        key, chain = read_private(self._keys / "server.key"), (self._keys / "server.pem").read_bytes()
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=(_Refuse(self),))
        mutual = server_credentials(key, chain, ((self._keys / "ca.pem").read_text(),))
        self._busy_ports[NODE] = self._server.add_secure_port(f"{_HERE}:0", mutual)
        self._busy_ports[ENROL] = self._server.add_secure_port(f"{_HERE}:0", enrolment_credentials(key, chain))
        self._server.start()

    def answer(self, method: str, context: Any) -> Iterator[bytes]:
        """Of the busy server, to any call."""
        address = self._origins.get(int(context.peer().rpartition(":")[2]), "")
        busy = self._busy.get(address, Busy())
        opens = method.endswith("/Session")
        if opens:
            self.refused[address].append(time.monotonic())
        later_ms = int(1000 * busy.retry_after_s)
        if busy.close and opens:
            last = Close(error_code=busy.error_code, message="too busy", retry_after_ms=later_ms)
            yield control_message(last).SerializeToString()
            return
        own = (("hostler-error-code", busy.error_code),) if busy.error_code else ()
        context.set_trailing_metadata((*own, ("grpc-retry-pushback-ms", str(later_ms))))
        context.abort(grpc.StatusCode[busy.status], "too busy")


class _Refuse(grpc.GenericRpcHandler):
    def __init__(self, front: Front) -> None:
        self._front = front

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(
            lambda _, context: self._front.answer(details.method, context), None, None
        )


def _gate(gates: dict[str, asyncio.Event], address: str) -> asyncio.Event:
    """Open until somebody shuts it."""
    if address not in gates:
        gates[address] = asyncio.Event()
        gates[address].set()
    return gates[address]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            await gate.wait()
            writer.write(data)
            await writer.drain()
