"""Shell text has no place in a signed document: not as a step kind, a parameter or an argument (OP-11, EX-06)."""

import re

import msgspec

from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import StepTemplate
from hostler.catalog.kinds import KINDS

SHELLS = frozenset("sh bash rbash dash ash zsh ksh mksh fish busybox csh tcsh".split())  # noqa: SIM905
_TAKES_TEXT = re.compile(r"-[a-z]*c|--command", re.ASCII)


def shell_of(profile: CommandProfile) -> str:
    """The shell that the command is, or that one of its arguments hands text to; "" for none."""
    words = (profile.command, *profile.base_args, *profile.allowed_args, *profile.args)
    for index, word in enumerate(words):
        name = word.rpartition("/")[2].rstrip("0123456789.-")
        following = words[index + 1] if index + 1 < len(words) else ""
        if name in SHELLS and (index == 0 or _TAKES_TEXT.fullmatch(following)):
            return word
    return ""


def foreign_params(step: StepTemplate) -> list[str]:
    """Parameters that a known kind does not have, such as `script`."""
    known = {field.encode_name for field in msgspec.structs.fields(KINDS[step.kind].params)}
    return sorted(set(step.params) - known)
