"""Traces to an OpenTelemetry collector (OB-02). Nothing of OpenTelemetry is imported unless one is configured."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hostler.base.errors import HostlerError, error
from hostler.base.version import __version__

_NANOS = 1_000_000


class Telemetry:
    """Spans under a W3C `traceparent`. Made by `open_telemetry`; closed once, with `close`, off the loop."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("hostler.control", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, traceparent: str, attributes: Mapping[str, str] | None = None) -> Iterator[str]:
        """What happens inside, as a child of `traceparent` or as a trace of its own; yields the span's own."""
        span = self._tracer.start_span(name, context=self._context(traceparent), attributes=attributes)
        try:
            yield self._text(span)
        except HostlerError as err:
            span.set_attribute("error_code", err.code)
            raise
        finally:
            span.end()

    def past(self, name: str, traceparent: str, began_ms: int, ended_ms: int, attributes: Mapping[str, Any]) -> str:
        """A span of something that is over, by the times it was told with; its own traceparent is the answer."""
        span = self._tracer.start_span(
            name, context=self._context(traceparent), attributes=attributes, start_time=began_ms * _NANOS
        )
        span.end(max(began_ms, ended_ms) * _NANOS)
        return self._text(span)

    def close(self) -> None:
        """Sends what is left; blocks while it does."""
        self._provider.shutdown()

    def _context(self, traceparent: str) -> Any:
        """A malformed one counts as none."""
        return self._propagator.extract({"traceparent": traceparent})

    def _text(self, span: Any) -> str:
        from opentelemetry.trace import set_span_in_context

        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, context=set_span_in_context(span))
        return carrier.get("traceparent", "")


def open_telemetry(endpoint: str) -> Telemetry | None:
    """None without an endpoint (OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces).

    Raises:
        HostlerError: `invalid_config` when the extra `telemetry` is not installed.
    """
    if not endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as err:
        message = "telemetry_endpoint is set, and OpenTelemetry is not installed"
        raise error("invalid_config", message, hint="pip install 'hostler[control,telemetry]'") from err
    resource = Resource.create({"service.name": "hostler-control", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=10)))
    return Telemetry(provider)
