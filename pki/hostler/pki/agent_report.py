"""What an agent says of itself, signed by its node's key: versions, digests, and how far it is from what is wanted.

Drift is judged where the files are (LC-04): the control plane keeps the report and shows its evidence.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.envelope import AGENT_REPORT_TYPE
from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.pki import dsse
from hostler.pki.keys import PublicKey, Signer

MOST_BYTES = 64 << 10
MOST_EVIDENCE = 64
UNKNOWN_COMMIT, DEV_VERSION = "unknown", "dev"
Moment = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]  # Unix milliseconds; what every reader of JSON can hold


class DriftState(StrEnum):
    """Seed 004 §9.1."""

    IN_SYNC = "in_sync"
    VERSION_DRIFT = "version_drift"
    CONFIG_DRIFT = "config_drift"
    CERTIFICATE_ONLY = "certificate_only_repair_needed"
    UNKNOWN = "unknown"


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing that is not as it should be. `expected` and `found` are digests, versions or short words; "" is
    not there.
    """

    kind: str  # version, build, file, unit, config, certificate, slot, trial
    name: str
    expected: str
    found: str


class Slot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A version that lies on the node. `state`: running; packaged; previous (what ran before); kept (has stood a trial
    there too); staged (may be gone to from what runs); superseded (was staged, and something newer runs); bad."""

    version: str
    commit: str
    state: str


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A version on trial. Times are Unix milliseconds; checks are the moments they held, 0 for not yet (LC-21)."""

    version: str
    from_version: str
    task_id: str
    deadline_ms: Moment
    started_ms: Moment = 0  # it runs and said so
    renewed_ms: Moment = 0  # it has a certificate that it asked for itself
    connected_ms: Moment = 0  # it holds its session
    task_done_ms: Moment = 0  # it has finished a task and the control plane has its receipts


class Returned(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The last return to an earlier version, told by the version returned to (EV-09)."""

    version: str  # that was given up
    to_version: str
    task_id: str  # that had activated it, "" when an administrator asked
    error_code: str
    reason: str
    at_ms: Moment


class AgentReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    suite: Debian release that the package was built for; "" where the agent runs from no package.
    desired_version: what the control plane had asked for when this was judged; "" for nothing.
    files_digest, units_digest, config_digest: sha256 over the files found, "" where there are none.
    looked_ms, next_at_ms: when the node looked at its files, and when it does so again (LC-22).
    """

    node_id: str
    at_ms: Moment
    version: str
    commit: str
    suite: str = ""
    desired_version: str = ""
    state: DriftState
    evidence: tuple[Evidence, ...] = ()
    files_digest: str = ""
    units_digest: str = ""
    config_digest: str = ""
    slots: tuple[Slot, ...] = ()
    trial: Trial | None = None
    returned: Returned | None = None
    looked_ms: Moment = 0
    next_at_ms: Moment = 0


def sign_report(report: AgentReport, signer: Signer) -> bytes:
    """DSSE JSON."""
    return dsse.to_json(dsse.sign(canonical_json(msgspec.to_builtins(report)), AGENT_REPORT_TYPE, [signer]))


def open_report(data: bytes, node_id: str, key: PublicKey) -> AgentReport:
    """The report, if that node's key signed it about that node.

    Raises:
        HostlerError: `bad_signature`, `untrusted_key`, or `invalid_request` for one that is too large, malformed
            or about another node.
    """
    if len(data) > MOST_BYTES:
        raise error("invalid_request", f"an agent's report is larger than {MOST_BYTES} bytes")
    envelope = dsse.from_json(data)
    dsse.verify(envelope, AGENT_REPORT_TYPE, [key])
    report = decode_json(envelope.payload, AgentReport, what="agent's report")
    if report.node_id != node_id:
        raise error("invalid_request", "an agent's report is about another node")
    if len(report.evidence) > MOST_EVIDENCE:
        raise error("invalid_request", f"an agent's report has more than {MOST_EVIDENCE} pieces of evidence")
    return report


def is_unknown_build(version: str, commit: str) -> bool:
    """A development build is drift however well it runs (LC-05)."""
    return commit in ("", UNKNOWN_COMMIT) or version in ("", DEV_VERSION)
