"""The context of a task: what it is, whom it asks, under which names it is known (TE-07)."""

from __future__ import annotations

import threading
from typing import Any

from hostler.sdk.client import TaskClient
from hostler.sdk.endpoints import Registry, Resolver
from hostler.sdk.errors import NoController, NotInTask
from hostler.sdk.info import JobInfo, job_info, port_variable
from hostler.sdk.jobs import Job, submitted
from hostler.sdk.signing import Keys

_LOCAL = "local://"


class Context:
    """Attributes:
    client: None where there is no task API (TE-07).
    registry: None as well.
    """

    def __init__(self, info: JobInfo, client: Any) -> None:
        self.info = info
        self.client = client
        self.registry = Registry(client, info) if client is not None else None
        self._keys: Keys | None = None

    @property
    def resolver(self) -> Resolver:
        """Of the own namespace."""
        return Resolver(self._asked())

    def resolver_for_job(self, job: str) -> Resolver:
        """Of another job's namespace, by path or id; "" for the own one (TE-17)."""
        return Resolver(self._asked(), job=job)

    def get_port(self, name: str) -> int:
        """Raises `KeyError` for a port that the job does not name (TE-09)."""
        port = self.info.ports.get(port_variable(name)[len("HOSTLER_PORT_") :].lower())
        if port is None:
            raise KeyError(f"the job has no port {name!r}; it names {sorted(self.info.ports) or 'none'}")
        return port

    def submit(self, name: str, entrypoint: Any, **spec: Any) -> Job:
        """A child of this job; see `jobs.submitted`."""
        return submitted(self._asked(), name, entrypoint, **spec)

    def progress(self, done: int, total: int = 0, unit: str = "", note: str = "") -> None:
        """Shown to whoever follows the job; nothing where nobody can be told."""
        if self.client is not None:
            self.client.progress(done, total, unit, note)

    def keys(self) -> Keys:
        """By which tasks know each other."""
        if self._keys is None:
            given = self._asked().keys()
            self._keys = Keys(bytes.fromhex(given["project_key"]), bytes.fromhex(given["namespace_key"]))
        return self._keys

    def _asked(self) -> Any:
        if self.client is None:
            raise NoController("this job runs without a task API, so there is nobody to ask")
        return self.client


_contexts: dict[tuple[str, str, str], Context] = {}
_lock = threading.Lock()


def context() -> Context:
    """Of the job around this code, made once for each. Raises `NotInTask`."""
    info = job_info()
    if info is None:
        raise NotInTask("this code does not run in a task: HOSTLER_JOB_ID is not set")
    key = (info.task_id, info.attempt_uid, info.controller_address)
    with _lock:
        if key not in _contexts:
            _contexts[key] = Context(info, _client_of(info))
        return _contexts[key]


ctx = context


def _client_of(info: JobInfo) -> Any:
    if not info.controller_address:
        return None
    if info.controller_address.startswith(_LOCAL):
        from hostler.sdk.local import client_of

        return client_of(info)
    return TaskClient(info.controller_address)


def get_port(name: str) -> int:
    return context().get_port(name)


def submit(name: str, entrypoint: Any, **spec: Any) -> Job:
    return context().submit(name, entrypoint, **spec)


def progress(done: int, total: int = 0, unit: str = "", note: str = "") -> None:
    context().progress(done, total, unit, note)
