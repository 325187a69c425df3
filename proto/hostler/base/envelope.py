"""The signed envelope as plain data (DSSE). Signing and verifying live in `hostler.pki.dsse`."""

import msgspec

TASK_TYPE = "application/vnd.hostler.task.v1+protobuf"
CANCEL_TYPE = "application/vnd.hostler.cancel.v1+protobuf"
KEYSET_TYPE = "application/vnd.hostler.keyset.v1+json"
APPROVAL_TYPE = "application/vnd.hostler.approval.v1+json"
CATALOG_TYPE = "application/vnd.hostler.catalog.v1+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
CHECKPOINT_TYPE = "application/vnd.hostler.checkpoint.v1+json"
MINTED_TYPE = "application/vnd.hostler.minted.v1+json"
AGENT_REPORT_TYPE = "application/vnd.hostler.agent-report.v1+json"
COUNTERSIGNATURE_TYPE = "application/vnd.hostler.countersignature.v1+json"


class Signature(msgspec.Struct, frozen=True):
    keyid: str
    sig: bytes


class Envelope(msgspec.Struct, frozen=True):
    """`payload` is opaque until `hostler.pki.dsse.verify` has accepted a signature over it."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]
