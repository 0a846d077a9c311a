# SPDX-License-Identifier: Apache-2.0
"""From a tool pose to a joint command, applied to the articulation controller."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ik.ik_samples import draw, load, oracle_of
from raised_errors import about

from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.ik.problem import IkSettings, IkStatus, IkTolerance
from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.errors import InvalidCommand, UnknownGroup

FRANKA = load("franka")
X_WB = from_xyz_rpy((1.0, -2.0, 0.3), (0.0, 0.0, 2.0))


@pytest.fixture(scope="module")
def ik() -> ArticulationIk:
    return ArticulationIk(FRANKA, "panda_arm")


def apart(X: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Return distance [m] and angle [rad] between two poses."""
    D = inverse(X) @ Y
    return float(np.linalg.norm(D[:3, 3])), math.acos(min(1.0, (np.trace(D[:3, :3]) - 1.0) / 2.0))


def pinocchio(q: np.ndarray) -> np.ndarray:
    """Return the pose of the tool in the base by the oracle, shape (4, 4)."""
    return oracle_of("franka").pose(q, "panda_hand_tcp", "panda_link0")


def test_the_applied_command_brings_the_tool_there(ik):
    """Joints outside the group keep their positions."""
    controller = ArticulationController(FRANKA.limits)
    controller.reset(FRANKA.home)
    for q in draw(ik.chain, 5, seed=3):
        target = ik.chain.kinematics.pose(q, ik.chain.tip)
        present = dict(zip(FRANKA.joint_names, controller.targets.positions, strict=True))
        goal = ik.goal_for(target, present)
        assert goal.success, goal.result.reason
        assert goal.names == ik.joint_names
        controller.apply(JointCommand(names=goal.names, positions=goal.positions))
        reference = controller.step(0.01)
        for _ in range(2000):
            reference = controller.step(0.01)
            if not controller.moving:
                break
        position, angle = apart(pinocchio(reference.positions), target)
        assert position < 2e-6
        assert angle < 2e-6
        assert np.array_equal(reference.positions[7:], FRANKA.home[7:])


def test_it_begins_where_the_joints_are(ik):
    """Small steps of the tool along a path are small steps of the joints."""
    q = FRANKA.home[:7]
    X = ik.tool_pose(q)
    for k in range(1, 21):
        target = X.copy()
        target[:3, 3] += 0.01 * k * np.array([0.5, 0.5, -0.5])
        goal = ik.goal_for(target, q)
        assert goal.success
        assert np.abs(goal.positions - q).max() < 0.08
        q = goal.positions


def test_of_a_robot_that_stands_elsewhere():
    ik = ArticulationIk(FRANKA, "arm")
    home = ik.tool_pose(FRANKA.home[:7])
    ik.set_base_pose(X_WB)
    assert np.allclose(ik.tool_pose(FRANKA.home[:7]), X_WB @ home, atol=1e-12)
    target = X_WB @ home @ from_xyz_rpy((0.02, 0.03, -0.05), (0.1, 0.0, 0.2))
    goal = ik.goal_for(target, FRANKA.home[:7])
    assert goal.success
    q = np.concatenate([goal.positions, FRANKA.home[7:]])
    assert max(apart(X_WB @ pinocchio(q), target)) < 2e-6


def test_what_cannot_be_reached_moves_nothing_and_says_why(ik):
    present = FRANKA.home[:7] + 0.01
    goal = ik.goal_for(from_xyz_rpy((3.0, 0.0, 0.5)), present)
    assert not goal.success
    assert goal.result.status is IkStatus.OUT_OF_REACH
    assert goal.result.reason
    assert np.array_equal(goal.positions, present)


def test_position_alone(ik):
    """Tolerance of a single request: position only, where the orientation is out of reach."""
    target = from_xyz_rpy((0.75, 0.0, 0.3), (0.0, -1.2, 0.0))
    whole = ik.goal_for(target, FRANKA.home[:7])
    place = ik.goal_for(target, FRANKA.home[:7], tolerance=IkTolerance.position_only(1e-5))
    assert (whole.success, place.success) == (False, True)
    assert np.linalg.norm(ik.tool_pose(place.positions)[:3, 3] - target[:3, 3]) < 2e-5


def test_bad_input(ik):
    home = dict(zip(FRANKA.joint_names, FRANKA.home, strict=True))
    X = ik.tool_pose(home)
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, {name: q for name, q in home.items() if name != "panda_joint3"})
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, home | {"panda_joint1": math.nan})
    with pytest.raises(InvalidCommand):
        ik.goal_for(X, FRANKA.home)
    for bad in (np.zeros((4, 4)), np.full((4, 4), np.nan), np.eye(3)):
        with pytest.raises(InvalidCommand):
            ik.goal_for(bad, home)
        with pytest.raises(InvalidCommand):
            ik.set_base_pose(bad)
    assert np.array_equal(ik.tool_pose(home), X), "a refused base pose had an effect"
    with pytest.raises(UnknownGroup, check=about("am")):
        ArticulationIk(FRANKA, "am")


def test_joints_beyond_a_limit_are_led_back(ik):
    present = FRANKA.home[:7].copy()
    present[5] = 3.7525 + 0.002
    goal = ik.goal_for(ik.tool_pose(FRANKA.home[:7]), present)
    assert goal.success
    assert (goal.positions <= ik.chain.upper).all()


def test_settings_of_the_caller():
    loose = ArticulationIk(FRANKA, "arm", settings=IkSettings(tolerance=IkTolerance(1e-2, 0.1)))
    goal = loose.goal_for(from_xyz_rpy((0.4, 0.1, 0.5), (math.pi, 0.0, 0.0)), FRANKA.home[:7])
    assert goal.success
    assert goal.result.position_error <= 1e-2
