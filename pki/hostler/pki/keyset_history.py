"""Keysets in a row, each signed by the roots of the one before: from the keyset a verifier has to the newest."""

from collections.abc import Iterable

from hostler.base.errors import HostlerError
from hostler.pki import dsse
from hostler.pki.keyset import Keyset, parse_keyset
from hostler.pki.trust import TrustState, TrustStore


def accepted_keysets(trust: TrustState, documents: Iterable[bytes]) -> list[Keyset]:
    """The keyset of `trust` and every newer one that follows from it, oldest first. Nothing here expires: what was
    signed under a keyset outlives it.

    Args:
        documents: DSSE JSON, oldest first. Those older than the verifier's own are passed over and not used.

    Raises:
        HostlerError: `keyset_untrusted` and its kin for one that does not follow.
    """
    store = TrustStore(trust, now_ms=0)
    found = [store.keyset]
    for document in documents:
        try:
            if store.update_keyset(document, now_ms=0):
                found.append(store.keyset)
        except HostlerError as err:
            # the roots that signed an older one may have been replaced since
            if err.code != "keyset_rollback" and not _is_older(document, store):
                raise
    return found


def _is_older(document: bytes, store: TrustStore) -> bool:
    return parse_keyset(dsse.from_json(document).payload).version < store.keyset.version
