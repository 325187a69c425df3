"""Enrolment: a one-use token and a signing request for an identity (PK-02)."""

import shutil
from pathlib import Path

import msgspec

from hostler.agent.lifecycle import identity
from hostler.agent.lifecycle.certificates import nameless
from hostler.agent.lifecycle.trust import trust_path
from hostler.agent.outside.outside import Asks
from hostler.base.clock import Clock
from hostler.base.errors import error
from hostler.base.logs import get_logger
from hostler.base.version import __version__
from hostler.pki.tokens import read_enrolment_token
from hostler.pki.trust import TrustStore
from hostler.pki.trust_files import load_trust, save_trust

_log = get_logger("hostler.agent.lifecycle.enroll")


class Enrolment(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go and what to say of oneself; from the agent's configuration."""

    state_dir: Path
    trust_file: Path
    address: str
    labels: dict[str, str]


async def enroll(
    ask: Asks, wanted: Enrolment, token_text: str, clock: Clock, *, again: bool = False
) -> identity.Identity:
    """Redeems the token. May be repeated with the same token until it has succeeded once.

    Raises:
        HostlerError: `enrolment_token_invalid`, `enrolment_token_used`, `controller_unreachable`,
            `already_initialised` on an enrolled node unless `again`.
    """
    from hostler.pki.x509 import make_csr
    from hostler.v1 import node_pb2

    token = read_enrolment_token(token_text)
    state_dir = wanted.state_dir
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = identity.directory(state_dir)
    if (folder / "node.json").exists():
        if not again:
            raise error(
                "already_initialised",
                f"this node is enrolled already: {folder} holds an identity",
                hint="pass --again to give it a new identity",
            )
        shutil.move(folder, folder.with_name(f"identity.{clock.now_ms()}.old"))
    state = load_trust(wanted.trust_file)
    store = TrustStore(state, clock.now_ms())
    store.check_fresh(clock.now_ms())
    signer = identity.make_key(state_dir)
    request = node_pb2.EnrollRequest(
        token=token.text,
        csr_der=make_csr(signer, token.token_id),
        agent_version=__version__,
        labels=wanted.labels,
        keyset_version=store.keyset.version,
        runner_key=identity.make_runner_key(state_dir).public.spki_der,
    )
    data = await ask(nameless(store), wanted.address, "Enroll", request.SerializeToString())
    answer = node_pb2.EnrollResponse.FromString(data)
    made = identity.save(state_dir, signer, answer.certificate_pem, answer.org_id, answer.project_id)
    for keyset in answer.keysets:
        store.update_keyset(keyset, clock.now_ms())
    save_trust(trust_path(state_dir), store.state)
    _log.info("node.enrolled", node_id=made.node_id)
    return made
