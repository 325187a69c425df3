"""A rotation played through on a copy of the ceremony's directory, with nodes that sleep at the worst moments.

Each stage is made with throwaway keys in a temporary directory; then every node tries what it would have to do:
trust the control plane's certificate, follow the keysets it missed, and verify a task and a catalog.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hostler.base.envelope import CATALOG_TYPE, TASK_TYPE
from hostler.base.errors import HostlerError
from hostler.pki import dsse, rotate_files
from hostler.pki.ceremony import load_signer, read_keyset
from hostler.pki.keyset import KeyRole
from hostler.pki.storage import read_public
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust
from hostler.pki.x509 import issued_by

Awake = Callable[[int], bool]


class Finding(NamedTuple):
    """`reason` is empty where all went well."""

    stage: str
    node: str
    reason: str


class _Node:
    """A node's trust, and when it is there."""

    def __init__(self, name: str, store: TrustStore, awake: Awake) -> None:
        self.name = name
        self.store = store
        self.awake = awake


def rehearse(directory: Path, role: KeyRole, now_ms: int) -> list[Finding]:
    """What each stage would do to each node. Touches nothing in `directory`.

    Raises:
        HostlerError: what a stage itself runs into, such as root keys that are not here.
    """
    with tempfile.TemporaryDirectory(prefix="hostler-rehearsal-") as scratch:
        copy = Path(scratch) / "pki"
        shutil.copytree(directory, copy)
        history = [read_public(copy / "control" / "keyset.json")]
        nodes = _nodes(copy, now_ms)
        findings: list[Finding] = []
        for turn, (stage, act) in enumerate(_stages(copy, role, now_ms), start=1):
            act()
            newest = read_public(copy / "control" / "keyset.json")
            if newest != history[-1]:
                history.append(newest)
            if turn == 1:
                store = TrustStore(load_trust(copy / "trust.json"), now_ms)
                nodes.append(_Node("enrolled in the middle", store, lambda _: True))
            findings += [Finding(stage, n.name, _try(n, copy, history, now_ms)) for n in nodes if n.awake(turn)]
        return findings


def _stages(copy: Path, role: KeyRole, now_ms: int) -> list[tuple[str, Callable[[], object]]]:
    roots = rotate_files.load_roots(copy)
    if role is KeyRole.ROOT:
        return [("replace", lambda: rotate_files.rotate_root(copy, roots, now_ms))]
    return [
        ("introduce", lambda: rotate_files.introduce(copy, role, roots, now_ms)),
        ("activate", lambda: rotate_files.activate(copy, role, now_ms)),
        ("retire", lambda: rotate_files.retire(copy, role, roots, now_ms)),
    ]


def _nodes(copy: Path, now_ms: int) -> list[_Node]:
    state = load_trust(copy / "trust.json")
    return [
        _Node("always there", TrustStore(state, now_ms), lambda _: True),
        _Node("asleep for one stage", TrustStore(state, now_ms), lambda turn: turn != 2),
        _Node("asleep until the end", TrustStore(state, now_ms), lambda turn: turn == 3),
    ]


def _try(node: _Node, copy: Path, history: list[bytes], now_ms: int) -> str:
    """What the node does when it meets the control plane; why it could not, or ""."""
    control = copy / "control"
    if not issued_by(read_public(control / "server.pem"), node.store.keyset.ca_certificates):
        return "cannot reach the control plane: it knows no CA of its certificate, and has to be enrolled again"
    try:
        for keyset in history:
            if dsse_version(keyset) > node.store.keyset.version:
                node.store.update_keyset(keyset, now_ms)
        for role, kind, key in (
            (KeyRole.DISPATCH, TASK_TYPE, control / "dispatch.key"),
            (KeyRole.CATALOG, CATALOG_TYPE, copy / "catalog" / "catalog.key"),
        ):
            if key.exists():
                node.store.verify(dsse.sign(b"rehearsal", kind, [load_signer(key)]), kind, role, now_ms)
    except HostlerError as err:
        return f"{err.message} [{err.code}]"
    return ""


def dsse_version(keyset: bytes) -> int:
    """The version a keyset file claims."""
    return read_keyset(keyset).version
