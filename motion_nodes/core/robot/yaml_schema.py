# SPDX-License-Identifier: Apache-2.0
"""YAML: strict reading into frozen dataclasses with readable errors, and readable writing."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
import types
import typing
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from motion_nodes.errors import InvalidDescription, did_you_mean

T = TypeVar("T")
_FRIENDLY = {
    "`object | null`": "a block of fields",
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "text",
    "`array`": "a list",
    "`object`": "a block of fields",
    "`bool`": "true or false",
    "`null`": "nothing",
}
MAX_CHARACTERS = 10_000_000
"""Max number of characters of a text."""
MAX_DEPTH = 64
"""Max nesting depth; aliases count as their targets."""
MAX_VALUES = 1_000_000
"""Max number of values; aliases count as their targets: a few lines can expand to 10^9."""
_COMPILED = bool(yaml.__with_libyaml__)
"""Whether PyYAML has its compiled parser and emitter, which are several times as fast."""
_BASES: tuple[Any, ...] = (
    (yaml.composer.Composer, yaml.CSafeLoader) if _COMPILED else (yaml.SafeLoader,)
)
_DUMPER_BASE: Any = yaml.CSafeDumper if _COMPILED else yaml.SafeDumper


def decode(data: object, into: type[T], where: str, path: str = "") -> T:
    """Convert plain data to a dataclass; unknown fields are errors.

    Args:
        data: dicts, lists, text and numbers.
        into: the dataclass.
        where: name of the file, for errors.
        path: path of the data in the file; empty: the whole file.

    Raises:
        InvalidDescription: ``<file>: <path> ...`` for an unknown field (names the closest one), a
            missing field, a wrong type, or a number that is not finite or out of range.
    """
    _refuse_unknown(data, into, where, path)
    return typing.cast(T, _convert(data, into, where, path))


def _convert(data: object, into: Any, where: str, prefix: str) -> Any:
    """Convert with msgspec; ``prefix`` is the path of ``data``."""
    try:
        return msgspec.convert(data, into)
    except msgspec.ValidationError as error:
        path, text = _reworded(str(error), data, prefix)
        raise InvalidDescription(f"{where}: {path or 'the file'}: {text}", field=path) from None


def _refuse_unknown(data: object, kind: Any, where: str, path: str) -> None:
    """Reject unknown fields and numbers that are not finite, recursively."""
    if isinstance(data, float) and not math.isfinite(data):
        raise InvalidDescription(
            f"{where}: {path} is {data}; a finite number is needed.", field=path
        )
    kind = _bare(kind)
    if typing.get_origin(kind) is typing.Literal and data not in typing.get_args(kind):
        allowed = [str(word) for word in typing.get_args(kind)]
        hint = did_you_mean(str(data), allowed)
        raise InvalidDescription(f"{where}: {path} is {data!r}.{hint}", field=path)
    if isinstance(data, dict):
        _refuse_unknown_in_mapping(data, kind, where, path)
    elif isinstance(data, list):
        inner = _element_type(kind)
        for i, item in enumerate(data):
            _refuse_unknown(item, inner, where, f"{path}[{i}]")


def _refuse_unknown_in_mapping(data: dict[Any, Any], kind: Any, where: str, path: str) -> None:
    """Check one block; ``kind`` is a dataclass, a dict type or anything else."""
    prefix = f"{path}." if path else ""
    for key in data:
        if not isinstance(key, str):
            raise InvalidDescription(
                f"{where}: {prefix}{key} is not text; write names in quotes: '{key}'.",
                field=f"{prefix}{key}",
            )
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = [field.name for field in dataclasses.fields(kind)]
        for key in data:
            if key not in fields:
                hint = did_you_mean(key, fields).replace(" Available:", " Fields:")
                field = f"{prefix}{key}"
                raise InvalidDescription(f"{where}: {field} is not a field.{hint}", field=field)
        for key, value in data.items():
            _refuse_unknown(value, hints[key], where, prefix + key)
        return
    arguments = typing.get_args(kind)
    inner = arguments[1] if typing.get_origin(kind) is dict else None
    for key, value in data.items():
        _refuse_unknown(value, inner, where, prefix + key)
        if inner is not None:
            # msgspec does not report the key of a mapping, so its values are converted one by one.
            _convert(value, inner, where, prefix + key)


def _bare(kind: Any) -> Any:
    """Return the type without its bounds and without ``| None``."""
    if typing.get_origin(kind) is typing.Annotated:
        return _bare(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _bare(typing.get_args(kind)[0])
    return kind


def _element_type(kind: Any) -> Any:
    """Return the type of the elements of a tuple or list type."""
    arguments = typing.get_args(kind)
    return arguments[0] if arguments else None


def _reworded(message: str, data: object, prefix: str) -> tuple[str, str]:
    """Return path and problem of a message of msgspec, reworded and with the value."""
    text, _, path = message.partition(" - at `")
    path = path.rstrip("`").removeprefix("$").removeprefix(".")
    for word, friendly in _FRIENDLY.items():
        text = text.replace(word, friendly)
    text = text.replace("Object missing required field", "is missing the field")
    # The only pattern in use, described in words.
    text = re.sub(
        r"text matching regex '\^\[a-z\]\[a-z0-9_\]\*\$'",
        "lower-case letters, digits and underscores, a letter first",
        text,
    )
    text = text[0].lower() + text[1:]
    given = _value_at(data, path)
    shown = f" (given: {given!r})" if isinstance(given, str | int | float) else ""
    hint = ""
    if isinstance(given, str) and re.fullmatch(r"[-+0-9.eE]+", given):
        hint = " Write numbers without quotes."
    joint = "" if not prefix or not path or path.startswith("[") else "."
    return prefix + joint + path, f"{text}{shown}.{hint}"


def _value_at(data: Any, path: str) -> object:
    """Return the value at a path such as ``a.b[2].c``, or None if it does not exist."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            data = data[name] if name else data[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return data


