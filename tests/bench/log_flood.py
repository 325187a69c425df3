"""N1: one node writes log lines as fast as the wire takes them; what that costs everybody else.

`python -m tests.bench.log_flood` prints JSON: how long operations on another node take from submit to seen finished,
without and under the flood, and how much of the flood was taken. The flood is a light agent in a process of its own
that keeps to none of the limits a real agent keeps to.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hostler.v1 import node_pb2_grpc
from hostler.wire.codec_node import agent_message, control_value
from hostler.wire.codec_task import decode_task
from hostler.wire.node import Hello, Reports, TaskAccepted, Tasks
from hostler.wire.race import first_of
from hostler.wire.report import LogLine, Report, TaskReport, TaskStatus
from support.house import House, open_house

from .bed import NODE
from .ceiling import prepare_fleet
from .fake_fleet import FakeNode
from .floors import spread
from .latency import finished, follow

LINE, LINES = "x" * 1000, 1000  # a megabyte a message


class Flood(FakeNode):
    async def flood(self) -> None:
        """Takes one task and never ends it; writes until SIGTERM."""
        call = node_pb2_grpc.NodeServiceStub(self._channel).Session(wait_for_ready=True)
        known = 1 << 40
        hello = Hello(agent_version="fake", parallel_tasks=64, catalog_version=known, keyset_version=known,
                      capabilities={"os.kernel": "linux"})  # fmt: skip
        await call.write(agent_message(hello))
        await call.read()
        print("READY", flush=True)
        while not isinstance(value := control_value(await call.read()), Tasks):
            pass
        spec = decode_task(value.envelopes[0].payload)
        ids = {"task_id": spec.task_id, "attempt_uid": spec.attempt_uid}
        await call.write(agent_message(TaskAccepted((spec.task_id,))))
        running = TaskReport(**ids, status=TaskStatus.RUNNING, at_ms=spec.not_before_ms)
        await call.write(agent_message(Reports((Report(1, running),))))
        line = LogLine(**ids, step_id="s", step_index=0, stream="stdout", text=LINE, at_ms=spec.not_before_ms)
        stop, sent = asyncio.Event(), 0
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        reader = asyncio.create_task(_ignore(call))
        begun = time.monotonic()
        while not stop.is_set():
            first = 2 + sent * LINES
            batch = Reports(tuple(Report(first + number, line) for number in range(LINES)))
            await first_of(call.write(agent_message(batch)), stop.wait())
            sent += 1
        reader.cancel()
        seconds = time.monotonic() - begun
        print(json.dumps({"offered_mb_per_s": round(sent * LINES * len(LINE) / 1e6 / seconds, 2)}), flush=True)
        call.cancel()


async def _flooding(entry: dict[str, str], ca: str, address: str, trust_domain: str) -> None:
    await Flood(entry, ca, address, trust_domain).flood()


async def _ignore(call: Any) -> None:
    while await call.read():
        pass


def measure(rounds: int = 150) -> dict[str, Any]:
    with open_house() as house:
        (entry,) = prepare_fleet(house, 1)
        house.enrol(NODE)
        house.start(NODE)
        for _ in range(10):
            finished(house, follow)
        before = [finished(house, follow) for _ in range(rounds)]
        arguments = [sys.executable, "-m", "tests.bench.log_flood", "--flood", str(house.home)]
        address = f"127.0.0.1:{house.ports.node}"
        flood = subprocess.Popen([*arguments, address, "house.test"], stdout=subprocess.PIPE, text=True)
        assert flood.stdout is not None
        assert flood.stdout.readline() == "READY\n"
        operation_id = house.submit("node.smoke.noop@v1", nodes=(entry["node_id"],))
        house.until(lambda: house.operation(operation_id)["status"] == "running")
        begun = time.monotonic()
        under = [finished(house, follow) for _ in range(rounds)]
        seconds = time.monotonic() - begun
        taken = _stored(house)
        flood.terminate()
        said = json.loads(flood.stdout.readline() or "{}")
        return {
            "seen_finished_ms": spread(before),
            "seen_finished_under_flood_ms": spread(under),
            "p99_ratio": round(_p99(under) / _p99(before), 2),
            "stored_mb_per_s": round(taken * len(LINE) / 1e6 / seconds, 2),
            "control_rss_mib": _rss(house),
            **said,
        }


def _stored(house: House) -> int:
    import sqlite3

    with sqlite3.connect(f"file:{house.home / 'control' / 'control.db'}?mode=ro", uri=True) as db:
        return int(db.execute("SELECT coalesce(sum(lines), 0) FROM log_usage").fetchone()[0])


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def _rss(house: House) -> int:
    pages = int(Path(f"/proc/{house.pids['control']}/statm").read_text().split()[1])
    return pages * 4096 >> 20


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        home, address, trust_domain = Path(sys.argv[2]), *sys.argv[3:]
        (entry,) = json.loads((home / "nodes.json").read_text())
        ca = (home / "pki/control/ca.pem").read_text()
        asyncio.run(_flooding(entry, ca, address, trust_domain))
    else:
        print(json.dumps(measure(), indent=2))
