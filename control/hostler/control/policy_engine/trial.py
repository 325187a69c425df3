"""`hostler-control policy`: what the engine would say, without a control plane (OD-35)."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from hostler.base.errors import error
from hostler.base.strict import decode_json
from hostler.control.kernel.permitted import Answer, Question
from hostler.control.policy_engine.engine import PolicyEngine
from hostler.control.policy_engine.settings import DEFAULT_QUERY, PolicyEngineSettings
from hostler.wire.task import Policy

EXAMPLE = Question(
    actor="ann",
    role="project_member",
    inputs={"uri": "https://models.example.org/llama.bin", "sha256": "0" * 64},
    targets={"nodes": ["gpu-1"], "labels": {}, "replicas": 1, "allocation": ""},
    operation_type="model.artifact.stage",
    version="v1",
    org_id="acme",
    project_id="train",
    trigger_source="tenant_request",
    target_kinds=("node",),
    sources={"pull.uri": "https://models.example.org/llama.bin"},
    definition_sources=None,
    policy=Policy(),
)


def question(_: argparse.Namespace) -> int:
    """A question to start from, as JSON."""
    print(msgspec.json.format(msgspec.json.encode(EXAMPLE)).decode())  # noqa: T201
    return 0


def test(options: argparse.Namespace, configured: Callable[[], PolicyEngineSettings | None]) -> int:
    """0 when it allows, 1 when it refuses. `configured` is asked where no file is named."""
    asked = decode_json(_read(options.question), Question, what=str(options.question))
    answer = asyncio.run(_answer(_settings(options, configured), asked))
    print("allowed" if answer.allowed else f"refused: {answer.reason}")  # noqa: T201
    return 0 if answer.allowed else 1


async def _answer(settings: PolicyEngineSettings, asked: Question) -> Answer:
    engine = await PolicyEngine.open(settings)
    try:
        return await engine.ask(asked)
    finally:
        await engine.close()


def _settings(
    options: argparse.Namespace, configured: Callable[[], PolicyEngineSettings | None]
) -> PolicyEngineSettings:
    if options.file:
        files = tuple(str(path.resolve()) for path in options.file)
        return PolicyEngineSettings(files=files, query=options.query or DEFAULT_QUERY)
    settings = configured()
    if settings is None:
        raise error("invalid_config", f"{options.config} has no [policy_engine]", hint="name files with --file")
    return msgspec.structs.replace(settings, query=options.query or settings.query)


def _read(path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as err:
        raise error("invalid_request", f"{path} cannot be read: {err.strerror}") from err
