"""API-14, API-15, API-19, LC-01..03, LC-06..11: what people ask of agents over HTTP, and what they are shown."""

import base64
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.base.errors import HostlerError
from hostler.control.kernel.agent_commands import RecordAgentReport
from hostler.control.kernel.agent_matrix import MODES, PLANS, SCENARIOS
from hostler.control.kernel.commands import NodeHello
from hostler.pki.agent_report import AgentReport, DriftState, Evidence, sign_report
from hostler.pki.keys import new_ed25519
from hostler.pki.tokens import read_enrolment_token
from hostler.wire.node import Hello
from support.agents import profiles
from support.control import FakeNode
from support.http_api import Api, api_in
from support.published import Repository

ADMIN = "/api/v1/admin"
AGENT_TOML = {
    "token_file": "/etc/hostler/enrol.token",
    "control": {"address": "cp.example:7081", "enroll_address": "cp.example:7082"},
}
COMMIT = "c0ffee" * 6 + "beef"


async def admin_of(api: Api) -> Any:
    """A platform administrator; two releases and the operations of a run are published."""
    await api.fleet.publish(*profiles())
    admin = await api.client("platform_admin")
    assert api.fleet.keys.update is not None
    await Repository(api.fleet.keys.update).publish(admin)
    return admin


async def speaks(api: Api, node: FakeNode, version: str = "1.0.0", commit: str = COMMIT, **said: Any) -> None:
    """A hello, and a report if anything is said."""
    hello = Hello(agent_version=version, agent_commit=commit, high_sequence=node.high_sequence, instance_id=version)
    await api.fleet.execute(NodeHello(node_id=node.node_id, session_id="s1", hello=hello, serial=""))
    if said:
        values = {"node_id": node.node_id, "at_ms": 1, "version": version, "commit": commit, "suite": "bookworm"}
        report = AgentReport(**(values | said))
        document = sign_report(report, new_ed25519())
        await api.fleet.execute(RecordAgentReport(node_id=node.node_id, report=report, document=document))


def path(node: FakeNode, what: str = "agent-lifecycle") -> str:
    return f"{ADMIN}/nodes/{node.node_id}/{what}"


