"""System call filters as the kernel takes them (classic BPF), and what may be done about each call.

Standard library only: the helper process loads this. Numbers are of x86_64 and aarch64; a test holds them against
the kernel's own headers. Everything else is refused by the first three instructions.
"""

import ctypes
import functools
import os
import struct
from typing import NamedTuple

_LD_W_ABS, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARGS = 0, 4, 16
ALLOW, ERRNO, NOTIFY, KILL = 0x7FFF0000, 0x00050000, 0x7FC00000, 0x80000000
_EPERM, _EAFNOSUPPORT, _ENOSYS = 1, 97, 38
_X32 = 0x40000000
# CLONE_NEWTIME is left out: in clone's flags its bit is part of the exit signal
_NEW_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
WRITING = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
_AF_UNIX = 1
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_libc = ctypes.CDLL(None, use_errno=True)


class Machine(NamedTuple):
    """`audit`: AUDIT_ARCH of the machine. A call that it lacks has no number."""

    audit: int
    calls: dict[str, int]

    def __hash__(self) -> int:
        return self.audit


def _numbers(text: str, column: int) -> dict[str, int]:
    rows = (line.split() for line in text.strip().splitlines())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


_TABLE = """
mount 165 40
umount2 166 39
pivot_root 155 41
chroot 161 51
open_tree 428 428
move_mount 429 429
fsopen 430 430
fsconfig 431 431
fsmount 432 432
fspick 433 433
mount_setattr 442 442
unshare 272 97
setns 308 268
clone 56 220
clone3 435 435
init_module 175 105
finit_module 313 273
delete_module 176 106
kexec_load 246 104
kexec_file_load 320 294
bpf 321 280
perf_event_open 298 241
ptrace 101 117
process_vm_readv 310 270
process_vm_writev 311 271
pidfd_getfd 438 438
kcmp 312 272
userfaultfd 323 282
add_key 248 217
request_key 249 218
keyctl 250 219
settimeofday 164 170
clock_settime 227 112
clock_adjtime 305 266
adjtimex 159 171
reboot 169 142
swapon 167 224
swapoff 168 225
quotactl 179 60
quotactl_fd 443 443
acct 163 89
syslog 103 116
personality 135 92
iopl 172 -
ioperm 173 -
modify_ldt 154 -
open_by_handle_at 304 265
lookup_dcookie 212 18
nfsservctl 180 42
vhangup 153 58
io_uring_setup 425 425
io_uring_enter 426 426
io_uring_register 427 427
socket 41 198
open 2 -
creat 85 -
openat 257 56
openat2 437 437
mkdir 83 -
mkdirat 258 34
rmdir 84 -
unlink 87 -
unlinkat 263 35
rename 82 -
renameat 264 38
renameat2 316 276
link 86 -
linkat 265 37
symlink 88 -
symlinkat 266 36
mknod 133 -
mknodat 259 33
truncate 76 45
chmod 90 -
fchmodat 268 53
chown 92 -
lchown 94 -
fchownat 260 54
setxattr 188 5
lsetxattr 189 6
utimensat 280 88
seccomp 317 277
setgroups 116 159
setresgid 119 149
setresuid 117 147
"""

MACHINES = {
    "x86_64": Machine(0xC000003E, _numbers(_TABLE, 1)),
    "aarch64": Machine(0xC00000B7, _numbers(_TABLE, 2)),
}

# What no command may do, by the names a profile may ask for one by one.
GROUPS: dict[str, tuple[str, ...]] = {
    "mount": (
        "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
        "fspick", "mount_setattr",
    ),
    "namespace": ("unshare", "setns"),
    "module": ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    "trace": ("bpf", "perf_event_open", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
              "userfaultfd"),
    "keys": ("add_key", "request_key", "keyctl"),
    "clock": ("settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    "system": ("reboot", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog", "personality", "iopl",
               "ioperm", "modify_ldt", "open_by_handle_at", "lookup_dcookie", "nfsservctl", "vhangup"),
}  # fmt: skip
# Never: io_uring makes calls that no filter sees.
NEVER = ("io_uring_setup", "io_uring_enter", "io_uring_register")
# Calls that write, where they have their paths: (directory descriptor or -1, path) argument pairs.
WRITERS: dict[str, tuple[tuple[int, int], ...]] = {
    "open": ((-1, 0),), "creat": ((-1, 0),), "openat": ((0, 1),), "openat2": ((0, 1),),
    "mkdir": ((-1, 0),), "mkdirat": ((0, 1),), "rmdir": ((-1, 0),), "unlink": ((-1, 0),), "unlinkat": ((0, 1),),
    "rename": ((-1, 0), (-1, 1)), "renameat": ((0, 1), (2, 3)), "renameat2": ((0, 1), (2, 3)),
    "link": ((-1, 1),), "linkat": ((2, 3),), "symlink": ((-1, 1),), "symlinkat": ((1, 2),),
    "mknod": ((-1, 0),), "mknodat": ((0, 1),), "truncate": ((-1, 0),),
    "chmod": ((-1, 0),), "fchmodat": ((0, 1),), "chown": ((-1, 0),), "lchown": ((-1, 0),), "fchownat": ((0, 1),),
    "setxattr": ((-1, 0),), "lsetxattr": ((-1, 0),), "utimensat": ((0, 1),),
}  # fmt: skip
_FLAGS_AT = {"open": 1, "openat": 2}


