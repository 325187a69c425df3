"""PF-12, OP-19: every definition that ships can be submitted, and a node that knows nothing else lets it in."""

from pathlib import Path
from typing import Any

import pytest

from hostler.agent.admission.admit import admit
from hostler.agent.admission.verdict import Admitted
from hostler.agent.capabilities import detect
from hostler.catalog.capabilities import unmet
from hostler.catalog.inputs import check_inputs, refuse_secrets, with_defaults
from hostler.catalog.job import JobSpec, container_inputs, pull_inputs
from hostler.catalog.load import load_profiles
from support import builders
from support.keys import NOW, Keys

PROFILES = load_profiles(Path(__file__).resolve().parents[4] / "profiles")
DEFINITIONS = {definition.ref: definition for definition, _ in PROFILES.definitions}
KEYS = Keys()
SHA = "a" * 64
JOB = {"job": "/ann/train", "command": ["python", "-m", "train"]}
RELEASE = {
    "version": "1.2.0",
    "url": "https://control.example/packages/v1/t/hostler-agent_1.2.0-1~deb12u1_amd64.deb",
    "sha256": SHA,
    "size_bytes": 1,
    "metadata_url": "https://control.example/packages/v1/metadata.json",
    "suite": "bookworm",
}
S3 = {"endpoint": "https://s3.example", "bucket": "models", "prefix": "llm/v1/"}
TENANT = {
    "allocation_id": "al-1",
    "users": [{"name": "ann", "keys": ["ssh-ed25519 AAAA ann"]}],
    "owner": "ann",
    "scratch_path": "/srv/scratch/al-1",
}
# for hosts with a GPU alone
ON_GPU = {"allocation.runtime.provision@v1"}
# What a person would give; defaults fill in the rest.
INPUTS: dict[str, dict[str, Any]] = {
    "allocation.identity.revoke@v1": {"allocation_id": "al-1"},
    "allocation.runtime.deprovision@v1": {"allocation_id": "al-1"},
    "allocation.runtime.provision@v1": TENANT,
    "allocation.runtime.provision@v2": TENANT,
    "node.reclaim.verify@v1": {"allocation_id": "al-1", "devices": [{"path": "/dev/nvme1n1", "serial": "S4EV"}]},
    "node.reclaim.probe@v1": {"allocation_id": "alc_1"},
    "node.baseline.take@v1": {"allocation_id": "enrolled"},
    "node.task.probe@v1": {"task_id": "tsk_1", "attempt_uid": "att_1"},
    "agent.upgrade.stage@v1": RELEASE,
    "agent.upgrade.activate@v1": {"version": "1.2.0"},
    "agent.upgrade.rollback@v1": {"reason": "it is slow"},
    "node.self_update@v1": RELEASE,
    "node.agent.verify@v1": {},
    "gpu.collective.test@v1": {},
    "gpu.host.bootstrap@v1": {},
    "gpu.host.verify@v1": {},
    "job.container.private@v1": JOB
    | {"image": f"registry.example/team/train@sha256:{SHA}"}
    | pull_inputs(f"registry.example/team/train@sha256:{SHA}"),
    "job.container.run@v1": JOB | {"image": f"registry.example/train@sha256:{SHA}"},
    "k8s.node.bootstrap@v1": {
        "node": "n1",
        "cluster": "east",
        "server": "https://10.0.0.1:6443",
        "ca_sha256": [SHA],
        "packages": [{"name": "containerd"}, {"name": "kubelet", "version": "1.31.0-1.1"}],
    },
    "job.task.forward@v1": {"task_id": "t", "attempt_uid": "a", "relay_id": "r", "port": 30000},
    "job.task.exec@v1": {"task_id": "t", "attempt_uid": "a", "relay_id": "r", "command": ["id"]},
    "job.task.profile@v1": {"task_id": "t", "attempt_uid": "a"},
    "model.artifact.stage@v1": {"url": "https://models.example/m.bin", "sha256": SHA, "path": "/srv/models/m.bin"},
    "model.artifact.stage@v2": {
        **S3,
        "key": "llm/v1/m.bin",
        "sha256": SHA,
        "signature_key": "llm/v1/m.sig",
        "signature_sha256": SHA,
        "path": "/srv/models/m.bin",
        "signature_path": "/srv/models/m.sig",
    },
    "network.fabric.ready@v1": {"interfaces": [{"name": "ib0"}]},
    "node.resolver.apply@v1": {"version": 1, "digest": SHA},
    "node.smoke.noop@v1": {},
    "node.smoke.sleep@v1": {"seconds": 1},
    "ray.node.bootstrap@v1": {
        "node": "n1",
        "cluster": "rays",
        "head": "10.0.0.1:6379",
        "dashboard": "http://10.0.0.1:8265",
        "node_ip": "10.0.0.2",
        "lock": f"ray[default]==2.40.0 --hash=sha256:{SHA}\n",
    },
    "runtime.readiness.verify@v1": {"checks": [{"type": "disk", "path": "/", "min_free_bytes": 1}]},
    "runtime.readiness.verify@v2": {"checks": [{"type": "disk", "path": "/", "min_free_bytes": 1}]},
    "slurm.node.bootstrap@v1": {
        "node": "n1",
        "cluster": "east",
        "cluster_name": "east",
        "controllers": ["ctl(10.0.0.1)"],
        "attributes": {"CPUs": "4"},
    },
}


