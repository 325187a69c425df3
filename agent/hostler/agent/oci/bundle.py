"""Trees whose every byte the manifest names: an OCI layout, and the files of a bundle (AR-02)."""

import os

from hostler.agent.oci.collect import BLOB_MODE, Found
from hostler.agent.oci.manifest import Descriptor
from hostler.agent.oci.room import BLOBS, MARKER, TREE, Room
from hostler.agent.oci.tree import Row, file_row
from hostler.base.digest import canonical_json, sha256_hex
from hostler.base.errors import error
from hostler.pki.archive import Seen, parts_of, refused

DIRECTORY_MODE = 0o755
REF_NAME = "org.opencontainers.image.ref.name"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Written = dict[str, bytes]
Linked = dict[str, Descriptor]


def layout_files(found: Found, name: str = "") -> tuple[Written, Linked]:
    """What stands in an OCI layout of one manifest: documents by path, blobs by path.

    Args:
        name: annotates the manifest as an image store reads it; "" for none.
    """
    entry: dict[str, object] = {
        "mediaType": found.descriptor.media_type,
        "digest": found.descriptor.digest,
        "size": found.descriptor.size,
    }
    if name:
        entry["annotations"] = {"io.containerd.image.name": name, REF_NAME: name}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    written = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": canonical_json(index),
        f"{BLOBS}/{found.descriptor.sha256}": found.body,
    }
    return written, {f"{BLOBS}/{blob.sha256}": blob for blob in found.manifest.blobs}


def bundle_files(found: Found) -> tuple[Written, Linked]:
    """The files of a bundle, by the titles of its layers.

    Raises:
        HostlerError: `unsafe_archive` for a title that is no plain relative path, or that stands twice;
            `bad_response` for a layer without one.
    """
    linked: Linked = {}
    seen = Seen()
    for layer in found.manifest.layers:
        if not layer.title:
            raise error("bad_response", f"layer {layer.digest} has no title, so the artifact is no bundle of files")
        parts = parts_of(layer.title)
        seen.take(parts)
        if layer.title in linked:
            raise refused(layer.title, "stands twice")
        linked[layer.title] = layer
    for title in linked:
        if any(other.startswith(f"{title}/") for other in linked):
            raise refused(title, "is a file and a directory at once")
    return {}, linked


def rows(written: Written, linked: Linked) -> list[Row]:
    """The tree that these files make, as `tree.rows_of` will find it."""
    paths = [*written, *linked]
    folders = {"/".join(path.split("/")[:end]) for path in paths for end in range(1, path.count("/") + 1)}
    found: list[Row] = [[folder, "directory", DIRECTORY_MODE, 0, ""] for folder in folders]
    found += [file_row(path, BLOB_MODE, len(body), sha256_hex(body)) for path, body in written.items()]
    return found + [file_row(path, BLOB_MODE, blob.size, blob.sha256) for path, blob in linked.items()]


def build(room: Room, written: Written, linked: Linked) -> None:
    """The tree in the room. Blobs are linked, not copied: they stay until the room goes. Raises `OSError`."""
    room.empty(TREE)
    with room.folder(TREE) as tree, room.folder(BLOBS) as blobs:
        os.fchmod(tree, DIRECTORY_MODE)
        for path, body in written.items():
            directory, name = _folder(tree, path)
            try:
                _write(directory, name, body)
            finally:
                os.close(directory)
        for path, blob in linked.items():
            directory, name = _folder(tree, path)
            try:
                os.link(blob.sha256, name, src_dir_fd=blobs, dst_dir_fd=directory, follow_symlinks=False)
            finally:
                os.close(directory)


def mark(room: Room, body: bytes) -> None:
    """The note by which a later step knows that the directory was put there this way."""
    with room.folder(TREE) as tree:
        _write(tree, MARKER, body)


def _folder(tree: int, path: str) -> tuple[int, str]:
    *folders, name = path.split("/")
    fd = os.dup(tree)
    for part in folders:
        try:
            os.mkdir(part, 0o700, dir_fd=fd)
        except FileExistsError:
            below = os.open(part, _OPEN, dir_fd=fd)
        else:
            below = os.open(part, _OPEN, dir_fd=fd)
            os.fchmod(below, DIRECTORY_MODE)
        os.close(fd)
        fd = below
    return fd, name


def _write(directory: int, name: str, body: bytes) -> None:
    fd = os.open(name, _CREATE, 0o600, dir_fd=directory)
    try:
        os.fchmod(fd, BLOB_MODE)
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)
