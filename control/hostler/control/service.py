"""Builds the control plane's parts and runs them; see `main` for the list of loops."""

import asyncio
import signal
from typing import Any

import uvicorn

from hostler.base import systemd
from hostler.base.clock import SystemClock
from hostler.base.errors import error
from hostler.base.logs import get_logger
from hostler.base.version import __version__
from hostler.control.api import internal
from hostler.control.api.app import make_app
from hostler.control.api.bundles import Bundles
from hostler.control.api.call import Parts
from hostler.control.api.internal_tls import internal_server
from hostler.control.api.principal import Authenticator, Projects
from hostler.control.api.relay import MAX_MESSAGE
from hostler.control.bundles.files import BundleFiles
from hostler.control.config import ControlConfig, split
from hostler.control.credentials.registry import Minters
from hostler.control.credentials.service import Mints
from hostler.control.engine import Engine
from hostler.control.identity.oidc import Oidc
from hostler.control.kernel.model import Settings
from hostler.control.keys import Keys, load_keys
from hostler.control.loops import bundles as bundle_loop
from hostler.control.loops import checkpoints, endpoints, expire, liveness, prune
from hostler.control.loops.samples import SampleFiler
from hostler.control.loops.traces import Traces
from hostler.control.loops.webhooks import Pace, Webhooks
from hostler.control.metering import Metering
from hostler.control.metrics import Metrics
from hostler.control.policy_engine.engine import PolicyEngine
from hostler.control.rpc.enrolment_service import EnrollmentService
from hostler.control.rpc.identity import Identities
from hostler.control.rpc.ingest import Ingest
from hostler.control.rpc.link import Links
from hostler.control.rpc.namespace_keys import NamespaceKeys
from hostler.control.rpc.node_service import NodeService
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.rpc.relays import Relays
from hostler.control.rpc.server import enrolment_server, node_server
from hostler.control.rpc.task_calls import TaskCalls
from hostler.control.samples import NodeGauges, SampleBoard
from hostler.control.store.samples import SampleFile
from hostler.control.telemetry import open_telemetry
from hostler.control.webhooks.destination import Destinations, networks
from hostler.control.webhooks.send import Sender
from hostler.control.webhooks.signing import WebhookKey
from hostler.pki.authority import Authority

_log = get_logger("hostler.control.service")
_GRACE_S = 2.0


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
            asks_outside=config.policy_engine is not None,
        ),
        cluster_id=config.cluster_id,
        recovering=recovering,
    )
    engine.published.ca_in_use = frozenset((keys.ca_pem.decode(),))
    return engine, keys


