"""PF-11, R2: every family finds by name what a fixture root holds, those too that no container can plant."""

import struct
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.residue import commands, inventory, network, processes
from hostler.agent.residue.model import Item
from hostler.agent.residue.reader import Bounds
from hostler.base.clock import Deadline, SystemClock
from support.tenancy import machine_root, plant

EVIL_TCP = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:115C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1 1\n"
    "   1: 0100007F:9999 0100007F:1111 01 00000000:00000000 00:00000000 00000000  1001        0 1 1\n"
)
UNIX = (
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0: 00000002 00000000 00010000 0001 01 1234 /run/evil \x1b[31m.sock\n"
    "0: 00000002 00000000 00000000 0001 03 1235 /run/connected.sock\n"
)


def utmp(user: bytes, line: bytes, kind: int = 7) -> bytes:
    return struct.pack("<h2xi32s4s32s256shhiii16s20s", kind, 4, line, b"", user, b"", 0, 0, 0, 0, 0, b"", b"")


# what lies there, and what has to be said of it
PLANTED: dict[str, tuple[dict[str, Any], Item]] = {
    "kernel module": ({"/proc/modules": "evil 16384 0 - Live 0x0 (OE)\n"}, Item("kernel_module", "evil", "(OE)")),
    "swap": (
        {"/proc/swaps": "Filename Type Size Used Priority\n/srv/swap\\040file file 1024 0 -2\n"},
        Item("swap", "/srv/swap file", "file 1024 KiB"),
    ),
    "loop device": (
        {"/sys/block/loop3/x": "", "/sys/devices/virtual/block/loop3/loop/backing_file": "/srv/hidden.img\n"},
        Item("loop_device", "/dev/loop3", "over /srv/hidden.img"),
    ),
    "mapped device": (
        {"/sys/block/dm-0/x": "", "/sys/devices/virtual/block/dm-0/dm/name": "hidden\n"},
        Item("mapped_device", "hidden"),
    ),
    "raid": (
        {"/sys/block/md7/x": "", "/sys/devices/virtual/block/md7/md/level": "raid1\n"},
        Item("raid", "/dev/md7", "raid1"),
    ),
    "bind mount": (
        {"/proc/1/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 8:1 /etc /mnt rw - ext4 /dev/sda1 rw\n"},
        Item("mount", "/mnt", "ext4 /dev/sda1 of /etc rw"),
    ),
    "logged-in session": (
        {"/run/systemd/sessions/c2": "UID=1001\nCLASS=user\n"},
        Item("session", "of uid 1001", "user"),
    ),
    "utmp": ({"/run/utmp": utmp(b"tenant", b"pts/0")}, Item("session", "of user tenant", "pts/0")),
    "kernel key": (
        {"/proc/keys": "2f3c I--Q--- 2 perm 3f030000 1001 1001 user evil:token: 12\n"},
        Item("kernel_key", "user evil:token of uid 1001"),
    ),
    "shared memory": (
        {"/proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid\n 7 3 600 100 1 1 0 1001\n"},
        Item("sysv_shared_memory", "key 7 id 3", "uid 1001"),
    ),
    "GPU process": (
        {"/proc/90/stat": "90 (train) R 1 1 1", "/proc/90/status": "Uid:\t1001\t1001\t1001\t1001\n",
         "/proc/90/fd/4": "->/dev/nvidia0"},
        Item("gpu_process", "train of uid 1001", "/dev/nvidia0"),
    ),
    "network name space": ({"/run/netns/evil": ""}, Item("net_namespace", "/run/netns/evil")),
    "listening socket": (
        {"/proc/1/net/tcp": EVIL_TCP}, Item("listening_socket", "tcp 127.0.0.1 port 4444", "uid 1001"),
    ),
    "unix socket": ({"/proc/1/net/unix": UNIX}, Item("unix_socket", "/run/evil \\x1b[31m.sock")),
    "packet socket": (
        {"/proc/1/net/packet": "sk RefCnt Type Proto Iface R Rmem User Inode\n0 3 3 0003 2 1 0 0 7\n"},
        Item("raw_socket", "packet protocol 0003 on interface 2", "uid 0"),
    ),
    "interface": ({"/proc/1/net/dev": "h\nh\n  evil0: 0 0\n"}, Item("interface", "evil0")),
    "bridge": ({"/sys/devices/virtual/net/br9/bridge/x": ""}, Item("bridge", "br9")),
    "route": (
        {"/proc/1/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
                              "eth0 0000000A 0101A8C0 0003 0 0 0 000000FF\n"},
        Item("route", "10.0.0.0/8 by eth0", "gateway 192.168.1.1"),
    ),
    "kernel setting": (
        {"/proc/sys/kernel/core_pattern": "|/tmp/x\n"}, Item("kernel_setting", "kernel.core_pattern", "|/tmp/x"),
    ),
    "binary format": ({"/proc/sys/fs/binfmt_misc/evil": ""}, Item("binary_format", "evil")),
    "container": ({"/run/containerd/io.containerd.runtime.v2.task/k8s.io/c0ffee/x": ""},
                  Item("container", "/run/containerd/io.containerd.runtime.v2.task/k8s.io/c0ffee")),
    "huge page file": ({"/dev/hugepages/evil": ""}, Item("huge_page_file", "/dev/hugepages/evil")),
    "subordinate ids": ({"/etc/subuid": "tenant:100000:65536\n"}, Item("subordinate_id", "tenant", "100000:65536")),
    "journal of a user": ({"/var/log/journal/abc/user-1001@00.journal": ""}, Item("user_journal", "of uid 1001")),
    "polkit rule": ({"/etc/polkit-1/rules.d/49.rules": ""}, Item("polkit_rule", "/etc/polkit-1/rules.d/49.rules")),
}  # fmt: skip


def look(root: Path, entries: int = 100_000, ignored: tuple[str, ...] = ()) -> tuple[set[Item], dict[str, str]]:
    return inventory.look(root, Bounds(entries, Deadline.after(30, SystemClock())), ignored)


@pytest.mark.parametrize("what", PLANTED)
def test_R2_what_no_container_can_plant_is_found_by_name_in_a_fixture(tmp_path: Path, what: str) -> None:
    files, wanted = PLANTED[what]
    root = machine_root(tmp_path)
    before, coverage = look(root)
    assert set(coverage.values()) == {"complete"}
    plant(root, {path: content for path, content in files.items() if not str(content).startswith("->")})
    for path, target in files.items():
        if str(target).startswith("->"):
            link = root / path.lstrip("/")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target[2:])
    after, coverage = look(root)
    assert set(coverage.values()) == {"complete"}
    assert wanted[:2] in {item[:2] for item in after - before}
    if wanted.detail:
        assert wanted in after - before


