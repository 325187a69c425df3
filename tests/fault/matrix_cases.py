"""One case a step kind for the crash matrix: a definition, its inputs, and how to see the effect.

A kind without a case fails the matrix: it is covered the day it is written.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from hostler.agent.runner.faults import BOUNDARIES
from hostler.catalog.kinds import KINDS
from hostler.catalog.load import load_profiles
from hostler.cli.demo_files import builtin_profiles
from support.archive import empty_root
from support.tenancy import KEY, machine_root, plant
from support.wheels import Wheel

BLOB = bytes(range(256)) * 4096  # 1 MiB


@dataclass(frozen=True)
class Case:
    """`params` may name `${inputs.…}`; `effect` says whether the step's effect is there, once and whole.

    `before` is done before each run, `more` is added to the definition, `first` are steps that have to have run
    before it. `as_root`: the kind wants a root agent, or changes what only root may.
    """

    params: dict[str, Any]
    inputs: Callable[["Place"], dict[str, Any]]
    effect: Callable[["Place"], bool]
    input_names: tuple[str, ...] = field(default=("path",))
    before: Callable[["Place"], object] = lambda place: None
    more: dict[str, Any] = field(default_factory=dict)
    as_root: bool = False
    first: tuple[dict[str, Any], ...] = ()

    def definition(self, kind: str) -> dict[str, Any]:
        properties: dict[str, Any] = {name: {} for name in self.input_names}
        return {
            "type": f"matrix.{kind}",
            "version": "v1",
            "inputs": {"type": "object", "additionalProperties": False, "properties": properties},
            "capabilities": {"os.kernel": "linux"},
            "destructive": KINDS[kind].destructive,
            "steps": [*self.first, {"id": "one", "kind": kind, "params": self.params, "timeout_seconds": 60}],
            **self.more,
        }


@dataclass(frozen=True)
class Place:
    """Where one run of a case happens. `name` is new for every run."""

    root: Path  # the agent's root
    open_directory: Path  # outside it, for commands, which know no root
    name: str
    url: str
    reference: str
    repository: dict[str, Any]
    index: str
    units: set[str]  # that run, and how often one was started
    started: Counter[tuple[str, str]]
    head: str  # URL of a cluster's API

    @property
    def unit(self) -> str:
        return f"{self.name.replace('_', '-')}.service"

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

    def outside_tmp(self) -> Path:
        """For plain processes, which have a /tmp of their own."""
        return Path("/var/tmp") / f"{self.root.parent.parent.name}-{self.name}"

    def kept(self, name: str) -> Path:
        return self.root.parent / "state" / "allocations" / self.id / name


def _bundle() -> tuple[dict[str, bytes], str]:
    """What a registry would serve for a bundle of one file, and its digest."""

    def described(data: bytes, media_type: str) -> dict[str, Any]:
        return {"mediaType": media_type, "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}

    title = {"annotations": {"org.opencontainers.image.title": "blob"}}
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described(b"{}", "application/vnd.oci.empty.v1+json"),
            "layers": [described(BLOB, "application/octet-stream") | title],
        }
    ).encode()
    digest = f"sha256:{sha256(manifest).hexdigest()}"
    served = {f"/v2/matrix/bundle/manifests/{digest}": manifest}
    return served | {f"/v2/matrix/bundle/blobs/sha256:{sha256(b).hexdigest()}": b for b in (b"{}", BLOB)}, digest


BUNDLE, BUNDLE_DIGEST = _bundle()


def minters(home: Path) -> str:
    """One that hands out a token from a file."""
    token = home / "hub.token"
    token.touch(0o600)
    token.write_text("hf_matrix_0123456789")
    scope = '[[minters.scopes]]\norg = "*"\nproject = "*"\nsources = ["https://hub.test/"]\n'
    return f'[[minters]]\nbackend = "read_token"\nname = "hub"\nsecret_file = "{token}"\n{scope}'


# fails when it runs a second time: mkdir without -p is its own witness
MAKE_DIRECTORY = {
    "id": "matrix_mkdir",
    "command": "/usr/bin/mkdir",
    "args": ["--", "${path}"],
    "arg_schema": {"path": {"type": "string", "pattern": "^/[A-Za-z0-9_/.-]+$"}},
    "timeout_seconds": 10,
}

# the configuration that ships, which the house's catalog 1 holds
RESOLVER_DIGEST = load_profiles(builtin_profiles()).configs["default"].digest()

# the node is planted with a written-down machine, and these stand for the vendor's tools (tests/fixtures)
GPU_TOOLS = {
    "nvidia_driver_validate": ("nvidia-smi", "nvidia-smi-h100.csv"),
    "nvidia_smi_health": ("nvidia-smi", "nvidia-smi-h100.csv"),
    "nccl_allreduce_test": ("all_reduce_perf", "nccl-tests.txt"),
    "nvidia_container_runtime_check": ("nvidia-ctk", "nvidia-ctk-cdi-list.txt"),
}
# one implementation serves the abstract kinds: one of them goes through every boundary, these through one
ALIKE = ("gpu.driver.validate", "gpu.fabric.verify", "gpu.container_runtime.check")
WHEEL = Wheel("hstone", "1.0")
UNITS = [f"{how}-{at.replace('_', '-')}-service.control.service" for how in ("killed", "error") for at in BOUNDARIES]

RAY = {
    "backend": "ray",
    "head": "127.0.0.1:6379",
    "dashboard": "${inputs.head}",
    "node_ip": "127.0.0.9",
    "auth": "none",
    "owner": "nobody",
}
RAY_FILES = {"environment": "${inputs.path}", "token": "/srv/ray.token"}
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

# Kinds that are nothing without a running task, and where an agent is killed under each.
ELSEWHERE = {
    "task.exec": "test_X1_terminals.py",
    "task.forward": "test_TE_22_endpoint_proxy.py",
    "task.profile": "test_X1_terminals.py",
    "agent.upgrade.stage": "../real/test_upgrade_boundaries.py",
    "agent.upgrade.activate": "../real/test_upgrade_boundaries.py",
    "agent.upgrade.rollback": "../real/test_upgrade_boundaries.py",
}

CASES: dict[str, Case] = {
    "cluster.join": Case(
        params={"cluster": RAY, "node": "n1", "files": RAY_FILES},
        inputs=lambda place: {"path": f"/srv/{place.name}", "head": place.head},
        effect=lambda place: "--address=127.0.0.1:6379" in place.file().read_text(),
        input_names=("path", "head"),
    ),
    "cluster.verify": Case(
        params={"cluster": RAY, "node": "n1", "files": RAY_FILES, "within_seconds": 10},
        inputs=lambda place: {"path": f"/srv/{place.name}", "head": place.head},
        effect=lambda place: True,
        input_names=("path", "head"),
    ),
    "artifact.pull_blob": Case(
        params={"url": "${inputs.url}", "sha256": sha256(BLOB).hexdigest(), "path": "${inputs.path}"},
        inputs=lambda place: {"path": f"/srv/{place.name}", "url": place.url},
        effect=lambda place: place.file().read_bytes() == BLOB,
        input_names=("path", "url"),
    ),
    "artifact.pull_oci": Case(
        params={"reference": "${inputs.reference}", "place": "files", "path": "${inputs.path}"},
        inputs=lambda place: {"path": f"/srv/{place.name}", "reference": place.reference},
        effect=lambda place: (place.file() / "blob").read_bytes() == BLOB,
        input_names=("path", "reference"),
    ),
    "artifact.verify": Case(
        params={"path": "/srv/present", "sha256": sha256(BLOB).hexdigest()},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "credential.mint": Case(
        params={
            "credential_type": "hf_token",
            "intent": {"endpoint": "https://hub.test", "repository": "team/model"},
            "for_steps": ["later"],
        },
        inputs=lambda place: {},
        effect=lambda place: True,  # it ends with the agent that asked
    ),
    "container.run": Case(
        params={
            "job": "/matrix/job",
            "command": "${inputs.path}",
            "runtime": "process",
            "timeout_seconds": 30,
        },
        inputs=lambda place: {"path": ["/usr/bin/mkdir", "--", str(place.outside_tmp())]},
        effect=lambda place: place.outside_tmp().is_dir(),
    ),
    "container.stop": Case(
        params={"job": "${inputs.path}"},
        inputs=lambda place: {"path": "/matrix/none"},
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
    "resolver.config.apply": Case(
        params={"version": 1, "digest": RESOLVER_DIGEST},
        inputs=lambda place: {},
        effect=lambda place: (place.root.parent / "state" / "resolver" / f"{RESOLVER_DIGEST}.json").is_file(),
    ),
    "health.check": Case(
        params={"checks": [{"type": "file", "path": "/srv/present", "min_bytes": 1}]},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "network.fabric.verify": Case(
        params={"interfaces": [{"name": "lo"}], "rdma_ports": [{"device": "mlx5_0", "link_layer": "infiniband"}]},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    **{
        kind: Case(params={"minimum_devices": 2}, inputs=lambda place: {}, effect=lambda place: True)
        for kind in ("gpu.runtime.check", *ALIKE)
    },
    "package.install": Case(
        params={"packages": [{"name": "demo", "version": "1.0"}], "repositories": ["${inputs.repository}"]},
        inputs=lambda place: {"repository": place.repository},
        effect=lambda place: (place.root / "usr/share/demo/version").read_text() == "1.0\n",
        input_names=("repository",),
        before=lambda place: (empty_root(place.root), (place.root / "var/lib/dpkg/status").write_text("")),
        more={"allowed_packages": ["demo"]},
        as_root=True,
    ),
    "python.env.create": Case(
        params={"path": "${inputs.path}", "lock": WHEEL.pin, "indexes": ["${inputs.index}"]},
        inputs=lambda place: {"path": f"/srv/{place.name}", "index": place.index},
        effect=lambda place: len(list(place.file().glob("current/lib/python*/site-packages/hstone.py"))) == 1,
        input_names=("path", "index"),
    ),
    "service.control": Case(
        params={"unit": "${inputs.unit}", "action": "start"},
        inputs=lambda place: {"unit": place.unit},
        effect=lambda place: place.unit in place.units and place.started[("StartUnit", place.unit)] == 1,
        input_names=("unit",),
        more={"allowed_units": UNITS},
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
        as_root=True,
    ),
    "storage.grant": Case(
        params={"allocation_id": ALLOCATION, "path": "${inputs.path}", "owner": "${inputs.user}"},
        inputs=lambda place: with_user(place) | {"path": f"/srv/{place.name}"},
        effect=lambda place: place.file().stat().st_uid == 20001,
        input_names=(*USER_INPUTS, "path"),
        as_root=True,
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
    "task.probe": Case(
        params={"task_id": "tsk_nobodys", "attempt_uid": "att_nobodys"},
        inputs=lambda place: {},
        effect=lambda place: True,
    ),
    "handover.certify": Case(
        params={"allocation_id": ALLOCATION, "after": []},
        inputs=with_host,
        effect=lambda place: place.kept("certificate.json").stat().st_size > 0,
        input_names=("allocation_id",),
    ),
}
