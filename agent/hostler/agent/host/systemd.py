"""Units, asked of systemd over D-Bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# jeepney ships no types
from jeepney import DBusAddress, MessageType, Properties, new_method_call  # type: ignore[import-untyped]
from jeepney.auth import AuthenticationError  # type: ignore[import-untyped]
from jeepney.io.asyncio import DBusRouter, open_dbus_connection  # type: ignore[import-untyped]

from hostler.base.errors import HostlerError, error

SOCKET = "run/dbus/system_bus_socket"
MANAGER = ("/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager")
UNIT = "org.freedesktop.systemd1.Unit"
JOB_LOOK_S = 0.05


@dataclass(frozen=True)
class UnitState:
    """systemd's words: active, failed, ...; running, dead, ...; loaded, not-found, ..."""

    active: str
    sub: str
    load: str


class Systemd:
    """A connection for each question: they are rare, and the bus may restart between two."""

    def __init__(self, root: Path) -> None:
        self._socket = root / SOCKET

    async def unit_state(self, unit: str) -> UnitState:
        """Waits as long as the caller lets it.

        Raises:
            HostlerError: `not_found` when no systemd answers here, or it does not know the unit's name
                as one.
        """
        async with self._bus() as router:
            path, bus, interface = MANAGER
            manager = DBusAddress(path, bus_name=bus, interface=interface)
            (object_path,) = await _call(router, new_method_call(manager, "LoadUnit", "s", (unit,)))
            properties = Properties(DBusAddress(object_path, bus_name=bus, interface=UNIT))
            (found,) = await _call(router, properties.get_all())
            return UnitState(found["ActiveState"][1], found["SubState"][1], found["LoadState"][1])

    async def stop(self, unit: str) -> None:
        """Stops a unit and waits until systemd has done it; nothing for one that it does not know.

        Raises:
            HostlerError: `not_found` when no systemd answers here.
        """
        async with self._bus() as router:
            path, bus, interface = MANAGER
            manager = DBusAddress(path, bus_name=bus, interface=interface)
            reply = await router.send_and_get_reply(new_method_call(manager, "StopUnit", "ss", (unit, "replace")))
            if reply.header.message_type is MessageType.error:
                return
            while (await self._job_of(router, unit)) != 0:  # noqa: ASYNC110  # a job that ended leaves no signal to us
                await asyncio.sleep(JOB_LOOK_S)

    async def _job_of(self, router: DBusRouter, unit: str) -> int:
        path, bus, interface = MANAGER
        manager = DBusAddress(path, bus_name=bus, interface=interface)
        reply = await router.send_and_get_reply(new_method_call(manager, "GetUnit", "s", (unit,)))
        if reply.header.message_type is MessageType.error:
            return 0
        properties = Properties(DBusAddress(reply.body[0], bus_name=bus, interface=UNIT))
        (job,) = await _call(router, properties.get("Job"))
        return int(job[1][0])

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[DBusRouter]:
        try:
            connection = await open_dbus_connection(f"unix:path={_escaped(str(self._socket))}")
        except (OSError, EOFError, AuthenticationError) as err:
            raise error("not_found", f"no systemd answers at {self._socket}") from err
        async with connection, DBusRouter(connection) as router:
            yield router


def _escaped(path: str) -> str:
    """D-Bus addresses separate their parts with characters a path may hold."""
    return "".join(c if c.isalnum() or c in "-_/.\\*" else f"%{ord(c):02x}" for c in path)


async def _call(router: DBusRouter, message: Any) -> Any:
    reply = await router.send_and_get_reply(message)
    if reply.header.message_type is MessageType.error:
        raise _refused(reply.body)
    return reply.body


def _refused(body: tuple[Any, ...]) -> HostlerError:
    said = str(body[0])[:200] if body else "no reason given"
    return error("not_found", f"systemd refuses: {said}")
