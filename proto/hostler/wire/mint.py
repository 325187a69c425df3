"""What a node asks when a step needs a credential, and what it is answered (CR-01; 004 §4.5).

The request is signed by the runner's own key and carries a key made for it alone; the answer is sealed to that key and
signed by the control plane. So whoever carries the two, the node's own network process included, can read neither the
credential nor ask for one, nor put another in its place.
"""

from typing import Annotated, Any

import msgspec

from hostler.base.digest import canonical_json, sha256_hex

MAX_REQUEST_BYTES = 16 * 1024
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class MintRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attributes:
    intent: what the credential shall open; of the type's struct in `hostler.catalog.credentials`.
    part: name of the one field of the material that is wanted, "" for the whole as JSON.
    public_key: X25519, 32 bytes, made for this request.
    nonce: 16 bytes; a request is answered once.
    """

    node_id: Id
    task_id: Id
    operation_id: Id
    attempt_uid: Id
    step_id: Id
    credential_type: Id
    intent: dict[str, Any]
    part: Annotated[str, msgspec.Meta(max_length=64)] = ""
    public_key: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    nonce: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]

    def signed_bytes(self) -> bytes:
        """What the runner's signature covers: canonical JSON, with what it is for in front."""
        return b"hostler mint v1\n" + canonical_json(msgspec.to_builtins(self))

    def digest(self) -> str:
        return sha256_hex(self.signed_bytes())


class SignedMintRequest(MintRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """As it travels: the request, and the runner's signature over it."""

    signature: Annotated[bytes, msgspec.Meta(max_length=128)]

    def request(self) -> MintRequest:
        fields = {name: getattr(self, name) for name in MintRequest.__struct_fields__}
        return MintRequest(**fields)


class Minted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The payload of the answer's DSSE envelope, type `MINTED_TYPE`.

    Attributes:
        request_digest: of the request that this answers.
        one_time: the one step that uses it uses it up (CR-06).
        sealed: see `hostler.pki.sealing`.
    """

    request_digest: str
    credential_type: str
    expires_at_ms: int
    one_time: bool
    sealed: bytes