class _Loader(*_BASES):  # type: ignore[misc]
    """Safe loader that reads 1e-3 as a number.

    Duplicate keys, excessive nesting, self-references and excessive alias expansion are rejected.
    """

    def __init__(self, text: str) -> None:
        _BASES[-1].__init__(self, text)
        self.anchors: dict[str, yaml.Node] = {}
        self._open: list[list[int]] = []
        self._measured: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node and count values and depth."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        mark, alias = event.start_mark, isinstance(event, yaml.AliasEvent)
        if len(self._open) >= MAX_DEPTH:
            raise _too_much(f"more than {MAX_DEPTH} blocks are nested", mark)
        self._open.append([1, 1])
        node = super().compose_node(parent, index)
        values, depth = self._open.pop()
        if alias:
            if id(node) not in self._measured:
                raise _too_much("a block contains itself", mark)
            values, depth = self._measured[id(node)]
        else:
            self._measured[id(node)] = values, depth
        if len(self._open) + depth > MAX_DEPTH:
            raise _too_much(f"more than {MAX_DEPTH} blocks are nested", mark)
        if self._open:
            around = self._open[-1]
            around[0], around[1] = around[0] + values, max(around[1], depth + 1)
            values = around[0]
        if values > MAX_VALUES:
            raise _too_much(f"more than {MAX_VALUES} values, aliases counted", mark)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping; reject duplicate keys."""
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the field '{key}' is defined twice (first in line {seen[key]})",
                    key_node.start_mark,
                )
            if isinstance(key, Hashable):
                seen[key] = key_node.start_mark.line + 1
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _bounded_int(loader: _Loader, node: Any) -> int:
    """Return a whole number that can be converted to a float."""
    number: int = loader.construct_yaml_int(node)
    if abs(number) > sys.float_info.max:
        raise yaml.constructor.ConstructorError(
            None, None, "a number is out of range", node.start_mark
        )
    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _bounded_int)
# YAML 1.1 (PyYAML) requires a decimal point in floats, YAML 1.2 does not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


class _TaggedLoader(_Loader):
    """Reads nodes with tags of Python objects as plain data; constructs no objects."""


def _without_tag(loader: _TaggedLoader, suffix: str, node: yaml.Node) -> Any:
    """Return a node's data without its tag; for an empty node the name in the tag."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node) or suffix.rpartition(":")[2]


