"""LC-01, LC-02, LC-05, LC-06: channels, pins, what a node should run, and the word that stands behind it."""

import msgspec
import pytest

from hostler.control.kernel.agent_badges import BADGES, Summary, badge, summary
from hostler.control.kernel.agent_commands import SetChannel, SetNodeAgent
from hostler.control.kernel.agent_rows import ReleaseRow
from hostler.pki.agent_report import DriftState, Evidence
from support.agents import NEW, OLD, SUITE, Agents, facts, publish
from support.control import ADMIN

SHA = "a" * 40


def of_node(agents: Agents, channel: str, version: str = "", node: str = "") -> SetNodeAgent:
    return SetNodeAgent(
        actor=ADMIN, node_id=node or agents.nodes[0], channel=channel, version=version, correlation_id="c"
    )


def test_LC_01_a_channel_says_what_its_nodes_should_run_and_a_pin_wins() -> None:
    agents = Agents(nodes=3)
    _, candidate, pinned = agents.nodes
    agents.run(of_node(agents, "candidate", node=candidate))
    agents.run(of_node(agents, "pinned", OLD, pinned))
    assert agents.channel("stable", NEW) == 1
    assert [agents.agent(node).desired_version for node in agents.nodes] == [NEW, "", OLD]
    assert agents.channel("candidate", NEW) == 1
    assert agents.channel("candidate", NEW) == 0, "the same again"
    assert [agents.agent(node).desired_version for node in agents.nodes] == [NEW, NEW, OLD]
    assert agents.run(of_node(agents, "stable", node=pinned)) == NEW
    assert [agents.agent(node).channel for node in agents.nodes] == ["stable", "candidate", "stable"]


def test_LC_01_a_new_node_takes_up_its_channel() -> None:
    agents = Agents()
    agents.channel("stable", NEW)
    from hostler.control.kernel.commands import CreateEnrolmentToken, EnrollNode

    agents.run(
        CreateEnrolmentToken(
            actor=ADMIN, token_id="t", token_sha256="h", node_name="fresh", org_id="acme", project_id="train",
            labels={}, expires_at_ms=agents.bench.now + 1000,
        )
    )  # fmt: skip
    made = agents.run(
        EnrollNode(
            token_id="t", token_sha256="h", public_key_spki=b"k", thumbprint="f" * 64, agent_version=OLD, labels={},
            peer="",
        )
    )  # fmt: skip
    assert (agents.agent(made.node_id).channel, agents.agent(made.node_id).desired_version) == ("stable", NEW)
    assert agents.node_row(made.node_id).agent_version == "", "LC-02: only a hello sets it"


@pytest.mark.parametrize("channel", ["beta", "", "pinned", "Stable"])
def test_LC_01_another_channel_is_refused(channel: str) -> None:
    agents = Agents()
    command = SetChannel(actor=ADMIN, channel=channel, version=NEW, correlation_id="c")
    assert agents.bench.refusal(command).code == "invalid_request"
    if channel != "pinned":
        assert agents.bench.refusal(of_node(agents, channel)).code == "invalid_request"


def test_LC_01_a_channel_takes_only_what_was_signed_for_it() -> None:
    agents = Agents()
    agents.run(publish(facts("2.0.0", channels=("candidate",))))
    command = SetChannel(actor=ADMIN, channel="stable", version="2.0.0", correlation_id="c")
    assert agents.bench.refusal(command).code == "release_missing"
    assert agents.channel("candidate", "2.0.0") == 0


def test_LC_01_a_pin_needs_a_version_and_nothing_else_takes_one() -> None:
    agents = Agents()
    for command in (of_node(agents, "pinned"), of_node(agents, "stable", OLD)):
        assert agents.bench.refusal(command).pointer == "/version"
    assert agents.bench.refusal(of_node(agents, "pinned", "9.9.9")).code == "release_missing"


def test_nodes_with_a_session_are_told_what_they_should_be() -> None:
    agents = Agents(nodes=2)
    decision = agents.bench.decide(SetChannel(actor=ADMIN, channel="stable", version=NEW, correlation_id="c"))
    assert decision.desired == dict.fromkeys(agents.nodes, NEW)
    assert set(agents.nodes) <= decision.wake


def test_a_published_version_never_changes_its_package() -> None:
    agents = Agents()
    changed = publish(facts(NEW, sha256="f" * 64))
    assert agents.bench.refusal(changed).code == "definition_immutable"
    assert agents.run(publish(facts(NEW, notes="mended words"))) == ()
    row = agents.bench.view.get(ReleaseRow, (NEW, SUITE))
    assert row.notes == "mended words"
    assert len(agents.events("agent.release_published")) == 2


