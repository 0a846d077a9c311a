# SPDX-License-Identifier: Apache-2.0
"""Attached bodies as spheres in the tool's frame."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.rmp.rmp_memory import CARRIED
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.poses import inverse
from motion_nodes.model.robot import Robot
from motion_nodes.scene.robot_spheres import bounding_sphere, carried_body, rigid_links
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array

SHOWN = 3
"""Max number of names in a message."""


def supported_scene(robot: Robot, tool: str, scene: Scene) -> tuple[Scene, str]:
    """Return a scene without the attached bodies that are not supported.

    Args:
        robot: the robot.
        tool: frame of the tool.
        scene: scene with attached bodies.

    Returns:
        The scene, the same object if all are supported, and which bodies are missing and why,
        empty if none.
    """
    top = rigid_links(robot.tree)
    moving = [name for name, item in scene.attached.items() if top.get(item.link) != top[tool]]
    rest = [name for name in scene.attached if name not in moving]
    missing = [*moving, *rest[CARRIED:]]
    if not missing:
        return scene, ""
    reasons = []
    if moving:
        reasons.append(
            f"attached to links that move relative to '{tool}': {', '.join(moving[:SHOWN])}"
        )
    if rest[CARRIED:]:
        reasons.append(f"more than {CARRIED}: {', '.join(rest[CARRIED:][:SHOWN])}")
    attached = {name: scene.attached[name] for name in rest[:CARRIED]}
    text = f"attached bodies do not avoid obstacles ({len(missing)}), {'; '.join(reasons)}"
    return replace(scene, attached=MappingProxyType(attached)), text


def carried_spheres(robot: Robot, tool: str, scene: Scene) -> Array:
    """Return the attached bodies as spheres, shape (c, 4): centre (tool frame) and radius [m].

    If the max number of spheres would be exceeded, each body is replaced by one bounding sphere.

    Args:
        robot: the robot.
        tool: frame of the tool.
        scene: scene with attached bodies.

    Raises:
        InvalidCommand: a body is attached to a link that moves relative to the tool, or there are
            too many bodies.
    """
    if not scene.attached:
        return np.empty((0, 4))
    top = rigid_links(robot.tree)
    kinematics = Kinematics(robot.tree)
    q = robot.home
    X_TW = inverse(kinematics.pose(q, tool))
    bodies = []
    for item in scene.attached.values():
        if top.get(item.link) != top[tool]:
            raise InvalidCommand(
                f"'{item.name}' is attached to '{item.link}', which moves relative to '{tool}': "
                f"RMPflow supports only bodies that move with its tool.",
                field=item.name,
            )
        X_TL = X_TW @ kinematics.pose(q, item.link)
        spheres = carried_body(item).spheres
        centres = spheres[:, :3] @ X_TL[:3, :3].T + X_TL[:3, 3]
        bodies.append(np.column_stack((centres, spheres[:, 3])))
    if sum(map(len, bodies)) > CARRIED:
        bodies = [bounding_sphere(body)[None] for body in bodies]
    if len(bodies) > CARRIED:
        raise InvalidCommand(f"{len(bodies)} bodies are attached; the max is {CARRIED}.")
    return np.concatenate(bodies)
