"""SK-13: what may stand in a join, and what its definition must keep before anybody signs it."""

from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import definition_from
from hostler.catalog.lint import lint
from hostler.catalog.load import Profiles, Source
from hostler.catalog.params.cluster import Join

K8S = {"backend": "k8s", "server": "https://10.0.0.1:6443", "ca_sha256": ["a" * 64]}
SLURM = {"backend": "slurm", "cluster_name": "blue", "controllers": ["ctl"]}
RAY = {"backend": "ray", "head": "10.0.0.1:6379", "dashboard": "http://10.0.0.1:8265", "node_ip": "10.0.0.2"}
ROLES = {
    "k8s": ("ca", "key", "certificate", "kubeconfig", "config", "flags"),
    "slurm": ("config", "key"),
    "ray": ("environment", "token"),
}


def params(cluster: dict[str, Any], **more: Any) -> dict[str, Any]:
    files = {role: f"/srv/{role}" for role in ROLES[cluster["backend"]]}
    return {"cluster": cluster, "node": "n1", "files": files, **more}


@pytest.mark.parametrize("cluster", [K8S, SLURM, RAY])
def test_every_backend_has_parameters_of_its_own(cluster: dict[str, Any]) -> None:
    assert convert(params(cluster), Join).node == "n1"
    for files in ({}, {"config": "/srv/x"}, params(cluster)["files"] | {"more": "/srv/more"}):
        with pytest.raises(HostlerError, match="files must name one path each"):
            convert(params(cluster, files=files), Join)
    twice = dict.fromkeys(ROLES[cluster["backend"]], "/srv/same")
    with pytest.raises(HostlerError, match="files must name one path each"):
        convert(params(cluster, files=twice), Join)


@pytest.mark.parametrize(
    "cluster",
    [
        K8S | {"server": "http://10.0.0.1:6443"},
        K8S | {"server": "https://10.0.0.1:6443/x?y"},
        K8S | {"ca_sha256": []},
        K8S | {"ca_sha256": ["sha256:" + "a" * 64]},
        K8S | {"labels": {"a": 'b" --kubeconfig=/x'}},
        K8S | {"labels": {"a b": "c"}},
        K8S | {"taints": [{"key": "a", "effect": "Sometimes"}]},
        K8S | {"settings": {"staticPodPath": "/x"}},
        K8S | {"settings": {"authentication": {"anonymous": {"enabled": True}}}},
        K8S | {"settings": {"tlsCertFile": "/x"}},
        SLURM | {"cluster_name": "blue\nProlog=/x"},
        SLURM | {"settings": {"SlurmctldPort": "1\nProlog=/x"}},
        SLURM | {"settings": {"SlurmctldPort": "1 Prolog=/x"}},
        SLURM | {"settings": {"Prolog": "/x"}},
        SLURM | {"settings": {"TaskEpilog": "/x"}},
        SLURM | {"settings": {"HealthCheckProgram": "/x"}},
        SLURM | {"settings": {"PluginDir": "/x"}},
        SLURM | {"settings": {"Include": "/x"}},
        SLURM | {"settings": {"clustername": "red"}},
        SLURM | {"settings": {"AuthType": "auth/none"}},
        SLURM | {"node": {"NodeName": "n2"}},
        SLURM | {"partitions": {"main": {"Nodes": "ALL#"}}},
        RAY | {"owner": "root"},
        RAY | {"head": "10.0.0.1:6379 --block"},
        RAY | {"resources": {"a'b": 1}},
        RAY | {"labels": {"a": "b'c"}},
        RAY | {"node_ip": "10.0.0.2 --head"},
        RAY | {"auth": "maybe"},
        {"backend": "nomad"},
    ],
)
def test_what_would_become_more_than_a_value_is_refused(cluster: dict[str, Any]) -> None:
    given = {"cluster": cluster, "node": "n1", "files": {r: f"/srv/{r}" for r in ROLES.get(cluster["backend"], ())}}
    with pytest.raises(HostlerError):
        convert(given, Join)


@pytest.mark.parametrize("name", ["n1\n", "n 1", "-n1", "N1", "n1/../n2", "", "n" * 254])
def test_a_node_s_name_is_a_name(name: str) -> None:
    with pytest.raises(HostlerError):
        convert(params(SLURM, node=name), Join)


SHOW = CommandProfile(
    id="show", command="/usr/bin/scontrol", args=("${node}",), arg_schema={"node": {"type": "string"}}
)
OTHER = CommandProfile(id="other", command="/usr/bin/true")
INPUTS = {name: {"type": "string"} for name in ("node", "head", "config", "key", "replace", "backend", "profile")}


def findings(cluster: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    """(rule, message) of a definition with one join."""
    around = more.pop("around", {})
    value = {
        "type": "a.b",
        "version": "v1",
        "inputs": {"type": "object", "additionalProperties": False, "properties": INPUTS},
        "capabilities": {"os.kernel": "linux"},
        "destructive": True,
        "steps": [{"id": "join", "kind": "cluster.join", "params": params(cluster, **more)}],
        **around,
    }
    source = Source(file="x", value=value, lines={})
    commands = tuple((profile, Source(file="c", value={"timeout_seconds": 1}, lines={})) for profile in (SHOW, OTHER))
    profiles = Profiles(definitions=((definition_from(value), source),), commands=commands)
    return [(found.rule, found.message) for found in lint(profiles) if found.file == "x"]


def test_a_good_join_passes_with_bindings_at_every_depth() -> None:
    assert findings(SLURM, profile="show") == []
    assert findings(RAY | {"head": "${inputs.head}"}, node="${inputs.node}") == []
    assert findings(K8S | {"server": "${inputs.head}"}) == []
    assert findings(SLURM, profile="show", files={"config": "${inputs.config}", "key": "${inputs.key}"}) == []


@pytest.mark.parametrize(
    ("cluster", "more", "rule"),
    [
        (SLURM, {}, "command-profile"),
        (SLURM, {"profile": "absent"}, "command-profile"),
        (SLURM, {"profile": "${inputs.profile}"}, "command-profile"),
        (SLURM, {"profile": "other"}, "command-args"),
        (RAY, {"credential": "hst1_token"}, "secrets"),
        (RAY, {"credential": "${inputs.node}"}, "secrets"),
        (RAY, {"replace": "${inputs.replace}"}, "params"),
        (RAY, {"units": ["ray-node.service"]}, "allowed"),
        (RAY, {"files": {"environment": "/etc/systemd/system/x.service", "token": "/srv/t"}}, "auto-executed"),
        (SLURM, {"profile": "show", "files": {"config": "/etc/slurm/slurm.conf", "key": "/srv/k"}}, "auto-executed"),
        (RAY, {"around": {"destructive": False}}, "destructive"),
    ],
)
def test_what_may_not_be_signed_is_found(cluster: dict[str, Any], more: dict[str, Any], rule: str) -> None:
    assert rule in [found for found, _ in findings(cluster, **more)]


def test_J2_what_is_named_may_be_written() -> None:
    files = {"config": "/etc/slurm/slurm.conf", "key": "/etc/munge/munge.key"}
    named = {"auto_executed_paths": ["/etc/slurm/slurm.conf"], "allowed_units": ["slurmd.service"]}
    assert findings(SLURM, profile="show", files=files, units=["slurmd.service"], around=named) == []
