"""SE-01, OP-11: no request and no definition makes anything run that is not an allowlisted command.

The marker command would leave a file in a scratch directory. It is put everywhere text goes in; the file never comes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from hostler.base.errors import HostlerError
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition, StepTemplate
from hostler.catalog.kinds import KINDS
from hostler.catalog.lint import lint
from hostler.catalog.load import Profiles, Source
from hostler.control.api.table import ROUTES
from hostler.control.kernel.catalogs import register
from hostler.control.kernel.commands import RegisterCatalog
from hostler.control.kernel.model import Draft
from support import builders
from support.agent import core
from support.commands import ME
from support.control import ADMIN
from support.http_api import api_in
from support.keys import NOW, Keys
from support.memory_view import Bench
from support.routes import NAMES

KEYS = Keys()
TOUCH = "touch MARKER"
DRESSES = (
    "TOUCH", "; TOUCH", "&& TOUCH", "| TOUCH", "\nTOUCH\n", "$(TOUCH)", "`TOUCH`", "'; TOUCH; '", '"; TOUCH; "',
    "sh -c 'TOUCH'", "${steps.x.y}; TOUCH", "-x=$(TOUCH)", "() { :;}; TOUCH",
    "!!python/object/apply:os.system ['TOUCH']",
    "{{ cycler.__init__.__globals__.os.system('TOUCH') }}", "{% set x = ''.__class__.__mro__ %}TOUCH",
    "__import__('os').system('TOUCH')", "%0aTOUCH", "file:///bin/sh?-c=TOUCH", "a[$(TOUCH)]",
)  # fmt: skip


@pytest.fixture
def marker() -> Iterator[Path]:
    """Where the marker would be; a short way without characters that anything would quote."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="se01") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder) / "m"


def dressed(marker: Path) -> list[str]:
    return [dress.replace("TOUCH", TOUCH.replace("MARKER", str(marker))) for dress in DRESSES]


def bodies(text: str) -> list[Any]:
    """The same text as a value, as a key, and in a body that is otherwise right."""
    selector = {"nodes": [text], "labels": {text: text}}
    submit = {"operation_type": "demo.write", "version": "v1", "inputs": {"text": text}, "target_selector": selector}
    extra = submit | {"command": text, "script": text, "shell": True}
    definition = {"type": "x", "steps": [{"kind": "command.exec", "params": {"script": text}}]}
    return [{text: text}, submit, extra, {"manifest": {"payload": text}, "documents": [definition]}, text]


@pytest.mark.timeout(60)
async def test_SE_01_no_route_runs_what_a_request_says(marker: Path, tmp_path: Path) -> None:
    from urllib.parse import quote

    async with api_in(tmp_path) as api:
        await api.fleet.publish()
        await api.fleet.enroll("gpu-1")
        admin = await api.client("platform_admin")
        asked = 0
        for number, text in enumerate(dressed(marker)):
            for route in ROUTES:
                path = route.path.format(**{name: quote(text, safe="") for name in NAMES})
                plain = route.path.format(**NAMES)
                body = bodies(text)[(number + asked) % 5] if route.method != "GET" else None
                headers = {"idempotency-key": quote(text), "traceparent": quote(text), "x-command": quote(text)}
                for where in {path, plain}:
                    follow = {"follow": "false"} if "follow" in route.query else {}
                    query = dict.fromkeys(route.query, text) | follow
                    answer = await admin.request(route.method, where, params=query, json=body, headers=headers)
                    assert answer.status_code < 500, (route.name, answer.text)
                    asked += 1
        assert asked >= len(ROUTES) * len(DRESSES)
    assert not marker.exists()


@pytest.mark.timeout(60)
async def test_SE_01_no_input_is_run_by_a_node_either(marker: Path, tmp_path: Path) -> None:
    """Inputs of a definition that takes any text reach a template and an argument, and stay text."""
    show = CommandProfile(
        id="show", command="/usr/bin/printf", base_args=("%s",), args=("${text}",), run_as=ME,
        arg_schema={"text": {"type": "string"}}, timeout_seconds=10,
    )  # fmt: skip
    inputs = {"type": "object", "additionalProperties": False, "properties": {"text": {"type": "string"}}}
    render = {"path": "/srv/said", "template": "{{ text }}", "variables": {"text": "${inputs.text}"}}
    steps = (
        StepTemplate(id="write", kind="file.render", params=render),
        StepTemplate(
            id="show", kind="command.exec_allowlisted", params={"profile": "show", "args": {"text": "${inputs.text}"}}
        ),
    )
    definition = builders.definition(*steps, inputs=inputs)
    async with core(tmp_path, catalog=lambda keys: builders.catalog(keys, definition, commands=[show])) as node:
        for text in dressed(marker):
            await node.run_task(inputs={"text": text})
            assert (tmp_path / "root/srv/said").read_text() == text
        ended = [report.status for report in await node.task_reports()]
    assert ended.count("succeeded") >= len(DRESSES) - 4  # some are no argument at all: a newline, a leading dash
    assert not marker.exists()


# -- definitions ----------------------------------------------------------------------------------

