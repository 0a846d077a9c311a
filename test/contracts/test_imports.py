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
    nodes learning
    ros sim view agent_tools
    api compat interface_build
    base_navigation hardware mpc planning robot_setup
    control bases ik rmpflow tasks policies perception
    trajectory scene
    model
    kernels
    errors
"""
"""A room imports from lower lines only, not from its own line: siblings do not know each other."""

ROOMS_OF_LIBRARIES = {
    "numba llvmlite": "kernels",
    "mujoco": "sim learning robot_setup",
    "viser": "view",
    "trimesh": "view scene robot_setup",
    "onnxruntime": "policies",
    "ruckig": "trajectory",
    "yaml msgspec": "model",
    "typer": "cli",
    "mcp mcp_types": "agent_tools",
}
"""Libraries of which only these rooms know; rclpy and all messages: ros and nodes."""


@cache
def imports():
    """Return (room, module, line) of each import; imports within functions and for types count."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                if node.module == "motion_nodes":
                    names = [f"motion_nodes.{alias.name}" for alias in node.names]
            else:
                continue
            found += [(room, name, f"{file.relative_to(ROOT)}:{node.lineno}") for name in names]
    return found


def test_each_room_has_a_layer():
    rooms = {path.parent.name for path in PACKAGE.glob("*/*.py")} | {"errors"}
    assert rooms == set(LAYERS.split())


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
        if (other := name.split(".")[1]) != room and other in layer
        if layer[other] <= layer[room]
    ]
    assert not wrong


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
