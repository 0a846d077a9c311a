# SPDX-License-Identifier: Apache-2.0
"""Parameters of joint_trajectory_controller, by the names of ros2_controllers.

Their docs name the default of ros2_controllers where it differs; ``peer_defaults`` selects those.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from motion_nodes.model.robot_yaml import DRIVE_MODES
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams

PEER_DEFAULTS: Mapping[str, Any] = {
    "allow_partial_joints_goal": False,
    "allow_trajectory_replacement": True,
    "constraints_goal": 0.0,
    "constraints_goal_time": 0.0,
    "constraints_trajectory": 0.0,
    "gripper_allow_stalling": False,
    "gripper_goal_tolerance": 0.01,
    "gripper_stall_timeout": 1.0,
    "interpolate_from_desired_state": False,
    "reject_invalid_goals": True,
    "start_tolerance": 0.0,
}
"""Defaults of ros2_controllers that differ from those of this suite, by field."""


def gain(letter: str, name: str, **more: Any) -> Any:
    """Return a field with one gain of each joint; NaN: not set."""
    return param(
        math.nan,
        name=f"gains.<joint>.{letter}",
        doc=f"{name} of this joint's PID controller, with the command interfaces velocity and "
        "effort; not set (NaN): that of the drives with effort (kp, ki, kd), else 10 1/s for p "
        "and 0 for others (0 for all in ros2_controllers).",
        nan=True,
        per="joints",
        **({"ge": 0.0} | more),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrajectoryParams(FramedParams):
    """Parameters of trajectories and their tolerances."""

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {
        "joint": "a gripper's joints are those of the robot's group 'gripper'",
        "type": "the bring-up starts the controller",
        "max_effort": "a goal gives its effort",
        "command_joints": "the command interfaces have the names of the joints",
        "state_interfaces": "positions, velocities and efforts are those in joint_states",
        "speed_scaling.state_interface": "the factor is set by ~/speed_scaling_input",
        "speed_scaling.command_interface": "the factor is set by ~/speed_scaling_input",
        "gains.*.antiwindup_strategy": "the integral is limited by back-calculation",
        "gains.*.tracking_time_constant": "it follows from the gains",
        "gains.*.error_deadband": "there is none",
        "gains.*.i_clamp_min": "the integral is limited by back-calculation",
        "gains.*.i_clamp_max": "the integral is limited by back-calculation",
        "gains.*.i_clamp": "the integral is limited by back-calculation",
        "gains.*.angle_wraparound": "continuous joints are compared by the shortest way",
        "hardware_state_has_offset": "references continue from the last ones",
        "interpolate_period": "references are computed at update_rate",
    }

    peer_defaults: bool = param(
        False,
        doc="Use the defaults of ros2_controllers for all parameters of which the default "
        "differs (docs/conformance.md); values given for them still apply. Also as there: "
        "query_state fails without an active trajectory or after its end, tolerances of joints "
        "that the controller does not have are ignored, preempted gripper goals are CANCELED, and "
        "a negative effort of a parallel gripper goal counts by its magnitude.",
        read_only=True,
    )
    joints: tuple[str, ...] = param(
        doc="Names of the controlled joints; default: all actuated joints except wheels.",
        read_only=True,
    )
    command_interface: str = param(
        "position",
        doc="Command interface of the robot: position sends position and velocity references "
        "to the drives; velocity and effort send what this node's PID controller computes from "
        "the error. command_interfaces replaces it.",
        one_of=DRIVE_MODES,
        read_only=True,
    )
    aliases: tuple[str, ...] = param(
        (),
        doc="Names of other controllers, such as panda_arm_controller, under which action, topic, "
        "query_state and controller_state are offered, too.",
        read_only=True,
    )
    forward_commands: tuple[str, ...] = param(
        (),
        doc="Controllers of ros2_controllers' forward_command_controller whose topic NAME/commands "
        "is offered, too, each as NAME=INTERFACE:JOINT,JOINT: one value per joint, accepted while "
        "these joints are in the control mode of the interface. The bring-up sets it from the "
        "user's parameter files.",
        read_only=True,
    )
    gripper_aliases: tuple[str, ...] = param(
        (),
        name="gripper.aliases",
        doc="Names of gripper controllers whose action gripper_cmd is offered, too.",
        read_only=True,
    )
    command_interfaces: tuple[str, ...] = param(
        (),
        doc="Command interfaces as in ros2_controllers: position, velocity, acceleration and "
        "effort, in its combinations; replaces command_interface. With position and effort, the "
        "efforts of trajectory points are sent with the positions.",
        read_only=True,
    )
    gains_p: Mapping[str, float] = gain("p", "Proportional gain")
    gains_i: Mapping[str, float] = gain("i", "Integral gain")
    gains_d: Mapping[str, float] = gain("d", "Derivative gain")
    gains_ff_velocity_scale: Mapping[str, float] = param(
        math.nan,
        name="gains.<joint>.ff_velocity_scale",
        doc="Factor of the reference velocity in the output of this joint's PID controller; not "
        "set (NaN): 1 with the command interface velocity, 0 with effort (0 for both in "
        "ros2_controllers).",
        nan=True,
        per="joints",
    )
    gains_u_clamp_max: Mapping[str, float] = param(
        math.inf,
        name="gains.<joint>.u_clamp_max",
        doc="Upper limit of the output of this joint's PID controller.",
        gt=0.0,
        inf=True,
        per="joints",
    )
    gains_u_clamp_min: Mapping[str, float] = param(
        -math.inf,
        name="gains.<joint>.u_clamp_min",
        doc="Lower limit of the output of this joint's PID controller; the smaller magnitude of "
        "both limits applies.",
        le=0.0,
        inf=True,
        per="joints",
    )
    speed_scaling_initial_scaling_factor: float = param(
        1.0,
        name="speed_scaling.initial_scaling_factor",
        doc="Speed scaling factor of trajectories until one is received on ~/speed_scaling_input.",
        ge=0.0,
        le=1.0,
        read_only=True,
    )
    allow_partial_joints_goal: bool = param(
        True,
        doc="Accept trajectories of some of the joints; the others hold (default in "
        "ros2_controllers: false).",
    )
    allow_trajectory_replacement: bool = param(
        False,
        doc="When a trajectory replaces one that is executed, joints that only the old one names "
        "continue along it; false: they stop (default in ros2_controllers: true).",
    )
    allow_integration_in_goal_trajectories: bool = param(
        False,
        doc="Accept trajectories of velocities or accelerations alone, and integrate them from "
        "the reference.",
    )
    allow_nonzero_velocity_at_trajectory_end: bool = param(
        False,
        doc="Accept trajectories whose last point has a velocity; the joints brake there and "
        "return to its position.",
    )
    interpolation_method: str = param(
        "splines",
        doc="splines: linear, cubic or quintic, by what the points contain; none: each point is "
        "the target from the time of the one before it, approached within the limits.",
        one_of=("splines", "none"),
        read_only=True,
    )
    positions_upsampling_enable: bool = param(
        False,
        name="positions_upsampling.enable",
        doc="Connect the points on ~/joint_trajectory by a cubic spline of continuous "
        "acceleration if they have positions only.",
        read_only=True,
    )
    positions_upsampling_policy_frequency: float = param(
        0.0,
        name="positions_upsampling.policy_frequency",
        doc="Rate of the points of such trajectories without times; 0: they need times.",
        unit="Hz",
        ge=0.0,
        le=1000.0,
    )
    interpolate_from_desired_state: bool = param(
        True,
        doc="Start trajectories at the reference of the joints; false: at their measured state "
        "(default in ros2_controllers: false).",
        read_only=True,
    )
    open_loop_control: bool = param(
        True,
        doc="Earlier name of interpolate_from_desired_state; both must be true for it.",
        read_only=True,
    )
    set_last_command_interface_value_as_state_on_activation: bool = param(
        True,
        doc="After an activation, continue at the last references if the joints are within "
        "resync_tolerance of them; false: at the measured positions.",
    )
    cmd_timeout: float = param(
        0.0,
        doc="Time after the end of a trajectory at which it ends as failed if its goal tolerances "
        "are still violated; 0, or not above constraints.goal_time: none.",
        unit="s",
        ge=0.0,
        le=600.0,
    )
    reject_invalid_goals: bool = param(
        False,
        doc="Reject goals with an invalid trajectory when they are sent; false: accept and abort "
        "them with the reason as result (default in ros2_controllers: true).",
        read_only=True,
    )
    state_publish_rate: float = param(
        50.0, doc="Publish rate of ~/controller_state.", unit="Hz", gt=0.0, le=1000.0
    )
    action_monitor_rate: float = param(
        20.0,
        doc="Publish rate of the action feedback.",
        unit="Hz",
        gt=0.0,
        le=200.0,
        read_only=True,
    )
    start_tolerance: float = param(
        0.1,
        doc="Tolerance between the current joint positions and the first point of a "
        "trajectory that starts at time 0; 0: unlimited.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
    )
    constraints_trajectory: float = param(
        math.nan,
        name="constraints.trajectory",
        doc="Path tolerance: max position error of each joint, relative to the references of the "
        "last tracking_lag seconds, for trajectories and streams; 0: unlimited. Not set (NaN): "
        "derived from effort limits and stiffness of the drives, 0.05 to 0.25 rad or 0.01 to "
        "0.05 m, unlimited for gripper joints.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
        nan=True,
    )
    constraints_joint_trajectory: Mapping[str, float] = param(
        math.nan,
        name="constraints.<joint>.trajectory",
        doc="Path tolerance of this joint; not set (NaN): constraints.trajectory, 0: unlimited.",
        unit="rad or m",
        ge=0.0,
        nan=True,
        per="joints",
    )
    constraints_goal: float = param(
        0.01,
        name="constraints.goal",
        doc="Goal tolerance: max position error of each joint at the end of a trajectory; 0: "
        "unlimited.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
    )
    constraints_joint_goal: Mapping[str, float] = param(
        math.nan,
        name="constraints.<joint>.goal",
        doc="Goal tolerance of this joint; not set (NaN): constraints.goal, 0: unlimited.",
        unit="rad or m",
        ge=0.0,
        nan=True,
        per="joints",
    )
    constraints_stopped_velocity_tolerance: float = param(
        0.01,
        name="constraints.stopped_velocity_tolerance",
        doc="Max joint velocity at which a trajectory goal counts as reached; 0: unlimited.",
        unit="rad/s or m/s",
        ge=0.0,
        le=100.0,
    )
    constraints_goal_time: float = param(
        5.0,
        name="constraints.goal_time",
        doc="Time after the end of a trajectory within which the goal tolerances must be met; "
        "0: no timeout.",
        unit="s",
        ge=0.0,
        le=600.0,
    )
    constraints_decelerate_on_cancel: bool = param(
        False,
        name="constraints.decelerate_on_cancel",
        doc="Use constraints.<joint>.max_deceleration_on_cancel. A canceled or failed trajectory "
        "always decelerates along its path, within the acceleration limits.",
        read_only=True,
    )
    constraints_joint_max_deceleration_on_cancel: Mapping[str, float] = param(
        0.0,
        name="constraints.<joint>.max_deceleration_on_cancel",
        doc="Deceleration of this joint when a trajectory ends before its last point, at most its "
        "acceleration limit; 0: that limit.",
        unit="rad/s^2 or m/s^2",
        ge=0.0,
        read_only=True,
        per="joints",
    )
