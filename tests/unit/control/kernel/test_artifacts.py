"""DM-06: what a node says of artifacts is bounded, checked, and about its own operations only."""

from typing import Any

import pytest
from unit.control.kernel.test_fold import started

from hostler.base.digest import sha256_hex
from hostler.wire.codec_report import decode_body, encode_body
from hostler.wire.report import MAX_ARTIFACTS, MAX_CONTENT, Artifact


def artifact(content: bytes = b"ready\n", **changes: Any) -> Artifact:
    made = {"name": "stdout", "kind": "output", "sha256": sha256_hex(content), "size_bytes": len(content)}
    return Artifact(**({"media_type": "text/plain", "content": content} | made | changes))


def kept(*told: Artifact, times: int = 1) -> tuple[list[Any], list[str]]:
    bench, _, (agent,), (task,) = started()
    for _ in range(times):
        agent.say(agent.step(task, 0, "succeeded", artifacts=told))
    return bench.artifacts, [event.type for event in bench.events]


def test_DM_06_inputs_and_outputs_of_a_step_are_kept_by_digest() -> None:
    staged = artifact(b"", name="/srv/m.bin", kind="input", sha256="a" * 64, size_bytes=7, uri="https://a.example/m")
    rows, events = kept(staged, artifact())
    assert [(row.kind, row.name, row.sha256, row.content) for row in rows] == [
        ("input", "/srv/m.bin", "a" * 64, b""),
        ("output", "stdout", sha256_hex(b"ready\n"), b"ready\n"),
    ]
    assert "node.report_dropped" not in events
    assert len({row.artifact_id for row in rows}) == 2


def test_RT_08_a_step_told_twice_has_its_artifacts_once() -> None:
    rows, _ = kept(artifact(), times=3)
    assert len(rows) == 1


@pytest.mark.parametrize(
    "hostile",
    [
        artifact(sha256="b" * 64),
        artifact(size_bytes=3),
        artifact(b"x" * (MAX_CONTENT + 1)),
        artifact(kind="secret"),
        artifact(name=""),
        artifact(name="a\nb"),
        artifact(name="x" * 5000),
        artifact(b"", sha256="c" * 63 + "\n", size_bytes=1),
        artifact(b"", sha256="c" * 64, size_bytes=2**63),
        artifact(uri="https://a.example/m?X-Amz-Signature=0123"),
    ],
    ids=["digest", "size", "long", "kind", "nameless", "unprintable", "endless", "hex", "huge", "query"],
)
def test_what_does_not_hold_together_is_not_kept_and_said(hostile: Artifact) -> None:
    rows, events = kept(hostile, artifact(name="good"))
    assert [row.name for row in rows] == ["good"]
    assert "node.report_dropped" in events


def test_a_step_has_so_many_artifacts_and_no_more() -> None:
    rows, events = kept(*(artifact(name=f"n{n}") for n in range(MAX_ARTIFACTS + 5)))
    assert len(rows) == MAX_ARTIFACTS
    assert "node.report_dropped" in events


def test_a_node_cannot_add_to_an_operation_of_another_node() -> None:
    bench, _, agents, tasks = started(nodes=2)
    agents[0].say(agents[0].step(tasks[1], 0, "succeeded", artifacts=(artifact(),)))
    assert bench.artifacts == []


def test_artifacts_survive_the_wire() -> None:
    _, _, (agent,), (task,) = started()
    report = agent.step(task, 0, "succeeded", artifacts=(artifact(), artifact(name="b", uri="https://a.example/b")))
    assert decode_body(encode_body(report)) == report