async def test_API_14_a_nodes_lifecycle_shows_what_is_wanted_and_what_is(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        fresh = (await admin.get(path(node))).json()
        assert fresh["agent"]["reported_agent_version"] == "", "LC-02: nobody has said hello"
        assert (fresh["report"], fresh["latest_run"]) == (None, None)
        evidence = (Evidence(kind="file", name="/usr/lib/x", expected="a", found="b"),)
        await speaks(api, node, state=DriftState.CONFIG_DRIFT, evidence=evidence, next_at_ms=9)
        await admin.put(f"{ADMIN}/agent-channels/stable", json={"version": "1.1.0"})
        started = await admin.post(path(node), json={"mode": "rebootstrap", "scenario": "in_place_upgrade"})
        assert started.status_code == 201, started.text
        shown = (await admin.get(path(node))).json()
        agent = shown["agent"]
        assert (agent["agent_channel"], agent["desired_agent_version"], agent["reported_agent_version"]) == (
            "stable",
            "1.1.0",
            "1.0.0",
        )
        assert (agent["badge"], agent["drift_state"]) == ("Config drift", "config_drift")
        assert (agent["last_probe_at_ms"], agent["next_probe_at_ms"]) == (1, 9), "LC-22"
        assert agent["desired_delivery_mode"] == "rebootstrap", "LC-03"
        assert agent["last_delivery_result"] == shown["latest_run"]["state"] == "delivering"
        assert agent["last_delivery_correlation_id"] == started.headers.get("x-correlation-id", "") or agent["run_id"]
        assert shown["report"]["evidence"][0]["name"] == "/usr/lib/x"
        assert shown["capabilities"] == {}
        assert started.json()["document"] is None


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_API_15_every_scenario_by_every_mode_is_asked_for_over_http(tmp_path: Path, scenario: str) -> None:
    async with api_in(tmp_path) as api:
        admin = await admin_of(api)
        for number, mode in enumerate(MODES):
            node = await api.fleet.enroll(f"gpu-{number}")
            await speaks(api, node)
            body = {"mode": mode, "scenario": scenario, "safety_policy": "drain"}
            body |= {"target_version": "1.1.0"} if PLANS[scenario, mode].release else {}
            answer = await admin.post(path(node), json=body)
            assert answer.status_code == 201, answer.text
            run, how = answer.json()["run"], PLANS[scenario, mode]
            assert (run["scenario"], run["mode"], run["kind"], run["safety_policy"]) == (
                scenario,
                mode,
                how.kind,
                "drain",
            )
            assert (answer.json()["document"] is not None) == how.token
            assert bool(run["next_action"]) == (how.kind != "automated")
            listed = (await admin.get(f"{ADMIN}/agent-runs", params={"node_id": node.name})).json()["items"]
            assert [each["run_id"] for each in listed] == [run["run_id"]], "LC-11: the row exists"


async def test_LC_08_a_manual_run_has_exact_commands_whose_address_is_good_when_it_is_looked_at(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        await speaks(api, node)
        body = {"mode": "manual_install", "scenario": "in_place_upgrade", "target_version": "1.1.0"}
        run = (await admin.post(path(node), json=body)).json()["run"]
        api.fleet.clock.move(3_600_000)
        shown = (await admin.get(f"{ADMIN}/agent-runs/{run['run_id']}")).json()["next_action"]
        fetch, digest, install = shown["commands"]
        url = re.findall(r"https://[^\s']+", fetch)[0]
        assert url == shown["package"]["url"] != run["next_action"]["package"]["url"]
        assert (await api.bearer("").get(url)).status_code == 200
        assert shown["package"]["sha256"] in digest
        assert "sha256sum --check" in digest
        assert shown["check_command"] == f"hostler releases check {shown['package']['sha256']} --trust trust.json"
        assert install.endswith(f"install './{shown['package']['file']}'")
        stored = api.fleet.engine._db.execute("SELECT next_action FROM agent_lifecycle_runs").fetchone()[0]
        assert "/packages/v1/" not in stored, "an address is made for whoever looks, and kept nowhere"


@pytest.mark.parametrize("scenario", ["bootstrap_install", "certificate_repair"])
async def test_LC_08_a_host_that_enrols_anew_by_hand_gets_its_token_once(tmp_path: Path, scenario: str) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        await speaks(api, node)
        body = {"mode": "manual_install", "scenario": scenario}
        body |= {"target_version": "1.1.0"} if scenario == "bootstrap_install" else {}
        made = (await admin.post(path(node), json=body)).json()
        read_enrolment_token(made["document"]["content"])
        commands = made["run"]["next_action"]["commands"]
        assert any("hostler-agent enroll" in each and "--again" in each for each in commands)
        assert made["document"]["content"] not in " ".join(commands)


def told_in(user_data: str) -> dict[str, Any]:
    """What the program in it is told; it is run as it stands, up to where it would begin."""
    assert user_data.startswith("#cloud-boothook\n#!/usr/bin/python3 -I\n")
    told: dict[str, Any] = {"__name__": "not the main program"}
    exec(compile(user_data, "user-data", "exec"), told)
    found: dict[str, Any] = told["Facts"](**json.loads(base64.b64decode(told["TOLD"])))._asdict()
    return found


@pytest.mark.parametrize("provider", ["", "cloud-init", "maas"])
async def test_LC_07_a_reimage_hands_out_a_document_once_and_keeps_nothing_of_it(tmp_path: Path, provider: str) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        await speaks(api, node)
        body = {"mode": "reimage", "scenario": "repair_reinstall", "target_version": "1.1.0", "provider": provider}
        answer = await admin.post(path(node), json=body)
        assert answer.status_code == 201, answer.text
        document, run = answer.json()["document"], answer.json()["run"]
        content = document["content"]
        if provider == "maas":
            assert (content["osystem"], content["distro_series"]) == ("debian", "bookworm")
            content = base64.b64decode(content["user_data"]).decode()
        told = told_in(content)
        files = {name: (text, mode) for name, text, mode in told.pop("files")}
        token, mode = files["enrol.token"]
        assert mode == 0o600
        read_enrolment_token(token)
        assert tomllib.loads(files["agent.toml"][0]) == AGENT_TOML
        assert msgspec.json.decode(files["trust.json"][0])["trust_domain"] == "test.hostler"
        package = run["next_action"]["package"]
        assert {name: told[name] for name in ("file", "sha256", "size_bytes")}.items() <= package.items()
        assert token not in json.dumps(told)
        api.fleet.clock.move(3_600_000)
        assert (await api.bearer("").get(told["url"])).status_code == 200, "a machine takes its time to boot"
        kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
        assert token.encode() not in kept
        again = await admin.get(f"{ADMIN}/agent-runs/{run['run_id']}")
        assert token not in again.text
        assert "document" not in again.json()


async def test_API_15_what_cannot_be_is_refused(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        await speaks(api, node)
        good = {"mode": "rebootstrap", "scenario": "in_place_upgrade", "target_version": "1.1.0"}
        for change, status, code in (
            ({"mode": "ssh"}, 422, "invalid_request"),
            ({"scenario": "x"}, 422, "invalid_request"),
            ({"safety_policy": "never"}, 422, "invalid_request"),
            ({"target_version": "7.7.7"}, 422, "release_missing"),
            ({"target_version": "../../etc"}, 422, "invalid_request"),
            ({"provider": "ipmi"}, 422, "invalid_request"),
            ({"shell": "true"}, 422, "unknown_field"),
        ):
            answer = await admin.post(path(node), json=good | change)
            assert (answer.status_code, answer.json()["error_code"]) == (status, code), change
        assert (await admin.post(path(node), json=good)).status_code == 201
        twice = await admin.post(path(node), json=good)
        assert (twice.status_code, twice.json()["error_code"]) == (409, "agent_run_open")
        assert (await admin.get(f"{ADMIN}/agent-runs/run_none")).status_code == 404
        assert (await admin.post(f"{ADMIN}/nodes/none/agent-lifecycle", json=good)).status_code == 404


async def test_runs_are_listed_by_page_and_by_state_and_can_be_called_off(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await admin_of(api)
        ids = []
        for number in range(3):
            node = await api.fleet.enroll(f"gpu-{number}")
            body = {"mode": "rebootstrap", "scenario": "in_place_upgrade", "target_version": "1.1.0"}
            ids.append((await admin.post(path(node), json=body)).json()["run"]["run_id"])
            api.fleet.clock.move(1)
        page = (await admin.get(f"{ADMIN}/agent-runs", params={"page_size": "2"})).json()
        rest = (await admin.get(f"{ADMIN}/agent-runs", params={"cursor": page["next_cursor"]})).json()
        assert [run["run_id"] for run in page["items"] + rest["items"]] == ids[::-1]
        ended = await admin.post(f"{ADMIN}/agent-runs/{ids[0]}/cancel", json={"reason": "not today"})
        assert ended.json() == {"run_id": ids[0], "state": "canceled"}
        listed = (await admin.get(f"{ADMIN}/agent-runs", params={"state": "canceled"})).json()["items"]
        assert [(run["run_id"], run["error_message"]) for run in listed] == [(ids[0], "not today")]
        named = (await admin.get(f"{ADMIN}/agent-runs", params={"node_id": "gpu-1"})).json()["items"]
        assert [run["run_id"] for run in named] == [ids[1]]
        for wrong, status in (({"state": "done"}, 422), ({"node_id": "gpu-9"}, 404)):
            answer = await admin.get(f"{ADMIN}/agent-runs", params=wrong)
            assert answer.status_code == status, "a mistyped word is no empty list"
            assert answer.json()["pointer"] == f"/{next(iter(wrong))}"


async def test_API_19_LC_06_nodes_are_listed_with_badges_and_the_cards_count_them_all(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin = await admin_of(api)
        await admin.put(f"{ADMIN}/agent-channels/stable", json={"version": "1.1.0"})
        wanted = {
            "current": ("Current", {"version": "1.1.0", "state": DriftState.IN_SYNC}),
            "behind": ("Outdated", {"version": "1.0.0", "state": DriftState.VERSION_DRIFT}),
            "bent": ("Config drift", {"version": "1.1.0", "state": DriftState.CONFIG_DRIFT}),
            "lapsed": ("Cert repair", {"version": "1.1.0", "state": DriftState.CERTIFICATE_ONLY}),
            "homemade": ("Unknown build", {"version": "1.1.0", "commit": "unknown", "state": DriftState.IN_SYNC}),
        }
        for name, (_, said) in wanted.items():
            await speaks(api, await api.fleet.enroll(name), **said)
        listed = (await admin.get(f"{ADMIN}/nodes", params={"page_size": "2"})).json()
        summary = {"agent_current": 1, "agent_drift": 4, "unknown_build": 1}
        assert listed["summary"] == summary, "over all nodes, not over the page"
        rest = (await admin.get(f"{ADMIN}/nodes", params={"cursor": listed["next_cursor"]})).json()
        nodes = listed["items"] + rest["items"]
        assert {node["name"]: node["agent"]["badge"] for node in nodes} == {
            name: badge for name, (badge, _) in wanted.items()
        }
        assert all(node["connection"] == "connected" and node["last_seen_ms"] for node in nodes)
        for query, names in (
            ({"badge": "Outdated"}, ["behind"]),
            ({"drift": "config_drift"}, ["bent"]),
            ({"channel": "candidate"}, []),
        ):
            found = (await admin.get(f"{ADMIN}/nodes", params=query)).json()
            assert ([node["name"] for node in found["items"]], found["summary"]) == (names, summary)
        assert (await admin.get(f"{ADMIN}/nodes", params={"badge": "Fine"})).status_code == 422


async def test_LC_01_channels_and_pins_over_http(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        listed = (await admin.get(f"{ADMIN}/agent-channels")).json()["items"]
        assert [(each["channel"], each["version"], each["nodes"]) for each in listed] == [
            ("stable", "", 1),
            ("candidate", "", 0),
        ]
        put = await admin.put(f"{ADMIN}/agent-channels/stable", json={"version": "1.1.0"})
        assert put.json() == {"channel": "stable", "version": "1.1.0", "nodes": 1}
        for channel in ("beta", "pinned"):
            answer = await admin.put(f"{ADMIN}/agent-channels/{channel}", json={"version": "1.1.0"})
            assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_request")
        pinned = await admin.put(path(node, "agent-channel"), json={"channel": "pinned", "version": "1.0.0"})
        assert pinned.json()["desired_agent_version"] == "1.0.0"
        back = await admin.put(path(node, "agent-channel"), json={"channel": "stable"})
        assert back.json()["desired_agent_version"] == "1.1.0"


async def test_a_reimage_needs_to_know_where_the_host_finds_us(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        admin, node = await admin_of(api), await api.fleet.enroll("gpu-1")
        packages = api.parts.packages
        assert packages is not None
        packages.settings = msgspec.structs.replace(packages.settings, node_address="")
        body = {"mode": "reimage", "scenario": "repair_reinstall", "target_version": "1.1.0"}
        answer = await admin.post(path(node), json=body)
        assert (answer.status_code, answer.json()["error_code"]) == (422, "invalid_config")
        assert "node_address" in answer.json()["hint"]


@pytest.mark.timeout(30)
async def test_P3_a_number_that_the_store_cannot_hold_fails_alone(tmp_path: Path) -> None:
    """A node's word once ended the thread that writes, and with it the control plane."""
    async with api_in(tmp_path) as api:
        node = await api.fleet.enroll("gpu-1")
        with pytest.raises(HostlerError) as caught:
            await speaks(api, node, state=DriftState.IN_SYNC, next_at_ms=1 << 63)
        assert caught.value.code == "internal_error"
        await speaks(api, node, state=DriftState.IN_SYNC, next_at_ms=9)
        assert api.fleet.engine.health == "ok"
