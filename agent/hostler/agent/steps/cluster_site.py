"""What `cluster.join` and `cluster.verify` share: the adapter's site, and waiting for what the cluster says."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hostler.agent.clusters.contract import Adapter, Seen, Site
from hostler.agent.steps.command_run import command_of, failure_of, undeclared
from hostler.agent.steps.contract import StepContext, StepView
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError, error
from hostler.catalog.argv import build_argv
from hostler.catalog.params.cluster import Join, Verify

LOOK_SECONDS = 15.0  # for one answer of the cluster
LEAST_SECONDS = 3.0  # however little time is left: an answer may need a program to start, and a node is busy at times


def site_of(view: StepView) -> Site:
    """For plan and probe, which ask the cluster nothing."""
    params: Join | Verify = view.params
    return Site(view.host, params.cluster, params.node, params.files)


def asking_site(context: StepContext) -> Site:
    """With the command profile, where the step names one. Raises `catalog_mismatch`."""
    params: Join | Verify = context.params
    if not params.profile:
        return site_of(context)
    return Site(context.host, params.cluster, params.node, params.files, _asks(context))


def _asks(context: StepContext) -> Callable[[], Awaitable[str]]:
    profile = context.command
    if profile is None or profile.id != context.params.profile:
        raise error("catalog_mismatch", f"command profile {context.params.profile!r} is not in the signed catalog")
    argv = build_argv(profile, {"node": context.params.node})

    async def ask() -> str:
        seconds = min(float(profile.timeout_seconds), context.deadline.remaining())
        finished = await context.host.execute.run(
            command_of(profile, argv, {}, None),
            deadline=Deadline.after(seconds, context.host.clock),
            cancelled=context.cancelled,
        )
        wrong = undeclared(argv[0], finished) or failure_of(argv[0], profile, finished.status, finished.signal)
        if wrong is not None:
            raise wrong
        return finished.stdout

    return ask


async def look(adapter: Adapter, site: Site, deadline: Deadline) -> Seen:
    """One look, bounded."""
    seconds = max(min(LOOK_SECONDS, deadline.remaining()), LEAST_SECONDS)
    try:
        async with asyncio.timeout(seconds):
            return await adapter.look(site)
    except TimeoutError:
        return Seen(False, False, f"the cluster gave no answer in {seconds:.0f} s")


async def wait_for(
    adapter: Adapter,
    site: Site,
    context: StepContext,
    *,
    until: Deadline,
    interval_s: float,
    enough: Callable[[Seen], bool],
) -> Seen:
    """Looks until it is enough or time is up, whichever is first; at least once. Raises `canceled`."""
    looks, said = 0, ""
    while True:
        seen = await until_cancelled(context, look(adapter, site, until))
        looks += 1
        context.progress(looks, 0, "looks")
        if seen.condition != said:
            said = seen.condition
            context.log("agent", f"{adapter.name(site.cluster)}: {said}")
        if enough(seen) or until.remaining() <= 0:
            return seen
        await until_cancelled(context, asyncio.sleep(min(interval_s, until.remaining()), seen))
        if until.remaining() <= 0:
            return seen  # what was seen in time, not that there was no time to look


async def until_cancelled(context: StepContext, doing: Coroutine[Any, Any, Seen]) -> Seen:
    """Raises `canceled` as soon as the task is; what was being done is ended."""
    ended: list[Seen | HostlerError] = []

    async def kept() -> None:
        try:
            ended.append(await doing)
        except HostlerError as err:  # a group would wrap it
            ended.append(err)

    async with asyncio.TaskGroup() as group:
        work, stop = group.create_task(kept()), group.create_task(context.cancelled.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        stop.cancel()
    if not ended:
        raise error("canceled", "the step was cancelled while it waited for the cluster")
    if isinstance(ended[0], HostlerError):
        raise ended[0]
    return ended[0]
