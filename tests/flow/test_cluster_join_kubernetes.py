"""SK-13, SK-14, PF-01: a node joins Kubernetes by CSR over pinned TLS. The API server here is a stand-in:
no real one can be had from the registries in a test's time."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.agent.clusters import kube_trust
from hostler.agent.host.host import Host
from hostler.agent.steps import cluster_join, cluster_verify
from hostler.agent.steps.contract import Outcome, StepContext, Truth
from hostler.base.errors import HostlerError
from hostler.catalog.credentials import KubernetesJoin
from support.joining import joining, verifying
from support.kube_api import TOKEN, Authority, KubeApi, kube_api
from support.steps import Told

FILES = {
    "ca": "/etc/kubernetes/pki/ca.crt",
    "key": "/var/lib/kubelet/pki/node.key",
    "certificate": "/var/lib/kubelet/pki/node.crt",
    "kubeconfig": "/etc/kubernetes/kubelet.conf",
    "config": "/var/lib/kubelet/config.yaml",
    "flags": "/var/lib/kubelet/kubeadm-flags.env",
}
LABELS = {"pool": "a", "node.kubernetes.io/tier": "gold"}
TAINT = {"key": "new", "value": "1", "effect": "NoSchedule"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubeApi]:
    with kube_api(tmp_path / "api") as made:
        made.node("n1", labels=LABELS, taints=[TAINT])
        yield made


def params(api: KubeApi, **more: Any) -> dict[str, Any]:
    cluster = {"backend": "k8s", "server": api.url, "ca_sha256": [api.ca.pin], "labels": LABELS, "taints": [TAINT]}
    cluster |= more.pop("cluster", {})
    return {"cluster": cluster, "node": "n1", "files": FILES, **more}


def step(root: Path, given: dict[str, Any], credential: KubernetesJoin | None, **more: Any) -> StepContext:
    return joining(Host(root=root), given, credential, **more)


def token(api: KubeApi, **more: Any) -> KubernetesJoin:
    return KubernetesJoin(
        **({"server": api.url, "token": TOKEN, "ca_pem": api.ca.pem.decode(), "ca_sha256": ""} | more)
    )


async def join(root: Path, api: KubeApi, **more: Any) -> Outcome:
    context = step(root, params(api, **more.pop("params", {})), more.pop("credential", token(api)), **more)
    return await cluster_join.KIND.apply(context)


async def failure(root: Path, api: KubeApi, **more: Any) -> HostlerError:
    with pytest.raises(HostlerError) as caught:
        await join(root, api, **more)
    assert TOKEN not in str(caught.value)
    return caught.value


def verify(root: Path, api: KubeApi, **more: Any) -> StepContext:
    given = params(api, **{"within_seconds": 0, "interval_seconds": 0.05, **more})
    return verifying(Host(root=root), given)


async def condition(root: Path, api: KubeApi, **more: Any) -> str:
    with pytest.raises(HostlerError) as caught:
        await cluster_verify.KIND.apply(verify(root, api, **more))
    assert caught.value.code == "node_not_ready"
    return caught.value.message.partition("is not ready: ")[2]


async def test_PF_01_a_node_joins_and_is_ready_with_its_labels_and_taints(tmp_path: Path, api: KubeApi) -> None:
    told = Told()
    outcome = await join(tmp_path, api, told=told)
    assert outcome.changed
    assert outcome.outputs["condition"] == "Ready is True"
    assert [Path(state.path).name for state in outcome.files_after] == [
        "node.key", "node.crt", "ca.crt", "config.yaml", "kubeadm-flags.env", "kubelet.conf",
    ]  # fmt: skip
    assert outcome.files_after[0].sha256 == ""  # nothing about the key but that it is there
    assert (tmp_path / FILES["key"][1:]).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / FILES["kubeconfig"][1:]).stat().st_mode & 0o777 == 0o600
    flags = (tmp_path / FILES["flags"][1:]).read_text()
    assert "--node-labels=node.kubernetes.io/tier=gold,pool=a" in flags
    assert "--register-with-taints=new=1:NoSchedule" in flags
    config = yaml.safe_load((tmp_path / FILES["config"][1:]).read_text())
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["rotateCertificates"] is True
    kubeconfig = yaml.safe_load((tmp_path / FILES["kubeconfig"][1:]).read_text())
    assert kubeconfig["clusters"][0]["cluster"]["server"] == api.url
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert TOKEN.partition(".")[2].encode() not in everything  # no bootstrap kubeconfig is left behind
    assert (await cluster_verify.KIND.apply(verify(tmp_path, api))).outputs["node"] == "n1"


async def test_SK_13_joining_twice_changes_nothing_and_asks_for_nothing(tmp_path: Path, api: KubeApi) -> None:
    await join(tmp_path, api)
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()}
    api.asked.clear()
    again = await join(tmp_path, api)
    assert not again.changed
    assert again.files_after == ()
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in tmp_path.rglob("*") if path.is_file()} == before
    assert [asked for asked in api.asked if asked[0] == "POST"] == []


async def test_SK_13_the_plan_says_what_is_written_and_touches_nothing(tmp_path: Path, api: KubeApi) -> None:
    root = tmp_path / "root"
    root.mkdir()
    given = params(api, units=["kubelet.service"])
    plan = await cluster_join.KIND.plan(step(root, given, None))
    assert [(change.action, change.target) for change in plan.changes] == [
        *(("create", FILES[role]) for role in ("key", "certificate", "ca", "config", "flags", "kubeconfig")),
        ("restart", "kubelet.service"),
        ("join", f"kubernetes cluster at {api.url}"),
    ]
    assert list(root.iterdir()) == []
    assert api.asked == []
    await join(root, api)
    plan = await cluster_join.KIND.plan(step(root, given, None))
    assert {change.action for change in plan.changes} == {"keep", "join"}


async def test_SK_13_a_ca_that_is_not_pinned_gets_no_token(tmp_path: Path, api: KubeApi) -> None:
    other = Authority("another")
    for credential, more in (
        (token(api), {"ca_sha256": [other.pin]}),  # the right server, another pin
        (token(api, ca_pem=""), {"ca_sha256": [other.pin]}),  # and its CA from cluster-info
        (token(api, ca_pem=other.pem.decode()), {}),  # a credential that brings another CA
        (token(api, ca_pem=other.pem.decode()), {"ca_sha256": [other.pin]}),  # a CA that did not sign this server
        (token(api, server="https://127.0.0.1:1"), {}),
        (token(api, ca_pem="no certificate"), {}),
    ):
        err = await failure(tmp_path, api, credential=credential, params={"cluster": more})
        assert err.code == "cluster_untrusted"
    assert {bearer for _, _, bearer in api.asked} <= {""}
    assert not (tmp_path / FILES["kubeconfig"][1:]).exists()


async def test_SK_13_the_ca_may_come_from_cluster_info_when_pin_and_signature_fit(tmp_path: Path, api: KubeApi) -> None:
    await join(tmp_path, api, credential=token(api, ca_pem=""))
    info = json.dumps(api.cluster_info()).encode()
    assert kube_trust.ca_of_cluster_info(info, TOKEN) == api.ca.pem
    for body in (
        b"{}",
        b"[]",
        b"\xff",
        b'{"data": {"kubeconfig": ""}}',
        info.replace(b"jws-kubeconfig-abcdef", b"jws-x"),
    ):
        with pytest.raises(HostlerError) as caught:
            kube_trust.ca_of_cluster_info(body, TOKEN)
        assert caught.value.code == "cluster_untrusted"
    with pytest.raises(HostlerError, match="not signed with the bootstrap token"):
        kube_trust.ca_of_cluster_info(info, "abcdef.fedcba9876543210")


async def test_SK_13_a_node_of_another_cluster_is_refused_unless_it_is_to_be_replaced(
    tmp_path: Path, api: KubeApi
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with kube_api(tmp_path / "other") as other:
        other.node("n1", labels=LABELS, taints=[TAINT])
        await join(root, other)
        key = (root / FILES["key"][1:]).read_bytes()
        err = await failure(root, api)
        assert err.code == "joined_elsewhere"
        assert other.url in err.message
        with pytest.raises(HostlerError) as planned:
            await cluster_join.KIND.plan(step(root, params(api), None))
        assert planned.value.code == "joined_elsewhere"
        assert (root / FILES["key"][1:]).read_bytes() == key
        assert api.asked == []
    plan = await cluster_join.KIND.plan(step(root, params(api, replace=True), None))
    assert plan.changes[0].action == "leave"
    await join(root, api, params={"replace": True})
    assert (root / FILES["key"][1:]).read_bytes() != key  # a new cluster, a new key
    await cluster_verify.KIND.apply(verify(root, api))


async def test_SK_13_what_the_kubelet_rotated_to_in_the_other_cluster_has_to_go_first(
    tmp_path: Path, api: KubeApi
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with kube_api(tmp_path / "other") as other:
        other.node("n1", labels=LABELS, taints=[TAINT])
        await join(root, other)
    (root / "var/lib/kubelet/pki/kubelet-client-current.pem").symlink_to("old.pem")
    err = await failure(root, api, params={"replace": True})
    assert err.code == "joined_elsewhere"
    assert "kubelet-client-current.pem" in err.message


@pytest.mark.parametrize(
    "key", ["node-role.kubernetes.io/control-plane", "node-restriction.kubernetes.io/x", "k8s.io/x"]
)
async def test_SK_13_a_label_that_a_node_may_not_give_itself_is_refused_before_anything_is_written(
    tmp_path: Path, api: KubeApi, key: str
) -> None:
    err = await failure(tmp_path / "root", api, params={"cluster": {"labels": {key: "x"}}})
    assert err.code == "label_restricted"
    assert not (tmp_path / "root").exists()
    assert api.asked == []


async def test_SK_13_a_killed_join_asks_again_with_the_same_key_and_its_probe_tells_the_truth(
    tmp_path: Path, api: KubeApi
) -> None:
    """K1: dead between the certificate's issue and the kubeconfig."""
    api.approve = False
    with pytest.raises(HostlerError) as late:
        await join(tmp_path, api, deadline_s=2)  # in which it has to come to ask
    assert late.value.code == "timeout"
    assert "waits for approval" in late.value.message
    assert (tmp_path / FILES["key"][1:]).exists()
    probe = await cluster_join.KIND.probe(step(tmp_path, params(api), None))
    assert probe.truth is Truth.NOT_DONE
    api.approve = True
    await join(tmp_path, api)
    assert len(api.requests) == 1  # the same request was found again
    found = await cluster_join.KIND.probe(step(tmp_path, params(api), None))
    assert found.truth is Truth.DONE
    (tmp_path / FILES["kubeconfig"][1:]).unlink()  # certificate there, membership not
    probe = await cluster_join.KIND.probe(step(tmp_path, params(api), None))
    assert probe.truth is Truth.NOT_DONE
    again = await join(tmp_path, api)
    assert [state.path for state in again.files_after] == [FILES["kubeconfig"]]


