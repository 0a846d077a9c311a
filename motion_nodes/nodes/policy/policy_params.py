# SPDX-License-Identifier: Apache-2.0
"""Parameters of the node rmpflow_policy; those of the leaves have the names of rmpflow.yaml."""

from __future__ import annotations

import dataclasses
from typing import Any

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.rmpflow.following import FollowerSettings
from motion_nodes.rmpflow.progress import StuckSettings
from motion_nodes.rmpflow.smoothing import SmoothingSettings
from motion_nodes.ros.core_settings import settings_from
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.ros.parameters import param
from motion_nodes.ros.robot_node import FramedParams

ESCAPES = ("none", "posture", "plan")
COMMAND_IN_TYPES = ("unitless", "speed_units")

LEAF_DOCS = {
    "cspace_target_rmp": "Towards a posture",
    "joint_limit_rmp": "Away from the ends of each joint",
    "joint_velocity_cap_rmp": "Slows joints that get too fast",
    "target_rmp": "The tool to a position",
    "axis_target_rmp": "The tool to an orientation",
    "collision_rmp": "Away from obstacles",
    "damping_rmp": "Damping and inertia of the tool",
    "canonical_resolve": "From all leaves to one acceleration",
}
"""What the leaves do; docs/rmpflow.md and rmpflow/leaves.py have the formulas."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PolicyParams(FramedParams):
    """Parameters of the node itself."""

    update_rate: float = param(
        250.0, doc="Rate of the node's loop.", unit="Hz", gt=0.0, le=2000.0, read_only=True
    )
    rmpflow_file: str = param(
        "", doc="File of the leaves' parameters; empty: the robot's rmpflow.yaml.", read_only=True
    )
    group: str = param("arm", doc="Group of joints that are led.", read_only=True)
    tool: str = param("", doc="Frame that targets are for; empty: the robot's.", read_only=True)
    controller: str = param(
        JOINT_CONTROLLER, doc="Node whose ~/reference leads the joints.", read_only=True
    )
    planner: str = param(
        "move_action", doc="Action of the planner that brings the arm out of traps.", read_only=True
    )
    maximum_substep_size: float = param(
        0.00334, doc="Longest step of the integration.", unit="s", gt=0.0, le=0.1
    )
    ignore_robot_state_updates: bool = param(
        True,
        doc="Go on from where the robot was led, whatever its drives make of it; else the leaves "
        "look at the measured joints, and the reference leads them to the target.",
    )
    use_orientation: bool = param(
        True, doc="Bring the tool to a target's orientation, too; else to its position alone."
    )
    target_timeout: float = param(
        float("inf"),
        doc="A target that is not renewed for so long is lost: the arm comes to rest.",
        unit="s", gt=0.0, inf=True,
    )  # fmt: skip
    command_timeout: float = param(
        1.0, doc="A target whose stamp is older than this is ignored.", unit="s", gt=0.0, le=60.0
    )
    state_timeout: float = param(
        0.5,
        doc="Without joint_states for so long nothing more is told to the robot.",
        unit="s", gt=0.0, le=60.0,
    )  # fmt: skip
    max_tracking_error: float = param(
        0.3,
        doc="A joint that is further than this from where it is led stops the arm; with measured "
        "joints it is led no further ahead than this.",
        unit="rad or m", gt=0.0, inf=True,
    )  # fmt: skip
    position_tolerance: float = param(
        0.005, doc="So near to its target the tool has arrived.", unit="m", gt=0.0, le=1.0
    )
    orientation_tolerance: float = param(
        0.0175, doc="So near to its target's orientation it has.", unit="rad", gt=0.0, le=3.2
    )
    posture_tolerance: float = param(
        0.01, doc="So near to a posture the joints have.", unit="rad or m", gt=0.0, le=1.0
    )
    escape: str = param(
        "none",
        doc="What happens when the arm is stuck: none; posture: it goes to its posture and tries "
        "again, once per target; plan: a planner brings it to the target.",
        one_of=ESCAPES,
    )
    escape_pause: float = param(
        5.0, doc="After a plan that failed there is no other for so long.", unit="s", gt=0.0
    )
    escape_planning_time: float = param(
        5.0, doc="Longest planning for a way out.", unit="s", gt=0.0, le=600.0
    )
    status_rate: float = param(
        10.0, doc="Rate of ~/status and servo_node/status; changes are told at once.",
        unit="Hz", gt=0.0, le=100.0,
    )  # fmt: skip
    marker_rate: float = param(
        15.0, doc="Rate of ~/markers while somebody listens; 0: none.", unit="Hz", ge=0.0, le=60.0
    )
    metrics_rate: float = param(
        20.0, doc="Rate of ~/leaf_metrics while somebody listens; 0: none.",
        unit="Hz", ge=0.0, le=100.0,
    )  # fmt: skip
    servo_command_in_type: str = param(
        "unitless",
        name="servo.command_in_type",
        doc="Commands of -1 to 1, which are scaled, or in m/s and rad/s.",
        one_of=COMMAND_IN_TYPES,
    )
    servo_linear: float = param(
        0.25, name="servo.scale.linear", doc="Speed of the tool at a unitless 1.",
        unit="m/s", gt=0.0, le=10.0,
    )  # fmt: skip
    servo_rotational: float = param(
        0.8, name="servo.scale.rotational", doc="Turning speed of the tool at a unitless 1.",
        unit="rad/s", gt=0.0, le=20.0,
    )  # fmt: skip
    servo_joint: float = param(
        0.5, name="servo.scale.joint", doc="Speed of a joint at a unitless 1.",
        unit="rad/s or m/s", gt=0.0, le=20.0,
    )  # fmt: skip
    servo_timeout: float = param(
        0.2,
        name="servo.incoming_command_timeout",
        doc="Without a new twist or jog for so long the arm comes to rest.",
        unit="s", gt=0.0, le=5.0,
    )  # fmt: skip
    stuck_patience: float = param(
        1.5, name="stuck.patience", doc="So long nothing gets better before the arm is stuck.",
        unit="s", gt=0.0,
    )  # fmt: skip
    stuck_progress: float = param(
        0.01, name="stuck.progress", doc="What counts as better.", unit="m or rad/10", gt=0.0
    )
    stuck_tolerance: float = param(
        0.01, name="stuck.tolerance", doc="So near, only an arm that stands is stuck.",
        unit="m or rad/10", gt=0.0,
    )  # fmt: skip
    stuck_target_step: float = param(
        0.02, name="stuck.target_step", doc="A target that moves by more is a new one.",
        unit="m or rad/10", gt=0.0,
    )  # fmt: skip
    smoothing: bool = param(
        False,
        name="smoothing.enabled",
        doc="Slow down where the policy jumps; jerk is bounded anyway.",
    )
    smoothing_desired_speed_scalar: float = param(
        1.0, name="smoothing.desired_speed_scalar", doc="Speed that is returned to.", gt=0.0
    )
    smoothing_min_speed_scalar: float = param(
        0.2, name="smoothing.min_speed_scalar", doc="Speed after a big jump.", gt=0.0
    )
    smoothing_min_time_between_jerk_reductions: float = param(
        0.5, name="smoothing.min_time_between_jerk_reductions",
        doc="After a drop there is no other for so long.", unit="s", ge=0.0,
    )  # fmt: skip
    smoothing_big_jump: float = param(
        10.0, name="smoothing.big_jump", doc="Change of acceleration that drops the speed.",
        unit="rad/s^2", gt=0.0,
    )  # fmt: skip
    smoothing_medium_jump: float = param(
        7.0, name="smoothing.medium_jump", doc="Change of acceleration that is cut off.",
        unit="rad/s^2", gt=0.0,
    )  # fmt: skip
    smoothing_recovery: float = param(
        0.985, name="smoothing.recovery", doc="Part of a drop that is left after a step.",
        ge=0.0, le=1.0,
    )  # fmt: skip
    joint_limit_buffers: tuple[float, ...] = param(
        doc="Taken off both ends of each joint's range; one for all, or one each.",
        unit="rad or m", ge=0.0,
    )  # fmt: skip


def leaf_field(name: str) -> str:
    """Return the field of a leaf's parameter, such as ``target_rmp.accel_p_gain``."""
    return name.replace(".", "__")


