"""Looks for a planted secret everywhere, in every spelling it may have taken on its way.

    canary = Canary.fresh("password")
    scan = Scan(canary)
    scan.files(house.home, but=[house.home / "source"])
    scan.surroundings()
    scan.memory(agent_pid)
    scan.text("the audit bundle", bundle)
    assert scan.hits == [] and scan.looked["memory"]

A spelling is searched in pieces of a few letters, so that it is found as well when a border of chunks, pages,
lines or events went through it. Files and texts are also looked into: gzip, and base64 inside JSON.
`tests/fault/test_S1_scan.py` shows that each form is found in each place.
"""

import base64
import gzip
import json
import os
import re
import secrets
import sqlite3
import urllib.parse
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PIECE = 8  # letters; mostly of chance, so that nothing else looks like one
_CHUNK = 8 * 1024 * 1024
_OVERLAP = 4096
_PACKED = re.compile(rb"[A-Za-z0-9+/_-]{40,}")
_NASTY = '"\\/+ &=%'  # each is spelled otherwise in JSON or in URLs


@dataclass(frozen=True)
class Hit:
    where: str
    form: str


@dataclass(frozen=True)
class Canary:
    """Bytes that stand nowhere else, and how to recognise them."""

    name: str
    data: bytes
    needles: dict[bytes, tuple[str, ...]] = field(repr=False)
    any_needle: "re.Pattern[bytes]" = field(repr=False)  # five times faster than one after the other

    @classmethod
    def of(cls, name: str, data: bytes) -> "Canary":
        """For a secret that exists. Of a shorter one, half would not make a piece."""
        assert len(data) >= 4 * PIECE - 2, name
        needles = _needles(data)
        return cls(name, data, needles, _any_of(needles))

    @classmethod
    def fresh(cls, name: str) -> "Canary":
        """One of chance and of letters that other formats spell otherwise."""
        return cls.of(name, "".join(secrets.token_urlsafe(6)[:6] + letter for letter in f"{_NASTY}~").encode())

    def forms_in(self, data: bytes) -> list[str]:
        """The spellings that stand in `data`, whole or in pieces."""
        if self.any_needle.search(data) is None:
            return []
        return sorted({form for piece, forms in self.needles.items() if piece in data for form in forms})


def spellings(data: bytes) -> dict[str, bytes]:
    """Every form, as it looks in whole; of base64 only the letters that do not depend on what stands around."""
    found = {"plain": data, "reversed": data[::-1], "hex": data.hex().encode(), "HEX": data.hex().upper().encode()}
    for shift in range(3):
        for name, encode in (("base64", base64.b64encode), ("base64url", base64.urlsafe_b64encode)):
            first, last = (0, 2, 3)[shift], (shift + len(data)) * 8 // 6
            found[f"{name}+{shift}"] = encode(bytes(shift) + data)[first:last]
    found["base32"] = base64.b32encode(data).rstrip(b"=")[:-1]
    found["url"] = urllib.parse.quote(data, safe="").encode()
    found["url+"] = urllib.parse.quote_plus(data).encode()
    found["url lower"] = re.sub(rb"%[0-9A-F]{2}", lambda match: match[0].lower(), found["url"])
    found["url all"] = b"".join(b"%%%02X" % byte for byte in data)
    with suppress(UnicodeDecodeError):
        text = data.decode()
        found["json"] = json.dumps(text)[1:-1].encode()
        found["json utf-8"] = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        found["json slashes"] = found["json"].replace(b"/", b"\\/")
        found["json all"] = b"".join(b"\\u%04x" % ord(letter) for letter in text)
        found["repr"] = repr(data)[2:-1].encode()
        found["utf-16le"] = text.encode("utf-16-le")
        found["utf-16be"] = text.encode("utf-16-be")[1:]  # memory is full of zeros: none at the front of a piece
        found["utf-32le"] = text.encode("utf-32-le")
    return found


# How many bytes stand for one letter: pieces are that much longer.
_WIDTH = {"hex": 2, "HEX": 2, "utf-16le": 2, "utf-16be": 2, "utf-32le": 4, "url all": 3, "json all": 6}


def _needles(data: bytes) -> dict[bytes, tuple[str, ...]]:
    """Pieces one after the other: the larger half of a form that is split holds at least one of them whole."""
    found: dict[bytes, tuple[str, ...]] = {}
    for form, spelled in spellings(data).items():
        size = PIECE * _WIDTH.get(form, 1)
        for start in range(0, len(spelled) - size + 1, size):
            piece = spelled[start : start + size]
            found[piece] = (*found.get(piece, ()), form)
    return found


def _any_of(needles: Iterable[bytes]) -> "re.Pattern[bytes]":
    by_first: dict[bytes, list[bytes]] = {}
    for needle in needles:
        by_first.setdefault(needle[:1], []).append(re.escape(needle[1:]))
    return re.compile(b"|".join(re.escape(first) + b"(?:%s)" % b"|".join(rest) for first, rest in by_first.items()))


