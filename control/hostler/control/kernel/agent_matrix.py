"""Which scenario goes by which mode, and how: one table (seed 004 §9.2a, §9.2b; LC-07..LC-11).

automated   signed tasks do it, with a trial on the node
provider    a machine provider reimages the host with a document that it is given once
manual      a person runs exact commands; the node's own report ends the run
brokered    the mode cannot do it: the run says what can, and ends when that was done
"""

from typing import NamedTuple

from hostler.base.errors import error

REIMAGE, MANUAL, REBOOTSTRAP = MODES = ("reimage", "manual_install", "rebootstrap")
BOOTSTRAP, UPGRADE, REPAIR, CERTIFICATE, RECONCILE = SCENARIOS = (
    "bootstrap_install",
    "in_place_upgrade",
    "repair_reinstall",
    "certificate_repair",
    "drift_reconcile",
)
IDLE, DRAIN, FORCE = POLICIES = ("idle", "drain", "force")
AUTOMATED, PROVIDER, BY_HAND, BROKERED = KINDS = ("automated", "provider", "manual", "brokered")


class Plan(NamedTuple):
    """Attributes:
    release: a signed package is needed.
    token: the host enrols anew as the same node, with a token made for that.
    action, reason: what is to be done outside, and why; for people and for programs.
    instead: modes that would do it, the best first; for what is brokered.
    """

    kind: str
    release: bool = True
    token: bool = False
    action: str = ""
    reason: str = ""
    instead: tuple[str, ...] = ()


_IN_PLACE = Plan(AUTOMATED)
_IMAGE = Plan(PROVIDER, token=True, action="reimage_host", reason="the provider boots the host with the document")
_PACKAGE = Plan(BY_HAND, action="install_package", reason="a person installs the package and keeps the identity")

PLANS: dict[tuple[str, str], Plan] = {
    (BOOTSTRAP, REIMAGE): _IMAGE,
    (BOOTSTRAP, MANUAL): Plan(
        BY_HAND, token=True, action="install_and_enroll", reason="a person installs the package and enrols the host"
    ),
    (BOOTSTRAP, REBOOTSTRAP): Plan(
        BROKERED,
        token=False,
        action="choose_another_mode",
        reason="no agent runs there yet that could take a task",
        instead=(MANUAL, REIMAGE),
    ),
    (UPGRADE, REIMAGE): _IMAGE,
    (UPGRADE, MANUAL): _PACKAGE,
    (UPGRADE, REBOOTSTRAP): _IN_PLACE,
    (REPAIR, REIMAGE): _IMAGE,
    (REPAIR, MANUAL): _PACKAGE,
    (REPAIR, REBOOTSTRAP): _IN_PLACE,
    (CERTIFICATE, REIMAGE): _IMAGE,
    (CERTIFICATE, MANUAL): Plan(
        BY_HAND, release=False, token=True, action="enroll_again", reason="the same package stays, the host enrols anew"
    ),
    (CERTIFICATE, REBOOTSTRAP): Plan(
        BROKERED,
        release=False,
        action="choose_another_mode",
        reason="a signed task needs the certificate that is to be mended",
        instead=(MANUAL, REIMAGE),
    ),
    (RECONCILE, REIMAGE): _IMAGE,
    (RECONCILE, MANUAL): _PACKAGE,
    (RECONCILE, REBOOTSTRAP): _IN_PLACE,
}


def plan(scenario: str, mode: str, safety_policy: str) -> Plan:
    """How the run goes. Raises `invalid_request` for a word that is none of them."""
    for name, word, words in (
        ("scenario", scenario, SCENARIOS),
        ("mode", mode, MODES),
        ("safety_policy", safety_policy, POLICIES),
    ):
        if word not in words:
            raise error("invalid_request", f"{word!r} is none of {', '.join(words)}", pointer=f"/{name}")
    return PLANS[scenario, mode]
