"""What the update keys say of releases, by the newest metadata that this node has believed."""

import msgspec

from hostler.agent.upgrade import records, slots
from hostler.agent.upgrade.installed import Installed
from hostler.agent.upgrade.places import Places
from hostler.agent.upgrade.slots import Found
from hostler.base.errors import HostlerError, error
from hostler.pki.releases import verify_releases


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that was believed last; older is a replay (U3)."""

    trusted: dict[str, bytes] = {}


def known(places: Places) -> Known:
    return records.read(places.releases, Known) or Known()


def check_offered(installed: Installed, slot: Found, now_ms: int) -> None:
    """Whether the release in a slot is signed still. The network is not asked: a node may be alone.

    Raises:
        HostlerError: `release_withdrawn`; `release_stale` where what this node knows has expired, or is nothing;
            `release_untrusted`, `keyset_stale` by the keyset in force.
    """
    trust, trusted = installed.trust(), known(installed.places).trusted
    trust.check_fresh(now_ms)
    if not trusted:
        raise error("release_stale", "this node does not know which releases are signed", hint="stage the version anew")
    verified, mine = verify_releases(trusted, trust.keyset, {}, now_ms), slots.release_of(installed.places, slot.name)
    try:
        offered = verified.find(slot.version, slot.suite)
    except HostlerError as err:
        raise error("release_withdrawn", f"release {slot.version} is not signed any more") from err
    if mine is None or offered.sha256 != mine.sha256:
        raise error("release_withdrawn", f"another package than lies here is signed as release {slot.version} now")
