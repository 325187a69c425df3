"""What this node lets a container have (J5, RN-05): everything is refused that root of the node has not allowed.

Nothing here trusts that the control plane looked; a signed task is a wish like any other.
"""

import itertools
import os
import stat

from hostler.agent.containers.settings import ContainerSettings
from hostler.agent.containers.spec import Bind
from hostler.agent.host.files import components, within
from hostler.agent.steps.container_env import INSIDE
from hostler.agent.steps.contract import StepView
from hostler.base.errors import HostlerError, error
from hostler.catalog.oci import Reference, reference_of
from hostler.catalog.params.container import ContainerRun, Mount

PROCESS = "process"
APP, SCRATCH = "/app", "/scratch"
# Whoever mounts one of these holds the node, whatever agent.toml says.
NEVER = (
    "/etc/hostler", "/proc", "/sys", "/dev", "/boot", INSIDE, "/run/containerd", "/run/docker", "/run/docker.sock",
    "/run/k3s", "/run/systemd", "/run/dbus", "/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet",
)  # fmt: skip
# Where the house, the runtime or the kernel puts things inside.
TAKEN = (INSIDE, APP, SCRATCH, "/proc", "/sys", "/dev")


def check_container(params: ContainerRun, settings: ContainerSettings, runtime: str) -> None:
    """Raises `container_denied`, `digest_required`, `incompatible`, `binding_error`; looks at its arguments alone."""
    if any("\0" in word for word in (*params.command, *params.setup, *params.environment.values())):
        raise error("binding_error", "an argument or a variable holds a NUL, which no program can be given")
    if runtime == PROCESS and not settings.allow_process:
        raise _denied("this node runs no job as a plain process", "allow_process")
    if runtime == PROCESS:
        _check_process(params)
    else:
        _check_image(reference_of(params.image), settings.allow_images)
    if params.security == "privileged" and not settings.allow_privileged:
        raise _denied("this node runs no privileged container", "allow_privileged")
    if params.network == "host" and not settings.allow_host_network:
        raise _denied("this node lets no container use its own network", "allow_host_network")
    targets = [mount.target for mount in params.mounts]
    for mount in params.mounts:
        _check_target(mount.target)
        _check_allowed(mount, settings)
    if len(set(targets)) < len(targets):
        raise error("container_denied", "two mounts have one target", hint="give each a target of its own")


def binds_of(view: StepView, kept: tuple[str, ...]) -> tuple[Bind, ...]:
    """The mounts of a step, each looked at as it stands on the host now. Raises `container_denied`."""
    params: ContainerRun = view.params
    return tuple(_bind(view, mount, kept) for mount in params.mounts)


def _check_process(params: ContainerRun) -> None:
    if params.image:
        raise error("incompatible", "a plain process has no image", hint="leave the image out, or name another runtime")
    if params.mounts or params.security == "privileged":
        raise error("incompatible", "a plain process has neither mounts nor privileges of a container")


def _check_image(reference: Reference, allowed: tuple[str, ...] | None) -> None:
    name = f"{reference.registry}/{reference.repository}"
    if allowed is not None and not any(within(name, prefix) for prefix in allowed):
        raise _denied(f"images of {name} are not among those that this node runs", "allow_images")


def _check_target(target: str) -> None:
    _plain(target)
    if any(within(target, taken) or within(taken, target) for taken in TAKEN):
        raise error("container_denied", f"{target} is no place for a mount", hint="mount it somewhere else")


def _check_allowed(mount: Mount, settings: ContainerSettings) -> None:
    _plain(mount.source)
    if not any(within(mount.source, prefix) for prefix in settings.allow_mounts):
        raise _denied(f"{mount.source} may not be mounted", "allow_mounts")
    if not mount.read_only and not any(within(mount.source, prefix) for prefix in settings.allow_writable_mounts):
        raise _denied(f"{mount.source} may not be mounted for writing", "allow_writable_mounts")
    for prefix in settings.allow_writable_mounts:
        if within(mount.source, prefix) and not within(prefix, mount.source):
            raise _denied(
                f"{mount.source} lies in {prefix}, where another container may put a link in its place",
                "allow_writable_mounts",
            )


def _bind(view: StepView, mount: Mount, kept: tuple[str, ...]) -> Bind:
    """A directory without a symbolic link on the way, that neither holds nor lies in what is kept."""
    for path in (*NEVER, *kept):
        if within(mount.source, path) or within(path, mount.source):
            raise error("container_denied", f"{mount.source} would let a container reach {path}", hint="never possible")
    try:
        found = _on_the_way(view, mount.source)
    except (HostlerError, OSError) as err:
        raise error("container_denied", f"{mount.source} is no directory that can be mounted") from err
    if any(_may_be_swapped(above, entry) for above, entry in itertools.pairwise(found)):
        raise error(
            "container_denied",
            f"{mount.source} can be replaced by others than root, also after it was looked at",
            hint="let nobody but root write to the directories above it",
        )
    if not stat.S_ISDIR(found[-1].st_mode):
        raise error("container_denied", f"{mount.source} is no directory", hint="only directories are mounted")
    if mount.read_only:
        _check_below(view, mount.source)
    return Bind(str(view.host.path(mount.source)), mount.target, mount.read_only)


def _check_below(view: StepView, source: str) -> None:
    """Runtimes make a mount read-only, and leave what is mounted below it as it is."""
    try:
        writable = [each.path for each in view.host.disks.below(source) if not each.read_only]
    except HostlerError as err:
        raise error("container_denied", f"what is mounted below {source} cannot be seen: {err.message}") from err
    if writable:
        raise error(
            "container_denied",
            f"{source} would be read-only, but {writable[0]}, which is mounted below it, would not",
            hint="mount a directory without others below it, or make those of the node read-only",
        )


def _on_the_way(view: StepView, path: str) -> list[os.stat_result]:
    """What each directory from the root on is, and the last component. Raises `HostlerError`, `OSError`."""
    parts, found = components(path), []
    for depth in range(1, len(parts) + 1):
        with view.host.files.parent("/" + "/".join(parts[:depth])) as (directory, name):
            found.append(os.fstat(directory))
            last = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return [*found, last]


def _may_be_swapped(above: os.stat_result, entry: os.stat_result) -> bool:
    """The runtime follows the path once more, by name: between the two looks nobody may put a link there (J5)."""
    ours = (0, os.geteuid())
    if above.st_uid not in ours:
        return True
    if not above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    return not above.st_mode & stat.S_ISVTX or entry.st_uid not in ours


def _plain(path: str) -> None:
    try:
        components(path)
    except HostlerError as err:
        raise error("container_denied", f"{path[:200]!r} is not a plain absolute path") from err


def _denied(sentence: str, key: str) -> HostlerError:
    return error("container_denied", sentence, hint=f"see containers.{key} in the agent's configuration")
