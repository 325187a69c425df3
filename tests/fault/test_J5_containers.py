"""J5, RN-05: what a container could break out by is refused before anything is pulled, made or mounted."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.containers.workload import TaskFacts
from hostler.agent.steps.container_env import VISIBLE, Places, environment_of
from hostler.agent.steps.container_run import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.container import ContainerRun
from hostler.wire.report import TaskStatus
from support.fake_runtime import FakeRuntime
from support.steps import Told, context_of
from support.workloads import Node

pytestmark = pytest.mark.timeout(30)  # what is not refused runs for ever
IMAGE = f"registry.example/team/train@sha256:{'a' * 64}"


class Escape:
    """A node with Docker, and what is tried on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        for path in ("data/sets", "srv", "etc/hostler", "run/containerd", "proc/self", "var/lib/hostler/state"):
            (self.root / path).mkdir(parents=True)
        (self.root / "proc/self/mountinfo").touch()
        (self.root / "data/file").touch()
        (self.root / "data/out").symlink_to("../etc")
        (self.root / "data/loop").symlink_to("sets")
        self.runtime = FakeRuntime("docker")

    async def code(self, runtime: str = "docker", **wanted: Any) -> str:
        """What planning says of it, and applying, which must be the same; "" for nothing.

        Args:
            planned: it is not to be refused, and so not applied.
        """
        settings, planned = wanted.pop("settings", {}), wanted.pop("planned", False)
        self.runtime.name = runtime
        home = Node(self.folder, self.runtime, **({"allow_process": False} | settings))
        codes = []
        async with home.agent() as node:
            params = {"job": "/ann/train", "command": ("x",), "image": IMAGE} | wanted
            context = context_of(
                _typed(params), node.runner._parts.host, Told(),
                workloads=home.workloads, attempt_uid="att_j5", operation_id="op", org_id="acme", project_id="train",
            )  # fmt: skip
            for verb in (KIND.plan,) if planned else (KIND.plan, KIND.apply):
                try:
                    await verb(context)  # type: ignore[operator]
                    codes.append("")
                except HostlerError as err:
                    codes.append(err.code)
        assert self.runtime.did("create") == self.runtime.did("pull") == [], "something was made"
        assert len({*codes}) == 1 or codes[0] == ""
        return codes[0]


def _typed(params: dict[str, Any]) -> ContainerRun:
    return msgspec.convert(params, ContainerRun)


@pytest.fixture
def escape(tmp_path: Path) -> Escape:
    return Escape(tmp_path)


OPEN = {"allow_mounts": ("/",)}


def mount(source: str, target: str = "/data", *, read_only: bool = True) -> dict[str, Any]:
    return {"mounts": [{"source": source, "target": target, "read_only": read_only}]}


@pytest.mark.parametrize(
    "wanted",
    [
        {"security": "privileged"},
        {"network": "host"},
        mount("/data"),
        mount("/data", read_only=False) | {"settings": {"allow_mounts": ("/data",)}},
        mount("/data/sets", read_only=False)
        | {"settings": {"allow_mounts": ("/data",), "allow_writable_mounts": ("/data/set",)}},
        mount("/database") | {"settings": {"allow_mounts": ("/data",)}},
        {"settings": {"allow_images": ("registry.example/team/tra",)}},
        {"settings": {"allow_images": ("registry.example/team/train2", "other.example")}},
        {"settings": {"allow_images": ()}},
    ],
    ids=str,
)
async def test_J5_closed_unless_root_of_the_node_has_said_so(escape: Escape, wanted: dict[str, Any]) -> None:
    assert await escape.code(**wanted) == "container_denied"


@pytest.mark.parametrize(
    "source",
    [
        "/", "//", "/data/../etc", "/data/./sets", "/data/", "/data/out", "/data/out/hostler", "/data/loop",
        "/data/file", "/data/absent", "/proc", "/proc/1/root", "/sys", "/dev", "/etc/hostler", "/etc", "/run",
        "/run/containerd", "/run/docker.sock", "/run/containerd/containerd.sock", "/var", "/var/lib", "/run/hostler",
        "/var/lib/docker", "/boot", "/da\nta", "/data\0",
    ],
)  # fmt: skip
async def test_J5_nobody_can_allow_these_mounts(escape: Escape, source: str) -> None:
    (escape.root / "run/docker.sock").touch()
    assert await escape.code(**mount(source), settings=OPEN) == "container_denied"


