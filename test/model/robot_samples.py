# SPDX-License-Identifier: Apache-2.0
"""Small robots written to a folder, for tests of invalid descriptions."""

import copy
from pathlib import Path
from typing import Any

import yaml

INERTIAL = (
    '<inertial><mass value="1"/>'
    '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
)
LIMIT = '<limit lower="-1" upper="2" velocity="3" effort="4"/>'


def urdf(links: str = "", joints: str = "", name: str = "tiny") -> str:
    """Return a URDF with these elements."""
    return f'<robot name="{name}">{links}{joints}</robot>'


def link(name: str, inside: str = "") -> str:
    """Return a link."""
    return f'<link name="{name}">{inside}</link>'


def joint(
    name: str = "j1",
    kind: str = "revolute",
    parent: str = "a",
    child: str = "b",
    inside: str = '<axis xyz="0 0 1"/>' + LIMIT,
) -> str:
    """Return a joint."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{inside}</joint>"
    )


TWO_JOINTS = urdf(
    link("a") + link("b", INERTIAL) + link("c", INERTIAL) + link("tool"),
    joint()
    + joint("j2", "prismatic", "b", "c")
    + joint("fixed", "fixed", "c", "tool", '<origin xyz="0 0 1"/>'),
)

ARM: dict[str, Any] = {
    "format": 1,
    "name": "tiny",
    "kind": "arm",
    "urdf": "tiny.urdf",
    "frames": {"base": "a", "tool": "tool"},
    "groups": {
        "arm": {"joints": ["j1", "j2"], "base": "a", "tip": "tool", "aliases": ["manipulator"]}
    },
    "limits": {"acceleration": {"j1": 5.0, "j2": 6.0}},
    "named_states": {"home": {"j1": 0.5}, "up": {"j2": 1.0}},
    "drives": [{"joints": ["j1", "j2"], "mode": "position", "stiffness": [10.0, 20.0]}],
    "sources": {"limits": "measured", "drives": "chosen"},
}

BASE: dict[str, Any] = {
    "format": 1,
    "name": "cart",
    "kind": "differential",
    "urdf": "tiny.urdf",
    "frames": {"base": "a"},
    "base": {
        "left_wheel_names": ["j1"],
        "right_wheel_names": ["j2"],
        "wheel_radius": 0.1,
        "wheel_separation": 0.4,
        "linear": {"x": {"max_velocity": 1.0, "max_acceleration": 2.0}},
        "angular": {"z": {"max_velocity": 3.0, "max_acceleration": 4.0}},
    },
    "drives": [{"joints": ["j1", "j2"], "mode": "velocity", "damping": 0.5}],
    "sources": {"base": "drawing", "drives": "chosen"},
}

WHEELS = urdf(
    link("a", INERTIAL) + link("l", INERTIAL) + link("r", INERTIAL),
    joint("j1", "continuous", "a", "l", '<limit velocity="9" effort="1"/>')
    + joint("j2", "continuous", "a", "r", '<limit velocity="9" effort="1"/>'),
)


def changed(description: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy with the field at a dotted path set; ``...`` removes it."""
    result = copy.deepcopy(description)
    *blocks, last = path.split(".")
    block: Any = result
    for name in blocks:
        block = block[int(name)] if isinstance(block, list) else block[name]
    if value is ...:
        del block[last]
    else:
        block[last] = value
    return result


def write_robot(folder: Path, description: dict[str, Any] | str, text: str = TWO_JOINTS) -> Path:
    """Write robot.yaml and tiny.urdf to a folder; return the robot.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.urdf").write_text(text)
    body = description if isinstance(description, str) else yaml.safe_dump(description)
    file = folder / "robot.yaml"
    file.write_text(body)
    return file
