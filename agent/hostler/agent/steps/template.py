"""Renders the template of a signed definition with values that are not trusted.

Jinja2's immutable sandbox with undefined names as errors and no loader, hence no include. A sandbox
keeps a template from reaching out, not from growing or going on, so there are budgets: of what comes
out, and of how often loops turn and calls are made. What makes much out of a number that an input
may hold, or depends on chance, is taken out. Values are never looked at as templates: `{{7*7}}` in a
variable comes out as it went in (J1).

Loaded by `file_render` when it renders: Jinja2 is too heavy for an idle agent.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from jinja2 import StrictUndefined, TemplateError, TemplateRuntimeError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hostler.base.errors import error

MAX_BYTES = 1024 * 1024
MAX_TURNS = 100_000
MAX_NUMBER = 10**18
MAX_INDENT = 64

_GROWING_FILTERS = ("batch", "center", "format", "random", "slice")
_GROWING_GLOBALS = ("lipsum",)
_GROWING_METHODS = frozenset({"center", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill"})

T = TypeVar("T")


def render(template: str, variables: Mapping[str, Any]) -> bytes:
    """The file's content.

    Raises:
        HostlerError: `template_error` for whatever the template or its values do wrong.
    """
    environment = _Environment()
    parts: list[str] = []
    room = MAX_BYTES
    try:
        tree = environment.parse(template)
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno)
        for part in environment.from_string(tree).generate(dict(variables)):
            room -= len(part)
            if room < 0:
                break
            parts.append(part)
        content = "".join(parts).encode()
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as err:
        raise error("template_error", f"the template cannot be rendered: {_sentence(err)}") from err
    except (RecursionError, MemoryError) as err:
        raise error("template_error", "the template calls itself or grows without end") from err
    if room < 0 or len(content) > MAX_BYTES:
        raise error("template_error", f"the rendered file is longer than {MAX_BYTES} bytes")
    return content


class _Environment(ImmutableSandboxedEnvironment):
    """One per rendering: it carries that rendering's budget."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False, cache_size=0)
        self._turns = MAX_TURNS
        for name in _GROWING_FILTERS:
            del self.filters[name]
        for name in _GROWING_GLOBALS:
            del self.globals[name]
        indent = self.filters["indent"]
        self.filters["indent"] = lambda text, width=4, *rest, **named: indent(text, _bounded(width), *rest, **named)
        self.filters["counted"] = self._counted

    def _counted(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._spend()
            yield item

    def _spend(self) -> None:
        self._turns -= 1
        if self._turns < 0:
            raise TemplateRuntimeError(f"more than {MAX_TURNS} loop turns and calls")

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        self._spend()
        return super().call(context, obj, *args, **kwargs)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _GROWING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers or max(abs(left), abs(right)) > MAX_NUMBER or (operator == "**" and abs(right) > MAX_INDENT):
            raise TemplateRuntimeError(f"{operator!r} is for numbers of ordinary size")
        return super().call_binop(context, operator, left, right)


def _bounded(width: Any) -> Any:
    if isinstance(width, int) and width > MAX_INDENT:
        raise TemplateRuntimeError(f"an indent is at most {MAX_INDENT} wide")
    return width


def _sentence(err: Exception) -> str:
    """Jinja2's own words: they name the variable or the line, never a value."""
    text = str(err).split("\n")[0][:200].rstrip(".")
    line = getattr(err, "lineno", None)
    return f"{text[:1].lower()}{text[1:]}" + (f" (line {line})" if line else "")