def node_for(ref: str, root: Path) -> dict[str, str]:
    """What a plain node tells, run by root, with a GPU where the definition is for those."""
    return detect(root) | {"host.mutation": "full"} | ({"gpu.vendor": "nvidia"} if ref in ON_GPU else {})


def test_each_shipped_definition_is_tried_here() -> None:
    assert set(INPUTS) == set(DEFINITIONS)


@pytest.mark.parametrize("ref", sorted(DEFINITIONS))
def test_PF_12_OP_19_a_shipped_definition_can_be_submitted_and_admitted(ref: str, tmp_path: Path) -> None:
    definition = DEFINITIONS[ref]
    given = with_defaults(definition.inputs, INPUTS[ref])
    refuse_secrets(given)
    check_inputs(definition.inputs, given)
    commands = [command for command, _ in PROFILES.commands]
    held = builders.catalog(KEYS, definition, commands=commands)
    spec = builders.task(KEYS, held, inputs=given)
    view = builders.view(KEYS, held, capabilities=node_for(ref, tmp_path))
    assert isinstance(verdict := admit(builders.envelope(KEYS, spec), view, NOW), Admitted), verdict


@pytest.mark.parametrize("ref", sorted(DEFINITIONS))
def test_CG_01_a_shipped_definition_requires_nothing_that_a_plain_node_lacks(ref: str, tmp_path: Path) -> None:
    assert unmet(DEFINITIONS[ref].capabilities, node_for(ref, tmp_path)) == ""


def test_PF_03_the_unit_of_ray_starts_what_the_environment_in_use_holds() -> None:
    steps = {step.id: step.params for step in DEFINITIONS["ray.node.bootstrap@v1"].steps}
    assert f"ExecStart={steps['runtime']['path']}/current/bin/ray " in steps["unit"]["template"]


def test_SK_24_a_job_compiles_to_exactly_the_inputs_of_its_definitions() -> None:
    image = f"registry.example/team/train@sha256:{SHA}"
    spec = JobSpec(name="train", image=image, command=("a",))
    inputs = container_inputs(spec, "/ann/train", "", "/ann/train")
    for ref, given in (("job.container.run@v1", inputs), ("job.container.private@v1", inputs | pull_inputs(image))):
        check_inputs(DEFINITIONS[ref].inputs, given)
        assert set(given) == set(DEFINITIONS[ref].inputs["properties"]), ref
