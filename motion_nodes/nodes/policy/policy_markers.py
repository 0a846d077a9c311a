# SPDX-License-Identifier: Apache-2.0
"""Markers of the reactive policy: spheres coloured by distance, target, tool, RMP accelerations."""

from __future__ import annotations

from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from motion_nodes.nodes.policy.policy_snapshot import PolicySnapshot
from motion_nodes.rmpflow.follower_settings import Phase
from motion_nodes.rmpflow.policy_inspection import PolicyInspector
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.ros.messages.markers import Colour, Markers

NEAR, FAR = 0.0, 0.2
"""Distances at which spheres are red and green [m]."""
ARROW = 0.03
"""Length of arrows per acceleration [m per m/s^2]."""
MAX_LENGTH = 0.3
"""Max length of arrows [m]."""
MIN_LENGTH = 0.005
"""Length below which arrows are omitted [m]."""
TARGET: Colour = (0.1, 0.7, 0.9, 0.9)
STUCK: Colour = (0.9, 0.1, 0.1, 0.9)
TOOL: Colour = (0.9, 0.9, 0.9, 0.9)
RMPS: dict[str, Colour] = {
    "target_rmp": (0.1, 0.7, 0.9, 1.0),
    "axis_target_rmp": (0.2, 0.4, 0.9, 1.0),
    "collision_rmp": (0.9, 0.2, 0.1, 1.0),
    "body_collision": (0.9, 0.4, 0.1, 1.0),
    "self_collision_rmp": (0.9, 0.5, 0.2, 1.0),
    "cspace_target_rmp": (0.6, 0.6, 0.2, 1.0),
    "joint_limit_rmp": (0.7, 0.2, 0.7, 1.0),
}
"""Colours of the arrows by RMP; others are grey."""
OTHERS: Colour = (0.6, 0.6, 0.6, 1.0)


def policy_markers(
    frame: str,
    stamp: Any,
    inspector: PolicyInspector,
    view: PolicyView,
    snapshot: PolicySnapshot,
) -> MarkerArray:
    """Return the markers of a view, in the robot's base frame.

    Args:
        frame: name of the base frame on /tf.
        stamp: builtin_interfaces/Time of the message.
        inspector: set to the view.
        view: of the policy, or of the robot without a target.
        snapshot: state of the policy.
    """
    markers = Markers(frame, stamp)
    spheres, distances = inspector.spheres()
    for (x, y, z, radius), distance in zip(spheres, distances.tolist(), strict=True):
        markers.spheres("spheres", np.array([[x, y, z]]), np.array([radius]), _warning(distance))
    X_BT = inspector.tool_pose()
    markers.axes("tool", X_BT, 0.06)
    goal = view.goal
    if snapshot.view is None:
        return markers.message
    if goal.position is not None:
        colour = STUCK if snapshot.phase is Phase.STUCK else TARGET
        markers.dots("target", goal.position[None], colour, 0.03)
        if goal.rotation is not None:
            X_BG = np.eye(4)
            X_BG[:3, :3], X_BG[:3, 3] = goal.rotation, goal.position
            markers.axes("target_axes", X_BG, 0.1)
    for rmp in inspector.figures():
        arrow = ARROW * rmp.tool
        length = float(np.linalg.norm(arrow))
        if length > MIN_LENGTH:
            arrow *= min(1.0, MAX_LENGTH / length)
            markers.arrow(rmp.name, X_BT[:3, 3], X_BT[:3, 3] + arrow, RMPS.get(rmp.name, OTHERS))
    return markers.message


def _warning(distance: float) -> Colour:
    """Return a colour from red (in contact) to green (far), for a distance [m]."""
    share = float(np.clip((distance - NEAR) / (FAR - NEAR), 0.0, 1.0))
    return (1.0 - share, 0.2 + 0.6 * share, 0.15, 0.5)
