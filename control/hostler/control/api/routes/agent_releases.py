"""Releases of the agent: what the update keys signed, judged before anything of it is kept (API-18, LC-12)."""

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from hostler.base.errors import error
from hostler.control.api import pages
from hostler.control.api.agent_bodies import PackageKept, ReleasesJudged, Wanted
from hostler.control.api.call import Call
from hostler.control.delivery.packages import Packages
from hostler.control.kernel.agent_commands import PublishReleases, ReleaseFacts, StorePackage
from hostler.control.store.agent_records import ReleaseView
from hostler.control.store.records import Page
from hostler.pki.releases import MAX_DOCUMENT_BYTES, Release, VerifiedReleases


async def publish(call: Call) -> ReleasesJudged:
    """Twice for a release: once to hear which packages to send, once to put it in force."""
    packages, document = _packages(call), await call.bytes(MAX_DOCUMENT_BYTES)
    async with packages.placing:
        keyset, now_ms = call.engine.trust.keyset, call.engine.clock.now_ms()
        verified = await asyncio.to_thread(packages.judge, document, keyset, now_ms)
        missing = await asyncio.to_thread(packages.missing, verified)
        new: tuple[str, ...] = ()
        if not missing:
            new = await call.execute(_command(call, verified))
            await asyncio.to_thread(packages.put_metadata, document)
            await asyncio.to_thread(packages.drop_withdrawn, verified)
    return ReleasesJudged(
        published=not missing,
        new=new,
        missing=tuple(Wanted(file=each.file, sha256=each.sha256, size_bytes=each.size) for each in missing),
        expires_ms=verified.expires_ms,
    )


def _command(call: Call, verified: VerifiedReleases) -> PublishReleases:
    return PublishReleases(
        actor=call.principal.actor(),
        releases=tuple(_facts(release) for release in verified.releases),
        correlation_id=call.correlation_id,
    )


def _facts(release: Release) -> ReleaseFacts:
    return ReleaseFacts(
        version=release.version,
        suite=release.suite,
        commit=release.commit,
        file=release.file,
        sha256=release.sha256,
        size_bytes=release.size,
        channels=release.channels,
        replaces=release.replaces,
        notes=release.notes,
    )


async def put_package(call: Call) -> tuple[int, PackageKept]:
    """201, or 200 for what is here already: the body is then read and thrown away."""
    packages = _packages(call)
    release = packages.named(call.path("sha256"))
    created = not await asyncio.to_thread(packages.has, release)
    if created:
        await packages.receive(release, _chunks(call.request))
    else:
        await _drain(call.request, release.size)
    await call.execute(
        StorePackage(
            actor=call.principal.actor(), file=release.file, sha256=release.sha256, size_bytes=release.size,
            correlation_id=call.correlation_id,
        )
    )  # fmt: skip
    kept = PackageKept(file=release.file, sha256=release.sha256, size_bytes=release.size, created=created)
    return 201 if created else 200, kept


async def listing(call: Call) -> Page[ReleaseView]:
    size = pages.size_of(call.query("page_size"))
    return await call.engine.reader.agents.releases(call.query("cursor"), size)


def _packages(call: Call) -> Packages:
    if call.parts.packages is None:
        raise error("invalid_config", "this control plane keeps no packages")
    return call.parts.packages


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as err:
        raise error("invalid_request", "the package was cut before its end") from err


async def _drain(request: Request, limit: int) -> None:
    """Read to its end, so that a client that is still sending hears the answer."""
    size = 0
    async for chunk in _chunks(request):
        size += len(chunk)
        if size > limit:
            raise error("too_large", f"the package is larger than {limit} bytes")
