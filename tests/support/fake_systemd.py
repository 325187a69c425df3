"""A stand-in for systemd that speaks real D-Bus on a socket, for places where none can be booted.

It knows units by name, starts and stops them at once, and counts how often it was told to.
"""

import socket
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jeepney import HeaderFields, Message, Parser, new_method_return, new_signal
from jeepney.wrappers import DBusAddress

MANAGER = "/org/freedesktop/systemd1"
INTERFACE = "org.freedesktop.systemd1.Manager"


class FakeSystemd:
    """`active` names the units that run, `outdated` those whose file has changed; `told` counts (method, unit)."""

    def __init__(self, root: Path) -> None:
        self._path = root / "run/dbus/system_bus_socket"
        self.active: set[str] = set()
        self.outdated: set[str] = set()
        self.told: Counter[tuple[str, str]] = Counter()
        self._jobs = 0

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link:
            try:
                rest = _authenticate(link)
                parser, serial = Parser(), 0
                while True:
                    parser.add_data(rest)
                    while (message := parser.get_next_message()) is not None:
                        for answer in self._answers(message):
                            serial += 1
                            link.sendall(answer.serialise(serial))
                    rest = link.recv(65536)
                    if not rest:
                        return
            except OSError:
                return

    def _answers(self, message: Message) -> list[Message]:
        member, body = message.header.fields[HeaderFields.member], message.body
        if member == "Hello":
            return [new_method_return(message, "s", (":1.7",))]
        if member in ("AddMatch", "Subscribe"):
            return [new_method_return(message)]
        if member == "Reload":
            self.told[(member, "")] += 1
            self.outdated.clear()
            return [new_method_return(message)]
        if member == "LoadUnit":
            return [new_method_return(message, "o", (f"{MANAGER}/unit/{body[0].encode().hex()}",))]
        if member == "GetAll":
            unit = bytes.fromhex(message.header.fields[HeaderFields.path].rpartition("/")[2]).decode()
            return [new_method_return(message, "a{sv}", (self._properties(unit, body[0]),))]
        return self._job(message, member, body[0])

    def _job(self, message: Message, member: str, unit: str) -> list[Message]:
        self.told[(member, unit)] += 1
        (self.active.discard if member == "StopUnit" else self.active.add)(unit)
        self._jobs += 1
        job = f"{MANAGER}/job/{self._jobs}"
        emitter = DBusAddress(MANAGER, bus_name=None, interface=INTERFACE)
        done = new_signal(emitter, "JobRemoved", "uoss", (self._jobs, job, unit, "done"))
        return [new_method_return(message, "o", (job,)), done]

    def _properties(self, unit: str, interface: str) -> dict[str, Any]:
        if interface.endswith(".Service"):
            return {"Result": ("s", "success"), "ExecMainStatus": ("i", 0), "Type": ("s", "simple")}
        runs = unit in self.active
        return {
            "ActiveState": ("s", "active" if runs else "inactive"),
            "SubState": ("s", "running" if runs else "dead"),
            "LoadState": ("s", "loaded"),
            "UnitFileState": ("s", "disabled"),
            "InvocationID": ("ay", bytes(16)),
            "NeedDaemonReload": ("b", unit in self.outdated),
        }


def _authenticate(link: socket.socket) -> bytes:
    """The side of the bus; what came after BEGIN."""
    held = b""
    while b"BEGIN\r\n" not in held:
        data = link.recv(4096)
        if not data:
            raise OSError("gone")
        held += data
        for line in data.replace(b"\0", b"").split(b"\r\n"):
            if line.startswith(b"AUTH"):
                link.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
            elif line.startswith(b"NEGOTIATE_UNIX_FD"):
                link.sendall(b"ERROR\r\n")
    return held.partition(b"BEGIN\r\n")[2]