_LEAVES = RmpflowSettings().parameters()

PolicyParams: Any = dataclasses.make_dataclass(
    "PolicyParams",
    [
        (
            leaf_field(name),
            float,
            param(
                name=name,
                doc=f"{LEAF_DOCS.get(name.split('.')[0], name.split('.')[0])}; "
                f"see docs/rmpflow.md.",
                ge=0.0,
            ),
        )
        for name in _LEAVES
    ],
    bases=(_PolicyParams,),
    frozen=True,
    kw_only=True,
)
"""All parameters: those of the node, and each number of the leaves."""


def robot_defaults(settings: RmpflowSettings) -> dict[str, Any]:
    """Return the parameters that a robot's file gives."""
    values: dict[str, Any] = {leaf_field(k): float(v) for k, v in settings.parameters().items()}
    return values | {"joint_limit_buffers": settings.joint_limit_buffers}


def settings_of(params: Any, base: RmpflowSettings) -> RmpflowSettings:
    """Return the leaves' settings with the numbers of the parameters.

    Raises:
        BadConfig: numbers that do not fit together.
    """
    values = {name: getattr(params, leaf_field(name)) for name in _LEAVES}
    changed = base.with_parameters(values)
    return dataclasses.replace(changed, joint_limit_buffers=params.joint_limit_buffers)


def follower_settings(params: Any) -> FollowerSettings:
    """Return how targets and robot are judged."""
    return settings_from(
        params,
        FollowerSettings,
        command_timeout=params.servo_timeout,
        retreat=params.escape == "posture",
        escape=params.escape == "plan",
    )


def stuck_settings(params: Any) -> StuckSettings:
    """Return when the policy counts as stuck."""
    return settings_from(params, StuckSettings, "stuck_")


def smoothing_settings(params: Any) -> SmoothingSettings | None:
    """Return the scaling of time, None where it is off.

    Raises:
        BadConfig: numbers that do not fit.
    """
    made = settings_from(params, SmoothingSettings, "smoothing_")
    return made if params.smoothing else None
