"""Writes the reference pages that are made from the code: `docs/errors.md`, `docs/events.md`, `docs/jobs-reference.md`,
`docs/steps/*.md`.

`python -I packaging/reference.py [--check]`; with `--check` it only says whether they are fresh.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from hostler.base.codes import CODES
from hostler.base.errors import FAMILIES
from hostler.catalog.job import JobSpec
from hostler.catalog.kinds import KINDS
from hostler.catalog.params.container import ContainerRun
from hostler.cli.jobs_file import JOB_WORDS, RESOURCE_WORDS
from hostler.control.kernel.event_types import EVENT_TYPES
from hostler.control.kernel.events import ProgressBody

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTICE = "<!-- made by `make docs` from the code; do not edit -->\n\n"


def errors_page() -> str:
    lines = [
        NOTICE + "# Error codes\n",
        "Every error carries a stable `error_code`. The family says who has to act; HTTP answers are RFC 9457",
        "problem documents, gRPC errors carry the same code in their details.\n",
        "| code | family | HTTP | meaning | what to do |",
        "| --- | --- | --- | --- | --- |",
    ]
    for code, (family, meaning, hint, own) in CODES.items():
        status = "" if family in ("StepFailed", "Ambiguous") else own or FAMILIES[family].http_status
        lines.append(f"| `{code}` | {family} | {status} | {meaning} | {hint} |")
    return "\n".join(lines) + "\n"


def events_page() -> str:
    lines = [
        NOTICE + "# Events\n",
        "The event log is the spine: server-sent events, the audit and metrics read it. Ids rise; an event is",
        "stored in the transaction that it tells of. Each has `id`, `at_ms`, `type`, `org_id`, `project_id`,",
        "`operation_id`, `operation_type`, `task_id`, `node_id`, `correlation_id`, `resource_name`, `error_code`",
        "and `body`.\n",
        "| type | what it says |",
        "| --- | --- |",
        *(f"| `{type_}` | {said} |" for type_, said in EVENT_TYPES.items()),
        "\nA refused mutation is an event too: its action with `_refused`, such as `operation.submit_refused`.\n",
        "## The body of `operation.progress`\n",
        *parameter_table(msgspec.json.schema_components([ProgressBody])[1]["ProgressBody"]),
    ]
    return "\n".join(lines) + "\n"


def step_page(name: str) -> str:
    params = KINDS[name].params
    schema, parts = msgspec.json.schema_components([params], ref_template="#{name}")
    root = parts[params.__name__] if params.__name__ in parts else schema[0]
    lines = [
        NOTICE + f"# `{name}`\n",
        f"{KINDS[name].summary[:1].upper()}{KINDS[name].summary[1:]}.\n",
        inspect.getdoc(params) or "",
        "\n## Parameters\n",
        *parameter_table(root),
    ]
    for part, definition in sorted(parts.items()):
        if part != params.__name__:
            lines += [f"\n### {part}\n", *parameter_table(definition)]
    example = DOCS / "steps" / "examples" / f"{name}.yaml"
    lines += ["\n## Example\n", "```yaml", example.read_text().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def jobs_page() -> str:
    """Every field of a job, with what the code says of it; `JobSpec` leaves to `ContainerRun` what means the same."""
    _, parts = msgspec.json.schema_components([JobSpec], ref_template="#{name}")
    meant = meanings(ContainerRun) | meanings(JobSpec)
    lines = [
        NOTICE + "# Fields of a job\n",
        "What a document of a YAML job file, and the body of `POST /api/v1/projects/{project_id}/jobs`, may hold.",
        "[jobs.md](jobs.md) explains them; an unknown field is refused.\n",
        *field_table(parts["JobSpec"], meant),
        "\nIn files, people may write these words instead, with amounts such as `500m`, `4GiB` and `2h`:",
        f"{words_line(JOB_WORDS)}, and in `resources` {words_line(RESOURCE_WORDS)}.",
    ]
    for part, schema in sorted(parts.items()):
        if part != "JobSpec":
            kind = next(kind for kind in msgspec_structs(JobSpec) if kind.__name__ == part)
            first = (inspect.getdoc(kind) or "").partition("\nAttributes:")[0].strip()
            lines += [f"\n## {part}\n", *([first.replace("\n", " ") + "\n"] if first else [])]
            lines += field_table(schema, meanings(kind))
    return "\n".join(lines) + "\n"


def words_line(words: dict[str, Any]) -> str:
    return ", ".join(f"`{word}` for `{field}`" for word, (field, _) in words.items())


def msgspec_structs(type_: Any) -> list[type[msgspec.Struct]]:
    """The struct types that a type is made of."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        inner = [each for field in msgspec.structs.fields(type_) for each in msgspec_structs(field.type)]
        return [type_, *inner]
    return [each for argument in getattr(type_, "__args__", ()) for each in msgspec_structs(argument)]


def meanings(type_: type) -> dict[str, str]:
    """Field → what the docstring's `Attributes` say of it."""
    _, _, told = (inspect.getdoc(type_) or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    for names, text in re.findall(r"^    (\w+(?:, \w+)*): (.+(?:\n     +.+)*)", told, re.MULTILINE):
        for name in names.split(", "):
            found[name] = re.sub(r"\s+", " ", text)
    return found


def field_table(schema: dict[str, Any], meant: dict[str, str]) -> list[str]:
    rows = parameter_table(schema)
    lines = ["| name | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, row in zip(schema.get("properties", {}), rows[2:], strict=True):
        lines.append(f"{row} {meant.get(name, '')} |")
    return lines


def parameter_table(schema: dict[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    lines = ["| name | type | default |", "| --- | --- | --- |"]
    for name, field in schema.get("properties", {}).items():
        default = "required" if name in required else f"`{msgspec.json.encode(field.get('default')).decode()}`"
        lines.append(f"| `{name}` | {type_of(field)} | {default} |")
    return lines


def type_of(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].removeprefix("#")
    if "anyOf" in field:
        return " or ".join(type_of(option) for option in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    text = str(field.get("type", "any"))
    if text == "array":
        return f"list of {type_of(field.get('items') or {})}"
    limits = [f"{word} {field[key]}" for key, word in LIMITS.items() if key in field]
    return f"{text} ({', '.join(limits)})" if limits else text


LIMITS = {"pattern": "matches", "minimum": "at least", "maximum": "at most", "maxLength": "at most (characters)"}


def pages() -> dict[Path, str]:
    made = {DOCS / "errors.md": errors_page(), DOCS / "events.md": events_page()}
    made[DOCS / "jobs-reference.md"] = jobs_page()
    return made | {DOCS / "steps" / f"{name}.md": step_page(name) for name in KINDS}


def main() -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"stale: {path.relative_to(DOCS.parent)}; run 'make docs'")
        return 1 if stale else 0
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