KIND_WORDS = ("command", "exec", "shell", "script", "run", "bash", "sh", "process", "python", "ansible", "eval", "task")
UNKNOWN_KINDS = (
    st.lists(st.sampled_from(KIND_WORDS), min_size=1, max_size=3).map(".".join).filter(lambda name: name not in KINDS)
)
SCRIPT_NAMES = st.sampled_from(["script", "run", "cmd", "command", "shell", "sh", "exec", "inline", "code"])
TEXTS = st.sampled_from(DRESSES) | st.text(min_size=1, max_size=40)
SHELLS = st.sampled_from(["sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "fish", "bash5.2", "tcsh", "rbash"])
FOLDERS = st.sampled_from(["/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/x/"])
FLAGS = st.sampled_from(["-c", "-ec", "-lc", "-xec", "--command"])
WRAPPERS = st.sampled_from(["/usr/bin/chrt", "/usr/bin/numactl", "/usr/bin/env", "/usr/bin/xargs", "/usr/bin/taskset"])
FEW = settings(
    max_examples=70, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def refused_by_both(definition: Definition, *commands: CommandProfile) -> tuple[set[str], str]:
    """(rules of the linter, error code of a registration), neither of them empty."""
    source = Source(file="a.yaml", value={"timeout_seconds": 1}, lines={"": 1})
    found = lint(Profiles(definitions=((definition, source),), commands=tuple((each, source) for each in commands)))
    bench = Bench()
    draft = Draft(bench.view, bench.settings, bench.ids, NOW)
    catalog = builders.catalog(KEYS, definition, commands=commands)
    order = RegisterCatalog(actor=ADMIN, manifest=catalog.manifest_envelope, documents=catalog.documents)
    with pytest.raises(HostlerError) as refused:
        register(draft, order, catalog)
    assert found
    assert all(finding.hint for finding in found)
    return {finding.rule for finding in found}, refused.value.code


@FEW
@example(kind="command.exec", name="script", text="$(TOUCH)", backend="node_agent")
@example(kind="command.exec", name="script", text="TOUCH", backend="k8s_adapter")
@given(kind=UNKNOWN_KINDS, name=SCRIPT_NAMES, text=TEXTS, backend=st.just("node_agent"))
def test_OP_11_a_step_kind_that_would_run_text_is_refused_by_both(
    kind: str, name: str, text: str, backend: Any
) -> None:
    step = StepTemplate(id="one", kind=kind, params={name: text})
    rules, code = refused_by_both(builders.definition(step, backend_type=backend))
    assert "step-kind" in rules
    assert code == "unknown_step_kind"


@FEW
@example(kind="command.exec_allowlisted", name="script", text="TOUCH")
@given(kind=st.sampled_from(sorted(KINDS)), name=SCRIPT_NAMES, text=TEXTS)
def test_OP_11_no_kind_takes_a_script_beside_its_parameters(kind: str, name: str, text: str) -> None:
    assume(name not in KINDS[kind].params.__struct_fields__)  # an argument vector is called that, and is no text
    params = {"profile": "show"} if kind == "command.exec_allowlisted" else {}
    step = StepTemplate(id="one", kind=kind, params=params | {name: text})
    show = CommandProfile(id="show", command="/usr/bin/true", effects=None)
    rules, code = refused_by_both(builders.definition(step), show)
    assert "params" in rules
    assert code == "invalid_definition"


@FEW
@example(words=("/bin/sh", "-c", "TOUCH"), text="TOUCH")
@example(words=("/usr/bin/busybox", "sh"), text="TOUCH")
@given(
    words=st.one_of(
        st.tuples(st.builds(str.__add__, FOLDERS, SHELLS), FLAGS),
        st.tuples(WRAPPERS, SHELLS, FLAGS),
        st.tuples(WRAPPERS, st.builds(str.__add__, FOLDERS, SHELLS), FLAGS),
    ),
    text=TEXTS,
)
def test_OP_11_EX_06_a_command_profile_that_hands_text_to_a_shell_is_refused_by_both(
    words: tuple[str, ...], text: str
) -> None:
    profile = CommandProfile(id="show", command=words[0], args=(*words[1:], text))
    step = StepTemplate(id="one", kind="command.exec_allowlisted", params={"profile": "show"})
    rules, code = refused_by_both(builders.definition(step), profile)
    assert "interpreter" in rules
    assert code == "invalid_definition"


def test_what_only_names_a_shell_is_no_shell() -> None:
    """A file may be called like one, and be looked at."""
    profile = CommandProfile(id="show", command="/usr/bin/stat", args=("--", "/bin/sh"))
    step = StepTemplate(id="one", kind="command.exec_allowlisted", params={"profile": "show"})
    bench = Bench()
    catalog = builders.catalog(KEYS, builders.definition(step, type_="demo.look"), commands=[profile])
    order = RegisterCatalog(actor=ADMIN, manifest=catalog.manifest_envelope, documents=catalog.documents)
    draft = Draft(bench.view, bench.settings, bench.ids, NOW)
    assert register(draft, order, catalog).result == ["demo.look@v1"]