def machine() -> Machine:
    """Raises `OSError` on an architecture whose calls we do not know."""
    name = os.uname().machine
    if name not in MACHINES:
        raise OSError(_ENOSYS, f"no system call filter for {name}")
    return MACHINES[name]


def baseline(kind: Machine, allowed: frozenset[str]) -> bytes:
    """The filter of every command, which its helper takes upon itself once.

    Args:
        allowed: names of `GROUPS` that the command may use.
    """
    denied = [*NEVER, *(call for name, calls in GROUPS.items() if name not in allowed for call in calls)]
    rules = [_when(kind, call, [_op(_RET, ERRNO | _EPERM)]) for call in denied]
    if "namespace" not in allowed:
        # the flags of clone3 are behind a pointer: without it the C library falls back to clone
        rules.append(_when(kind, "clone3", [_op(_RET, ERRNO | _ENOSYS)]))
        rules.append(_when(kind, "clone", _if_set(0, _NEW_NAMESPACES, ERRNO | _EPERM)))
    return _program(kind, rules)


@functools.lru_cache(maxsize=8)
def declared(kind: Machine, network: bool, watched: bool) -> bytes:
    """What a command's own declaration adds.

    Args:
        network: sockets of every family; else only those of this machine.
        watched: calls that write are shown to a listener first.
    """
    rules = [] if network else [_when(kind, "socket", _unless_equal(0, _AF_UNIX, ERRNO | _EAFNOSUPPORT))]
    for call in WRITERS if watched else ():
        at = _FLAGS_AT.get(call)
        rules.append(_when(kind, call, [_op(_RET, NOTIFY)] if at is None else _if_set(at, WRITING, NOTIFY)))
    return _program(kind, rules)


def _program(kind: Machine, rules: list[list[bytes]]) -> bytes:
    """Behind the check that this is the machine whose numbers are meant."""
    code = [_op(_LD_W_ABS, _ARCH), _jump(_JEQ, kind.audit, 1, 0), _op(_RET, KILL)]
    code += [_op(_LD_W_ABS, _NR), _jump(_JGE, _X32, 0, 1), _op(_RET, ERRNO | _EPERM)]
    return b"".join([*code, *(op for rule in rules for op in rule), _op(_RET, ALLOW)])


def install(kind: Machine, code: bytes, *, listener: bool) -> int:
    """Puts the filter on the calling thread and all it will start; a listener's descriptor, or 0.

    Raises:
        OSError: the kernel takes no filter, or has no listeners.
    """
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HxxxxxxP" if ctypes.sizeof(ctypes.c_void_p) == 8 else "@HxxI", len(code) // 8,
                          ctypes.addressof(buffer))  # fmt: skip
    flags = _NEW_LISTENER if listener else 0
    made: int = _libc.syscall(kind.calls["seccomp"], _SET_MODE_FILTER, flags, filter_)
    if made < 0:
        raise OSError(ctypes.get_errno(), "the kernel takes no system call filter")
    return made


def _op(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, yes: int, no: int) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _when(kind: Machine, call: str, then: list[bytes]) -> list[bytes]:
    """`then` for that call; the call's number is loaded before and after."""
    number = kind.calls.get(call)
    return [] if number is None else [_jump(_JEQ, number, 0, len(then)), *then]


def _if_set(argument: int, bits: int, action: int) -> list[bytes]:
    low = _ARGS + 8 * argument  # both machines are little-endian
    return [_op(_LD_W_ABS, low), _jump(_JSET, bits, 0, 1), _op(_RET, action), _op(_LD_W_ABS, _NR)]


def _unless_equal(argument: int, value: int, action: int) -> list[bytes]:
    low = _ARGS + 8 * argument
    return [_op(_LD_W_ABS, low), _jump(_JEQ, value, 1, 0), _op(_RET, action), _op(_LD_W_ABS, _NR)]
