"""One case a step kind for the crash matrix: a definition, its inputs, and how to see the effect.

A kind without a case fails the matrix: it is covered the day it is written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from hostler.catalog.kinds import KINDS
from support.tenancy import KEY, machine_root, plant

BLOB = bytes(range(256)) * 4096  # 1 MiB


@dataclass(frozen=True)
class Case:
    """`params` may name `${inputs.…}`; `effect` says whether the step's effect is there, once and whole.

    `first`: steps that have to have run before it. `root`: whether the step changes what only root may.
    """

    params: dict[str, Any]
    inputs: Callable[["Place"], dict[str, Any]]
    effect: Callable[["Place"], bool]
    input_names: tuple[str, ...] = field(default=("path",))
    first: tuple[dict[str, Any], ...] = ()
    root: bool = False

    def definition(self, kind: str) -> dict[str, Any]:
        properties = {name: {"type": "string"} for name in self.input_names}
        return {
            "type": f"matrix.{kind}",
            "version": "v1",
            "inputs": {"type": "object", "additionalProperties": False, "properties": properties},
            "capabilities": {"os.kernel": "linux"},
            "destructive": KINDS[kind].destructive,
            "steps": [*self.first, {"id": "one", "kind": kind, "params": self.params, "timeout_seconds": 30}],
        }


@dataclass(frozen=True)
class Place:
    """Where one run of a case happens. `name` is new for every run."""

    root: Path  # the agent's root
    open_directory: Path  # outside it, for commands, which know no root
    name: str
    url: str

    def file(self) -> Path:
        return self.root / "srv" / self.name

    @property
    def id(self) -> str:
        """Fit for a user and for an allocation."""
        return "u" + sha256(self.name.encode()).hexdigest()[:12]

    def line(self, path: str = "etc/passwd") -> str:
        """What an account file says of that user."""
        lines = (self.root / path).read_text().splitlines()
        return "\n".join(line for line in lines if line.startswith(f"{self.id}:"))

    def kept(self, name: str) -> Path:
        return self.root.parent / "state" / "allocations" / self.id / name


# fails when it runs a second time: mkdir without -p is its own witness
MAKE_DIRECTORY = {
    "id": "matrix_mkdir",
    "command": "/usr/bin/mkdir",
    "args": ["--", "${path}"],
    "arg_schema": {"path": {"type": "string", "pattern": "^/[A-Za-z0-9_/.-]+$"}},
    "timeout_seconds": 10,
}

ALLOCATION = "${inputs.allocation_id}"


def with_host(place: Place) -> dict[str, Any]:
    machine_root(place.root) if not (place.root / "etc/passwd").exists() else None
    return {"allocation_id": place.id}


def with_user(place: Place) -> dict[str, Any]:
    """A tenant's account, as an earlier operation has left it."""
    inputs = with_host(place)
    for path, line in (
        ("passwd", f"{place.id}:x:20001:20001::/home/{place.id}:/bin/bash"),
        ("shadow", f"{place.id}:*:19000:0:99999:7:::"),
    ):
        with (place.root / "etc" / path).open("a") as file:
            file.write(f"{line}\n")
    plant(place.root, {f"/home/{place.id}/.ssh/authorized_keys": f"{KEY}\n"})
    return inputs | {"user": place.id}


OF_USER = {"allocation_id": ALLOCATION, "users": ["${inputs.user}"]}
USER_INPUTS = ("allocation_id", "user")

CASES: dict[str, Case] = {
    "artifact.pull_blob": Case(
        params={"url": "${inputs.url}", "sha256": sha256(BLOB).hexdigest(), "path": "${inputs.path}"},
        inputs=lambda place: {"path": f"/srv/{place.name}", "url": place.url},
        effect=lambda place: place.file().read_bytes() == BLOB,
        input_names=("path", "url"),
    ),
    "artifact.verify": Case(
        params={"path": "/srv/present", "sha256": sha256(BLOB).hexdigest()},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "file.render": Case(
        params={"path": "${inputs.path}", "template": "rendered {{ x }}\n", "variables": {"x": "once"}},
        inputs=lambda place: {"path": f"/srv/{place.name}"},
        effect=lambda place: place.file().read_text() == "rendered once\n",
    ),
    "command.exec_allowlisted": Case(
        params={"profile": "matrix_mkdir", "args": {"path": "${inputs.path}"}},
        inputs=lambda place: {"path": str(place.open_directory / place.name)},
        effect=lambda place: (place.open_directory / place.name).is_dir(),
    ),
    "health.check": Case(
        params={"checks": [{"type": "file", "path": "/srv/present", "min_bytes": 1}]},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "baseline.take": Case(
        params={"allocation_id": ALLOCATION},
        inputs=with_host,
        effect=lambda place: place.kept("baseline.json").stat().st_size > 0,
        input_names=("allocation_id",),
    ),
    "identity.grant": Case(
        params={"allocation_id": ALLOCATION, "users": [{"name": "${inputs.user}", "keys": [KEY]}]},
        inputs=lambda place: with_host(place) | {"user": place.id},
        effect=lambda place: (
            place.line().count(place.id) == 2
            and (place.root / f"home/{place.id}/.ssh/authorized_keys").read_text() == f"{KEY}\n"
        ),
        input_names=USER_INPUTS,
        root=True,
    ),
    "storage.grant": Case(
        params={"allocation_id": ALLOCATION, "path": "${inputs.path}", "owner": "${inputs.user}"},
        inputs=lambda place: with_user(place) | {"path": f"/srv/{place.name}"},
        effect=lambda place: place.file().stat().st_uid == 20001,
        input_names=(*USER_INPUTS, "path"),
        root=True,
    ),
    "access.fence": Case(
        params=OF_USER,
        inputs=with_user,
        effect=lambda place: (
            place.line().endswith(":/usr/sbin/nologin") and not (place.root / f"home/{place.id}/.ssh").exists()
        ),
        input_names=USER_INPUTS,
    ),
    "workload.stop": Case(
        params=OF_USER,
        inputs=with_user,
        effect=lambda place: True,
        input_names=USER_INPUTS,
    ),
    "storage.release": Case(
        params=OF_USER,
        inputs=with_user,
        effect=lambda place: not (place.root / f"home/{place.id}").exists(),
        input_names=USER_INPUTS,
    ),
    "identity.revoke": Case(
        params=OF_USER,
        inputs=with_user,
        effect=lambda place: (
            not place.line() and not place.line("etc/shadow") and not (place.root / f"home/{place.id}").exists()
        ),
        input_names=USER_INPUTS,
    ),
    "device.sanitize": Case(
        params={"allocation_id": ALLOCATION},
        inputs=with_host,
        effect=lambda place: True,
        input_names=("allocation_id",),
    ),
    "residue.check": Case(
        params={"allocation_id": ALLOCATION},
        inputs=with_host,
        effect=lambda place: place.kept("findings.json").read_text() == "[]",
        input_names=("allocation_id",),
        first=({"id": "before", "kind": "baseline.take", "params": {"allocation_id": ALLOCATION}},),
    ),
    "handover.certify": Case(
        params={"allocation_id": ALLOCATION, "after": []},
        inputs=with_host,
        effect=lambda place: place.kept("certificate.json").stat().st_size > 0,
        input_names=("allocation_id",),
    ),
}
