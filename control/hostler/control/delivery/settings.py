"""`[updates]` of control.toml."""

from typing import Annotated

import msgspec

from hostler.control.kernel.agent_settings import AgentSettings

_DEFAULTS = AgentSettings()
Url = Annotated[str, msgspec.Meta(pattern=r"^(?:https://[A-Za-z0-9._~:/\[\]-]{1,400})?$(?!\n)")]
Address = Annotated[str, msgspec.Meta(pattern=r"^(?:(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\]):[0-9]{1,5})?$(?!\n)")]
Ref = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_.]+@v[0-9]+$(?!\n)")]
Seconds = Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)]


class UpdateSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    public_url: https address at which nodes reach this control plane's HTTP, for packages and their metadata alone; ""
        for nowhere: then no version is brought to any node.
    url_ttl_seconds: how long the address of a package is good.
    packages_dir: where packages are kept; "" for `packages` below state_dir.
    package_bytes, reserve_bytes: the largest package that is taken, and what it leaves free on the file system.
    downloads: packages that are sent at one time; who comes then is asked to come again.
    node_address, enroll_address: host:port at which a host that is installed anew finds node_listen and enroll_listen.
    ca_file: PEM of the authority that public_url has its certificate from, for those hosts; "" for one they know.
    host_toml_file: settings for the agent.toml of those hosts, beside the addresses; "" for none.
    reimage_seconds: how long the token and the address in its document are good.
    run_seconds: how long a run may take in all, waiting for its node included; operator_days: where people do it.
    verify_seconds: how long the checks at its end may take.
    report_seconds: how often agents look at themselves; 0 for their own default.
    stage_profile, update_profile, rollback_profile, verify_profile: the operations that a run is made of.
    """

    public_url: Url = ""
    url_ttl_seconds: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = _DEFAULTS.url_ttl_ms // 1000
    packages_dir: str = ""
    package_bytes: Annotated[int, msgspec.Meta(ge=1 << 20, le=4 << 30)] = 256 << 20
    reserve_bytes: Annotated[int, msgspec.Meta(ge=0)] = 1 << 30
    downloads: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    node_address: Address = ""
    enroll_address: Address = ""
    ca_file: str = ""
    host_toml_file: str = ""
    reimage_seconds: Seconds = 14_400
    run_seconds: Seconds = _DEFAULTS.run_ms // 1000
    operator_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = _DEFAULTS.operator_ms // 86_400_000
    verify_seconds: Seconds = _DEFAULTS.verify_ms // 1000
    report_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 0
    stage_profile: Ref = _DEFAULTS.stage_profile
    update_profile: Ref = _DEFAULTS.update_profile
    rollback_profile: Ref = _DEFAULTS.rollback_profile
    verify_profile: Ref = _DEFAULTS.verify_profile

    def settings(self, url_key: bytes) -> AgentSettings:
        """For the kernel, in milliseconds."""
        return AgentSettings(
            public_url=self.public_url.rstrip("/"),
            url_key=url_key,
            url_ttl_ms=self.url_ttl_seconds * 1000,
            run_ms=self.run_seconds * 1000,
            operator_ms=self.operator_days * 86_400_000,
            verify_ms=self.verify_seconds * 1000,
            report_seconds=self.report_seconds,
            stage_profile=self.stage_profile,
            update_profile=self.update_profile,
            rollback_profile=self.rollback_profile,
            verify_profile=self.verify_profile,
        )
