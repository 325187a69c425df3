"""T10: a step named like a built-in, two rules that match, and none: refused, decided the same way, never a success."""

import json
from pathlib import Path
from typing import Any

import pytest

from hostler.catalog.kinds import ABSTRACT, KINDS
from hostler.catalog.lint import lint
from hostler.catalog.load import load_profiles
from hostler.catalog.manifest import Catalog
from hostler.wire.report import StepStatus, TaskStatus
from support import builders, resolving
from support.agent import Core, core
from support.fake_kind import FakeKind
from support.keys import Keys
from support.resolving import KIND, active_of, catalog_at, predicate

BOTH = {"gpu.vendor": "nvidia", "gpu.architecture": "hopper"}
BY_VENDOR = ({"gpu.vendor": "nvidia"}, {KIND: "nvidia_smi_health"})
BY_ARCHITECTURE = ({"gpu.architecture": "hopper"}, {KIND: "generic_gpu_runtime_check"})
FALLBACK: tuple[dict[str, str], dict[str, str]] = ({}, {KIND: "generic_gpu_runtime_check"})


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKind:
    return resolving.install(monkeypatch)


def findings(folder: Path, *, step: str = "one", command: str = "show") -> set[str]:
    documents: dict[str, Any] = {
        "definitions": {
            "type": "unit.test",
            "version": "v1",
            "inputs": {"type": "object", "additionalProperties": False, "properties": {}},
            "capabilities": {"os.kernel": "linux"},
            "steps": [{"id": step, "kind": "command.exec_allowlisted", "params": {"profile": command}}],
        },
        "commands": {"id": command, "command": "/usr/bin/stat", "timeout_seconds": 5, "effects": {}},
    }
    for name, value in documents.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.yaml").write_text(json.dumps(value))
    return {finding.rule for finding in lint(load_profiles(folder))}


@pytest.mark.parametrize("name", sorted({*KINDS, *ABSTRACT}))
def test_T10_neither_a_step_nor_a_command_profile_is_named_like_a_built_in(tmp_path: Path, name: str) -> None:
    assert findings(tmp_path) == set()
    assert findings(tmp_path, step=name) == {"kind-name"}
    assert findings(tmp_path, command=name) == {"kind-name"}


async def applied(node: Core) -> None:
    await node.resolver.apply(active_of(node.catalog))


@pytest.mark.parametrize(
    ("rules", "rule", "profile"),
    [
        ((BY_VENDOR, BY_ARCHITECTURE, FALLBACK), "1:gpu.vendor=nvidia", "nvidia_smi_health"),
        ((BY_ARCHITECTURE, BY_VENDOR, FALLBACK), "1:gpu.architecture=hopper", "generic_gpu_runtime_check"),
    ],
    ids=["one-order", "the-other"],
)
async def test_T10_of_two_rules_that_match_the_receipt_names_the_first_each_time(
    tmp_path: Path, fake: FakeKind, rules: tuple[Any, ...], rule: str, profile: str
) -> None:
    keys, catalog = Keys(), catalog_at(resolvers={"default": resolving.config(*rules)})
    for _ in range(2):  # and the same after a restart
        async with core(tmp_path, keys, catalog=catalog, capabilities=BOTH) as node:
            await applied(node)
            await node.run_task()
            said = predicate(node.journal.receipts()[-1])
            assert (said["status"], said["hardware_match"], said["resolved_profile"]) == ("succeeded", rule, profile)
            assert node.chain().ok


async def test_T10_where_no_rule_names_the_kind_the_step_fails_and_its_receipt_says_so(
    tmp_path: Path, fake: FakeKind
) -> None:
    """Such a configuration is refused beside the definition; so the definition comes with a later catalog."""
    keys, rules = Keys(), resolving.config(BY_VENDOR, ({}, {}))

    def before(keys: Keys) -> Catalog:
        return builders.catalog(keys, commands=resolving.commands(), resolvers={"default": rules})

    async with core(tmp_path, keys, catalog=before) as node:
        await applied(node)
    async with core(tmp_path, keys, catalog=catalog_at(2, resolvers={}), capabilities={"gpu.vendor": "other"}) as node:
        await node.run_task()
        (end,) = [report for report in await node.task_reports() if report.status is not TaskStatus.RUNNING]
        assert (end.status, end.error_code) == (TaskStatus.FAILED, "no_resolver")
        assert StepStatus.SUCCEEDED not in {report.status for report in await node.step_reports()}
        said = predicate(node.journal.receipts()[-1])
        assert (said["status"], said["error_code"], said["resolved_profile"]) == ("failed", "no_resolver", "")
        assert fake.planned == fake.applied == []
