# SPDX-License-Identifier: Apache-2.0
"""RMPflow settings of a robot without any: the Panda's, in proportion to its size.

All parameters with a length in their unit are scaled, gains and metrics, too. So the joints of a
robot with the Panda's proportions move as the Panda's do, whatever its size. Otherwise the target
of a small arm is weaker than its posture, and its attraction is not damped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import JointKind

_PANDA_LENGTH = 1.0897
"""Length of the Panda from its first joint to its tool, by :func:`chain_length` [m]."""
_SCALES = (0.1, 2.0)
"""Min and max scale."""
_BUFFER, _BUFFER_SHARE = 0.01, 0.002
"""Reduction of a joint's range at each end: max [rad or m], and as a fraction of the range."""
_DISTANCE_POWERS = {
    "damping_std_dev": 1,
    "damping_velocity_gate_length_scale": 1,
    "repulsion_gain": 1,
    "repulsion_std_dev": 1,
    "metric_modulation_radius": 1,
    "metric_exploder_std_dev": 1,
    "metric_scalar": -2,
}
_POWERS = {
    "target_rmp": {
        "accel_p_gain": 1,
        "accel_norm_eps": 1,
        "metric_alpha_length_scale": 1,
        "proximity_metric_boost_length_scale": 1,
        "max_metric_scalar": -2,
        "min_metric_scalar": -2,
    },
    "axis_target_rmp": {"proximity_metric_boost_length_scale": 1},
    "collision_rmp": _DISTANCE_POWERS,
    "self_collision_rmp": _DISTANCE_POWERS,
    "damping_rmp": {"accel_d_gain": -1, "metric_scalar": -3, "inertia": -2},
}
"""Power of the scale by which parameters are multiplied. Metrics weigh squares of accelerations."""
_PANDA = RmpflowSettings().with_parameters(
    {
        "cspace_target_rmp.damping_gain": 25.0,
        "cspace_target_rmp.inertia": 200.0,
        "target_rmp.accel_p_gain": 60.0,
        "target_rmp.accel_d_gain": 60.0,
        "target_rmp.accel_norm_eps": 0.0375,
        "axis_target_rmp.metric_scalar": 200.0,
        "axis_target_rmp.proximity_metric_boost_scalar": 150.0,
        "self_collision_rmp.metric_scalar": 1000.0,
    }
)
"""The source's, with the changes that the shipped Panda and UR10e share, and the UR10e's inertia.

See docs/rmpflow.md. With the source's inertia of 1, joints of low max acceleration swing about
targets that only a singular configuration reaches.
"""


def starting_settings(robot: Robot, joints: Sequence[str] | str = "arm") -> RmpflowSettings:
    """Return initial settings for a robot without any.

    Velocities are limited by the robot's. The posture is its state ``ready`` if there is one: home
    is often stretched, or at joint limits.

    Args:
        robot: the robot.
        joints: names of the active joints, or a group's name.
    """
    names = robot.group(joints).joints if isinstance(joints, str) else tuple(joints)
    scale = settings_scale(robot, names)
    limits = robot.limits.select(names)
    known = _PANDA.parameters()
    values = {
        f"{group}.{name}": known[f"{group}.{name}"] * scale**power
        for group, powers in _POWERS.items()
        for name, power in powers.items()
    }
    cap = known["joint_velocity_cap_rmp.max_velocity"]
    cap = min(cap, float(limits.velocity.max(initial=0.0, where=limits.velocity < np.inf)) or cap)
    values["joint_velocity_cap_rmp.max_velocity"] = cap
    values["joint_velocity_cap_rmp.velocity_damping_region"] = 0.375 * cap
    return dataclasses.replace(
        _PANDA.with_parameters(values),
        joint_limit_buffers=tuple(
            min(_BUFFER, _BUFFER_SHARE * float(span)) for span in limits.upper - limits.lower
        ),
        default_posture="ready" if set(names) <= set(robot.states.get("ready", ())) else "home",
    )


def settings_scale(robot: Robot, joints: Sequence[str]) -> float:
    """Return the size of an arm relative to the Panda's, within the range of the settings.

    Args:
        robot: the robot.
        joints: its active joints.
    """
    return float(np.clip(chain_length(robot, joints) / _PANDA_LENGTH, *_SCALES))


def chain_length(robot: Robot, joints: Sequence[str]) -> float:
    """Return the length of an arm [m], from its first active joint to the tool.

    It is the sum of the distances between joints, and of the ranges of joints that slide.

    Args:
        robot: the robot.
        joints: its active joints.
    """
    tip = robot.tool_frame or robot.tree.joints[joints[-1]].child
    chain = robot.chain(robot.base_frame, tip)
    moved = next((k for k, joint in enumerate(chain) if joint.name in joints), 0)
    slides = [j.upper - j.lower for j in chain[moved:] if j.kind is JointKind.PRISMATIC]
    lengths = [float(np.linalg.norm(joint.X_PJ[:3, 3])) for joint in chain[moved + 1 :]]
    return sum(lengths) + sum(span for span in slides if np.isfinite(span))
