"""What lives in the kernel and in no process: System V IPC, keys, huge pages, modules, settings."""

from collections.abc import Iterator

from hostler.agent.residue.model import Item, plain
from hostler.agent.residue.reader import Reader

_IPC = {"shm": "sysv_shared_memory", "sem": "sysv_semaphore", "msg": "sysv_message_queue"}
# Settings a tenant with privileges changes to come back, to listen, or to weaken the host.
SETTINGS = tuple(
    """
    kernel/core_pattern kernel/core_uses_pid kernel/modprobe kernel/hotplug kernel/randomize_va_space
    kernel/kptr_restrict kernel/dmesg_restrict kernel/perf_event_paranoid kernel/unprivileged_bpf_disabled
    kernel/unprivileged_userns_clone kernel/yama/ptrace_scope kernel/sysrq kernel/modules_disabled
    kernel/kexec_load_disabled kernel/hostname kernel/domainname kernel/panic kernel/shmmax kernel/shmall
    kernel/ftrace_enabled kernel/nmi_watchdog
    fs/suid_dumpable fs/protected_hardlinks fs/protected_symlinks fs/protected_fifos fs/protected_regular
    fs/binfmt_misc/status user/max_user_namespaces vm/nr_hugepages vm/overcommit_memory vm/mmap_min_addr
    vm/swappiness net/ipv4/ip_forward net/ipv4/conf/all/forwarding net/ipv4/conf/all/rp_filter
    net/ipv4/conf/all/accept_redirects net/ipv4/conf/all/accept_source_route net/ipv4/conf/all/route_localnet
    net/ipv4/conf/all/proxy_arp net/ipv4/tcp_syncookies net/ipv4/ip_unprivileged_port_start
    net/ipv4/ping_group_range net/ipv6/conf/all/forwarding net/ipv6/conf/all/accept_ra
    net/ipv6/conf/all/accept_redirects net/bridge/bridge-nf-call-iptables
    """.split()  # noqa: SIM905 - a list of words reads better
)


def collect_ipc(reader: Reader) -> Iterator[Item]:
    """Raises OSError, `Exhausted`."""
    for name, kind in _IPC.items():
        yield from parse_ipc(kind, reader.text_or_none(f"/proc/sysvipc/{name}") or "")
    yield from parse_keys(reader.text_or_none("/proc/keys") or "")


def parse_ipc(kind: str, table: str) -> Iterator[Item]:
    """A heading names the columns; `key`, the id that follows it, and `uid` are among them in every table."""
    lines = table.splitlines()
    heading = lines[0].split() if lines else []
    for line in lines[1:]:
        row = dict(zip(heading, line.split(), strict=False))
        number = row.get("shmid") or row.get("semid") or row.get("msqid") or "?"
        yield Item(kind, f"key {row.get('key', '?')} id {number}", f"uid {row.get('uid', '?')}")


def parse_keys(table: str) -> Iterator[Item]:
    """`serial flags usage timeout permissions uid gid type description: summary`; rings of processes come and go."""
    for line in table.splitlines():
        row = line.split(maxsplit=8)
        if len(row) == 9 and row[8].split(":")[0] not in ("_ses", "_tid", "_pid", "_persistent"):
            name = row[8].partition(": ")[0]
            yield Item("kernel_key", plain(f"{row[7]} {name} of uid {row[5]}"))


def collect_kernel(reader: Reader) -> Iterator[Item]:
    """Raises OSError, `Exhausted`."""
    yield from parse_modules(reader.text_or_none("/proc/modules") or "")
    for name in SETTINGS:
        value = reader.text_or_none(f"/proc/sys/{name}")
        if value is not None:
            yield Item("kernel_setting", name.replace("/", "."), plain(value.strip()))
    for name in reader.names("/proc/sys/fs/binfmt_misc"):
        if name not in ("register", "status"):
            yield Item("binary_format", plain(name))
    for name in reader.names("/sys/kernel/config/target"):
        yield Item("exported_target", plain(name))


def parse_modules(table: str) -> Iterator[Item]:
    """name size refs users state address [taint]."""
    for line in table.splitlines():
        row = line.split()
        if row:
            taint = row[-1] if row[-1].startswith("(") else ""
            yield Item("kernel_module", plain(row[0]), taint)
