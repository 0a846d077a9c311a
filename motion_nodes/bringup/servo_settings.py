# SPDX-License-Identifier: Apache-2.0
"""Settings of the reactive policy from the parameter files of moveit_servo."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

SERVO_NODE = "servo_node"
"""Name of the peer's node."""
MARKS = ("command_in_type", "cartesian_command_in_topic", "joint_command_in_topic")
"""Names by which a file without ``ros__parameters`` is recognized."""
NAMESPACE = "moveit_servo."

USED = {
    "command_in_type": "servo.command_in_type",
    "incoming_command_timeout": "servo.incoming_command_timeout",
    "joint_limit_margins": "joint_limit_buffers",
    "scale.joint": "servo.scale.joint",
    "scale.linear": "servo.scale.linear",
    "scale.rotational": "servo.scale.rotational",
}
"""Parameters of the policy, by the names that they have there."""

WITHOUT_EFFECT = {
    "check_collisions": "the policy always avoids collisions",
    "collision_check_rate": "distances are computed in every cycle",
    "check_octomap_collisions": "the octomap is an object of the scene",
    "self_collision_proximity_threshold": "distances are those of rmpflow.yaml",
    "scene_collision_proximity_threshold": "distances are those of rmpflow.yaml",
    "lower_singularity_threshold": "the policy is damped near singularities by itself",
    "hard_stop_singularity_threshold": "the policy is damped near singularities by itself",
    "leaving_singularity_threshold_multiplier": "the policy is damped near singularities by itself",
    "singularity_step_scale": "the policy is damped near singularities by itself",
    "publish_period": "references are sent at update_rate",
    "max_expected_latency": "references are sent at update_rate",
    "halt_all_joints_in_joint_mode": "joints at a limit stop alone",
    "halt_all_joints_in_cartesian_mode": "joints at a limit stop alone",
    "use_smoothing": "references are limited in jerk by the joint controller",
    "smoothing_filter_plugin_name": "references are limited in jerk by the joint controller",
    "is_primary_planning_scene_monitor": "move_group has the scene",
    "move_group_name": "the policy moves the group of its parameter 'group'",
    "cartesian_command_in_topic": "the topic is servo_node/delta_twist_cmds",
    "joint_command_in_topic": "the topic is servo_node/delta_joint_cmds",
    "pose_command_in_topic": "the topic is servo_node/pose_target_cmds",
    "status_topic": "the topic is servo_node/status",
    "joint_topic": "the topic is joint_states",
    "command_out_topic": "references go to the joint controller",
    "command_out_type": "references go to the joint controller",
    "publish_joint_positions": "references go to the joint controller",
    "publish_joint_velocities": "references go to the joint controller",
    "publish_joint_accelerations": "references go to the joint controller",
    "override_velocity_scaling_factor": "the speed is that of the command",
}
"""Names of the peer that have no effect, and why."""

Values = Mapping[str, Any]


def servo_names(sections: Iterable[tuple[str, str, Values]]) -> dict[str, dict[str, Any]]:
    """Return the parameters of Servo's files without ``ros__parameters``, by file.

    Args:
        sections: topmost key, file and values of each section.
    """
    files: dict[str, dict[str, Any]] = {}
    for top, file, values in sections:
        names = {f"{top}.{name}" if name else top: value for name, value in values.items()}
        files.setdefault(file, {}).update(names)
    return {file: values for file, values in files.items() if any(m in values for m in MARKS)}


def servo_settings(values: Values) -> dict[str, Any]:
    """Return the parameters of the policy for parameters of Servo."""
    found = {}
    for name, value in values.items():
        own = USED.get(name.removeprefix(NAMESPACE))
        if own is None or value is None:
            continue
        numbers = isinstance(value, int | float) and not isinstance(value, bool)
        listed = [float(each) for each in value] if isinstance(value, list) else value
        found[own] = float(value) if numbers else listed
    return found


def servo_notes(file: str, names: Sequence[str]) -> list[str]:
    """Return which parameters of Servo have no effect, and why, a text for each reason."""
    reasons: dict[str, list[str]] = {}
    for name in names:
        short = name.removeprefix(NAMESPACE)
        if short not in USED:
            why = WITHOUT_EFFECT.get(short, "the suite has no such setting")
            reasons.setdefault(why, []).append(name)
    return [
        f"{file}: {', '.join(listed)} {'has' if len(listed) == 1 else 'have'} no effect: {why}"
        for why, listed in reasons.items()
    ]
