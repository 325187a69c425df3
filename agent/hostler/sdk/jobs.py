"""Child jobs: an argv, or a callable that `hostler.sdk.run` loads inside the task (JB-09)."""

from __future__ import annotations

import json
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hostler.sdk import payload
from hostler.sdk.errors import SdkError

FINAL = frozenset({"succeeded", "failed", "canceled"})
RUN = ("python3", "-m", "hostler.sdk.run")
_OURS = ("HOSTLER_CONTROLLER_ADDRESS", "IRIS_CONTROLLER_ADDRESS")
_WAIT_S = 30


@dataclass(frozen=True)
class Entrypoint:
    """What a task runs."""

    command: tuple[str, ...]

    @classmethod
    def argv(cls, *command: str) -> Entrypoint:
        return cls(tuple(command))

    @classmethod
    def of(cls, function: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Entrypoint:
        """A function of a module (or "module:function") with arguments that JSON can say."""
        name = function if isinstance(function, str) else name_of(function)
        return cls((*RUN, name, *_said("--args", list(args)), *_said("--kwargs", kwargs)))

    @classmethod
    def pickled(cls, path: str) -> Entrypoint:
        """A file that `pickled_call` made, from the job's own bundle: /app/call.pkl, say."""
        return cls((*RUN, "--pickle", path))


def pickled_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    """What to put into the bundle for `Entrypoint.pickled`; with cloudpickle also closures and lambdas."""
    return payload.dump((function, args, kwargs), payload.PICKLE)


class Job:
    """A child that was submitted."""

    def __init__(self, client: Any, state: Mapping[str, Any]) -> None:
        self._client = client
        self.job_id, self.job = str(state["job_id"]), str(state["job"])

    def state(self) -> dict[str, Any]:
        """`status`, counts of tasks, `error_code`, times."""
        found: dict[str, Any] = self._client.job(self.job_id)
        return found

    @property
    def status(self) -> str:
        return str(self.state()["status"])

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The state once it has ended. Raises `TimeoutError`."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = _WAIT_S if end is None else min(_WAIT_S, int(end - time.monotonic()) + 1)
            found: dict[str, Any] = self._client.job(self.job_id, max(1, left))
            if found["status"] in FINAL:
                return found
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {self.job} is still {found['status']}")

    def cancel(self) -> None:
        self._client.cancel(self.job_id)


def submitted(
    client: Any,
    name: str,
    entrypoint: Entrypoint | Callable[..., Any] | tuple[str, ...] | list[str],
    *,
    environment: Mapping[str, str] | None = None,
    key: str = "",
    **spec: Any,
) -> Job:
    """Asks for a child.

    Args:
        spec: more fields of a job, as `docs/tasks.md` lists them: image, resources, ports, replicas, … A child that
            names no image runs in its parent's.
        key: the same one gives the same child; without one each call is a new request.
    """
    if callable(entrypoint):
        entrypoint = Entrypoint.of(entrypoint)
    command = entrypoint.command if isinstance(entrypoint, Entrypoint) else tuple(entrypoint)
    body = {"name": name, "command": list(command), "environment": without_address(environment or {}), **spec}
    return Job(client, client.submit(body, key or uuid.uuid4().hex))


def without_address(environment: Mapping[str, str]) -> dict[str, str]:
    """TE-03: where the control plane is, is the agent's to say."""
    dropped = [name for name in _OURS if name in environment]
    if dropped:
        warnings.warn(f"{', '.join(dropped)} is set by the agent and was dropped", stacklevel=3)
    return {name: value for name, value in environment.items() if name not in _OURS}


def name_of(function: Any) -> str:
    """module:qualname, of what a module holds under that name. Raises `SdkError`."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        message = f"{name or function!r} cannot be imported by another process"
        raise SdkError(f"{message}: use a function of a module, or pickled_call and a bundle")
    return f"{module}:{name}"


def _said(option: str, value: Any) -> tuple[str, ...]:
    return (option, json.dumps(value)) if value else ()
