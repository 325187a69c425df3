"""Containers, images and volumes, by what their engines keep on disk: it is there whether the engine runs or not."""

from collections.abc import Iterator

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader

_DOCKER, _PODMAN, _CONTAINERD = "/var/lib/docker", "/var/lib/containers/storage", "/var/lib/containerd"
SNAPSHOTTERS = "io.containerd.snapshotter.v1."


def collect(reader: Reader) -> Iterator[Item]:
    """Raises OSError, `Exhausted`."""
    yield from _listed(reader, "container", f"{_DOCKER}/containers")
    yield from _listed(reader, "container", f"{_PODMAN}/overlay-containers", but=(".lock", ".json"))
    yield from _tasks(reader, "/run/containerd/io.containerd.runtime.v2.task")
    yield from _listed(reader, "volume", f"{_DOCKER}/volumes", but=(".db", "backingFsBlockDev"))
    yield from _listed(reader, "volume", f"{_PODMAN}/volumes")
    for driver in reader.names(f"{_DOCKER}/image"):
        yield from _listed(reader, "image", f"{_DOCKER}/image/{driver}/imagedb/content/sha256")
    yield from _listed(reader, "image", f"{_PODMAN}/overlay-images", but=(".lock", ".json"))
    yield from _listed(reader, "image", f"{_CONTAINERD}/io.containerd.content.v1.content/blobs/sha256")
    for name in reader.names(_CONTAINERD):
        if name.startswith(SNAPSHOTTERS):
            yield from _listed(reader, "image", f"{_CONTAINERD}/{name}/snapshots")
    yield from _listed(reader, "container_network", "/var/lib/cni/networks")


def _listed(reader: Reader, kind: str, folder: str, but: tuple[str, ...] = ()) -> Iterator[Item]:
    for name in reader.names(folder):
        if not name.endswith(but or ("\0",)):
            yield Item(kind, plain(f"{folder}/{name}"))


def _tasks(reader: Reader, folder: str) -> Iterator[Item]:
    for space in reader.names(folder):
        yield from _listed(reader, "container", f"{folder}/{space}")
