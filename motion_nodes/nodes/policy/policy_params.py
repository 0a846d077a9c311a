# SPDX-License-Identifier: Apache-2.0
"""Parameters of the node rmpflow_policy; those of the RMPs are named as in rmpflow.yaml."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from motion_nodes.core.reactive.integration import SmoothingSettings
from motion_nodes.core.reactive.mpc_policy import MpcPolicy
from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, StuckSettings
from motion_nodes.core.reactive.singularity import SingularityThresholds
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings, read_rmpflow
from motion_nodes.core.robot.robot import Robot
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.node import FramedParams
from motion_nodes.ros.parameters import core_param, core_params, param, settings_from

POLICIES = ("rmpflow", "mpc")
ESCAPES = ("none", "posture", "plan")
COMMAND_IN_TYPES = ("unitless", "speed_units")
RMP_DOCS = {
    "cspace_target_rmp": "RMP that attracts the joints to the default posture",
    "joint_limit_rmp": "RMP that repels the joints from their position limits",
    "joint_velocity_cap_rmp": "RMP that damps joints near their velocity limit",
    "target_rmp": "RMP that attracts the end effector to the target position",
    "axis_target_rmp": "RMP that aligns the end effector with the target orientation",
    "collision_rmp": "RMP that repels the robot from obstacles",
    "self_collision_rmp": "RMP that repels links of the robot from each other",
    "damping_rmp": "RMP of damping and inertia of the end effector",
    "canonical_resolve": "Resolution of all RMPs to a joint acceleration",
}
"""Purpose of each RMP; docs/rmpflow.md and kernels/formulas/rmps.py have the formulas."""
RMP_PARAMETERS = RmpflowSettings().parameters()
"""Names and defaults of the RMPs' parameters."""


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(MpcSettings, "mpc", read_only=True)
@core_params(StuckSettings, "stuck")
@core_params(SmoothingSettings, "smoothing")
@core_params(SingularityThresholds, "servo")
@core_params(
    FollowerSettings,
    only=(
        "target_timeout",
        "max_tracking_error",
        "position_tolerance",
        "orientation_tolerance",
        "posture_tolerance",
        "escape_pause",
    ),
)
class _PolicyParams(FramedParams):
    """Parameters of the node itself."""

    update_rate: float = param(
        250.0, doc="Update rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    policy: str = param(
        "rmpflow",
        doc="Policy that moves the arm: rmpflow, or mpc, which samples motions over a horizon and "
        "escapes local minima, at about thirty times the CPU time.",
        one_of=POLICIES,
        read_only=True,
    )
    rmpflow_file: str = param(
        "", doc="RMPflow configuration file; empty: the robot's rmpflow.yaml.", read_only=True
    )
    group: str = param("arm", doc="Planning group controlled by the policy.", read_only=True)
    tool: str = param(
        "",
        doc="End effector frame that targets refer to; empty: the robot's default.",
        read_only=True,
    )
    controller: str = param(
        JOINT_CONTROLLER,
        doc="Name of the joint controller node whose ~/reference receives the joint references.",
        read_only=True,
    )
    planner: str = param(
        "move_action", doc="MoveGroup action used by escape: plan.", read_only=True
    )
    maximum_substep_size: float = param(
        0.00334, doc="Max integration step of the policy.", unit="s", gt=0.0, le=0.1
    )
    ignore_robot_state_updates: bool = param(
        True,
        doc="Integrate the policy from its own reference (true), or evaluate it at the "
        "measured joint state (false).",
    )
    octomap_field: bool = param(
        False,
        doc="Avoid the octomap of the planning scene by its distance field, with the nearest voxel "
        "of each sphere of the robot; false, and always with policy mpc: by boxes that cover the "
        "voxels.",
    )
    use_orientation: bool = param(
        True, doc="Track the target's orientation in addition to its position."
    )
    command_timeout: float = param(
        1.0, doc="Targets with a stamp older than this are rejected.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Timeout of joint_states; when it expires no more references are sent.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    escape: str = param(
        "posture",
        doc="Behaviour when the arm is stuck: none; posture: move to the default posture and "
        "retry, once per target; plan: move to the target with a planner, and where that fails "
        "by the posture. The bring-up sets plan where it starts a planner.",
        one_of=ESCAPES,
    )
    escape_planning_time: float = param(
        5.0, doc="Allowed planning time of an escape plan.", unit="s", gt=0.0, le=600.0
    )
    status_rate: float = param(
        10.0, doc="Publish rate of ~/status and servo_node/status; changes are published "
            "immediately.",
        unit="Hz", gt=0.0, le=100.0,
    )  # fmt: skip
    marker_rate: float = param(
        15.0, doc="Publish rate of ~/markers while there are subscribers; 0 disables them.",
        unit="Hz", ge=0.0, le=60.0,
    )  # fmt: skip
    metrics_rate: float = param(
        20.0, doc="Publish rate of ~/leaf_metrics while there are subscribers; 0 disables them.",
        unit="Hz", ge=0.0, le=100.0,
    )  # fmt: skip
    peer_defaults: bool = param(
        False,
        doc="Refuse twists without a frame_id on servo_node/delta_twist_cmds, as moveit_servo; "
        "false: they are in the robot's base frame.",
    )
    servo_command_in_type: str = param(
        "unitless", name="servo.command_in_type",
        doc="Units of Servo commands: unitless (-1 to 1, multiplied by servo.scale), or "
        "speed_units (m/s and rad/s).", one_of=COMMAND_IN_TYPES,
    )  # fmt: skip
    servo_linear: float = param(
        0.25, name="servo.scale.linear", doc="Linear speed of the end effector for a unitless "
        "command of 1.",
        unit="m/s", gt=0.0, le=10.0,
    )  # fmt: skip
    servo_rotational: float = param(
        0.8, name="servo.scale.rotational", doc="Angular speed of the end effector for a unitless "
        "command of 1.",
        unit="rad/s", gt=0.0, le=20.0,
    )  # fmt: skip
    servo_joint: float = param(
        0.5, name="servo.scale.joint", doc="Joint speed for a unitless command of 1.",
        unit="rad/s or m/s", gt=0.0, le=20.0,
    )  # fmt: skip
    servo_timeout: float = core_param(
        FollowerSettings, "command_timeout", name="servo.incoming_command_timeout"
    )
    smoothing: bool = param(
        False,
        name="smoothing.enabled",
        doc="Reduce the speed after discontinuities of the policy; joint jerk limits are "
        "respected in any case.",
    )
    joint_limit_buffers: tuple[float, ...] = param(
        doc="Margin subtracted from both position limits of each joint: one value for all "
            "joints or one per joint.",
        unit="rad or m", ge=0.0,
    )  # fmt: skip


