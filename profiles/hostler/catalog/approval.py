"""Approvals: what destroys, or runs as root, needs more signatures than the catalog's own (m-of-n).

An approval binds one definition and every command profile it uses, by digest. So it outlives catalog versions
in which they stay as they are, and ends with the first byte that changes.
"""

from collections.abc import Iterable, Mapping

import msgspec

from hostler.base.digest import canonical_json
from hostler.base.envelope import APPROVAL_TYPE, Envelope
from hostler.base.errors import HostlerError, error
from hostler.base.strict import convert, decode_canonical
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.catalog.kinds import KINDS
from hostler.catalog.used_profiles import profiles_of
from hostler.pki import dsse
from hostler.pki.keyset import KeyRole
from hostler.pki.trust import TrustStore

_ROOT = frozenset({"root", "0"})
_DSSE_START = b'{"payload":'


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Digests as in the manifest (hex SHA-256 of canonical JSON); `commands` by command profile id."""

    ref: str
    definition: str
    commands: dict[str, str]


def commands_of(definition: Definition, commands: Mapping[str, CommandProfile]) -> dict[str, CommandProfile]:
    """The command profiles that its steps name."""
    named = [name for step in definition.steps for name in profiles_of(step)]
    return {name: commands[name] for name in named if name in commands}


def needs_approval(definition: Definition, commands: Mapping[str, CommandProfile]) -> bool:
    """Whether it destroys: by its own word, by a step kind, or because a command of it runs as root."""
    kinds = (KINDS.get(step.kind) for step in definition.steps)
    if definition.destructive or any(kind.destructive for kind in kinds if kind is not None):
        return True
    return any(profile.run_as in _ROOT for profile in commands_of(definition, commands).values())


def approval_of(definition: Definition, commands: Mapping[str, CommandProfile]) -> Approval:
    used = commands_of(definition, commands)
    return Approval(
        ref=definition.ref,
        definition=definition.digest(),
        commands={name: profile.digest() for name, profile in used.items()},
    )


def approval_payload(approval: Approval) -> bytes:
    return canonical_json(msgspec.to_builtins(approval))


class Approvals:
    """The approvals that came with a catalog. None counts before `check` has verified it."""

    def __init__(self, documents: Iterable[bytes]) -> None:
        self._found: dict[bytes, tuple[bytes, Envelope]] = {}
        for document in documents:
            if document.startswith(_DSSE_START):
                envelope = dsse.from_json(document)
                self._found[envelope.payload] = (document, envelope)

    def check(
        self, definition: Definition, commands: Mapping[str, CommandProfile], trust: TrustStore, now_ms: int
    ) -> bytes:
        """The document that approves `definition` exactly as it is.

        Raises:
            HostlerError: `approval_missing` for none, or one without enough signatures by approvers.
        """
        document, envelope = self._found.get(approval_payload(approval_of(definition, commands)), (b"", None))
        if envelope is None:
            raise error("approval_missing", f"{definition.ref} destroys or runs as root, and nobody approved it so")
        try:
            trust.verify(envelope, APPROVAL_TYPE, KeyRole.DESTRUCTIVE, now_ms)
        except HostlerError as err:
            raise error("approval_missing", f"the approval of {definition.ref} does not count: {err.message}") from err
        return document


def read_approval(envelope: Envelope) -> Approval:
    """What an approval says, unverified: to show it to the one who is asked to sign.

    Raises:
        HostlerError: `catalog_mismatch`.
    """
    value = decode_canonical(envelope.payload, code="catalog_mismatch", what="approval")
    return convert(value, Approval, code="catalog_mismatch", what="approval")
