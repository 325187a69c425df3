"""The bench's house: one control plane and some agents as real processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from support.house import House, open_house

# prints the moment at which the step's own process runs, as Iris's bench does
STAMP_COMMAND = {
    "id": "bench_stamp",
    "command": "/usr/bin/date",
    "base_args": ["+%s.%N"],
    "timeout_seconds": 10,
    "capture_stderr": False,
}
STAMP = {
    "type": "bench.stamp",
    "version": "v1",
    "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
    "capabilities": {"os.kernel": "linux"},
    "steps": [{"id": "stamp", "kind": "command.exec_allowlisted", "params": {"profile": "bench_stamp"}}],
}
NODE = "node-0"


@contextmanager
def bed(parallel: int = 8) -> Iterator[House]:
    """A running house with one agent; everything ends and is removed with the block."""
    with open_house([STAMP], [STAMP_COMMAND]) as house:
        house.serve()
        house.enrol(NODE)
        house.configure(NODE, parallel=parallel)
        house.start(NODE)
        yield house