def test_a_process_is_known_by_program_user_and_unit_not_by_its_number(tmp_path: Path) -> None:
    def process(pid: int) -> processes.Process:
        stat, status = b"%d (a) b (c) S 1 1 1" % pid, "Uid:\t33\t33\t33\t33\n"
        return processes.parse_process(pid, stat, status, "/usr/sbin/www", f"0::/system.slice/run-r{pid}.scope\n")

    one, other = process(100), process(7)
    assert one._replace(pid=0) == other._replace(pid=0)
    assert (one.name, one.uid, one.cgroup) == ("a) b (c", 33, "/system.slice/run-rN.scope")


def test_the_agent_and_what_it_started_is_not_counted() -> None:
    def process(pid: int, parent: int) -> processes.Process:
        return processes.Process(pid, parent, 0, "x", "/x", "", "S")

    known = {p.pid: p for p in (process(1, 0), process(10, 1), process(11, 10), process(12, 11), process(20, 1))}
    assert processes.descendants(known, frozenset((10,))) == {10, 11, 12}


def test_of_a_password_only_whether_it_is_the_same(tmp_path: Path) -> None:
    root = machine_root(tmp_path)
    plant(root, {"/etc/shadow": "root:$6$salt$verysecrethash:19000:0:99999:7:::\n"})
    found, _ = look(root)
    (item,) = [item for item in found if item.kind == "password"]
    assert item.detail.startswith("set ")
    assert "verysecret" not in repr(found)


def test_addresses_of_both_families_are_read() -> None:
    assert network.address_of("0100007F") == "127.0.0.1"
    assert network.address_of("00000000000000000000000001000000") == "::1"


@pytest.mark.parametrize(
    ("parse", "text", "wanted"),
    [
        (commands.parse_iptables, "*filter\n:INPUT ACCEPT [9:9]\n-A INPUT -j DROP\nCOMMIT\n",
         {"filter :INPUT ACCEPT", "filter -A INPUT -j DROP"}),
        (commands.parse_gpu_processes, "123, /usr/bin/python3\n", {"/usr/bin/python3 (compute)"}),
        (commands.parse_gpu_memory, "GPU-1, 4096 MiB\n", {"GPU-1"}),
        (commands.parse_bmc_users, "1,,true,false,false,NO ACCESS\n2,evil,true,true,true,ADMINISTRATOR\n", {"2 evil"}),
        (commands.parse_nft, '{"nftables":[{"metainfo":{}},{"table":{"family":"inet","name":"evil","handle":3}}]}',
         {"table inet evil"}),
    ],
)  # fmt: skip
def test_R2_what_programs_say_is_taken_apart(parse: Any, text: str, wanted: set[str]) -> None:
    assert {item.name for item in parse(text)} == wanted


def test_counters_and_handles_do_not_make_another_rule() -> None:
    counted = '"handle":%d,"expr":[{"counter":{"packets":%d}}]'
    rule = '{"nftables":[{"rule":{"family":"ip","table":"t","chain":"c",' + counted + "}}]}"
    assert set(commands.parse_nft(rule % (1, 2))) == set(commands.parse_nft(rule % (3, 4)))
    text = "*filter\n[%d:5] -A X\n:INPUT ACCEPT [%d:0]\n"
    assert set(commands.parse_iptables(text % (1, 1))) == set(commands.parse_iptables(text % (2, 2)))


def test_what_runs_by_itself_is_compared_by_content_and_links_by_where_they_lead(tmp_path: Path) -> None:
    root = plant(machine_root(tmp_path), {"/etc/cron.d/job": "a", "/etc/profile.d/x.sh": "a"})
    before, _ = look(root)
    plant(root, {"/etc/cron.d/job": "b"})
    (root / "etc/profile.d/x.sh").unlink()
    (root / "etc/profile.d/x.sh").symlink_to("/tmp/evil")
    after, _ = look(root)
    changed = {(item.kind, item.name, item.detail[:4]) for item in after - before}
    assert ("login_script", "/etc/profile.d/x.sh", "link") in changed
    assert ("cron_job", "/etc/cron.d/job") in {each[:2] for each in changed}


def test_a_watched_directory_that_became_a_link_is_a_finding(tmp_path: Path) -> None:
    root = plant(machine_root(tmp_path), {"/var/spool/cron/crontabs/root": "a"})
    before, _ = look(root)
    (root / "var/spool/cron").rename(root / "var/hidden")
    (root / "var/spool/cron").symlink_to("../hidden")
    after, _ = look(root)
    assert Item("cron_job", "/var/spool/cron", "link to ../hidden") in after - before
    assert any(item.name.endswith("crontabs/root") for item in before - after)
