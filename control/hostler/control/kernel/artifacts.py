"""What a step's report says of artifacts, believed as far as it can be checked (DM-06).

A node is heard about its own operations only, which `fold` has settled before; here its words are bounded, and
content that does not have the digest it is told under is not kept.
"""

import re

from hostler.base.digest import same_digest, sha256_hex
from hostler.control.kernel.rows import Row, StepRow, TaskRow
from hostler.wire.report import MAX_ARTIFACTS, MAX_CONTENT, Artifact

MAX_NAME, MAX_URI, MAX_MEDIA_TYPE = 4096, 8192, 255
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ArtifactRow(Row, frozen=True, kw_only=True):
    """`content` is b"" where only the digest is known."""

    KEY = ("artifact_id",)

    artifact_id: str
    operation_id: str
    task_id: str
    node_id: str
    attempt_number: int
    step_id: str
    step_index: int
    name: str
    kind: str
    sha256: str
    size_bytes: int
    media_type: str
    uri: str
    content: bytes
    at_ms: int


def artifact_rows(task: TaskRow, step: StepRow, told: tuple[Artifact, ...], now_ms: int) -> list[ArtifactRow]:
    """Rows of what holds together; told again, they have the same ids."""
    return [_row(task, step, one, now_ms) for one in told[:MAX_ARTIFACTS] if _sound(one)]


def refused(told: tuple[Artifact, ...]) -> int:
    """How many of them are not kept."""
    return len(told) - sum(map(_sound, told[:MAX_ARTIFACTS]))


def _sound(one: Artifact) -> bool:
    texts = ((one.name, MAX_NAME), (one.uri, MAX_URI), (one.media_type, MAX_MEDIA_TYPE))
    plain = bool(one.name) and all(len(text) <= most and (not text or text.isprintable()) for text, most in texts)
    if not plain or one.kind not in ("input", "output") or not _SHA256.fullmatch(one.sha256) or "?" in one.uri:
        return False
    if not 0 <= one.size_bytes < 2**63 or len(one.content) > MAX_CONTENT:
        return False
    return not one.content or (len(one.content) == one.size_bytes and same_digest(sha256_hex(one.content), one.sha256))


def _row(task: TaskRow, step: StepRow, one: Artifact, now_ms: int) -> ArtifactRow:
    named = f"{step.attempt_uid}\0{step.step_index}\0{one.kind}\0{one.name}"
    return ArtifactRow(
        artifact_id=f"art_{sha256_hex(named.encode())[:26]}",
        operation_id=task.operation_id,
        task_id=task.task_id,
        node_id=task.node_id,
        attempt_number=step.attempt_number,
        step_id=step.step_id,
        step_index=step.step_index,
        name=one.name,
        kind=one.kind,
        sha256=one.sha256,
        size_bytes=one.size_bytes,
        media_type=one.media_type,
        uri=one.uri,
        content=one.content,
        at_ms=now_ms,
    )
