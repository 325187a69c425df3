"""Releases that the real control plane serves to booted hosts: a proxy with TLS before it, as operators have one.

    with open_hosts(4) as bed, open_delivery(bed) as delivery:
        delivery.publish(version_of("0.2.0"))
        bed.house.cli("rollouts", "create", "0.2.0")

What the hosts fetch comes from the control plane's own short-lived addresses; `delivery.fetched` has their paths.
"""

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.agent_packages import Change
from support.agent_releases import CA, TOML, do_releases
from support.certs import ServerCerts, make_server_certs
from support.hosts import AGENT, Bed

REPORT_S = 5


class Proxy:
    """Ends TLS on the bridge, and hands on to the control plane's HTTP."""

    def __init__(self, address: str, target: int, certs: ServerCerts) -> None:
        self.fetched: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._address, self._target = address, target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certs.certificate, certs.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> int:
        """→ its port."""
        self._thread.start()
        listening = asyncio.start_server(self._join, self._address, 0, ssl=self._context)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(20)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()  # a close would wait for the peer's part of TLS
        await asyncio.sleep(0.1)  # transports are closed by the loop

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(OSError, asyncio.CancelledError):
            try:
                above, down = await asyncio.open_connection("127.0.0.1", self._target)
                try:
                    halves = [asyncio.create_task(self._pump(reader, down, note=True))]
                    halves.append(asyncio.create_task(self._pump(above, writer)))
                    await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
                    for half in halves:
                        half.cancel()
                    await asyncio.gather(*halves, return_exceptions=True)
                finally:
                    down.close()
            finally:
                writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, note: bool = False) -> None:
        with suppress(OSError):
            while data := await reader.read(262_144):
                if note and data.startswith(b"GET "):
                    self.fetched.append(data.split(b" ", 2)[1].decode())
                writer.write(data)
                await writer.drain()


class Delivery:
    """A repository signed by the house's update key, and the control plane that it is published to."""

    def __init__(self, bed: Bed, directory: Path, proxy: Proxy, ca: Path) -> None:
        self._house, self.directory, self._proxy, self.ca = bed.house, directory, proxy, ca
        pki = bed.house.home / "pki"
        self._signed = ["--trust", str(pki / "trust.json"), "--key", str(pki / "update/update.key")]
        do_releases("init", str(directory), *self._signed)

    @property
    def fetched(self) -> list[str]:
        return self._proxy.fetched

    def publish(self, package: Path, *options: str) -> None:
        do_releases("add", str(self.directory), str(package), "--channel", "candidate", *options, *self._signed)
        self._house.cli("releases", "publish", str(self.directory))


@contextmanager
def open_delivery(bed: Bed, more: Callable[[Path], str] = lambda ca: "") -> Iterator[Delivery]:
    """The hosts are told of the proxy's authority, and the control plane of its address; all start anew once.

    Args:
        more: of `[updates]`; given where the proxy's authority stands.
    """
    house = bed.house
    with tempfile.TemporaryDirectory(prefix="hostler-releases-") as name:
        certs = make_server_certs(Path(name) / "tls", (bed.address,))
        proxy = Proxy(bed.address, house.ports.http, certs)
        port = proxy.start()
        try:
            config = house.home / "control.toml"
            updates = f'\n[updates]\npublic_url = "https://{bed.address}:{port}"\nreport_seconds = {REPORT_S}\n'
            updates += more(certs.ca)
            config.write_text(config.read_text() + updates)
            house.stop("control")
            house.serve()
            before = {host: host.unit().pid for host in bed.hosts.values()}
            for host in before:
                host.put(CA, certs.ca.read_text())
                fetch = Change("agent.toml", "\n[fetch]\n", f'\n[fetch]\nca_file = "{CA}"\n')
                host.put(TOML, fetch.done(host.read(TOML)))
                host.run("systemctl", "restart", "--no-block", AGENT)
            for host, pid in before.items():
                host.until(lambda h=host, p=pid: h.unit().pid not in (0, p), "it was not restarted")  # type: ignore[misc]
            bed.until_in_service()
            yield Delivery(bed, Path(name) / "releases", proxy, certs.ca)
        finally:
            proxy.stop()
