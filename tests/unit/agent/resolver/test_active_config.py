"""RD-01, RD-02, RD-04: which configuration is active, and what it takes to make another one so."""

from pathlib import Path

import msgspec
import pytest

from hostler.agent.host.host import Host
from hostler.agent.journal.journal import Journal
from hostler.agent.resolver.resolver import Active, Resolver, check_order
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.resolver_config_apply import KIND as APPLY
from hostler.base.errors import HostlerError
from hostler.catalog.manifest import Catalog
from hostler.catalog.params.resolver import ConfigApply
from hostler.catalog.resolver import ResolverConfig
from support import builders, resolving
from support.clocks import StillClock
from support.keys import Keys
from support.resolving import KIND, active_of
from support.steps import Told, context_of

KEYS = Keys()
NVIDIA = {"gpu.vendor": "nvidia"}
OTHER = resolving.config(({}, {KIND: "rocm_smi_health"}))


def catalog(version: int, config: ResolverConfig | None = None, **more: ResolverConfig) -> Catalog:
    resolvers = {"default": config or resolving.sample(), **more}
    return builders.catalog(KEYS, version=version, resolvers=resolvers, commands=resolving.commands())


class Bed:
    """One node's resolver over a journal on disk; `catalog` is the one in force."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder, self.journal = folder / "resolver", journal
        self.catalog: Catalog | None = catalog(1)
        self.resolver = Resolver(self.folder, journal, lambda: self.catalog, lambda: NVIDIA)
        self.told = Told()
        self.host = Host(root=folder / "root", clock=StillClock(), spool=folder / "spool")

    def context(self, wanted: Active, **more: object) -> StepContext:
        params = ConfigApply(config=wanted.config, version=wanted.version, digest=wanted.digest)
        context = context_of(params, self.host, self.told)
        return StepContext(**(vars(context) | {"resolver": self.resolver} | more))

    async def use(self, made: Catalog) -> Active:
        self.catalog = made
        wanted = active_of(made)
        await self.resolver.apply(wanted)
        return wanted

    async def refusal(self, wanted: Active) -> str:
        with pytest.raises(HostlerError) as refused:
            await self.resolver.apply(wanted)
        return refused.value.code

    def files(self) -> list[str]:
        return sorted(path.stem for path in self.folder.iterdir())


@pytest.fixture
async def bed(tmp_path: Path):
    (tmp_path / "root").mkdir()
    journal = await Journal.open(tmp_path / "journal.db", StillClock())
    yield Bed(tmp_path, journal)
    await journal.close()


async def test_RD_01_a_configuration_of_the_signed_catalog_becomes_active_whole(bed: Bed) -> None:
    first = await bed.use(catalog(1))
    assert (bed.resolver.active, bed.resolver.drift) == (first, "")
    assert bed.resolver.resolve(KIND).command.id == "nvidia_smi_health"
    second = await bed.use(catalog(2, OTHER))
    assert bed.resolver.active == second
    assert bed.resolver.resolve(KIND).command.id == "rocm_smi_health"
    assert bed.files() == [second.digest]
    assert (bed.folder / f"{second.digest}.json").stat().st_mode & 0o777 == 0o600


async def test_RD_01_what_the_signed_catalog_does_not_name_is_refused_and_the_old_one_stays(bed: Bed) -> None:
    first = await bed.use(catalog(1))
    bed.catalog = catalog(2, OTHER)
    good = active_of(bed.catalog)
    for wrong in (
        msgspec.structs.replace(good, digest="0" * 64),
        msgspec.structs.replace(good, digest=first.digest),
        msgspec.structs.replace(good, config="other"),
        msgspec.structs.replace(good, version=3),
    ):
        assert await bed.refusal(wrong) == "catalog_mismatch"
    bed.catalog = None
    assert await bed.refusal(good) == "catalog_mismatch"
    assert bed.resolver.active == first


async def test_RS_03_RS_05_one_that_does_not_hold_together_is_refused_though_it_is_signed(bed: Bed) -> None:
    first = await bed.use(catalog(1))
    for broken in (
        resolving.config((NVIDIA, {KIND: "nvidia_smi_health"})),
        resolving.config(({}, {KIND: "nobody"})),
    ):
        bed.catalog = catalog(2, broken)
        assert await bed.refusal(active_of(bed.catalog)) == "invalid_definition"
    assert bed.resolver.active == first


async def test_RD_04_a_rollback_is_a_higher_version_with_the_old_content_and_a_replay_is_refused(bed: Bed) -> None:
    old = await bed.use(catalog(1))
    await bed.use(catalog(2, OTHER))
    assert await bed.refusal(old) == "catalog_rollback"
    back = await bed.use(catalog(3))
    assert (back.version, back.digest) == (3, old.digest)
    assert bed.resolver.active == back
    assert bed.resolver.resolve(KIND).command.id == "nvidia_smi_health"


async def test_RD_04_one_version_has_one_content(bed: Bed) -> None:
    await bed.use(catalog(2, resolving.sample(), other=OTHER))
    assert bed.catalog is not None
    assert await bed.refusal(active_of(bed.catalog, "other")) == "catalog_rollback"


def test_RD_04_the_order_of_versions_is_a_pure_question() -> None:
    active = Active(config="default", version=5, digest="a")
    check_order(None, active)
    check_order(active, active)
    check_order(active, Active(config="other", version=6, digest="b"))
    with pytest.raises(HostlerError, match="older than 5"):
        check_order(active, Active(config="default", version=4, digest="a"))


@pytest.mark.parametrize("how", ["edited", "removed", "linked", "record"])
async def test_RD_02_what_was_changed_on_the_node_is_drift_and_not_used_until_it_is_applied_again(
    bed: Bed, how: str, tmp_path: Path
) -> None:
    active = await bed.use(catalog(1))
    path = bed.resolver.path_of(active)
    if how == "edited":
        path.write_bytes(path.read_bytes().replace(b"nvidia_smi_health", b"rocm_smi_health"))
    elif how == "removed":
        path.unlink()
    elif how == "linked":
        (tmp_path / "elsewhere").write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
    else:
        await bed.journal.save_resolver(b"{}")
    assert bed.resolver.drift == "config_drift"
    with pytest.raises(HostlerError) as refused:
        bed.resolver.resolve(KIND)
    assert refused.value.code == "config_drift"
    assert await bed.resolver.apply(active)
    assert bed.resolver.drift == ""
    assert bed.resolver.resolve(KIND).command.id == "nvidia_smi_health"


async def test_K1_a_crash_before_the_record_leaves_the_old_one_and_after_it_the_new(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await bed.use(catalog(1))
    bed.catalog = catalog(2, OTHER)
    second = active_of(bed.catalog)

    async def dies(record: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bed.journal, "save_resolver", dies)
    with pytest.raises(KeyboardInterrupt):
        await bed.resolver.apply(second)
    assert (bed.resolver.active, bed.resolver.drift) == (first, "")
    assert (await APPLY.probe(bed.context(second))).truth is Truth.NOT_DONE
    monkeypatch.undo()
    await bed.resolver.apply(second)
    assert (await APPLY.probe(bed.context(second))).truth is Truth.DONE
    assert bed.files() == [second.digest]


async def test_SK_22_the_step_plans_applies_and_finds_itself_done(bed: Bed) -> None:
    wanted = active_of(catalog(1))
    (change,) = (await APPLY.plan(bed.context(wanted))).changes
    assert (change.action, change.target) == ("create", "resolver configuration default")
    assert bed.resolver.active is None
    outcome = await APPLY.apply(bed.context(wanted))
    assert outcome.outputs == {"config": "default", "version": 1, "digest": wanted.digest}
    assert (outcome.changed, outcome.files_after[0].sha256) == (True, wanted.digest)
    assert bed.resolver.active == wanted
    (change,) = (await APPLY.plan(bed.context(wanted))).changes
    assert change.action == "keep"
    assert not (await APPLY.apply(bed.context(wanted))).changed
    bed.catalog = catalog(2, OTHER)
    (change,) = (await APPLY.plan(bed.context(active_of(bed.catalog)))).changes
    assert (change.action, wanted.digest in change.detail) == ("replace", True)
    with pytest.raises(HostlerError, match="no resolver configuration default of that digest"):
        await APPLY.plan(bed.context(msgspec.structs.replace(active_of(bed.catalog), digest="0" * 64)))


async def test_SK_22_a_cancelled_step_changes_nothing(bed: Bed) -> None:
    context = bed.context(active_of(catalog(1)))
    context.cancelled.set()
    with pytest.raises(HostlerError) as refused:
        await APPLY.apply(context)
    assert (refused.value.code, bed.resolver.active) == ("canceled", None)


async def test_SK_22_a_disk_that_takes_nothing_fails_the_step_and_leaves_the_old_one(bed: Bed) -> None:
    first = await bed.use(catalog(1))
    bed.catalog = catalog(2, OTHER)
    second = active_of(bed.catalog)
    bed.resolver.path_of(second).with_suffix(".new").mkdir()
    assert await bed.refusal(second) == "file_error"
    assert (bed.resolver.active, bed.resolver.drift) == (first, "")
