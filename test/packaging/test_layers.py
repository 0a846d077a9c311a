# SPDX-License-Identifier: Apache-2.0
"""Layers of the package: imports, parameters, licences; kernels and their tests."""

import ast
import collections
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from statements import statements

ROOT = Path(__file__).parents[2]
MOST_IMPORTS, MOST_PARAMETERS = 25, 6
"""Max modules of the package that a module imports, and max parameters of a function."""
LONG_CALLS = {
    "api": 4,
    "core": 2,
    "extras": 2,
    "kernels": 2,
}
"""Functions with more parameters in each room; only goes down."""
NOT_CORE = ("ros", "nodes", "bringup", "cli")
ROS = ("rclpy", "sensor_msgs", "geometry_msgs", "std_msgs", "moveit_msgs", "control_msgs")


def core_modules():
    for file in sorted((ROOT / "motion_nodes").rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[1] not in NOT_CORE and file.name not in ("__main__.py", "__init__.py"):
            yield ".".join(parts)


def test_the_core_imports_where_there_is_no_ros():
    code = (
        "import importlib, sys\n"
        "class NoRos:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {ROS}:\n"
        "            raise ImportError(name + ' is not for the core')\n"
        "sys.meta_path.insert(0, NoRos())\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *core_modules()], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_importing_the_package_costs_nothing():
    # The command line imports the modules of all its commands.
    code = (
        "import sys, motion_nodes.cli.main; "
        "print([m for m in ('numpy', 'rclpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["motion_nodes", "tools", "test", "launch", "benchmarks"])
def test_files_say_their_licence(folder):
    for file in (ROOT / folder).rglob("*.py"):
        text = file.read_text("utf-8")
        assert "SPDX-License-Identifier: Apache-2.0" in text[:200], file


def is_command(parameters):
    """Return whether a function is a command of Typer: each option is a parameter."""
    words = [ast.unparse(one.annotation) for one in parameters if one.annotation is not None]
    return any("typer." in word or word.endswith(("Option", "Argument")) for word in words)


@functools.cache
def measured():
    """Return place in the package, number of imported modules and long calls of each module."""
    package, found = ROOT / "motion_nodes", []
    for file in sorted(package.rglob("*.py")):
        name, imported, long = str(file.relative_to(package)), set(), []
        for node in statements(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("motion_nodes"):
                imported.add(node.module)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                given = [one for one in given if one.arg not in ("self", "cls")]
                if len(given) > MOST_PARAMETERS and not is_command(given):
                    long.append(f"{name}:{node.lineno} {node.name}")
        found.append((name, len(imported), long))
    return found


def test_a_module_is_understood_with_few_others():
    assert {name: count for name, count, _ in measured() if count > MOST_IMPORTS} == {}


def test_functions_have_few_parameters():
    rooms = collections.defaultdict(list)
    for name, _, long in measured():
        rooms[name.partition("/")[0]] += long
    assert {room: long for room, long in rooms.items() if len(long) > LONG_CALLS.get(room, 0)} == {}


def test_a_class_name_stands_once_in_the_package():
    places: dict[str, list[str]] = {}
    for file in sorted((ROOT / "motion_nodes").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", file.read_text("utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


KERNELS = Path(__file__).parents[2] / "motion_nodes" / "kernels"
TESTS = Path(__file__).parents[1]
EXCEPTIONS = {
    "motion_nodes.kernels.rmp.rmp_robot": "compared as a whole with NumPy: test/rmpflow",
}
"""Modules without a direct test, and why."""


def imported(path: Path) -> set[str]:
    """Return modules and names that a test file imports; none if it has no word "kernels"."""
    names: set[str] = set()
    text = path.read_text(encoding="utf-8")
    # Most have not, and parsing all files takes seconds.
    if "kernels" not in text:
        return names
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_each_kernel_module_is_imported_by_a_test():
    known = set().union(*(imported(path) for path in TESTS.rglob("*.py")))
    modules = {
        "motion_nodes.kernels." + ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        for path in KERNELS.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert len(modules) > 40
    assert {name for name in modules - known} == set(EXCEPTIONS)
