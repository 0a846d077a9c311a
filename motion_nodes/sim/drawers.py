# SPDX-License-Identifier: Apache-2.0
"""Cabinets with one drawer, whose handle is a bar on two posts."""

from __future__ import annotations

import mujoco
import numpy as np

from motion_nodes.model.tree import Box
from motion_nodes.sim.mjcf_shapes import quat_wxyz
from motion_nodes.typing import Array

BAR, GAP = (0.012, 0.12, 0.016), 0.05
"""Sizes of the handle's bar, and its distance from the front [m]."""
HANDLE = Box(BAR)
"""Shape of the bar."""
RANGE = 0.3
"""Largest opening [m]."""
FRICTION, DAMPING = 3.0, 10.0
"""Friction [N] and damping [N s/m] of the slide joint."""
_WALL, _FRONT, _POST = 0.02, 0.02, 0.012
"""Thickness of the walls, of the front and of the posts [m]."""


def add_drawer(
    spec: mujoco.MjSpec,
    name: str,
    X_WH: Array,
    size: tuple[float, float, float],
    mass: float,
    solref: tuple[float, float],
) -> mujoco.MjsBody:
    """Add a cabinet with a closed drawer.

    Args:
        spec: specification of the world.
        name: name of the drawer and of its joint, which opens against the x axis of the handle.
        X_WH: pose of the centre of the handle's bar, x towards the cabinet, shape (4, 4).
        size: depth, width and height of the drawer [m].
        mass: mass of the drawer [kg].
        solref: MuJoCo's ``solref`` of its contacts.

    Returns:
        The body of the drawer; its frame is at the centre of the closed drawer.
    """
    depth, width, height = size
    front = GAP + 0.5 * BAR[0]
    X = X_WH @ _at(front + 0.5 * depth)
    cabinet = spec.worldbody.add_body(
        name=f"{name}/cabinet", pos=X[:3, 3], quat=quat_wxyz(X[:3, :3])
    )
    boxes = []
    for side in (-1.0, 1.0):
        wall = 0.5 * width + _WALL
        boxes.append((cabinet, (0.0, side * wall, 0.0), (depth, _WALL, height)))
        lid = (depth, width + 3.0 * _WALL, _WALL)
        boxes.append((cabinet, (0.0, 0.0, side * (0.5 * height + _WALL)), lid))
    body = cabinet.add_body(name=name)
    joint = body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_SLIDE,
        axis=(-1.0, 0.0, 0.0),
        range=(0.0, RANGE),
        limited=mujoco.mjtLimited.mjLIMITED_TRUE,
        frictionloss=FRICTION,
    )
    joint.damping[0] = DAMPING
    body.mass, body.inertia, body.explicitinertial = mass, (0.02, 0.02, 0.02), True
    plate = -0.5 * depth
    boxes.append((body, (plate + 0.5 * _FRONT, 0.0, 0.0), (_FRONT, width, height)))
    boxes.append((body, (plate - front, 0.0, 0.0), BAR))
    for side in (-1.0, 1.0):
        post = (plate - 0.5 * GAP, side * 0.5 * (BAR[1] - _POST), 0.0)
        boxes.append((body, post, (GAP, _POST, _POST)))
    for owner, place, edges in boxes:
        owner.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=place,
            size=[0.5 * edge for edge in edges],
            rgba=(0.7, 0.6, 0.45, 1.0),
            solref=solref,
            priority=1,  # overrides the contact parameters of the fingers
            friction=(1.0, 0.02, 0.001),
            condim=4,
        )
    return body


def handle_in_drawer(depth: float) -> Array:
    """Return the pose of the handle in its drawer, shape (4, 4).

    Args:
        depth: depth of the drawer [m].
    """
    return _at(-(0.5 * depth + GAP + 0.5 * BAR[0]))


def _at(x: float) -> Array:
    X = np.eye(4)
    X[0, 3] = x
    return X
