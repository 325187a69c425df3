"""Units, asked of systemd over D-Bus, and told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# jeepney ships no types
from jeepney import (  # type: ignore[import-untyped]
    DBusAddress,
    MatchRule,
    MessageType,
    Properties,
    message_bus,
    new_method_call,
)
from jeepney.auth import AuthenticationError  # type: ignore[import-untyped]
from jeepney.io.asyncio import DBusRouter, open_dbus_connection  # type: ignore[import-untyped]

from hostler.base.errors import HostlerError, error

SOCKET = "run/dbus/system_bus_socket"
MANAGER = ("/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager")
UNIT = "org.freedesktop.systemd1.Unit"
SERVICE = "org.freedesktop.systemd1.Service"
METHODS = {"start": "StartUnit", "stop": "StopUnit", "restart": "RestartUnit"}
MOST_SIGNALS = 4096  # jobs of other units that end meanwhile; more are dropped, the oldest first


@dataclass(frozen=True)
class UnitState:
    """systemd's words: active, failed, ...; running, dead, ...; loaded, not-found, ...

    Attributes:
        enabled: enabled, disabled, static, masked, ...; "" for a unit without a file.
        invocation: hex id of the unit's present or last run; another one after every start.
        result: success, exit-code, timeout, ...; "" for units that have none.
        exit_status: of the main process's last end.
        oneshot: it is done when its process has ended well.
        said: what the service itself says about its state.
    """

    active: str
    sub: str
    load: str
    enabled: str = ""
    invocation: str = ""
    result: str = ""
    exit_status: int = 0
    oneshot: bool = False
    said: str = ""


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
            return await _state(router, unit)

    async def run_job(self, unit: str, action: str) -> str:
        """Starts, stops or restarts a unit and waits for the end of the job, however long it takes.

        Args:
            action: `start`, `stop` or `restart`.

        Returns:
            How the job ended, in systemd's words: done, failed, timeout, dependency, canceled, skipped.

        Raises:
            HostlerError: `not_found` when systemd refuses.
        """
        path, bus, interface = MANAGER
        names = {"type": "signal", "interface": interface, "member": "JobRemoved", "path": path}
        async with self._bus() as router:
            # the bus lets only systemd's own through; here they come under the name of its connection
            with router.filter(MatchRule(**names), bufsize=MOST_SIGNALS) as ended:
                await _call(router, message_bus.AddMatch(MatchRule(**names, sender=bus)))
                await _manager(router, "Subscribe")
                job = await _order(router, unit, action)
                while True:
                    _, removed, _, result = (await ended.get()).body
                    if removed == job:
                        return str(result)

    async def begin(self, unit: str, action: str) -> None:
        """The same, and leaves systemd to it: for whoever would be stopped by the job itself.

        Raises:
            HostlerError: `not_found` when systemd refuses.
        """
        async with self._bus() as router:
            await _order(router, unit, action)

    async def enable(self, unit: str, *, wanted: bool) -> None:
        """Has the unit start at boot, or not. Raises `not_found` when systemd refuses."""
        async with self._bus() as router:
            if wanted:
                await _manager(router, "EnableUnitFiles", "asbb", ([unit], False, False))
            else:
                await _manager(router, "DisableUnitFiles", "asb", ([unit], False))
            await _manager(router, "Reload")

    async def stop(self, unit: str) -> None:
        """Stops a unit and waits until systemd has done it; nothing for one that it does not know.

        Raises:
            HostlerError: `not_found` when no systemd answers here.
        """
        if (await self.unit_state(unit)).load != "not-found":
            await self.run_job(unit, "stop")

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[DBusRouter]:
        try:
            connection = await open_dbus_connection(f"unix:path={_escaped(str(self._socket))}")
        except (OSError, EOFError, AuthenticationError) as err:
            raise error("not_found", f"no systemd answers at {self._socket}") from err
        async with connection, DBusRouter(connection) as router:
            yield router


async def _state(router: DBusRouter, unit: str) -> UnitState:
    (object_path,) = await _manager(router, "LoadUnit", "s", (unit,))
    found = await _all(router, object_path, UNIT)
    more: dict[str, Any] = {}
    if unit.endswith(".service"):
        more = await _all(router, object_path, SERVICE)
    return UnitState(
        found["ActiveState"][1],
        found["SubState"][1],
        found["LoadState"][1],
        enabled=str(_value(found, "UnitFileState", "")),
        invocation=bytes(_value(found, "InvocationID", b"")).hex(),
        result=str(_value(more, "Result", "")),
        exit_status=int(_value(more, "ExecMainStatus", 0)),
        oneshot=_value(more, "Type", "") == "oneshot",
        said=str(_value(more, "StatusText", ""))[:200],
    )


async def _order(router: DBusRouter, unit: str, action: str) -> str:
    """→ the job, queued once systemd has read a unit's file as it is now."""
    if action != "stop" and await _is_outdated(router, unit):
        await _manager(router, "Reload")
    (job,) = await _manager(router, METHODS[action], "ss", (unit, "replace"))
    return str(job)


async def _is_outdated(router: DBusRouter, unit: str) -> bool:
    """Whether its file has changed since systemd read it: what it starts would be of before."""
    (object_path,) = await _manager(router, "LoadUnit", "s", (unit,))
    return bool(_value(await _all(router, object_path, UNIT), "NeedDaemonReload", False))


async def _all(router: DBusRouter, object_path: str, interface: str) -> dict[str, Any]:
    address = DBusAddress(object_path, bus_name=MANAGER[1], interface=interface)
    (found,) = await _call(router, Properties(address).get_all())
    properties: dict[str, Any] = found
    return properties


def _value(found: dict[str, Any], name: str, default: Any) -> Any:
    return found[name][1] if name in found else default


async def _manager(router: DBusRouter, method: str, signature: str = "", body: tuple[Any, ...] = ()) -> Any:
    path, bus, interface = MANAGER
    address = DBusAddress(path, bus_name=bus, interface=interface)
    return await _call(router, new_method_call(address, method, signature or None, body))


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
