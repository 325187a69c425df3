"""The gates of what may be done where: policy, local authority, capabilities (AZ-07 to AZ-09, CG-02)."""

from typing import Any

import msgspec
import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.verdict import Admitted
from hostler.catalog.definition import ArtifactConstraints, StepTemplate
from hostler.catalog.policy import policy_digest
from hostler.wire.task import Policy, TaskMode
from support import builders
from support.agent import refused
from support.gates import EXEC, KEYS, NAMED, PROFILE, a_task, judge

# -- policy -----------------------------------------------------------------------------------------

PULL = builders.definition(
    StepTemplate(
        id="pull",
        kind="artifact.pull_blob",
        params={"url": "https://good.example/a/x", "sha256": "0" * 64, "path": "/srv/x", "size_bytes": 100},
    ),
    artifacts=ArtifactConstraints(allowed_sources=("https://good.example/a",)),
    type_="demo.pull",
)
SIGNED = StepTemplate(
    id="check",
    kind="artifact.verify",
    params={"path": "/srv/x", "sha256": "0" * 64, "signature_path": "/srv/x.dsse"},
)


def under(policy: Policy, definition: Any = PULL) -> Any:
    held = builders.catalog(KEYS, definition)
    return judge(a_task(held, policy=policy), held)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (Policy(enabled=False), "policy_denied"),
        (Policy(allowed_target_kinds=()), "policy_denied"),
        (Policy(allowed_target_kinds=("allocation",)), "policy_denied"),
        (Policy(allowed_artifact_sources=()), "source_denied"),
        (Policy(allowed_artifact_sources=("https://good.example.evil",)), "source_denied"),
        (Policy(max_artifact_size_bytes=99), "too_large"),
        (Policy(require_signature_verification=True), "policy_denied"),
    ],
    ids=["disabled", "no target kind", "other target kind", "no source", "look-alike", "too large", "unsigned"],
)
def test_AZ_07_AZ_08_each_key_of_the_policy_bites_on_the_node_too(policy: Policy, code: str) -> None:
    assert refused(under(policy)) == (code, "policy")


def test_a_definition_that_wants_an_approved_plan_is_not_run_without_one() -> None:
    """Whatever the control plane thinks of it: the demand is signed into the catalog."""
    careful = builders.catalog(KEYS, builders.definition(require_plan_approval=True))
    assert refused(judge(a_task(careful), careful)) == ("plan_approval_required", "policy")
    assert isinstance(judge(a_task(careful, approved_plan_digest="a" * 64), careful), Admitted)
    assert isinstance(judge(a_task(careful, mode=TaskMode.PLAN), careful), Admitted)


@pytest.mark.parametrize("kinds", [("group",), ("node",), ("node", "allocation")])
def test_AZ_07_how_a_node_was_chosen_is_the_control_plane_s_to_say(kinds: tuple[str, ...]) -> None:
    rules = Policy(allowed_target_kinds=kinds)
    assert isinstance(judge(a_task(policy=rules, policy_digest=policy_digest(rules))), Admitted)


def test_AZ_07_a_policy_that_allows_it_lets_it_pass() -> None:
    allowed = Policy(
        allowed_target_kinds=("node",),
        allowed_artifact_sources=("https://good.example",),
        max_artifact_size_bytes=100,
    )
    assert isinstance(under(allowed), Admitted)


def test_AR_06_the_definition_limits_sources_as_well() -> None:
    narrow = msgspec.structs.replace(PULL, artifacts=ArtifactConstraints(allowed_sources=("https://else.example",)))
    assert refused(under(Policy(), narrow)) == ("source_denied", "policy")


def test_SK_03_a_required_signature_needs_a_step_that_checks_it() -> None:
    checked = msgspec.structs.replace(PULL, steps=(*PULL.steps, SIGNED))
    assert isinstance(under(Policy(require_signature_verification=True), checked), Admitted)
    before = msgspec.structs.replace(PULL, steps=(SIGNED, *PULL.steps))
    assert refused(under(Policy(require_signature_verification=True), before)) == ("policy_denied", "policy")


