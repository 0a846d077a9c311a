# SPDX-License-Identifier: Apache-2.0
"""Every parameter that a node declares is read by its code."""

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import motion_nodes
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.nodes.policy.policy_params import rmp_field
from motion_nodes.nodes.registry import NODES, node_class
from motion_nodes.ros.parameters import declared

PACKAGE = Path(motion_nodes.__file__).parent
ELSEWHERE = {"robot", "peer_defaults", "rmpflow_file", "description", "joint_order"}
"""Read before the dataclass exists (RobotNode.prepare and robot_defaults)."""


def attributes_read(source: str) -> set[str]:
    """Return the names read as attributes of ``params``, or by ``early_text``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "early_text":
            found.add(ast.literal_eval(node.args[0]) if isinstance(node.args[0], ast.Constant)
                      else "")  # fmt: skip
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.lstrip("_") == "params":
                found.add(node.attr)
    return found


def read_by_members(params_type: type, read: set[str]) -> set[str]:
    """Return the names that properties and methods of the parameters read, of those used."""
    found: set[str] = set()
    for name in read & set(dir(params_type)):
        value = inspect.getattr_static(params_type, name)
        if isinstance(value, property | functools.cached_property) or inspect.isfunction(value):
            function = getattr(value, "fget", None) or getattr(value, "func", value)
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
            found |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
            }
    return found


def patterns_read(source: str) -> list[str]:
    """Return patterns of the names that ``getattr(params, f"...")`` composes."""
    return [
        "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w*"
            for part in node.args[1].values
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "getattr"
        and ast.unparse(node.args[0]) in ("params", "self.params")
        and isinstance(node.args[1], ast.JoinedStr)
    ]


def settings_read(file: Path) -> set[str]:
    """Return the names that a module reads by ``settings_from(params, Kind, "prefix_")``."""
    text = file.read_text()
    if "settings_from(" not in text:
        return set()
    module = importlib.import_module(
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    )
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "settings_from":
            kind = getattr(module, ast.unparse(node.args[1]))
            given = node.args[2] if len(node.args) > 2 else ast.Constant("")
            prefixes = _texts(given, text, module)
            fields = dataclasses.fields(kind)
            found |= {prefix + entry.name for prefix in prefixes for entry in fields}
    return found


def _texts(given: ast.expr, text: str, module: object) -> set[str]:
    """Return the values of a literal, a constant of a module, or a parameter of its functions."""
    if not isinstance(given, ast.Name):
        return {ast.literal_eval(given)}
    if hasattr(module, given.id):
        return {getattr(module, given.id)}
    tree, found = ast.parse(text), set()
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        names = [argument.arg for argument in function.args.args]
        if given.id in names:
            place = names.index(given.id)
            found |= {
                ast.literal_eval(call.args[place])
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == function.name
            }
    return found


def imported_by(file: Path, rooms: tuple[str, ...]) -> set[Path]:
    """Return the modules of some packages that a module imports from."""
    return {
        PACKAGE.parent / (statement.module.replace(".", "/") + ".py")
        for statement in ast.walk(ast.parse(file.read_text()))
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(rooms)
    }


def sources_of(cls: type) -> set[Path]:
    """Return the files of a class, of its bases, and of the modules that implement them.

    A node's parts are the modules that it imports, those that bases share, and the parts of parts
    in the same folder.
    """
    own = {
        PACKAGE.parent / (base.__module__.replace(".", "/") + ".py")
        for base in cls.__mro__
        if base.__module__.startswith("motion_nodes.")
    }
    rooms = (
        "motion_nodes.nodes.",
        "motion_nodes.ros.wheeled.",
        "motion_nodes.ros.clients.",
        "motion_nodes.ros.robot_cameras",
        "motion_nodes.ros.current_state",
    )
    parts = {part for file in own for part in imported_by(file, rooms)}
    beside = {
        other for part in parts for other in imported_by(part, rooms) if other.parent == part.parent
    }
    return own | parts | beside


@pytest.mark.parametrize("executable", NODES)
def test_every_parameter_is_read(executable):
    cls = node_class(executable)
    read: set[str] = set()
    fields = {entry.field for entry in declared(cls.params_type)}
    for file in sources_of(cls):
        for pattern in patterns_read(file.read_text()):
            read |= {name for name in fields if re.fullmatch(pattern, name)}
        read |= attributes_read(file.read_text())
        read |= settings_read(file)
        # Fields reached by name.
        if "getattr(params, name)" in file.read_text():
            read |= {"pose_covariance_diagonal", "twist_covariance_diagonal"}
        if "getattr(params, rmp_field(name))" in file.read_text():
            read |= {rmp_field(name) for name in RmpflowSettings().parameters()}
    read |= read_by_members(cls.params_type, read)
    unused = fields - read - ELSEWHERE
    assert not unused


def test_the_check_itself_finds_an_unused_parameter():
    source = "x = self.params.a + params.b + self.params().e; params.c = 1; other.d"
    assert attributes_read(source) == {"a", "b", "e"}


@pytest.mark.parametrize("executable", NODES)
def test_every_parameter_is_described(executable):
    cls = node_class(executable)
    assert dataclasses.is_dataclass(cls.params_type)
    for entry in declared(cls.params_type):
        assert entry.rules.setting.doc.endswith(".") or ":" in entry.rules.setting.doc, entry.name
        assert len(entry.rules.setting.doc) > 4
