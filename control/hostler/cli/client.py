"""The HTTP API as a few calls; problems become `HostlerError`s, silence becomes exit code 3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from hostler.base.codes import CODES
from hostler.base.errors import HostlerError, Internal, error
from hostler.cli.settings import Settings, read_token

_TIMEOUT_S = 30.0


class Event(msgspec.Struct, frozen=True):
    """One server-sent event."""

    id: str
    name: str
    data: Any


class Client:
    """A session with the control plane."""

    def __init__(self, settings: Settings) -> None:
        import httpx  # 125 ms: only commands that talk pay for it

        token = read_token(settings)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        verify: Any = tls_of(settings) if settings.ca_file else True
        if not settings.server.startswith(("http://", "https://")):
            raise error("invalid_config", f"server {settings.server!r} does not begin with http:// or https://")
        self._httpx = httpx
        self._server = settings.server
        try:
            self._http = httpx.Client(
                base_url=settings.server, headers=headers, timeout=_TIMEOUT_S, verify=verify, trust_env=False
            )
        except httpx.InvalidURL as err:
            raise error("invalid_config", f"server {settings.server!r} is no address") from err

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content: bytes | None = None,
        if_match: str = "",
        **params: Any,
    ) -> Any:
        """The decoded answer. `content` is JSON already, sent as it is; `if_match` the revision that was read.

        Raises:
            HostlerError: the server's own error, or `controller_unreachable`.
        """
        query = {name: value for name, value in params.items() if value not in (None, "")}
        content = content if body is None else msgspec.json.encode(body)
        headers = {} if content is None else {"content-type": "application/json"}
        if if_match:
            headers["if-match"] = if_match
        try:
            answer = self._http.request(method, path, params=query, content=content, headers=headers)
        except self._httpx.TransportError as err:
            raise self._unreachable(err) from err
        if not answer.is_success:
            raise problem_of(answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.MsgspecError as err:
            raise error("internal_error", f"{self._server} does not answer as a control plane does") from err

    def send(self, path: str, chunks: Iterator[bytes], size: int) -> Any:
        """PUTs bytes as they come; the decoded answer. Raises as `call` does."""
        headers = {"content-type": "application/octet-stream", "content-length": str(size)}
        timeout = self._httpx.Timeout(_TIMEOUT_S, read=300.0, write=300.0)
        try:
            answer = self._http.put(path, content=chunks, headers=headers, timeout=timeout)
        except self._httpx.TransportError as err:
            raise self._unreachable(err) from err
        if not answer.is_success:
            raise problem_of(answer.status_code, answer.content)
        return msgspec.json.decode(answer.content)

    def raw(self, path: str, **params: Any) -> bytes:
        """The answer's bytes, as they are."""
        try:
            answer = self._http.get(path, params=params)
        except self._httpx.TransportError as err:
            raise self._unreachable(err) from err
        if not answer.is_success:
            raise problem_of(answer.status_code, answer.content)
        return answer.content

    @contextmanager
    def through(
        self, method: str, path: str, headers: list[tuple[str, str]], content: bytes | Iterator[bytes] | None
    ) -> Iterator[Any]:
        """A task's own answer behind the proxy, as it comes (TE-22); in several threads at once, if wanted.

        Raises as `call` does for our own refusals.
        """
        timeout = self._httpx.Timeout(_TIMEOUT_S, read=None)
        try:
            with self._http.stream(method, path, headers=headers, content=content, timeout=timeout) as answer:
                if "via" not in answer.headers:  # it never came so far
                    raise problem_of(answer.status_code, answer.read())
                yield answer
        except self._httpx.RemoteProtocolError as err:
            raise error("endpoint_unreachable", "the answer broke off in the midst") from err
        except self._httpx.TransportError as err:
            raise self._unreachable(err) from err

    def pages(self, path: str, **params: Any) -> Iterator[Any]:
        """Every item of a paged list."""
        cursor = ""
        while True:
            page = self.call("GET", path, cursor=cursor, **params)
            yield from page["items"]
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return

    def events(self, path: str, last_id: str = "", **params: Any) -> Iterator[Event]:
        """Server-sent events until the server's `end`; resumes where the connection broke off."""
        failures = 0
        while True:
            try:
                for event in self._stream(path, last_id, params):
                    last_id, failures = event.id or last_id, 0
                    if event.name == "end":
                        return
                    yield event
            except self._httpx.TransportError as err:
                failures += 1
                if failures > 5:
                    raise self._unreachable(err) from err
                _pause(failures)

    def _stream(self, path: str, last_id: str, params: dict[str, Any]) -> Iterator[Event]:
        headers = {"accept": "text/event-stream"}
        if last_id:
            headers["last-event-id"] = last_id
        timeout = self._httpx.Timeout(_TIMEOUT_S, read=90.0)
        with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as answer:
            if not answer.is_success:
                raise problem_of(answer.status_code, answer.read())
            yield from _parse_events(answer.iter_lines())

    def _unreachable(self, err: Exception) -> HostlerError:
        return error("controller_unreachable", f"no answer from {self._server} ({type(err).__name__})")


def tls_of(settings: Settings) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as err:  # ssl.SSLError is one
        raise error("invalid_config", f"ca_file {settings.ca_file} holds no usable certificate") from err


def quoted(name: str) -> str:
    """A name a person typed, as one part of a path."""
    from urllib.parse import quote

    return quote(name, safe="@")


def _pause(failures: int) -> None:
    import random
    import time

    from hostler.base.clock import full_jitter

    time.sleep(full_jitter(failures, base_s=0.2, cap_s=5.0, rng=random.Random()))


def _parse_events(lines: Iterator[str]) -> Iterator[Event]:
    event_id, name, data = "", "message", ""
    for line in lines:
        if line == "":
            if data:
                yield Event(event_id, name, msgspec.json.decode(data))
            event_id, name, data = "", "message", ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            event_id = value
        elif field == "event":
            name = value
        elif field == "data":
            data = f"{data}\n{value}" if data else value


def problem_of(status: int, content: bytes) -> HostlerError:
    """The server's RFC 9457 document as the error it stands for."""
    try:
        document = msgspec.json.decode(content, type=dict[str, Any])
        code = str(document.get("error_code", ""))
        detail = str(document.get("detail") or document.get("title") or f"status {status}")
    except msgspec.MsgspecError:
        document, code, detail = {}, "", f"the server answered with status {status} and no explanation"
    if code not in CODES:
        return Internal("internal_error", f"{detail} (status {status})")
    correlation = str(document.get("correlation_id", ""))
    pointer = str(document.get("pointer", ""))
    return error(code, detail, hint=str(document.get("hint", "")), pointer=pointer, correlation_id=correlation)
