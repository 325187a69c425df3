"""Asks the control plane for a credential, so that the network process in between can neither read nor forge it.

The request is signed with the runner's own key, which that process never holds, and names a key made for it alone; the
answer is signed by the dispatch key and sealed to the latter.
"""

import secrets
from collections.abc import Callable

import msgspec

from hostler.agent.lifecycle.identity import Identity
from hostler.agent.outside.frames import Tls
from hostler.agent.outside.outside import Asks
from hostler.agent.steps.contract import MintedSecret, MintOrder
from hostler.base.clock import Clock
from hostler.base.envelope import MINTED_TYPE
from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.pki.trust import TrustStore

_TIMEOUT_S = 45.0  # above what the control plane gives its minters


class Mints:
    """One call a credential."""

    def __init__(
        self,
        ask: Asks,
        target: Callable[[], tuple[Tls, str]],
        me: Callable[[], Identity],
        trust: Callable[[], TrustStore],
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._target = target
        self._me = me
        self._trust = trust
        self._clock = clock

    async def __call__(self, order: MintOrder) -> MintedSecret:
        """The secret, in locked memory.

        Raises:
            HostlerError: what the control plane answered; `controller_unreachable`; `bad_signature` and others for an
                answer that is not the control plane's to this request; `secret_memory`.
        """
        from google.protobuf.message import DecodeError

        from hostler.agent.secrets.secret import Secret
        from hostler.pki import dsse
        from hostler.pki.keyset import KeyRole
        from hostler.pki.sealing import Recipient
        from hostler.v1 import node_pb2
        from hostler.wire.mint import Minted, MintRequest, SignedMintRequest

        me, recipient = self._me(), Recipient()
        if me.runner_key is None:
            reason = "this node was enrolled before credentials were known and has no key to ask with"
            raise error("mint_unsigned", reason)
        fields = msgspec.structs.asdict(order)
        request = MintRequest(node_id=me.node_id, public_key=recipient.public, nonce=secrets.token_bytes(16), **fields)
        signed = SignedMintRequest(
            **msgspec.structs.asdict(request), signature=me.runner_key.sign(request.signed_bytes())
        )
        tls, address = self._target()
        message = node_pb2.MintRequest(request=msgspec.json.encode(signed)).SerializeToString()
        data = await self._ask(tls, address, "Mint", message, _TIMEOUT_S)
        try:
            envelope = dsse.from_json(node_pb2.MintResponse.FromString(data).minted)
        except DecodeError as err:
            raise error("malformed_envelope", "the answer to a request for a credential is none") from err
        payload = self._trust().verify(envelope, MINTED_TYPE, KeyRole.DISPATCH, self._clock.now_ms())
        minted = decode_json(payload, Minted, code="malformed_envelope", what="minted credential")
        digest = request.digest()
        if minted.request_digest != digest or minted.credential_type != request.credential_type:
            raise error("bad_signature", "the credential answers another request")
        secret = Secret.take(recipient.open(minted.sealed, digest.encode()))
        return MintedSecret(secret=secret, expires_at_ms=minted.expires_at_ms, one_time=minted.one_time)
