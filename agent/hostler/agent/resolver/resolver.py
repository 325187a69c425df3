"""The active configuration of this node: journalled by digest, checked at every use, replaced only by a task."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hostler.agent.journal.journal import Journal
from hostler.agent.resolver import files
from hostler.base.digest import same_digest
from hostler.base.errors import HostlerError, error
from hostler.base.logs import get_logger
from hostler.base.strict import decode_record
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.manifest import Catalog
from hostler.catalog.resolver import Considered, ResolverConfig, consider, resolve, resolver_config_from

_log = get_logger("hostler.agent.resolver")


class Active(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the journal says is active.

    Attributes:
        config: its name in the catalog.
        version: of the catalog it came with; it never falls (RD-04).
        digest: of its canonical JSON.
        origin: `task`, or `enrolment` for the set a node starts with (RD-05).
    """

    config: str
    version: int
    digest: str
    origin: str = "task"


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A command profile of the signed catalog, and the rule that picked it."""

    command: CommandProfile
    digest: str
    rule_id: str


class Resolver:
    """One a node.

    Args:
        folder: where configurations are kept; only this class writes there.
        catalog: the one in force now.
        capabilities: this node's, now.
    """

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        catalog: Callable[[], Catalog | None],
        capabilities: Callable[[], Mapping[str, str]],
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._catalog = catalog
        self._capabilities = capabilities

    @property
    def active(self) -> Active | None:
        """None until one is applied or provisioned."""
        record = self._journal.load_resolver()
        return decode_record(record, Active, code="config_drift", what="resolver record") if record else None

    @property
    def catalog(self) -> Catalog | None:
        """The one in force now."""
        return self._catalog()

    def path_of(self, active: Active) -> Path:
        """Where that configuration is kept."""
        return files.path_of(self._folder, active.digest)

    @property
    def drift(self) -> str:
        """`config_drift` when the active configuration is not what was applied, else ""."""
        try:
            self._config()
        except HostlerError as err:
            return err.code if err.code == "config_drift" else ""
        return ""

    def resolve(self, kind: str) -> Resolved:
        """Raises `no_resolver`, or `config_drift` for a configuration that was changed outside."""
        config, catalog = self._config(), self._catalog()
        resolution = resolve(config, kind, self._capabilities())
        name = resolution.profile_id
        if catalog is None or name not in catalog.commands:
            raise error(
                "no_resolver", f"{kind} is {name} by rule {resolution.rule_id}, which no signed catalog here has"
            )
        return Resolved(
            command=catalog.commands[name], digest=catalog.manifest.commands[name], rule_id=resolution.rule_id
        )

    def explain(self, kind: str) -> list[Considered]:
        """What every rule says about this node (RS-09). Raises what `resolve` raises before it looks at a rule."""
        return consider(self._config(), kind, self._capabilities())

    async def apply(self, wanted: Active) -> bool:
        """Makes a configuration of the signed catalog the active one, at once and whole.

        Returns: whether anything changed.

        Raises:
            HostlerError: `catalog_rollback` for a version below the active one, `catalog_mismatch` for what the
                signed catalog does not name so, `invalid_definition`, `file_error`, or the journal's own.
        """
        active, catalog = self._known(), self._catalog()
        check_order(active, wanted)
        check_signed(catalog, wanted)
        assert catalog is not None
        catalog.check_resolver(wanted.config)
        if active == wanted and not self.drift:
            return False
        files.write(self._folder, catalog.resolvers[wanted.config].canonical())
        await self._journal.save_resolver(msgspec.json.encode(wanted))
        files.keep_only(self._folder, wanted.digest)
        _log.info("resolver.applied", config=wanted.config, version=wanted.version, origin=wanted.origin)
        return True

    def _known(self) -> Active | None:
        try:
            return self.active
        except HostlerError:
            return None  # an unreadable record is drift, which applying a configuration mends

    def _config(self) -> ResolverConfig:
        active = self.active
        if active is None:
            raise error("no_resolver", "this node has no resolver configuration")
        body = files.read(self._folder, active.digest)
        return resolver_config_from(msgspec.json.decode(body))


def check_order(active: Active | None, wanted: Active) -> None:
    """Raises `catalog_rollback` unless `wanted` is newer, or the very one that is active (RD-04)."""
    if active is None or wanted.version > active.version:
        return
    if wanted.version < active.version:
        message = f"resolver configuration {wanted.config} of catalog {wanted.version} is older than {active.version}"
        raise error("catalog_rollback", message)
    if (wanted.config, wanted.digest) != (active.config, active.digest):
        message = f"another resolver configuration of catalog {wanted.version} is active already"
        raise error("catalog_rollback", message)


def check_signed(catalog: Catalog | None, wanted: Active) -> None:
    """Raises `catalog_mismatch` for what the signed catalog of this node does not name so (RD-01)."""
    if catalog is None:
        raise error("catalog_mismatch", "this node has no signed catalog, so no resolver configuration")
    if wanted.version > catalog.version:
        message = (
            f"resolver configuration {wanted.config} is of catalog {wanted.version}, this node has {catalog.version}"
        )
        raise error("catalog_mismatch", message)
    if not same_digest(catalog.manifest.resolvers.get(wanted.config, ""), wanted.digest):
        message = f"the signed catalog {catalog.version} has no resolver configuration {wanted.config} of that digest"
        raise error("catalog_mismatch", message)
