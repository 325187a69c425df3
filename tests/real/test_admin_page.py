"""LC-06, LC-22, API-19, API-20: the page of all nodes in a real browser, over a real control plane.

The nodes are light ones, which say what a genuine agent would, and what a hostile one might.
"""

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from conftest import need
from hostler.base.clock import SystemClock
from hostler.control.delivery.settings import UpdateSettings
from hostler.control.kernel.agent_commands import PublishReleases, SetChannel
from hostler.control.service import open_engine
from hostler.pki.agent_report import UNKNOWN_COMMIT, AgentReport, DriftState, Evidence, Slot, Trial, sign_report
from support.agents import NEW, OLD, facts, profiles
from support.browser import PROGRAM, Tab, tab
from support.builders import definition
from support.plane import PROJECT, SYSTEM, Plane, plane, prepare

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]
HOSTILE = "<img src=x onerror=alert(1)>"
COMMIT = "c" * 40
UPDATES = UpdateSettings(public_url="https://cp.example", node_address="cp.example:1", enroll_address="cp.example:2")
EVIDENCE = (Evidence(kind="file", name="/etc/hostler/agent.toml", expected="sha256:aa", found=f"sha256:bb{HOSTILE}"),)
OLD_ONE = (Evidence(kind="version", name="agent", expected=NEW, found=OLD),)
STALE = (Evidence(kind="certificate", name="node", expected="valid", found="expired"),)
SLOTS = (Slot(version=NEW, commit=COMMIT, state="running"), Slot(version=OLD, commit=COMMIT, state="previous"))
TRIAL = Trial(version=NEW, from_version=OLD, task_id="tsk_x", deadline_ms=1, started_ms=1)


class Said(NamedTuple):
    """What a node says of itself, and the badge that follows."""

    badge: str
    version: str
    state: DriftState
    evidence: tuple[Evidence, ...] = ()
    commit: str = COMMIT


NODES = {
    "gpu-1": Said("Current", NEW, DriftState.IN_SYNC),
    "gpu-2": Said("Outdated", OLD, DriftState.VERSION_DRIFT, OLD_ONE),
    "gpu-3": Said("Config drift", NEW, DriftState.CONFIG_DRIFT, EVIDENCE),
    "gpu-4": Said("Cert repair", NEW, DriftState.CERTIFICATE_ONLY, STALE),
    "gpu-5": Said("Unknown build", "dev", DriftState.UNKNOWN, commit=UNKNOWN_COMMIT),
}


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[Plane]:
    """A node for each badge, connected; two releases, the newer one wanted."""
    config = prepare(folder, heartbeat_seconds=60, updates=UPDATES)
    engine, _ = await open_engine(config)
    await engine.execute(PublishReleases(actor=SYSTEM, releases=(facts(OLD), facts(NEW)), correlation_id="cor_p"))
    await engine.execute(SetChannel(actor=SYSTEM, channel="stable", version=NEW, correlation_id="cor_p"))
    await engine.close()
    async with plane(folder, config) as control, AsyncExitStack() as sessions:
        await control.publish(*profiles(), definition())
        for name, said in NODES.items():
            node = await control.enroll(name, labels={"rack": f"r1{HOSTILE}"})
            now_ms = SystemClock().now_ms()
            report = AgentReport(
                node_id=node.node_id,
                at_ms=now_ms,
                version=said.version,
                commit=said.commit,
                suite="bookworm",
                state=said.state,
                evidence=said.evidence,
                slots=SLOTS if name == "gpu-3" else (),
                trial=TRIAL if name == "gpu-3" else None,
                looked_ms=now_ms,
                next_at_ms=now_ms + 325_000,  # five minutes, for most of a minute yet
            )
            signed = sign_report(report, node.signer)
            hello = {"agent_version": said.version, "agent_commit": said.commit, "agent_report": signed}
            await sessions.enter_async_context(node.session(**hello))
        yield control


@asynccontextmanager
async def page(folder: Path, control: Plane) -> AsyncIterator[Tab]:
    """Signed in; at the end nothing has gone elsewhere and nothing was wrong."""
    token = control.http.headers["authorization"].partition(" ")[2]
    async with tab(folder) as at:
        await at.go(control.ports.server + "/")
        await at.type("project", PROJECT)
        await at.type("token", token)
        await at.press("Enter", 13, "\r")
        await at.holds(has("nodes", *NODES))
        await at.value("document.querySelector('nav a').click()")
        await at.holds("location.pathname === '/admin/nodes' && document.readyState === 'complete'")
        await at.type("token", token)
        await at.press("Enter", 13, "\r")
        yield at
        assert at.wrong == []
        home = urlsplit(control.ports.server).netloc
        assert {urlsplit(url).netloc for url in at.asked} <= {home, ""}  # "" is about:blank
        assert not any(token in url for url in at.asked)


def shown(name: str, column: int) -> str:
    """JavaScript for the text of a cell in a node's line."""
    line = f"[...document.querySelectorAll('#nodes tr')].find((row) => row.cells[0].innerText === {name!r})"
    return f"{line}?.cells[{column}].innerText"


def names() -> str:
    return "[...document.querySelectorAll('#nodes th')].map((cell) => cell.innerText).join()"


def has(element: str, *texts: str) -> str:
    return " && ".join(f"document.getElementById({element!r}).innerText.includes({text!r})" for text in texts)


def press(text: str) -> str:
    return f"[...document.querySelectorAll('button')].find((each) => each.innerText === {text!r}).click()"


def choose(badge: str) -> str:
    return f"$ = document.getElementById('badge'), $.value = {badge!r}, $.dispatchEvent(new Event('change'))"


