"""What a `ContainerSpec` is to the supervisor of the process runtime, and what its notes say. Pure."""

import msgspec

from hostler.agent.containers.runtime import State, Status
from hostler.agent.containers.spec import Bind, ContainerSpec, Limits
from hostler.agent.containers.walls import kept_capabilities
from hostler.agent.host.users import User
from hostler.base.errors import error


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`.

    Attributes:
        ids: user, group and further groups to change to; None to stay who one is.
        groups: control groups to join.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    labels: dict[str, str]
    working_dir: str
    ids: tuple[int, int, tuple[int, ...]] | None
    no_new_privileges: bool
    binds: tuple[Bind, ...]
    limits: Limits
    log_bytes: int
    groups: tuple[str, ...] = ()


class Started(msgspec.Struct, frozen=True):
    pid: int
    at_ms: int


class End(msgspec.Struct, frozen=True):
    code: int
    signal: int
    oom: bool
    reason: str
    at_ms: int


class Said(msgspec.Struct, frozen=True):
    """Of a supervisor that was just started."""

    pid: int = 0
    error: str = ""


def order(spec: ContainerSpec, user: User | None, *, root: bool) -> Order:
    """
    Args:
        user: whom to change to.
        root: the supervisor is root, and so can bind directories where they are wanted.

    Raises:
        HostlerError: `container_failed` for what processes of the node cannot have.
    """
    if spec.privileged or kept_capabilities(spec):
        raise error("container_failed", f"{spec.name} asks for privileges, which no process of the node is given")
    if spec.read_only_root:
        raise error("container_failed", f"{spec.name} asks for a root of its own, which processes of the node share")
    environment = spec.environment if root else {k: _moved(v, spec.binds) for k, v in spec.environment.items()}
    return Order(
        command=spec.command,
        environment=environment,
        labels=spec.labels,
        working_dir=spec.working_dir if root else _moved(spec.working_dir, spec.binds),
        ids=(user.uid, user.gid, user.groups) if user is not None else None,
        no_new_privileges=spec.no_new_privileges,
        binds=spec.binds if root else (),
        limits=spec.limits,
        log_bytes=spec.log_bytes,
    )


def _moved(value: str, binds: tuple[Bind, ...]) -> str:
    """A path inside becomes the one it stands for: only root can put things where they are wanted."""
    scheme, path = ("unix://", value[7:]) if value.startswith("unix://") else ("", value)
    for bind in binds:
        if path == bind.target or path.startswith(f"{bind.target}/"):
            return f"{scheme}{bind.source}{path[len(bind.target) :]}"
    return value


def running(started: Started | None) -> Status:
    if started is None:  # its supervisor is about to
        return Status(state=State.RUNNING)
    return Status(state=State.RUNNING, pid=started.pid, started_at_ms=started.at_ms)


def ended(started: Started | None, end: End) -> Status:
    state = State.OOM if end.oom else State.KILLED if end.signal else State.EXITED
    return Status(
        state=state,
        exit_code=end.code,
        signal=end.signal,
        reason=end.reason,
        started_at_ms=started.at_ms if started else end.at_ms,
        finished_at_ms=end.at_ms,
    )
