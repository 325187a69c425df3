"""`health.check`: runs typed checks side by side until each has passed or time is up (SK-12).

    check ─▶ look ─▶ Seen(ok, detail) ─▶ again after the interval, or a result

A check that cannot be made (no systemd, no such table) fails; it never counts as passed.
"""

import asyncio
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hostler.agent.host.host import Host
from hostler.agent.steps.contract import Change, Outcome, Plan, Probe, StepContext, StepView, Truth
from hostler.agent.steps.profile_run import command_of, failure, undeclared
from hostler.base.clock import Deadline
from hostler.base.errors import HostlerError, error
from hostler.catalog.argv import build_argv
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.params import health


@dataclass(frozen=True)
class Seen:
    ok: bool
    detail: str


class HealthCheckKind:
    name = "health.check"

    async def plan(self, view: StepView) -> Plan:
        params: health.HealthCheck = view.params
        for check in params.checks:
            if isinstance(check, health.Command):
                _resolve(check, view)
        return Plan(
            tuple(Change(action="check", target=_name(check), detail=_describe(check)) for check in params.checks)
        )

    async def apply(self, context: StepContext) -> Outcome:
        params: health.HealthCheck = context.params
        for check in params.checks:
            if isinstance(check, health.Command):
                _resolve(check, context)  # a check that is wrong is no check that failed
        ended = 0

        def one_more() -> None:
            nonlocal ended
            ended += 1
            context.progress(ended, len(params.checks), "checks")

        runs = [_Run(check, params, context, one_more) for check in params.checks]
        await _unless_cancelled(context.cancelled, _together(runs))
        results = [run.result() for run in runs]
        for result in results:
            verdict = "passed" if result["ok"] else "failed"
            context.log("agent", f"check {result['name']} {verdict}: {result['detail']}")
        failed = [result for result in results if not result["ok"]]
        if failed:
            first, others = failed[0], len(failed) - 1
            more = f", and {others} more of {len(results)}" if others else ""
            raise error("health_red", f"check {first['name']} did not pass: {first['detail']}{more}")
        return Outcome(outputs={"results": results}, changed=False)

    async def probe(self, view: StepView) -> Probe:
        return Probe(truth=Truth.NOT_DONE, note="health is looked at anew")


KIND = HealthCheckKind()


async def _unless_cancelled(cancelled: asyncio.Event, work: Any) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        stop = group.create_task(cancelled.wait())
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        ended = task.done()
        stop.cancel()
        task.cancel()
    if not ended:
        raise error("canceled", "the health check was cancelled")


async def _together(runs: list["_Run"]) -> None:
    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(run.until_green())


class _Run:
    """One check and its tries."""

    def __init__(
        self, check: health.Check, params: health.HealthCheck, context: StepContext, ended: Callable[[], None]
    ) -> None:
        self._check, self._params, self._context, self._ended = check, params, context, ended
        self._clock = context.host.clock
        self._seen = Seen(False, "not looked at")
        self._duration_s = 0.0

    async def until_green(self) -> None:
        params, deadline = self._params, self._context.deadline
        until = self._clock.monotonic() + min(params.within_seconds, deadline.remaining())
        while True:
            started = self._clock.monotonic()
            self._seen = await self._try(min(params.check_timeout_seconds, deadline.remaining()))
            self._duration_s = self._clock.monotonic() - started
            left = until - self._clock.monotonic()
            if self._seen.ok or left <= 0:
                break
            await asyncio.sleep(min(params.interval_seconds, left))
        self._ended()

    async def _try(self, timeout_s: float) -> Seen:
        try:
            if isinstance(self._check, health.Command):
                return await _command(self._check, self._context, timeout_s)  # ends its own tree in time
            async with asyncio.timeout(timeout_s):
                return await self._look()
        except TimeoutError:
            return Seen(False, f"no answer in {timeout_s:g} s")
        except HostlerError as err:
            return Seen(False, err.message)
        except OSError as err:
            return Seen(False, str(err.strerror or err)[:200] or type(err).__name__)

    async def _look(self) -> Seen:
        check, host = self._check, self._context.host
        waits = _WAITS.get(type(check))
        if waits is not None:
            return await waits(check, host)
        blocks = _BLOCKS[type(check)]
        # a dead file system holds one thread of a check, not one for each try, in this step or the next
        return await host.blocking.run(lambda: blocks(check, host), key=repr(check))

    def result(self) -> dict[str, Any]:
        return {
            "name": _name(self._check),
            "type": _type(self._check),
            "ok": self._seen.ok,
            "detail": self._seen.detail,
            "duration_ms": round(self._duration_s * 1000),
        }


# -- the looks ------------------------------------------------------------------------------------


async def _http(check: health.Http, host: Host) -> Seen:
    answer = await host.net.http_get(check.url, host.fetch.ca_file)
    if answer.status not in check.expected_status:
        expected = ", ".join(str(status) for status in check.expected_status)
        return Seen(False, f"status {answer.status}, expected {expected}")
    if check.body_contains.encode() not in answer.body:
        return Seen(False, f"status {answer.status}, but the body lacks the expected text")
    return Seen(True, f"status {answer.status}")


