# SPDX-License-Identifier: Apache-2.0
"""Rooms import from below only; each library is imported where it belongs."""

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

from statements import statements

from motion_nodes.extras import EXTRAS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "motion_nodes"

LAYERS = """
    cli
    bringup
    nodes extras.learning
    ros extras.sim extras.viewer extras.agent_tools
    api extras.compat extras.formats interface_build
    core.navigation core.planning extras.hardware extras.robot_setup
    core.reactive
    core.control core.bases core.ik extras.tasks extras.policies extras.perception
    core.trajectory core.scene
    core.robot
    kernels
    settings
    errors typing tolerances
"""
"""A room imports from lower lines only, not from its own line: siblings do not know each other."""

WING = ("core", "kernels", "settings", "errors", "typing", "tolerances")
"""What ``core`` may import: the motion itself needs no ROS and no extra."""

ROOMS_OF_LIBRARIES = {
    "numba llvmlite": "kernels",
    "mujoco": "extras.sim extras.learning extras.robot_setup",
    "viser": "extras.viewer",
    "trimesh": "extras.viewer core.scene extras.robot_setup",
    "onnxruntime": "extras.policies",
    "ruckig": "core.trajectory",
    "daqp": "core.ik",
    "yaml": "core.robot",
    "msgspec": "core.robot core.scene settings",
    "typer": "cli",
    "distributed": "cli",
    "pyarrow PIL": "extras.formats",
    "tf_transformations transforms3d": "ros",
    "mcap": "ros core.robot",
    "mcp mcp_types": "extras.agent_tools",
}
"""Libraries of which only these rooms know; rclpy and all messages: ros and nodes."""


def room_of(parts):
    """Return the room of a module, given the parts of its name below the package."""
    return ".".join(parts[:2]) if parts[0] in ("core", "extras") else parts[0]


@cache
def imports():
    """Return (room, module, line) of each import; imports within functions and for types count."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = room_of(file.relative_to(PACKAGE).with_suffix("").parts)
        for node in statements(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                if node.module in ("motion_nodes", "motion_nodes.core", "motion_nodes.extras"):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            found += [(room, name, f"{file.relative_to(ROOT)}:{node.lineno}") for name in names]
    return found


def test_each_room_has_a_layer():
    folders = [file for part in ("", "core/", "extras/") for file in PACKAGE.glob(f"{part}*/*.py")]
    rooms = {room_of(path.relative_to(PACKAGE).parts[:-1]) for path in folders} - {"core", "extras"}
    assert rooms | {"settings", "errors", "typing", "tolerances"} == set(LAYERS.split())


def test_no_room_imports_from_above():
    layer = {
        room: number
        for number, line in enumerate(LAYERS.split("\n"))
        for room in line.split()
    }  # fmt: skip
    wrong = [
        (place, name)
        for room, name, place in imports()
        if name.startswith("motion_nodes.") and room in layer
        if (other := room_of(name.split(".")[1:])) != room and other in layer
        if layer[other] <= layer[room]
    ]
    assert not wrong


def test_the_core_needs_no_other_wing():
    own = [(place, name) for room, name, place in imports() if room.startswith("core.")
           if name.startswith("motion_nodes.")]  # fmt: skip
    assert len(own) > 500
    assert [each for each in own if each[1].split(".")[1] not in WING] == []


def of_extras():
    """Return (extra, file) of each import of an extra by a module outside of it."""
    named = [
        (name.split(".")[2], place.partition(":")[0].removeprefix("motion_nodes/"))
        for _, name, place in imports()
        if name.startswith("motion_nodes.extras.") and name.split(".")[2] in EXTRAS
    ]
    return {(extra, file) for extra, file in named if not file.startswith(f"extras/{extra}/")}


def test_extras_import_only_those_that_they_need():
    across = {}
    for extra, file in of_extras():
        if file.startswith("extras/"):
            across.setdefault(file.split("/")[1], set()).add(extra)
    assert across == {name: set(extra.needs) for name, extra in EXTRAS.items() if extra.needs}
    assert sum(map(len, across.values())) <= 3  # only becomes fewer


def test_functions_that_the_table_of_extras_names_are_there():
    for name, extra in EXTRAS.items():
        for named in filter(None, (extra.environment, extra.page, extra.policy, extra.cell)):
            module, _, function = named.partition(":")
            found = importlib.import_module(f"motion_nodes.extras.{name}.{module}")
            assert callable(getattr(found, function)), named


def test_a_suite_starts_without_the_libraries_of_the_page():
    # `motion up` asks for the environment of its processes first, with and without a page.
    code = (
        "import sys; sys.modules.update(viser=None, websockets=None)\n"
        "from motion_nodes.extras import suite_environment; print(sorted(suite_environment()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "['MOTION_NODES_PAGE_TOKEN']\n", done.stderr


def test_an_extra_is_named_by_its_own_parts_only():
    # All others ask the table in motion_nodes/extras/__init__.py.
    folders = {path.parent.name for path in PACKAGE.glob("extras/*/__init__.py")}
    assert set(EXTRAS) == folders
    outside = {(extra, file) for extra, file in of_extras() if not file.startswith("extras/")}
    parts = {
        (name, part)
        for name, extra in EXTRAS.items()
        for part in (*extra.parts, *(f"nodes/{each}.py" for each in extra.executables))
    }

    def part_of(extra, file):
        return next(
            (p for e, p in parts if e == extra and (file == p or file.startswith(f"{p}/"))), None
        )

    assert {each for each in outside if part_of(*each) is None} == set()
    listed = {(name, part) for name, extra in EXTRAS.items() for part in extra.parts}
    assert listed - {(extra, part_of(extra, file)) for extra, file in outside} == set()


def test_each_library_stays_in_its_rooms():
    rooms = {
        library: set(places.split())
        for libraries, places in ROOMS_OF_LIBRARIES.items()
        for library in libraries.split()
    }
    seen, wrong = set(), []
    for room, name, place in imports():
        library = name.split(".")[0]
        ros = library == "rclpy" or library.endswith("_msgs") or library.endswith("_srvs")
        allowed = {"ros", "nodes"} if ros else rooms.get(library)
        seen.add(library)
        if allowed is not None and room not in allowed:
            wrong.append((place, name))
    assert not wrong
    assert set(rooms) <= seen
