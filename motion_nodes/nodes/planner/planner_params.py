# SPDX-License-Identifier: Apache-2.0
"""Parameters of the planner node, named as in MoveIt where it has them.

Scenery of a planning scene, from the parameters that describe the cell.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

from motion_nodes.core.bases.from_robot import root_height
from motion_nodes.core.control.pose_targets import ImpedanceSettings
from motion_nodes.core.planning.pipeline import PlanOptions
from motion_nodes.core.planning.recovery import RecoverySettings
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scenery import Scenery, floor_of, joined, neighbours_of
from motion_nodes.ros.clients.trajectory_execution import ExecutionParams
from motion_nodes.ros.messages.plan_messages import MAX_REPLAN_DELAY
from motion_nodes.ros.parameters import core_param, core_params, param, settings_from


@dataclasses.dataclass(frozen=True, kw_only=True)
@core_params(RecoverySettings, "recovery")
class RrtPlannerParams(ExecutionParams):
    """Parameters of the planner node."""

    update_rate: float = param(
        50.0, doc="Update rate of the planning scene.", unit="Hz", gt=0.0, le=200.0, read_only=True
    )
    state_publish_rate: float = param(
        20.0,
        doc="Publish rate of the robot state in the monitored planning scene while the robot "
        "moves.",
        unit="Hz",
        gt=0.0,
        le=200.0,
    )
    planner: str = param(
        "RRTConnect", doc="Default planner, for requests that name none or an unknown one."
    )
    peer_defaults: bool = param(
        False,
        doc="Refuse what MoveIt refuses and this node completes or warns of: REMOVE of an object "
        "that is not in the scene; for PTP, LIN and CIRC scaling factors of 0, an empty "
        "start_state that is not a diff, joint goals that omit joints, and constraints without a "
        "link_name. A negative max_cartesian_speed of these motions is then no limit.",
    )
    max_trans_vel: float = param(
        0.0,
        name="cartesian_limits.max_trans_vel",
        doc="Max speed of the tool in LIN and CIRC, times the velocity scaling factor, for "
        "requests without max_cartesian_speed; 0: none, the limits of the joints apply.",
        unit="m/s",
        ge=0.0,
        le=100.0,
    )
    allowed_planning_time: float = param(
        5.0,
        doc="Default allowed planning time, for requests that give 0.",
        unit="s",
        gt=0.0,
        le=600.0,
    )
    random_seed: int = param(
        123456,
        doc="Random seed of the planners; equal seeds and requests give equal paths.",
        ge=0,
        le=2**31 - 1,
    )
    clearance: float = param(
        0.0,
        doc="Min clearance between the robot and obstacles along planned paths; 0: contact is "
        "excluded, without a margin.",
        unit="m",
        ge=0.0,
        le=1.0,
    )
    joint_limits: tuple[str, ...] = param(
        (),
        doc="Limits of planned motions that are lower than those of the robot, each as "
        "JOINT.max_velocity=VALUE, max_acceleration or max_jerk. The bring-up sets it from a "
        "joint_limits.yaml of MoveIt.",
        read_only=True,
    )
    preferred_clearance: float = core_param(PlanOptions, "preferred_clearance")
    effort_share: float = core_param(PlanOptions, "effort_share")
    payload_mass: float = param(
        0.0,
        name="payload.mass",
        doc="Mass that planned motions carry at the tip of their group, for the effort limits; "
        "motions with configurations in which it overloads a drive are rejected.",
        unit="kg",
        ge=0.0,
        le=1e3,
    )
    payload_center: tuple[float, ...] = core_param(
        ImpedanceSettings, "payload_center", name="payload.center"
    )
    recovery: bool = param(
        True,
        name="recovery.enabled",
        doc="Recover slowly from start states in shallow collision or slightly outside joint "
        "limits; false: reject them.",
    )
    replan_attempts: int = param(
        5,
        doc="Default max number of replanning attempts, for requests that enable replanning "
        "and give 0.",
        ge=1,
        le=1000,
    )
    replan_delay: float = param(
        0.5,
        doc="Default delay between replanning attempts, for requests that give 0.",
        unit="s",
        ge=0.0,
        le=MAX_REPLAN_DELAY,
    )
    replan_lead: float = param(
        0.2,
        doc="Time ahead at which a motion is changed without a stop when its remaining path is "
        "blocked, for requests that enable replanning; planning must fit in it. 0: stop first.",
        unit="s",
        ge=0.0,
        le=2.0,
    )
    floor: bool = param(
        False, doc="Add the floor to the planning scene, as object 'floor'.", read_only=True
    )
    floor_height: float = param(
        0.0,
        doc="Height of the floor in the world frame, in which root links of arms are at z = 0.",
        unit="m",
        ge=-100.0,
        le=100.0,
        read_only=True,
    )
    cell: tuple[str, ...] = param(
        (),
        doc="Robots of the cell, including this one, each as [NAMESPACE:=]ROBOT[@X,Y,YAW]; fixed "
        "parts of the other arms are added to the planning scene.",
        read_only=True,
    )

    @cached_property
    def recovery_settings(self) -> RecoverySettings | None:
        """Settings of the recovery from invalid start states; None if it is disabled."""
        return settings_from(self, RecoverySettings, "recovery_") if self.recovery else None


def scenery_for(
    robot: Robot, namespace: str, params: RrtPlannerParams
) -> tuple[Scenery, list[str]]:
    """Return the floor and the fixed parts of other arms.

    Args:
        robot: of the planner.
        namespace: of the planner, which identifies its robot in the cell.
        params: of the planner.

    Returns:
        The scenery, and notes on omitted parts.

    Raises:
        InvalidConfig: a cell that cannot be parsed, or a height that is not finite.
        RobotNotFound, InvalidDescription: an unknown robot in the cell, or an invalid file of one.
    """
    places = {p.namespace: p for p in parse_placements(params.cell)} if params.cell else {}
    own = namespace.strip("/")
    # A wheeled robot is always on the floor, at any height in the world.
    height = params.floor_height if robot.base is None else -root_height(robot)
    floor = floor_of(robot, height) if params.floor else Scenery()
    if own not in places:
        return floor, []
    others = {}
    for namespace, place in places.items():
        if namespace != own:
            other = load_description(place.robot)
            others[namespace or other.name] = other, place
    neighbours, notes = neighbours_of(robot, places[own], others)
    return joined(floor, neighbours), notes
