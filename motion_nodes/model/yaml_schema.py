# SPDX-License-Identifier: Apache-2.0
"""Strict conversion of plain data (from YAML) to a frozen dataclass, with readable errors."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from typing import Any, TypeVar

import msgspec

from motion_nodes.errors import InvalidDescription, did_you_mean

T = TypeVar("T")


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


def _refuse_unknown_in_mapping(
    data: dict[Any, Any],
    kind: Any,
    where: str,
    path: str,
) -> None:
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
