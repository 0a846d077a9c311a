# SPDX-License-Identifier: Apache-2.0
"""Drives for a robot of which only the URDF is known, for simulation to begin with."""

from __future__ import annotations

import math
from collections.abc import Collection

from motion_nodes.model.robot_yaml import DriveDescription
from motion_nodes.model.tree import JointKind, KinematicTree

SOURCE = "guessed: full effort at an error of 0.05 rad (0.01 m), critically damped, 8 Hz"

_FULL_EFFORT_AT = {JointKind.PRISMATIC: 0.01}
"""Error at which a drive gives its greatest effort [m]; [rad] for the others."""
_OTHERS_AT = 0.05
_BANDWIDTH = 2.0 * math.pi * 8.0
"""[rad/s]"""
_UNKNOWN_EFFORT = 100.0
"""Taken where the URDF has no limit of effort [N m or N]."""


def guessed_drives(
    tree: KinematicTree, passive: Collection[str] = ()
) -> tuple[DriveDescription, ...]:
    """Return position drives for all joints of a tree that are actuated.

    A drive is as stiff as its effort limit allows it to be of use, and has the inertia of motor and
    gear that makes it a critically damped oscillator by itself, so that what hangs on it does not
    make it shake.

    Args:
        tree: the robot.
        passive: joints that nothing moves.
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
    """Return three digits: a guess has no more."""
    return float(f"{value:.3g}")
