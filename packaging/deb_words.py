"""Manual pages and shell completions, taken from the programs' own parsers."""

import argparse
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import click
import shtab
from click.shell_completion import get_completion_class
from deb_parts import Package

from hostler.agent.main import _parser as agent_parser
from hostler.cli.main import main as cli
from hostler.control.main import _parser as control_parser

PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "hostler-agent": agent_parser,
    "hostler-control": control_parser,
}
SECTIONS = {"hostler-agent": 8, "hostler-control": 8, "hostler": 1}


def manual_pages(package: Package, moment: int) -> dict[str, str]:
    """Path below /usr/share/man → page."""
    date = datetime.fromtimestamp(moment, UTC).date().isoformat()
    pages = {}
    for name in package.programs:
        section = SECTIONS[name]
        body = _argparse_page(PARSERS[name]()) if name in PARSERS else _click_page(cli, name)
        heading = f'.TH {name.upper()} {section} "{date}" "Hostler" "Hostler manual"\n'
        pages[f"man{section}/{name}.{section}.gz"] = heading + "\n".join(body) + "\n"
    return pages


def completions(package: Package) -> dict[str, str]:
    """Path below /usr/share → script."""
    found = {}
    for name in package.programs:
        places = {
            "bash": f"bash-completion/completions/{name}",
            "zsh": f"zsh/vendor-completions/_{name}",
        }
        if name in PARSERS:
            for shell, place in places.items():
                found[place] = shtab.complete(PARSERS[name](), shell=shell)
            continue
        for shell, place in (places | {"fish": f"fish/vendor_completions.d/{name}.fish"}).items():
            kind = get_completion_class(shell)
            assert kind is not None
            found[place] = kind(cli, {}, name, f"_{name.upper()}_COMPLETE").source()
    return found


def _argparse_page(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield ".SH NAME"
    yield f"{parser.prog} \\- {_roff(_first_sentence(parser.description))}"
    yield ".SH SYNOPSIS"
    yield f".B {parser.prog}\n.I COMMAND\n[OPTIONS]"
    yield ".SH DESCRIPTION"
    yield _roff(parser.description or "")
    yield ".SH COMMANDS"
    for words, command in _commands(parser):
        yield f".SS {_roff(' '.join(words))}"
        yield _roff(command.description or "")
        for action in command._actions:
            if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
                names = ", ".join(action.option_strings) or action.metavar or action.dest
                said = (action.help or "") % {"default": action.default}
                yield f".TP\n.B {_roff(str(names))}\n{_roff(said)}"
    yield from _ending()


def _commands(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                inner = list(_commands(command, (*words, name)))
                yield from inner or [((*words, name), command)]


def _click_page(group: click.Command, name: str) -> Iterator[str]:
    context = click.Context(group, info_name=name)
    yield ".SH NAME"
    yield f"{name} \\- {_roff(_first_sentence(group.help))}"
    yield ".SH SYNOPSIS"
    yield f".B {name}\n[OPTIONS]\n.I COMMAND\n[ARGUMENTS]"
    yield ".SH DESCRIPTION"
    yield _roff(_plain(group.help))
    yield ".SH OPTIONS"
    yield from _options(group, context)
    yield ".SH COMMANDS"
    yield from _click_commands(group, context, ())
    yield from _ending()


def _click_commands(group: click.Command, context: click.Context, words: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _click_commands(command, inner, (*words, name))
            continue
        usage = " ".join(command.collect_usage_pieces(inner))
        yield f".SS {_roff(' '.join((*words, name)))} {_roff(usage)}"
        yield _roff(_plain(command.help))
        yield from _options(command, inner)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and parameter.name != "help":
            yield f".TP\n.B {_roff(record[0])}\n{_roff(record[1])}"


def _ending() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    yield "0 done; 1 refused or failed; 2 wrong usage or configuration; 3 control plane not reachable."
    yield ".SH SEE ALSO"
    yield ".BR hostler (1),\n.BR hostler\\-agent (8),\n.BR hostler\\-control (8)"


def _first_sentence(text: str | None) -> str:
    return _plain(text).split(". ")[0].rstrip(".").replace("\n", " ")


def _plain(text: str | None) -> str:
    return (text or "").replace("\b\n", "").replace("\b", "").strip()


def _roff(text: str) -> str:
    """Backslashes, hyphens and leading dots mean something to troff."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^\s*([.'])", r"\\&\1", escaped)
