"""R1: a disk that acknowledges and keeps its data, hides behind another, or lacks the method: failed, and named."""

import errno
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.host import block_devices, erasure
from hostler.agent.host.block_devices import BlockDevices, Disk
from hostler.agent.host.host import Host
from hostler.agent.host.nvme import ended
from hostler.base.errors import HostlerError
from support.reclaim import past_step, run

MIB = 1024 * 1024
DISK = Disk("/dev/sdx", "8:16", 4 * MIB, "S1", "Liar")


class Drive:
    """A disk in memory. `keeps` says which writes after the canaries it acknowledges and forgets."""

    def __init__(self, size: int = 4 * MIB, keeps: Any = lambda offset: False, *, mute: bool = False) -> None:
        self.size, self.keeps, self.mute = size, keeps, mute
        self.data = bytearray(random.Random(1).randbytes(size))
        self.planted = False

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self.data[offset : offset + count])

    def write(self, offset: int, data: bytes) -> None:
        erasing = not data.strip(b"\0")
        if not self.mute and not (erasing and self.keeps(offset)):
            self.data[offset : offset + len(data)] = data

    def erase(self, how: str, offset: int, count: int) -> None:
        if how == "secure_discard":
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        self.write(offset, bytes(count))

    def flush(self) -> None:
        return


def sanitize(drive: Drive, method: str = "overwrite") -> erasure.Proof:
    def step(done: int, total: int) -> None:
        return

    marks = erasure.plant(drive, "/dev/sdx", random.Random(7))
    erasure.erase(drive, "/dev/sdx", method, step)
    return erasure.prove(drive, "/dev/sdx", marks, step)


def failure(drive: Drive, method: str = "overwrite") -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        sanitize(drive, method)
    return caught.value


@pytest.mark.parametrize("method", ["overwrite", "zeroout"])
def test_an_honest_drive_is_proved_over_its_ends_its_marks_and_fresh_samples(method: str) -> None:
    drive = Drive()
    proof = sanitize(drive, method)
    assert not drive.data.strip(b"\0")
    assert (proof.size_bytes, proof.samples) == (4 * MIB, erasure.SAMPLES)
    assert proof.canaries > 30
    assert proof.read_bytes >= 2 * MIB


@pytest.mark.parametrize(
    ("drive", "said"),
    [
        (Drive(keeps=lambda offset: True), "still holds"),
        (Drive(mute=True), "does not keep them"),
        (Drive(12 * MIB, keeps=lambda offset: offset == 8 * MIB), "still holds"),
        (Drive(12 * MIB, keeps=lambda offset: offset == 0), "still holds data at byte 0"),
    ],
    ids=["acknowledges only", "takes no write", "keeps its end", "keeps its beginning"],
)
def test_R1_a_drive_that_keeps_its_data_fails_by_name(drive: Drive, said: str) -> None:
    err = failure(drive)
    assert err.code == "erase_unproved"
    assert "/dev/sdx" in err.message
    assert said in err.message


def test_R1_a_drive_full_of_zeros_that_ignores_writes_is_no_erased_drive() -> None:
    drive = Drive(mute=True)
    drive.data = bytearray(4 * MIB)
    assert failure(drive).code == "erase_unproved"


def test_R1_a_method_that_the_drive_lacks_is_not_replaced_by_a_weaker_one() -> None:
    drive = Drive()
    before = bytes(drive.data)
    err = failure(drive, "secure_discard")
    assert err.code == "sanitize_unsupported"
    assert sum(a != b for a, b in zip(before, drive.data, strict=True)) < 70 * 4096 * 1.1  # the marks, and no more


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"nvme0":{"sprog":65535,"sstat":257}}', True),
        ('{"nvme0":{"sprog":100,"sstat":2}}', False),
        (
            '{"nvme0":{"sprog":65535,"sstat":{"status":"(1) Most Recent Sanitize Command Completed Successfully."}}}',
            True,
        ),
    ],
)
def test_a_drive_s_own_sanitize_is_followed_to_its_end(text: str, expected: bool) -> None:
    assert ended(text, "/dev/nvme0n1") is expected


@pytest.mark.parametrize(
    "text", ['{"nvme0":{"sprog":1,"sstat":3}}', '{"nvme0":{"sstat":0}}', "", "[]", "{}", "[" * 5000]
)
def test_R1_a_sanitize_that_failed_or_cannot_be_read_is_no_success(text: str) -> None:
    with pytest.raises(HostlerError) as caught:
        ended(text, "/dev/nvme0n1")
    assert caught.value.code == "erase_unproved"
    assert "/dev/nvme0n1" in caught.value.message


def sysfs(root: Path, **files: str) -> BlockDevices:
    """A disk 8:16 as the kernel shows it."""
    at = root / "sys/devices/sdx"
    for name, content in {"size": "8192", "dev": "8:16", **files}.items():
        target = at / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content) if content else target.mkdir(parents=True)
    (root / "sys/dev/block").mkdir(parents=True)
    (root / "sys/dev/block/8:16").symlink_to("../../devices/sdx")
    return BlockDevices(root)


