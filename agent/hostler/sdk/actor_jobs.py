"""Actors in jobs of their own: hosted, registered, waited for (TE-19)."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

from hostler.sdk.actors import ActorServer
from hostler.sdk.context import context
from hostler.sdk.errors import ActorNotFound, SdkError
from hostler.sdk.handles import ActorHandle, ActorPool
from hostler.sdk.info import stop_event
from hostler.sdk.jobs import FINAL, RUN, Entrypoint, Job, name_of

PORT = "actor"
_LOOK_S = 0.1


class ActorGroup:
    """Actors that were asked for. They are there once `wait_ready` says so."""

    def __init__(self, handles: Sequence[ActorHandle], jobs: Sequence[Job]) -> None:
        self.handles, self.jobs = tuple(handles), tuple(jobs)

    def wait_ready(self, timeout_s: float = 300.0) -> tuple[ActorHandle, ...]:
        """The handles once all are registered.

        Raises:
            SdkError: one of the jobs has ended instead.
            ActorNotFound: not all came in time.
        """
        deadline = time.monotonic() + timeout_s
        for handle, job in zip(self.handles, self.jobs):  # noqa: B905 - `strict` came with Python 3.10
            while not _is_there(handle):
                if job.status in FINAL:
                    state = job.state()
                    raise SdkError(f"job {job.job} of actor {handle.name} {state['status']}: {state['error_message']}")
                if time.monotonic() >= deadline:
                    raise ActorNotFound(f"actor {handle.name} is not there after {timeout_s:.0f} s")
                time.sleep(_LOOK_S)
        return self.handles

    def pool(self) -> ActorPool:
        return ActorPool(self.handles)

    def cancel(self) -> None:
        for job in self.jobs:
            job.cancel()


def create_actor(cls: Any, *args: Any, name: str, pickle: bool = False, **spec: Any) -> ActorHandle:
    """Hosts an instance of a module's class in a child job of its own; the handle waits for it when it is used.

    Args:
        args: of the class, as JSON can say them.
        spec: more fields of the job; `kwargs` are the class's.
    """
    return create_actor_group(cls, *args, name=name, names=(name,), count=1, pickle=pickle, **spec).handles[0]


def create_actor_group(
    cls: Any,
    *args: Any,
    name: str,
    count: int,
    names: Sequence[str] = (),
    pickle: bool = False,
    kwargs: dict[str, Any] | None = None,
    **spec: Any,
) -> ActorGroup:
    """`count` of them, named `{name}-0` and so on, each in a job of its own."""
    wanted = tuple(names) or tuple(f"{name}-{number}" for number in range(count))
    ports = tuple(dict.fromkeys((PORT, *spec.pop("ports", ()))))
    jobs = []
    for each in wanted:
        words = ["--actor", cls if isinstance(cls, str) else name_of(cls), "--name", each]
        words += ["--args", json.dumps(args)] if args else []
        words += ["--kwargs", json.dumps(kwargs)] if kwargs else []
        words += ["--take-pickles"] if pickle else []
        jobs.append(context().submit(each, Entrypoint((*RUN, *words)), ports=list(ports), **spec))
    handles = [ActorHandle(each, job.job, pickle=pickle) for each, job in zip(wanted, jobs)]  # noqa: B905
    return ActorGroup(handles, jobs)


def host_actor(instance: Any, name: str, *, pickle: bool = False, port: str = PORT) -> None:
    """Serves the instance on the task's port, registers it and stays until the task is to end."""
    around = context()
    if around.registry is None:
        raise SdkError("an actor is hosted where there is a task API to register it at")
    stop = stop_event() or _on_signal()
    with ActorServer(port=around.get_port(port), pickle=pickle) as server:
        server.register(name, instance)
        server.serve_background()
        with around.registry.register(name, port=server.port):
            stop.wait()


def _is_there(handle: ActorHandle) -> bool:
    try:
        handle.resolve(time.monotonic())
    except ActorNotFound:
        return False
    return True


def _on_signal() -> threading.Event:
    """Set by SIGTERM; only a process's main thread can be told."""
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop
