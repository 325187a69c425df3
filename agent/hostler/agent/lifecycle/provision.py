"""What a node starts with: the catalog that came with its enrolment, and the resolver configuration in it (RD-05).

Signed by the catalog keys like any other; the agent's own code holds nothing of a vendor. A node that gets none,
or none it trusts, is enrolled all the same, and its abstract step kinds are refused with `no_resolver`.
"""

from pathlib import Path

from hostler.agent.journal.journal import Journal
from hostler.agent.lifecycle.trust import Trusted
from hostler.agent.resolver.resolver import Active, Resolver
from hostler.base.clock import Clock
from hostler.base.errors import HostlerError
from hostler.base.logs import get_logger
from hostler.wire.node import CatalogUpdate

_log = get_logger("hostler.agent.lifecycle.provision")
STARTS_WITH = "default"
ENROLMENT = "enrolment"


def resolver_folder(state_dir: Path) -> Path:
    return state_dir / "resolver"


async def provision(state_dir: Path, update: CatalogUpdate, clock: Clock) -> bool:
    """Whether the node has a resolver configuration from it now. Raises nothing that would undo an enrolment."""
    journal = await Journal.open(state_dir / "journal.db", clock)
    try:
        trusted = Trusted(state_dir, journal, clock)
        if not await trusted.take_catalog(update):
            return False
        assert trusted.catalog is not None
        digest = trusted.catalog.manifest.resolvers.get(STARTS_WITH, "")
        if not digest:
            return False
        resolver = Resolver(resolver_folder(state_dir), journal, lambda: trusted.catalog, dict)
        wanted = Active(config=STARTS_WITH, version=trusted.catalog_version, digest=digest, origin=ENROLMENT)
        return await resolver.apply(wanted)
    except HostlerError as err:
        _log.warning("resolver.not_provisioned", error=err)
        return False
    finally:
        await journal.close()
