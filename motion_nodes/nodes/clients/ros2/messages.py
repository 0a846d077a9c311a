# SPDX-License-Identifier: Apache-2.0
"""``ros2 interface``; types by name, messages from YAML, and messages as YAML."""

from __future__ import annotations

import argparse
import array
import importlib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from rclpy.node import Node

from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.errors import InvalidCommand, did_you_mean
from motion_nodes.nodes.clients.ros2.graph import Verbs
from motion_nodes.ros.environment import share_folders

SHOWN = 128
"""Items of an array, or characters of a text, that are printed by default."""


def interface_type(name: str, kind: str) -> Any:
    """Return the class of a type.

    Args:
        name: as ``sensor_msgs/msg/JointState``, or without the part in the middle.
        kind: "msg", "srv" or "action".

    Raises:
        InvalidCommand: there is no such type.
    """
    parts = name.strip("/").split("/")
    if len(parts) == 2:
        parts.insert(1, kind)
    if len(parts) != 3 or parts[1] != kind or not all(part.isidentifier() for part in parts):
        raise InvalidCommand(f"'{name}' is not of the form PACKAGE/{kind}/TYPE")
    try:
        module = importlib.import_module(f"{parts[0]}.{kind}")
    except ImportError:
        raise InvalidCommand(f"package '{parts[0]}' with {kind} types is not installed") from None
    if not hasattr(module, parts[2]):
        known = [word for word in dir(module) if word[0].isupper()]
        raise InvalidCommand(f"{parts[0]} has no {parts[2]}.{did_you_mean(parts[2], known)}")
    return getattr(module, parts[2])


def message_from(text: str, message: Any, node: Node | None = None) -> Any:
    """Fill a message with the fields of a YAML text.

    Args:
        text: mapping of fields; empty for a message of defaults.
        message: the message.
        node: whose clock serves the values ``now`` (of a time) and ``auto`` (of a header).

    Raises:
        InvalidCommand: not YAML, an unknown field or a value of a wrong type; names the field.
    """
    if text.strip():
        _fill(message, parse_yaml(text, "the values"), "", node)
    return message


def _fill(message: Any, values: Any, path: str, node: Node | None) -> None:
    fields = message.get_fields_and_field_types()
    if not isinstance(values, Mapping):
        raise InvalidCommand(
            f"'{path}' is a {type(message).__name__} and needs its fields, such as "
            f"{{{next(iter(fields), '')}: ...}}; given: {values!r}"
        )
    for name, value in values.items():
        inner = f"{path}.{name}" if path else str(name)
        if name not in fields:
            raise InvalidCommand(f"there is no field '{inner}'.{did_you_mean(str(name), fields)}")
        old = getattr(message, name)
        if value in ("now", "auto") and hasattr(old, "get_fields_and_field_types"):
            _stamp(old, value, node)
        elif hasattr(old, "get_fields_and_field_types"):
            _fill(old, value, inner, node)
        else:
            setattr(message, name, _converted(value, fields[name], inner, node))


def _stamp(part: Any, value: str, node: Node | None) -> None:
    time = part if isinstance(part, Time) else getattr(part, "stamp", None)
    if node is None or not isinstance(time, Time):
        raise InvalidCommand(f"'{value}' is the value of a time or a header only")
    now = node.get_clock().now().to_msg()
    time.sec, time.nanosec = now.sec, now.nanosec


def _converted(value: Any, field_type: str, path: str, node: Node | None) -> Any:
    """Convert a YAML value to the field's type: items of messages, floats for whole numbers."""
    item, is_array = field_type, False
    if field_type.startswith("sequence<"):
        item, is_array = field_type.removeprefix("sequence<").split(">")[0].split(",")[0], True
    elif field_type.endswith("]"):
        item, is_array = field_type.split("[")[0], True
    if is_array and not isinstance(value, list):
        raise InvalidCommand(f"'{path}' is a list ({field_type}); given: {value!r}")
    values = value if is_array else [value]
    if "/" in item:
        made = []
        for index, part in enumerate(values):
            message = interface_type(item, "msg")()
            _fill(message, part, f"{path}[{index}]", node)
            made.append(message)
        return made
    made = [_primitive(part, item, path) for part in values]
    bound = re.search(r"(\[)?(\d+)[]>]$", field_type) if is_array else None
    if bound and (len(made) != int(bound[2]) if bound[1] else len(made) > int(bound[2])):
        raise InvalidCommand(f"'{path}' is a {field_type}; {len(made)} values are given")
    return made if is_array else made[0]


def _primitive(value: Any, kind: str, path: str) -> Any:
    """Convert a YAML value to a primitive type of ROS, which rclpy itself does not check."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("float", "double"):
        if isinstance(value, str) and value.lower().lstrip("+-.") in ("nan", "inf"):
            return float(value.replace(".", ""))
        if number:
            return float(value)
    elif kind == "boolean":
        if isinstance(value, bool):
            return value
    elif kind.startswith(("string", "wstring")):
        if isinstance(value, str):
            return value
    elif isinstance(value, int) and number:
        low, high = _integer_range(kind)
        if low <= value <= high:
            return bytes([value]) if kind == "octet" else value
        raise InvalidCommand(f"'{path}' is a {kind}, {low} to {high}; given: {value}")
    raise InvalidCommand(f"'{path}' is a {kind}; given: {value!r}")


def _integer_range(kind: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer type."""
    bits = int(re.sub(r"\D", "", kind) or 8)
    if kind.startswith("int"):
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1


