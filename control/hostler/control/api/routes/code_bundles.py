"""Code bundles of a project: sent once, named by jobs from then on (JB-08).

Nothing comes out here but what they are: the bytes go to nodes that run a task which names them, and to nobody else.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from hostler.base.errors import HostlerError, error
from hostler.control.api import pages
from hostler.control.api.authz import permit_own
from hostler.control.api.bodies import BundleKept, BundleRef
from hostler.control.api.call import Call
from hostler.control.bundles.files import Key
from hostler.control.kernel.bundle_commands import DeleteBundle, StoreBundle
from hostler.control.store.records import BundleView


async def put(call: Call) -> tuple[int, BundleKept]:
    """201, or 200 for what is there already: the body is then read and thrown away."""
    key, files = await _key(call), call.parts.code_bundles
    declared = call.request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > files.settings.max_bytes:
        raise error("too_large", f"the bundle is larger than {files.settings.max_bytes} bytes")
    known = await call.engine.reader.bundle(*key)
    if known is not None and files.has(key, known.size_bytes):
        await _drain(call.request, files.settings.max_bytes)
        async with files.placing:  # else a delete in between would leave a row without its bytes
            if not files.has(key, known.size_bytes):
                raise error("bundle_missing", f"bundle {key.sha256} was deleted meanwhile", hint="send it again")
            return 200, await _store(call, key, known.size_bytes)
    async with files.received(key, _chunks(call.request)) as upload, files.placing:
        await asyncio.to_thread(upload.keep)
        try:
            return 201, await _store(call, key, upload.size)
        except HostlerError:
            await asyncio.to_thread(files.remove, key)  # the quota says no: bytes without a row are nobody's
            raise


async def get(call: Call) -> BundleView:
    return await _known(call, await _key(call))


async def listing(call: Call) -> Any:
    org_id, project_id = await _scope(call)
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.bundles(org_id, project_id, call.query("cursor"), size)


async def delete(call: Call) -> BundleRef:
    key, files = await _key(call), call.parts.code_bundles
    known = await _known(call, key)
    permit_own(call.principal, known.created_by)
    async with files.placing:
        await call.execute(
            DeleteBundle(actor=call.principal.actor(), org_id=key.org_id, project_id=key.project_id, sha256=key.sha256)
        )
        await asyncio.to_thread(files.remove, key)
    return BundleRef(key.sha256)


async def _store(call: Call, key: Key, size: int) -> BundleKept:
    created = await call.execute(
        StoreBundle(
            actor=call.principal.actor(),
            org_id=key.org_id,
            project_id=key.project_id,
            sha256=key.sha256,
            size_bytes=size,
            quota_bytes=call.parts.code_bundles.settings.project_bytes,
        )
    )
    return BundleKept(sha256=key.sha256, size_bytes=size, created=created)


async def _known(call: Call, key: Key) -> BundleView:
    """Raises `not_found`, also where the row is there and the bytes are gone: then it has to be sent again."""
    known = await call.engine.reader.bundle(*key)
    if known is None or not call.parts.code_bundles.has(key, known.size_bytes):
        raise error("not_found", f"there is no bundle {key.sha256!r} in project {key.project_id!r}")
    return known


async def _key(call: Call) -> Key:
    org_id, project_id = await _scope(call)
    return Key(org_id, project_id, call.path("sha256")).checked()


async def _scope(call: Call) -> tuple[str, str]:
    project_id = await call.project()
    org_id = await call.parts.projects.org_of(project_id) or call.principal.org_id
    if not org_id:  # else they would be whoever's the project becomes
        raise error("not_found", f"project {project_id!r} belongs to no tenant yet")
    return org_id, project_id


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as err:
        raise error("invalid_request", "the upload was cut before its end") from err


async def _drain(request: Request, limit: int) -> None:
    """Read to its end, so that a client that is still sending hears the answer."""
    size = 0
    async for chunk in _chunks(request):
        size += len(chunk)
        if size > limit:
            raise error("too_large", f"the bundle is larger than {limit} bytes")
