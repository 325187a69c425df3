"""What a kubelet reads: kubeconfig, configuration and flags, and which labels it may give itself."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import yaml

from hostler.base.errors import error
from hostler.catalog.params.cluster import Kubernetes

# What the NodeRestriction admission plugin and the kubelet let a node say of itself.
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN_LABELS = frozenset(
    """
    kubernetes.io/hostname kubernetes.io/arch kubernetes.io/os beta.kubernetes.io/arch beta.kubernetes.io/os
    beta.kubernetes.io/instance-type failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region
    topology.kubernetes.io/zone topology.kubernetes.io/region
    """.split()  # noqa: SIM905 - a list of words reads better
)


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises `label_restricted` for a label that a node may not give itself, `node-role` and such."""
    for key in labels:
        domain = key.partition("/")[0] if "/" in key else ""
        reserved = any(domain == suffix or domain.endswith(f".{suffix}") for suffix in ("kubernetes.io", "k8s.io"))
        own = any(domain == suffix or domain.endswith(f".{suffix}") for suffix in _OWN_DOMAINS)
        if reserved and not own and key not in _OWN_LABELS:
            raise error("label_restricted", f"a node may not give itself the label {key}")


def kubeconfig(cluster: Kubernetes, files: Mapping[str, str]) -> bytes:
    """Names the key by its path: it stands in one file only."""
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": {"server": cluster.server, "certificate-authority": files["ca"]}}],
        "users": [
            {"name": "default", "user": {"client-certificate": files["certificate"], "client-key": files["key"]}}
        ],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
    }
    return _json(value)


def configuration(cluster: Kubernetes, files: Mapping[str, str]) -> bytes:
    """KubeletConfiguration: the API server is the only one it obeys; the rest is the step's `settings`."""
    value = {
        **cluster.settings,
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": files["ca"]},
        },
        "authorization": {"mode": "Webhook"},
        "rotateCertificates": True,
    }
    return _json(value)


def flags(cluster: Kubernetes, node: str) -> bytes:
    """For the unit's EnvironmentFile, under the name that kubeadm's drop-in uses."""
    words = [f"--hostname-override={node}"]
    if cluster.labels:
        words.append("--node-labels=" + ",".join(f"{k}={v}" for k, v in sorted(cluster.labels.items())))
    if cluster.taints:
        taints = (f"{taint.key}={taint.value}:{taint.effect}" for taint in cluster.taints)
        words.append("--register-with-taints=" + ",".join(taints))
    return f'KUBELET_KUBEADM_ARGS="{" ".join(words)}"\n'.encode()


def cluster_in(content: bytes) -> tuple[str, str, bytes]:
    """Server, path of the CA, and the CA itself, of the kubeconfig that stands; "" and b"" for what it lacks."""
    try:
        named = yaml.safe_load(content)["clusters"][0]["cluster"]
        inline = base64.b64decode(str(named.get("certificate-authority-data", "")), validate=True)
        return str(named.get("server", "")), str(named.get("certificate-authority", "")), inline
    except (yaml.YAMLError, UnicodeDecodeError, LookupError, TypeError, AttributeError, binascii.Error):
        return "", "", b""


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()  # JSON is YAML
