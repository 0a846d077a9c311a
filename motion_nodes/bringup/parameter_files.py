# SPDX-License-Identifier: Apache-2.0
"""Parameter files of the user, also those written for ros2_control and MoveIt.

Sections of nodes that the suite has apply as in ROS. Controllers of other names, such as
``panda_arm_controller``, are served by the suite's controllers: by their types, or by what their
parameters contain. Files of MoveIt's configuration packages have no ``ros__parameters``; what nodes
of the suite have of them is set, and all else is named as without effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from motion_nodes.bringup.node_specs import NodeSpec
from motion_nodes.bringup.parameter_copies import copy_of, without_variables
from motion_nodes.core.control.joint_command import interface_problem
from motion_nodes.core.robot.limits import LOWERED
from motion_nodes.core.robot.robot import GRIPPER_GROUP, Group, Robot
from motion_nodes.core.robot.robot_yaml import CONTROLLERS
from motion_nodes.core.robot.yaml_schema import parse_yaml, read_text
from motion_nodes.ros.names import (
    BASE_NAVIGATOR,
    CONTROLLER_MANAGER,
    CONTROLLER_TYPES,
    JOINT_CONTROLLER,
    OCCUPANCY_MAPPER,
    PLANNER,
    STATE_BROADCASTER,
    under,
)
from motion_nodes.ros.parameter_words import Value

OF_TYPE = {
    "position_controllers/JointGroupPositionController": "position",
    "velocity_controllers/JointGroupVelocityController": "velocity",
    "effort_controllers/JointGroupEffortController": "effort",
}
"""Interfaces of controllers that have a fixed one, by type."""
INSTEAD = {
    "behavior_server": "base_navigator has its actions and wait, with its own limits",
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
        ("controller_plugins", ("max_vel_x", "max_vel_theta", "desired_linear_vel", "vx_max",
                                "wz_max")),
    ),
    "planner_server": (("planner_plugins", ("tolerance", "allow_unknown")),),
}  # fmt: skip
"""Used parameters of plugins: name of the list of plugins, of which the first is used."""
SMOOTHER, DEADBAND = "velocity_smoother", "deadband_velocity"
"""Node of Nav2 and its parameter that the controller of a base uses."""
PREFIXES = {"planner_plugins": "planner."}
FORWARD_SPEED, YAW_RATE = "linear.x.max_velocity", "angular.z.max_velocity"
OWN = {
    **dict.fromkeys(("max_vel_x", "desired_linear_vel", "vx_max"), FORWARD_SPEED),
    **dict.fromkeys(("max_vel_theta", "wz_max"), YAW_RATE),
}
"""The navigator's names of parameters that have another one in the controllers of Nav2."""
PLAIN = {
    "controller_server": ("speed_limit_topic",),
    "waypoint_follower": ("stop_on_failure",),
    "behavior_server": ("cmd_vel_teleop", "enable_stamped_cmd_vel"),
}
SERVO_NODE = "servo_node"
"""Name of the peer's node."""
MARKS = ("command_in_type", "cartesian_command_in_topic", "joint_command_in_topic")
"""Names by which a file without ``ros__parameters`` is recognized."""
NAMESPACE = "moveit_servo."
USED = {
    "command_in_type": "servo.command_in_type",
    "incoming_command_timeout": "servo.incoming_command_timeout",
    "joint_limit_margins": "joint_limit_buffers",
    **{
        name: f"servo.{name}"
        for name in (
            "lower_singularity_threshold",
            "hard_stop_singularity_threshold",
            "leaving_singularity_threshold_multiplier",
        )
    },
    "scale.joint": "servo.scale.joint",
    "scale.linear": "servo.scale.linear",
    "scale.rotational": "servo.scale.rotational",
}
"""Parameters of the policy, by the names that they have there."""
SERVO_WITHOUT_EFFECT = {
    "check_collisions": "the policy always avoids collisions",
    "collision_check_rate": "distances are computed in every cycle",
    "check_octomap_collisions": "the octomap is an object of the scene",
    "self_collision_proximity_threshold": "distances are those of rmpflow.yaml",
    "scene_collision_proximity_threshold": "distances are those of rmpflow.yaml",
    "singularity_step_scale": "the step towards a singularity has a fixed length",
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
    controllers: Sequence[UserController],
    robot: Robot,
    listed: Sequence[str],
    notes: list[str],
) -> dict[str, Any]:
    """Return the topics of the joint controller for these controllers, and its control modes.

    Joints that have such controllers of one interface only, and no trajectories, are in its control
    mode; all others keep theirs, since the peer's controllers are switched there.

    Args:
        controllers: the controllers.
        robot: whose controllers they are.
        listed: joints given for trajectories; empty: the joint controller has all joints.
        notes: receives what is offered, and what has no effect and why.
    """
    own = list(dict.fromkeys(listed)) or list(robot.arm_joints)
    entries, interfaces = list[str](), dict[str, set[str]]()
    for controller in controllers:
        name, values = controller.name, controller.values
        given = values.get("joints") or ([values["joint"]] if "joint" in values else [])
        joints = [str(joint) for joint in given]
        several = values.get("interface_names") or [values.get("interface_name", "")]
        fixed = OF_TYPE.get(controller.type)
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
        when = ", once it is activated by switch_controller" if listed else ""
        notes.append(f"{name}: {name}/commands is served in the control mode {mode}{when}")
        for joint in joints:
            interfaces.setdefault(joint, set()).add(mode)
    if not entries:
        return {}
    settings: dict[str, Any] = {"forward_commands": entries}
    if listed:
        # As the peer's: the controller of trajectories has the joints at the start.
        settings["inactive_controllers"] = [entry.partition("=")[0] for entry in entries]
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
                own = OWN.get(name, f"{PREFIXES.get(plugins, '')}{name}")
                found[f"{first}.{name}"] = (own, float(given) if whole else given)
    return found


