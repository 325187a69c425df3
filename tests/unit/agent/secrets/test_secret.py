"""Bytes that can be wiped, and that nothing gives out by accident: design §4.8, CR-04, CR-05."""

import copy
import gc
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hostler.agent.secrets.secret import MAX_BYTES, SCRUBBED, Secret
from hostler.base.errors import HostlerError
from support.mutant import child_of_a_test

WORD = b"correct horse battery"


def secret(data: bytes = WORD) -> Secret:
    return Secret.take(bytearray(data))


def read(one: Secret) -> bytes:
    fd = one.descriptor()
    try:
        return os.read(fd, MAX_BYTES)
    finally:
        os.close(fd)


def test_CR_04_the_bytes_are_read_by_descriptor_and_each_starts_at_the_front() -> None:
    one = secret()
    assert read(one) == read(one) == WORD
    one.close()


def test_CR_05_what_was_handed_in_is_wiped() -> None:
    source = bytearray(WORD)
    Secret.take(source).close()
    assert source == bytearray(len(WORD))


def test_CR_05_what_cannot_be_held_is_wiped_all_the_same() -> None:
    source = bytearray(b"x" * (MAX_BYTES + 1))
    with pytest.raises(HostlerError) as caught:
        Secret.take(source)
    assert caught.value.code == "secret_memory"
    assert not any(source)


def test_a_secret_is_read_from_a_descriptor_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(WORD * 500)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    one = Secret.read_from(fd)
    assert read(one) == WORD * 500
    one.close()
    for limit in (5, len(WORD) * 500):
        os.lseek(fd, 0, os.SEEK_SET)
        with pytest.raises(HostlerError):
            Secret.read_from(fd, limit)
    with pytest.raises(HostlerError):
        Secret.read_from(os.open("/dev/null", os.O_RDONLY))


def test_CR_05_whoever_kept_a_descriptor_sees_zeros_after_the_wipe() -> None:
    one = secret()
    kept = one.descriptor()
    one.close()
    one.close()
    assert one.wiped
    assert os.read(kept, 100) == bytes(len(WORD))
    os.close(kept)
    with pytest.raises(HostlerError) as caught:
        one.descriptor()
    assert caught.value.code == "unknown_handle"


def test_CR_05_the_last_reference_wipes() -> None:
    one = secret()
    kept = one.descriptor()
    del one
    gc.collect()
    assert os.read(kept, 100) == bytes(len(WORD))
    os.close(kept)


def test_CR_05_the_end_of_the_process_wipes() -> None:
    code = (
        "import os, sys\n"
        "from hostler.agent.secrets.secret import Secret\n"
        "one = Secret.take(bytearray(b'correct horse battery'))\n"
        "os.dup2(one.descriptor(), 1, inheritable=True)\n"
    )
    there, here = os.pipe()
    process = subprocess.Popen([sys.executable, "-I", "-c", code + f"os.read({there}, 1)"], pass_fds=[there])
    found = Path(f"/proc/{process.pid}/fd/1")
    while "hostler-secret" not in str(found.readlink()):
        assert process.poll() is None
    kept = os.open(found, os.O_RDONLY)
    assert os.pread(kept, 100, 0) == WORD
    os.write(here, b"x")
    process.wait()
    assert os.pread(kept, 100, 0) == bytes(len(WORD))
    for fd in (kept, there, here):
        os.close(fd)


def test_no_child_can_write_grow_or_cut_it() -> None:
    one = secret()
    fd = one.descriptor()
    for flags in (os.O_RDWR, os.O_WRONLY):
        try:
            writable = os.open(f"/proc/self/fd/{fd}", flags)  # root may open anything
        except PermissionError:
            continue
        for attempt in (os.write, b"x"), (os.ftruncate, 0), (os.ftruncate, 999):
            with pytest.raises(PermissionError):
                attempt[0](writable, attempt[1])
        os.close(writable)
    assert read(one) == WORD
    os.close(fd)
    one.close()


def test_it_is_locked_in_memory_and_in_no_core_file_and_no_child() -> None:
    one = secret(b"x" * 5000)
    found = Path("/proc/self/smaps").read_text()
    regions = [part for part in found.split("VmFlags:")[:-1] if "hostler-secret" in part.rpartition("THPeligible")[0]]
    assert regions, "this one, and those that another test has not closed"
    for region in regions:
        flags = found[found.index(region) + len(region) :].splitlines()[0].split()[1:]
        assert {"lo", "dd", "dc"} <= set(flags)  # locked, not dumped, not copied on fork
    one.close()


def test_no_text_of_it_shows_a_byte() -> None:
    one = secret()
    texts = (repr(one), str(one), f"{one}", f"{one:>40}", "%s" % one, "%r" % [one], repr({"a": one}), repr(vars))  # noqa: UP031
    assert not any(WORD.decode() in text or "correct" in text for text in texts)
    assert str(one) == SCRUBBED
    one.close()


def test_it_cannot_be_copied_pickled_encoded_measured_or_read_as_bytes() -> None:
    one = secret()
    attempts = (
        lambda: pickle.dumps(one),
        lambda: copy.copy(one),
        lambda: copy.deepcopy([one]),
        lambda: json.dumps(one),
        lambda: msgspec.json.encode(one),
        lambda: len(one),  # type: ignore[arg-type]
        lambda: bytes(one),  # type: ignore[call-overload]
        lambda: memoryview(one),  # type: ignore[arg-type]
        lambda: list(one),  # type: ignore[call-overload]
        lambda: vars(one),
    )
    for attempt in attempts:
        with pytest.raises(TypeError):
            attempt()
    other = secret()
    assert one != other
    assert bool(one) is True
    one.close()
    assert bool(one) is True
    other.close()


def test_an_error_about_it_shows_no_byte() -> None:
    one = secret()
    err = ValueError("refused", one)
    assert "correct" not in repr(err) + str(err)
    one.close()


@pytest.mark.parametrize(
    "text", ["correct horse battery", "a correct horse battery.", "ab" + "correct horse battery" * 3]
)
def test_CR_09_a_log_line_that_holds_it_is_scrubbed(text: str) -> None:
    one = secret()
    assert "correct" not in one.scrub(text)
    assert one.scrub("nothing to hide") == "nothing to hide"
    one.close()
    assert one.scrub(text) == text


def test_CR_09_each_line_of_a_secret_is_scrubbed_by_itself() -> None:
    one = secret(b"-----BEGIN-----\nMIGHAgEAMBMG\nabc\n")
    assert one.scrub("line: MIGHAgEAMBMG") == f"line: {SCRUBBED}"
    assert one.scrub("abc") == "abc"  # too short: it would turn up everywhere
    one.close()


def test_memory_that_cannot_be_locked_is_refused() -> None:
    code = (
        "import resource, os\n"
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))\n"
        "from hostler.agent.secrets.secret import Secret\n"
        "from hostler.base.errors import HostlerError\n"
        "os.geteuid() == 0 and os.setresuid(65534, 65534, 65534)\n"
        "try: Secret.take(bytearray(b'x' * 100))\n"
        "except HostlerError as err: print(err.code)\n"
    )
    done = child_of_a_test(code)
    assert done.stdout == "secret_memory\n", done.stderr
