"""`control.toml` as frozen structs. Read once by `main`; nobody else reads files or environment."""

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hostler.base.config import load_config
from hostler.base.errors import error
from hostler.control.bundles.settings import BundleSettings
from hostler.control.credentials.config import MinterConfig
from hostler.control.delivery.settings import UpdateSettings
from hostler.control.identity.settings import OidcSettings
from hostler.control.identity.settings import check as check_oidc
from hostler.control.kernel.allocation_settings import FAMILIES, LINK_ORDER, AllocationSettings
from hostler.control.kernel.job_settings import JobSettings
from hostler.control.kernel.launch_settings import LaunchSettings
from hostler.control.policy_engine.settings import PolicyEngineSettings
from hostler.control.webhooks.destination import networks

_DEFAULTS, _JOBS, _LAUNCHES = AllocationSettings(), JobSettings(), LaunchSettings()
Ref = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_.]+@v[0-9]+$(?!\n)")]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=604_800)]
_LISTEN = r"(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\]):[0-9]{1,5}"
Listen = Annotated[str, msgspec.Meta(pattern=rf"^{_LISTEN}$(?!\n)")]
MaybeListen = Annotated[str, msgspec.Meta(pattern=rf"^(?:{_LISTEN})?$(?!\n)")]


class Allocations(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    provision_profiles: what a request may name; the first that is registered is the default.
    wait_seconds: how long a request waits for free nodes.
    reserve_after_seconds: how long it waits before free nodes are held back for it, so that smaller ones do not take
        them all; 0 for never.
    lend_unverified: whether a new node is lent before its first baseline; see 'hostler nodes probe'.
    probe_profile, baseline_profile: what a probe of a node runs.
    provision_seconds, deprovision_seconds, identity_revoke_seconds, reclaim_verify_seconds: how long each link of a
        node's chain may take before the node is locked.
    breaker_percent, breaker_nodes, breaker_window_seconds: when more than this share of the pool, and at least so
        many nodes, fail their verification within the window, nodes are held instead of quarantined.
    """

    provision_profiles: Annotated[tuple[Ref, ...], msgspec.Meta(min_length=1)] = _DEFAULTS.provision_profiles
    deprovision_profile: Ref = _DEFAULTS.deprovision_profile
    identity_revoke_profile: Ref = _DEFAULTS.revoke_profile
    reclaim_verify_profile: Ref = _DEFAULTS.verify_profile
    probe_profile: Ref = _DEFAULTS.probe_profile
    baseline_profile: Ref = _DEFAULTS.baseline_profile
    wait_seconds: Seconds = _DEFAULTS.wait_ms // 1000
    reserve_after_seconds: Annotated[int, msgspec.Meta(ge=0, le=604_800)] = _DEFAULTS.reserve_after_ms // 1000
    lend_unverified: bool = _DEFAULTS.lend_unverified
    provision_seconds: Seconds = _DEFAULTS.provision_ms // 1000
    deprovision_seconds: Seconds = _DEFAULTS.deprovision_ms // 1000
    identity_revoke_seconds: Seconds = _DEFAULTS.revoke_ms // 1000
    reclaim_verify_seconds: Seconds = _DEFAULTS.verify_ms // 1000
    breaker_percent: Annotated[int, msgspec.Meta(ge=1, le=100)] = _DEFAULTS.breaker_percent
    breaker_nodes: Annotated[int, msgspec.Meta(ge=1)] = _DEFAULTS.breaker_nodes
    breaker_window_seconds: Seconds = _DEFAULTS.breaker_window_ms // 1000

    def settings(self) -> AllocationSettings:
        """For the kernel, in milliseconds."""
        return AllocationSettings(
            provision_profiles=self.provision_profiles,
            deprovision_profile=self.deprovision_profile,
            revoke_profile=self.identity_revoke_profile,
            verify_profile=self.reclaim_verify_profile,
            probe_profile=self.probe_profile,
            baseline_profile=self.baseline_profile,
            wait_ms=self.wait_seconds * 1000,
            reserve_after_ms=self.reserve_after_seconds * 1000,
            lend_unverified=self.lend_unverified,
            provision_ms=self.provision_seconds * 1000,
            deprovision_ms=self.deprovision_seconds * 1000,
            revoke_ms=self.identity_revoke_seconds * 1000,
            verify_ms=self.reclaim_verify_seconds * 1000,
            breaker_percent=self.breaker_percent,
            breaker_nodes=self.breaker_nodes,
            breaker_window_ms=self.breaker_window_seconds * 1000,
        )


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    keep_days: how long lines are kept (OD-31).
    operation_bytes: how much one operation may have; each line counts 256 bytes more than its text.
    node_bytes_per_second, total_bytes_per_second: how fast lines are taken from one node, and from all together.
    """

    keep_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 14
    operation_bytes: Annotated[int, msgspec.Meta(ge=65_536)] = 256 << 20
    node_bytes_per_second: Annotated[int, msgspec.Meta(ge=65_536)] = 2 << 20
    total_bytes_per_second: Annotated[int, msgspec.Meta(ge=65_536)] = 8 << 20


class Jobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    profile, private_profile: what a job is compiled to; the second one mints the credential of a private image.
    lost_grace_seconds: how long a node may be silent before a relocatable task is placed anew.
    fence_margin_seconds: added to a job's `fence_seconds`, for what stopping takes.
    reserve_after_seconds: how long the first in line may be overtaken before what gets free is kept for it.
    member_priority: the highest band that a project_member may ask for, and a task for its children.
    keep_days: how long jobs that are over are listed (OD-31); their operations, events and receipts stay.
    """

    profile: Ref = _JOBS.ref
    private_profile: Ref = _JOBS.private_ref
    lost_grace_seconds: Seconds = _JOBS.lost_grace_ms // 1000
    fence_margin_seconds: Seconds = _JOBS.fence_margin_ms // 1000
    reserve_after_seconds: Seconds = _JOBS.reserve_after_ms // 1000
    member_priority: Literal["low", "normal", "high", "critical"] = "high"
    keep_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 7

    def settings(self) -> JobSettings:
        """For the kernel, in milliseconds."""
        return JobSettings(
            ref=self.profile,
            private_ref=self.private_profile,
            lost_grace_ms=self.lost_grace_seconds * 1000,
            fence_margin_ms=self.fence_margin_seconds * 1000,
            reserve_after_ms=self.reserve_after_seconds * 1000,
            member_priority=self.member_priority,
        )


class Launches(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    ask_after_seconds: how long after its task was signed a node is asked what became of a launch, once each.
    recent_seconds: how old a launch may be to be asked about, and an unclear failure to be tried again by 'recover'.
    """

    ask_after_seconds: Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1, max_length=8)] = tuple(
        after // 1000 for after in _LAUNCHES.ask_after_ms
    )
    recent_seconds: Seconds = _LAUNCHES.recent_ms // 1000

    def settings(self) -> LaunchSettings:
        """For the kernel, in milliseconds."""
        ages = tuple(sorted(after * 1000 for after in self.ask_after_seconds))
        return LaunchSettings(ask_after_ms=ages, recent_ms=self.recent_seconds * 1000)


class ControlConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    state_dir: the store; mode 0700.
    keys_dir: `DIRECTORY/control` as made by `hostler pki init`.
    http_listen: admin HTTP API; plain HTTP is accepted on a loopback address only.
    node_listen, enroll_listen: gRPC for nodes, with mutual TLS, and for enrolment, with a token.
    internal_listen: HTTPS for nodes' certificates alone: the credential endpoints below /internal/v1; "" for none,
        as agents ask over node_listen.
    minters: who issues which credentials to running steps; see `control.credentials.config`.
    envelope_seconds: how long a node may take to start a signed task (OD-30).
    start_within_seconds: how long a task waits for its node before it ends as `expired`.
    recovery_days: how long after its certificate ran out a node may come back with its enrolled key alone.
    allocations: the chain of an allocation's node, and its limits.
    logs: how much of what tasks write is taken and kept.
    launches: when a node is asked what became of a task that it took and says nothing of.
    jobs: what jobs are compiled to, and when a lost node's tasks are placed anew.
    checkpoint_seconds: how often a checkpoint over all receipt chains is made, if one has grown.
    oidc: whose tokens for people are believed besides our own.
    webhook_allowed_networks: where webhooks may go besides public addresses, such as 10.20.0.0/16.
    webhook_ca_file: a CA besides the system's that receivers of webhooks may have their certificates from.
    telemetry_endpoint: where traces go, OTLP over HTTP; "" for nowhere. Needs the extra `telemetry`.
    relay_idle_seconds: how long nothing may move in an interactive session.
    node_telemetry_hours: how long measurements of nodes are kept, in a file of their own; 0 for not at all.
    node_telemetry_rows: how many may be kept, whatever their age.
    node_telemetry_series: how many nodes may have series of their own at /metrics.
    policy_engine: Rego files that may refuse what the policy allows. Needs the extra `policy`.
    webhook_park_hours: how long an event is tried at a receiver that does not take it.
    bundles: limits of the code bundles of jobs, which are kept in state_dir.
    updates: where nodes get packages of the agent, and how long runs that bring them may take.
    """

    cluster_id: str = "main"
    state_dir: str = "/var/lib/hostler-control"
    keys_dir: str = "/etc/hostler-control/keys"
    http_listen: Listen = "127.0.0.1:7080"
    http_tls_certificate: str = ""
    http_tls_key: str = ""
    node_listen: Listen = "0.0.0.0:7081"
    enroll_listen: Listen = "0.0.0.0:7082"
    internal_listen: MaybeListen = ""
    minters: tuple[MinterConfig, ...] = ()
    heartbeat_seconds: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 15
    envelope_seconds: Annotated[int, msgspec.Meta(ge=5, le=86_400)] = 600
    start_within_seconds: Annotated[int, msgspec.Meta(ge=5)] = 86_400
    checkpoint_seconds: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = 60
    certificate_seconds: Annotated[int, msgspec.Meta(ge=60)] = 86_400
    recovery_days: Annotated[int, msgspec.Meta(ge=0, le=3650)] = 180
    oidc: OidcSettings | None = None
    webhook_allowed_networks: tuple[str, ...] = ()
    webhook_ca_file: str = ""
    telemetry_endpoint: Annotated[str, msgspec.Meta(pattern=r"^(?:https?://[^\s]{1,500})?$(?!\n)")] = ""
    relay_idle_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)] = 1800
    node_telemetry_hours: Annotated[int, msgspec.Meta(ge=0, le=8760)] = 72
    node_telemetry_rows: Annotated[int, msgspec.Meta(ge=1000, le=1_000_000_000)] = 5_000_000
    node_telemetry_series: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 200
    webhook_park_hours: Annotated[int, msgspec.Meta(ge=1, le=720)] = 24
    jobs: Jobs = Jobs()
    policy_engine: PolicyEngineSettings | None = None
    log_format: Literal["auto", "json", "pretty"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    allocations: Allocations = Allocations()
    bundles: BundleSettings = BundleSettings()
    updates: UpdateSettings = UpdateSettings()
    logs: Logs = Logs()
    launches: Launches = Launches()

    @property
    def store_path(self) -> Path:
        return Path(self.state_dir) / "control.db"

    @property
    def samples_path(self) -> Path:
        return Path(self.state_dir) / "telemetry.db"

    @property
    def packages(self) -> Path:
        return Path(self.updates.packages_dir or Path(self.state_dir) / "packages")

    @property
    def keys(self) -> Path:
        return Path(self.keys_dir)


def load(path: Path) -> ControlConfig:
    """Raises `invalid_config` with path, key and reason."""
    config = load_config(path, ControlConfig)
    if config.oidc is not None:
        check_oidc(config.oidc)
    _check_families(path, config.allocations.settings())
    networks(config.webhook_allowed_networks)
    host, _ = split(config.http_listen)
    has_tls = bool(config.http_tls_certificate and config.http_tls_key)
    if not has_tls and not _is_loopback(host):
        raise error(
            "invalid_config",
            f"{path}: http_listen {config.http_listen} is not loopback and has no TLS",
            hint="set http_tls_certificate and http_tls_key; bearer tokens do not travel in the clear",
        )
    return config


def _check_families(path: Path, settings: AllocationSettings) -> None:
    """Nodes take a link only of the family it belongs to; another name would be refused by all of them."""
    for link in LINK_ORDER:
        for provision in settings.provision_profiles:
            ref = settings.ref(link, provision)
            if not ref.startswith(f"{FAMILIES[link]}@"):
                raise error("invalid_config", f"{path}: {ref} cannot be link {link}; it runs a {FAMILIES[link]}")


def split(listen: str) -> tuple[str, int]:
    """`host:port` as a pair."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
