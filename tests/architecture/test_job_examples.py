"""The job files of docs/examples are jobs, and docs/jobs.md shows only commands and flags that exist."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from hostler.cli.jobs import command
from hostler.cli.jobs_file import read_jobs

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = sorted((DOCS / "examples" / "jobs").glob("*.yaml"))
SHOWN = re.findall(r"^hostler (?:--project \w+ )?jobs (.+?)(?:\s+#.*)?$", (DOCS / "jobs.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_JB_02_every_example_is_a_job(path: Path) -> None:
    assert read_jobs(path)
    text = (DOCS / "jobs.md").read_text()
    assert f"examples/jobs/{path.name}" in text


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_of_the_page_is_one_that_the_program_takes(line: str) -> None:
    """Parsed as far as the flags go; nothing is sent."""
    name, *words = shlex.split(line)
    inner = command.commands[name]
    with inner.make_context(name, words, resilient_parsing=False) as context:
        assert context.params
    assert CliRunner().invoke(command, [name, "--help"]).exit_code == 0


def test_the_page_shows_some() -> None:
    assert len(SHOWN) >= 6
    assert len(EXAMPLES) >= 4
