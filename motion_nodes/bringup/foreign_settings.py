# SPDX-License-Identifier: Apache-2.0
"""Settings of the suite's nodes from parameter files of other packages.

Settings of the joint controller for forward_command_controllers of parameter files; settings of the
base navigator from parameter files of Nav2; settings of the reactive policy from the parameter
files of moveit_servo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from motion_nodes.core.control.joint_command import interface_problem
from motion_nodes.core.robot.robot import Robot

OF_TYPE = {
    "position_controllers/JointGroupPositionController": "position",
    "velocity_controllers/JointGroupVelocityController": "velocity",
    "effort_controllers/JointGroupEffortController": "effort",
}
"""Interfaces of controllers that have a fixed one, by type."""
Section = tuple[str, str, Mapping[str, Any]]
"""Name, type and parameters of a controller."""
INSTEAD = {
    "behavior_server": "base_navigator has spin, backup and drive_on_heading, with its own limits",
    "bt_navigator": "base_navigator has its actions, without behavior trees",
    "collision_monitor": "base_navigator stops before obstacles (obstacles.*)",
    "controller_server": "base_navigator tracks paths by its own law, within the robot's limits",
    "global_costmap": "obstacles are points of scans and clouds (obstacles.*)",
    "local_costmap": "obstacles are points of scans and clouds (obstacles.*)",
    "planner_server": "base_navigator has compute_path_to_pose, with its own planner",
    "smoother_server": "paths of base_navigator are smooth by themselves",
    "velocity_smoother": "the controller of the base limits velocities and accelerations",
    "waypoint_follower": "base_navigator has follow_waypoints",
}
"""What the suite has in place of Nav2's nodes, by their names."""
PLUGINS = {
    "controller_server": (
        ("goal_checker_plugins", ("xy_goal_tolerance", "yaw_goal_tolerance")),
        ("progress_checker_plugins", ("required_movement_radius", "required_movement_angle",
                                      "movement_time_allowance")),
    ),
    "planner_server": (("planner_plugins", ("tolerance", "allow_unknown")),),
}  # fmt: skip
"""Used parameters of plugins: name of the list of plugins, of which the first is used."""
PREFIXES = {"planner_plugins": "planner."}
PLAIN = {"waypoint_follower": ("stop_on_failure",)}
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


def forward_settings(
    sections: Sequence[Section], robot: Robot, listed: Sequence[str], notes: list[str]
) -> dict[str, Any]:
    """Return the topics of the joint controller for these controllers, and its control modes.

    Joints that have such controllers of one interface only, and no trajectories, are in its control
    mode; all others keep theirs, since the peer's controllers are switched there.

    Args:
        sections: the controllers.
        robot: whose controllers they are.
        listed: joints given for trajectories; empty: the joint controller has all joints.
        notes: receives what is offered, and what has no effect and why.
    """
    own = list(dict.fromkeys(listed)) or list(robot.arm_joints)
    entries, interfaces = list[str](), dict[str, set[str]]()
    for name, kind, values in sections:
        given = values.get("joints") or ([values["joint"]] if "joint" in values else [])
        joints = [str(joint) for joint in given]
        several = values.get("interface_names") or [values.get("interface_name", "")]
        fixed = OF_TYPE.get(kind)
        quantities = [fixed] if fixed else [str(interface) for interface in several]
        lacking = [joint for joint in joints if joint not in own]
        problem = interface_problem(quantities, len(joints))
        if lacking or not joints:
            problem = f"no controller of {', '.join(lacking)}" if lacking else "no joints are given"
        if problem:
            notes.append(f"{name} has no effect: {problem}")
            continue
        mode = "position" if "position" in quantities else quantities[0]
        entries.append(f"{name}={','.join(quantities)}:{','.join(joints)}")
        notes.append(f"{name}: {name}/commands is served in the control mode {mode}")
        for joint in joints:
            interfaces.setdefault(joint, set()).add(mode)
    if not entries:
        return {}
    settings: dict[str, Any] = {"forward_commands": entries}
    usual = [robot.drive(joint).mode for joint in own]
    only = [interfaces.get(joint, set()) for joint in own]
    modes = [
        next(iter(wanted)) if len(wanted) == 1 else mode
        for wanted, mode in zip(only, usual, strict=True)
    ]
    if not listed and modes != usual:
        settings["control_modes"] = modes
    return settings


def nav2_settings(node: str, values: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the parameters of the navigator for a section of Nav2.

    Args:
        node: name of Nav2's node, without a namespace.
        values: its parameters.

    Returns:
        Name and value of the navigator's parameter, by the name in the section.
    """
    found: dict[str, tuple[str, Any]] = {}
    for name in PLAIN.get(node, ()):
        if name in values:
            found[name] = (name, values[name])
    for plugins, names in PLUGINS.get(node, ()):
        first = next(iter(values.get(plugins) or ()), "")
        for name in names:
            given = values.get(f"{first}.{name}")
            if given is not None:
                whole = isinstance(given, int) and not isinstance(given, bool)
                own = f"{PREFIXES.get(plugins, '')}{name}"
                found[f"{first}.{name}"] = (own, float(given) if whole else given)
    return found


def nav2_note(node: str, values: Mapping[str, Any]) -> str:
    """Return what is used of a section of Nav2, and why the rest is not; empty: unknown node."""
    if node not in INSTEAD:
        return ""
    used = nav2_settings(node, values)
    if not used:
        return f"has no effect: {INSTEAD[node]}"
    return f"is used for {', '.join(used)}; the rest has no effect: {INSTEAD[node]}"


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