def nav2_note(node: str, values: Mapping[str, Any]) -> str:
    """Return what is used of a section of Nav2, and why the rest is not; empty: unknown node."""
    if node not in INSTEAD:
        return ""
    used = [*nav2_settings(node, values)]
    if node == SMOOTHER and values.get(DEADBAND):
        used.append(DEADBAND)
    if not used:
        return f"has no effect: {INSTEAD[node]}"
    return f"is used for {', '.join(used)}; the rest has no effect: {INSTEAD[node]}"


def _servo_names(sections: Iterable[ParameterSection]) -> dict[str, dict[str, Any]]:
    """Return the parameters of Servo's files without ``ros__parameters``, by file."""
    files: dict[str, dict[str, Any]] = {}
    for section in sections:
        top, values = section.node, section.values
        names = {f"{top}.{name}" if name else top: value for name, value in values.items()}
        files.setdefault(section.file, {}).update(names)
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
            why = SERVO_WITHOUT_EFFECT.get(short, "the suite has no such setting")
            reasons.setdefault(why, []).append(name)
    return [
        f"{file}: {', '.join(listed)} {'has' if len(listed) == 1 else 'have'} no effect: {why}"
        for why, listed in reasons.items()
    ]


PARAMETERS = "ros__parameters"
CLOCK = "use_sim_time"
"""Whether nodes follow /clock; with a simulation all do, or their times would not agree."""

JOINTS, GRIPPER, FORWARD, STATES = "trajectories", "gripper", "commands", "joint_states"
JOINT_KEYS = ("joint", "joints")
JOINT_ENDINGS = ("_joint_name", "_joints_names", "wheel_names", "wheels_names")
"""Names, or their ends, of parameters with names of joints."""
FOREIGN = "foreign"
"""Kind of a controller of joints that the robot does not have."""
UNKNOWN = "unknown"
"""Kind of a controller of a type that the suite does not have."""
BASES = tuple(name for names in CONTROLLERS.values() for name in names)
GRIPPER_TYPE = "position_controllers/GripperActionController"
PARALLEL_TYPE = "parallel_gripper_action_controller/GripperActionController"
KINDS = {
    "joint_trajectory_controller/JointTrajectoryController": JOINTS,
    "ur_controllers/ScaledJointTrajectoryController": JOINTS,
    "position_controllers/GripperActionController": GRIPPER,
    "effort_controllers/GripperActionController": GRIPPER,
    PARALLEL_TYPE: GRIPPER,
    "forward_command_controller/ForwardCommandController": FORWARD,
    "forward_command_controller/MultiInterfaceForwardCommandController": FORWARD,
    "position_controllers/JointGroupPositionController": FORWARD,
    "velocity_controllers/JointGroupVelocityController": FORWARD,
    "effort_controllers/JointGroupEffortController": FORWARD,
    "joint_state_broadcaster/JointStateBroadcaster": STATES,
    **{CONTROLLER_TYPES[name]: name for name in BASES if name in CONTROLLER_TYPES},
}
"""What a controller is used for, by its type: joints, gripper, or the name of a base controller."""


GRIPPER_NAME = "gripper_controller"
"""Controller of the gripper if the user's joint controller does not have its joints."""

EXECUTING = ("rrt_planner", "trajectory_generator")
"""Executables of nodes that send trajectories to the controllers of their joints."""

MAPPER = "occupancy_mapper"
"""Executable that builds the octomap."""
POLICY = "rmpflow_policy"
"""Executable of the policy that has the interface of Servo."""

LIMITS, MAX_SPEED = "cartesian_limits", "max_trans_vel"
"""Topmost key of Pilz's limits, and the one of them that move_group uses."""

SOLVER_TIMEOUT = "kinematics_solver_timeout"