async def test_J5_the_agents_own_state_is_never_mounted_wherever_it_is(escape: Escape) -> None:
    for path in (escape.folder / "state", escape.folder, escape.folder / "containers/scratch"):
        path.mkdir(parents=True, exist_ok=True)
        inside = escape.root / str(path).lstrip("/")
        inside.mkdir(parents=True, exist_ok=True)
        assert await escape.code(**mount(str(path)), settings=OPEN) == "container_denied", path


async def test_J5_what_other_tenants_containers_have_said_is_never_mounted(escape: Escape) -> None:
    (escape.root / "var/log/hostler/containers/att_other").mkdir(parents=True)
    for path in ("/var/log", "/var/log/hostler/containers", "/var/log/hostler/containers/att_other"):
        assert await escape.code(**mount(path), settings=OPEN) == "container_denied", path


@pytest.mark.parametrize(
    "target",
    [
        "/", "/run", "/run/hostler", "/run/hostler/task.sock", "/proc", "/proc/sys", "/sys/fs/cgroup", "/dev",
        "/dev/shm", "/app", "/app/x", "/scratch", "/data/../proc", "/data//x", "/x/.",
    ],
)  # fmt: skip
async def test_J5_a_mount_covers_nothing_that_the_house_or_the_kernel_puts_there(escape: Escape, target: str) -> None:
    assert await escape.code(**mount("/data/sets", target), settings=OPEN) == "container_denied"


async def test_J5_two_mounts_at_one_place_are_refused(escape: Escape) -> None:
    twice = {"mounts": [{"source": "/data/sets", "target": "/x"}, {"source": "/srv", "target": "/x"}]}
    assert await escape.code(**twice, settings=OPEN) == "container_denied"


async def test_J5_an_image_has_to_be_pinned(escape: Escape) -> None:
    for image in ("", "registry.example/team/train:latest", "registry.example/team/train"):
        assert await escape.code(image=image) == "digest_required"


async def test_RN_05_plain_processes_are_for_nodes_that_say_so(escape: Escape) -> None:
    assert await escape.code("process", image="") == "container_denied"
    allowed = {"settings": {"allow_process": True}}
    for more in ({"image": IMAGE}, {"image": ""} | mount("/srv"), {"image": "", "security": "privileged"}):
        assert await escape.code("process", **allowed, **more) == "incompatible"


async def test_J5_what_root_has_allowed_is_planned(escape: Escape, tmp_path: Path) -> None:
    """The other side of every refusal above."""
    settings = {
        "allow_mounts": ("/data",), "allow_writable_mounts": ("/data/sets",), "allow_privileged": True,
        "allow_host_network": True, "allow_images": ("registry.example/team",), "allow_process": False,
    }  # fmt: skip
    home = Node(tmp_path, FakeRuntime("docker"), **settings)
    async with home.agent() as node:
        params = _typed(
            {"job": "/a/b", "command": ["x"], "image": IMAGE, "security": "privileged", "network": "host"}
            | mount("/data/sets", read_only=False)
        )
        context = context_of(params, node.runner._parts.host, Told(), workloads=home.workloads, attempt_uid="a")
        plan = await KIND.plan(context)
    assert [change.action for change in plan.changes] == ["pull", "mount", "run"]


