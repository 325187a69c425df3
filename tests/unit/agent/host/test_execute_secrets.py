"""A child gets a secret by descriptor, or as the value of a variable; nobody else does: CR-04, CR-09."""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from conftest import need_root
from hostler.agent.host.host import Host
from hostler.agent.secrets.secret import Secret
from hostler.base.errors import HostlerError
from support.commands import python, run
from support.mutant import child_of_a_test

WORDS = (b"first secret", b"second secret")
SHOW = """
import json, os, sys
read = [open(name).read() for name in sys.argv[1:]]
print(json.dumps({"read": read, "env": dict(os.environ), "fds": sorted(int(n) for n in os.listdir("/proc/self/fd"))}))
"""


@pytest.fixture
def fds() -> Iterator[list[int]]:
    secrets = [Secret.take(bytearray(word)) for word in WORDS]
    made = [secret.descriptor() for secret in secrets]
    yield made
    for fd in made:
        os.close(fd)
    for secret in secrets:
        secret.close()


async def test_CR_04_a_child_reads_its_secrets_from_three_upwards(host: Host, fds: list[int]) -> None:
    done = await run(host, *python(SHOW, "/proc/self/fd/3", "/dev/fd/4"), secret_fds=tuple(fds))
    found = json.loads(done.stdout)
    assert found["read"] == [word.decode() for word in WORDS]
    assert found["fds"][:5] == [0, 1, 2, 3, 4]
    assert len(found["fds"]) == 6  # and the one that lists them
    assert "secret" not in str(found["env"])


async def test_CR_04_the_order_is_kept_whatever_the_numbers_were(host: Host, fds: list[int]) -> None:
    for capture in (True, False):
        out = host.spool.parent / "out"
        code = "import sys; open(sys.argv[1], 'w').write(''.join(open(f'/dev/fd/{n}').read() for n in (4, 3)))"
        given = {"capture_stdout": capture, "capture_stderr": False, "secret_fds": (fds[1], fds[0])}
        await run(host, *python(code, str(out)), **given)
        assert out.read_text() == "first secretsecond secret"


async def test_CR_04_a_pinned_executable_is_not_confused_with_a_secret(host: Host, fds: list[int]) -> None:
    digest = sha256(Path("/usr/bin/cat").read_bytes()).hexdigest()
    done = await run(host, "/usr/bin/cat", "/proc/self/fd/3", "/proc/self/fd/4", sha256=digest, secret_fds=tuple(fds))
    assert done.stdout == "first secretsecond secret"


async def test_CR_04_the_next_command_of_the_same_helper_gets_none(host: Host, fds: list[int]) -> None:
    await run(host, "/usr/bin/true", secret_fds=tuple(fds))
    done = await run(host, *python(SHOW))
    assert json.loads(done.stdout)["fds"] == [0, 1, 2, 3]
    (helper,) = host.execute._pool._all
    assert not [fd for fd in Path(f"/proc/{helper.pid}/fd").iterdir() if _is_secret(fd)]


async def test_CR_04_another_user_s_command_may_read_its_secret(host: Host, fds: list[int]) -> None:
    need_root()
    done = await run(host, "/usr/bin/cat", "/proc/self/fd/3", run_as="nobody", secret_fds=tuple(fds[:1]))
    assert (done.status, done.stdout) == (0, "first secret")


async def test_CR_04_a_variable_is_filled_by_the_helper_and_that_helper_ends(host: Host, fds: list[int]) -> None:
    done = await run(host, *python(SHOW), env={"PLAIN": "x"}, secret_env={"TOKEN": fds[0]})
    found = json.loads(done.stdout)
    assert {"PLAIN": "x", "TOKEN": "first secret"}.items() <= found["env"].items()
    assert 4 not in found["fds"]
    assert not host.execute._pool._all


async def test_CR_09_the_record_of_a_run_holds_no_secret(host: Host, fds: list[int]) -> None:
    given = {"record": ("tsk_1", 0), "note": "digest", "secret_fds": (fds[0],), "secret_env": {"TOKEN": fds[1]}}
    await run(host, *python(SHOW, "/proc/self/fd/3"), **given)
    (record,) = host.spool.glob("*.run")
    assert b"secret" not in record.read_bytes()


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
async def test_a_variable_without_a_proper_name_is_refused(host: Host, fds: list[int], name: str) -> None:
    with pytest.raises(HostlerError) as caught:
        await run(host, "/usr/bin/true", secret_env={name: fds[0]})
    assert caught.value.code == "invalid_request"


async def test_more_secrets_than_a_message_carries_are_refused(host: Host, fds: list[int]) -> None:
    assert (await run(host, "/usr/bin/true", secret_fds=tuple(fds * 4))).status == 0
    with pytest.raises(HostlerError) as caught:
        await run(host, "/usr/bin/true", secret_fds=tuple(fds * 5))
    assert caught.value.code == "too_large"


SPAWN = """
import os, sys
from hostler.agent.host import reaper
from hostler.agent.host.confine import UNDECLARED, Confined
order = {"argv": ["/usr/bin/cat", "/proc/self/fd/3", "/proc/self/fd/4"], "env": {}, "cwd": "/", "user": None,
         "sha256": sys.argv[1], "capture": (False, False), "secret_fds": 2, "secret_env": ()}
for word, place in (("one ", 21), ("two ", 20)):
    fd = os.memfd_create(word)
    os.write(fd, word.encode())
    os.dup2(fd, place, inheritable=False)
    os.close(fd)
places = [int(word) for word in sys.argv[2:]]
for there, here in zip((21, 20), places):
    if there != here:
        os.dup2(there, here, inheritable=False)
        os.close(there)
confined = Confined(None, UNDECLARED)
before = set(os.listdir("/proc/self/fd"))
os.waitpid(reaper.spawn(confined, order, places), 0)
assert set(os.listdir("/proc/self/fd")) == before
"""


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("places", [("4", "3"), ("21", "20"), ("3", "4"), ("5", "3")])
def test_CR_04_wherever_the_descriptors_stand_the_child_gets_each_in_its_place(
    places: tuple[str, str], pinned: bool
) -> None:
    digest = sha256(Path("/usr/bin/cat").read_bytes()).hexdigest() if pinned else ""
    done = child_of_a_test(SPAWN, digest, *places)
    assert (done.stdout, done.returncode) == ("one two ", 0), done.stderr


def _is_secret(fd: Path) -> bool:
    return "hostler-secret" in str(fd.readlink())
