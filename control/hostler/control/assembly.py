"""Builds the control plane's parts, each from the configuration and those before it. Nothing runs yet."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from hostler.base.clock import SystemClock
from hostler.base.version import __version__
from hostler.control.api import internal
from hostler.control.api.app import make_app
from hostler.control.api.bundles import Bundles
from hostler.control.api.call import Parts
from hostler.control.api.internal_tls import internal_server
from hostler.control.api.lines import Lines
from hostler.control.api.principal import Authenticator, Projects
from hostler.control.api.relay import MAX_MESSAGE
from hostler.control.bundles.files import BundleFiles
from hostler.control.config import ControlConfig, split
from hostler.control.credentials.registry import Minters
from hostler.control.credentials.service import Mints
from hostler.control.delivery.packages import Packages
from hostler.control.engine import Engine
from hostler.control.identity.oidc import Oidc
from hostler.control.keys import Keys
from hostler.control.loops import agents, checkpoints, endpoints, expire, liveness, prune
from hostler.control.loops import bundles as bundle_loop
from hostler.control.loops import packages as package_loop
from hostler.control.loops.samples import SampleFiler
from hostler.control.loops.traces import Traces
from hostler.control.loops.webhooks import Pace, Webhooks
from hostler.control.metering import Metering
from hostler.control.metrics import Metrics
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

GRACE_S = 2.0
Loop = Callable[[], Coroutine[Any, Any, None]]


class HttpServer(uvicorn.Server):
    """Leaves signals to us: one place decides when everything stops."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


@dataclass
class House:
    """What is started, in what order it is stopped, and what is closed at the end.

    Attributes:
        loops: ended first; see `main` for what each does.
        last_words: after everything has stopped.
        closing: whatever happened.
    """

    links: Links
    relays: Relays
    grpc: tuple[Any, Any]
    http: list[HttpServer]
    loops: list[Loop] = field(default_factory=list)
    last_words: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    closing: list[Callable[[], None]] = field(default_factory=list)


def build(config: ControlConfig, engine: Engine, keys: Keys) -> House:
    clock, links, metrics = SystemClock(), Links(), Metrics()
    board, relays = ProgressBoard(clock), Relays(metrics, clock, config.relay_idle_seconds)
    engine.watch(Metering(metrics).take)
    engine.wakes.revoked(lambda node_id: links.close_node(node_id, "revoked", "the node is revoked"))
    engine.wakes.revoked(lambda node_id: relays.close_node(node_id, "revoked", "the node is revoked"))
    identities = Identities(engine, keys.trust.keyset.trust_domain, clock)
    mints = Mints(engine, Minters(config.minters), keys.dispatch, metrics)
    code = BundleFiles(config.store_path.parent / "bundles", config.bundles)
    samples = SampleBoard(clock, keep=bool(config.node_telemetry_hours), shown=config.node_telemetry_series)
    metrics.registry.register(NodeGauges(samples))
    authority = Authority(keys.ca, keys.ca_pem, keys.trust.keyset.trust_domain)
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
        bundles=code,
        task_calls=TaskCalls(engine, board, clock, NamespaceKeys(config.keys / "namespace.key")),
        relays=relays,
        ingest=Ingest(clock, config.logs.node_bytes_per_second, config.logs.total_bytes_per_second),
        samples=samples,
    )
    enrolment = EnrollmentService(engine, authority, clock, config.certificate_seconds, config.recovery_days, metrics)
    sender = Sender(
        WebhookKey(config.keys / "webhook.key"),
        Destinations(networks(config.webhook_allowed_networks)),
        clock,
        config.webhook_ca_file,
    )
    packages = Packages(config.packages, config.updates)
    telemetry = open_telemetry(config.telemetry_endpoint)
    sample_file = SampleFile(config.samples_path) if config.node_telemetry_hours else None
    parts = Parts(
        engine=engine,
        board=board,
        authenticator=Authenticator(engine.reader.principal, Oidc(config.oidc) if config.oidc else None),
        projects=Projects(engine.reader.org_of_project),
        links=links,
        bundles=Bundles(keys.trust.keyset.trust_domain, lambda: [keyset for _, keyset in engine.published.keysets]),
        metrics=metrics,
        webhooks=sender,
        code_bundles=code,
        relays=relays,
        lines=Lines(relays),
        telemetry=telemetry,
        samples=samples,
        sample_file=sample_file,
        packages=packages,
    )
    house = House(links, relays, _grpc(config, keys, nodes, enrolment), [_http(config, parts)])
    if config.internal_listen:
        house.http.append(HttpServer(internal_server(config, keys, internal.make_app(identities, mints))))
    webhooks = Webhooks(engine, sender, metrics, Pace(park_s=config.webhook_park_hours * 3600))
    house.loops += [
        lambda: expire.run(engine),
        lambda: agents.run(engine),
        lambda: endpoints.run(engine),
        lambda: checkpoints.run(engine, config.checkpoint_seconds),
        webhooks.run,
        lambda: bundle_loop.run(engine, code),
        lambda: package_loop.run(packages, clock),
        lambda: prune.run(engine, config.logs.keep_days, config.jobs.keep_days),
        lambda: liveness.run(nodes.sweep, config.heartbeat_seconds),
    ]
    if sample_file:
        keep_ms = config.node_telemetry_hours * 3_600_000
        house.loops.append(SampleFiler(samples, sample_file, clock, keep_ms, config.node_telemetry_rows).run)
        house.closing.append(sample_file.close)
    if telemetry:
        traces = Traces(engine, telemetry)
        engine.watch(traces.take)
        house.loops.append(traces.run)
        house.last_words.append(traces.drain)
        house.closing.append(telemetry.close)
    return house


def _grpc(config: ControlConfig, keys: Keys, nodes: NodeService, enrolment: EnrollmentService) -> tuple[Any, Any]:
    cas = keys.trust.keyset.ca_certificates
    return (
        node_server(nodes, config.node_listen, keys.server_key_pem, keys.server_chain_pem, cas),
        enrolment_server(enrolment, config.enroll_listen, keys.server_key_pem, keys.server_chain_pem),
    )


def _http(config: ControlConfig, parts: Parts) -> HttpServer:
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
        timeout_graceful_shutdown=int(GRACE_S),
    )
    return HttpServer(settings)
