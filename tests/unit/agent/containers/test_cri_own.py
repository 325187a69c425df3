"""J5, TE-20: which containers and sandboxes of a shared containerd are ours, whatever their labels say."""

import pytest

from hostler.agent.containers import cri_spec
from hostler.agent.containers.spec import ATTEMPT, MAIN_PHASE, PHASE, SETUP_PHASE, name_of
from hostler.cri.v1 import api_pb2 as cri


def sandbox(name: str = "att_1", uid: str = "att_1", namespace: str = "hostler", **labels: str) -> cri.PodSandbox:
    metadata = cri.PodSandboxMetadata(name=name, uid=uid, namespace=namespace)
    return cri.PodSandbox(id="s1", metadata=metadata, labels={ATTEMPT: "att_1"} | labels)


def container(name: str = name_of("att_1", MAIN_PHASE), sandbox_id: str = "s1", **labels: str) -> cri.Container:
    said = {ATTEMPT: "att_1", PHASE: MAIN_PHASE, cri_spec.NAME: name} | labels
    return cri.Container(id="c", pod_sandbox_id=sandbox_id, metadata=cri.ContainerMetadata(name=name), labels=said)


OURS = {"s1": sandbox()}


def test_TE_20_what_an_agent_made_is_ours() -> None:
    assert cri_spec.is_own_sandbox(sandbox())
    assert cri_spec.is_own_container(container(), OURS)
    setup = container(name_of("att_1", SETUP_PHASE), **{PHASE: SETUP_PHASE})
    assert cri_spec.is_own_container(setup, OURS)


@pytest.mark.parametrize(
    "foreign",
    [
        sandbox(namespace="default"),
        sandbox(uid="5d0b5a3c-7c5e-4e5f-9d53-b1c0c7d1f5a2"),
        sandbox(name="web-0", uid="web-0"),
        sandbox(name="", uid=""),
    ],
)
def test_J5_a_pod_of_kubernetes_with_our_labels_is_not_ours(foreign: cri.PodSandbox) -> None:
    assert not cri_spec.is_own_sandbox(foreign)


@pytest.mark.parametrize(
    "foreign",
    [
        container("web"),
        container(name_of("att_2", MAIN_PHASE)),
        container(sandbox_id="of-kubernetes"),
        container(**{ATTEMPT: "att_2"}),
        container(**{PHASE: SETUP_PHASE}),
        container(**{cri_spec.NAME: "other"}),
    ],
)
def test_J5_a_container_is_ours_by_its_name_and_its_sandbox_and_not_by_labels_alone(foreign: cri.Container) -> None:
    assert not cri_spec.is_own_container(foreign, OURS)
