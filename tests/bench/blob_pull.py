"""Our blob pull against `curl | tee | sha256sum`: same server, same file, same disk, in turn.

    python tests/bench/blob_pull.py [--mib 512] [--rounds 5] [--directory DIR]

Prints one JSON object. `ratio` compares medians of what both do: fetch, hash, write to the page cache
and, on our side alone, sync to the disk. `ratio_synced` gives curl's side the same sync, and
`ratio_openssl` a faster hash as well: coreutils' own is often what bounds the pipeline.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hostler.agent.fetch.blob import Owner, Wanted, pull
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.base.clock import Deadline, SystemClock
from support.certs import ServerCerts, make_server_certs


@contextmanager
def server(file: Path, certs: ServerCerts) -> Iterator[str]:
    """In a process of its own, so that neither client shares an interpreter with it."""
    program = Path(__file__).resolve().parents[1] / "support" / "blob_server.py"
    command = [sys.executable, str(program), str(file), str(certs.certificate), str(certs.key)]
    environment = os.environ | {"PYTHONPATH": str(program.parents[1])}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"https://localhost:{int(process.stdout.readline())}/blob"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


SHA256SUM = ("sha256sum",)
OPENSSL = ("openssl", "dgst", "-sha256", "-r")


def curl(
    url: str, certs: ServerCerts, target: Path, digest: str, *, sync: bool, hasher: tuple[str, ...] = SHA256SUM
) -> None:
    """Three processes in a pipeline, as a careful operator would type it."""
    fetch = subprocess.Popen(
        ["curl", "--silent", "--show-error", "--fail", "--http1.1", "--cacert", str(certs.ca), url],
        stdout=subprocess.PIPE,
    )
    tee = subprocess.Popen(["tee", str(target)], stdin=fetch.stdout, stdout=subprocess.PIPE)
    checksum = subprocess.Popen(hasher, stdin=tee.stdout, stdout=subprocess.PIPE, text=True)
    for process in (fetch, tee):
        assert process.stdout is not None
        process.stdout.close()
    said = checksum.communicate()[0]
    assert fetch.wait() == 0
    assert tee.wait() == 0
    assert said.split()[0] == digest
    if sync:
        descriptor = os.open(target, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def ours(url: str, certs: ServerCerts, target: Path, digest: str) -> None:
    directory = os.open(target.parent, os.O_RDONLY)
    clock = SystemClock()

    async def save(checkpoint: dict[str, object]) -> None:
        json.dumps(checkpoint)

    async def one() -> None:
        wanted = Wanted(
            url=url, sha256=digest, directory=directory, name=target.name, mode=0o644, allowed=lambda _: True
        )
        owner = Owner(
            settings=FetchSettings(ca_file=str(certs.ca)),
            clock=clock,
            deadline=Deadline.after(600, clock),
            cancelled=asyncio.Event(),
            progress=lambda done, total: None,
            note=lambda text: None,
            saved={},
            save=save,
        )
        await pull(wanted, owner)

    asyncio.run(one())
    os.close(directory)


def timed(work: Callable[[], None], target: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the client side; the disk is quiet before and the file gone after."""
    os.sync()
    before = _cpu()
    start = time.monotonic()
    work()
    wall = time.monotonic() - start
    cpu = _cpu() - before
    target.unlink()
    return wall, cpu


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


def measure(mib: int, rounds: int, directory: Path) -> dict[str, object]:
    if shutil.which("curl") is None:
        raise SystemExit("curl is not installed; it is the peer of this measurement")
    certs = make_server_certs(directory / "certs")
    source, target = directory / "source", directory / "blob"
    piece = random.Random(1).randbytes(1 << 20)
    source.write_bytes(piece * mib)
    digest = hashlib.sha256(piece * mib).hexdigest()
    with server(source, certs) as url:
        ways: dict[str, Callable[[], None]] = {
            "curl": lambda: curl(url, certs, target, digest, sync=False),
            "ours": lambda: ours(url, certs, target, digest),
            "curl_synced": lambda: curl(url, certs, target, digest, sync=True),
        }
        if shutil.which("openssl"):
            ways["curl_openssl"] = lambda: curl(url, certs, target, digest, sync=True, hasher=OPENSSL)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, work in ways.items():
                found[name].append(timed(work, target))
    rates = {name: [mib / wall for wall, _ in runs] for name, runs in found.items()}
    median = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "mib": mib,
        "rounds": rounds,
        "mib_per_s": {name: round(value, 1) for name, value in median.items()},
        "mib_per_client_cpu_s": {
            name: round(mib / statistics.median(cpu for _, cpu in runs), 1) for name, runs in found.items()
        },
        "spread": {name: [round(min(v), 1), round(max(v), 1)] for name, v in rates.items()},
        "ratio": round(median["ours"] / median["curl"], 3),
        "ratio_synced": round(median["ours"] / median["curl_synced"], 3),
        "ratio_openssl": round(median["ours"] / median["curl_openssl"], 3) if "curl_openssl" in median else None,
        "budget": 1.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=None)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.directory, prefix="hostler-bench-") as place:
        print(json.dumps(measure(chosen.mib, chosen.rounds, Path(place)), indent=2))


if __name__ == "__main__":
    main()
