# SPDX-License-Identifier: Apache-2.0
"""Parameters of the articulation controller."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from motion_nodes.control.contact_wrench import WrenchLimits
from motion_nodes.control.grasp_force import GraspSettings
from motion_nodes.control.gripper import GripperConfig
from motion_nodes.control.guard_defaults import effort_margins
from motion_nodes.control.impedance.impedance_settings import ImpedanceSettings
from motion_nodes.model.limits import joint_indices
from motion_nodes.model.robot import Robot
from motion_nodes.nodes.articulation.trajectory_params import PEER_DEFAULTS, TrajectoryParams
from motion_nodes.ros.names import IMPEDANCE_GROUP
from motion_nodes.ros.parameters import core_param, core_params, param


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(WrenchLimits, "contact")
@core_params(
    GripperConfig, "gripper", only=("goal_tolerance", "stall_velocity_threshold", "stall_timeout")
)
@core_params(GraspSettings, "gripper")
@core_params(ImpedanceSettings, "impedance")
class ArticulationParams(TrajectoryParams):
    """Parameters of the articulation controller; lists hold one value per joint, or one for all."""

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
        "from a timeout; beyond it the reference is reset to the measured position.",
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
