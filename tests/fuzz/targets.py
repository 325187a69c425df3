"""The verifiers, each with a valid sample to bend and the judgement that nothing bent was believed.

What may be accepted is an envelope whose *signed* part is still the original's: the frame around it is not signed,
and bytes that decode to the same payload, type and a good signature are the same message.
"""

from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.message import DecodeError

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted, Refusal
from hostler.base.envelope import Envelope
from hostler.base.errors import HostlerError
from hostler.catalog.manifest import open_catalog, read_bundle, write_bundle
from hostler.pki import dsse
from hostler.pki.ceremony import sign_keyset
from hostler.pki.keyset import parse_keyset
from hostler.pki.releases import encode_metadata, parse_metadata, verify_releases
from hostler.pki.rotation import successor
from hostler.pki.trust import TrustStore
from hostler.wire.codec_node import decode_envelope, encode_envelope
from support import builders, resolving
from support.keys import NOW, Keys
from support.releases import House

from .mutations import BYTES, JSON, Mutation

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
VIEW = builders.view(KEYS, CATALOG)
_TASKS = [builders.envelope(KEYS, builders.task(KEYS, CATALOG)) for _ in range(2)]
_CANCELS = [builders.envelope(KEYS, builders.cancel(builders.task(KEYS, CATALOG))) for _ in range(2)]
_STATE = KEYS.state()
_NEXT = [
    sign_keyset(successor(parse_keyset(dsse.from_json(_STATE.keyset).payload), NOW + n), [KEYS.root]) for n in (1, 2)
]
_RESOLVERS = {"default": resolving.sample()}
_BUNDLES = [
    write_bundle(
        *builders.catalog_bundle(
            KEYS, [builders.definition()], resolving.commands(), resolvers=_RESOLVERS, version=version
        )
    )
    for version in (2, 3)
]
_HOUSE = House()
_RELEASES = [encode_metadata(_HOUSE.publish()) for _ in range(2)]

Samples = tuple[bytes, bytes]


class Target(NamedTuple):
    """`judge` gives the word for the statistics; it starts with ACCEPTED where bent bytes were believed."""

    name: str
    samples: Samples
    mutations: tuple[Mutation, ...]
    judge: Callable[[bytes, Samples], str]


ACCEPTED = "ACCEPTED "


def _is_genuine(envelope: Envelope, originals: list[Envelope]) -> bool:
    """Whether what is signed is that of a sample: a splice may be nothing but the other one."""
    return (envelope.payload, envelope.payload_type) in [(each.payload, each.payload_type) for each in originals]


def _judge_envelope(sent: Envelope, originals: list[Envelope]) -> str:
    verdict = admit(sent, VIEW, NOW)
    if isinstance(verdict, Refusal):
        return verdict.error_code
    if _is_genuine(sent, originals):
        return "the same message in another frame"
    return ACCEPTED + ("as a task" if isinstance(verdict, Admitted) else "as a cancel")


def judge_wire(data: bytes, samples: Samples) -> str:
    """As it comes over gRPC."""
    try:
        sent = decode_envelope(data)
    except (DecodeError, ValueError):
        return "no protobuf"
    return _judge_envelope(sent, [decode_envelope(sample) for sample in samples])


def judge_json(data: bytes, samples: Samples) -> str:
    """As `hostler-agent policy check` reads it."""
    return _judge_envelope(dsse.from_json(data), [dsse.from_json(sample) for sample in samples])


def judge_keyset(data: bytes, samples: Samples) -> str:
    store = TrustStore(_STATE, NOW)
    if not store.update_keyset(data, NOW):
        return "the one in use"
    if _is_genuine(dsse.from_json(data), [dsse.from_json(sample) for sample in samples]):
        return "the same message in another frame"
    return ACCEPTED + "as a keyset"


def judge_catalog(data: bytes, samples: Samples) -> str:
    opened = open_catalog(*read_bundle(data), KEYS.trust(), NOW)
    manifests = [dsse.from_json(read_bundle(sample)[0]) for sample in samples]
    if _is_genuine(dsse.from_json(opened.manifest_envelope), manifests):
        return "the same message in another frame"
    return ACCEPTED + "as a catalog"


def judge_releases(data: bytes, samples: Samples) -> str:
    """As it comes to a control plane or node."""
    taken = verify_releases(parse_metadata(data), _HOUSE.keyset, {}, NOW)
    if (taken.releases, taken.versions, taken.expires_ms) in [_taken(sample) for sample in samples]:
        return "the same message in another frame"
    return ACCEPTED + "as releases"


def _taken(sample: bytes) -> tuple[object, ...]:
    taken = verify_releases(parse_metadata(sample), _HOUSE.keyset, {}, NOW)
    return taken.releases, taken.versions, taken.expires_ms


TARGETS = (
    Target("releases", (_RELEASES[0], _RELEASES[1]), JSON, judge_releases),
    Target("task over the wire", tuple(map(encode_envelope, _TASKS)), BYTES, judge_wire),  # type: ignore[arg-type]
    Target("cancel over the wire", tuple(map(encode_envelope, _CANCELS)), BYTES, judge_wire),  # type: ignore[arg-type]
    Target("task as JSON", tuple(map(dsse.to_json, _TASKS)), JSON, judge_json),  # type: ignore[arg-type]
    Target("keyset", (_NEXT[0], _NEXT[1]), JSON, judge_keyset),
    Target("catalog", (_BUNDLES[0], _BUNDLES[1]), JSON, judge_catalog),
)


def judge(target: Target, data: bytes) -> str:
    """The verdict as a word; an exception that is none of ours is a crash and comes through."""
    try:
        return target.judge(data, target.samples)
    except HostlerError as err:
        return err.code


def believed(word: str) -> bool:
    return word.startswith(ACCEPTED)
