"""RD-01, RS-03, RS-05, SK-18: what does not hold together is not even published, whoever signed it."""

from pathlib import Path

import pytest

from hostler.base.errors import HostlerError
from hostler.catalog.resolver import ResolverConfig
from hostler.control.kernel.commands import RegisterCatalog
from support import builders, resolving
from support.control import ADMIN, Fleet, fleet_in
from support.resolving import KIND

NVIDIA = {"gpu.vendor": "nvidia"}


async def publish(fleet: Fleet, config: ResolverConfig, version: int = 1) -> None:
    manifest, documents = builders.catalog_bundle(
        fleet.keys, (builders.definition(),), resolving.commands(), resolvers={"default": config}, version=version
    )
    await fleet.execute(RegisterCatalog(actor=ADMIN, manifest=manifest, documents=documents))


@pytest.mark.parametrize(
    "broken",
    [
        resolving.config((NVIDIA, {KIND: "nvidia_smi_health"})),
        resolving.config(({}, {KIND: "nobody"})),
        resolving.config(({}, {"file.render": "nvidia_smi_health"})),
    ],
    ids=["no-fallback", "no-profile", "no-abstract-kind"],
)
async def test_RS_03_RS_05_what_does_not_hold_together_is_refused_and_leaves_the_old_catalog(
    tmp_path: Path, broken: ResolverConfig
) -> None:
    async with fleet_in(tmp_path) as fleet:
        await publish(fleet, resolving.sample())
        with pytest.raises(HostlerError) as refused:
            await publish(fleet, broken, version=2)
        assert refused.value.code == "invalid_definition"
        assert "resolver default at /hardware_profiles/0" in refused.value.message
        version, _, documents = await fleet.engine.reader.catalog()
        assert version == 1
        assert resolving.sample().canonical() in documents


async def test_SK_18_a_definition_of_an_unknown_step_kind_is_refused_and_nothing_of_its_catalog_is_filed(
    tmp_path: Path,
) -> None:
    async with fleet_in(tmp_path) as fleet:
        foreign = builders.definition(builders.StepTemplate(id="one", kind="foo.bar"), type_="demo.foreign")
        with pytest.raises(HostlerError) as refused:
            await fleet.publish(builders.definition(), foreign)
        assert refused.value.code == "unknown_step_kind"
        assert "step one of demo.foreign@v1" in refused.value.message
        assert await fleet.engine.reader.catalog() is None
