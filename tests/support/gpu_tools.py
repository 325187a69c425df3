"""Programs with the names of vendors' tools that print what stands in `tests/fixtures/tools`, and nothing else."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[1] / "fixtures" / "tools"
QUERY = "--query-gpu=index,uuid,pci.bus_id,name,driver_version,memory.total,ecc.errors.uncorrected.volatile.total"
# name of the tool: arguments that its output was recorded for
ARGUMENTS = {"nvidia-smi": (QUERY, "--format=csv,noheader,nounits")}


@contextmanager
def vendor_tools(table: Mapping[str, tuple[str, str]]) -> Iterator[list[dict[str, Any]]]:
    """Command profiles by id around tools that every user may run: program and recorded output of each."""
    place = Path(tempfile.mkdtemp(prefix="hostler-tools-"))
    place.chmod(0o755)
    try:
        made = []
        for profile_id, (name, recorded) in table.items():
            directory = place / profile_id
            directory.mkdir(mode=0o755)
            made.append(profile(profile_id, tool(directory, name, recorded), on_interrupt="rerun"))
        yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tool(directory: Path, name: str, recorded: str, status: int = 0) -> Path:
    """An executable that every user may run."""
    directory.mkdir(exist_ok=True, parents=True)
    copy = directory / f"{name}.out"
    copy.write_text((TOOLS / recorded).read_text() if recorded else "")
    copy.chmod(0o644)
    made = directory / name
    made.write_text(f"#!/bin/sh\n/bin/cat '{copy}'\nexit {status}\n")
    made.chmod(0o755)
    return made


def profile(profile_id: str, path: Path, **fields: Any) -> dict[str, Any]:
    """A command profile around such a tool."""
    arguments = list(ARGUMENTS.get(path.name, ()))
    return {"id": profile_id, "command": str(path), "base_args": arguments, "timeout_seconds": 30, **fields}
