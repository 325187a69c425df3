"""What this machine charges anybody: a bare spawn, a bare mutual-TLS call, an fsync.

`python -m tests.bench.floors` prints JSON. Every figure of ours is read beside these, from the same run.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

TRUE = "/usr/bin/true"


def spread(samples: list[float], scale: float = 1e3) -> dict[str, float]:
    """Median and 99th percentile of seconds, in milliseconds unless scaled otherwise."""
    ordered = sorted(samples)
    return {
        "p50": round(statistics.median(ordered) * scale, 3),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * scale, 3),
        "n": len(ordered),
    }


def spawn(rounds: int = 400) -> dict[str, float]:
    """posix_spawn and wait of `true`, one after another."""
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        os.waitpid(os.posix_spawn(TRUE, [TRUE], {}), 0)
        samples.append(time.perf_counter() - start)
    return spread(samples) | {"per_s": round(rounds / sum(samples))}


def parallel_spawn(rounds: int = 1000) -> dict[str, float]:
    """The same with one spawning process a core: what the whole machine can start in a second."""
    code = f"import os\nfor _ in range({rounds}): os.waitpid(os.posix_spawn('{TRUE}', ['{TRUE}'], {{}}), 0)\n"
    start = time.perf_counter()
    cores = os.cpu_count() or 1
    children = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) for _ in range(cores)]
    for child in children:
        child.wait()
    return {"per_s": round(cores * rounds / (time.perf_counter() - start))}


def fsync(rounds: int = 200) -> dict[str, float]:
    """Appending 4 kB and fdatasync on the file system that holds the state."""
    samples = []
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        for _ in range(rounds):
            start = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fdatasync(file.fileno())
            samples.append(time.perf_counter() - start)
    return spread(samples)


async def rpc(rounds: int = 400) -> dict[str, float]:
    """A unary call of 1 kB over mutual TLS on loopback, server and client in one process."""
    from hostler.pki import authority, keys, tls

    now_ms = time.time_ns() // 1_000_000
    ca_key, server_key, node_key = (keys.new_p256() for _ in range(3))
    ca = authority.make_ca(ca_key, "floor.test", now_ms)
    issuer = authority.Authority(ca_key, ca, "floor.test")
    chain = issuer.issue_control("floor", server_key.public, ("127.0.0.1",), now_ms)
    mine = issuer.issue_node("node", node_key.public, now_ms)
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(_echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor.Floor", {"Echo": handler}),))
    credentials = tls.server_credentials(server_key.to_pem(), chain, (ca.decode(),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    samples = []
    dialled = tls.channel_credentials((ca.decode(),), node_key.to_pem(), mine)
    options = tls.channel_options("floor.test")
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", dialled, options) as channel:
        call = channel.unary_unary("/floor.Floor/Echo")
        await call(b"x" * 1024)
        for _ in range(rounds):
            start = time.perf_counter()
            await call(b"x" * 1024)
            samples.append(time.perf_counter() - start)
    await server.stop(None)
    return spread(samples)


async def _echo(request: bytes, context: Any) -> bytes:
    return request


def measure() -> dict[str, Any]:
    return {
        "spawn_ms": spawn(),
        "spawn_all_cores": parallel_spawn(),
        "fdatasync_ms": fsync(),
        "mtls_call_ms": asyncio.run(rpc()),
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
