# SPDX-License-Identifier: Apache-2.0
"""PTP, LIN, CIRC and blended sequences: lines and circles of the tool, limits, errors."""

from __future__ import annotations

import numpy as np
import pytest

import motion_nodes as mn
from motion_nodes.core.planning.industrial import SequenceItem, plan_sequence
from motion_nodes.core.planning.planning_problem import PlanRequest, PlanStatus
from motion_nodes.core.planning.tool_motions import ArcPoint, ToolMotion
from motion_nodes.errors import InvalidCommand

ARM = mn.load_robot("franka")["arm"]
READY = ARM.state("ready")
HERE = ARM.fk(READY)
TIP = ARM.tip


def beside(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    X = HERE.copy()
    X[:3, 3] += (x, y, z)
    return X


def item(kind: ToolMotion, goal: object, **fields: object) -> SequenceItem:
    arc = fields.pop("arc", None)
    world = fields.pop("world", None)
    goal = goal if isinstance(goal, mn.JointGoal) else mn.PoseGoal(TIP, goal)
    request = PlanRequest(ARM.checker(world), READY, (goal,))
    return SequenceItem(request, kind, TIP, arc, **fields)


def tool_positions(plan: mn.MotionPlan) -> np.ndarray:
    assert plan.success, plan.reason
    if plan.motion is None:
        return ARM.fk_batch(plan.trajectory.positions)[:, :3, 3]
    times = np.linspace(0.0, plan.motion.duration, 1500)
    return ARM.fk_batch(plan.motion.states(times)[0])[:, :3, 3]


def test_a_line_is_straight_and_within_limits():
    goal = beside(0.1, -0.2, -0.1)
    plan = plan_sequence([item(ToolMotion.LIN, goal)])
    P = tool_positions(plan) - HERE[:3, 3]
    way = goal[:3, 3] - HERE[:3, 3]
    off = np.linalg.norm(np.cross(P, way / np.linalg.norm(way)), axis=1)
    assert off.max() < 1e-4
    assert P[-1] == pytest.approx(way, abs=1e-4)
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    slow = plan_sequence([item(ToolMotion.LIN, goal, velocity_scaling=0.1)])
    assert slow.motion.duration > 2.0 * plan.motion.duration


@pytest.mark.parametrize("is_center", [True, False])
def test_an_arc_is_a_circle_to_a_tenth_of_a_millimetre(is_center):
    """A quarter of a circle in the vertical plane, given by its centre or by an interim point."""
    center = HERE[:3, 3] + (0.0, 0.15, 0.0)
    goal = beside(0.0, 0.15, 0.15)
    half = center + 0.15 * np.array([0.0, -1.0, 1.0]) / np.sqrt(2.0)
    arc = ArcPoint(center if is_center else half, is_center)
    plan = plan_sequence([item(ToolMotion.CIRC, goal, arc=arc)])
    P = tool_positions(plan) - center
    assert np.abs(np.linalg.norm(P[:, 1:], axis=1) - 0.15).max() < 1e-4
    assert np.abs(P[:, 0]).max() < 1e-4
    assert (P @ (half - center)).max() == pytest.approx(0.15**2, rel=1e-3), "the shorter arc"


def test_point_to_point_is_a_line_of_the_joints():
    q = READY + np.array([0.4, 0.1, 0.0, 0.2, 0.0, 0.1, 0.3])
    plan = plan_sequence([item(ToolMotion.PTP, mn.JointGoal(q))])
    way = plan.trajectory.positions - READY
    share = way @ (q - READY) / ((q - READY) @ (q - READY))
    assert np.abs(way - share[:, None] * (q - READY)).max() < 1e-9
    assert plan.trajectory.positions[-1] == pytest.approx(q)


@pytest.mark.parametrize("kinds", [(ToolMotion.LIN,) * 3, (ToolMotion.PTP,) * 3,
                                   (ToolMotion.LIN, ToolMotion.PTP, ToolMotion.LIN)])  # fmt: skip
def test_blends_do_not_stop_and_stay_within_their_radius(kinds):
    goals = (beside(0.1), beside(0.1, 0.2), beside(0.0, 0.2, 0.1))
    radius = 0.03
    items = [item(k, X, blend_radius=radius) for k, X in zip(kinds, goals, strict=True)]
    items[-1] = item(kinds[-1], goals[-1])
    plan = plan_sequence(items)
    P = tool_positions(plan)
    for X in goals[:2]:
        assert 1e-3 < np.linalg.norm(P - X[:3, 3], axis=1).min() < radius
    times = np.linspace(0.05, plan.motion.duration - 0.05, 500)
    assert np.abs(plan.motion.states(times)[1]).max(axis=1).min() > 0.01, "it stopped"
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    stops = plan_sequence([item(k, X) for k, X in zip(kinds, goals, strict=True)])
    assert stops.trajectory.times[-1] > plan.motion.duration
    assert np.linalg.norm(tool_positions(stops) - goals[0][:3, 3], axis=1).min() < 1e-3


def test_a_blocked_line_names_the_obstacle():
    world = mn.World()
    world.add("post", mn.Box(0.03, 0.03, 0.6), mn.pose(xyz=tuple(beside(0.0, 0.15)[:3, 3])))
    plan = plan_sequence([item(ToolMotion.LIN, beside(0.0, 0.3), world=world)])
    assert plan.status is PlanStatus.BLOCKED
    assert "post" in plan.reason


def test_what_is_out_of_reach_or_not_defined_is_refused():
    far = plan_sequence([item(ToolMotion.LIN, beside(2.0))])
    assert far.status is PlanStatus.GOAL_UNREACHABLE
    ptp = plan_sequence([item(ToolMotion.PTP, beside(2.0))])
    assert ptp.status is PlanStatus.GOAL_UNREACHABLE
    goal = beside(0.0, 0.2)
    middle = beside(0.0, 0.1)[:3, 3]
    for items in (
        [item(ToolMotion.CIRC, goal)],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle, True))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle, False))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint(middle + 0.5, True))],
        [item(ToolMotion.CIRC, goal, arc=ArcPoint((np.nan, 0.0, 0.0), False))],
        [item(ToolMotion.LIN, goal, blend_radius=0.1)],
        [item(ToolMotion.LIN, goal, blend_radius=-0.1), item(ToolMotion.LIN, HERE)],
        [item(ToolMotion.LIN, goal, blend_radius=0.3), item(ToolMotion.LIN, beside(0.1))],
    ):
        with pytest.raises(InvalidCommand):
            plan_sequence(items)