class Scan:
    """Attributes:
    hits: where something was found.
    looked: how much was looked at, by kind of place, so that a scan of nothing is seen to be one.
    """

    def __init__(self, *canaries: Canary) -> None:
        self.canaries = canaries
        self.hits: list[Hit] = []
        self.looked: Counter[str] = Counter()

    def text(self, where: str, data: bytes | str, kind: str = "texts") -> None:
        """One text, and what is packed in it."""
        self.looked[kind] += 1
        self._search(where, data.encode() if isinstance(data, str) else data)

    def files(self, *directories: Path, but: Iterable[Path] = ()) -> None:
        """Names and content of everything below, without following links."""
        left_out = {path.resolve() for path in but}
        for directory in directories:
            for folder, names, files in os.walk(directory):
                here = Path(folder)
                names[:] = [name for name in names if (here / name).resolve() not in left_out]
                for name in (*names, *files):
                    self._find(f"the name of {here / name}", os.fsencode(name))
                for path in (here / name for name in files):
                    if path.resolve() not in left_out and not path.is_symlink() and path.is_file():
                        self._file(path)

    def database(self, path: Path) -> None:
        """Every value of an SQLite database, put together again from the pages it is stored on."""
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
                self.looked["rows"] += len(rows)
                values = [value for row in rows for value in row if isinstance(value, str | bytes)]
                data = b"\0\0".join(value.encode() if isinstance(value, str) else value for value in values)
                self._search(f"{path}, table {table}", data)
        finally:
            db.close()

    def surroundings(self, but: Iterable[int] = ()) -> None:
        """Arguments, environment and name of every process of the machine but these."""
        left_out = {os.getpid(), *but}
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) in left_out:
                continue
            for name in ("cmdline", "environ", "comm"):
                with suppress(OSError):
                    data = (process / name).read_bytes()
                    self.looked[name] += 1
                    self._search(f"{process / name} ({_name(process)})", data)

    def memory(self, *pids: int) -> None:
        """Whatever these processes can write: heap, stacks, maps, anonymous files. As root."""
        for pid in pids:
            with suppress(FileNotFoundError, ProcessLookupError):
                self._memory(Path(f"/proc/{pid}"))

    def _memory(self, process: Path) -> None:
        with (process / "mem").open("rb", buffering=0) as mem:
            for line in (process / "maps").read_text().splitlines():
                area, rights, *rest = line.split(maxsplit=5)
                if "r" not in rights or "w" not in rights:
                    continue
                start, end = (int(word, 16) for word in area.split("-"))
                where = f"memory of {process.name} ({_name(process)}), {rest[3] if len(rest) > 3 else 'anonymous'}"
                with suppress(OSError, ValueError, OverflowError):  # parts of the kernel's own
                    self._region(mem, where, start, end)

    def _region(self, mem: object, where: str, start: int, end: int) -> None:
        fd = mem.fileno()  # type: ignore[attr-defined]
        while start < end:
            data = os.pread(fd, min(_CHUNK, end - start), start)
            if not data:
                return
            self.looked["memory"] += len(data)
            if data.count(0) < len(data):
                self._find(where, data)
            start += len(data) if start + len(data) >= end else max(len(data) - _OVERLAP, 1)

    def _file(self, path: Path) -> None:
        self.looked["files"] += 1
        with suppress(FileNotFoundError), path.open("rb") as file:  # files come and go
            tail = b""
            while data := file.read(_CHUNK):
                self._search(str(path), tail + data)
                tail = data[-_OVERLAP:]

    def _search(self, where: str, data: bytes, depth: int = 2) -> None:
        """Here and in what is packed inside."""
        self._find(where, data)
        if depth == 0:
            return
        if data.startswith(b"\x1f\x8b"):
            with suppress(OSError, EOFError):
                self._search(f"{where}, unpacked", gzip.decompress(data), depth - 1)
        inner = [decoded for run in _PACKED.findall(data) if (decoded := _decoded(run))]
        if inner:
            self._search(f"{where}, inside base64", b"\0\0".join(inner), depth - 1)

    def _find(self, where: str, data: bytes) -> None:
        for canary in self.canaries:
            for form in canary.forms_in(data):
                hit = Hit(where, f"{canary.name}: {form}")
                if hit not in self.hits:
                    self.hits.append(hit)


def below(pid: int) -> list[int]:
    """The process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(process.name))
    found = [pid]
    for each in found:
        found += parents.get(each, [])
    return found


def _decoded(run: bytes) -> bytes | None:
    try:
        return base64.b64decode(
            run.rstrip(b"=") + b"=" * (-len(run) % 4), altchars=b"-_" if set(run) & set(b"-_") else None
        )
    except ValueError:
        return None


def _name(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text().strip()
    return "gone"
