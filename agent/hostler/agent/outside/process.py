"""`python -m hostler.agent.outside.process`: the network process itself.

Everything that is needed is imported first; then every privilege is given up for good; only then a byte is read.
"""

import asyncio
import ctypes
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from hostler.agent.outside.serve import Server
from hostler.base import logs
from hostler.base.errors import error

_PAUSE_S = 0.1
_PR_CAPBSET_DROP = 24
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38


def give_up_privileges(uid: int, gid: int) -> None:
    """Becomes that user for ever. Raises `OSError` or `RuntimeError` when anything of root would be left."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        _empty_bounding_set()
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        if 0 in os.getresuid() or 0 in os.getresgid():
            raise RuntimeError("the network process has kept root")
    harden()


def _empty_bounding_set() -> None:
    """So that nothing this process might execute could bring a capability back."""
    prctl, capability = ctypes.CDLL(None, use_errno=True).prctl, 0
    while prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if capability == 0:
        raise OSError(ctypes.get_errno(), "the capability bounding set cannot be emptied")


def harden(*, dies_with_parent: bool = True) -> None:
    """No new privileges, no core file, not to be traced by others of the same user."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    options = [(_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_DUMPABLE, 0)]
    if dies_with_parent:
        options.append((_PR_SET_PDEATHSIG, signal.SIGTERM))
    for option, value in options:
        if prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)


async def serve(link: socket.socket) -> None:
    """Serves the runner at the other end of `link`."""
    reader, writer = await asyncio.open_unix_connection(sock=link)
    await Server(reader, writer).run(os.geteuid())


def dial_runner(path: Path) -> None:
    """Serves the runner that listens at `path`; dials again when it has restarted. Ends by SIGTERM only.

    Raises:
        HostlerError: `invalid_config` as root: whoever starts this must not be.
    """
    if os.geteuid() == 0:
        raise error("invalid_config", "the session process must not run as root", hint="start it as session_user")
    harden(dies_with_parent=False)

    async def forever() -> None:
        while True:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                link.connect(str(path))
                await serve(link)
            except OSError:
                link.close()
            await asyncio.sleep(_PAUSE_S)

    asyncio.run(forever())


def main(arguments: list[str]) -> None:
    """`FD UID GID LOG_FORMAT LOG_LEVEL`, as `spawn` gives them."""
    descriptor, uid, gid, log_format, log_level = arguments
    logs.set_up(log_format, log_level)
    link = socket.socket(fileno=int(descriptor))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when
    give_up_privileges(int(uid), int(gid))
    asyncio.run(serve(link))


if __name__ == "__main__":
    main(sys.argv[1:])