def test_LC_04_a_report_moves_the_drift_and_is_told_when_it_does() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.channel("stable", NEW)
    before = len(agents.events("agent.drift_changed"))
    evidence = (Evidence(kind="version", name="agent", expected=NEW, found=OLD),)
    for _ in range(2):
        agents.report(node, state=DriftState.VERSION_DRIFT, evidence=evidence, next_at_ms=agents.bench.now + 60_000)
    changed = agents.events("agent.drift_changed")[before:]
    body = msgspec.json.decode(changed[0].body)
    assert len(changed) == 1
    assert (body["drift_state"], body["was"], body["desired_version"]) == ("version_drift", "in_sync", NEW)
    assert body["evidence"] == ["version agent"]
    agent = agents.agent()
    assert (agent.drift_state, agent.reported_at_ms, agent.next_report_ms) == (
        "version_drift",
        agents.bench.now,
        agents.bench.now + 60_000,
    ), "LC-22"


def test_the_same_report_again_costs_nothing() -> None:
    from hostler.control.kernel.agent_commands import RecordAgentReport
    from support.agents import report

    agents = Agents()
    said = RecordAgentReport(node_id=agents.nodes[0], report=report(agents.nodes[0]), document=b"same")
    assert agents.run(said) is True
    assert agents.bench.decide(said).updates == {}


@pytest.mark.parametrize(
    ("version", "commit", "desired", "drift", "node_drift", "expected"),
    [
        (NEW, SHA, NEW, "in_sync", "", "Current"),
        (NEW, SHA, "", "in_sync", "", "Current"),
        (NEW, SHA, "", "unknown", "", "Current"),
        (OLD, SHA, NEW, "in_sync", "", "Outdated"),
        (OLD, SHA, "", "version_drift", "", "Outdated"),
        (NEW, SHA, NEW, "version_drift", "", "Current"),  # the report is older than the upgrade
        (NEW, SHA, NEW, "config_drift", "", "Config drift"),
        (OLD, SHA, NEW, "config_drift", "", "Config drift"),
        (NEW, SHA, NEW, "certificate_only_repair_needed", "", "Cert repair"),
        (NEW, SHA, NEW, "in_sync", "certificate_only_repair_needed", "Cert repair"),
        (NEW, "unknown", NEW, "in_sync", "", "Unknown build"),
        ("dev", SHA, "dev", "in_sync", "", "Unknown build"),
        (NEW, "", NEW, "in_sync", "", "Unknown build"),
        ("", SHA, NEW, "config_drift", "", "Unknown build"),
    ],
)
def test_LC_05_LC_06_one_rule_gives_the_badge(
    version: str, commit: str, desired: str, drift: str, node_drift: str, expected: str
) -> None:
    assert badge(version, commit, desired, drift, node_drift) == expected


def test_LC_05_unknown_builds_count_as_drift() -> None:
    assert summary((word, 2) for word in BADGES) == Summary(agent_current=2, agent_drift=8, unknown_build=2)


def test_LC_04_an_older_report_again_changes_nothing() -> None:
    """The process that faces the network has seen them all, signatures included."""
    agents = Agents()
    (node,) = agents.nodes
    agents.report(node, state=DriftState.CONFIG_DRIFT, at_ms=agents.bench.now + 2_000)
    told = len(agents.bench.events)
    assert not agents.report(node, at_ms=agents.bench.now + 1_000)
    assert (agents.agent().drift_state, len(agents.bench.events)) == ("config_drift", told)


def test_LC_04_a_clock_that_was_far_ahead_does_not_silence_a_node() -> None:
    agents = Agents()
    (node,) = agents.nodes
    agents.report(node, state=DriftState.CONFIG_DRIFT, at_ms=agents.bench.now + 86_400_000)
    assert agents.report(node, at_ms=agents.bench.now + 1_000)
    assert agents.agent().drift_state == "in_sync"


def test_S8_what_differs_on_a_node_is_told_in_short() -> None:
    agents = Agents()
    (node,) = agents.nodes
    evidence = tuple(Evidence(kind="file", name="x" * 6_000, expected="", found=str(n)) for n in range(10))
    agents.report(node, state=DriftState.CONFIG_DRIFT, evidence=evidence)
    assert len(agents.events("agent.drift_changed")[-1].body) < 2_000
