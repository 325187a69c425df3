"""What the operator decided about the agents' versions; a part of `model.Settings`."""

import msgspec


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    public_url: where nodes fetch packages; "" for nowhere, and then nothing is delivered.
    url_key: makes the packages' short-lived addresses.
    run_ms: how long an automated run may take in all, waiting for its node included.
    operator_ms: how long a run waits for people.
    switch_ms: from the order to activate to the end of its trial, at most.
    verify_ms: how long the four checks may take after that.
    report_seconds: how often an agent looks at itself; 0 for its own default.
    stage_profile, update_profile, rollback_profile, verify_profile: operations that a run is made of.
    """

    public_url: str = ""
    url_key: bytes = b""
    url_ttl_ms: int = 900_000
    run_ms: int = 86_400_000
    operator_ms: int = 604_800_000
    switch_ms: int = 1_200_000
    verify_ms: int = 600_000
    report_seconds: int = 0
    stage_profile: str = "agent.upgrade.stage@v1"
    update_profile: str = "node.self_update@v1"
    rollback_profile: str = "agent.upgrade.rollback@v1"
    verify_profile: str = "node.agent.verify@v1"

    def __repr__(self) -> str:
        return f"AgentSettings(public_url={self.public_url!r}, ...)"  # never the key
