"""Strict YAML for what operators author: no duplicate keys, no tags, no anchors, bounded size, line numbers.

Only the authors' side reads YAML; nodes get canonical JSON from the signed catalog.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hostler.base.errors import error
from hostler.base.strict import convert
from hostler.catalog.command_profile import CommandProfile
from hostler.catalog.definition import Definition
from hostler.catalog.resolver import ResolverConfig

T = TypeVar("T", Definition, CommandProfile, ResolverConfig)

MAX_BYTES = 1_048_576
MAX_DEPTH = 32
_SCALARS = {"str", "int", "float", "bool", "null"}
Lines = dict[str, int]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One parsed file: its value, and the line (from 1) of every JSON pointer in it."""

    file: str
    value: Any
    lines: Lines

    def line(self, pointer: str) -> int:
        """The line of `pointer`, or of the nearest value around it."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines.get(pointer, 1)


def read_source(path: Path) -> Source:
    """Raises `invalid_yaml` naming file and line."""
    try:
        data = path.read_bytes()
    except OSError as err:
        raise error("invalid_yaml", f"{path} cannot be read: {err.strerror}") from err
    return parse(data, str(path))


def parse(data: bytes, file: str) -> Source:
    """The document in `data`; see `read_source`."""
    found = parse_all(data, file)
    if len(found) != 1:
        raise error("invalid_yaml", f"{file} holds {len(found)} documents, not one")
    return found[0]


def parse_all(data: bytes, file: str) -> list[Source]:
    """Every document in `data`, with the lines that they have in the file; see `read_source`."""
    import yaml

    if len(data) > MAX_BYTES:
        raise error("invalid_yaml", f"{file} is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode()
        if any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text, yaml.CSafeLoader)):
            raise error("invalid_yaml", f"{file} uses anchors or aliases, which profiles do not have")
        nodes = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except UnicodeDecodeError as err:
        raise error("invalid_yaml", f"{file} is not UTF-8 text") from err
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = getattr(err, "problem", None) or "not valid YAML"
        raise error("invalid_yaml", f"{file}{where}: {problem}") from err
    if not nodes or not all(isinstance(node, yaml.MappingNode) for node in nodes):
        raise error("invalid_yaml", f"{file} does not hold a mapping")
    made = []
    for node in nodes:
        lines: Lines = {}
        made.append(Source(file=file, value=_build(node, "", file, lines, 0), lines=lines))
    return made


def _build(node: Any, pointer: str, file: str, lines: Lines, depth: int) -> Any:
    import yaml

    line = node.start_mark.line + 1
    lines[pointer] = line
    if depth > MAX_DEPTH:
        raise error("invalid_yaml", f"{file}, line {line}: nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, pointer, file, lines, depth)
    if isinstance(node, yaml.SequenceNode):
        return [_build(n, f"{pointer}/{i}", file, lines, depth + 1) for i, n in enumerate(node.value)]
    if node.tag.rpartition(":")[2] not in _SCALARS:
        raise error("invalid_yaml", f"{file}, line {line}: {node.tag} values are not accepted, quote the text")
    return yaml.constructor.SafeConstructor().construct_object(node)


def _mapping(node: Any, pointer: str, file: str, lines: Lines, depth: int) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key, line = key_node.value, key_node.start_mark.line + 1
        if not isinstance(key, str) or key_node.tag != "tag:yaml.org,2002:str":
            raise error("invalid_yaml", f"{file}, line {line}: a key is not text")
        if key in built:
            raise error("invalid_yaml", f"{file}, line {line}: key {key!r} stands twice")
        built[key] = _build(value_node, f"{pointer}/{key}", file, lines, depth + 1)
        lines[f"{pointer}/{key}"] = line
    return built


def typed(source: Source, type_: type[T]) -> T:
    """Raises `invalid_definition` naming file, line and value."""
    value = source.value
    if type_ is CommandProfile and value.get("arg_schema", {}) is None:
        value = value | {"arg_schema": {}}  # how seed 004 §4.7 writes a profile without arguments (EX-04)
    try:
        return convert(value, type_, code="invalid_definition", what=source.file)
    except Exception as err:
        pointer = getattr(err, "pointer", None)
        if pointer is None:
            raise
        message = str(err).removeprefix(source.file)
        where = f"{source.file}, line {source.line(pointer)}"
        raise error("invalid_definition", f"{where}{message}", pointer=pointer) from err


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below one profiles directory, with the source of each."""

    definitions: tuple[tuple[Definition, Source], ...]
    commands: tuple[tuple[CommandProfile, Source], ...]
    resolvers: tuple[tuple[ResolverConfig, Source], ...] = ()

    @property
    def configs(self) -> dict[str, ResolverConfig]:
        """Resolver configurations by name, which is the name of their file."""
        return {Path(source.file).stem: config for config, source in self.resolvers}


def load_profiles(directory: Path) -> Profiles:
    """Reads `definitions/*.yaml`, `commands/*.yaml` and `resolver/*.yaml`.

    Raises:
        HostlerError: `invalid_yaml`, `invalid_definition` for the first file that cannot be read.
    """
    if not (directory / "definitions").is_dir():
        raise error("invalid_yaml", f"{directory} holds no 'definitions' directory")
    return Profiles(
        definitions=tuple(_typed_files(directory / "definitions", Definition)),
        commands=tuple(_typed_files(directory / "commands", CommandProfile)),
        resolvers=tuple(_typed_files(directory / "resolver", ResolverConfig)),
    )


def _typed_files(directory: Path, type_: type[T]) -> list[tuple[T, Source]]:
    sources = [read_source(path) for path in sorted(directory.glob("*.yaml"))]
    return [(typed(source, type_), source) for source in sources]
