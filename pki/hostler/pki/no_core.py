"""Processes that hold keys leave no core file and let nobody of their user look into their memory."""

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def leave_no_core() -> None:
    """For the start of a process; children start afresh as to tracing, but inherit the limit of core files.

    Raises:
        OSError: when the kernel refuses, which it has no reason to.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot be made undumpable")
