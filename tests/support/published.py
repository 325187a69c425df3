"""A signed repository of two releases of the agent, and how it gets into a control plane."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from hostler.base.digest import sha256_hex
from hostler.pki.keys import FileSigner
from hostler.pki.releases import Release
from support.agents import start
from support.keys import NOW
from support.releases import House, release

_numbers = itertools.count(1)
RELEASES = "/api/v1/admin/agent-releases"


def package_of(version: str) -> bytes:
    """Nobody here unpacks it."""
    return f"the package of {version} ".encode() * 4000


def signed(version: str, **changes: Any) -> Release:
    data = package_of(version)
    return release(
        version, size=len(data), sha256=sha256_hex(data), **({"channels": ("stable", "candidate")} | changes)
    )


async def open_run(api: Any, version: str) -> str:
    """A run by hand that brings the version to a node of its own. → the run."""
    number = next(_numbers)
    node = await api.fleet.enroll(f"by-hand-{number}")
    command = start(node.node_id, run_id=f"run_{number}", mode="manual_install", target_version=version)
    run_id: str = await api.fleet.execute(command)
    return run_id


@dataclass
class Repository:
    """What `hostler releases` keeps on the publisher's disk."""

    update: FileSigner
    versions: tuple[str, ...] = ("1.0.0", "1.1.0")
    house: House = field(init=False)

    def __post_init__(self) -> None:
        self.house = House(update=[self.update], releases=tuple(signed(version) for version in self.versions))

    def document(self, now_ms: int = NOW) -> bytes:
        texts = {role: data.decode() for role, data in self.house.publish(now_ms).items()}
        return msgspec.json.encode({"format": 1, **texts})

    async def publish(self, admin: httpx.AsyncClient, now_ms: int = NOW) -> Any:
        """As `hostler releases publish` does it."""
        document = self.document(now_ms)
        judged = (await admin.put(RELEASES, content=document)).json()
        for wanted in judged["missing"]:
            (version,) = [each.version for each in self.house.releases if each.sha256 == wanted["sha256"]]
            sent = await admin.put(f"{RELEASES}/packages/{wanted['sha256']}", content=package_of(version))
            assert sent.status_code == 201, sent.text
        answer = await admin.put(RELEASES, content=document)
        assert answer.status_code == 200, answer.text
        return answer.json()
