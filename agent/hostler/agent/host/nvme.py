"""A drive's own sanitize, by nvme-cli with fixed arguments."""

import asyncio
import json
import re

from hostler.agent.host.execute import Command
from hostler.agent.host.host import Host
from hostler.base.clock import Deadline
from hostler.base.digest import digest_of
from hostler.base.errors import error

PROGRAM = "/usr/sbin/nvme"
LOOK_S = 2.0
_CONTROLLER = re.compile(r"(/dev/nvme\d+)n\d+", re.ASCII)
_DONE, _DONE_FORCED, _IN_PROGRESS = 1, 4, 2


async def sanitize(host: Host, path: str, action: int, deadline: Deadline, cancelled: asyncio.Event) -> None:
    """Starts it and waits for its end. It cannot be stopped once it runs: a cancel only stops the waiting.

    Raises:
        HostlerError: `sanitize_unsupported`, `erase_unproved` when the drive says that it failed, `timeout`,
            `canceled`.
    """
    match = _CONTROLLER.fullmatch(path)
    if match is None:
        raise error("sanitize_unsupported", f"{path} is no name space of an NVMe drive")
    controller = match[1]
    status, _ = await _run(host, (PROGRAM, "sanitize", controller, f"--sanact={action}"), deadline)
    if status:
        raise error("sanitize_unsupported", f"{path} refuses sanitize action {action} (nvme ended with {status})")
    while True:
        if cancelled.is_set():
            raise error("canceled", f"{path} goes on sanitizing by itself")
        if deadline.passed():
            raise error("timeout", f"the sanitize of {path} did not end in time; it goes on by itself")
        status, text = await _run(host, (PROGRAM, "sanitize-log", controller, "-o", "json"), deadline)
        if status:
            raise error("erase_unproved", f"{path} does not say how its sanitize goes on")
        if ended(text, path):
            return
        await asyncio.sleep(min(LOOK_S, deadline.remaining()))


def ended(text: str, path: str) -> bool:
    """From `nvme sanitize-log -o json`. Raises `erase_unproved` for a failure, or what cannot be read."""
    try:
        log = json.loads(text)
        (body,) = log.values()
        status = body["sstat"]
        if isinstance(status, dict):
            status = int(re.findall(r"\d+", str(status["status"]))[0])
        state = int(status) & 0x7
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as err:
        raise error("erase_unproved", f"what {path} says of its sanitize cannot be read") from err
    if state in (_DONE, _DONE_FORCED):
        return True
    if state == _IN_PROGRESS:
        return False
    raise error("erase_unproved", f"{path} says that its sanitize failed (status {state})")


async def _run(host: Host, argv: tuple[str, ...], deadline: Deadline) -> tuple[int, str]:
    command = Command(argv=argv, run_as="root", capture_stdout=True, note=digest_of(argv))
    finished = await host.execute.run(command, deadline=Deadline.after(min(60, deadline.remaining()), host.clock))
    return finished.status or -finished.signal, finished.stdout
