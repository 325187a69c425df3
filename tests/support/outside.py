"""The network process's work without the process: for tests that want its calls, not its walls."""

import asyncio
import os
import socket

from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Outside, Streams
from hostler.agent.outside.serve import Server


class InProcess:
    """Gives an `Outside` a server on the same loop."""

    def __init__(self) -> None:
        self.servers: list[asyncio.Task[None]] = []

    async def connect(self) -> Streams:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        self.servers.append(asyncio.create_task(Server(reader, writer).run(os.geteuid())))
        return await asyncio.open_unix_connection(sock=ours)


async def ask_in_process(tls: Tls, address: str, method: str, request: bytes, timeout_s: float = 20.0) -> bytes:
    """One call, with everything it needs made and ended around it."""
    inside = InProcess()
    outside = Outside(inside.connect)
    running = asyncio.create_task(outside.run())
    try:
        return await outside.ask(tls, address, method, request, timeout_s)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await asyncio.wait(inside.servers, timeout=5)
