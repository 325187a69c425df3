"""SK-07: a file from a signed template, atomically, inside the prefixes (J1, K7)."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import need_root
from hostler.agent.host.host import Host
from hostler.agent.steps.contract import StepContext, Truth
from hostler.agent.steps.file_render import KIND
from hostler.base.errors import HostlerError
from hostler.catalog.params.file import Render
from support.steps import Told, context_of


def step(root: Path, template: str = "x={{ x }}\n", path: str = "/etc/app.conf", **fields: Any) -> StepContext:
    params = Render(path=path, template=template, **{"variables": {"x": 1}, **fields})
    return context_of(params, Host(root=root, write_prefixes=("/etc", "/srv")), Told())


async def failure(context: StepContext) -> HostlerError:
    with pytest.raises(HostlerError) as failed:
        await KIND.apply(context)
    return failed.value


async def test_a_file_is_written_once_and_then_left_alone(tmp_path: Path) -> None:
    first = await KIND.apply(step(tmp_path))
    inode = (tmp_path / "etc/app.conf").stat().st_ino
    second = await KIND.apply(step(tmp_path))
    assert (tmp_path / "etc/app.conf").read_text() == "x=1\n"
    assert (first.changed, second.changed) == (True, False)
    assert first.files_before[0].exists is False
    assert first.files_after == second.files_after
    assert (tmp_path / "etc/app.conf").stat().st_ino == inode


async def test_another_mode_alone_is_a_change(tmp_path: Path) -> None:
    await KIND.apply(step(tmp_path))
    outcome = await KIND.apply(step(tmp_path, mode="0600"))
    assert outcome.changed
    assert (outcome.files_before[0].mode, outcome.files_after[0].mode) == ("0644", "0600")


async def test_the_plan_creates_replaces_or_keeps_with_a_diff(tmp_path: Path) -> None:
    (created,) = (await KIND.plan(step(tmp_path))).changes
    assert (created.action, created.bytes) == ("create", 4)
    assert "+x=1" in created.detail
    assert not (tmp_path / "etc").exists()
    await KIND.apply(step(tmp_path))
    (kept,) = (await KIND.plan(step(tmp_path))).changes
    assert (kept.action, kept.detail) == ("keep", "")
    (replaced,) = (await KIND.plan(step(tmp_path, variables={"x": 2}, mode="0600"))).changes
    assert replaced.action == "replace"
    assert "mode 0644 -> 0600" in replaced.detail
    assert "-x=1\n+x=2" in replaced.detail


async def test_a_binary_file_in_place_has_no_diff(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/app.conf").write_bytes(b"\xff\xfe")
    assert "no diff" in (await KIND.plan(step(tmp_path))).changes[0].detail


async def test_K2_the_file_itself_tells_whether_it_was_written(tmp_path: Path) -> None:
    assert (await KIND.probe(step(tmp_path))).truth == Truth.NOT_DONE
    outcome = await KIND.apply(step(tmp_path))
    found = await KIND.probe(step(tmp_path))
    assert found.truth == Truth.DONE
    assert found.outcome is not None
    assert found.outcome.outputs == outcome.outputs
    assert (await KIND.probe(step(tmp_path, variables={"x": 2}))).truth == Truth.NOT_DONE


async def test_J1_a_symbolic_link_or_a_path_outside_is_denied_by_all_three_verbs(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "victim").write_text("old")
    (tmp_path / "etc/app.conf").symlink_to(tmp_path / "victim")
    for path in ("/etc/app.conf", "/root/x", "/etc/../root/x", "/proc/self/root/x"):
        for verb in (KIND.plan, KIND.apply, KIND.probe):
            with pytest.raises(HostlerError) as failed:
                await verb(step(tmp_path, path=path))
            assert failed.value.code == "path_denied"
    assert (tmp_path / "victim").read_text() == "old"


@pytest.mark.parametrize("value", ["{{7*7}}", "{% for i in range(9) %}x{% endfor %}", "{{ ''.__class__ }}", "{# #}"])
async def test_J1_a_template_in_a_variable_stays_text(tmp_path: Path, value: str) -> None:
    await KIND.apply(step(tmp_path, variables={"x": value}))
    assert (tmp_path / "etc/app.conf").read_text() == f"x={value}\n"


@pytest.mark.parametrize(
    "template",
    [
        "{{ absent }}", "{{ x.absent }}", "{{ x", "{% nonsense %}", "{% include '/etc/passwd' %}",
        "{{ ''.__class__.__mro__ }}", "{{ ''['__class__'] }}", "{{ ''|attr('__class__') }}",
        "{{ x.__init__.__globals__ }}", "{{ range.__self__ }}", "{{ self.__init__.__globals__ }}",
        "{{ lipsum() }}", "{{ cycler.__init__.__globals__ }}", "{{ d.clear() }}", "{{ d.update(a=1) }}",
        "{{ '{0.__class__}'.format(x) }}", "{{ 'a' * 10**9 }}", "{{ 'a'|center(10**9) }}", "{{ 'a'.ljust(10**9) }}",
        "{{ 10 ** 10 ** 10 ** 10 }}", "{{ '%999999999d' % 1 }}", "{{ 'a'|indent(10**9) }}",
        "{{ [1]|batch(10**9, 0)|list }}",
        "{{ range(10**9)|list }}", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 1 / 0 }}", "{{ [][5] }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}",
        "{% for i in range(50000) %}0123456789012345678901234567890{% endfor %}",
    ],
)  # fmt: skip
async def test_J1_what_reaches_out_or_grows_is_a_template_error(tmp_path: Path, template: str) -> None:
    error = await failure(step(tmp_path, template, variables={"x": "v", "d": {}}))
    assert error.code == "template_error"
    assert not (tmp_path / "etc").exists()


async def test_ordinary_templates_render(tmp_path: Path) -> None:
    template = (
        "{% set n = namespace(total=0) %}{% for h in hosts %}{% set n.total = n.total + loop.index * 2 %}"
        "{{ loop.index }}/{{ loop.length }} {{ h.name|upper }}{{ ',' if not loop.last }}\n{% endfor %}"
        "{{ n.total }} {{ text|indent(2) }} {{ hosts|map(attribute='name')|join('+') }} {{ hosts|tojson }}\n"
    )
    hosts = [{"name": "a"}, {"name": "ä<&"}]
    await KIND.apply(step(tmp_path, template, variables={"hosts": hosts, "text": "1\n2"}))
    assert (tmp_path / "etc/app.conf").read_text() == (
        '1/2 A,\n2/2 Ä<&\n6 1\n  2 a+ä<& [{"name": "a"}, {"name": "\\u00e4\\u003c\\u0026"}]\n'
    )


async def test_an_unknown_owner_is_incompatible(tmp_path: Path) -> None:
    assert (await failure(step(tmp_path, owner="no-such-user"))).code == "incompatible"


async def test_SK_07_an_owner_is_one_of_the_root_s_own_users(tmp_path: Path) -> None:
    """A root that is not this machine's has names of its own; this machine's do not count there."""
    need_root()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nmodel:x:4711:4712::/:/bin/sh\nodd:x:-1:0\n")
    (tmp_path / "etc/group").write_text("model:x:4712:\n")
    await KIND.apply(step(tmp_path, owner="model", group="model"))
    status = (tmp_path / "etc/app.conf").stat()
    assert (status.st_uid, status.st_gid) == (4711, 4712)
    for owner in ("nobody", "mode", "odd", "model:x"):
        assert (await failure(step(tmp_path, owner=owner))).code == "incompatible"
    (change,) = (await KIND.plan(step(tmp_path, owner="root"))).changes
    assert "owner 4711:4712 -> 0:" in change.detail


async def test_a_cancelled_step_writes_nothing(tmp_path: Path) -> None:
    context = step(tmp_path)
    context.cancelled.set()
    assert (await failure(context)).code == "canceled"
    assert (await failure(replace(step(tmp_path), deadline=replace(context.deadline, at=0.0)))).code == "timeout"
    assert not (tmp_path / "etc").exists()


async def test_a_file_belongs_to_the_agent_unless_said_otherwise(tmp_path: Path) -> None:
    await KIND.apply(step(tmp_path))
    status = (tmp_path / "etc/app.conf").stat()
    assert (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
