"""Composition root of `hostler-agent trial`: the watcher with this node's configuration, identity and control plane.

A configuration that cannot be read does not keep a node from returning: then the version on trial is judged by what
it does until its deadline alone.
"""

import asyncio
from pathlib import Path

from hostler.agent.config import AgentConfig, load
from hostler.agent.host.systemd import Systemd
from hostler.agent.runner import faults
from hostler.agent.trial_watch import Watch, boot_id
from hostler.agent.upgrade.places import Places
from hostler.base import logs
from hostler.base.clock import SystemClock
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger

_log = get_logger("hostler.agent.trial_watch")
_ASK_S = 8.0


def run(config_path: Path) -> None:
    """Returns when no trial is open."""
    config = _config(config_path)
    if config is not None:
        faults.arm(config.testing.fault_points, enabled=config.testing.enabled)

    def renewed(baseline: str) -> bool:
        return config is not None and is_renewed(config.state, baseline)

    async def served() -> bool:
        return config is None or await has_answer(config)

    asyncio.run(Watch(Places(), Systemd(Path("/")), boot_id(), renewed, served).run())


def _config(path: Path) -> AgentConfig | None:
    try:
        config = load(path)
    except HostlerError as err:
        logs.set_up("auto", "info")
        _log.error("trial.config_unreadable", error=err)
        return None
    logs.set_up(config.log_format, config.log_level)
    return config


def is_renewed(state: Path, baseline: str) -> bool:
    """Whether the node has a certificate that is not that of the serial `baseline`: for its own key, valid now, and
    issued by a CA of the keyset in force."""
    from hostler.agent.lifecycle import identity
    from hostler.agent.lifecycle.trust import trust_path
    from hostler.pki.trust import TrustStore
    from hostler.pki.trust_files import load_trust
    from hostler.pki.x509 import check_time, issued_by, read_identity

    now_ms = SystemClock().now_ms()
    try:
        me = identity.load(state)
        if me.facts.serial == baseline:
            return False
        peer = read_identity(me.chain_pem)
        check_time(peer, now_ms)
        trust = TrustStore(load_trust(trust_path(state)), now_ms)
        mine = (peer.serial, peer.thumbprint, peer.name) == (me.facts.serial, me.thumbprint, me.node_id)
        return mine and peer.serial != baseline and issued_by(me.chain_pem, trust.keyset.ca_certificates)
    except Exception as err:  # noqa: BLE001 - whatever the version on trial has left there, it is no certificate
        _log.warning("trial.certificate_unreadable", error_type=type(err).__name__)
        return False


async def has_answer(config: AgentConfig) -> bool:
    """`is_served`; also where this node cannot even ask, by what the version on trial has made of its identity or its
    disk: that is no fault of the control plane's, and must not keep the node from returning (LC-16)."""
    try:
        return await is_served(config)
    except Exception as err:  # noqa: BLE001 - it has to end, whatever is broken
        _log.warning("trial.cannot_ask", error_type=type(err).__name__)
        return True


async def is_served(config: AgentConfig) -> bool:
    """Asks the control plane as this node, by a network process of this version."""
    from hostler.agent.lifecycle import identity
    from hostler.agent.lifecycle.certificates import served
    from hostler.agent.lifecycle.trust import trust_path
    from hostler.agent.outside.outside import Outside
    from hostler.agent.outside.spawn import Child, with_child
    from hostler.pki.trust import TrustStore
    from hostler.pki.trust_files import load_trust

    me = identity.load(config.state)
    trust = TrustStore(load_trust(trust_path(config.state)), SystemClock().now_ms())

    async def ask(outside: Outside) -> bool:
        return await served(outside.ask, me, trust, config.control.address, _ASK_S)

    return await with_child(Child(config.session_user, config.log_format, config.log_level), ask)
