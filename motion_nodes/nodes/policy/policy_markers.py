# SPDX-License-Identifier: Apache-2.0
"""The reactive policy in pictures: spheres by distance, target, tool, and what pulls at it."""

from __future__ import annotations

from typing import Any

import numpy as np
from visualization_msgs.msg import MarkerArray

from motion_nodes.nodes.policy.policy_snapshot import PolicyNews
from motion_nodes.rmpflow.follower_settings import Phase
from motion_nodes.rmpflow.policy_inspection import PolicyInspector
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.ros.messages.markers import Colour, Markers

NEAR, FAR = 0.0, 0.2
"""[m] Spheres are red at NEAR and green from FAR on."""
ARROW = 0.03
"""[m per m/s^2] Length of the arrows."""
LONGEST = 0.3
"""[m] Of the arrows."""
SHORTEST = 0.005
"""[m] What is shorter is left out."""
TARGET: Colour = (0.1, 0.7, 0.9, 0.9)
STUCK: Colour = (0.9, 0.1, 0.1, 0.9)
TOOL: Colour = (0.9, 0.9, 0.9, 0.9)
LEAVES: dict[str, Colour] = {
    "target_rmp": (0.1, 0.7, 0.9, 1.0),
    "axis_target_rmp": (0.2, 0.4, 0.9, 1.0),
    "collision_rmp": (0.9, 0.2, 0.1, 1.0),
    "body_collision": (0.9, 0.4, 0.1, 1.0),
    "self_collision_rmp": (0.9, 0.5, 0.2, 1.0),
    "cspace_target_rmp": (0.6, 0.6, 0.2, 1.0),
    "joint_limit_rmp": (0.7, 0.2, 0.7, 1.0),
}
"""Colours of the arrows of leaves; others are grey."""
OTHERS: Colour = (0.6, 0.6, 0.6, 1.0)


def policy_markers(
    frame: str, stamp: Any, onlooker: PolicyInspector, view: PolicyView, news: PolicyNews
) -> MarkerArray:
    """Return markers of a view, in the robot's base frame.

    Args:
        frame: the robot's base on /tf.
        stamp: time of the message.
        onlooker: who looks at the view.
        view: of the policy, or of the robot as it stands.
        news: what the policy does.
    """
    markers = Markers(frame, stamp)
    spheres, distances = onlooker.spheres()
    for (x, y, z, radius), distance in zip(spheres, distances.tolist(), strict=True):
        markers.spheres("spheres", np.array([[x, y, z]]), np.array([radius]), _warning(distance))
    X_BT = onlooker.tool_pose()
    markers.axes("tool", X_BT, 0.06)
    goal = view.goal
    if news.view is None:
        return markers.message
    if goal.position is not None:
        colour = STUCK if news.phase is Phase.STUCK else TARGET
        markers.dots("target", goal.position[None], colour, 0.03)
        if goal.rotation is not None:
            X_BG = np.eye(4)
            X_BG[:3, :3], X_BG[:3, 3] = goal.rotation, goal.position
            markers.axes("target_axes", X_BG, 0.1)
    for leaf in onlooker.figures():
        arrow = ARROW * leaf.tool
        length = float(np.linalg.norm(arrow))
        if length > SHORTEST:
            arrow *= min(1.0, LONGEST / length)
            markers.arrow(
                leaf.name, X_BT[:3, 3], X_BT[:3, 3] + arrow, LEAVES.get(leaf.name, OTHERS)
            )
    return markers.message


def _warning(distance: float) -> Colour:
    """Return a colour from red (touching) to green (far)."""
    safe = float(np.clip((distance - NEAR) / (FAR - NEAR), 0.0, 1.0))
    return (1.0 - safe, 0.2 + 0.6 * safe, 0.15, 0.5)
