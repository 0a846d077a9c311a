# SPDX-License-Identifier: Apache-2.0
"""Default drives for a robot described only by a URDF, for simulation."""

from __future__ import annotations

import math
from collections.abc import Collection

from motion_nodes.model.robot_yaml import DriveDescription
from motion_nodes.model.tree import JointKind, KinematicTree

SOURCE = "guessed: full effort at an error of 0.05 rad (0.01 m), critically damped, 8 Hz"

_FULL_EFFORT_AT = {JointKind.PRISMATIC: 0.01}
"""Position error at max effort, by joint type [m]; other types: ``_OTHERS_AT`` [rad]."""
_OTHERS_AT = 0.05
_BANDWIDTH = 2.0 * math.pi * 8.0
"""Natural frequency of a drive [rad/s]."""
_UNKNOWN_EFFORT = 100.0
"""Default if the URDF has no effort limit [N m or N]."""


def guessed_drives(
    tree: KinematicTree, passive: Collection[str] = ()
) -> tuple[DriveDescription, ...]:
    """Return position drives for all actuated joints of a tree.

    The stiffness follows from the effort limit. With its armature alone a drive is a critically
    damped oscillator, so attached loads do not make it oscillate.

    Args:
        tree: kinematic tree of the robot.
        passive: joints without a drive.
    """
    joints = tuple(name for name in tree.joint_names if name not in passive)
    if not joints:
        return ()
    stiffness = []
    for name in joints:
        joint = tree.joints[name]
        effort = joint.effort if math.isfinite(joint.effort) else _UNKNOWN_EFFORT
        stiffness.append(_rounded(effort / _FULL_EFFORT_AT.get(joint.kind, _OTHERS_AT)))
    return (
        DriveDescription(
            joints=joints,
            mode="position",
            stiffness=tuple(stiffness),
            damping=tuple(_rounded(2.0 * k / _BANDWIDTH) for k in stiffness),
            armature=tuple(_rounded(k / _BANDWIDTH**2) for k in stiffness),
        ),
    )


def _rounded(value: float) -> float:
    """Return an estimate, rounded to three significant digits."""
    return float(f"{value:.3g}")
