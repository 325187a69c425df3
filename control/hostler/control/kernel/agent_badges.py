"""The word that stands behind a node in a list, and what it counts as: one rule (LC-05, LC-06)."""

from collections.abc import Iterable
from typing import NamedTuple

from hostler.pki.agent_report import DriftState, is_unknown_build

CURRENT, OUTDATED = "Current", "Outdated"
CONFIG_DRIFT, CERT_REPAIR, UNKNOWN_BUILD = "Config drift", "Cert repair", "Unknown build"
BADGES = (CURRENT, OUTDATED, CONFIG_DRIFT, CERT_REPAIR, UNKNOWN_BUILD)
DRIFT = "drift"  # asked for: every badge that the card `Agent drift` counts


class Summary(NamedTuple):
    """Over all active nodes. `agent_drift` is every node that is not current, unknown builds too (LC-05)."""

    agent_current: int = 0
    agent_drift: int = 0
    unknown_build: int = 0


def badge(version: str, commit: str, desired: str, drift_state: str, node_drift: str) -> str:
    """The gravest thing that is known of a node's agent.

    Args:
        version: what its hello said; commit: what it was built from; desired: "" for nothing in particular.
        drift_state: of its own report; node_drift: of its heartbeat.
    """
    if is_unknown_build(version, commit):
        return UNKNOWN_BUILD
    if DriftState.CERTIFICATE_ONLY in (drift_state, node_drift):
        return CERT_REPAIR
    if drift_state == DriftState.CONFIG_DRIFT:
        return CONFIG_DRIFT
    behind = desired and version != desired
    return OUTDATED if behind or (not desired and drift_state == DriftState.VERSION_DRIFT) else CURRENT


def summary(badges: Iterable[tuple[str, int]]) -> Summary:
    """Of each badge and how many nodes have it; one may come more than once."""
    current = drift = unknown = 0
    for each, nodes in badges:
        current += nodes * (each == CURRENT)
        drift += nodes * (each != CURRENT)
        unknown += nodes * (each == UNKNOWN_BUILD)
    return Summary(current, drift, unknown)
