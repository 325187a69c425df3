"""Which profiles an allocation's links run, how long each may take, and when the breaker opens."""

import msgspec

PROVISION, DEPROVISION, REVOKE, VERIFY = "provision", "deprovision", "identity_revoke", "reclaim_verify"
# The family of profiles that a link may run; nodes hold the same table and refuse any other.
FAMILIES = {
    PROVISION: "allocation.runtime.provision",
    DEPROVISION: "allocation.runtime.deprovision",
    REVOKE: "allocation.identity.revoke",
    VERIFY: "node.reclaim.verify",
}


LINK_ORDER = (PROVISION, DEPROVISION, REVOKE, VERIFY)


class AllocationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    provision_profiles: `type@version`s that a request may name; the first that is registered is the default.
    reserve_after_ms: how long a request waits before free nodes are held back for it; 0 for never.
    lend_unverified: whether a node of the pool is lent before a baseline of it was taken.
    breaker_percent, breaker_nodes: the breaker opens when more than this share of the pool, and at least so many
        nodes, would be quarantined by failed verifications within `breaker_window_ms`.
    """

    provision_profiles: tuple[str, ...] = ("allocation.runtime.provision@v1", "allocation.runtime.provision@v2")
    deprovision_profile: str = "allocation.runtime.deprovision@v1"
    revoke_profile: str = "allocation.identity.revoke@v1"
    verify_profile: str = "node.reclaim.verify@v1"
    probe_profile: str = "node.reclaim.probe@v1"
    baseline_profile: str = "node.baseline.take@v1"
    wait_ms: int = 86_400_000
    reserve_after_ms: int = 600_000
    lend_unverified: bool = True
    provision_ms: int = 3_600_000
    deprovision_ms: int = 3_600_000
    revoke_ms: int = 900_000
    verify_ms: int = 93_600_000  # disks may be erased in it
    breaker_percent: int = 20
    breaker_nodes: int = 3
    breaker_window_ms: int = 3_600_000

    def ref(self, link: str, provision_ref: str) -> str:
        """The profile that a link runs now."""
        return {
            PROVISION: provision_ref,
            DEPROVISION: self.deprovision_profile,
            REVOKE: self.revoke_profile,
            VERIFY: self.verify_profile,
        }[link]

    def limit_ms(self, link: str) -> int:
        """How long a link may take, from its start."""
        return {
            PROVISION: self.provision_ms,
            DEPROVISION: self.deprovision_ms,
            REVOKE: self.revoke_ms,
            VERIFY: self.verify_ms,
        }[link]