def message_text(value: Any, *, full: bool = False, indent: str = "") -> str:
    """Return a message, or the value of a field, as YAML lines.

    Args:
        value: the message or value.
        full: whether long arrays and texts are printed completely.
        indent: of each line.
    """
    if hasattr(value, "get_fields_and_field_types"):
        parts = [
            _field_text(name, getattr(value, name), full, indent)
            for name in value.get_fields_and_field_types()
        ]
        return "\n".join(parts) or f"{indent}{{}}"
    return _field_text("", value, full, indent).lstrip(": ")


def _field_text(name: str, value: Any, full: bool, indent: str) -> str:
    if hasattr(value, "get_fields_and_field_types"):
        return f"{indent}{name}:\n{message_text(value, full=full, indent=indent + '  ')}"
    if isinstance(value, np.ndarray | array.array):
        value = value.tolist()
    if isinstance(value, list | tuple):
        shown = value if full else value[:SHOWN]
        more = [] if len(shown) == len(value) else [f"{indent}- '... ({len(value)} items)'"]
        if not value:
            return f"{indent}{name}: []"
        return "\n".join([f"{indent}{name}:", *(_item_text(v, full, indent) for v in shown), *more])
    return f"{indent}{name}: {_scalar_text(value, full)}"


def _item_text(value: Any, full: bool, indent: str) -> str:
    if hasattr(value, "get_fields_and_field_types"):
        lines = message_text(value, full=full, indent=indent + "  ")
        return f"{indent}- {lines[len(indent) + 2 :]}"
    return f"{indent}- {_scalar_text(value, full)}"


def _scalar_text(value: Any, full: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isfinite(number):
            return repr(number)
        return ".nan" if math.isnan(number) else f"{'-' if number < 0 else ''}.inf"
    if isinstance(value, str):
        short = value if full or len(value) <= SHOWN else f"{value[:SHOWN]}..."
        return "'" + short.replace("'", "''") + "'"
    return str(value[0]) if isinstance(value, bytes) else str(value)


KINDS = ("msg", "srv", "action")
_FIELD = re.compile(r"^([A-Za-z][\w/]*)(?:<=\d+)?(\[[^]]*\])?\s+\w+")


def add_interface(parser: argparse.ArgumentParser) -> None:
    """Add the verbs."""
    verbs = Verbs(parser)
    show = verbs.add("show", _show, "print the definition of a type")
    show.add_argument("type", help="such as sensor_msgs/msg/JointState")
    show.add_argument("--no-comments", action="store_true", help="without comments")
    listing = verbs.add("list", _list, "list all types")
    for kind in KINDS:
        listing.add_argument(f"--only-{kind}s", f"-{kind[0]}", action="store_const", const=kind,
                             dest="only")  # fmt: skip
    verbs.add("package", _package, "list the types of a package", "package")
    verbs.add("packages", _packages, "list the packages with types")


def _definitions() -> Iterator[tuple[str, Path]]:
    """Yield name and file of each type, as ``std_msgs/msg/Bool``."""
    for share in share_folders():
        for kind in KINDS:
            for file in sorted(share.glob(f"*/{kind}/*.{kind}")):
                yield f"{file.parts[-3]}/{kind}/{file.stem}", file


def _show(options: argparse.Namespace) -> None:
    known = dict(_definitions())
    name = options.type
    if name.count("/") == 1:
        package, stem = name.split("/")
        name = next((n for k in KINDS if (n := f"{package}/{k}/{stem}") in known), name)
    if name not in known:
        raise InvalidCommand(f"there is no type {name}.{did_you_mean(name, known)}")
    _print(known[name], known, "", not options.no_comments)


def _print(file: Path, known: dict[str, Path], indent: str, comments: bool) -> None:
    """Print a definition, with those of its fields below them."""
    for line in file.read_text("utf-8").splitlines():
        text = line if comments and not indent else line.split("#")[0].rstrip()
        if not text and (indent or not comments):
            continue
        print(f"{indent}{text}")
        field = _FIELD.match(text)
        if field and "=" not in text.split("#")[0]:
            word = field[1] if "/" in field[1] else f"{file.parts[-3]}/{field[1]}"
            word = "std_msgs/Header" if field[1] == "Header" else word
            package, stem = word.split("/")[0], word.split("/")[-1]
            inner = known.get(f"{package}/msg/{stem}")
            if inner:
                _print(inner, known, indent + "\t", False)


def _list(options: argparse.Namespace) -> None:
    for kind in KINDS:
        if options.only in (None, kind):
            print({"msg": "Messages:", "srv": "Services:", "action": "Actions:"}[kind])
            print("\n".join(f"    {n}" for n, _ in _definitions() if n.split("/")[1] == kind))


def _package(options: argparse.Namespace) -> None:
    names = [name for name, _ in _definitions()]
    found = [name for name in names if name.split("/")[0] == options.package]
    if not found:
        packages = {name.split("/")[0] for name in names}
        raise InvalidCommand(
            f"there is no package {options.package}.{did_you_mean(options.package, packages)}"
        )
    print("\n".join(found))


def _packages(_options: argparse.Namespace) -> None:
    print("\n".join(sorted({name.split("/")[0] for name, _ in _definitions()})))
