"""PF-09, PF-10, PF-11, SK-25, OD-17, AL-06: the reclaim kinds over a host in a directory, signals replaced."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.agent.host import eviction
from hostler.agent.host.holdings import Granted, Grants
from hostler.agent.host.host import Host
from hostler.agent.journal.rows import PastStep
from hostler.agent.steps.contract import Truth
from hostler.agent.steps.table import step_kind
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.kinds import KINDS
from support.reclaim import baseline_past, past_step, run
from support.steps import Told, context_of
from support.tenancy import KEY, PASSWD, machine_root, plant

DEPROVISION, REVOKE = "allocation.runtime.deprovision", "allocation.identity.revoke"
ALLOCATION = {"allocation_id": "al-1"}
LINE = "tenant:x:20000:20000::/home/tenant:/bin/bash\n"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    told: list[int] = []
    monkeypatch.setattr(eviction, "send", lambda fd, number: told.append(number))
    return told


@pytest.fixture
def host(tmp_path: Path, sent: list[int]) -> Host:
    """A host with a tenant on it."""
    root = machine_root(tmp_path / "root")
    plant(root, {"/home/tenant/.ssh/authorized_keys": KEY, "/home/tenant/.token": "x"})
    (root / "etc/passwd").write_text(PASSWD + LINE)
    made = Host(root=root, spool=tmp_path / "spool", allocations=tmp_path / "kept", write_prefixes=("/srv",))
    granted = Granted(name="tenant", uid=20_000, home="/home/tenant")
    made.holdings.keep_grants("al-1", Grants(users=(granted,), storage=("/srv/scratch",)))
    return made


async def probe(host: Host, kind: str, params: dict[str, Any], past: tuple[PastStep, ...] = ()) -> Truth:
    context = context_of(convert(params, KINDS[kind].params), host, Told(), past=past)
    return (await step_kind(kind).probe(context)).truth


def process(host: Host, pid: int, uid: int) -> None:
    uids = "\t".join([str(uid)] * 4)
    plant(host.root, {f"/proc/{pid}/status": f"Name:\tp\nState:\tD (x)\nUid:\t{uids}\n"})


async def test_OD_17_the_fence_shuts_the_door_even_when_something_hangs(host: Host, sent: list[int]) -> None:
    process(host, 60, 20_000)
    assert await probe(host, "access.fence", ALLOCATION) is Truth.NOT_DONE
    done = await run(host, "access.fence", ALLOCATION | {"within_seconds": 0.2})
    assert done["error"] == ""
    assert done["outputs"]["stuck"] == ["'p' (process 60 of user id 20000, state D)"]
    assert sent
    assert "/home/tenant:/usr/sbin/nologin" in (host.root / "etc/passwd").read_text()
    assert not (host.root / "home/tenant/.ssh").exists()
    assert (host.root / "home/tenant/.ssh.fenced/authorized_keys").exists()
    (host.root / "proc/60/status").unlink()
    assert await probe(host, "access.fence", ALLOCATION) is Truth.DONE


async def test_a_tenant_who_became_root_is_locked_out_and_reported(host: Host, sent: list[int]) -> None:
    """With sudo one can write another id into passwd; the name is still ours to lock."""
    (host.root / "etc/passwd").write_text(PASSWD + LINE.replace(":20000:20000:", ":0:0:"))
    process(host, 1, 0)
    done = await run(host, "access.fence", ALLOCATION | {"within_seconds": 0.1})
    assert done["error"] == "user_protected"
    assert "/home/tenant:/usr/sbin/nologin" in (host.root / "etc/passwd").read_text()
    assert sent == []


@pytest.mark.parametrize("kind", ["access.fence", "workload.stop", "storage.release", "identity.revoke"])
async def test_no_input_reaches_a_user_of_the_system(host: Host, sent: list[int], kind: str) -> None:
    process(host, 60, 0)
    before = (host.root / "etc/passwd").read_text()
    done = await run(host, kind, ALLOCATION | {"users": ["root"]})
    assert done["error"] == "user_protected"
    assert (sent, (host.root / "etc/passwd").read_text()) == ([], before)
    assert (host.root / "home/tenant/.token").exists()


async def test_PF_09_a_process_that_stays_fails_the_stop_by_name(host: Host) -> None:
    process(host, 60, 20_000)
    done = await run(host, "workload.stop", ALLOCATION | {"within_seconds": 0.1})
    assert done["error"] == "process_stuck"
    assert "process 60 of user id 20000" in done["message"]


@pytest.mark.parametrize("unit", ["ssh.service", "hostler-agent.service", "dbus.socket", "systemd-logind.service"])
async def test_units_of_the_node_itself_are_not_stopped(host: Host, unit: str) -> None:
    done = await run(host, "workload.stop", ALLOCATION | {"units": [unit]})
    assert done["error"] == "user_protected"


async def test_PF_09_storage_and_credentials_go_and_nothing_of_others(host: Host) -> None:
    plant(host.root, {"/srv/scratch/model": "x", "/srv/other": "x", "/tmp/theirs": "x"})
    outside = host.root / "outside"
    plant(host.root, {"/outside/kept": "x"})
    for link in ("home/tenant/link", "srv/scratch/link"):
        (host.root / link).symlink_to(outside)
    assert await probe(host, "storage.release", ALLOCATION) is Truth.NOT_DONE
    done = await run(host, "storage.release", ALLOCATION)
    assert done["error"] == "", done
    assert not (host.root / "home/tenant").exists()
    assert not (host.root / "srv/scratch").exists()
    assert (host.root / "srv/other").exists()
    assert (outside / "kept").exists()
    assert await probe(host, "storage.release", ALLOCATION) is Truth.DONE


async def test_PF_09_a_mount_of_another_machine_is_not_hidden_by_a_lazy_unmount(host: Host) -> None:
    plant(host.root, {"/srv/scratch/x": "x"})
    table = host.root / "proc/1/mountinfo"
    table.write_text(table.read_text() + "40 22 0:50 / /srv/scratch/deep rw - tmpfs tmpfs rw\n")
    done = await run(host, "storage.release", ALLOCATION)
    assert done["error"] == "incompatible"
    assert (host.root / "srv/scratch/x").exists()


async def test_PF_10_the_user_is_gone_with_all_it_had(host: Host) -> None:
    plant(
        host.root,
        {
            "/etc/sudoers.d/hostler-tenant": "x",
            "/var/lib/systemd/linger/tenant": "",
            "/var/spool/cron/crontabs/tenant": "* * * * * x",
            "/var/mail/tenant": "x",
            "/etc/sudoers.d/other": "x",
            "/var/log/journal/abc/user-20000.journal": "x",
            "/var/log/journal/abc/user-20000@01.journal": "x",
            "/var/log/journal/abc/user-200000.journal": "x",
        },
    )
    past = (past_step("storage.release", type_=DEPROVISION),)
    done = await run(host, "identity.revoke", ALLOCATION | {"after": [DEPROVISION]}, past)
    assert done["error"] == "", done
    assert (host.root / "etc/passwd").read_text() == PASSWD
    left = [str(p.relative_to(host.root)) for p in host.root.rglob("*tenant*")]
    assert left == []
    assert (host.root / "etc/sudoers.d/other").exists()
    assert [p.name for p in (host.root / "var/log/journal/abc").iterdir()] == ["user-200000.journal"]
    assert await probe(host, "identity.revoke", ALLOCATION) is Truth.DONE


async def test_PF_10_a_process_that_hangs_keeps_the_account_locked_and_the_link_failed(host: Host) -> None:
    process(host, 60, 20_000)
    context = context_of(convert(ALLOCATION, KINDS["identity.revoke"].params), host, Told(), deadline_s=0.3)
    with pytest.raises(HostlerError) as caught:
        await step_kind("identity.revoke").apply(context)
    assert caught.value.code == "process_stuck"
    assert "tenant:x:20000:20000::/home/tenant:/usr/sbin/nologin" in (host.root / "etc/passwd").read_text()


@pytest.mark.parametrize(
    ("past", "said"),
    [
        ((), "has not run"),
        ((past_step("storage.release", type_=DEPROVISION, task_state="failed", state="failed"),), "failed"),
        ((past_step("access.fence", type_=DEPROVISION, task_state=""),), "has not run"),
        ((past_step("x", 1, DEPROVISION), past_step("x", 2, DEPROVISION, task_state="failed")), "failed"),
    ],
    ids=["never", "failed", "still under way", "failed when it was run again"],
)
@pytest.mark.parametrize("kind", ["identity.revoke", "residue.check", "device.sanitize", "handover.certify"])
async def test_AL_06_a_link_is_refused_without_the_one_before_it(
    host: Host, kind: str, past: tuple[PastStep, ...], said: str
) -> None:
    done = await run(host, kind, ALLOCATION | {"after": [DEPROVISION]}, past)
    assert done["error"] == "link_missing"
    assert said in done["message"]
    assert LINE in (host.root / "etc/passwd").read_text()


async def test_AL_06_links_in_another_order_do_not_count(host: Host) -> None:
    past = (past_step("identity.revoke", 1, REVOKE), past_step("storage.release", 2, DEPROVISION))
    done = await run(host, "handover.certify", ALLOCATION, past)
    assert (done["error"], "belongs before it" in done["message"]) == ("link_missing", True)


async def test_AL_06_no_certificate_over_a_failed_step_or_without_a_check(host: Host) -> None:
    links = (past_step("storage.release", 1, DEPROVISION), past_step("identity.revoke", 2, REVOKE))
    none = await run(host, "handover.certify", ALLOCATION, links)
    assert "nothing has checked for residue" in none["message"]
    mine = {"type_": "node.reclaim.verify", "task_id": "tsk_1", "task_state": ""}
    checked = past_step("residue.check", 4, outputs_json=b'{"baseline_digest":"b"}', **mine)
    disks = past_step("device.sanitize", 3, state="failed", **mine)
    bad = await run(host, "handover.certify", ALLOCATION, (*links, disks, checked))
    assert "device.sanitize" in bad["message"]
    mended = past_step("device.sanitize", 5, outputs_json=b'{"erased":[{"path":"/dev/sdx"}]}', **mine)
    good = await run(host, "handover.certify", ALLOCATION, (*links, disks, checked, mended))
    assert good["error"] == "", good
    said = msgspec.json.decode(good["outputs"]["certificate"])
    assert (said["devices"], said["baseline_digest"], len(said["receipts"])) == ([{"path": "/dev/sdx"}], "b", 4)


@pytest.mark.parametrize("kind", [k for k in KINDS if "allocation_id" in KINDS[k].params.__struct_fields__])
async def test_a_task_of_another_allocation_is_refused_by_every_kind(host: Host, kind: str) -> None:
    fill: dict[str, Any] = {"identity.grant": {"users": [{"name": "x"}]}}
    fill["storage.grant"] = {"path": "/srv/a", "owner": "b"}
    params = convert(ALLOCATION | fill.get(kind, {}), KINDS[kind].params)
    before = sorted(host.root.rglob("*"))
    with pytest.raises(HostlerError) as caught:
        await step_kind(kind).apply(context_of(params, host, Told(), allocation_id="al-2"))
    assert caught.value.code == "wrong_allocation"
    assert sorted(host.root.rglob("*")) == before


async def checked(host: Host, baseline: dict[str, Any], **more: Any) -> dict[str, Any]:
    return await run(host, "residue.check", ALLOCATION | more, baseline_past(baseline["outputs"]))


async def test_PF_11_a_difference_fails_the_check_by_name_and_none_passes(host: Host) -> None:
    baseline = await run(host, "baseline.take", ALLOCATION)
    assert baseline["error"] == "", baseline
    clean = await checked(host, baseline)
    assert clean["error"] == "", clean
    assert not list((host.root / "tmp").iterdir())  # the canary is gone
    plant(host.root, {"/etc/cron.d/evil\x1b[2J": "x"})
    found = await checked(host, baseline)
    assert found["error"] == "residue_found"
    assert "cron_job /etc/cron.d/evil\\x1b[2J" in found["message"]
    assert "\x1b" not in "".join(found["lines"])
    kept = msgspec.json.decode(host.holdings.read("al-1", "findings.json") or b"")
    assert [each["kind"] for each in kept] == ["cron_job"]


async def test_PF_11_a_baseline_that_the_journal_does_not_vouch_for_is_none(host: Host) -> None:
    baseline = await run(host, "baseline.take", ALLOCATION)
    none = await run(host, "residue.check", ALLOCATION)
    assert none["error"] == "baseline_unusable"
    path = host.allocations / "al-1/baseline.json"
    path.write_bytes(path.read_bytes().replace(b"/etc/hostname", b"/etc/hostnam3"))
    changed = await checked(host, baseline)
    assert (changed["error"], "not the one" in changed["message"]) == ("baseline_unusable", True)
    path.unlink()
    gone = await checked(host, baseline)
    assert (gone["error"], "is gone" in gone["message"]) == ("baseline_unusable", True)


async def test_R2_a_host_that_cannot_be_seen_whole_is_not_clean(host: Host) -> None:
    baseline = await run(host, "baseline.take", ALLOCATION)
    found = await checked(host, baseline, max_entries=50)
    assert found["error"] == "residue_incomplete"
    assert "more entries than may be looked at" in found["message"]
    short = await run(host, "baseline.take", ALLOCATION | {"max_entries": 50})
    assert short["error"] == "residue_incomplete"
    (host.root / "proc/1/mountinfo").unlink()
    blind = await checked(host, baseline)
    assert (blind["error"], "storage is" in blind["message"]) == ("residue_incomplete", True)


async def test_R2_a_canary_that_is_not_found_is_no_clean_bill(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    from hostler.agent.steps import residue_check

    baseline = await run(host, "baseline.take", ALLOCATION)
    monkeypatch.setattr(residue_check, "_plant", lambda context: "/tmp/.hostler-canary-never-written")
    found = await checked(host, baseline)
    assert (found["error"], "planted" in found["message"]) == ("residue_incomplete", True)


async def test_a_user_that_somebody_else_made_is_not_taken_over(host: Host) -> None:
    (host.root / "etc/passwd").write_text(PASSWD + LINE + "theirs:x:1500:1500::/home/theirs:/bin/sh\n")
    for name in ("theirs", "root", "nobody"):
        done = await run(host, "identity.grant", ALLOCATION | {"users": [{"name": name}]})
        assert done["error"] == "user_exists"


async def test_storage_that_is_there_or_outside_the_prefixes_is_refused(host: Host) -> None:
    plant(host.root, {"/srv/present/x": "x"})
    taken = await run(host, "storage.grant", ALLOCATION | {"path": "/srv/present", "owner": "tenant"})
    assert taken["error"] == "path_taken"
    outside = await run(host, "storage.grant", ALLOCATION | {"path": "/etc/present", "owner": "tenant"})
    assert outside["error"] == "path_denied"
    owner = await run(host, "storage.grant", ALLOCATION | {"path": "/srv/new", "owner": "root"})
    assert owner["error"] == "user_protected"
    assert "/srv/present" not in host.holdings.grants("al-1").storage


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("identity.grant", {"users": [{"name": "../x"}]}),
        ("identity.grant", {"users": [{"name": "a\n"}]}),
        ("identity.grant", {"users": [{"name": "x", "keys": ['command="sh" ssh-ed25519 AAAA']}]}),
        ("identity.grant", {"users": [{"name": "x", "keys": [f"{KEY}\nssh-rsa {'A' * 60}"]}]}),
        ("access.fence", {"allocation_id": "../../etc"}),
        ("access.fence", {"within_seconds": 60}),
        ("device.sanitize", {"devices": [{"path": "/dev/../etc/passwd"}]}),
        ("device.sanitize", {"method": "maybe"}),
        ("workload.stop", {"units": ["../x.service"]}),
        ("residue.check", {"after": ["model.artifact.stage"]}),
        ("residue.check", {"surprise": 1}),
    ],
)
def test_SK_25_parameters_are_typed_and_strict(kind: str, params: dict[str, Any]) -> None:
    with pytest.raises(HostlerError):
        convert(ALLOCATION | params, KINDS[kind].params)


@pytest.mark.parametrize(
    "kind", ["access.fence", "workload.stop", "storage.release", "identity.revoke", "residue.check"]
)
async def test_plans_touch_nothing(host: Host, sent: list[int], kind: str) -> None:
    baseline = await run(host, "baseline.take", ALLOCATION)
    process(host, 60, 20_000)
    before = {p: p.stat().st_mtime_ns for p in host.root.rglob("*")}
    context = context_of(convert(ALLOCATION, KINDS[kind].params), host, Told(), past=baseline_past(baseline["outputs"]))
    plan = await step_kind(kind).plan(context)
    assert plan.changes
    assert ({p: p.stat().st_mtime_ns for p in host.root.rglob("*")}, sent) == (before, [])
