"""Issue item 7, SK-10, SK-17: real tools on a real machine without a GPU; nothing of it may look like health."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from conftest import need
from hostler.agent.capabilities import detect
from hostler.agent.steps.table import step_kind
from hostler.base.errors import HostlerError
from hostler.catalog.kinds import KINDS
from hostler.catalog.load import load_profiles
from hostler.catalog.resolver import resolve
from support.commands import ME, host_in
from support.steps import Told, context_of

pytestmark = pytest.mark.real
PROFILES = load_profiles(Path(__file__).resolve().parents[2] / "profiles")


@pytest.mark.parametrize("kind", ["gpu.driver.validate", "gpu.runtime.check", "gpu.container_runtime.check"])
async def test_SK_10_a_machine_without_a_gpu_is_told_as_one(kind: str, tmp_path: Path) -> None:
    need("clinfo", "containerd")
    have = detect(Path("/"))
    if have["gpu.count"] != "0":
        pytest.skip("this machine has a GPU")
    found = resolve(PROFILES.configs["default"], kind, have)
    assert found.rule_id.endswith(":*")
    command = next(one for one, _ in PROFILES.commands if one.id == found.profile_id)
    async with host_in(tmp_path) as host:
        made = context_of(KINDS[kind].params(), host, Told())
        step = replace(made, command=msgspec.structs.replace(command, run_as=ME), hardware_match=found.rule_id)
        with pytest.raises(HostlerError) as failed:
            await step_kind(kind).apply(step)
    assert (failed.value.code, failed.value.message) == ("no_device", "the PCI bus of this node shows no GPU")
