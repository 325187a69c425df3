"""All layers of an image into the room's tree, each held to the digest that the image's configuration states."""

import os
from typing import Annotated

import msgspec

from hostler.agent.oci.bundle import DIRECTORY_MODE
from hostler.agent.oci.collect import Found
from hostler.agent.oci.manifest import CONFIGS, Digest
from hostler.agent.oci.room import BLOBS, TREE, Room
from hostler.agent.oci.unpack import Budget, Unpacker
from hostler.base.digest import same_digest
from hostler.base.errors import error

MAX_CONFIG = 4 * 1024 * 1024
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class _RootFs(msgspec.Struct, frozen=True):
    diff_ids: Annotated[tuple[Digest, ...], msgspec.Meta(max_length=1024)] = ()


class _Config(msgspec.Struct, frozen=True):
    rootfs: _RootFs


def unpack_all(room: Room, found: Found, budget: Budget) -> None:
    """Raises `digest_mismatch` for a layer that unpacks to other bytes than the configuration says; see `Unpacker`."""
    room.empty(TREE)
    with room.folder(BLOBS) as blobs, room.folder(TREE) as tree:
        os.fchmod(tree, DIRECTORY_MODE)
        stated = _diff_ids(blobs, found)
        unpacker = Unpacker(tree, budget)
        for index, layer in enumerate(found.manifest.layers):
            fd = os.open(layer.sha256, _OPEN, dir_fd=blobs)
            try:
                digest = unpacker.layer(fd, layer.media_type)
            finally:
                os.close(fd)
            if stated is not None and not same_digest(digest, stated[index]):
                raise error("digest_mismatch", f"layer {index} unpacks to {digest}, not to {stated[index]}")


def _diff_ids(blobs: int, found: Found) -> tuple[str, ...] | None:
    """None for an artifact whose configuration is not that of an image."""
    if found.manifest.config.media_type not in CONFIGS:
        return None
    if found.manifest.config.size > MAX_CONFIG:
        raise error("too_large", f"the image's configuration has more than {MAX_CONFIG} bytes")
    fd = os.open(found.manifest.config.sha256, _OPEN, dir_fd=blobs)
    try:
        config = msgspec.json.decode(os.read(fd, MAX_CONFIG), type=_Config)
    except msgspec.MsgspecError as err:
        raise error("bad_response", "the image's configuration is not one") from err
    finally:
        os.close(fd)
    if len(config.rootfs.diff_ids) != len(found.manifest.layers):
        raise error("bad_response", "the image's configuration and its manifest disagree about the layers")
    return config.rootfs.diff_ids
