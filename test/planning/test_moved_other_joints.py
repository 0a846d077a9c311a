# SPDX-License-Identifier: Apache-2.0
"""Planning for a group while the robot's other joints move: their positions are no constants."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.ik.problem import IkRequest
from motion_nodes.core.planning.cartesian import (
    CartesianOptions,
    cartesian_path,
    checker_kinematics,
)
from motion_nodes.core.planning.pose_solvers import pose_solver
from motion_nodes.core.robot.kinematics import GroupKinematics, Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.kernels import robot_codegen

ARMS = {"franka": ("arm", "panda_hand"), "g1": ("left_arm", "left_wrist_yaw_link")}
"""Group and link; the joints of the hand are below the link, those of the waist above it."""


def checker_with(name: str, seed: int) -> CollisionChecker:
    """Return a checker of an arm whose other joints are at random positions."""
    robot = load_robot(name)
    checker = CollisionChecker(robot, ARMS[name][0])
    rng = np.random.default_rng(seed)
    limits, home = robot.limits, robot.home
    share = rng.uniform(0.0, 0.2, len(home))
    checker.set_positions(home + share * (np.where(share > 0.1, limits.upper, limits.lower) - home))
    return checker


def home_of(checker: CollisionChecker) -> np.ndarray:
    return checker.robot.home[checker.robot.indices(checker.joint_names)]


@pytest.mark.parametrize("name", ARMS)
def test_kinematics_are_those_with_fixed_joints(name):
    checker, link = checker_with(name, 1), ARMS[name][1]
    robot, q = checker.robot, home_of(checker)
    values = dict(zip(robot.joint_names, checker.positions.tolist(), strict=True))
    fixed = {joint: x for joint, x in values.items() if joint not in checker.joint_names}
    oracle = Kinematics(robot.tree, checker.joint_names, fixed=fixed, base=robot.base_frame)
    found = checker_kinematics(checker)
    assert found.pose(q, link) == pytest.approx(oracle.pose(q, link), abs=1e-12)
    Q = q + np.random.default_rng(2).uniform(-0.3, 0.3, (5, len(q)))
    expected = oracle.jacobian_batch(Q, link)
    assert found.jacobian_batch(Q, link) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ARMS)
def test_solutions_reach_the_pose_in_the_base_and_no_code_is_compiled_again(name):
    link = ARMS[name][1]
    for seed in range(3):
        checker = checker_with(name, seed)
        kinematics, q = checker_kinematics(checker), home_of(checker)
        goal = kinematics.pose(q + 0.1, link)
        solver, columns = pose_solver(checker, link)
        found = solver.solve(IkRequest(goal, seed=q[columns]))
        assert found.success
        end = q.copy()
        end[columns] = found.q
        assert kinematics.pose(end, link) == pytest.approx(goal, abs=0.02)
        line = [kinematics.pose(q + 0.02, link)]
        options = CartesianOptions(avoid_collisions=False)
        path = cartesian_path(checker, q, link, line, options)
        assert path.success, path.reason
        if seed == 0:
            known = len(robot_codegen._loaded)
    assert len(robot_codegen._loaded) == known


def test_refused():
    robot = load_robot("franka")
    with pytest.raises(UnknownJoint):
        GroupKinematics(robot, ["elbow"], robot.home)
    with pytest.raises(InvalidCommand):
        GroupKinematics(robot, robot.joint_names[:7], robot.home[:7])
    kinematics = GroupKinematics(robot, robot.joint_names[:7], robot.home)
    with pytest.raises(InvalidCommand):
        kinematics.pose(robot.home, "panda_hand")
    with pytest.raises(InvalidCommand):
        kinematics.jacobian_batch(robot.home[:7], "panda_hand")
