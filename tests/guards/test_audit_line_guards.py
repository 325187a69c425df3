"""Each guard of the audit's before and after, taken out of the source: a test that exists for it goes red."""

import pytest

from support.mutant import Guard, outcome_without

KERNEL = "hostler.control.kernel"
LINES = "tests/architecture/test_audit_lines.py"
SAID = f"{LINES}::test_SE_02_a_mutation_leaves_who_where_what_and_what_was_before"

GUARDS = {
    "a change is in the line": (f"{KERNEL}.events", "json_text(body | change._asdict())", "json_text(body)", SAID),
    "a node's change is in the line": (
        f"{KERNEL}.events",
        'body=json_text({"name": node.name, **body}),',
        'body=json_text({"name": node.name}),',
        SAID,
    ),
    "only what differs": (
        f"{KERNEL}.changes",
        "names = [name for name in before if before[name] != after[name]]",
        "names = list[str]()",
        SAID,
    ),
    "never the way into a receiver": (
        f"{KERNEL}.webhooks",
        "change = changes.made(state=row.state, types=command.types)",
        "change = changes.made(state=row.state, types=command.types, url=command.url)",
        f"{SAID}[webhooks.create]",
    ),
    "not even the hash of a token": (
        f"{KERNEL}.principals",
        'return {"role": row.role,',
        'return {"token": row.token_sha256, "role": row.role,',
        f"{SAID}[principals.create]",
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_without_the_guard_the_suite_is_red(name: str) -> None:
    module, text, without, test = GUARDS[name]
    outcome = outcome_without(Guard(module, text, without), test)
    assert outcome.returncode == 1, f"nobody noticed that the guard was gone: {name}\n{outcome.stdout[-2000:]}"