def test_SK_03_a_signature_that_is_pulled_needs_no_signature_of_its_own() -> None:
    """It is checked where it is used; another file beside it is not."""
    beside = {"url": "https://good.example/a/x.dsse", "sha256": "1" * 64, "path": "/srv/x.dsse"}
    signature = StepTemplate(id="signature", kind="artifact.pull_blob", params=beside)
    both = msgspec.structs.replace(PULL, steps=(*PULL.steps, signature, SIGNED))
    assert isinstance(under(Policy(require_signature_verification=True), both), Admitted)
    other = StepTemplate(id="signature", kind="artifact.pull_blob", params=beside | {"path": "/srv/y"})
    unsigned = msgspec.structs.replace(PULL, steps=(*PULL.steps, other, SIGNED))
    assert refused(under(Policy(require_signature_verification=True), unsigned)) == ("policy_denied", "policy")
    late = msgspec.structs.replace(PULL, steps=(*PULL.steps, SIGNED, signature))
    assert refused(under(Policy(require_signature_verification=True), late)) == ("policy_denied", "policy")


def test_a_policy_that_does_not_have_the_digest_beside_it_is_refused() -> None:
    spec = a_task(policy_digest=policy_digest(Policy(enabled=False)))
    assert refused(judge(spec)) == ("malformed_envelope", "policy")


# -- local authority, capability --------------------------------------------------------------------


@pytest.mark.parametrize(
    "authority",
    [
        LocalAuthority(deny_operations=("demo.run",)),
        LocalAuthority(deny_operations=("demo.run@v1",)),
        LocalAuthority(deny_step_kinds=("command.exec_allowlisted",)),
        LocalAuthority(deny_command_profiles=("say",)),
        LocalAuthority(deny_users=("nobody",)),
    ],
    ids=["type", "version", "kind", "profile", "user"],
)
def test_EX_09_AZ_09_what_root_of_the_node_forbids_is_refused(authority: LocalAuthority) -> None:
    held = builders.catalog(KEYS, EXEC, commands=[PROFILE])
    assert isinstance(judge(a_task(held), held), Admitted)
    assert refused(judge(a_task(held), held, authority=authority)) == ("local_policy_denied", "authority")


def test_AZ_09_paths_and_sources_are_judged_after_binding() -> None:
    held = builders.catalog(KEYS, NAMED)
    spec = a_task(held, inputs={"path": "/srv/secret/x"})
    denied = LocalAuthority(deny_paths=("/srv/secret",))
    assert refused(judge(spec, held, authority=denied)) == ("local_policy_denied", "authority")
    pulls = builders.catalog(KEYS, PULL)
    closed = LocalAuthority(deny_sources=("https://good.example",))
    assert refused(judge(a_task(pulls), pulls, authority=closed)) == ("local_policy_denied", "authority")


@pytest.mark.parametrize(
    ("wanted", "have", "fits"),
    [
        ("containerd", "containerd", True),
        (["docker", "containerd"], "containerd", True),
        (["docker"], "containerd", False),
        ("docker", "containerd", False),
        (True, "true", True),
        (True, "false", False),
        (8, "8", True),
        ("Containerd", "containerd", False),
        ([], "containerd", False),
    ],
)
def test_CG_02_a_required_capability_is_compared_exactly(wanted: Any, have: str, fits: bool) -> None:
    held = builders.catalog(KEYS, builders.definition(capabilities={"container.runtime": wanted}))
    verdict = judge(a_task(held), held, capabilities={"container.runtime": have})
    if fits:
        assert isinstance(verdict, Admitted)
    else:
        assert refused(verdict) == ("incompatible", "capability")


def test_CG_02_an_unknown_capability_is_refused_and_named() -> None:
    held = builders.catalog(KEYS, builders.definition(capabilities={"gpu.vendor": "nvidia"}))
    verdict = judge(a_task(held), held)
    assert refused(verdict) == ("incompatible", "capability")
    assert "gpu.vendor" in verdict.message
