"""Generates the committed protobuf code of `hostler.v1`.

Run as `python -I packaging/proto.py [--check]` from the repository root.
"""

import filecmp
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "proto"


def generate(target: Path) -> None:
    sources = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "hostler" / "v1").glob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}"]
    arguments += [f"--python_out={target}", f"--pyi_out={target}"]
    status = protoc.main([*arguments, *sources])
    status = status or protoc.main([*arguments, f"--grpc_python_out={target}", "hostler/v1/node.proto"])
    if status:
        sys.exit(f"protoc failed with status {status}")


def check() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = sorted((Path(scratch) / "hostler" / "v1").iterdir())
        stale = [f.name for f in fresh if not _same(f, ROOT / "hostler" / "v1" / f.name)]
    if stale:
        print(f"stale generated code: {', '.join(stale)}; run 'make proto'")
    return 1 if stale else 0


def _same(fresh: Path, committed: Path) -> bool:
    return committed.exists() and filecmp.cmp(fresh, committed, shallow=False)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(check())
    generate(ROOT)
