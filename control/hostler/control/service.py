"""Opens the control plane, runs it until it is told to stop, and closes it; see `main` for the list of loops."""

import asyncio
import signal

from hostler.base import systemd
from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.base.logs import get_logger
from hostler.control.assembly import GRACE_S, House, HttpServer, build
from hostler.control.config import ControlConfig
from hostler.control.engine import Engine
from hostler.control.kernel.model import Settings
from hostler.control.key_file import KeyFile
from hostler.control.keys import Keys, load_keys
from hostler.control.policy_engine.engine import PolicyEngine

_log = get_logger("hostler.control.service")


async def open_engine(config: ControlConfig, *, recovering: bool = False) -> tuple[Engine, Keys]:
    """Keys first: without them there is no control plane.

    Args:
        recovering: see `Engine.open`.

    Raises:
        HostlerError: `invalid_config`, `store_unavailable`.
    """
    keys = load_keys(config)
    config.store_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = await Engine.open(
        store_path=config.store_path,
        trust=keys.trust,
        older_keysets=keys.keyset_history,
        dispatch_signer=keys.dispatch,
        clock=SystemClock(),
        settings=Settings(
            envelope_window_ms=config.envelope_seconds * 1000,
            start_within_ms=config.start_within_seconds * 1000,
            allocations=config.allocations.settings(),
            log_operation_bytes=config.logs.operation_bytes,
            jobs=config.jobs.settings(),
            launches=config.launches.settings(),
            asks_outside=config.policy_engine is not None,
            agents=config.updates.settings(_url_key(config)),
        ),
        cluster_id=config.cluster_id,
        recovering=recovering,
    )
    engine.published.ca_in_use = frozenset((keys.ca_pem.decode(),))
    return engine, keys


def _url_key(config: ControlConfig) -> bytes:
    """Makes the packages' addresses; where there are none, no key is made."""
    if not config.updates.public_url:
        return b""
    return KeyFile(config.keys / "packages.key", "invalid_config").derived(b"hostler package addresses v1")


async def serve(config: ControlConfig, stop: asyncio.Event | None = None) -> None:
    """Runs until SIGTERM, SIGINT or `stop`, or until a loop fails."""
    engine, keys = await open_engine(config)
    policy_engine = None
    try:
        if config.policy_engine is not None:
            engine.outside = policy_engine = await PolicyEngine.open(config.policy_engine)
        house = build(config, engine, keys)
        try:
            await _run(config, house, policy_engine, stop or asyncio.Event())
        finally:
            for close in house.closing:
                await asyncio.to_thread(close)
    finally:
        if policy_engine is not None:
            await policy_engine.close()
        await engine.close()


async def _run(config: ControlConfig, house: House, policy_engine: PolicyEngine | None, stop: asyncio.Event) -> None:
    _stop_on_signals(stop)
    try:
        for server in house.grpc:
            await server.start()
        _log.info("control.started", http=config.http_listen, node=config.node_listen, enroll=config.enroll_listen)
        systemd.notify("READY=1")
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(_serve_http(each, stop)) for each in house.http]
            by_time = [group.create_task(loop()) for loop in house.loops]
            asking = group.create_task(policy_engine.run()) if policy_engine else None
            await stop.wait()
            systemd.notify("STOPPING=1")
            await _wind_down(house, by_time)
            await asyncio.gather(*serving)
            if asking:
                asking.cancel()
        for say in house.last_words:
            await say()
    finally:
        await asyncio.gather(*(server.stop(None) for server in house.grpc))
    _log.info("control.stopped")


async def _wind_down(house: House, by_time: "list[asyncio.Task[None]]") -> None:
    house.links.close_all()
    house.relays.close_all()
    for each in house.http:
        each.should_exit = True
    for loop in by_time:
        loop.cancel()
    await asyncio.gather(*(server.stop(GRACE_S) for server in house.grpc))


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _serve_http(server: HttpServer, stop: asyncio.Event) -> None:
    try:
        await server.serve()
    except SystemExit as err:  # uvicorn's way to say that it cannot listen
        raise error("invalid_config", f"{server.config.host}:{server.config.port} cannot be listened on") from err
    finally:
        for listening in getattr(server, "servers", ()):
            listening.close()
        stop.set()