async def _tcp(check: health.Tcp, host: Host) -> Seen:
    await host.net.tcp_connect(check.host, check.port)
    return Seen(True, "accepts connections")


async def _unit(check: health.Unit, host: Host) -> Seen:
    state = await host.systemd.unit_state(check.unit)
    if state.active == check.active_state:
        return Seen(True, f"{state.active} ({state.sub})")
    known = "" if state.load == "loaded" else f", {state.load}"
    return Seen(False, f"{state.active} ({state.sub}{known}), expected {check.active_state}")


def _resolve(check: health.Command, view: StepView) -> tuple[CommandProfile, tuple[str, ...]]:
    """Raises `catalog_mismatch`, or what `build_argv` finds wrong with an argument."""
    profile = view.command
    if profile is None or profile.id != check.profile or profile.secret_files or profile.secret_env:
        raise error("catalog_mismatch", f"command profile {check.profile!r} is not the one of this step's checks")
    return profile, build_argv(profile, check.args)


async def _command(check: health.Command, context: StepContext, timeout_s: float) -> Seen:
    """Without a record: a check that was cut off is made anew."""
    profile, argv = _resolve(check, context)
    seconds = min(float(profile.timeout_seconds), timeout_s)
    finished = await context.host.execute.run(
        command_of(profile, argv, {}, None),
        deadline=Deadline.after(seconds, context.host.clock),
        cancelled=context.cancelled,
    )
    wrong = undeclared(argv[0], finished) or failure(argv[0], profile, finished.status, finished.signal)
    if wrong is not None:
        return Seen(False, wrong.message)
    if check.stdout_contains not in finished.stdout:
        return Seen(False, f"{argv[0]} ended with {finished.status}, but its output lacks the expected text")
    return Seen(True, f"{argv[0]} ended with {finished.status}")


def _listening(check: health.Listening, host: Host) -> Seen:
    ok = check.port in host.net.listening_ports()
    return Seen(ok, "listens" if ok else "nothing listens there")


def _process(check: health.Process, host: Host) -> Seen:
    count = host.processes.count(check.executable)
    return Seen(count >= check.minimum, f"{count} running, at least {check.minimum} expected")


def _file(check: health.File, host: Host) -> Seen:
    found = host.files.stat(check.path)
    if found is None or not stat.S_ISREG(found.st_mode):
        return Seen(False, "there is no such file")
    mode = f"0{stat.S_IMODE(found.st_mode):03o}"
    if check.mode and check.mode != mode:
        return Seen(False, f"mode {mode}, expected {check.mode}")
    if found.st_size < check.min_bytes:
        return Seen(False, f"{found.st_size} bytes, at least {check.min_bytes} expected")
    if check.sha256:
        digest = host.files.sha256(check.path)
        if digest != check.sha256:
            return Seen(False, f"sha256 {digest}, expected {check.sha256}")
    return Seen(True, f"{found.st_size} bytes, mode {mode}")


def _mount(check: health.Mount, host: Host) -> Seen:
    mount = host.disks.mount_at(check.path)
    if mount is None:
        return Seen(False, "nothing is mounted there")
    if check.fs_type and check.fs_type != mount.fs_type:
        return Seen(False, f"a {mount.fs_type} is mounted, expected {check.fs_type}")
    if check.read_only is not None and check.read_only != mount.read_only:
        return Seen(False, "mounted read-only" if mount.read_only else "mounted writable")
    return Seen(True, f"{mount.fs_type}, {'read-only' if mount.read_only else 'writable'}")


def _disk(check: health.Disk, host: Host) -> Seen:
    space = host.disks.space(check.path)
    detail = f"{space.free_bytes} bytes free ({space.free_percent:.1f} %)"
    enough = space.free_bytes >= check.min_free_bytes and space.free_percent >= check.min_free_percent
    return Seen(enough, detail if enough else f"{detail}, more is expected")


_WAITS: dict[type, Callable[[Any, Host], Awaitable[Seen]]] = {
    health.Http: _http,
    health.Tcp: _tcp,
    health.Unit: _unit,
}
_BLOCKS: dict[type, Callable[[Any, Host], Seen]] = {
    health.Listening: _listening,
    health.Process: _process,
    health.File: _file,
    health.Mount: _mount,
    health.Disk: _disk,
}


# -- how a check is called ------------------------------------------------------------------------


def _type(check: health.Check) -> str:
    return str(check.__struct_config__.tag)


def _name(check: health.Check) -> str:
    return check.name or f"{_type(check)} {_subject(check)}"


def _subject(check: health.Check) -> str:
    match check:
        case health.Http():
            parts = urlsplit(check.url)  # the query may be a secret
            return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
        case health.Tcp():
            return f"{check.host}:{check.port}"
        case health.Listening():
            return str(check.port)
        case health.Unit():
            return check.unit
        case health.Process():
            return check.executable
        case health.Command():
            return check.profile
        case _:
            return check.path


def _describe(check: health.Check) -> str:
    return f"{_type(check)} {_subject(check)}"
