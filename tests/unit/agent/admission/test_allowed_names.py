"""SK-05, SK-08, SK-12, EX-09: names are held to the signed definition and to this node's own authority."""

from pathlib import Path
from typing import Any

import pytest

from hostler.agent.admission.authority import LocalAuthority
from hostler.agent.admission.verdict import Admitted
from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.wire.report import TaskStatus
from support import builders
from support.agent import core, refused
from support.keys import Keys

ANY: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {"name": {"type": "string"}}}
STEPS = {
    "package": StepTemplate(id="one", kind="package.install", params={"packages": [{"name": "${inputs.name}"}]}),
    "unit": StepTemplate(id="one", kind="service.control", params={"unit": "${inputs.name}", "action": "start"}),
}
GOOD = {"package": "jq", "unit": "a.service"}
OTHER = {"package": "curl", "unit": "b.service"}


def definition(what: str) -> Definition:
    return builders.definition(STEPS[what], type_="demo.named", inputs=ANY, destructive=True,
                               allowed_packages=("jq", "jq-data"), allowed_units=("a.service",))  # fmt: skip


@pytest.mark.parametrize("what", STEPS)
async def test_SK_05_SK_08_a_name_from_the_inputs_is_held_to_the_definition_before_anything_runs(
    tmp_path: Path, what: str
) -> None:
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, definition(what))) as node:
        spec = builders.task(node.keys, node.catalog, inputs={"name": OTHER[what]})
        assert refused(node.judge(builders.envelope(node.keys, spec))) == (f"{what}_not_allowed", "policy")
        spec = builders.task(node.keys, node.catalog, inputs={"name": GOOD[what]})
        assert isinstance(node.judge(builders.envelope(node.keys, spec)), Admitted)


@pytest.mark.parametrize("what", STEPS)
async def test_SK_05_SK_08_a_name_that_is_known_only_after_a_step_is_held_to_it_then(tmp_path: Path, what: str) -> None:
    say = StepTemplate(id="say", kind="command.exec_allowlisted", params={"profile": "say"})
    bound = {
        "package": {"packages": [{"name": "${steps.say.stdout}"}]},
        "unit": {"unit": "${steps.say.stdout}", "action": "start"},
    }
    later = StepTemplate(id="one", kind=STEPS[what].kind, params=bound[what])
    profile = CommandProfile(id="say", command="/usr/bin/printf", base_args=("%s", OTHER[what]), effects=None)
    made = builders.definition(say, later, type_="demo.later", destructive=True, allowed_units=("a.service",))
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, made, commands=[profile])) as node:
        await node.run_task()
        (task,) = await node.task_reports()
        assert (task.status, task.error_code) == (TaskStatus.FAILED, f"{what}_not_allowed")


@pytest.mark.parametrize(
    ("what", "authority"),
    [
        ("package", LocalAuthority(deny_packages=("jq",))),
        ("package", LocalAuthority(allow_packages=("curl",))),
        ("package", LocalAuthority(allow_packages=("jq",), deny_packages=("jq",))),
        ("package", LocalAuthority(deny_step_kinds=("package.install",))),
        ("unit", LocalAuthority(deny_units=("a.service",))),
        ("unit", LocalAuthority(allow_units=())),
    ],
)
async def test_SK_05_SK_08_AZ_09_root_of_the_node_has_the_last_word(
    tmp_path: Path, what: str, authority: LocalAuthority
) -> None:
    async with core(
        tmp_path, catalog=lambda keys: builders.catalog(keys, definition(what)), authority=authority
    ) as node:
        spec = builders.task(node.keys, node.catalog, inputs={"name": GOOD[what]})
        assert refused(node.judge(builders.envelope(node.keys, spec))) == ("local_policy_denied", "authority")


def test_SK_05_what_a_dependency_may_be_is_the_definition_s_list_less_what_the_node_forbids() -> None:
    listed = ("jq", "jq-data", "curl")
    assert LocalAuthority().permitted_packages(listed) == listed
    assert LocalAuthority(deny_packages=("curl",)).permitted_packages(listed) == ("jq", "jq-data")
    assert LocalAuthority(allow_packages=("jq", "vim")).permitted_packages(listed) == ("jq",)


@pytest.mark.parametrize(("name", "key"), [("repositories", "uri"), ("indexes", "")])
def test_AZ_09_the_sources_of_packages_are_sources(name: str, key: str) -> None:
    url = "https://closed.example/x"
    value: Any = [{key: url}] if key else [url]
    LocalAuthority().check_value(name, value)
    with pytest.raises(HostlerError, match="forbidden on this node"):
        LocalAuthority(deny_sources=("https://closed.example",)).check_value(name, value)


CHECK = StepTemplate(id="look", kind="health.check", params={"checks": [{"type": "command", "profile": "say"}]})
SAY = CommandProfile(id="say", command="/usr/bin/true")


async def test_SK_12_EX_09_the_command_of_a_check_travels_signed_and_is_under_the_same_authority(
    tmp_path: Path,
) -> None:
    def make(keys: Keys) -> Any:
        return builders.catalog(keys, builders.definition(CHECK, type_="demo.look"), commands=[SAY])

    async with core(tmp_path / "a", catalog=make) as node:
        spec = await node.run_task()
        assert (spec.steps[0].command_profile, spec.steps[0].command_digest) == ("say", SAY.digest())
        (task,) = await node.task_reports()
        assert task.status is TaskStatus.SUCCEEDED
    async with core(tmp_path / "b", catalog=make, authority=LocalAuthority(deny_command_profiles=("say",))) as node:
        spec = builders.task(node.keys, node.catalog)
        assert refused(node.judge(builders.envelope(node.keys, spec))) == ("local_policy_denied", "authority")


async def test_SK_12_a_step_whose_checks_name_two_profiles_is_no_step_of_ours(tmp_path: Path) -> None:
    checks = [{"type": "command", "profile": name} for name in ("say", "other")]
    two = builders.definition(
        StepTemplate(id="look", kind="health.check", params={"checks": checks}), type_="demo.look"
    )
    commands = [SAY, CommandProfile(id="other", command="/usr/bin/true")]
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, two, commands=commands)) as node:
        with pytest.raises(HostlerError) as caught:
            builders.task(node.keys, node.catalog)
        assert caught.value.code == "catalog_mismatch"


async def test_SK_06_AZ_09_an_index_that_this_node_forbids_is_refused_before_anything_runs(tmp_path: Path) -> None:
    params = {"path": "/srv/env", "lock": f"a==1 --hash=sha256:{'0' * 64}", "indexes": ["https://bad.example/simple"]}
    made = builders.definition(builders.render_step(), StepTemplate(id="env", kind="python.env.create", params=params))
    authority = LocalAuthority(deny_sources=("https://bad.example",))
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, made), authority=authority) as node:
        spec = builders.task(node.keys, node.catalog)
        assert refused(node.judge(builders.envelope(node.keys, spec))) == ("local_policy_denied", "authority")
