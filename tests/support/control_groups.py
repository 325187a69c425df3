"""Control groups of booted machines: one of its own for each, in every hierarchy that this machine has.

Two machines in one group would take each other's units for their own, and stop them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TREES = [Path("/sys/fs/cgroup") / tree for tree in ("systemd", "unified", "")]
JOIN = """set -e
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
  if [ -e $tree/cgroup.procs ]; then
    mkdir -p $tree/$1
    echo $$ > $tree/$1/cgroup.procs
  fi
done
shift
exec "$@"
"""


def joined(group: str, command: Sequence[str]) -> list[str]:
    """The command, to be run in that group; all that it starts is in it too."""
    return ["/bin/sh", "-c", JOIN, "join", group, *command]


def remove(group: str) -> None:
    """With all below it that nothing runs in; their files cannot be removed, and need not be."""
    for tree in TREES:
        for directory, _, _ in os.walk(tree / group, topdown=False):
            with suppress(OSError):
                Path(directory).rmdir()
