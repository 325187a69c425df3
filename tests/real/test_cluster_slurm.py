"""SK-13, SK-14, PF-02, CR-06: a real slurmd, under a real systemd, joins a real slurmctld by the step."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import need, need_root
from hostler.agent.host.host import Host
from hostler.agent.secrets.table import CONSUMED, SecretTable
from hostler.agent.steps import cluster_join, cluster_verify
from hostler.agent.steps.contract import Truth
from hostler.base.clock import Deadline, SystemClock
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.credentials import SlurmJoin
from support.joining import joining, open_folder, verifying
from support.machines import Machine, machine_of_this
from support.slurm import CLUSTER, Controller, controller

pytestmark = [pytest.mark.real, pytest.mark.timeout(180), pytest.mark.xdist_group("machines")]

NODE = "hostler-slurm"
FILES = {"config": "/etc/slurm/slurm.conf", "key": "/etc/munge/munge.key"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Controller]:
    need("systemd-nspawn", "nsenter", "munged", "slurmctld", "slurmd", "scontrol")
    need_root()
    with open_folder() as folder, controller(folder, NODE) as made:
        yield made


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory, cluster: Controller) -> Iterator[Machine]:
    with machine_of_this(tmp_path_factory.mktemp("slurm"), NODE, {}) as found:
        yield found


def params(cluster: Controller, **more: Any) -> dict[str, Any]:
    described = {
        "backend": "slurm",
        "cluster_name": CLUSTER,
        "controllers": ["localhost(127.0.0.1)"],
        "node": cluster.attributes,
        "settings": cluster.settings,
        "partitions": {"main": {"Nodes": "ALL"}},
    }
    return {"cluster": described, "node": NODE, "files": FILES, "profile": "slurm_show_node", **more}


def command(cluster: Controller) -> CommandProfile:
    """The shipped profile, pointed at the controller's own file, because commands run beside the machine here."""
    return CommandProfile(
        id="slurm_show_node",
        command="/usr/bin/scontrol",
        base_args=("--oneliner", "show", "node"),
        args=("${node}",),
        arg_schema={"node": {"type": "string"}},
        env={"SLURM_CONF": str(cluster.conf)},
        timeout_seconds=20,
    )


async def condition(host: Host, cluster: Controller, within_s: float = 0) -> str:
    """What the cluster says of a node that is not ready."""
    with pytest.raises(HostlerError) as caught:
        await cluster_verify.KIND.apply(
            verifying(host, params(cluster, within_seconds=within_s), command=command(cluster))
        )
    assert caught.value.code == "node_not_ready"
    return caught.value.message.partition("is not ready: ")[2]


async def test_PF_02_a_node_joins_is_idle_drained_and_down_as_the_scheduler_says(
    booted: Machine, cluster: Controller, tmp_path: Path
) -> None:
    host = Host(root=booted.root, spool=tmp_path)
    clock = SystemClock()
    table = SecretTable(Deadline.after(300, clock), clock)
    units = {"units": ["munge.service", "slurmd.service"]}
    key = SlurmJoin(key=cluster.key, controllers=())
    try:
        assert (await condition(host, cluster)).startswith(("state unknown", "state down"))
        joined = await cluster_join.KIND.apply(
            joining(host, params(cluster, **units), key, command=command(cluster), table=table, deadline_s=60)
        )
        assert {state.path for state in joined.files_after} == set(FILES.values())
        (ending,) = table.step_ended("step", succeeded=True, last=True)
        assert ending.end == CONSUMED
        stands = (booted.root / FILES["key"][1:]).stat()
        assert stands.st_mode & 0o777 == 0o400
        assert (booted.root / FILES["key"][1:]).read_bytes() == cluster.key
        assert joined.files_after[0].sha256 == ""  # no digest of a key in a receipt
        await cluster_verify.KIND.apply(
            verifying(host, params(cluster, within_seconds=30), command=command(cluster), deadline_s=60)
        )
        probe = await cluster_join.KIND.probe(joining(host, params(cluster, **units)))
        assert probe.truth is Truth.DONE

        pid = booted.run("systemctl", "show", "-P", "MainPID", "slurmd.service").stdout
        again = await cluster_join.KIND.apply(joining(host, params(cluster, **units), key, command=command(cluster)))
        assert not again.changed
        assert booted.run("systemctl", "show", "-P", "MainPID", "slurmd.service").stdout == pid

        cluster.scontrol("update", f"nodename={NODE}", "state=drain", "reason=disk is odd")
        said = await condition(host, cluster)
        assert said.startswith("state idle+drain")
        assert "reason disk is odd" in said
        cluster.scontrol("update", f"nodename={NODE}", "state=resume")
        booted.run("systemctl", "stop", "slurmd.service")
        probe = await cluster_join.KIND.probe(joining(host, params(cluster, **units)))
        assert probe.truth is Truth.NOT_DONE  # the files stand, the daemon does not run
        cluster.scontrol("update", f"nodename={NODE}", "state=down", "reason=gone")
        assert "down" in await condition(host, cluster)
    finally:
        await host.close()


async def test_SK_13_a_wrong_key_is_not_a_member(booted: Machine, cluster: Controller, tmp_path: Path) -> None:
    host = Host(root=booted.root, spool=tmp_path)
    booted.run("systemctl", "stop", "slurmd.service")
    cluster.scontrol("update", f"nodename={NODE}", "state=down", "reason=test")
    wrong = SlurmJoin(key=bytes(reversed(cluster.key)), controllers=())
    given = params(cluster, units=["munge.service", "slurmd.service"])
    try:
        with pytest.raises(HostlerError) as caught:
            await cluster_join.KIND.apply(joining(host, given, wrong, command=command(cluster), deadline_s=4))
        assert caught.value.code in ("timeout", "join_refused")
        assert "down" in await condition(host, cluster)
    finally:
        await host.close()


async def test_SK_13_a_node_of_another_slurm_cluster_is_left_alone(
    booted: Machine, cluster: Controller, tmp_path: Path
) -> None:
    host = Host(root=booted.root, spool=tmp_path)
    described = params(cluster)
    described["cluster"] = described["cluster"] | {"cluster_name": "other"}
    conf = booted.root / FILES["config"][1:]
    before = conf.read_bytes() if conf.exists() else b""
    if not before:
        conf.parent.mkdir(exist_ok=True)
        conf.write_text(f"ClusterName={CLUSTER}\n")
        before = conf.read_bytes()
    with pytest.raises(HostlerError) as caught:
        await asyncio.wait_for(cluster_join.KIND.apply(joining(host, described, command=command(cluster))), 10)
    assert caught.value.code == "joined_elsewhere"
    assert conf.read_bytes() == before
