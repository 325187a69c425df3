"""SK-13, SK-14: what a join writes for Slurm, and what the controller's words mean."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.clusters.contract import Site
from hostler.agent.clusters.slurm import ADAPTER, judge, slurm_conf
from hostler.agent.host.host import Host
from hostler.agent.steps import cluster_join, cluster_site
from hostler.agent.steps.contract import Truth
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.credentials import RayJoin, SlurmJoin
from hostler.catalog.params.cluster import Slurm
from support.joining import joining

OWNER = pwd.getpwuid(os.geteuid()).pw_name
FILES = {"config": "/etc/slurm/slurm.conf", "key": "/etc/munge/munge.key"}
KEY = SlurmJoin(key=b"k" * 128, controllers=())
DESCRIBED: dict[str, Any] = {
    "backend": "slurm",
    "cluster_name": "blue",
    "controllers": ["ctl1(10.0.0.1)", "ctl2"],
    "key_owner": OWNER,
    "node": {"CPUs": "4", "RealMemory": "1000"},
    "partitions": {"main": {"Nodes": "ALL", "Default": "YES"}},
    "settings": {"SlurmctldPort": "6817"},
}


def params(**more: Any) -> dict[str, Any]:
    return {"cluster": DESCRIBED | more.pop("cluster", {}), "node": "n1", "files": FILES, **more}


def answering(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """The controller's answer, without a controller; the real one is in tests/real."""

    def asking(context: Any) -> Site:
        async def ask() -> str:
            return text

        plain = cluster_site.site_of(context)
        return Site(plain.host, plain.cluster, plain.node, plain.files, ask)

    monkeypatch.setattr(cluster_join, "asking_site", asking)


def test_the_file_says_who_the_controllers_are_and_what_the_node_is() -> None:
    assert slurm_conf(convert(DESCRIBED, Slurm), "n1").splitlines() == [
        "ClusterName=blue",
        "SlurmctldHost=ctl1(10.0.0.1)",
        "SlurmctldHost=ctl2",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        "SlurmctldPort=6817",
        "NodeName=n1 CPUs=4 RealMemory=1000",
        "PartitionName=main Nodes=ALL Default=YES",
    ]
    assert "AuthType=auth/slurm" in slurm_conf(convert(DESCRIBED | {"auth": "slurm"}, Slurm), "n1")


@pytest.mark.parametrize(
    ("state", "joined", "ready", "condition"),
    [
        ("IDLE", True, True, "state idle"),
        ("IDLE+DYNAMIC_NORM", True, True, "state idle+dynamic_norm"),
        ("MIXED", True, True, "state mixed"),
        ("ALLOCATED", True, True, "state allocated"),
        ("ALLOCATED+COMPLETING", True, True, "state allocated+completing"),
        ("IDLE+DRAIN", True, False, "state idle+drain"),
        ("MIXED+DRAIN", True, False, "state mixed+drain"),
        ("IDLE*", False, False, "state idle*"),
        ("DOWN*", False, False, "state down*"),
        ("DOWN", False, False, "state down"),
        ("DOWN*+DRAIN", False, False, "state down*+drain"),
        ("UNKNOWN*", False, False, "state unknown*"),
        ("IDLE+MAINTENANCE", True, False, "state idle+maintenance"),
        ("IDLE+NOT_RESPONDING", True, False, "state idle+not_responding"),
        ("ERROR", True, False, "state error"),
    ],
)
def test_SK_14_every_state_of_a_node_means_one_thing(state: str, joined: bool, ready: bool, condition: str) -> None:
    output = f"NodeName=n1 Arch=x86_64 CoresPerSocket=1 State={state} ThreadsPerCore=1 Owner=N/A MCS_label=N/A\n"
    assert judge(output, "n1") == (joined, ready, condition)


def test_SK_14_the_reason_comes_along_in_one_line() -> None:
    output = (
        "NodeName=n1 CPUTot=2 State=IDLE+DRAIN ThreadsPerCore=1 Reason=disk is \x1b[31modd [root@2026-11-22T03:00:00]\n"
    )
    assert judge(output, "n1").condition == "state idle+drain, reason disk is  [31modd [root@2026-11-22T03:00:00]"


@pytest.mark.parametrize("output", ["", "Node n1 not found\n", "NodeName=n2 State=IDLE\n", "NodeName=n1\n"])
def test_SK_14_an_answer_about_no_such_node_is_not_ready(output: str) -> None:
    assert judge(output, "n1") == (False, False, "the controller shows no node n1")


async def test_SK_13_a_join_writes_the_key_for_its_owner_alone_and_repairs_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "NodeName=n1 State=IDLE \n")
    host = Host(root=tmp_path)
    joined = await cluster_join.KIND.apply(joining(host, params(), KEY))
    key = tmp_path / FILES["key"][1:]
    assert key.read_bytes() == KEY.key
    assert key.stat().st_mode & 0o777 == 0o400
    assert (joined.files_after[0].sha256, joined.files_after[0].size_bytes) == ("", 0)
    assert joined.files_after[1].sha256 != ""
    assert not (await cluster_join.KIND.apply(joining(host, params(), KEY))).changed
    assert not (await cluster_join.KIND.apply(joining(host, params()))).changed  # the key is there
    key.chmod(0o444)
    assert (await cluster_join.KIND.probe(joining(host, params()))).truth is Truth.NOT_DONE
    repaired = await cluster_join.KIND.apply(joining(host, params(), KEY))
    assert [state.path for state in repaired.files_after] == [FILES["key"]]
    assert key.stat().st_mode & 0o777 == 0o400
    key.chmod(0o444)
    with pytest.raises(HostlerError) as caught:
        await cluster_join.KIND.apply(joining(host, params()))
    assert caught.value.code == "binding_error"


async def test_SK_13_another_cluster_is_left_alone_unless_replace_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "NodeName=n1 State=IDLE \n")
    host = Host(root=tmp_path)
    await cluster_join.KIND.apply(joining(host, params(cluster={"cluster_name": "red"}), KEY))
    with pytest.raises(HostlerError) as caught:
        await cluster_join.KIND.apply(joining(host, params(), KEY))
    assert (caught.value.code, "slurm cluster red" in caught.value.message) == ("joined_elsewhere", True)
    await cluster_join.KIND.apply(joining(host, params(replace=True), KEY))
    assert ADAPTER.elsewhere(Site(host, convert(DESCRIBED, Slurm), "n1", FILES)) == ""


async def test_SK_13_a_node_that_never_shows_up_ends_with_the_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "NodeName=n1 State=DOWN* Reason=Not responding\n")
    with pytest.raises(HostlerError) as caught:
        await cluster_join.KIND.apply(joining(Host(root=tmp_path), params(), KEY, deadline_s=0.2))
    assert caught.value.code == "timeout"
    assert caught.value.message.endswith("state down*, reason Not responding")


async def test_CR_03_a_credential_of_another_backend_is_refused(tmp_path: Path) -> None:
    wrong = RayJoin(address="a:1", token="canary-token")
    with pytest.raises(HostlerError) as caught:
        await cluster_join.KIND.apply(joining(Host(root=tmp_path), params(), wrong))
    assert caught.value.code == "credential_mismatch"
    assert "canary" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
