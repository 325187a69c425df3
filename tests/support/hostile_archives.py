"""Archives that nobody may unpack, each by what is wrong with it (A6)."""

import tarfile
from typing import Any

from support.registry import entry

DIR, LINK, HARD = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
EVIL = b"evil"


def f(name: str, **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=0o644, **more), EVIL


def link(name: str, target: str, type_: bytes = LINK) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type_, linkname=target), b""


HOSTILE: dict[str, list[tuple[tarfile.TarInfo, bytes]]] = {
    "above": [f("../outside/f")],
    "above, further in": [f("a/../../outside/f")],
    "absolute": [f("/tmp/hostler-evil")],
    "doubled slash": [f("a//f")],
    "dot inside": [f("a/./f")],
    "backslash": [f("..\\outside\\f")],
    "newline": [f("a\nb")],
    "deeper than calls are nested": [f("d/" * 700 + "f")],
    "our own name": [f(".hostler-placed.json")],
    "symlink out": [link("l", "../outside")],
    "symlink absolute": [link("l", "/etc")],
    "symlink out by way of inside": [link("a/b", "../../outside")],
    "symlink, then written through": [link("d", "."), f("d/f")],
    "symlink of a symlink, then written through": [link("a/x", ".."), link("b", "a/x"), f("b/f")],
    "hard link out": [link("h", "../outside/shadow", HARD)],
    "hard link absolute": [link("h", "/etc/shadow", HARD)],
    "hard link to a symlink": [link("s", "nowhere"), link("h", "s", HARD)],
    "character device": [(entry("n", tarfile.CHRTYPE, devmajor=1, devminor=3), b"")],
    "block device": [(entry("n", tarfile.BLKTYPE), b"")],
    "pipe": [(entry("n", tarfile.FIFOTYPE), b"")],
    "unknown type": [(entry("n", b"Z"), b"")],
    "set-user-id": [(entry("n", mode=0o4755), EVIL)],
    "set-group-id": [(entry("n", mode=0o2755), EVIL)],
    "set-group-id directory": [(entry("n", DIR, mode=0o2755), b"")],
    "same name twice": [f("a"), f("a")],
    "same name in another case": [f("a"), f("A")],
    "same name in another normal form": [f("\u00e9"), f("e\u0301")],
    "same name in full width": [f("a"), f("\uff41")],
    "same directory in another case": [f("d/a"), f("D/b")],
    "whiteout of nothing": [f(".wh...")],
    "file where a directory stood": [f("a"), f("a/b")],
}