async def test_SK_13_the_cluster_s_refusals_come_out_with_its_reason(tmp_path: Path, api: KubeApi) -> None:
    wrong = await failure(tmp_path, api, credential=token(api, token="abcdef.ffffffffffffffff"))
    assert (wrong.code, "unknown or has expired" in wrong.message) == ("join_refused", True)
    api.deny = "not one of ours\nreally"
    denied = await failure(tmp_path, api)
    assert denied.code == "join_refused"
    assert "denied: not one of ours really" in denied.message


async def test_SK_13_a_certificate_for_another_key_is_not_taken(tmp_path: Path, api: KubeApi) -> None:
    api.other_key = True
    err = await failure(tmp_path, api, deadline_s=5)
    assert (err.code, "not for this node and key" in err.message) == ("join_refused", True)
    assert not (tmp_path / FILES["kubeconfig"][1:]).exists()


async def test_SK_13_a_key_that_others_may_read_is_no_joined_node(tmp_path: Path, api: KubeApi) -> None:
    await join(tmp_path, api)
    (tmp_path / FILES["kubeconfig"][1:]).chmod(0o644)
    assert (await cluster_join.KIND.probe(step(tmp_path, params(api), None))).truth is Truth.NOT_DONE
    await join(tmp_path, api)
    assert (tmp_path / FILES["kubeconfig"][1:]).stat().st_mode & 0o777 == 0o600