def rmp_field(name: str) -> str:
    """Return the field name of an RMP's parameter, such as ``target_rmp.accel_p_gain``."""
    return name.replace(".", "__")


RMP_FIELDS: list[tuple[str, type, Any]] = [
    (
        rmp_field(name),
        float,
        param(
            name=name,
            doc=f"{RMP_DOCS.get(name.split('.')[0], name.split('.')[0])}; "
            f"its formula is in docs/rmpflow.md.",
            ge=0.0,
        ),
    )
    for name in RMP_PARAMETERS
]
"""Fields of the settings of the RMPs."""
PolicyParams: Any = dataclasses.make_dataclass(
    "PolicyParams", RMP_FIELDS, bases=(_PolicyParams,), frozen=True, kw_only=True
)
"""All parameters: those of the node, of the MPC and of the RMPs."""


def read_defaults(file: str | Path) -> tuple[RmpflowSettings, dict[str, Any]]:
    """Return the settings of an RMPflow configuration file, and the defaults that it gives.

    Args:
        file: the file, or a robot's directory.

    Raises:
        InvalidConfig: the file is invalid.
        InvalidDescription: it cannot be read.
    """
    settings = read_rmpflow(file)
    values: dict[str, Any] = {rmp_field(k): float(v) for k, v in settings.parameters().items()}
    return settings, values | {"joint_limit_buffers": settings.joint_limit_buffers}


def settings_of(params: Any, base: RmpflowSettings) -> RmpflowSettings:
    """Return the settings of the RMPs.

    Args:
        params: of the node.
        base: settings that are not parameters.

    Raises:
        InvalidConfig: inconsistent values.
    """
    values = {name: getattr(params, rmp_field(name)) for name in RMP_PARAMETERS}
    changed = base.with_parameters(values)
    return dataclasses.replace(changed, joint_limit_buffers=params.joint_limit_buffers)


def follower_settings(params: Any) -> FollowerSettings:
    """Return the settings of target tracking.

    Raises:
        InvalidConfig: inconsistent thresholds.
    """
    return settings_from(
        params,
        FollowerSettings,
        command_timeout=params.servo_timeout,
        singularity=settings_from(params, SingularityThresholds, "servo_"),
        retreat=params.escape != "none",
        escape=params.escape == "plan",
    )


def stuck_settings(params: Any) -> StuckSettings:
    """Return the settings of stuck detection."""
    return settings_from(params, StuckSettings, "stuck_")


def smoothing_settings(params: Any) -> SmoothingSettings | None:
    """Return the settings of smoothing; None if it is disabled.

    Raises:
        InvalidConfig: inconsistent values.
    """
    made = settings_from(params, SmoothingSettings, "smoothing_")
    return made if params.smoothing else None


def mpc_settings(params: Any) -> MpcSettings:
    """Return the settings of the reactive MPC."""
    return settings_from(params, MpcSettings, "mpc_")


def make_policy(params: Any, robot: Robot, settings: RmpflowSettings, tool: str) -> RmpflowPolicy:
    """Return the policy that the parameters select.

    Args:
        params: of the node.
        robot: the robot.
        settings: of the RMPs.
        tool: frame of the targets.

    Raises:
        MotionError: they do not fit the robot.
    """
    options: dict[str, Any] = {
        "joints": params.group,
        "tool": tool,
        "ignore_robot_state_updates": params.ignore_robot_state_updates,
    }
    policy: RmpflowPolicy
    if params.policy == "mpc":
        policy = MpcPolicy(robot, settings, mpc=mpc_settings(params), **options)
    else:
        policy = RmpflowPolicy(robot, settings, **options)
    policy.maximum_substep_size = params.maximum_substep_size
    policy.set_smoothing(smoothing_settings(params))
    policy.set_stuck(stuck_settings(params))
    return policy
