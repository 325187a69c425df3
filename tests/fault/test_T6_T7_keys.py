"""T6, T7: only the right role's keys count, each once; there is no algorithm to choose and no warn mode."""

import hashlib
import hmac
from collections.abc import Callable

import pytest

from hostler.agent.admission.admit import admit
from hostler.base.envelope import CANCEL_TYPE, KEYSET_TYPE, TASK_TYPE, Envelope, Signature
from hostler.base.errors import HostlerError
from hostler.catalog.manifest import open_catalog
from hostler.pki import dsse
from hostler.pki.keys import new_ed25519, new_p256
from hostler.wire.codec_task import encode_task
from support import builders
from support.agent import refused
from support.keys import NOW, Keys

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
SPEC = builders.task(KEYS, CATALOG)
PAYLOAD = encode_task(SPEC)
VIEW = builders.view(KEYS, CATALOG)
DISPATCH = KEYS.dispatch.public


def with_signatures(*signatures: Signature) -> Envelope:
    return Envelope(PAYLOAD, TASK_TYPE, signatures)


def hmac_with_the_public_key() -> Envelope:
    data = dsse.pae(TASK_TYPE, PAYLOAD)
    return with_signatures(Signature(DISPATCH.key_id, hmac.new(DISPATCH.spki_der, data, hashlib.sha256).digest()))


def renamed() -> Envelope:
    (foreign,) = dsse.sign(PAYLOAD, TASK_TYPE, [new_ed25519()]).signatures
    return with_signatures(Signature(DISPATCH.key_id, foreign.sig))


FORGERIES: dict[str, tuple[Callable[[], Envelope], str]] = {
    "no signature at all": (with_signatures, "untrusted_key"),
    "an empty signature": (lambda: with_signatures(Signature(DISPATCH.key_id, b"")), "bad_signature"),
    "an empty key id": (lambda: with_signatures(Signature("", b"x" * 64)), "untrusted_key"),
    "alg none as key id": (lambda: with_signatures(Signature("none", b"")), "untrusted_key"),
    "hmac with the public key": (hmac_with_the_public_key, "bad_signature"),
    "an unknown key": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [new_ed25519()]), "untrusted_key"),
    "an unknown key under a known name": (renamed, "bad_signature"),
    "the catalog key": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [KEYS.catalog]), "untrusted_key"),
    "the artifact key": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [KEYS.artifact]), "untrusted_key"),
    "the root key": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [KEYS.root]), "untrusted_key"),
    "the node's own key": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [KEYS.node]), "untrusted_key"),
    "another curve": (lambda: dsse.sign(PAYLOAD, TASK_TYPE, [new_p256()]), "untrusted_key"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_T6_a_forged_signature_is_refused(name: str) -> None:
    make, code = FORGERIES[name]
    assert refused(admit(make(), VIEW, NOW)) == (code, "signature")


def test_T6_a_good_signature_over_another_payload_type_does_not_count() -> None:
    cancel = dsse.sign(PAYLOAD, CANCEL_TYPE, [KEYS.dispatch])
    assert refused(admit(Envelope(PAYLOAD, TASK_TYPE, cancel.signatures), VIEW, NOW))[0] == "bad_signature"
    keyset = dsse.sign(PAYLOAD, KEYSET_TYPE, [KEYS.dispatch])
    assert refused(admit(keyset, VIEW, NOW)) == ("malformed_envelope", "signature")


def test_T6_a_key_that_left_the_keyset_is_untrusted() -> None:
    sent = builders.envelope(KEYS, SPEC)
    rotated = Keys(root=KEYS.root, catalog=KEYS.catalog, node=KEYS.node, version=2)
    view = builders.view(KEYS, CATALOG, trust=rotated.trust())
    assert refused(admit(sent, view, NOW)) == ("untrusted_key", "signature")


def test_T6_an_expired_keyset_verifies_nothing() -> None:
    view = builders.view(KEYS, CATALOG, trust=KEYS.trust(expires_ms=NOW))
    assert refused(admit(builders.envelope(KEYS, SPEC), view, NOW)) == ("keyset_stale", "signature")


def test_T7_one_key_that_signs_twice_counts_once() -> None:
    second, third = new_ed25519(), new_ed25519()
    keys = Keys(catalog_threshold=2, catalog_more=(second, third))
    manifest, documents = builders.catalog_bundle(keys, [builders.definition()])
    once = dsse.from_json(manifest)
    twice = Envelope(once.payload, once.payload_type, once.signatures * 2)
    with pytest.raises(HostlerError) as caught:
        open_catalog(dsse.to_json(twice), documents, keys.trust(), NOW)
    assert caught.value.code == "bad_signature"
    good, documents = builders.catalog_bundle(keys, [builders.definition()], signers=[keys.catalog, third])
    assert open_catalog(good, documents, keys.trust(), NOW).version == 1


def test_T7_one_key_under_two_names_counts_once() -> None:
    second = new_ed25519()
    keys = Keys(catalog_threshold=2, catalog_more=(second,))
    manifest, documents = builders.catalog_bundle(keys, [builders.definition()])
    envelope = dsse.from_json(manifest)
    (signature,) = envelope.signatures
    alias = Signature(second.public.key_id, signature.sig)
    doubled = Envelope(envelope.payload, envelope.payload_type, (signature, alias))
    with pytest.raises(HostlerError) as caught:
        open_catalog(dsse.to_json(doubled), documents, keys.trust(), NOW)
    assert caught.value.code == "bad_signature"
