"""The seed's sample of a resolver configuration, and the command profiles that it names."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hostler.agent.resolver.resolver import Active
from hostler.agent.steps import table
from hostler.catalog import kinds
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import Catalog
from hostler.catalog.resolver import ResolverConfig, resolver_config_from
from hostler.pki import dsse
from support import builders, fake_kind
from support.fake_kind import FakeKind
from support.keys import Keys

KIND = "gpu.runtime.check"

# seed 004 §4.7, as it stands there
SAMPLE = """
hardware_profiles:
  - match: { gpu.vendor: nvidia }
    overrides:
      gpu.runtime.check: nvidia_smi_health
      gpu.driver.validate: nvidia_driver_validate
      gpu.fabric.verify: nccl_allreduce_test
  - match: { gpu.vendor: amd }
    overrides:
      gpu.runtime.check: rocm_smi_health
      gpu.driver.validate: rocm_driver_validate
      gpu.fabric.verify: rccl_allreduce_test
  - match: {}
    overrides:
      gpu.runtime.check: generic_gpu_runtime_check
"""
NVIDIA_SMI_HEALTH = """
id: nvidia_smi_health
command: /usr/bin/nvidia-smi
allowed_args:
  - --query-gpu=utilization.gpu,memory.used,memory.total
  - --format=csv,noheader
arg_schema: null
env_passthrough: []
expected_exit_codes: [0]
timeout_seconds: 30
capture_stdout: true
capture_stderr: true
"""
NAMED = (
    "nvidia_smi_health",
    "nvidia_driver_validate",
    "nccl_allreduce_test",
    "rocm_smi_health",
    "rocm_driver_validate",
    "rccl_allreduce_test",
    "generic_gpu_runtime_check",
)


def commands(*names: str) -> tuple[CommandProfile, ...]:
    """One profile a name; each runs a program of its own name."""
    return tuple(CommandProfile(id=name, command=f"/usr/bin/{name}") for name in names or NAMED)


def sample() -> ResolverConfig:
    import yaml

    return resolver_config_from(yaml.safe_load(SAMPLE))


def install(monkeypatch: pytest.MonkeyPatch, name: str = KIND) -> FakeKind:
    """An abstract kind, for the length of a test, that remembers what it was given."""
    kind = FakeKind()
    monkeypatch.setitem(kinds.KINDS, name, kinds.Kind(fake_kind.Params, "for tests", ("word",), abstract=True))
    monkeypatch.setitem(table.MODULES, name, "support.fake_kind_module")
    monkeypatch.setattr(table, "import_module", lambda _: SimpleNamespace(KIND=kind))
    return kind


def config(*rules: tuple[dict[str, str], dict[str, str]]) -> ResolverConfig:
    """One of (match, overrides) pairs."""
    return resolver_config_from({"hardware_profiles": [{"match": m, "overrides": o} for m, o in rules]})


def catalog_at(version: int = 1, **more: Any) -> Callable[[Keys], Catalog]:
    """For `support.agent.core(catalog=...)`: one definition of the abstract kind, the sample, its commands."""
    step = StepTemplate(id="check", kind=KIND, params={"word": "hi"})

    def make(keys: Keys) -> Catalog:
        values: dict[str, Any] = {"resolvers": {"default": sample()}, "commands": commands()}
        return builders.catalog(keys, builders.definition(step), version=version, **(values | more))

    return make


def active_of(catalog: Catalog, name: str = "default") -> Active:
    """What makes that configuration of the catalog the active one."""
    return Active(config=name, version=catalog.version, digest=catalog.manifest.resolvers[name])


def predicate(receipt: bytes) -> dict[str, Any]:
    """What a receipt (DSSE JSON) says, its signature unchecked."""
    said: dict[str, Any] = msgspec.json.decode(dsse.from_json(receipt).payload)["predicate"]
    return said
