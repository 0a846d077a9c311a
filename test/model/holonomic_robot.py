# SPDX-License-Identifier: Apache-2.0
"""A small robot on three omni wheels, with positions and radius of the Kaya's, as files."""

import math
from typing import Any

from bases.holonomic_samples import kaya
from model.robot_samples import INERTIAL, joint, link, urdf

SPIN = '<limit velocity="60" effort="2"/>'
KAYA_YAWS = tuple(wheel.axis_yaw for wheel in kaya().wheels)
PLACES = tuple((wheel.x, wheel.y) for wheel in kaya().wheels)
TRIANGLE: dict[str, Any] = {
    "format": 1,
    "name": "triangle",
    "kind": "holonomic",
    "urdf": "tiny.urdf",
    "frames": {"base": "a"},
    "base": {
        "linear": {"x": {"max_velocity": 1.0, "max_acceleration": 2.0}},
        "angular": {"z": {"max_velocity": 3.0, "max_acceleration": 4.0}},
    },
    "drives": [{"joints": ["j0", "j1", "j2"], "mode": "velocity", "damping": 0.5}],
    "sources": {"base": "drawing", "drives": "chosen"},
}


def wheel_joint(i: int, mecanum: str, parent: str = "a") -> str:
    """Return the joint of wheel ``i``; its frame is turned so that its own axis is y."""
    (x, y), yaw = PLACES[i], KAYA_YAWS[i] - 0.5 * math.pi
    return joint(
        f"j{i}", "continuous", parent, f"w{i}",
        f'<origin xyz="{x!r} {y!r} -0.05" rpy="0 0 {yaw!r}"/><axis xyz="0 1 0"/>{SPIN}{mecanum}',
    )  # fmt: skip


def triangle(mecanum: str = '<mecanum radius="0.04"/>') -> str:
    links = link("a", INERTIAL) + "".join(link(f"w{i}", INERTIAL) for i in range(3))
    return urdf(links, "".join(wheel_joint(i, mecanum) for i in range(3)))