WITHOUT_EFFECT = {
    "planner_configs": "planners are chosen by planner_id",
    "default_velocity_scaling_factor": "clients read it; each request has its own factor",
    "default_acceleration_scaling_factor": "clients read it; each request has its own factor",
    "trajectory_execution": "the joint controller monitors executions",
    "moveit_controller_manager": "move_group moves the robot by joint_trajectory_controller",
}
"""Names at the top of MoveIt's files, and why they have no effect."""

JOINT_LIMITS = "joint_limits"
"""Topmost key of MoveIt's limits of joints."""
SENSORS, PLUGIN = "sensors", "sensor_plugin"
"""Topmost key of MoveIt's sensors for the octomap, and the parameter with the class of each."""
CONTROLLERS_OF_MOVEIT = "moveit_simple_controller_manager"
"""Topmost key of the controllers to which MoveIt sends trajectories."""
UPDATERS = {
    "PointCloudOctomapUpdater": ("point_cloud_topic", "point_clouds", "max_range"),
    "DepthImageOctomapUpdater": (
        "image_topic", "depth_images", "far_clipping_plane_distance",
    ),
}  # fmt: skip
"""Plugins of these: names of topic and range there, and the mapper's parameter of the topic."""
INITIAL = "initial_positions"
"""Topmost key of the positions at which a simulation starts, and that parameter."""
PLANNING = "robot_description_planning."
"""Where a file of ROS has them."""

GRIPPER_PARAMETERS = {
    name: f"gripper.{name}"
    for name in ("allow_stalling", "goal_tolerance", "stall_timeout", "stall_velocity_threshold")
}
"""Parameters of gripper controllers, by the names that they have there."""


@dataclass(frozen=True)
class ParameterSection:
    """Parameters of one node in a file."""

    node: str
    """Full name of the node, possibly with wildcards."""
    values: Mapping[str, Any]
    """Values by name, with dots."""
    file: str

    def of(self, full_name: str) -> bool:
        """Return whether the section applies to a node."""
        own, name = self.node.strip("/"), full_name.strip("/")
        return fnmatch(name, own.replace("**/", "*").replace("**", "*")) or (
            own.startswith("**/") and fnmatch(name, own[3:])
        )


@dataclass(frozen=True)
class UserParameters:
    """Parameter files of the user."""

    ros_files: tuple[str, ...]
    """Files that nodes read themselves."""
    sections: tuple[ParameterSection, ...]
    moveit: tuple[ParameterSection, ...]
    """Contents of files without ``ros__parameters``; ``node`` is the topmost key."""
    variables: Mapping[str, Sequence[str]]
    """Variables of launch files, which are empty here, by file."""


def read_parameter_files(files: Sequence[str]) -> UserParameters:
    """Read parameter files.

    Args:
        files: their paths.

    Raises:
        InvalidDescription: a file is not YAML, or not a mapping.
    """
    ros: list[str] = []
    sections: list[ParameterSection] = []
    others: list[ParameterSection] = []
    variables: dict[str, Sequence[str]] = {}
    for file in files:
        text, named = without_variables(read_text(Path(file)))
        variables |= {file: named} if named else {}
        data = parse_yaml(text, file, repeated=True)
        found = list(_sections(data, "", file))
        if found:
            ros.append(file)
            sections += found
            continue
        for key, value in data.items():
            values = dict(_flat(value)) if isinstance(value, Mapping) else {"": value}
            others.append(ParameterSection(str(key), values, file))
    return UserParameters(tuple(ros), tuple(sections), tuple(others), variables)


def _sections(data: Mapping[Any, Any], above: str, file: str) -> Iterator[ParameterSection]:
    for key, value in data.items():
        if not isinstance(value, Mapping):
            continue
        name = f"{above}/{str(key).strip('/')}"
        if PARAMETERS in value:
            yield ParameterSection(name, dict(_flat(value[PARAMETERS] or {})), file)
        yield from _sections({k: v for k, v in value.items() if k != PARAMETERS}, name, file)