async def test_SK_13_a_join_without_a_credential_needs_its_files(tmp_path: Path, api: KubeApi) -> None:
    err = await failure(tmp_path, api, credential=None)
    assert err.code == "binding_error"
    await join(tmp_path, api)
    assert not (await join(tmp_path, api, credential=None)).changed


async def test_SK_13_cancel_ends_a_join_that_waits(tmp_path: Path, api: KubeApi) -> None:
    api.approve = False
    cancelled = asyncio.Event()
    task = asyncio.create_task(join(tmp_path, api, cancelled=cancelled))
    while not api.requests:
        await asyncio.sleep(0.01)
    cancelled.set()
    with pytest.raises(HostlerError) as caught:
        await task
    assert caught.value.code == "canceled"


async def test_SK_14_a_node_that_is_not_ready_fails_with_the_cluster_s_condition(tmp_path: Path, api: KubeApi) -> None:
    await join(tmp_path, api)
    api.node("n1", ready="False", reason="KubeletNotReady", message="container runtime is down")
    assert await condition(tmp_path, api) == "Ready is False, KubeletNotReady: container runtime is down"
    api.node("n1", labels={"pool": "b"}, taints=[TAINT])
    assert await condition(tmp_path, api) == "label pool=a is missing"
    api.node("n1", labels=LABELS)
    assert await condition(tmp_path, api) == "taint new=1:NoSchedule is missing"
    del api.nodes["n1"]
    assert await condition(tmp_path, api) == "there is no node n1"
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("here\n")
    api.node("n1", labels=LABELS, taints=[TAINT], boot_id="elsewhere")
    assert "another machine" in await condition(tmp_path, api)
    api.node("n1", labels=LABELS, taints=[TAINT], boot_id="here")
    await cluster_verify.KIND.apply(verify(tmp_path, api))


async def test_SK_14_a_cluster_that_is_away_is_a_condition(tmp_path: Path) -> None:
    with kube_api(tmp_path / "api") as api:
        api.node("n1", labels=LABELS, taints=[TAINT])
        await join(tmp_path, api)
    assert "cannot be asked" in await condition(tmp_path, api)
    assert await condition(tmp_path / "empty", api) == "the cluster's CA is no PEM certificate"


async def test_SK_14_readiness_is_waited_for(tmp_path: Path, api: KubeApi) -> None:
    await join(tmp_path, api)
    api.node("n1", ready="Unknown")
    waiting = asyncio.create_task(cluster_verify.KIND.apply(verify(tmp_path, api, within_seconds=30)))
    seen = len(api.asked)
    while len(api.asked) < seen + 2:
        await asyncio.sleep(0.01)
    api.node("n1", labels=LABELS, taints=[TAINT])
    assert not (await waiting).changed
