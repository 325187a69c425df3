"""Names of tasks: registered with a lease that renews itself, and resolved exactly (TE-10..TE-18)."""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.sdk.errors import ApiError, ControllerUnreachable
from hostler.sdk.info import JobInfo

LEASE_S = 600.0  # what is asked for; the control plane gives 3 minutes to 72 hours (TE-12)
FIRST_RETRY_S, LAST_RETRY_S = 10.0, 60.0
Wait = Callable[[threading.Event, float], bool]


class Client(Protocol):
    """The part of `TaskClient` that this module needs."""

    def put_endpoint(
        self, endpoint_id: str, name: str, address: str, lease_ms: int, metadata: dict[str, str]
    ) -> dict[str, Any]: ...

    def delete_endpoint(self, endpoint_id: str) -> bool: ...

    def endpoints(self, name: str = "", *, namespace: str = "", job: str = "") -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Endpoint:
    name: str
    address: str
    namespace: str = ""
    endpoint_id: str = ""
    task_id: str = ""
    attempt_uid: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Resolution:
    """All that is registered under one name: several tasks may share it."""

    name: str
    endpoints: tuple[Endpoint, ...]

    def first(self) -> Endpoint | None:
        return self.endpoints[0] if self.endpoints else None


class Resolver:
    """Resolves `{namespace}/{name}`, exactly: `a` never finds `ab`. Without namespace and job in the task's own."""

    def __init__(self, client: Client, *, namespace: str = "", job: str = "") -> None:
        self._client = client
        self._asked = {"namespace": namespace, "job": job}

    def resolve(self, name: str) -> Resolution:
        found = self._client.endpoints(name, **self._asked)
        return Resolution(name, tuple(_endpoint(each) for each in found if each["name"] == name))

    def all(self) -> tuple[Endpoint, ...]:
        return tuple(_endpoint(each) for each in self._client.endpoints(**self._asked))


class Lease:
    """One registered name. A thread renews it at a third of its lease; `close` ends it.

    A renewal that fails is tried again after 10 s, then twice as long up to a minute (TE-13). One that the control
    plane refuses for good (`lost` says why) is not.
    """

    def __init__(
        self,
        client: Client,
        endpoint: Endpoint,
        lease_s: float,
        wait: Wait = threading.Event.wait,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.endpoint = endpoint
        self.lost: ApiError | None = None
        self._client, self._lease_s, self._wait, self._jitter = client, lease_s, wait, jitter
        self._closed = threading.Event()
        self._speaking = threading.Lock()  # held over each call, so that an end waits for a renewal under way
        self._given_s = lease_s
        self._renew()
        self._thread = threading.Thread(target=self._run, name=f"hostler-lease-{endpoint.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops renewing, waits for a renewal under way, then takes the name away (TE-14). Once is enough."""
        already = self._closed.is_set()
        self._closed.set()
        with self._speaking:
            if not already:
                # what cannot be told now ends by itself: the lease is not renewed any more
                with contextlib.suppress(ApiError):
                    self._client.delete_endpoint(self.endpoint.endpoint_id)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        pause_s, failures = self._given_s / 3, 0
        while not self._wait(self._closed, pause_s):
            try:
                with self._speaking:
                    if self._closed.is_set():
                        return
                    self._renew()
            except ControllerUnreachable:
                pause_s = retry_s(failures, self._jitter())
                failures += 1
            except ApiError as err:
                self.lost = err
                return
            else:
                pause_s, failures = self._given_s / 3, 0

    def _renew(self) -> None:
        said = self.endpoint
        given = self._client.put_endpoint(
            said.endpoint_id, said.name, said.address, int(self._lease_s * 1000), dict(said.metadata)
        )
        self._given_s = float(given["lease_ms"]) / 1000


def retry_s(failures: int, jitter: float) -> float:
    """10 s, 20 s, 40 s, then a minute; up to a tenth less, so that tasks do not come back together."""
    return min(FIRST_RETRY_S * (1 << min(failures, 8)), LAST_RETRY_S) * (1 - jitter / 10)


class Registry:
    """Registers names for this task. `close` takes all of them away."""

    def __init__(self, client: Client, info: JobInfo) -> None:
        self._client, self._info = client, info
        self._leases: dict[str, Lease] = {}
        self._lock = threading.Lock()

    def register(
        self,
        name: str,
        address: str = "",
        *,
        port: int = 0,
        lease_s: float = LEASE_S,
        metadata: Mapping[str, str] | None = None,
    ) -> Lease:
        """The name leads to `address`, or to `port` on this node; a second registration takes the first one's place."""
        if bool(address) == bool(port):
            raise ValueError("register takes an address or a port")
        host = f"[{self._info.vm_address}]" if ":" in self._info.vm_address else self._info.vm_address
        endpoint = Endpoint(
            name=name,
            address=address or f"{host}:{port}",
            namespace=self._info.namespace,
            endpoint_id=uuid.uuid4().hex,
            task_id=self._info.task_id,
            attempt_uid=self._info.attempt_uid,
            metadata=dict(metadata or {}),
        )
        lease = Lease(self._client, endpoint, lease_s)
        with self._lock:
            before, self._leases[name] = self._leases.get(name), lease
        if before is not None:
            before.close()
        return lease

    def unregister(self, name: str) -> bool:
        """Whether the name was registered here."""
        with self._lock:
            lease = self._leases.pop(name, None)
        if lease is not None:
            lease.close()
        return lease is not None

    def close(self) -> None:
        with self._lock:
            leases, self._leases = list(self._leases.values()), {}
        for lease in leases:
            lease.close()


def _endpoint(item: Mapping[str, Any]) -> Endpoint:
    return Endpoint(
        name=item["name"],
        address=item["address"],
        namespace=item["namespace"],
        endpoint_id=item["endpoint_id"],
        task_id=item["task_id"],
        attempt_uid=item["attempt_uid"],
        metadata=item.get("metadata") or {},
    )
