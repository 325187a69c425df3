"""The HTTP API over an engine in this process: real routes, real store, no sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hostler.base.clock import SystemClock
from hostler.base.digest import sha256_hex
from hostler.control.api.app import make_app
from hostler.control.api.bundles import Bundles
from hostler.control.api.call import Parts
from hostler.control.api.lines import Lines
from hostler.control.api.principal import Authenticator, Projects
from hostler.control.bundles.files import BundleFiles
from hostler.control.bundles.settings import BundleSettings
from hostler.control.delivery.packages import Packages
from hostler.control.delivery.settings import UpdateSettings
from hostler.control.kernel.agent_settings import AgentSettings
from hostler.control.kernel.commands import CreatePrincipal
from hostler.control.kernel.model import Settings
from hostler.control.metrics import Metrics
from hostler.control.rpc.link import Links
from hostler.control.rpc.progress import ProgressBoard
from hostler.control.rpc.relays import Relays
from hostler.control.webhooks.destination import Destinations
from hostler.control.webhooks.send import Sender
from hostler.control.webhooks.signing import WebhookKey
from hostler.pki.keys import new_ed25519
from support.control import ADMIN, Fleet, FrozenClock, fleet_in
from support.keys import DOMAIN, NOW, YEAR_MS, Keys

PACKAGES_URL = "https://packages.example"
UPDATES = UpdateSettings(
    public_url=PACKAGES_URL, reserve_bytes=0, node_address="cp.example:7081", enroll_address="cp.example:7082"
)
SCOPES = {"platform_admin": ("", ""), "auditor": ("", ""), "tenant_admin": ("acme", "")}


@dataclass
class Api:
    """`fleet` is the control plane's inside and plays the nodes."""

    fleet: Fleet
    parts: Parts
    app: Any

    async def client(self, role: str, org: str = "acme", project: str = "train", name: str = "") -> httpx.AsyncClient:
        """Speaks as a new principal of that role; the default scope is cut to what the role may have."""
        if (org, project) == ("acme", "train"):
            org, project = SCOPES.get(role, (org, project))
        name = name or f"{role.replace('_', '-')}-{org or 'all'}"
        await self.fleet.execute(
            CreatePrincipal(
                actor=ADMIN,
                name=name,
                token_sha256=sha256_hex(name.encode()),
                role=role,
                org_id=org,
                project_id=project,
                expires_at_ms=NOW + YEAR_MS,
            )
        )
        return self.bearer(name)

    def bearer(self, token: str, address: str = "127.0.0.1") -> httpx.AsyncClient:
        """Speaks with that token, or with none."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(self.app, client=(address, 1), raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://control", headers=headers)


@asynccontextmanager
async def api_in(
    directory: Path, clock: FrozenClock | None = None, settings: Settings | None = None
) -> AsyncIterator[Api]:
    updates = AgentSettings(public_url=PACKAGES_URL, url_key=b"k" * 32)
    keys, settings = Keys(update=new_ed25519()), settings or Settings(agents=updates)
    async with fleet_in(directory, clock=clock, keys=keys, settings=settings) as fleet:
        board = ProgressBoard(SystemClock())
        bundles = Bundles(DOMAIN, lambda: [fleet.keys.keyset()])
        reader = fleet.engine.reader
        authenticator, projects = Authenticator(reader.principal), Projects(reader.org_of_project)
        sender = Sender(WebhookKey(directory / "webhook.key"), Destinations(), fleet.clock)
        code_bundles = BundleFiles(directory / "bundles", BundleSettings(reserve_bytes=0))
        metrics = Metrics()
        relays = Relays(metrics, SystemClock(), 1800)
        parts = Parts(
            fleet.engine,
            board,
            authenticator,
            projects,
            Links(),
            bundles,
            metrics,
            sender,
            code_bundles,
            relays,
            Lines(relays),
            packages=Packages(directory / "packages", UPDATES),
        )
        yield Api(fleet, parts, make_app(parts, "test"))