class _Http(uvicorn.Server):
    """Leaves signals to us: one place decides when everything stops."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


async def serve(config: ControlConfig, stop: asyncio.Event | None = None) -> None:
    """Runs until SIGTERM, SIGINT or `stop`, or until a loop fails."""
    engine, keys = await open_engine(config)
    policy_engine = None
    try:
        if config.policy_engine is not None:
            engine.outside = policy_engine = await PolicyEngine.open(config.policy_engine)
        await _run(config, engine, keys, policy_engine, stop or asyncio.Event())
    finally:
        if policy_engine is not None:
            await policy_engine.close()
        await engine.close()


async def _run(
    config: ControlConfig, engine: Engine, keys: Keys, policy_engine: PolicyEngine | None, stop: asyncio.Event
) -> None:
    clock, links, metrics = SystemClock(), Links(), Metrics()
    board = ProgressBoard(clock)
    engine.watch(Metering(metrics).take)
    trust_domain, cas = keys.trust.keyset.trust_domain, keys.trust.keyset.ca_certificates
    authority = Authority(keys.ca, keys.ca_pem, trust_domain)
    engine.wakes.revoked(lambda node_id: links.close_node(node_id, "revoked", "the node is revoked"))
    relays = Relays(metrics, clock, config.relay_idle_seconds)
    engine.wakes.revoked(lambda node_id: relays.close_node(node_id, "revoked", "the node is revoked"))
    identities = Identities(engine, trust_domain, clock)
    mints = Mints(engine, Minters(config.minters), keys.dispatch, metrics)
    code_bundles = BundleFiles(config.store_path.parent / "bundles", config.bundles)
    samples = SampleBoard(clock, keep=bool(config.node_telemetry_hours), shown=config.node_telemetry_series)
    sample_file = SampleFile(config.samples_path) if config.node_telemetry_hours else None
    metrics.registry.register(NodeGauges(samples))
    nodes = NodeService(
        engine=engine,
        identities=identities,
        authority=authority,
        links=links,
        board=board,
        clock=clock,
        heartbeat_s=config.heartbeat_seconds,
        certificate_s=config.certificate_seconds,
        metrics=metrics,
        mints=mints,
        bundles=code_bundles,
        task_calls=TaskCalls(engine, board, clock, NamespaceKeys(config.keys / "namespace.key")),
        relays=relays,
        ingest=Ingest(clock, config.logs.node_bytes_per_second, config.logs.total_bytes_per_second),
        samples=samples,
    )
    enrolment = EnrollmentService(engine, authority, clock, config.certificate_seconds, config.recovery_days, metrics)
    node_grpc = node_server(nodes, config.node_listen, keys.server_key_pem, keys.server_chain_pem, cas)
    enrol_grpc = enrolment_server(enrolment, config.enroll_listen, keys.server_key_pem, keys.server_chain_pem)
    bundles = Bundles(trust_domain, lambda: [keyset for _, keyset in engine.published.keysets])
    reader = engine.reader
    oidc = Oidc(config.oidc) if config.oidc else None
    authenticator, projects = Authenticator(reader.principal, oidc), Projects(reader.org_of_project)
    telemetry = open_telemetry(config.telemetry_endpoint)
    sender = Sender(
        WebhookKey(config.keys / "webhook.key"),
        Destinations(networks(config.webhook_allowed_networks)),
        clock,
        config.webhook_ca_file,
    )
    webhooks = Webhooks(engine, sender, metrics, Pace(park_s=config.webhook_park_hours * 3600))
    parts = Parts(
        engine,
        board,
        authenticator,
        projects,
        links,
        bundles,
        metrics,
        sender,
        code_bundles,
        relays,
        telemetry,
        samples,
        sample_file,
    )
    traces = Traces(engine, telemetry) if telemetry else None
    if traces:
        engine.watch(traces.take)
    http = [_http_server(config, parts)]
    if config.internal_listen:
        http.append(_Http(internal_server(config, keys, internal.make_app(identities, mints))))
    _stop_on_signals(stop)
    try:
        await node_grpc.start()
        await enrol_grpc.start()
        _log.info("control.started", http=config.http_listen, node=config.node_listen, enroll=config.enroll_listen)
        systemd.notify("READY=1")
        async with asyncio.TaskGroup() as group:
            serving = [group.create_task(_serve_http(each, stop)) for each in http]
            by_time = [
                group.create_task(expire.run(engine)),
                group.create_task(endpoints.run(engine)),
                group.create_task(checkpoints.run(engine, config.checkpoint_seconds)),
                group.create_task(webhooks.run()),
                group.create_task(bundle_loop.run(engine, code_bundles)),
                group.create_task(prune.run(engine, config.logs.keep_days)),
                group.create_task(liveness.run(nodes.sweep, config.heartbeat_seconds)),
            ]
            if sample_file:
                keep_ms = config.node_telemetry_hours * 3_600_000
                filer = SampleFiler(samples, sample_file, clock, keep_ms, config.node_telemetry_rows)
                by_time.append(group.create_task(filer.run()))
            if traces:
                by_time.append(group.create_task(traces.run()))
            asking = group.create_task(policy_engine.run()) if policy_engine else None
            await stop.wait()
            systemd.notify("STOPPING=1")
            links.close_all()
            relays.close_all()
            for each in http:
                each.should_exit = True
            for loop in by_time:
                loop.cancel()
            await asyncio.gather(node_grpc.stop(_GRACE_S), enrol_grpc.stop(_GRACE_S))
            await asyncio.gather(*serving)
            if asking:
                asking.cancel()
        if traces:
            await traces.drain()
    finally:
        await asyncio.gather(node_grpc.stop(None), enrol_grpc.stop(None))
        if telemetry:
            await asyncio.to_thread(telemetry.close)
        if sample_file:
            await asyncio.to_thread(sample_file.close)
    _log.info("control.stopped")


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


def _http_server(config: ControlConfig, parts: Parts) -> _Http:
    host, port = split(config.http_listen)
    settings = uvicorn.Config(
        make_app(parts, __version__),
        host=host,
        port=port,
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_per_message_deflate=False,
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        server_header=False,
        ssl_certfile=config.http_tls_certificate or None,
        ssl_keyfile=config.http_tls_key or None,
        timeout_graceful_shutdown=int(_GRACE_S),
    )
    return _Http(settings)


async def _serve_http(server: _Http, stop: asyncio.Event) -> None:
    try:
        await server.serve()
    except SystemExit as err:  # uvicorn's way to say that it cannot listen
        raise error("invalid_config", f"{server.config.host}:{server.config.port} cannot be listened on") from err
    finally:
        for listening in getattr(server, "servers", ()):
            listening.close()
        stop.set()
