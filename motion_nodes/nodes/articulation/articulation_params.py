# SPDX-License-Identifier: Apache-2.0
"""Parameters of the articulation controller, and the configuration that they describe."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from motion_nodes.core.control.active_trajectories import Tolerances
from motion_nodes.core.control.contact_wrench import WrenchLimits
from motion_nodes.core.control.gripper import GraspSettings, GripperConfig
from motion_nodes.core.control.joint_command import ControlMode
from motion_nodes.core.control.joint_drive import DriveGains
from motion_nodes.core.control.joint_guard import effort_margins, position_tolerances
from motion_nodes.core.control.pose_targets import ImpedanceSettings
from motion_nodes.core.robot.limits import JointLimits, joint_indices
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import DRIVE_MODES
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.nodes.articulation.stream_inputs import forward_topics
from motion_nodes.ros.names import IMPEDANCE_GROUP, JOINT_CONTROLLER
from motion_nodes.ros.node import FramedParams
from motion_nodes.ros.parameters import core_param, core_params, param
from motion_nodes.typing import Array

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

COMBINATIONS = tuple(
    frozenset(each.split())
    for each in (
        "position", "position velocity", "position velocity acceleration", "velocity", "effort",
        "position effort",
    )
)  # fmt: skip
"""Command interfaces of one controller, as in ros2_controllers."""

VELOCITY_GAIN = 10.0
"""Proportional gain of the command interface velocity, if none is given [1/s]."""


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
@core_params(WrenchLimits, "contact")
@core_params(
    GripperConfig, "gripper", only=("goal_tolerance", "stall_velocity_threshold", "stall_timeout")
)
@core_params(GraspSettings, "gripper")
@core_params(ImpedanceSettings, "impedance")
class ArticulationParams(FramedParams):
    """Parameters of the articulation controller; lists hold one value per joint, or one for all.

    Those of joint_trajectory_controller come first; their docs name the default of ros2_controllers
    where it differs, and ``peer_defaults`` selects those.
    """

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {
        "joint": "a gripper's joints are those of the robot's group 'gripper'",
        "type": "the bring-up starts the controller",
        "max_effort": "a goal gives its effort",
        "allow_stalling": "the bring-up passes it on as gripper.allow_stalling",
        "goal_tolerance": "the bring-up passes it on as gripper.goal_tolerance",
        "stall_timeout": "the bring-up passes it on as gripper.stall_timeout",
        "stall_velocity_threshold": "the bring-up passes it on as gripper.stall_velocity_threshold",
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
        "these joints are in the control mode of the interface; or as "
        "NAME=position,velocity:JOINT: both of one joint. The bring-up sets it from the user's "
        "parameter files.",
        read_only=True,
    )
    inactive_controllers: tuple[str, ...] = param(
        (),
        doc="Controllers of forward_commands whose commands are refused, and "
        "joint_trajectory_controller if trajectories are, under whatever name. While they are, "
        "joints are in the control mode of the active controller of forward_commands. "
        "controller_manager switches them.",
    )
    gripper_aliases: tuple[str, ...] = param(
        (),
        name="gripper.aliases",
        doc="Names of gripper controllers whose action gripper_cmd, a GripperCommand, is offered, "
        "too.",
        read_only=True,
    )
    gripper_parallel_aliases: tuple[str, ...] = param(
        (),
        name="gripper.parallel_aliases",
        doc="Names of parallel gripper controllers, whose action gripper_cmd is a "
        "ParallelGripperCommand.",
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
    update_rate: float = param(
        250.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    control_modes: tuple[str, ...] = param(
        doc="Control mode of each joint, in the order of joints: position, velocity or effort."
    )
    kp: tuple[float, ...] = param(
        doc="Proportional gains, in the order of joints; used with command_interface effort. "
        "0 disables the term.",
        unit="N m/rad",
        ge=0.0,
    )
    ki: tuple[float, ...] = param(
        doc="Integral gains, in the order of joints; used with command_interface effort. 0 "
        "disables the term.",
        unit="N m/(rad s)",
        ge=0.0,
    )
    kd: tuple[float, ...] = param(
        doc="Derivative gains, in the order of joints; used with command_interface effort. 0 "
        "disables the term.",
        unit="N m s/rad",
        ge=0.0,
    )
    gravity_compensation: bool = param(
        True,
        doc="Add gravity compensation efforts, with command_interface effort or feed_forward; "
        "joints in effort mode receive only the commanded effort.",
    )
    inertia_compensation: bool = param(
        True,
        doc="Add inertial, Coriolis and centrifugal efforts of the reference motion (inverse "
        "dynamics), with command_interface effort or feed_forward.",
    )
    feed_forward: bool = param(
        False,
        doc="With command_interface position, send feed-forward efforts from inverse dynamics "
        "with the position references. For drives that add them to their output, such as those "
        "of the simulation (where the bring-up enables it); not for robots that compensate "
        "gravity themselves, or whose drives change their control mode for an effort.",
        read_only=True,
    )
    max_velocity: tuple[float, ...] = param(
        doc="Velocity limits, in the order of joints; at most the robot's own limits.",
        unit="rad/s or m/s",
        gt=0.0,
        inf=True,
    )
    max_acceleration: tuple[float, ...] = param(
        doc="Acceleration limits, in the order of joints; at most the robot's own limits.",
        unit="rad/s^2 or m/s^2",
        gt=0.0,
        inf=True,
    )
    max_jerk: tuple[float, ...] = param(
        doc="Jerk limits, in the order of joints; at most the robot's own limits.",
        unit="rad/s^3 or m/s^3",
        gt=0.0,
        inf=True,
    )
    max_effort: tuple[float, ...] = param(
        doc="Effort limits, in the order of joints; at most the robot's own limits.",
        unit="N m or N",
        gt=0.0,
        inf=True,
    )
    command_timeout: float = param(
        1.0, doc="Commands with a stamp older than this are rejected.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Timeout of joint_states; when it expires the joints are stopped and commands are "
        "rejected.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    resync_tolerance: float = param(
        0.05,
        doc="Max difference between reference and measured position after joint_states return "
        "from a timeout; a joint beyond it is held at its measured position, as soon as it stands.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    tracking_lag: float = param(
        0.25,
        doc="Max delay of the drives: age of the references used for the path tolerance.",
        unit="s",
        ge=0.0,
        le=0.8,
        read_only=True,
    )
    contact_detection: bool = param(
        False,
        doc="Detect contacts: stop if measured efforts exceed those of the inverse dynamics. "
        "Requires efforts in joint_states, in N m, including gravity, such as those of the "
        "simulation (where the bring-up enables it).",
        read_only=True,
    )
    contact_effort_margin: tuple[float, ...] = param(
        doc="Effort threshold of contact_detection: max difference between measured and modelled "
        "effort of each joint; 0: unlimited.",
        unit="N m or N",
        ge=0.0,
    )
    gripper_abort_on_loss: bool = param(
        False,
        name="gripper.abort_on_loss",
        doc="Abort active trajectories if the held object slips at the max effort or is lost.",
    )
    gripper_allow_stalling: bool = param(
        True,
        name="gripper.allow_stalling",
        doc="Result of a stalled gripper goal: succeeded (true: it holds an object) or aborted.",
    )

    effort_commands: bool = param(
        True,
        doc="Whether the robot accepts efforts without positions, which impedance control needs; "
        "false for the mock simulation and for drivers that follow positions only.",
        read_only=True,
    )
    impedance_group: str = param(
        IMPEDANCE_GROUP,
        name="impedance.group",
        doc="Group under Cartesian impedance control; empty: it is not offered.",
        read_only=True,
    )
    impedance_payload_mass: float = core_param(
        ImpedanceSettings, "payload_mass", name="payload.mass"
    )
    impedance_payload_center: tuple[float, ...] = core_param(
        ImpedanceSettings, "payload_center", name="payload.center"
    )

    def modes(self) -> dict[str, ControlMode]:
        """Return the control mode of each joint.

        Raises:
            InvalidConfig: a wrong number of modes, or an inactive controller that is unknown.
            InvalidCommand: an unknown mode.
        """
        names = self._per_joint("control_modes", self.control_modes)
        modes = {j: ControlMode.named(m) for j, m in zip(self.joints, names, strict=True)}
        served = forward_topics(self.forward_commands, self.joints)
        known = (JOINT_CONTROLLER, *(each.name for each in served))
        for name in self.inactive_controllers:
            if name not in known:
                raise InvalidConfig(
                    f"inactive_controllers has '{name}'.{did_you_mean(name, known)}",
                    field="inactive_controllers",
                )
        if JOINT_CONTROLLER in self.inactive_controllers:
            for each in served:
                if each.name not in self.inactive_controllers:
                    modes |= dict.fromkeys(each.joints, ControlMode.named(each.mode))
        return modes

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Command interfaces: position, velocity or effort, or position and effort.

        Raises:
            InvalidConfig: a combination that ros2_controllers does not know, or acceleration alone.
        """
        given = self.command_interfaces
        if not given:
            return (self.command_interface,)
        if frozenset(given) not in COMBINATIONS or len(set(given)) != len(given):
            allowed = "; ".join(", ".join(sorted(each)) for each in COMBINATIONS)
            raise InvalidConfig(
                f"command_interfaces are {', '.join(given)}; allowed: {allowed}",
                field="command_interfaces",
            )
        if "position" in given:
            return ("position", "effort") if "effort" in given else ("position",)
        return tuple(given)

    def gains(self) -> DriveGains:
        """Return the gains of the PID controller of the command interfaces effort and velocity.

        Raises:
            InvalidConfig: a wrong number of gains, or only zeros with the command interface effort.
        """
        drives = {"kp": self.kp, "ki": self.ki, "kd": self.kd}
        interface = self.interfaces[0]
        if interface == "velocity":
            drives = {"kp": (VELOCITY_GAIN,), "ki": (0.0,), "kd": (0.0,)}
        own = (self.gains_p, self.gains_i, self.gains_d)
        kp, ki, kd = (
            np.array(_bounds(self.joints, mine, self._per_joint(*item)))
            for mine, item in zip(own, drives.items(), strict=True)
        )
        if interface == "effort" and not (kp.any() or kd.any()):
            raise InvalidConfig(
                "command_interface effort needs gains: set kp and kd, or the drives' gains in "
                "robot.yaml"
            )
        return DriveGains(kp, kd, ki)

    def output(self) -> tuple[Array, Array]:
        """Return the factor of reference velocities in the PID controller's output, and its limit.

        Returns:
            Factors, and limits of the magnitude [rad/s, m/s, N m or N] (infinite for none), shape
            (n,) each.
        """
        usual = float(self.interfaces[0] == "velocity")
        factor = _bounds(self.joints, self.gains_ff_velocity_scale, usual)
        upper, lower = (
            np.array([of[joint] for joint in self.joints])
            for of in (self.gains_u_clamp_max, self.gains_u_clamp_min)
        )
        return np.array(factor), np.minimum(upper, -lower)

    def limits(self, robot: Robot) -> JointLimits:
        """Return the joint limits, at most those of the robot.

        Raises:
            InvalidConfig: a wrong number of limits, or one beyond the robot's.
        """
        own = robot.limits.select(self.joints)
        tighter: dict[str, Any] = {}
        given = {
            "velocity": self.max_velocity,
            "acceleration": self.max_acceleration,
            "jerk": self.max_jerk,
            "effort": self.max_effort,
        }
        for field, requested in given.items():
            values = np.array(self._per_joint(f"max_{field}", requested))
            beyond = values > getattr(own, field) * (1.0 + 1e-9)
            if beyond.any():
                i = int(np.argmax(beyond))
                raise InvalidConfig(
                    f"max_{field} of joint {self.joints[i]} is {values[i]:g}; the robot's own "
                    f"limit is {getattr(own, field)[i]:g}"
                )
            tighter[field] = values
        return dataclasses.replace(own, **tighter)

    def tolerances(self, joints: Sequence[str]) -> tuple[Tolerances, Tolerances, float]:
        """Return the default tolerances of action goals.

        Args:
            joints: of the trajectory.

        Returns:
            Path and goal tolerances of the joints, and the goal time tolerance [s].
        """
        path = _bounds(joints, self.constraints_joint_trajectory, self.constraints_trajectory)
        goal = _bounds(joints, self.constraints_joint_goal, self.constraints_goal)
        return (
            Tolerances.of(np.nan_to_num(path)),
            Tolerances.of(goal, self.constraints_stopped_velocity_tolerance),
            self.constraints_goal_time,
        )

    @property
    def decelerations(self) -> Array:
        """Max decelerations of trajectories that end early, shape (n,); infinite: none."""
        given = [self.constraints_joint_max_deceleration_on_cancel[j] for j in self.joints]
        used = np.array(given) > 0.0 if self.constraints_decelerate_on_cancel else False
        return np.where(used, given, np.inf)

    @property
    def end_timeout(self) -> float:
        """Time after a trajectory's end at which it fails [s]; 0: none."""
        return self.cmd_timeout if self.cmd_timeout > self.constraints_goal_time else 0.0

    def guard_tolerances(self, robot: Robot, stiffness: Array) -> Array:
        """Return the max position errors of the joints; not set, they are derived from the drives.

        Args:
            robot: with the joints.
            stiffness: of their drives [N m/rad or N/m], shape (n,); 0 if unknown.

        Returns:
            Tolerances [rad or m], shape (n,); infinite for none.
        """
        joints = self.joints
        given = np.array(
            _bounds(joints, self.constraints_joint_trajectory, self.constraints_trajectory)
        )
        derived = position_tolerances(robot, joints, stiffness)
        return np.where(np.isnan(given), derived, np.where(given > 0.0, given, np.inf))

    def effort_margins(self) -> Array:
        """Return the margins of the contact detection [N m or N], shape (n,); infinite for none.

        Raises:
            InvalidConfig: neither one value nor one per joint.
        """
        margins = np.array(self._per_joint("contact_effort_margin", self.contact_effort_margin))
        return np.where(margins > 0.0, margins, np.inf)

    def _per_joint(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return one value per joint, given one per joint or one for all.

        Raises:
            InvalidConfig: another number of values.
        """
        count = len(self.joints)
        if len(values) == 1:
            return tuple(values) * count
        if len(values) != count:
            raise InvalidConfig(
                f"{name} has {len(values)} values for {count} joints; give one each, or one for "
                "all",
                field=name,
            )
        return tuple(values)


def _bounds(
    joints: Sequence[str], own: Mapping[str, float], of_all: float | Sequence[float]
) -> list[float]:
    usual = [of_all] * len(joints) if isinstance(of_all, float) else of_all
    return [u if math.isnan(own[j]) else own[j] for j, u in zip(joints, usual, strict=True)]


def robot_defaults(
    robot: Robot, joints: Sequence[str] = (), *, peer_defaults: bool = False
) -> dict[str, Any]:
    """Return the defaults given by a robot's description.

    Args:
        robot: of the controller.
        joints: given as the parameter ``joints``, which all lists follow; empty: all of the robot.
        peer_defaults: whether to add those of ros2_controllers.

    Raises:
        UnknownJoint: a joint that the robot does not have.
    """
    joints = tuple(joints) or robot.arm_joints
    joint_indices(joints, robot.limits.names, f"robot '{robot.name}'")
    drives = [robot.drive(name) for name in joints]
    limits = robot.limits.select(joints)
    return {
        **(PEER_DEFAULTS if peer_defaults else {}),
        "joints": joints,
        "control_modes": tuple(drive.mode for drive in drives),
        "kp": tuple(drive.kp for drive in drives),
        "ki": tuple(drive.ki for drive in drives),
        "kd": tuple(drive.kd for drive in drives),
        "max_velocity": tuple(limits.velocity.tolist()),
        "max_acceleration": tuple(limits.acceleration.tolist()),
        "max_jerk": tuple(limits.jerk.tolist()),
        "max_effort": tuple(limits.effort.tolist()),
        "contact_effort_margin": tuple(effort_margins(robot, joints).tolist()),
    }
