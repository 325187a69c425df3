"""OB-02: one trace id from the request over store and stream to each step, at a collector that speaks OTLP."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hostler.base.errors import HostlerError
from hostler.control.telemetry import open_telemetry
from support.builders import definition, render_step
from support.plane import operations, plane, submission

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Collector:
    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}/v1/traces"
        self.bodies: list[bytes] = []

    def spans(self) -> list[Any]:
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            made.bodies.append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("given", [f"00-{TRACE}-00f067aa0ba902b7-01", "", "no traceparent at all"])
async def test_OB_02_one_trace_id_is_in_all_spans_of_an_operation(given: str, collector, tmp_path: Path) -> None:
    async with plane(tmp_path, telemetry_endpoint=collector.endpoint) as control:
        await control.publish(definition(render_step("one"), render_step("two", path="/srv/app/two")))
        node = await control.enroll()
        async with node.session() as session:
            made = await control.http.post(operations(), json=submission(node), headers={"traceparent": given})
            (spec,) = await session.take()
            await session.report(node.finished(spec))
        operation = await control.operation(made.json()["operation_id"])
        assert operation["status"] == "succeeded"
        while sum(span.name.startswith("step ") for span in collector.spans()) < 2:
            await asyncio.sleep(0.05)  # spans go out in their own time; pytest's timeout is the limit
    trace = spec.traceparent.split("-")[1]
    if TRACE in given:
        assert trace == TRACE
    spans = {span.name: span for span in collector.spans() if span.trace_id.hex() == trace}
    steps = [span for span in collector.spans() if span.name.startswith("step ") and span.trace_id.hex() == trace]
    assert {"api operations.submit", "store SubmitOperation", "stream", "task"} <= set(spans)
    assert len(steps) == 2
    assert {span.parent_span_id for span in steps} == {spans["task"].span_id}
    assert spans["task"].parent_span_id == spans["stream"].span_id
    assert spans["stream"].parent_span_id == spans["api operations.submit"].span_id
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans.values())
    carried = {item.key: item.value.string_value for item in steps[0].attributes}
    assert carried["operation_id"] == operation["operation_id"]
    assert carried["step_kind"] == "file.render"


def test_OB_02_nothing_is_imported_where_no_endpoint_is_configured() -> None:
    code = (
        "import sys, hostler.control.service\n"
        "from hostler.control.telemetry import open_telemetry\n"
        "assert open_telemetry('') is None\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_endpoint_without_the_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(HostlerError) as caught:
        open_telemetry("http://127.0.0.1:4318/v1/traces")
    assert caught.value.code == "invalid_config"
    assert "hostler[control,telemetry]" in caught.value.hint
