"""A stand-in of the jobs API over real HTTP, for the command line: jobs that do what a test tells them.

Bundles are kept as the real control plane keeps them: by digest, checked. Other answers have the real shapes.
"""

import hashlib
import http.server
import json
import re
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from hostler.catalog.job import JobSpec, path_of

BASE = "/api/v1/projects/train"
NOW = 1_800_000_000_000
_JOB = re.compile(r"/jobs/(.+?)(?:/(tasks|explain|wait|cancel))?")


@dataclass
class Fate:
    """What becomes of the next job: exit codes by task, and its lines as (task, stream, text)."""

    codes: list[int] = field(default_factory=lambda: [0])
    lines: list[tuple[int, str, str]] = field(default_factory=list)
    waits: int = 0  # how often `wait` answers that it still runs


class JobsApi(AbstractContextManager["JobsApi"]):
    """`submitted` are the bodies of all submits; `called` method and path of every request."""

    def __init__(self) -> None:
        self.fate = Fate()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.fates: dict[str, Fate] = {}
        self.submitted: list[dict[str, Any]] = []
        self.bundles: dict[str, bytes] = {}
        self.lost: int = 0  # how many submits find their bundle gone
        self.called: list[tuple[str, str]] = []
        self.explained: dict[str, Any] = {}

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def submit(self, body: dict[str, Any]) -> tuple[int, Any]:
        self.submitted.append(dict(body))
        parent = body.pop("parent", "")
        body.pop("idempotency_key")
        spec = msgspec.convert(body, JobSpec)
        if spec.bundle and (self.lost or spec.bundle not in self.bundles):
            self.lost, _ = max(0, self.lost - 1), self.bundles.pop(spec.bundle, None)
            return 422, _problem(422, "bundle_missing")
        job_id = f"op_{len(self.jobs) + 1}"
        codes = (self.fate.codes * spec.replicas)[: spec.replicas]
        failed = sum(code != 0 for code in codes)
        self.fates[job_id] = self.fate
        self.jobs[job_id] = {
            "job_id": job_id, "name": path_of("ann", spec.name, parent), "parent": parent, "root": "", "user": "ann",
            "state": "failed" if failed else "succeeded", "reason": "a task failed" if failed else "",
            "priority": spec.priority, "replicas": spec.replicas, "failures": failed, "preemptions": 0,
            "tasks": {"pending": 0, "running": 0, "succeeded": len(codes) - failed, "failed": failed, "canceled": 0},
            "created_at_ms": NOW, "started_at_ms": NOW + 1000, "finished_at_ms": NOW + 66_000,
            "spec": msgspec.to_builtins(spec), "codes": codes,
        }  # fmt: skip
        return 202, {"job_id": job_id, "name": self.jobs[job_id]["name"], "created": True, "correlation_id": "c"}

    def named(self, text: str) -> dict[str, Any] | None:
        """By id, or by path."""
        return next((job for job in self.jobs.values() if text in (job["job_id"], job["name"])), None)

    def tasks(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "task_index": index, "task_id": f"tsk_{job['job_id']}_{index}", "node_id": "nod_1", "node": "gpu-1",
                "state": "failed" if code else "succeeded", "attempt_number": 1, "attempt_uid": f"att_{index}",
                "exit_code": code, "error_code": "exit_status" if code else "",
                "error_message": f"the command ended with {code}" if code else "", "reason": "", "failures": 0,
                "preemptions": 0, "attempts": [{"attempt_number": 1, "attempt_uid": f"att_{index}"}],
            }
            for index, code in enumerate(job["codes"])
        ]  # fmt: skip

    def lines(self, job_id: str) -> list[dict[str, Any]]:
        return [
            {
                "id": number, "operation_id": job_id, "task_id": f"tsk_{job_id}_{task}", "node_id": "nod_1",
                "node_name": "gpu-1", "attempt_uid": f"att_{task}", "step_id": "run", "step_index": 0,
                "stream": stream, "text": text, "at_ms": NOW + number,
            }
            for number, (task, stream, text) in enumerate(self.fates[job_id].lines, 1)
        ]  # fmt: skip


