"""`agent.toml` as frozen structs. Read once by the daemon; nobody else reads files or environment."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.bundles.contract import BundleSettings
from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.host.fetch_settings import FetchSettings
from hostler.agent.journal.spool import LogLimits
from hostler.base.config import load_config
from hostler.base.errors import error

Address = Annotated[str, msgspec.Meta(pattern=r"^[^\s/:]+:[0-9]{1,5}$(?!\n)|^\[[0-9a-f:]+\]:[0-9]{1,5}$(?!\n)")]
Count = Annotated[int, msgspec.Meta(ge=1, le=256)]


class Control(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the control plane listens; the agent dials, never the other way round.

    Attributes:
        address: host:port of the node service (mutual TLS).
        enroll_address: host:port of the enrolment service.
        transport: `auto` falls back from the stream to polling where a proxy does not let streams through.
    """

    address: Address
    enroll_address: Address
    transport: Literal["auto", "stream", "poll"] = "auto"


class Files(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where steps may write, as whole path components, below `root`."""

    root: str = "/"
    write_prefixes: tuple[str, ...] = ("/srv", "/opt", "/var/lib/hostler/files", "/etc/hostler.d")
    deny_prefixes: tuple[str, ...] = ("/etc/hostler",)


class Testing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """For the fault tests only: `boundary:action:kind`, see `runner.faults`."""

    enabled: bool = False
    fault_points: tuple[str, ...] = ()


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    state_dir: journal, identity and trust of this node; mode 0700.
    token_file: where a node that is not enrolled yet waits for its token, and removes it; "" to refuse to start.
    trust_file: `trust.json` as made by `hostler pki init`; read at enrolment, then kept in `state_dir`.
    parallel_tasks: how many tasks run at once; those that run containers have `containers.max_containers`.
    session_user: whom the network-facing process runs as when the agent is root; never root.
    log_format: auto, json or pretty.
    observe_socket: path of a Unix socket for /metrics and /health; "" for none.
    telemetry_seconds: how often cpu, memory, disk and their like are measured and told; 0 for never.
    """

    control: Control
    state_dir: str = "/var/lib/hostler"
    trust_file: str = "/etc/hostler/trust.json"
    token_file: str = ""
    parallel_tasks: Count = 8
    labels: dict[str, str] = {}
    session_user: str = "hostler-session"
    log_format: Literal["auto", "json", "pretty"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    stop_grace_seconds: float = 10.0
    observe_socket: str = ""
    telemetry_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    files: Files = Files()
    fetch: FetchSettings = FetchSettings()
    containers: ContainerSettings = ContainerSettings()
    bundles: BundleSettings = BundleSettings()
    logs: LogLimits = LogLimits()
    authority: LocalAuthority = LocalAuthority()
    testing: Testing = Testing()

    @property
    def state(self) -> Path:
        return Path(self.state_dir)


def load(path: Path) -> AgentConfig:
    """Raises `invalid_config` with path, key and reason."""
    config = load_config(path, AgentConfig)
    if config.testing.fault_points and not config.testing.enabled:
        raise error("invalid_config", f"{path}: testing.fault_points is set but testing.enabled is not")
    first, last = config.containers.port_range
    if first > last:
        raise error("invalid_config", f"{path}: containers.port_range ends before it begins")
    return config