def _flat(data: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


@dataclass(frozen=True)
class UserController:
    """A controller of a user's file that has no node of its name."""

    name: str
    kind: str
    values: dict[str, Any]
    type: str = ""


def _controllers_in(
    user: UserParameters, namespace: str, robot: Robot, own: Sequence[str]
) -> list[UserController]:
    """Return the controllers of a namespace that the suite has under other names."""
    found = []
    for name, (named, given) in controllers_of(user, namespace).items():
        kind = KINDS.get(named, "") or _kind_by(given) or (UNKNOWN if named else "")
        if not kind or name in own:
            continue
        given, foreign = own_joints(given, robot)
        if kind not in (STATES, UNKNOWN) and foreign:
            kind, given = FOREIGN, {"joints": foreign}
        found.append(UserController(name, kind, given, named))
    return found


def controllers_of(user: UserParameters, namespace: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the type, empty if not given, and parameters of the nodes of a namespace by name."""
    types: dict[str, str] = {}
    values: dict[str, dict[str, Any]] = {}
    for section in user.sections:
        space, _, name = section.node.strip("/").rpartition("/")
        if space not in (namespace, "**", ""):
            continue
        if name == CONTROLLER_MANAGER:
            for key, value in section.values.items():
                if key.endswith(".type") and "/" in str(value):
                    types[key.removesuffix(".type")] = str(value)
        else:
            values.setdefault(name, {}).update(section.values)
    found = {}
    for name in dict.fromkeys((*types, *values)):
        given = values.get(name, {})
        kind = str(given.get("type") or types.get(name, ""))
        # Other nodes have a parameter of this name, too, which is no class of a plugin.
        found[name] = kind if "/" in kind else "", given
    return found


def own_joints(values: Mapping[str, Any], robot: Robot) -> tuple[dict[str, Any], list[str]]:
    """Return a controller's parameters with joints of the robot, and joints that it lacks.

    Joints of chained controllers have the names of these before their own, as in
    ``pid_controller/left_wheel_joint``; here they are commanded directly.
    """
    known, own, foreign = robot.limits.names, dict(values), list[str]()

    def joint(given: Any) -> str:
        name = str(given)
        short = name if name in known else name.rpartition("/")[2]
        if short not in known:
            foreign.append(name)
        return short

    for key, value in values.items():
        if key in JOINT_KEYS or key.endswith(JOINT_ENDINGS):
            own[key] = [joint(each) for each in value] if isinstance(value, list) else joint(value)
    return own, foreign


def _kind_by(values: Mapping[str, Any]) -> str:
    """Return what a controller without a known type is used for, by its parameters."""
    if "type" in values:
        return ""
    if "joints" in values and "command_interfaces" in values:
        return JOINTS
    if "joint" in values:
        return GRIPPER
    return ""


def with_user_parameters(
    specs: Sequence[NodeSpec], user: UserParameters, robots: Mapping[str, Robot]
) -> tuple[list[NodeSpec], list[str]]:
    """Return the nodes of a suite with the user's parameters, and notes on what has no effect.

    Args:
        specs: the nodes.
        user: the files.
        robots: by namespace.
    """
    specs, notes = list(specs), list[str]()
    for file, variables in user.variables.items():
        listed = ", ".join(f"$(var {name})" for name in variables)
        notes.append(f"{file}: {listed} of a launch file is empty here")
    served: set[str] = set()
    for namespace, robot in robots.items():
        own = [spec.name for spec in specs if spec.namespace == namespace]
        base = next((name for name in own if name in BASES), "")
        controllers = _controllers_in(user, namespace, robot, own)
        served |= {controller.name for controller in controllers}
        notes += _unserved(controllers, robot, base, jointed=JOINT_CONTROLLER in own)
        specs = [
            more
            for spec in specs
            for more in (
                _served(spec, controllers, user, robot, base, notes)
                if spec.namespace == namespace
                else [spec]
            )
        ]
    begun = _initial_positions(user, robots, notes)
    specs = [_with(spec, begun if spec.is_simulation else {}) for spec in specs]
    specs = _with_files(specs, user, robots, notes)
    names = [spec.full_name for spec in specs]
    navigates = any(spec.executable == BASE_NAVIGATOR for spec in specs)
    for section in user.sections:
        short = section.node.rpartition("/")[2]
        if short == SERVO_NODE and any(spec.executable == POLICY for spec in specs):
            notes += servo_notes(section.file, list(section.values))
        elif navigates and (note := nav2_note(short, section.values)):
            notes.append(f"{section.file}: section '{section.node}' {note}")
        elif short not in served and not any(section.of(name) for name in names):
            notes.append(f"{section.file}: section '{section.node}' has no effect: no such node")
    return specs, [*notes, *_moveit_notes(user.moveit, specs)]


def _with_files(
    specs: Sequence[NodeSpec],
    user: UserParameters,
    robots: Mapping[str, Robot],
    notes: list[str],
) -> list[NodeSpec]:
    """Return the nodes with the user's files, or copies with their robot's joints and its clock."""
    simulated = any(spec.parameters.get(CLOCK) for spec in specs)
    walled = [s.file for s in user.sections if s.values.get(CLOCK) is False] if simulated else []
    for file in dict.fromkeys(walled):
        notes.append(f"{file}: {CLOCK} of false has no effect: a simulation gives the time")
    found: dict[str, tuple[str, ...]] = {}
    for namespace, robot in robots.items():
        controllers = [
            spec.full_name
            for spec in specs
            if spec.namespace == namespace and spec.name in (JOINT_CONTROLLER, *BASES)
        ]
        found[namespace] = tuple(
            _file_for(robot, controllers, user, file, notes, walled=file in walled)
            for file in user.ros_files
        )
    usual = user.ros_files
    return [replace(spec, params_files=found.get(spec.namespace, usual)) for spec in specs]


def _file_for(
    robot: Robot,
    controllers: Sequence[str],
    user: UserParameters,
    file: str,
    notes: list[str],
    *,
    walled: bool,
) -> str:
    """Return a file of the user, or a copy of it for one robot if that differs.

    Args:
        robot: whose joints the sections of its controllers must have.
        controllers: full names of these.
        user: the files.
        file: one of them.
        notes: receives which sections are left out, and why.
        walled: whether it has nodes not follow /clock, which is left out.
    """
    kept = list[tuple[str, Mapping[str, Any]]]()
    changed = walled or file in user.variables
    for section in user.sections:
        if section.file != file:
            continue
        values, foreign = section.values, list[str]()
        if not section.node.endswith("*") and any(map(section.of, controllers)):
            values, foreign = own_joints(values, robot)
        changed |= bool(foreign) or values != section.values
        if foreign:
            notes.append(
                f"{file}: section '{section.node}' has no effect: robot '{robot.name}' has no "
                f"joint {', '.join(foreign)}"
            )
            continue
        kept.append((section.node, {k: v for k, v in values.items() if k != CLOCK or not walled}))
    return copy_of(file, kept) if changed else file


def _kinds_of(base: str) -> Sequence[str]:
    """Return the kinds of controllers that the node of a base serves; none without a base."""
    return next((names for names in CONTROLLERS.values() if base in names), ())


def _unserved(
    controllers: Sequence[UserController], robot: Robot, base: str, *, jointed: bool
) -> list[str]:
    """Return which controllers have no node, and why."""
    notes = []
    for c in controllers:
        if c.kind == STATES:
            notes.append(f"{c.name} is listed only: joint_states come from simulation or driver")
        elif c.kind == UNKNOWN:
            notes.append(f"{c.name} has no effect: the suite has no {c.type}")
        elif c.kind == FOREIGN:
            foreign = ", ".join(c.values["joints"])
            notes.append(f"{c.name} has no effect: robot '{robot.name}' has no joint {foreign}")
        elif c.kind in BASES and c.kind not in _kinds_of(base):
            what = f"its base has a {base}" if base else "it has no base"
            notes.append(f"{c.name} has no effect on robot '{robot.name}': {what}")
        elif c.kind == GRIPPER and not robot.hands:
            notes.append(
                f"{c.name} has no effect: robot '{robot.name}' has no group '{GRIPPER_GROUP}'"
            )
        elif c.kind in (JOINTS, GRIPPER, FORWARD) and not jointed:
            notes.append(f"{c.name} has no effect: robot '{robot.name}' has no joint controller")
    return notes


def _served(
    spec: NodeSpec,
    controllers: Sequence[UserController],
    user: UserParameters,
    robot: Robot,
    base: str,
    notes: list[str],
) -> list[NodeSpec]:
    """Return a node with the settings of the controllers that it serves, and nodes beside it."""
    hands = _hands_beside(controllers, _joints_of(controllers, user, spec), robot)
    if spec.name == CONTROLLER_MANAGER:
        names = [f"{c.name}={JOINT_CONTROLLER}:{c.type}" for c in controllers if c.kind == JOINTS]
        if names and JOINT_CONTROLLER in controllers_of(user, spec.namespace):
            names.append(f"{JOINT_CONTROLLER}={JOINT_CONTROLLER}")
        names += [f"{c.name}={base}" for c in controllers if c.kind in _kinds_of(base)][:1]
        types = {c.name: c.type for c in controllers}
        names += [f"{hand}={hand}:{types.get(hand, GRIPPER_TYPE)}" for hand in hands]
        names += [f"{c.name}={STATE_BROADCASTER}" for c in controllers if c.kind == STATES][:1]
        given: dict[str, Value] = {"aliases": names} if names else {}
        forward = [c for c in controllers if c.kind == FORWARD]
        joints = _joints_of(controllers, user, spec)
        entries = forward_settings(forward, robot, joints, []).get("forward_commands", ())
        served = [entry.partition("=")[0] for entry in entries]
        if served:
            own = [c for c in forward if c.name in served]
            given["forward_controllers"] = [f"{c.name}:{c.type}" for c in own]
        return [_with(spec, given)]
    if spec.name == base:
        own = [c for c in controllers if c.kind in _kinds_of(base)]
        names = [controller.name for controller in own if controller.name != spec.name]
        for name in names:
            notes.append(f"{name}: twists and odometry are served by {spec.full_name}")
        given = _deadband(user, spec.namespace) | ({"aliases": names} if names else {})
        return [_with(spec, given | (_settings(own[0].values) if own else {}))]
    if spec.executable == "ik_service":
        times = [s.values[SOLVER_TIMEOUT] for s in user.moveit if SOLVER_TIMEOUT in s.values]
        return [_with(spec, {SOLVER_TIMEOUT: float(times[0])} if times else {})]
    if spec.executable in EXECUTING and hands:
        entries = [f"{name}={','.join(hand.joints)}" for name, hand in hands.items()]
        spec = _with(spec, {"other_controllers": entries})
    if spec.executable == "rrt_planner":
        limits = [s.values for s in user.moveit if s.node == LIMITS and MAX_SPEED in s.values]
        name = f"{LIMITS}.{MAX_SPEED}"
        given = {name: float(limits[0][MAX_SPEED])} if limits else {}
        return [_with(spec, given | _joint_limits(user, spec, robot, notes))]
    if spec.executable == POLICY:
        found: dict[str, Value] = {}
        for values in _servo_values(user).values():
            found |= servo_settings(values)
        return [_with(spec, found)]
    if spec.executable == BASE_NAVIGATOR:
        return [_with(spec, _nav2_values(user, spec.namespace, robot))]
    if spec.name == JOINT_CONTROLLER:
        return _joint_controllers(spec, controllers, user, robot, notes)
    return [spec]


def _joint_controllers(
    spec: NodeSpec,
    controllers: Sequence[UserController],
    user: UserParameters,
    robot: Robot,
    notes: list[str],
) -> list[NodeSpec]:
    """Return the joint controller with what it serves, and that of a gripper beside it."""
    arms = [c for c in controllers if c.kind == JOINTS]
    joints = _joints_of(controllers, user, spec)
    hands = [c for c in controllers if c.kind == GRIPPER]
    settings: dict[str, Any] = {}
    for controller in arms[:1]:
        settings |= _settings(controller.values)
    if len(arms) > 1:
        settings["joints"] = list(dict.fromkeys(joints))
    if arms:
        settings["aliases"] = [c.name for c in arms]
        listed = ", ".join(c.name for c in arms)
        notes.append(f"{listed}: action, topic and state are served by {spec.full_name}")
    forward = [c for c in controllers if c.kind == FORWARD]
    settings |= forward_settings(forward, robot, joints, notes)
    if _given(user, spec, "control_modes"):
        settings.pop("control_modes", None)
    besides = _hands_beside(controllers, joints, robot)
    if not besides:
        if len(robot.hands) > 1:
            notes += [
                f"{c.name} has no effect: {spec.full_name} has its joints; list the joints of "
                "trajectories without them"
                for c in hands
            ]
        return [_with(spec, settings | _gripper_settings(hands))]
    specs = [_with(spec, settings)]
    for name, hand in besides.items():
        listed = ", ".join(hand.joints)
        notes.append(f"{name} controls {listed}: {spec.full_name} has other joints")
        beside: dict[str, Value] = {
            "joints": list(hand.joints),
            "contact_detection": False,
            "feed_forward": False,
            "impedance.group": "",
        }
        own = [c for c in hands if len(besides) == 1 or _moves(c, hand)]
        given = _gripper_settings(own) or {"gripper.aliases": [name]}
        specs.append(_with(replace(spec, name=name), beside | given))
    return specs


def _joint_limits(
    user: UserParameters, spec: NodeSpec, robot: Robot, notes: list[str]
) -> dict[str, Value]:
    """Return the limits of MoveIt's ``joint_limits.yaml`` that are lower than the robot's."""
    given = [(dict(s.values), s.file) for s in user.moveit if s.node == JOINT_LIMITS]
    start = f"{PLANNING}{JOINT_LIMITS}."
    for section in user.sections:
        if section.of(spec.full_name):
            found = {
                n.removeprefix(start): v for n, v in section.values.items() if n.startswith(start)
            }
            given += [(found, section.file)] if found else []
    entries, limits = list[str](), robot.limits
    for values, file in given:
        higher, unknown, other = [list[str]() for _ in range(3)]
        for name, value in values.items():
            joint, _, kind = name.rpartition(".")
            has = f"{joint}.has_{kind.removeprefix('max_')}_limits"
            if kind.startswith("has_") or not values.get(has, True):
                continue
            if joint not in limits.names:
                unknown += [] if joint in unknown else [joint]
            elif kind not in LOWERED or not isinstance(value, int | float):
                other.append(name)
            elif not 0.0 < value <= getattr(limits, LOWERED[kind])[limits.names.index(joint)]:
                higher.append(name)
            else:
                entries.append(f"{name}={float(value)!r}")
        reasons = (
            (higher, "limits of the robot are lower"),
            (unknown, f"robot '{robot.name}' has no such joint"),
            (other, "positions are limited by the robot alone"),
        )
        notes += [
            f"{file}: {JOINT_LIMITS} of {', '.join(names)} have no effect: {why}"
            for names, why in reasons
            if names
        ]
    return {JOINT_LIMITS: entries} if entries else {}


def _given(user: UserParameters, spec: NodeSpec, name: str) -> list[Any]:
    """Return a list given for the joint controller in a node's namespace; empty: none."""
    node, found = under(spec.namespace, JOINT_CONTROLLER), list[Any]()
    for section in user.sections:
        if section.of(node):
            found += section.values.get(name) or ()
    return found


def _joints_of(
    controllers: Sequence[UserController], user: UserParameters, spec: NodeSpec
) -> list[str]:
    """Return the joints given for the joint controller in a node's namespace; empty: all."""
    joints = [j for c in controllers if c.kind == JOINTS for j in c.values.get("joints") or ()]
    return joints + _given(user, spec, "joints")


def _moves(controller: UserController, hand: Group) -> bool:
    """Return whether a gripper controller of a file is that of a hand."""
    values = controller.values
    return not {values.get("joint"), *(values.get("joints") or ())}.isdisjoint(hand.joints)


def _hands_beside(
    controllers: Sequence[UserController], joints: Sequence[str], robot: Robot
) -> dict[str, Group]:
    """Return the hands whose joints the joint controller lacks, by their controllers' names."""
    found = dict[str, Group]()
    if not joints or not set(robot.arm_joints).issuperset(joints):
        return found
    grippers = [c for c in controllers if c.kind == GRIPPER]
    for hand in robot.hands:
        if set(hand.joints) <= set(joints):
            continue
        own = [c.name for c in grippers if len(robot.hands) == 1 or _moves(c, hand)]
        usual = GRIPPER_NAME if len(robot.hands) == 1 else f"{hand.name}_controller"
        found[own[0] if own else usual] = hand
    return found


def _nav2_values(user: UserParameters, namespace: str, robot: Robot) -> dict[str, Value]:
    """Return the parameters of a base's navigator from sections of Nav2's nodes."""
    found: dict[str, Any] = {}
    for section in user.sections:
        short = section.node.rpartition("/")[2]
        if section.of(under(namespace, short)):
            found |= dict(nav2_settings(short, section.values).values())
    assert robot.base is not None
    x, y, z = robot.base.linear.x, robot.base.linear.y, robot.base.angular.z
    for name, axes in ((FORWARD_SPEED, (x, y)), (YAW_RATE, (z,))):
        if name in found:
            limits = (axis.max_velocity for axis in axes if axis is not None)
            found[name] = min(float(found[name]), *limits)
    return found


def _initial_positions(
    user: UserParameters, robots: Mapping[str, Robot], notes: list[str]
) -> dict[str, Value]:
    """Return the positions of joints at which a simulation starts."""
    entries = list[str]()
    for section in (section for section in user.moveit if section.node == INITIAL):
        unused = list[str]()
        for joint, value in section.values.items():
            used = 0
            for namespace, robot in robots.items():
                number = isinstance(value, int | float) and joint in robot.limits.names
                k = robot.limits.names.index(joint) if number else 0
                if number and robot.limits.lower[k] <= value <= robot.limits.upper[k]:
                    entries.append(f"{under(namespace, joint)}={float(value)!r}")
                    used += 1
            unused += [] if used else [joint]
        if unused:
            notes.append(
                f"{section.file}: {INITIAL} of {', '.join(unused)} have no effect: no robot has "
                "such a joint with this position in its limits"
            )
    return {INITIAL: entries} if entries else {}


def _sensors(sections: Sequence[ParameterSection]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield file and parameters of each sensor of MoveIt's ``sensors_3d.yaml``."""
    for section in (section for section in sections if section.node == SENSORS):
        named = {s.node: s.values for s in sections if s.file == section.file}
        listed = section.values.get("")
        for entry in listed if isinstance(listed, list) else ():
            values = entry if isinstance(entry, Mapping) else named.get(str(entry), {})
            if values:
                yield section.file, values


def sensor_settings(user: UserParameters, images: Sequence[str]) -> dict[str, Value]:
    """Return the parameters of a mapper for the sensors of MoveIt's ``sensors_3d.yaml``.

    Args:
        user: the files.
        images: topics of depth images that it has anyway.

    Returns:
        Topics, and the max range [m] if all sensors have one; empty without any sensor.
    """
    topics: dict[str, list[str]] = {"depth_images": list(images)}
    ranges = list[float]()
    for _, values in _sensors(user.moveit):
        plugin = str(values.get(PLUGIN, "")).rpartition("/")[2]
        name, kind, far = UPDATERS.get(plugin, ("", "", ""))
        if values.get(name):
            topics.setdefault(kind, []).append(str(values[name]))
            ranges += [float(values[far])] if isinstance(values.get(far), int | float) else []
    found: dict[str, Value] = {kind: names for kind, names in topics.items() if names}
    return found | ({"max_range": max(ranges)} if ranges and not images else {})


def _deadband(user: UserParameters, namespace: str) -> dict[str, Any]:
    """Return the dead band of Nav2's velocity smoother as that of a base's controller."""
    for section in user.sections:
        bands = section.values.get(DEADBAND)
        if section.of(under(namespace, SMOOTHER)) and bands:
            return {DEADBAND: [float(bands[k]) for k in (0, 1, -1)]}
    return {}


def _servo_values(user: UserParameters) -> dict[str, dict[str, Any]]:
    """Return the parameters of Servo by file."""
    values = _servo_names(user.moveit)
    for section in user.sections:
        if section.node.rpartition("/")[2] == SERVO_NODE:
            values.setdefault(section.file, {}).update(section.values)
    return values


def _gripper_settings(hands: Sequence[UserController]) -> dict[str, Any]:
    if not hands:
        return {}
    given: dict[str, Any] = {
        GRIPPER_PARAMETERS[k]: v for k, v in hands[0].values.items() if k in GRIPPER_PARAMETERS
    }
    for c in hands:
        key = "gripper.parallel_aliases" if c.type == PARALLEL_TYPE else "gripper.aliases"
        given.setdefault(key, []).append(c.name)
    return given


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a section that a node can be given on its command line."""
    return {
        name: value
        for name, value in values.items()
        if name not in ("type", "update_rate", CLOCK) and value is not None and value != []
    }


def _with(spec: NodeSpec, settings: Mapping[str, Value]) -> NodeSpec:
    return replace(spec, parameters={**spec.parameters, **settings})


def _moveit_notes(sections: Sequence[ParameterSection], specs: Sequence[NodeSpec]) -> list[str]:
    """Return which names of MoveIt's files have no effect, and why."""
    executables = {spec.executable for spec in specs}
    servo = _servo_names(sections) if POLICY in executables else {}
    sensed = list(_sensors(sections)) if MAPPER in executables else []
    found = [note for file, values in servo.items() for note in servo_notes(file, list(values))]
    found += [_sensor_note(file, values) for file, values in sensed]
    seeing = {file for file, _ in sensed}
    notes: dict[tuple[str, str], list[str]] = {}
    for section in sections:
        if section.file in servo:
            continue
        if section.file in seeing and (section.node == SENSORS or PLUGIN in section.values):
            continue
        if section.node == CONTROLLERS_OF_MOVEIT:
            found.append(_execution_note(section, specs))
            continue
        names, why = _unused(section, specs)
        if names:
            notes.setdefault((section.file, why), []).extend(names)
    for (file, why), names in notes.items():
        verb = "has" if len(names) == 1 else "have"
        found.append(f"{file}: {', '.join(names)} {verb} no effect: {why}")
    return found


def _sensor_note(file: str, values: Mapping[str, Any]) -> str:
    """Return which topic of a sensor the mapper reads, and what of it has no effect."""
    used = [name for row in UPDATERS.values() for name in (row[0], row[2])] + [PLUGIN]
    rest = ", ".join(name for name in values if name not in used)
    topics = (str(values[n]) for n in used if n.endswith("topic") and n in values)
    lost = f"; {rest} have no effect there" if rest else ""
    return f"{file}: {OCCUPANCY_MAPPER} reads {next(topics, 'nothing')}{lost}"


def _execution_note(section: ParameterSection, specs: Sequence[NodeSpec]) -> str:
    """Return what becomes of the list of controllers that MoveIt sends trajectories to."""
    have = {name for spec in specs for name in _names_of(spec)}
    missing = [n for n in section.values.get("controller_names") or [] if n not in have]
    lacking = f"; no node serves {', '.join(missing)}" if missing else ""
    return f"{section.file}: {section.node}: move_group moves the robot itself{lacking}"


def _unused(section: ParameterSection, specs: Sequence[NodeSpec]) -> tuple[list[str], str]:
    """Return which names of a section of MoveIt have no effect, and why; no names: all have one."""
    top, names = section.node, list(section.values)
    if top == JOINT_LIMITS and any(spec.name == PLANNER for spec in specs):
        return [], ""
    if top == INITIAL and any(spec.is_simulation for spec in specs):
        return [], ""
    if "kinematics_solver" in names:
        unused = [f"{top}.{name}" for name in names if name != SOLVER_TIMEOUT]
        return unused, "the suite has its own solvers"
    if top == LIMITS:
        unused = [f"{top}.{name}" for name in names if name != MAX_SPEED]
        return unused, "other limits of LIN and CIRC are those of the joints"
    return [top], WITHOUT_EFFECT.get(top, "the suite has no such setting")


def _names_of(spec: NodeSpec) -> list[str]:
    names = [spec.name]
    for key in ("aliases", "gripper.aliases", "gripper.parallel_aliases"):
        given = spec.parameters.get(key, ())
        names += [str(name) for name in given] if isinstance(given, list | tuple) else []
    return names