@pytest.mark.parametrize("kind", [ToolMotion.LIN, ToolMotion.CIRC])
def test_a_speed_limit_is_a_cruise_speed(kind):
    """Pilz's profile: a ramp, the max velocity of the tool, and a ramp."""
    goal, limit = beside(0.0, 0.3), 0.1
    arc = ArcPoint(beside(0.05, 0.15)[:3, 3], False) if kind is ToolMotion.CIRC else None
    plan = plan_sequence([item(kind, goal, arc=arc, tool_speed=(TIP, limit))])
    times = np.linspace(0.0, plan.motion.duration, 3001)
    q, v, _, _ = plan.motion.states(times)
    J = np.stack([ARM.jacobian(each)[:3] for each in q])
    speeds = np.linalg.norm(np.einsum("kij,kj->ki", J, v), axis=1)
    assert speeds.max() <= limit * (1.0 + 1e-3)
    cruises = np.flatnonzero(speeds > 0.97 * limit)
    assert np.all(np.diff(cruises) == 1), "one phase of constant speed"
    assert len(cruises) > 0.8 * len(times)
    assert plan.motion.limit_use(ARM.limits).stretch <= 1.0 + 1e-6
    length = float(np.sum(np.linalg.norm(np.diff(tool_positions(plan), axis=0), axis=1)))
    assert length / limit < plan.motion.duration < length / limit + 0.6
