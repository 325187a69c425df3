"""What a step's end tells of artifacts: what it took in, and the outputs its definition declares (DM-06, PF-07)."""

from collections.abc import Callable
from typing import Any

from hostler.agent.steps.contract import Outcome
from hostler.base.digest import canonical_json, sha256_hex
from hostler.catalog.definition import Definition
from hostler.wire.report import MAX_ARTIFACTS, MAX_CONTENT, Artifact


def told(
    definition: Definition, index: int, outcome: Outcome | None, redact: Callable[[str], str]
) -> tuple[Artifact, ...]:
    """Inputs first. An output larger than `MAX_CONTENT` is told by its digest alone."""
    if outcome is None:
        return ()
    declared = definition.steps[index].artifacts
    outputs = [
        _output(name, media_type, outcome.outputs[name], redact)
        for name, media_type in declared.items()
        if name in outcome.outputs
    ]
    return (*outcome.artifacts, *outputs)[:MAX_ARTIFACTS]


def _output(name: str, media_type: str, value: Any, redact: Callable[[str], str]) -> Artifact:
    text = value if isinstance(value, str) else canonical_json(value).decode()
    content = redact(text).encode(errors="replace")
    return Artifact(
        name=name,
        kind="output",
        sha256=sha256_hex(content),
        size_bytes=len(content),
        media_type=media_type,
        content=content if len(content) <= MAX_CONTENT else b"",
    )
