# SPDX-License-Identifier: Apache-2.0
"""Problems of MotionBenchMaker for the Franka Panda, in the format of vamp."""

from collections.abc import Callable, Mapping
from typing import Any

from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.scene import AllowedCollisions, Scene, WorldObject, world_object
from motion_nodes.core.scene.shapes import Solid

FINGERS = {"panda_finger_joint1": 0.065, "panda_finger_joint2": 0.065}
"""Finger positions of the reference model [m]."""


def scene_of(
    problem: Mapping[str, Any],
    allowed: AllowedCollisions | None = None,
    cylinder: Callable[[float, float], Solid] = Cylinder,
) -> Scene:
    """Return the obstacles of a problem; ``cylinder`` makes one of a radius and a length [m]."""
    objects: list[WorldObject] = []

    def add(item: Mapping[str, Any], solid: Solid) -> None:
        quat = item.get("orientation_quat_xyzw", (0.0, 0.0, 0.0, 1.0))
        objects.append(world_object(item["name"], solid, from_xyz_quat(item["position"], quat)))

    for item in problem.get("sphere", ()):
        add(item, Sphere(item["radius"]))
    for item in problem["box"]:
        add(item, Box(tuple(2.0 * x for x in item["half_extents"])))
    for item in problem["cylinder"]:
        add(item, cylinder(item["radius"], item["length"]))
    return Scene({item.name: item for item in objects}, allowed=allowed or AllowedCollisions())
