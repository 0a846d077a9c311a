# SPDX-License-Identifier: Apache-2.0
"""One file depends on private parts of rclpy: a new version of rclpy is adapted to there."""

import ast
import importlib.metadata
import inspect
import re
import textwrap
from functools import cache
from pathlib import Path

import pytest
import rclpy

from motion_nodes.nodes.registry import NODES, node_class

PACKAGE = Path(__file__).parents[2] / "motion_nodes"
ONLY = PACKAGE / "ros" / "concurrency" / "rclpy_internals.py"
VERSIONS = {"7", "9"}
"""Major versions of rclpy whose private parts that file knows: Jazzy and Kilted."""
PRIVATE = re.compile(r"(^|\.)(_(?!_)|impl(\.|$))")
"""A part of a dotted name in rclpy that is private."""


@cache
def private_names():
    """Return the private attributes and methods of all classes of rclpy."""
    names = set()
    for file in Path(rclpy.__file__).parent.rglob("*.py"):
        names |= set(re.findall(r"\bself\.(_[a-z]\w*)|def (_[a-z]\w*)", file.read_text("utf-8")))
    return {one for pair in names for one in pair if one}


def of_rclpy(tree):
    """Yield the attributes of ``self`` in classes with a base that is imported from rclpy."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rclpy"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and imported & {ast.unparse(b) for b in node.bases}:
            yield from (each for each in ast.walk(node) if isinstance(each, ast.Attribute))


def uses(tree):
    """Yield number of line and text of each use of a private part of rclpy.

    Attributes count unless they are of ``self`` in a class that has no base of rclpy, or names of
    this module's own methods and attributes.
    """
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    inherited = set(of_rclpy(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rclpy":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "rclpy"]
        elif isinstance(node, ast.Attribute) and node.attr in private_names() - own:
            if ast.unparse(node.value) == "self" and node not in inherited:
                continue
            names = [f"rclpy.{node.attr}"]
        else:
            continue
        yield from ((node.lineno, name) for name in names if PRIVATE.search(name))


def test_one_file_uses_private_parts_of_rclpy():
    found = {
        file: wrong
        for room in ("ros", "nodes", "cli", "bringup", "extras")
        for file in (PACKAGE / room).rglob("*.py")
        if "rclpy" in (text := file.read_text("utf-8"))
        if (wrong := list(uses(ast.parse(text))))
    }
    assert len(found.pop(ONLY)) > 20
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "from rclpy._rclpy_pybind11 import RCLError",
        "from rclpy.impl import rcutils_logger",
        "node._parameter_overrides",
        "self._node._parameters",
    ],
)
def test_a_private_part_is_seen(line):
    assert len(list(uses(ast.parse(line)))) == 1


def test_the_version_is_one_that_the_file_knows():
    assert importlib.metadata.version("rclpy").split(".")[0] in VERSIONS


def assigned(kind):
    """Return the attributes of ``self`` that the methods of a class assign."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }


@pytest.mark.parametrize("executable", sorted(NODES))
def test_nodes_do_not_replace_attributes_of_rclpy(executable):
    kinds = [each for each in inspect.getmro(node_class(executable)) if each is not object]
    theirs = [each for each in kinds if each.__module__.startswith("rclpy.")]
    own = [each for each in kinds if each.__module__.startswith("motion_nodes.")]
    taken = set().union(*(assigned(each) | set(vars(each)) for each in theirs))
    assert "_services" in taken
    # Overrides are translated before rclpy declares parameters.
    assert set().union(*map(assigned, own)) & taken <= {"_parameter_overrides"}
