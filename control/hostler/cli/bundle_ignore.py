"""`.hostlerignore`: what stays out of a bundle, in the patterns of `.gitignore`."""

import re
from collections.abc import Iterable
from typing import NamedTuple

FILE = ".hostlerignore"


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    only_folders: bool
    keeps: bool


class Ignore:
    """The last pattern that fits decides. What lies below a folder that stays out is never looked at."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """`path` is relative, with `/`."""
        left_out = False
        for rule in self._rules:
            if (folder or not rule.only_folders) and rule.pattern.fullmatch(path):
                left_out = not rule.keeps
        return left_out


def _rule(line: str) -> _Rule | None:
    text = line.rstrip("\r\n")
    text = text.rstrip(" ") if not text.endswith("\\ ") else text
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text.removeprefix("!").replace("\\#", "#").replace("\\!", "!").replace("\\ ", " ")
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.lstrip("/")
    return _Rule(re.compile(_regex(text) if anchored else f"(?:.*/)?{_regex(text)}", re.DOTALL), only_folders, keeps)


def _regex(text: str) -> str:
    """One pattern; a star does not cross a `/`, two stars between slashes do."""
    made, at = "", 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            made, at = made + "(?:.*/)?", at + 3
        elif text.startswith("/**", at) and at + 3 == len(text):
            made, at = made + "/.*", at + 3
        elif text[at] == "*":
            made, at = made + "[^/]*", at + 1
        elif text[at] == "?":
            made, at = made + "[^/]", at + 1
        elif text[at] == "[" and (end := text.find("]", at + 2)) > 0:
            inner = text[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            made, at = made + f"(?!/)[{'^' + inner[1:] if inner[0] == '!' else inner}]", end + 1
        else:
            made, at = made + re.escape(text[at]), at + 1
    return made
