# SPDX-License-Identifier: Apache-2.0
"""Rooms import from below only; each library is imported where it belongs."""

import ast
from functools import cache
from pathlib import Path

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
    errors typing
"""
"""A room imports from lower lines only, not from its own line: siblings do not know each other."""

ACROSS = {
    "learning": {"policies", "sim"},
    "sim": {"policies"},
    "viewer": {"robot_setup", "tasks"},
}
"""Extras that import other extras; all others do not, and these only become fewer."""

WING = ("core", "kernels", "settings", "errors", "typing")
"""What ``core`` may import: the motion itself needs no ROS and no extra."""

ROOMS_OF_LIBRARIES = {
    "numba llvmlite": "kernels",
    "mujoco": "extras.sim extras.learning extras.robot_setup",
    "viser": "extras.viewer",
    "trimesh": "extras.viewer core.scene extras.robot_setup",
    "onnxruntime": "extras.policies",
    "ruckig": "core.trajectory",
    "yaml": "core.robot",
    "msgspec": "core.robot settings",
    "typer": "cli",
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
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
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
    assert rooms | {"settings", "errors", "typing"} == set(LAYERS.split())


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


def test_extras_stand_alone():
    across = {}
    for room, name, _ in imports():
        if room.startswith("extras.") and name.startswith("motion_nodes.extras."):
            one, other = room.split(".")[1], name.split(".")[2]
            if other != one:
                across.setdefault(one, set()).add(other)
    assert across == ACROSS


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
