"""Who commands run as: EX-07."""

import os
import pwd

import pytest

from conftest import need_root
from hostler.agent.host import users
from hostler.agent.host.host import Host
from hostler.agent.host.users import Users, owner_ids
from hostler.base.errors import HostlerError
from support.commands import ME, run

STATUS = ("/usr/bin/grep", "-E", "^(Uid|Gid|Groups|CapPrm|CapEff|CapAmb)", "/proc/self/status")


async def test_EX_07_the_named_user_is_taken_on_whole_and_for_good(host: Host) -> None:
    need_root()
    nobody = pwd.getpwnam("nobody")
    done = await run(host, *STATUS, run_as="nobody")
    facts = {line.split(":")[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert facts["Uid"] == [str(nobody.pw_uid)] * 4  # real, effective, saved, file system
    assert facts["Gid"] == [str(nobody.pw_gid)] * 4
    assert facts["Groups"] == [str(g) for g in os.getgrouplist("nobody", nobody.pw_gid)]
    assert {int(facts[name][0], 16) for name in ("CapPrm", "CapEff", "CapAmb")} == {0}


async def test_EX_07_the_same_helper_is_root_again_afterwards(host: Host) -> None:
    need_root()
    await run(host, "/usr/bin/true", run_as="nobody")
    assert (await run(host, "/usr/bin/id", "-u", run_as="root")).stdout == "0\n"


async def test_EX_07_without_a_name_root_starts_nothing_as_root(host: Host) -> None:
    need_root()
    assert (await run(host, "/usr/bin/id", "-u", run_as="")).stdout != "0\n"


async def test_the_captured_streams_belong_to_the_user(host: Host) -> None:
    need_root()
    done = await run(host, "/usr/bin/tee", "/dev/stderr", run_as="nobody")
    assert done.status == 0


async def test_a_user_may_not_start_what_is_not_his(host: Host, tmp_path: object) -> None:
    need_root()
    with pytest.raises(HostlerError) as refused:
        await run(host, "/root/absent", run_as="nobody")
    assert refused.value.code == "command_not_found"


async def test_an_unknown_user_is_incompatible_and_nothing_runs(host: Host) -> None:
    with pytest.raises(HostlerError) as refused:
        await run(host, "/usr/bin/true", run_as="no-such-user")
    assert refused.value.code == "incompatible"


async def test_an_agent_that_is_not_root_switches_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users.os, "geteuid", lambda: pwd.getpwnam("nobody").pw_uid)
    assert await Users().to_run_as("") is None
    assert await Users().to_run_as("nobody") is None
    with pytest.raises(HostlerError) as refused:
        await Users().to_run_as("root")
    assert refused.value.code == "local_policy_denied"


def test_owners_are_found_by_name_and_default_to_the_agent() -> None:
    assert owner_ids("", "") == (os.geteuid(), os.getegid())
    assert owner_ids(ME, "") == (os.geteuid(), os.getegid())
    for owner, group in (("no-such", ""), ("", "no-such")):
        with pytest.raises(HostlerError) as refused:
            owner_ids(owner, group)
        assert refused.value.code == "incompatible"