def _problem(status: int, code: str) -> dict[str, Any]:
    return {"type": "about:blank", "title": code, "status": status, "detail": f"it is {code}", "error_code": code}


class _Handler(http.server.BaseHTTPRequestHandler):
    api: JobsApi
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", "0")))

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path, query = unquote(split.path).removeprefix(BASE), parse_qs(split.query)
        self.api.called.append(("GET", path))
        if path == "/jobs":
            (state,), (prefix,) = query.get("state", [""]), query.get("prefix", [""])
            found_jobs = [
                job
                for job in reversed(self.api.jobs.values())
                if state in ("", job["state"]) and f"{job['name']}/".startswith(f"{prefix}/" if prefix else "")
            ]
            return self._answer(200, {"items": found_jobs, "next_cursor": ""})
        if path == "/bundles":
            kept = [
                {"sha256": name, "size_bytes": len(data), "created_by": "ann", "created_at_ms": 1, "last_used_ms": 1}
                for name, data in self.api.bundles.items()
            ]
            return self._answer(200, {"items": kept, "next_cursor": ""})
        if found := re.fullmatch(r"/bundles/(\w+)", path):
            there = found[1] in self.api.bundles
            return self._answer(*((200, {"sha256": found[1]}) if there else (404, _problem(404, "not_found"))))
        if (found := re.fullmatch(r"/operations/(\w+)/logs", path)) and found[1] in self.api.jobs:
            return self._logs(found[1], query)
        if (found := _JOB.fullmatch(path)) and (job := self.api.named(found[1])):
            return self._job(job, found[2] or "")
        return self._answer(404, _problem(404, "not_found"))

    def _job(self, job: dict[str, Any], part: str) -> None:
        if part == "tasks":
            return self._answer(200, {"items": self.api.tasks(job), "next_cursor": ""})
        if part == "explain":
            return self._answer(200, self.api.explained)
        fate = self.api.fates[job["job_id"]]
        if part == "wait" and fate.waits:
            fate.waits -= 1
            return self._answer(200, job | {"state": "running"})
        return self._answer(200, job)

    def _logs(self, job_id: str, query: dict[str, list[str]]) -> None:
        task, attempt = query.get("task_index", [""])[0], query.get("attempt", ["1"])[0]
        lines = [line for line in self.api.lines(job_id) if line["task_id"].endswith(f"_{task}" if task else "")]
        lines = lines if attempt == "1" else []
        if query.get("follow") != ["true"]:
            self._answer(200, {"items": lines, "next_cursor": ""})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for line in lines:
            self.wfile.write(f"id: {line['id']}\nevent: log\ndata: {json.dumps(line)}\n\n".encode())
        self.wfile.write(b'event: end\ndata: {"status": "succeeded"}\n\n')
        self.close_connection = True

    def do_POST(self) -> None:
        path = unquote(self.path).removeprefix(BASE)
        self.api.called.append(("POST", path))
        body = self._body()
        if path == "/jobs":
            return self._answer(*self.api.submit(json.loads(body)))
        found = _JOB.fullmatch(path)
        job = self.api.named(found[1]) if found and found[2] == "cancel" else None
        return self._answer(*((202, {"job_id": job["job_id"]}) if job else (404, _problem(404, "not_found"))))

    def do_PUT(self) -> None:
        path = unquote(self.path).removeprefix(BASE)
        self.api.called.append(("PUT", path))
        name, data = path.removeprefix("/bundles/"), self._body()
        if hashlib.sha256(data).hexdigest() != name:
            return self._answer(422, _problem(422, "bundle_digest"))
        self.api.bundles[name] = data
        return self._answer(201, {"sha256": name, "size_bytes": len(data), "created": True})

    def do_DELETE(self) -> None:
        path = unquote(self.path).removeprefix(BASE)
        self.api.called.append(("DELETE", path))
        there = self.api.bundles.pop(path.removeprefix("/bundles/"), None) is not None
        return self._answer(200 if there else 404, {"sha256": "x"} if there else _problem(404, "not_found"))
