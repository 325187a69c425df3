"""Generates the committed protobuf code: `hostler.v1`, and the parts of containerd's interfaces in `hostler.cri.v1`.

Run as `python -I packaging/proto.py [--check]` from the repository root.
"""

import filecmp
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "proto"
PACKAGES = ("v1", "cri/v1")
SERVICES = ("v1/node.proto", "cri/v1/api.proto", "cri/v1/tasks.proto")


def generate(target: Path) -> None:
    sources = sorted(str(p.relative_to(ROOT)) for name in PACKAGES for p in (ROOT / "hostler" / name).glob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}"]
    arguments += [f"--python_out={target}", f"--pyi_out={target}"]
    status = protoc.main([*arguments, *sources])
    services = [f"hostler/{name}" for name in SERVICES]
    status = status or protoc.main([*arguments, f"--grpc_python_out={target}", *services])
    if status:
        sys.exit(f"protoc failed with status {status}")


def check() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = sorted(path.relative_to(scratch) for path in Path(scratch).rglob("*") if path.is_file())
        stale = [str(name) for name in fresh if not _same(Path(scratch) / name, ROOT / name)]
    if stale:
        print(f"stale generated code: {', '.join(stale)}; run 'make proto'")
    return 1 if stale else 0


def _same(fresh: Path, committed: Path) -> bool:
    return committed.exists() and filecmp.cmp(fresh, committed, shallow=False)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(check())
    generate(ROOT)
