"""What Prometheus scrapes at `/metrics`. Labels are route names and statuses, never ids (style: a fixed set)."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hostler.control.lifecycle_metrics import LifecycleMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_STEP_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14_400)


class Metrics:
    """One set per process; each part adds to its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("hostler_http_requests", "HTTP answers", ("route", "status"), registry=registry)
        self.request_seconds = Histogram(
            "hostler_http_request_seconds", "Time to the answer", ("route",), buckets=_SECONDS, registry=registry
        )
        self.sessions = Gauge("hostler_node_sessions", "Open node sessions", registry=registry)
        self.open_tasks = Gauge("hostler_open_tasks", "Tasks that have not ended", ("state",), registry=registry)
        self.store_healthy = Gauge("hostler_store_healthy", "1 while the store takes writes", registry=registry)
        self.envelopes = Counter("hostler_envelopes_sent", "Signed envelopes sent, repeats too", registry=registry)
        self.reports = Counter("hostler_reports_folded", "Report rows taken from nodes", registry=registry)
        self.enrolments = Counter("hostler_enrolments", "Enrolments by result", ("result",), registry=registry)
        self.mint_denied = Counter(
            "credential_mint_denied",
            "Requests for credentials that were refused, by error code",
            ("reason",),
            registry=registry,
        )
        self.minted = Counter(
            "hostler_credentials_minted", "Credentials issued", ("credential_type",), registry=registry
        )
        self.checkpoint_age = Gauge(
            "hostler_audit_checkpoint_age_seconds", "Since the newest checkpoint, NaN for none", registry=registry
        )
        self.witnessed_age = Gauge(
            "hostler_audit_witnessed_age_seconds",
            "Since the newest checkpoint that a witness has countersigned was made, NaN for none",
            registry=registry,
        )
        self.unwitnessed = Gauge(
            "hostler_audit_unwitnessed_checkpoints", "Checkpoints that no witness has seen yet", registry=registry
        )

        self.events = Counter("hostler_events", "Events written to the log", ("type",), registry=registry)
        self.operations = Counter(
            "hostler_operations_finished", "Attempts of operations that ended", ("status",), registry=registry
        )
        self.steps = Counter(
            "hostler_steps_finished", "Steps that ended on a node", ("step_kind", "status"), registry=registry
        )
        self.step_seconds = Histogram(
            "hostler_step_seconds", "How long steps took", ("step_kind",), buckets=_STEP_SECONDS, registry=registry
        )

        self.webhook_deliveries = Counter(
            "hostler_webhook_deliveries", "Attempts to tell receivers of events", ("result",), registry=registry
        )
        self.lifecycle = LifecycleMetrics(registry)

        self.relays = Gauge("hostler_relay_open", "Relays asked for or in use", registry=registry)
        self.relay_sessions = Counter(
            "hostler_relay_sessions", "Relays that ended, used or not", ("result",), registry=registry
        )
        self.relay_bytes = Counter("hostler_relay_bytes", "Bytes carried", ("direction",), registry=registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