def refusal(door: BlockDevices) -> str:
    with pytest.raises(HostlerError) as caught:
        door.check_free(DISK)
    assert caught.value.code == "device_refused"
    return caught.value.message


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"holders/md0": ""}, "md0 (RAID, LVM or multipath) is built on it"),
        ({"sdx1/partition": "1", "sdx1/dev": "8:17", "sdx1/holders/dm-3": ""}, "dm-3 (RAID"),
        ({"slaves/sda": "", "slaves/sdb": ""}, "a view of other disks (sda, sdb)"),
        ({"partition": "1"}, "a partition"),
        ({"ro": "1"}, "read-only"),
    ],
    ids=["raid", "below a partition", "multipath", "partition", "read-only"],
)
def test_R1_a_disk_that_is_hidden_or_in_use_is_refused_with_what_hides_it(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    assert said in refusal(sysfs(tmp_path, **files))


def test_R1_a_mounted_disk_and_one_mounted_by_a_partition_are_refused(tmp_path: Path) -> None:
    door = sysfs(tmp_path, **{"sdx1/partition": "1", "sdx1/dev": "8:17"})
    table = tmp_path / "proc/1/mountinfo"
    table.parent.mkdir(parents=True)
    table.write_text("30 1 8:17 / /data rw - ext4 /dev/sdx1 rw\n")
    assert "mounted at /data" in refusal(door)


def test_R1_a_second_path_to_the_same_disk_is_refused(tmp_path: Path) -> None:
    door = sysfs(tmp_path, **{"device/wwid": "naa.5000"})
    for name in ("sdx", "sdy"):
        (tmp_path / "sys/block" / name / "device").mkdir(parents=True)
        (tmp_path / "sys/block" / name / "device/wwid").write_text("naa.5000")
    assert "/dev/sdy is another path to the same disk" in refusal(door)


def test_a_path_that_is_no_block_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/sdx").write_bytes(b"x")
    (tmp_path / "dev/link").symlink_to("/dev/sda")
    for path in ("/dev/sdx", "/dev/link", "/dev/absent", "/dev/../etc/passwd", "/etc/passwd"):
        with pytest.raises(HostlerError) as caught:
            BlockDevices(tmp_path).describe(path)
        assert caught.value.code == "device_refused"


# -- a real block device ---------------------------------------------------------------------------


@contextmanager
def loop(image: Path, size: int) -> Iterator[str]:
    """A loop device over a file that this test made."""
    image.write_bytes(random.Random(2).randbytes(size))
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, check=True)
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def real_host(tmp_path: Path) -> Host:
    return Host(spool=tmp_path / "spool", allocations=tmp_path / "allocations")


PARAMS = {"allocation_id": "al-1", "after": ["allocation.runtime.deprovision"]}
PAST = (past_step("storage.release", type_="allocation.runtime.deprovision"),)


@pytest.mark.real
@pytest.mark.parametrize("method", ["overwrite", "zeroout"])
async def test_R1_a_real_block_device_is_erased_and_read_back(tmp_path: Path, method: str) -> None:
    need("losetup")
    need_root()
    image = tmp_path / "disk"
    with loop(image, 9 * MIB) as device:
        params = PARAMS | {"devices": [{"path": device}], "method": method}
        done = await run(real_host(tmp_path), "device.sanitize", params, PAST)
        assert done["error"] == "", done
    assert not image.read_bytes().strip(b"\0")
    (erased,) = done["outputs"]["erased"]
    assert (erased["path"], erased["size_bytes"], erased["method"]) == (device, 9 * MIB, method)


@pytest.mark.real
async def test_R1_a_real_device_that_drops_the_erasure_fails_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole kind over a real device, whose writes of zeros go nowhere."""
    need("losetup")
    need_root()
    write = block_devices._Open.write
    drops = lambda self, offset, data: write(self, offset, data) if data.strip(b"\0") else None  # noqa: E731
    monkeypatch.setattr(block_devices._Open, "write", drops)
    with loop(tmp_path / "disk", 9 * MIB) as device:
        done = await run(real_host(tmp_path), "device.sanitize", PARAMS | {"devices": [{"path": device}]}, PAST)
    assert done["error"] == "erase_unproved", done
    assert device in done["message"]


@pytest.mark.real
async def test_R1_a_mounted_real_device_is_not_touched(tmp_path: Path) -> None:
    need("losetup", "mkfs.ext4")
    need_root()
    image, point = tmp_path / "disk", tmp_path / "point"
    point.mkdir()
    with loop(image, 9 * MIB) as device:
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        subprocess.run(["mount", device, str(point)], check=True)
        try:
            before = image.read_bytes()
            done = await run(real_host(tmp_path), "device.sanitize", PARAMS | {"devices": [{"path": device}]}, PAST)
            assert image.read_bytes() == before
        finally:
            subprocess.run(["umount", str(point)], check=True)
    assert done["error"] == "device_refused", done
    assert str(point) in done["message"]


@pytest.mark.real
async def test_R1_another_disk_under_the_same_name_is_not_erased(tmp_path: Path) -> None:
    need("losetup")
    need_root()
    image = tmp_path / "disk"
    with loop(image, 9 * MIB) as device:
        before = image.read_bytes()
        named = {"path": device, "serial": "S-OTHER"}
        done = await run(real_host(tmp_path), "device.sanitize", PARAMS | {"devices": [named]}, PAST)
    assert done["error"] == "device_refused", done
    assert image.read_bytes() == before
