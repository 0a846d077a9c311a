# SPDX-License-Identifier: Apache-2.0
"""Parameters of the articulation controller, and what they mean for its core."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motion_nodes.control.articulation import ControlMode
from motion_nodes.control.drive_law import DriveGains
from motion_nodes.control.gripper import GripperConfig
from motion_nodes.control.tolerances import Tolerances
from motion_nodes.errors import BadConfig
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import RobotParams

INTERFACES = ("position", "effort")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArticulationParams(RobotParams):
    """Parameters of the articulation controller; lists hold one value per joint, or one for all."""

    update_rate: float = param(
        250.0, doc="Rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    joints: tuple[str, ...] = param(
        doc="Joints under control; default: all of the robot but its wheels.", read_only=True
    )
    command_interface: str = param(
        "position",
        doc="position: the robot's drives follow positions and velocities; effort: this node "
        "computes efforts by its own PID.",
        one_of=INTERFACES,
        read_only=True,
    )
    control_modes: tuple[str, ...] = param(
        doc="Control mode of each joint: position, velocity or effort."
    )
    kp: tuple[float, ...] = param(
        doc="Position gains, used with command_interface effort.", unit="N m/rad", ge=0.0
    )
    ki: tuple[float, ...] = param(
        doc="Integral gains, used with command_interface effort.", unit="N m/(rad s)", ge=0.0
    )
    kd: tuple[float, ...] = param(
        doc="Velocity gains, used with command_interface effort.", unit="N m s/rad", ge=0.0
    )
    gravity_compensation: bool = param(
        True,
        doc="Add the efforts that hold the robot against gravity, used with command_interface "
        "effort and with feed_forward; joints in effort mode get what is commanded and nothing "
        "more.",
    )
    inertia_compensation: bool = param(
        True,
        doc="Add the efforts that speeds and accelerations of the reference take by the robot's "
        "masses (inverse dynamics), used with command_interface effort and with feed_forward.",
    )
    feed_forward: bool = param(
        False,
        doc="With command_interface position: send the efforts that the motion takes by the "
        "robot's masses along with the positions. For drives that add them, as the simulation's "
        "do (bring-up turns it on there); not for robots that compensate gravity themselves or "
        "that take an effort for another control mode.",
        read_only=True,
    )
    max_velocity: tuple[float, ...] = param(
        doc="Velocity limits, at most those of the robot.", unit="rad/s or m/s", gt=0.0, inf=True
    )
    max_acceleration: tuple[float, ...] = param(
        doc="Acceleration limits, at most those of the robot.",
        unit="rad/s^2 or m/s^2",
        gt=0.0,
        inf=True,
    )
    max_jerk: tuple[float, ...] = param(
        doc="Jerk limits, at most those of the robot.", unit="rad/s^3 or m/s^3", gt=0.0, inf=True
    )
    max_effort: tuple[float, ...] = param(
        doc="Effort limits, at most those of the robot.", unit="N m or N", gt=0.0, inf=True
    )
    command_timeout: float = param(
        1.0, doc="A stamped command older than this is ignored.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Without joint_states for this long the joints are stopped and commands refused.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    resync_tolerance: float = param(
        0.05,
        doc="When a lost robot comes back further than this from where it was led, it is held "
        "where it is.",
        unit="rad or m",
        gt=0.0,
        le=10.0,
    )
    state_publish_rate: float = param(
        50.0, doc="Rate of ~/controller_state.", unit="Hz", gt=0.0, le=1000.0
    )
    action_monitor_rate: float = param(
        20.0, doc="Rate of an action's feedback.", unit="Hz", gt=0.0, le=200.0, read_only=True
    )
    start_tolerance: float = param(
        0.1,
        doc="How far a trajectory whose first point is at time 0 may begin from where the joints "
        "are; 0: anywhere.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
    )
    constraints_trajectory: float = param(
        0.0,
        name="constraints.trajectory",
        doc="How far a joint may be from its trajectory on the way; 0: any distance.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
    )
    constraints_joint_trajectory: Mapping[str, float] = param(
        math.nan,
        name="constraints.<joint>.trajectory",
        doc="The same for one joint; not set: as for all, 0: any distance.",
        unit="rad or m",
        ge=0.0,
        nan=True,
        per="joints",
    )
    constraints_goal: float = param(
        0.01,
        name="constraints.goal",
        doc="How near a joint must be to the end of its trajectory; 0: any distance.",
        unit="rad or m",
        ge=0.0,
        le=10.0,
    )
    constraints_joint_goal: Mapping[str, float] = param(
        math.nan,
        name="constraints.<joint>.goal",
        doc="The same for one joint; not set: as for all, 0: any distance.",
        unit="rad or m",
        ge=0.0,
        nan=True,
        per="joints",
    )
    constraints_stopped_velocity_tolerance: float = param(
        0.01,
        name="constraints.stopped_velocity_tolerance",
        doc="How fast a joint may still be for the end of its trajectory to count as reached; "
        "0: any speed.",
        unit="rad/s or m/s",
        ge=0.0,
        le=100.0,
    )
    constraints_goal_time: float = param(
        5.0,
        name="constraints.goal_time",
        doc="How long after its end a goal may still be reached; 0: as long as it takes.",
        unit="s",
        ge=0.0,
        le=600.0,
    )
    gripper_goal_tolerance: float = param(
        0.002, name="gripper.goal_tolerance", doc="A gripper this near has arrived.",
        unit="m or rad", gt=0.0, le=1.0,
    )  # fmt: skip
    gripper_stall_velocity_threshold: float = param(
        0.001, name="gripper.stall_velocity_threshold", doc="Slower than this a gripper stands.",
        unit="m/s or rad/s", gt=0.0, le=1.0,
    )  # fmt: skip
    gripper_stall_timeout: float = param(
        0.3, name="gripper.stall_timeout", doc="Standing so long short of its goal is a stall.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    gripper_allow_stalling: bool = param(
        True, name="gripper.allow_stalling", doc="A gripper that stalled has succeeded: it holds."
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
    }


def modes_of(params: ArticulationParams) -> dict[str, ControlMode]:
    """Return the control mode of each joint.

    Raises:
        BadConfig: for a wrong number of modes.
        BadCommand: for a mode that is not known.
    """
    names = _per_joint(params, "control_modes", params.control_modes)
    return {j: ControlMode.named(m) for j, m in zip(params.joints, names, strict=True)}


def gains_of(params: ArticulationParams) -> DriveGains:
    """Return the gains of the node's own PID.

    Raises:
        BadConfig: for a wrong number of gains, or none at all where they are needed.
    """
    given = {"kp": params.kp, "ki": params.ki, "kd": params.kd}
    kp, ki, kd = (np.array(_per_joint(params, *item)) for item in given.items())
    if params.command_interface == "effort" and not (kp.any() or kd.any()):
        raise BadConfig(
            "command_interface effort needs gains: give kp and kd, or write them into the drives "
            "of robot.yaml"
        )
    return DriveGains(kp, kd, ki)


def limits_of(params: ArticulationParams, robot: Robot) -> JointLimits:
    """Return the joints' limits, those of the robot or tighter.

    Raises:
        BadConfig: for a wrong number of limits, or one beyond the robot's.
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
        values = np.array(_per_joint(params, f"max_{field}", wanted))
        beyond = values > getattr(own, field) * (1.0 + 1e-9)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise BadConfig(
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

    def bounds(own: Mapping[str, float], of_all: float) -> list[float]:
        return [of_all if math.isnan(own[joint]) else own[joint] for joint in joints]

    path = bounds(params.constraints_joint_trajectory, params.constraints_trajectory)
    goal = bounds(params.constraints_joint_goal, params.constraints_goal)
    return (
        Tolerances.of(path),
        Tolerances.of(goal, params.constraints_stopped_velocity_tolerance),
        params.constraints_goal_time,
    )


def gripper_of(params: ArticulationParams, limits: JointLimits) -> GripperConfig:
    """Return what counts as arrived and as stopped for a gripper with these finger limits."""
    lower, upper = float(limits.lower.max()), float(limits.upper.min())
    return settings_from(params, GripperConfig, "gripper_", lower=lower, upper=upper)


def _per_joint(params: ArticulationParams, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    count = len(params.joints)
    if len(values) == 1:
        return tuple(values) * count
    if len(values) != count:
        raise BadConfig(
            f"{name} has {len(values)} values for {count} joints; give one for each, or one for all"
        )
    return tuple(values)