async def test_J5_an_allowed_mount_that_is_swapped_for_a_link_is_refused_at_the_last_moment(
    escape: Escape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned while it was a directory; when it is made, it is a link to somewhere else."""
    escape.runtime.name = "docker"
    home = Node(escape.folder, escape.runtime, allow_mounts=("/data",), allow_process=False)
    async with home.agent() as node:
        params = _typed({"job": "/a/b", "command": ["x"], "image": IMAGE} | mount("/data/sets"))
        context = context_of(params, node.runner._parts.host, Told(), workloads=home.workloads, attempt_uid="att_j5")
        await KIND.plan(context)
        (escape.root / "data/sets").rename(escape.root / "data/gone")
        (escape.root / "data/sets").symlink_to("../etc")
        with pytest.raises(HostlerError) as refused:
            await KIND.apply(context)
    assert refused.value.code == "container_denied"
    assert escape.runtime.did("create") == []


@pytest.mark.parametrize(
    ("point", "options", "code"),
    [
        ("/data/sets/more", "rw", "container_denied"),
        ("/data/sets/a\\040b/deep", "rw", "container_denied"),
        ("/data/sets/more", "ro", ""),
        ("/data/sets", "rw", ""),
        ("/data/sets-2", "rw", ""),
        ("/", "rw", ""),
    ],
)
async def test_J5_nothing_below_a_read_only_mount_stays_writable(
    escape: Escape, point: str, options: str, code: str
) -> None:
    """Runtimes make the mount itself read-only, and no other one below it."""
    line = f"30 20 0:40 / {point} {options},relatime shared:9 - tmpfs tmpfs {options}\n"
    (escape.root / "proc/self/mountinfo").write_text(line)
    settings = {"allow_mounts": ("/data",), "allow_writable_mounts": ("/data/sets",)}
    assert await escape.code(**mount("/data/sets"), settings=settings, planned=not code) == code
    assert await escape.code(**mount("/data/sets", read_only=False), settings=settings, planned=True) == ""


async def test_J5_a_read_only_mount_is_refused_where_what_is_below_it_cannot_be_seen(escape: Escape) -> None:
    (escape.root / "proc/self/mountinfo").unlink()
    assert await escape.code(**mount("/data/sets"), settings={"allow_mounts": ("/data",)}) == "container_denied"


@pytest.mark.parametrize(("owner", "mode", "code"), [
    (0, 0o755, ""), (0, 0o777, "container_denied"), (0, 0o775, "container_denied"), (4242, 0o755, "container_denied"),
    (0, 0o1777, ""),
])  # fmt: skip
async def test_J5_what_others_could_swap_for_a_link_is_not_mounted(
    escape: Escape, owner: int, mode: int, code: str
) -> None:
    """The runtime follows the path by name once more: a look before that proves nothing."""
    os.chown(escape.root / "data", owner, -1)
    (escape.root / "data").chmod(mode)
    (escape.root / "data/sets/deep").mkdir()
    for source in ("/data/sets", "/data/sets/deep"):
        settings = {"allow_mounts": ("/data",)}
        assert await escape.code(**mount(source), settings=settings, planned=True) == code, source
    if mode == 0o1777:
        os.chown(escape.root / "data/sets", 4242, -1)
        assert await escape.code(**mount("/data/sets"), settings=settings) == "container_denied"


@pytest.mark.parametrize("read_only", [True, False])
async def test_J5_nothing_is_mounted_from_within_what_other_containers_write_to(
    escape: Escape, read_only: bool
) -> None:
    settings = {"allow_mounts": ("/data",), "allow_writable_mounts": ("/data",)}
    assert await escape.code(**mount("/data/sets", read_only=read_only), settings=settings) == "container_denied"
    assert await escape.code(**mount("/data", read_only=read_only), settings=settings, planned=True) == ""


@pytest.mark.parametrize("wanted", [
    {"command": ["sh", "a\0b"]}, {"setup": ["a\0b"]}, {"environment": {"LIST": "a\0LD_PRELOAD=/tmp/x.so"}},
], ids=str)  # fmt: skip
async def test_J3_no_argument_and_no_variable_holds_a_nul(escape: Escape, wanted: dict[str, Any]) -> None:
    assert await escape.code(**wanted) == "binding_error"


async def test_J4_J5_devices_come_from_the_node_alone(tmp_path: Path) -> None:
    """CUDA images say NVIDIA_VISIBLE_DEVICES=all, and so may a user: the hook would hand out every device."""
    facts = TaskFacts(
        job_id="op", job="/a/b", parent="", namespace="", task_id="t", attempt_uid="a", attempt_number=1, task_index=0,
        num_tasks=1, org_id="o", project_id="p", node_id="n", node_address="",
    )  # fmt: skip
    places = Places("/run/hostler", "/scratch", "")
    env, dropped = environment_of({VISIBLE: "all"}, facts, places, aliases=True, contained=True)
    assert (env[VISIBLE], dropped) == ("void", (VISIBLE,))


@pytest.mark.parametrize("there", [0, 1])
async def test_J5_no_more_devices_than_there_are(tmp_path: Path, there: int) -> None:
    home = Node(tmp_path, runtime := FakeRuntime("process"))
    (tmp_path / "root/dev").mkdir(parents=True)
    for number in range(there):
        (tmp_path / f"root/dev/nvidia{number}").touch()
    async with home.agent() as node:
        await (await home.start(node, resources={"device": {"kind": "gpu", "count": 2}}))
        report = (await node.task_reports())[-1]
    assert (report.status, report.error_code) == (TaskStatus.FAILED, "incompatible")
    assert runtime.did("create") == []
