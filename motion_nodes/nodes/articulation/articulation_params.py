# SPDX-License-Identifier: Apache-2.0
"""Parameters of the articulation controller, and what they mean for its core."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.control.gripper import GripperConfig
from motion_nodes.control.joint_controller import ControlMode
from motion_nodes.control.joint_drive import DriveGains
from motion_nodes.control.tolerances import ToleranceRequest, Tolerances
from motion_nodes.errors import InvalidConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.guard_defaults import effort_margins, position_tolerances
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotParams

INTERFACES = ("position", "effort")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArticulationParams(RobotParams):
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
        "along with the position references. For drives that add them to their own "
        "output, such as those of the simulation, where the bring-up enables it; not for "
        "robots that compensate gravity themselves or interpret an effort as a change of "
        "control mode.",
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
        doc="Path tolerance: max position error of each joint during execution; 0: unlimited. Not "
        "set (NaN): derived from effort limits and stiffness of the drives, 0.05 to 0.25 rad or "
        "0.01 to 0.05 m, compared with the references of the last tracking_lag seconds, also for "
        "streams; gripper joints unlimited.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
        nan=True,
    )
    constraints_joint_trajectory: Mapping[str, float] = param(
        math.nan,
        name="constraints.<joint>.trajectory",
        doc="Tolerance of this joint, in place of the one for all joints; not set: that one, "
        "0: unlimited.",
        unit="rad or m",
        ge=0.0,
        nan=True,
        per="joints",
    )
    tracking_lag: float = param(
        0.25,
        doc="Max delay of the drives: references this old still count for the path tolerance.",
        unit="s",
        ge=0.0,
        le=0.8,
        read_only=True,
    )
    contact_detection: bool = param(
        False,
        doc="Detect contacts: stop when measured efforts exceed those of the inverse dynamics. "
        "Needs efforts in joint_states in N m, gravity included, as the simulation's are (bring-up "
        "turns it on there).",
        read_only=True,
    )
    contact_effort_margin: tuple[float, ...] = param(
        doc="Effort threshold of contact_detection: max difference of measured and modelled "
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
        doc="Tolerance of this joint, in place of the one for all joints; not set: that one, "
        "0: unlimited.",
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
    gripper_goal_tolerance: float = param(
        0.002, name="gripper.goal_tolerance", doc="Position tolerance within which a gripper goal "
        "is reached.",
        unit="m or rad", gt=0.0, le=1.0,
    )  # fmt: skip
    gripper_stall_velocity_threshold: float = param(
        0.001, name="gripper.stall_velocity_threshold", doc="Velocity below which a gripper "
        "counts as standing still.",
        unit="m/s or rad/s", gt=0.0, le=1.0,
    )  # fmt: skip
    gripper_stall_timeout: float = param(
        0.3, name="gripper.stall_timeout", doc="Time standing still short of the goal after which "
        "the gripper has stalled.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    gripper_allow_stalling: bool = param(
        True,
        name="gripper.allow_stalling",
        doc="Report a stalled gripper goal as succeeded (an object is held); false: as aborted.",
    )


def robot_defaults(robot: Robot) -> dict[str, Any]:
    """Return what a robot's description says of the parameters."""
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


def modes_of(params: ArticulationParams) -> dict[str, ControlMode]:
    """Return the control mode of each joint.

    Raises:
        InvalidConfig: for a wrong number of modes.
        InvalidCommand: for a mode that is not known.
    """
    names = per_joint(params, "control_modes", params.control_modes)
    return {j: ControlMode.named(m) for j, m in zip(params.joints, names, strict=True)}


