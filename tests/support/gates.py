"""One task, one catalog, and the gates that judge it."""

from typing import Any

from hostler.agent.admission.admit import admit
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate
from hostler.wire.task import TaskSpec
from support import builders
from support.keys import NOW, Keys

KEYS = Keys()
CATALOG = builders.catalog(KEYS)
PROFILE = CommandProfile(id="say", command="/bin/true", run_as="nobody")
EXEC = builders.definition(
    StepTemplate(id="run", kind="command.exec_allowlisted", params={"profile": "say"}), type_="demo.run"
)
NAMED = builders.definition(
    builders.render_step(path="${inputs.path}"),
    inputs={
        "type": "object",
        "additionalProperties": False,
        "required": ["path"],
        "properties": {"path": {"type": "string", "pattern": "^/srv/"}},
    },
)


def judge(spec: Any, catalog: Any = CATALOG, **view: Any) -> Any:
    return admit(builders.envelope(KEYS, spec), builders.view(KEYS, catalog, **view), NOW)


def a_task(catalog: Any = CATALOG, **changes: Any) -> TaskSpec:
    return builders.task(KEYS, catalog, **changes)
