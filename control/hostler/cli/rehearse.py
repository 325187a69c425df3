"""`hostler profiles test`: hands a profile to `hostler-agent try`, which runs it against a scratch root."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from hostler.base.errors import error
from hostler.cli.output import guarded, output_option

AGENT = "hostler-agent"


@click.command(name="test")
@click.argument("profile", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--input", "-i", "pairs", multiple=True, help="name=text, or name:=JSON (repeatable)")
@click.option("--input-file", type=click.File(), help="inputs as YAML or JSON, - for standard input")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="scratch directory that stands for / [default: one that is removed again]",
)
@click.option("--plan", is_flag=True, help="only show what it would do")
@click.option("--allow-host", is_flag=True, help="let steps reach this machine itself, such as commands")
@click.option("--capability", "capabilities", multiple=True, metavar="KEY=VALUE", help="as if this machine had it")
@output_option
@guarded
def command(profile: Path, pairs: tuple[str, ...], input_file: Any, output: str, **options: Any) -> None:
    """Run PROFILE, a definition's file, on this machine against a scratch root.

    The agent's own admission, journal, resolver and runner do the work, with throwaway keys and no control plane.
    Commands and all else that cannot be kept inside the root is refused unless --allow-host is given. Command
    profiles and resolver configurations are found beside the 'definitions' directory that PROFILE lies in.
    """
    from hostler.catalog.definition import Definition
    from hostler.catalog.load import read_source, typed
    from hostler.cli.operations_api import read_inputs

    agent = find_agent()
    ref = typed(read_source(profile), Definition).ref
    inputs = read_inputs(pairs, input_file)
    flags = [f"--{name.replace('_', '-')}" for name in ("plan", "allow_host") if options[name]]
    flags += [word for pair in options["capabilities"] for word in ("--capability", pair)]
    flags += ["--root", str(options["root"].resolve())] if options["root"] else []
    flags += ["--json"] if output == "json" else []
    with _directory_of(profile) as directory:
        order = [agent, "try", *flags, "--inputs-file", "-", "--", str(directory), ref]
        done = _run(order, msgspec.json.encode(inputs))
    sys.exit(done)


def find_agent() -> str:
    """The program beside this one. Raises `not_found` where the agent is not installed."""
    beside = Path(sys.executable).with_name(AGENT)
    found = str(beside) if beside.is_file() else shutil.which(AGENT)
    if found is None:
        hint = "install the agent beside the command line: pip install 'hostler[agent]'"
        raise error("not_found", f"there is no {AGENT} on this machine to run the profile with", hint=hint)
    return found


@contextlib.contextmanager
def _directory_of(profile: Path) -> Iterator[Path]:
    """The profiles directory it lies in; for a file that lies in none, one with it alone."""
    here = profile.resolve().parent
    if here.name == "definitions":
        yield here.parent
        return
    with tempfile.TemporaryDirectory(prefix="hostler-profile-") as made:
        definitions = Path(made) / "definitions"
        definitions.mkdir()
        shutil.copyfile(profile, definitions / f"{profile.stem}.yaml")
        yield Path(made)


def _run(order: list[str], inputs: bytes) -> int:
    """Its exit code. What it prints goes where ours goes; Ctrl-C reaches both, and it ends the task in order."""
    child = subprocess.Popen(order, stdin=subprocess.PIPE)
    with child:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(inputs)
            child.stdin.close()
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return child.wait()
