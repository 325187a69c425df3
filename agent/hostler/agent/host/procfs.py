"""Where the kernel tells about this node, or about the machine whose root stands below `root`."""

from pathlib import Path


def own_proc(root: Path) -> Path:
    """/proc/self for the agent's own root. Below another one, its first process speaks for it: `self`
    is nobody there."""
    if root == Path("/"):
        return Path("/proc/self")
    first = root / "proc/1"
    return first if first.exists() else root / "proc/self"