def gains_of(params: ArticulationParams) -> DriveGains:
    """Return the gains of the node's own PID.

    Raises:
        InvalidConfig: for a wrong number of gains, or none at all where they are needed.
    """
    given = {"kp": params.kp, "ki": params.ki, "kd": params.kd}
    kp, ki, kd = (np.array(per_joint(params, *item)) for item in given.items())
    if params.command_interface == "effort" and not (kp.any() or kd.any()):
        raise InvalidConfig(
            "command_interface effort needs gains: give kp and kd, or write them into the drives "
            "of robot.yaml"
        )
    return DriveGains(kp, kd, ki)


def limits_of(params: ArticulationParams, robot: Robot) -> JointLimits:
    """Return the joints' limits, those of the robot or tighter.

    Raises:
        InvalidConfig: for a wrong number of limits, or one beyond the robot's.
    """
    own = robot.limits.select(params.joints)
    tighter: dict[str, Any] = {}
    given = {
        "velocity": params.max_velocity,
        "acceleration": params.max_acceleration,
        "jerk": params.max_jerk,
        "effort": params.max_effort,
    }
    for field, wanted in given.items():
        values = np.array(per_joint(params, f"max_{field}", wanted))
        beyond = values > getattr(own, field) * (1.0 + 1e-9)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise InvalidConfig(
                f"max_{field} of joint {params.joints[i]} is {values[i]:g}; the robot's own limit "
                f"is {getattr(own, field)[i]:g}"
            )
        tighter[field] = values
    return dataclasses.replace(own, **tighter)


def tolerances_of(
    params: ArticulationParams, joints: Sequence[str]
) -> tuple[Tolerances, Tolerances, float]:
    """Return path and goal tolerances of some joints, and the goal time [s], as a client's default.

    Names and meaning are those of ros2_controllers, where the bounds of all joints do not exist.
    """
    path = _bounds(joints, params.constraints_joint_trajectory, params.constraints_trajectory)
    goal = _bounds(joints, params.constraints_joint_goal, params.constraints_goal)
    return (
        Tolerances.of(np.nan_to_num(path)),
        Tolerances.of(goal, params.constraints_stopped_velocity_tolerance),
        params.constraints_goal_time,
    )


def _bounds(joints: Sequence[str], own: Mapping[str, float], of_all: float) -> list[float]:
    return [of_all if math.isnan(own[joint]) else own[joint] for joint in joints]


def guard_tolerances(
    params: ArticulationParams, robot: Robot, stiffness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far joints may be from their references [rad or m], shape (n,), infinite for any.

    Args:
        params: what is given wins.
        robot: whose joints they are.
        stiffness: of what drives them [N m/rad or N/m], shape (n,); 0: not known.
    """
    joints = params.joints
    given = np.array(
        _bounds(joints, params.constraints_joint_trajectory, params.constraints_trajectory)
    )
    derived = position_tolerances(robot, joints, stiffness)
    return np.where(np.isnan(given), derived, np.where(given > 0.0, given, np.inf))


def guard_of(requests: Sequence[ToleranceRequest], joints: Sequence[str]) -> NDArray[np.float64]:
    """Return a client's tolerances for the guard [rad or m], NaN where it gave none, shape (n,)."""
    bounds = np.full(len(joints), np.nan)
    for request in requests:
        if request.position != 0.0:
            bounds[joints.index(request.joint)] = max(request.position, 0.0) or math.inf
    return bounds


def gripper_of(params: ArticulationParams, limits: JointLimits) -> GripperConfig:
    """Return what counts as arrived and as stopped for a gripper with these finger limits."""
    lower, upper = float(limits.lower.max()), float(limits.upper.min())
    return settings_from(params, GripperConfig, "gripper_", lower=lower, upper=upper)


def per_joint(params: ArticulationParams, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one value for each joint, where one for all or one for each was given.

    Raises:
        InvalidConfig: for another number of values.
    """
    count = len(params.joints)
    if len(values) == 1:
        return tuple(values) * count
    if len(values) != count:
        raise InvalidConfig(
            f"{name} has {len(values)} values for {count} joints; give one for each, or one for all"
        )
    return tuple(values)