async def test_LC_06_API_19_cards_badges_evidence_and_rollouts_in_a_browser(tmp_path: Path) -> None:
    need(PROGRAM)
    async with fleet(tmp_path) as control, page(tmp_path, control) as at:
        await at.holds(f"{names()} === {','.join(NODES)!r}")
        cards = await at.value("document.getElementById('cards').innerText.split('\\n').filter(Boolean).join(' ')")
        assert cards == "Agent current 1 Agent drift 4 Unknown build 1"
        for name, said in NODES.items():
            assert await at.value(shown(name, 8)) == said.badge
            assert await at.value(shown(name, 5)) == said.version
        assert await at.value(shown("gpu-2", 1)) == "acme / train"
        assert await at.value(shown("gpu-2", 6)) == NEW
        assert "next in 5 min" in await at.value(shown("gpu-1", 11)), "LC-22"

        await at.value(choose("Config drift"))
        await at.holds(f"{names()} === 'gpu-3'")
        await at.value(press("gpu-3"))
        await at.holds(has("told", "/etc/hostler/agent.toml", f"sha256:bb{HOSTILE}", f"rack=r1{HOSTILE}", "not yet"))
        await at.value(choose(""))
        await at.holds(f"{names()} === {','.join(NODES)!r}")
        assert await at.value("document.images.length") == 0, "markup of a node stays text"

        rollout_id = await _changes(control)
        await _a_run_is_seen(at)
        await at.holds(has("rollouts", rollout_id, "canary", f"Stands still: paused by a person: stop {HOSTILE}"))
        await at.holds(f"({shown(HOSTILE, 8)}) === 'Cert repair'")
        assert await at.value("document.images.length") == 0, "nor a person's reason, nor a name"
        await _a_thousand_nodes(control, at)
        if os.environ.get("HOSTLER_PICTURES"):  # for people who look at them
            await at.holds(has("where", "Page 1, 100"))
            await at.value(press("gpu-3"))
            await at.holds(has("told", "agent.toml"))
            await at.tell(
                "Emulation.setDeviceMetricsOverride", width=1500, height=900, deviceScaleFactor=1, mobile=False
            )
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await at.tell("Emulation.setEmulatedMedia", features=features)
                await at.picture(Path(os.environ["HOSTLER_PICTURES"]) / f"nodes-{scheme}.png")


async def _changes(control: Plane) -> str:
    """A run, a paused rollout, and a node's name that came into the store past every check. → the rollout's id."""
    run = {"mode": "manual_install", "scenario": "in_place_upgrade", "target_version": NEW}
    await control.call("POST", "/api/v1/admin/nodes/gpu-2/agent-lifecycle", 201, json=run)
    settings = {"approval": "each_wave", "canary": 1}
    rollout: dict[str, Any] = {"version": NEW, "nodes": ["gpu-5"], "settings": settings}
    made = await control.call("POST", "/api/v1/admin/agent-rollouts", 201, json=rollout)
    rollout_id: str = made["rollout_id"]
    pause = f"/api/v1/admin/agent-rollouts/{rollout_id}/pause"
    await control.call("POST", pause, json={"reason": f"stop {HOSTILE}"})
    with closing(sqlite3.connect(control.config.store_path)) as db, db:
        db.execute("UPDATE nodes SET name = ? WHERE name = 'gpu-4'", (HOSTILE,))
    return rollout_id


async def _a_thousand_nodes(control: Plane, at: Tab) -> None:
    """In pages, forward and back; the cards are of all of them."""
    others: dict[str, str] = {"node_id": "'nod_zzz' || printf('%04d', value)", "name": "'more-' || value"}
    with closing(sqlite3.connect(control.config.store_path)) as db, db:
        for table in ("nodes", "node_agents"):
            columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
            values = ", ".join(others.get(name, f"{table}.{name}") for name in columns)
            one = "(SELECT node_id FROM nodes WHERE name = 'gpu-1')"
            numbers = "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 1000)"
            db.execute(f"INSERT INTO {table} {numbers} SELECT {values} FROM {table}, n WHERE node_id = {one}")
    await at.value(choose(""))
    await at.holds(has("where", "Page 1, 100 on it") + " && " + has("agent_current", "1001"))
    for number in range(2, 12):
        await at.value(press("Next"))
        await at.holds(has("where", f"Page {number}, {100 if number < 11 else 5} on it"))
    assert (await at.value(names())).split(",")[-1] == "more-1000"
    assert await at.value("document.getElementById('next').disabled")
    await at.value(press("Previous"))
    await at.holds(has("where", "Page 10, 100 on it"))
    await at.value(choose("Outdated"))
    await at.holds(f"{names()} === 'gpu-2'")
    await at.value(choose("drift"))
    await at.holds(f"{names()}.split(',').length === 4 && !{names()}.includes('more') && !{names()}.includes('gpu-1')")
    await at.value(choose(""))


async def _a_run_is_seen(at: Tab) -> None:
    """What it waits for, live and without a click; what a person is to do, by the keyboard alone."""
    await at.holds(f"({shown('gpu-2', 9)}) === 'awaiting_operator, waits for a person'")
    button = "[...document.querySelectorAll('#nodes button')].find((each) => each.innerText === 'gpu-2')"
    await at.value(f"{button}.focus()")
    await at.press("Enter", 13, "\r")
    await at.holds(has("told", "version", OLD, "manual", "apt-get", "sha256sum --check"))
    assert await at.value(f"{button}.getAttribute('aria-expanded')") == "true"
    await at.press("Escape", 27)
    assert await at.value("document.getElementById('detail').hidden")
    assert await at.value(f"document.activeElement === {button}"), "the focus is where it was"