_TaggedLoader.add_multi_constructor("", _without_tag)
_TaggedLoader.add_multi_constructor("!", _without_tag)


class _MergingLoader(_TaggedLoader):
    """Merges blocks of the same name, and takes the last of other values, as rcl does."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping; merge duplicate keys."""
        merged: dict[Hashable, Any] = {}
        self.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            merged[key] = _merged(merged.get(key), self.construct_object(value_node, deep=True))
        return merged


_MergingLoader.add_constructor(
    "tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node)
)


def _merged(first: Any, then: Any) -> Any:
    """Return two values of the same name as one: blocks with the fields of both."""
    if not (isinstance(first, dict) and isinstance(then, dict)):
        return then
    return first | {key: _merged(first.get(key), value) for key, value in then.items()}


def _too_much(text: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.composer.ComposerError(None, None, text, mark)


class _Dumper(_DUMPER_BASE):  # type: ignore[misc]
    """Block style for fields, flow style for short lists of numbers."""

    def ignore_aliases(self, data: Any) -> bool:
        """Expand aliases, for readability."""
        return True


def _numbers_in_a_line(dumper: _Dumper, values: Any) -> yaml.Node:
    flow = all(not isinstance(value, dict | list | tuple) for value in values)
    node: yaml.Node = dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flow)
    return node


def _shortest_float(dumper: _Dumper, value: float) -> yaml.Node:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be written to a file")
    text = repr(value)
    # YAML 1.1 reads an exponent without a decimal point as text.
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    node: yaml.Node = dumper.represent_scalar("tag:yaml.org,2002:float", text)
    return node


_Dumper.add_representer(list, _numbers_in_a_line)
_Dumper.add_representer(tuple, _numbers_in_a_line)
_Dumper.add_representer(float, _shortest_float)


def read_text(file: Path) -> str:
    """Return the text of a file.

    Raises:
        InvalidDescription: no such file, or not UTF-8 text.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidDescription(f"{file}: cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidDescription(f"{file}: is not UTF-8 text ({error.reason}).") from None


def read_yaml(file: Path, *, tagged: bool = False) -> Any:
    """Return the mapping in a YAML file.

    Args:
        file: path of the file.
        tagged: accept tags of Python objects and return their plain data.

    Raises:
        InvalidDescription: an unreadable file, a syntax error (with its position), or not a
            mapping.
    """
    return parse_yaml(read_text(file), str(file), tagged=tagged)


def parse_yaml(text: str, where: str, *, tagged: bool = False, repeated: bool = False) -> Any:
    """Return the mapping in a YAML text.

    Args:
        text: YAML.
        where: name of the file, for errors.
        tagged: see :func:`read_yaml`.
        repeated: accept names that are repeated, and nothing, as parameter files of ROS; and tags.

    Raises:
        InvalidDescription: as :func:`read_yaml`.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidDescription(
            f"{where}: has {len(text)} characters; at most {MAX_CHARACTERS} are read."
        )
    try:
        plain = _TaggedLoader if tagged else _Loader
        data = yaml.load(text, _MergingLoader if repeated else plain)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = "cannot be used" if isinstance(error, yaml.composer.ComposerError) else "is not YAML"
        raise InvalidDescription(f"{where}{place}: {what}: {error.problem}.") from None
    except RecursionError:
        raise InvalidDescription(f"{where}: is nested too deeply to be read.") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidDescription(f"{where}: is not YAML: {error}") from None
    if data is None and repeated:
        return {}
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise InvalidDescription(f"{where}: a block of fields is needed, this is {found}.")
    return data


def yaml_text(data: Mapping[str, Any], comment: str = "") -> str:
    """Return data as YAML, fields in the given order, numbers with full precision.

    Args:
        data: text, numbers, lists and mappings.
        comment: comment at the top, possibly of several lines.
    """
    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True
    )


def without_empty(data: Any) -> Any:
    """Return data without empty fields, which get their defaults."""
    if isinstance(data, dict):
        return {key: without_empty(value) for key, value in data.items() if value is not None}
    return [without_empty(item) for item in data] if isinstance(data, list) else data
