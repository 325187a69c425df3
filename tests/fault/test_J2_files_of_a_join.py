"""J2, SK-13: every file of a join is judged as one that is written by itself, on the node, and so are its units."""

from typing import Any

import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.base.errors import HostlerError
from hostler.base.strict import convert
from hostler.catalog.auto_executed import check_written, files_of
from hostler.catalog.definition import StepTemplate
from hostler.catalog.params.cluster import Join
from support import builders
from support.agent import Core, core, refused

INPUTS = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"path": {"type": "string"}, "unit": {"type": "string"}},
}
RAY = {
    "backend": "ray", "head": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1", "node_ip": "127.0.0.2",
    "auth": "none", "owner": "nobody",
}  # fmt: skip
UNIT = "/etc/systemd/system/x.service"


def join(path: str, **more: Any) -> StepTemplate:
    files = {"environment": path, "token": "/srv/token"}
    params = {"cluster": RAY, "node": "n1", "files": files, **more}
    return StepTemplate(id="join", kind="cluster.join", params=params, timeout_seconds=1)


def node(folder: Any, *steps: StepTemplate, **more: Any) -> Any:
    made = builders.definition(*steps, inputs=INPUTS, destructive=True, **more)
    return core(folder, catalog=lambda keys: builders.catalog(keys, made))


async def deliver(core_: Core, path: str, unit: str = "x.service") -> Any:
    """As a taken-over control plane would: signed by the dispatch key, past every check of ours."""
    spec = builders.task(core_.keys, core_.catalog, inputs={"path": path, "unit": unit})
    return await core_.deliver(builders.envelope(core_.keys, spec))


@pytest.mark.parametrize("path", [UNIT, "/etc/slurm/slurm.conf", "/etc/kubernetes/kubelet.conf", "/root/.bashrc"])
async def test_J2_a_join_into_what_runs_by_itself_is_refused_before_it_starts(tmp_path: Any, path: str) -> None:
    async with node(tmp_path, join("${inputs.path}")) as agent:
        assert refused(await deliver(agent, path)) == ("path_denied", "policy")
        assert agent.files() == []


async def test_J2_a_path_that_is_known_only_after_a_step_is_refused_then(tmp_path: Any) -> None:
    from hostler.agent.steps import file_render

    first, shown = builders.render_step("first", "/srv/x", make_parents=True), file_render.KIND.apply
    try:
        file_render.KIND.apply = leading_to(shown, UNIT)  # type: ignore[method-assign]
        async with node(tmp_path, first, join("${steps.first.path}")) as agent:
            await deliver(agent, "")
            ends = [step.error_code for step in await agent.step_reports() if step.receipt]
            assert ends == ["", "path_denied"]
            assert agent.files() == ["srv/x"]
    finally:
        del file_render.KIND.apply  # type: ignore[method-assign]


def leading_to(apply: Any, path: str) -> Any:
    """A step whose output is not what was written."""
    import msgspec

    async def applied(context: Any) -> Any:
        outcome = await apply(context)
        return msgspec.structs.replace(outcome, outputs={**outcome.outputs, "path": path})

    return applied


async def test_SK_08_a_unit_that_the_definition_does_not_name_is_not_restarted(tmp_path: Any) -> None:
    step = join("/srv/node.env", units=["${inputs.unit}"])
    async with node(tmp_path, step, allowed_units=("ray-node.service",)) as agent:
        assert refused(await deliver(agent, "", unit="ssh.service")) == ("unit_not_allowed", "policy")
        assert agent.files() == []


def test_AZ_09_the_node_s_own_authority_looks_at_every_file_and_unit() -> None:
    params = {"cluster": RAY, "node": "n1", "files": {"environment": "/srv/a/env", "token": "/srv/b/token"}}
    made = convert(params | {"units": ["ray-node.service"]}, Join)
    for authority in (
        LocalAuthority(deny_paths=("/srv/b",)),
        LocalAuthority(allow_paths=("/srv/a",)),
        LocalAuthority(deny_units=("ray-node.service",)),
    ):
        with pytest.raises(HostlerError) as caught:
            authority.check_step("cluster.join", made, None)
        assert caught.value.code == "local_policy_denied"
    LocalAuthority(allow_paths=("/srv",), allow_units=("ray-node.service",)).check_step("cluster.join", made, None)


def test_J2_files_count_only_where_they_are_written() -> None:
    assert files_of({"files": {"a": "/x", "b": "/y"}}) == ("/x", "/y")
    assert files_of({"files": "/x"}) == files_of({}) == files_of(object()) == ()
    check_written("cluster.verify", UNIT, ())  # it reads
    with pytest.raises(HostlerError):
        check_written("cluster.join", UNIT, ())
