"""The files of a join: what stands, compared with what is wanted."""

from hostler.agent.clusters.contract import Adapter, Site, Wanted
from hostler.agent.host.files import FileInfo
from hostler.agent.host.users import owner_ids
from hostler.base.digest import sha256_hex

MAX_BYTES = 256 * 1024


def stands(site: Site, wanted: Wanted) -> bool:
    """Whether the file is there as wanted; of one with open content only that it is there, and whose it is."""
    found = site.host.files.info(site.files[wanted.role])
    if not found.exists or not found.size_bytes or int(found.mode, 8) != wanted.mode:
        return False
    if (found.uid, found.gid) != owner_ids(wanted.owner, ""):
        return False
    return wanted.content is None or site.host.files.sha256(found.path) == sha256_hex(wanted.content)


def all_stand(site: Site, adapter: Adapter) -> bool:
    """The truth of a join as far as files tell it: nothing missing, nothing of another cluster."""
    return (
        not adapter.elsewhere(site)
        and all(stands(site, wanted) for wanted in adapter.wanted(site))
        and adapter.holds(site)
    )


def content_of(site: Site, role: str) -> bytes:
    """What stands there; b"" for nothing. Raises `file_error`, `path_denied`, `too_large`."""
    path = site.files[role]
    return site.host.files.read(path, MAX_BYTES) if site.host.files.info(path).exists else b""


def put(site: Site, wanted: Wanted) -> tuple[FileInfo, FileInfo] | None:
    """Writes one file atomically and gives its state before and after; None when it stood already."""
    assert wanted.content is not None
    if stands(site, wanted):
        return None
    path = site.files[wanted.role]
    uid, gid = owner_ids(wanted.owner, "")
    before = site.host.files.info(path)
    after = site.host.files.write(path, wanted.content, mode=wanted.mode, uid=uid, gid=gid, make_parents=True)
    return before, after
