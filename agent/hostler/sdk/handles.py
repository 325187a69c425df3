"""Calls actors by name, wherever they are: resolved in the namespace of their own job (TE-18)."""

from __future__ import annotations

import contextvars
import http.client
import itertools
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from hostler.sdk import payload, signing
from hostler.sdk.context import Context, context
from hostler.sdk.endpoints import Endpoint
from hostler.sdk.errors import ActorError, ActorNotFound, ActorTimeout, ControllerUnreachable, SdkError

TIMEOUT_S = 60.0
_SCHEME = "hostler-actor:"
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 2.0
_MAX_ANSWER = 64 << 20


class ActorHandle:
    """`handle.method(…)` calls and waits; `handle.method.remote(…)` gives a future.

    Attributes:
        job: path or id of the job that hosts the actor; "" for the caller's own namespace.
    """

    def __init__(self, name: str, job: str = "", *, pickle: bool = False, timeout_s: float = TIMEOUT_S) -> None:
        self.name, self.job, self.pickle, self.timeout_s = name, job, pickle, timeout_s
        self._endpoint: Endpoint | None = None

    def __str__(self) -> str:
        """As text that `parse` takes, so that handles travel in arguments."""
        return f"{_SCHEME}{self.job}#{self.name}"

    @classmethod
    def parse(cls, text: str, **more: Any) -> ActorHandle:
        job, mark, name = text[len(_SCHEME) :].rpartition("#")
        if not text.startswith(_SCHEME) or not mark:
            raise ValueError(f"{text[:100]!r} is no actor handle")
        return cls(name, job, **more)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.name, self.job, self.pickle, self.timeout_s)

    def __getattr__(self, method: str) -> Method:
        if method.startswith("_"):
            raise AttributeError(method)
        return Method(self, method)

    def call(self, method: str, *args: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """The actor's result.

        Raises:
            ActorNotFound: nobody came under that name in time.
            ActorTimeout: no answer in time; whether the call ran is unknown.
            ActorError: the call ran and raised.
        """
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        around, known = context(), self._endpoint
        while True:
            endpoint = known or self.resolve(deadline)
            connection = _connected(endpoint, deadline)
            if connection is not None:
                try:
                    return _exchange(connection, around, endpoint, self, method, {"args": args, "kwargs": kwargs})
                except _NotThere as err:
                    if known is None:
                        raise ActorNotFound(f"actor {self.name} at {endpoint.address}: {err}") from err
                finally:
                    connection.close()
            self._endpoint = known = None  # it moved, or is gone: ask again
            if time.monotonic() >= deadline:
                raise ActorNotFound(f"actor {self.name} of {self.job or 'this namespace'} cannot be reached")
            time.sleep(_FIRST_LOOK_S)

    def resolve(self, deadline: float | None = None) -> Endpoint:
        """Waits for the name until `deadline` (monotonic). Raises `ActorNotFound`."""
        end = time.monotonic() + self.timeout_s if deadline is None else deadline
        resolver, pause_s = context().resolver_for_job(self.job), _FIRST_LOOK_S
        while True:
            try:
                found = resolver.resolve(self.name).first()
            except ControllerUnreachable:
                found = None
            if found is not None:
                self._endpoint = found
                return found
            if time.monotonic() + pause_s > end:
                raise ActorNotFound(f"no actor {self.name} in the namespace of {self.job or 'this job'}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_LOOK_S)


class Method:
    def __init__(self, handle: ActorHandle, name: str) -> None:
        self._handle, self._name = handle, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._handle.call(self._name, *args, **kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """The same in another thread, within this context."""
        return _in_background(lambda: self._handle.call(self._name, *args, **kwargs))


class ActorPool:
    """Several actors that can do the same."""

    def __init__(self, handles: Iterable[ActorHandle]) -> None:
        self.handles: Sequence[ActorHandle] = tuple(handles)
        if not self.handles:
            raise ValueError("a pool has at least one actor")
        self._turn = itertools.cycle(self.handles)
        self._lock = threading.Lock()

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """By the next in turn."""
        with self._lock:
            handle = next(self._turn)
        return handle.call(method, *args, **kwargs)

    def broadcast(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """By every one, at once; results in their order."""
        return _gathered([_bound(handle.call, method, args, kwargs) for handle in self.handles], len(self.handles))

    def map(self, method: str, items: Iterable[Any], **kwargs: Any) -> list[Any]:
        """One call an item, each actor busy with one at a time; results in the items' order."""
        free: list[ActorHandle] = list(self.handles)
        lock = threading.Lock()

        def one(item: Any) -> Any:
            with lock:
                handle = free.pop()
            try:
                return handle.call(method, item, **kwargs)
            finally:
                with lock:
                    free.append(handle)

        return _gathered([_bound(one, item, (), {}) for item in items], len(self.handles))


class _NotThere(Exception):
    """Something answers at the address, and it is not the actor."""


def _connected(endpoint: Endpoint, deadline: float) -> http.client.HTTPConnection | None:
    """None while nobody listens at the address."""
    host, _, port = endpoint.address.rpartition(":")
    left = max(0.05, deadline - time.monotonic())
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=min(left, 10.0))
    try:
        connection.connect()
    except OSError:
        connection.close()
        return None
    connection.sock.settimeout(left)
    return connection


def _exchange(
    connection: http.client.HTTPConnection,
    around: Context,
    endpoint: Endpoint,
    handle: ActorHandle,
    method: str,
    said: dict[str, Any],
) -> Any:
    media_type = payload.PICKLE if handle.pickle else payload.JSON
    body, keys = payload.dump(said, media_type), around.keys()
    kind = signing.NAMESPACE if handle.pickle else signing.PROJECT
    head = signing.CallHead(
        audience=endpoint.attempt_uid, actor=handle.name, method=method, media_type=media_type, key=kind,
        nonce=secrets.token_hex(16), time=f"{signing.wall_clock():.3f}", body_sha256=signing.sha256(body),
    )  # fmt: skip
    headers = {
        "content-type": media_type, "x-hostler-audience": head.audience, "x-hostler-key": kind,
        "x-hostler-nonce": head.nonce, "x-hostler-time": head.time, "x-hostler-sha256": head.body_sha256,
        "x-hostler-signature": head.signed(keys.of(kind)),
    }  # fmt: skip
    try:
        connection.request("POST", f"/v1/actors/{handle.name}/{method}", body, headers)
        answer = connection.getresponse()
        data = answer.read(_MAX_ANSWER + 1)
    except socket.timeout as err:
        raise ActorTimeout(f"{handle.name}.{method} did not answer in time") from err
    except (OSError, http.client.HTTPException) as err:
        raise ActorTimeout(f"{handle.name}.{method}: the connection broke before an answer: {err}") from err
    proof = signing.answer_signature(keys.of(kind), head.nonce, answer.status, media_type, data)
    if not signing.same(proof, answer.headers.get("x-hostler-signature", "")):
        raise _refusal(answer.status, data, f"{handle.name}.{method}")
    value = payload.load(data, media_type)
    if answer.status != 200:
        raise ActorError(str(value["error"]["type"]), str(value["error"]["message"]))
    return value["result"]


def _refusal(status: int, data: bytes, what: str) -> Exception:
    """Of an answer that carries no proof: nothing in it is more than a word for people."""
    try:
        reason = str(json.loads(data[:10_000])["refused"])[:500]
    except (ValueError, KeyError, TypeError):
        reason = "something else answers there"
    if status in (403, 404):
        return _NotThere(reason)
    return SdkError(f"{what} was refused: {reason}")


def _unpickled(name: str, job: str, pickle: bool, timeout_s: float) -> ActorHandle:
    return ActorHandle(name, job, pickle=pickle, timeout_s=timeout_s)


def _bound(call: Callable[..., Any], first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    return lambda: call(first, *args, **kwargs)


def _gathered(calls: Sequence[Callable[[], Any]], at_once: int) -> list[Any]:
    """Results in order; the first error of any is raised once all have ended."""
    with ThreadPoolExecutor(at_once, thread_name_prefix="hostler-calls") as pool:
        futures = [pool.submit(contextvars.copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


def _in_background(call: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    run = contextvars.copy_context().run

    def work() -> None:
        try:
            future.set_result(run(call))
        except BaseException as err:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(err)

    threading.Thread(target=work, name="hostler-call", daemon=True).start()
    return future
