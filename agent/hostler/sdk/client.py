"""Speaks HTTP/1.1 to the task API over its unix socket; one connection a request."""

from __future__ import annotations

import http.client
import json
import os
import socket
from typing import Any
from urllib.parse import quote, urlencode

from hostler.sdk.errors import ApiError, ControllerUnreachable, SdkError

_SCHEME = "unix://"
_LONGEST = 100  # bytes that surely fit into the address of a unix socket


class TaskClient:
    """`address` is what HOSTLER_CONTROLLER_ADDRESS says. Safe to use from many threads."""

    def __init__(self, address: str, timeout_s: float = 45.0) -> None:
        if not address.startswith(f"{_SCHEME}/"):
            raise SdkError(f"the address of the task API is unix:///path, not {address[:100]!r}")
        self._path = address[len(_SCHEME) :]
        self._timeout_s = timeout_s

    def context(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("GET", "/v1/context")
        return answer

    def keys(self) -> dict[str, str]:
        """`project_key` and `namespace_key`, by which tasks know each other."""
        answer: dict[str, str] = self.call("GET", "/v1/keys")
        return answer

    def progress(self, done: int, total: int = 0, unit: str = "", note: str = "") -> None:
        self.call("POST", "/v1/progress", {"done": done, "total": total, "unit": unit, "note": note})

    def put_endpoint(
        self, endpoint_id: str, name: str, address: str, lease_ms: int, metadata: dict[str, str]
    ) -> dict[str, Any]:
        body = {"name": name, "address": address, "lease_ms": lease_ms, "metadata": metadata}
        answer: dict[str, Any] = self.call("PUT", f"/v1/endpoints/{quote(endpoint_id, safe='')}", body)
        return answer

    def delete_endpoint(self, endpoint_id: str) -> bool:
        return bool(self.call("DELETE", f"/v1/endpoints/{quote(endpoint_id, safe='')}")["removed"])

    def endpoints(self, name: str = "", *, namespace: str = "", job: str = "") -> list[dict[str, Any]]:
        """Live ones of a namespace; of the own one unless told otherwise."""
        asked = {"name": name, "namespace": namespace, "job": job}
        query = urlencode({key: value for key, value in asked.items() if value})
        items: list[dict[str, Any]] = self.call("GET", "/v1/endpoints" + (f"?{query}" if query else ""))["items"]
        return items

    def submit(self, spec: dict[str, Any], key: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("POST", "/v1/jobs", spec, {"idempotency-key": key})
        return answer

    def job(self, job_id: str, wait_s: int = 0) -> dict[str, Any]:
        """As it is, or once it has ended within `wait_s` (30 at most)."""
        query = f"?wait_s={wait_s}" if wait_s else ""
        answer: dict[str, Any] = self.call("GET", f"/v1/jobs/{quote(job_id, safe='')}{query}")
        return answer

    def cancel(self, job_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("POST", f"/v1/jobs/{quote(job_id, safe='')}/cancel")
        return answer

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """The decoded answer.

        Raises:
            ControllerUnreachable: the task API or what is behind it does not answer now.
            ApiError: it refused.
        """
        connection = _UnixConnection(self._path, self._timeout_s)
        data = b"" if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"host": "task", **(headers or {})})
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as err:
            message = f"the task API at {self._path} does not answer: {err or type(err).__name__}"
            raise ControllerUnreachable(503, "controller_unreachable", message) from err
        finally:
            connection.close()
        return _decoded(status, text)


def _decoded(status: int, text: bytes) -> Any:
    try:
        value = json.loads(text)
    except ValueError as err:
        raise ApiError(status, "bad_response", "the task API answered with what is no JSON") from err
    if status < 400:
        return value
    kind = ControllerUnreachable if status in (429, 503) else ApiError
    said = {name: str(value.get(name, "")) for name in ("error_code", "detail", "hint")}
    raise kind(status, said["error_code"], said["detail"], said["hint"])


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("task", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self._path)) <= _LONGEST:
            self.sock.connect(self._path)
            return
        folder, name = os.path.split(self._path)
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock.connect(f"/proc/self/fd/{opened}/{name}")
        finally:
            os.close(opened)
