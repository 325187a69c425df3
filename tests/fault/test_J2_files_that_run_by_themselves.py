"""J2: the node, too, refuses to write what would run by itself, unless the signed definition names the file."""

from collections.abc import Iterator
from typing import Any

import pytest

from hostler.wire.report import TaskStatus
from support import builders
from support.agent import Core, core, refused
from support.house import House, open_house

UNIT = "/etc/systemd/system/ours.service"
HOSTILE = [
    "/etc/cron.d/x", "/etc/kubernetes/manifests/x.yaml", "/etc/systemd/system/x.service", "/etc/profile.d/x.sh",
    "/etc/apt/apt.conf.d/x", "/etc/sudoers.d/x", "/etc/ld.so.preload", "/etc/modprobe.d/x.conf",
    "/etc/udev/rules.d/x.rules", "/etc/init.d/x", "/etc/bash_completion.d/x", "/etc/xdg/autostart/x.desktop",
    "/root/.ssh/authorized_keys", "/usr/local/bin/x",
]  # fmt: skip
INPUTS = {"type": "object", "additionalProperties": False, "properties": {"path": {"type": "string"}}}


def definition(**more: Any) -> dict[str, Any]:
    params = {"path": "${inputs.path}", "template": "x\n", "make_parents": True}
    return {
        "type": "unit.write",
        "version": "v1",
        "inputs": INPUTS,
        "capabilities": {"os.kernel": "linux"},
        "steps": [{"id": "one", "kind": "file.render", "params": params}],
        **more,
    }


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """An agent that may write everywhere below its root, so that nothing else stands in the way."""
    named = definition(type="unit.unit", auto_executed_paths=[UNIT])
    with open_house([definition(), named]) as made:
        made.serve()
        made.enrol("a")
        config = made.home / "a" / "agent.toml"
        config.write_text(config.read_text().replace("[files]\n", '[files]\nwrite_prefixes = ["/"]\n'))
        made.start("a")
        yield made


@pytest.mark.xdist_group("house-j2")
@pytest.mark.timeout(60)
def test_J2_through_the_whole_house_only_the_named_file_is_written(house: House) -> None:
    root = house.home / "a" / "root"
    submitted = [house.submit("unit.write@v1", {"path": path}) for path in (*HOSTILE, UNIT)]
    submitted += [house.submit("unit.unit@v1", {"path": path}) for path in HOSTILE]
    for operation in submitted:
        assert house.finished(operation)["status"] == "failed"
        assert [receipt["error_code"] for receipt in house.receipts(operation)] == ["path_denied"]
    assert [path for path in root.rglob("*") if path.is_file()] == []
    assert house.finished(house.submit("unit.unit@v1", {"path": UNIT}))["status"] == "succeeded"
    assert [path for path in root.rglob("*") if path.is_file()] == [root / UNIT[1:]]


def node(folder: Any, *steps: Any, **more: Any) -> Any:
    made = builders.definition(*steps, inputs=INPUTS, **more)
    return core(folder, catalog=lambda keys: builders.catalog(keys, made))


async def deliver(core_: Core, path: str) -> Any:
    """As a taken-over control plane would: signed by the dispatch key, past every check of ours."""
    spec = builders.task(core_.keys, core_.catalog, inputs={"path": path})
    return await core_.deliver(builders.envelope(core_.keys, spec))


@pytest.mark.parametrize("path", HOSTILE)
async def test_J2_a_task_signed_by_a_taken_over_control_plane_is_refused_before_it_starts(
    tmp_path: Any, path: str
) -> None:
    async with node(tmp_path, builders.render_step(path="${inputs.path}", make_parents=True)) as agent:
        assert refused(await deliver(agent, path)) == ("path_denied", "policy")
        assert agent.files() == []


async def test_J2_a_path_that_is_known_only_after_a_step_is_refused_then(tmp_path: Any) -> None:
    """The output of one step becomes the path of the next: admission cannot know it, the runner must."""
    first = builders.render_step("first", "/srv/x", make_parents=True)
    second = builders.render_step("second", "${steps.first.path}", make_parents=True)
    async with node(tmp_path, first, second) as agent:
        await deliver(agent, "")
        assert [task.status for task in await agent.task_reports()] == [TaskStatus.SUCCEEDED]
    from hostler.agent.steps import file_render

    kind = file_render.KIND
    shown = kind.apply
    try:
        kind.apply = leading_to(shown, "/etc/cron.d/x")  # type: ignore[method-assign]
        async with node(tmp_path / "again", first, second) as agent:
            await deliver(agent, "")
            ends = [step.error_code for step in await agent.step_reports() if step.receipt]
            assert ends == ["", "path_denied"]
            assert agent.files() == ["srv/x"]
    finally:
        del kind.apply  # type: ignore[method-assign]


def leading_to(apply: Any, path: str) -> Any:
    """A step whose output is not what was written."""
    import msgspec

    async def applied(context: Any) -> Any:
        outcome = await apply(context)
        return msgspec.structs.replace(outcome, outputs={**outcome.outputs, "path": path})

    return applied
