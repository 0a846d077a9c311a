# SPDX-License-Identifier: Apache-2.0
"""Parameters of the articulation controller; named as in joint_trajectory_controller."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from motion_nodes.control.contact_wrench import WrenchLimits
from motion_nodes.control.grasp_force import GraspSettings
from motion_nodes.control.gripper import GripperConfig
from motion_nodes.control.guard_defaults import effort_margins
from motion_nodes.control.impedance.impedance_settings import ImpedanceSettings
from motion_nodes.model.robot import Robot
from motion_nodes.ros.names import IMPEDANCE_GROUP
from motion_nodes.ros.parameters import core_param, core_params, param
from motion_nodes.ros.robot_node import FramedParams

INTERFACES = ("position", "effort")


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(WrenchLimits, "contact")
@core_params(
    GripperConfig, "gripper", only=("goal_tolerance", "stall_velocity_threshold", "stall_timeout")
)
@core_params(GraspSettings, "gripper")
@core_params(ImpedanceSettings, "impedance")
class ArticulationParams(FramedParams):
    """Parameters of the articulation controller; lists hold one value per joint, or one for all."""

    update_rate: float = param(
        250.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    joints: tuple[str, ...] = param(
        doc="Names of the controlled joints; default: all actuated joints except wheels.",
        read_only=True,
    )
    command_interface: str = param(
        "position",
        doc="Command interface of the robot: position sends position and velocity references "
        "to the drives; effort sends efforts computed by this node's PID controller.",
        one_of=INTERFACES,
        read_only=True,
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
        "from a timeout; beyond it the reference is reset to the measured position.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
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
        doc="Group under Cartesian impedance control.",
        read_only=True,
    )
    impedance_payload_mass: float = core_param(
        ImpedanceSettings, "payload_mass", name="payload.mass"
    )
    impedance_payload_center: tuple[float, ...] = core_param(
        ImpedanceSettings, "payload_center", name="payload.center"
    )


def robot_defaults(robot: Robot) -> dict[str, Any]:
    """Return the defaults given by a robot's description."""
    joints = robot.arm_joints
    drives = [robot.drive(name) for name in joints]
    limits = robot.limits.select(joints)
    return {
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
