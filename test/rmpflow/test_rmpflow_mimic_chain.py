# SPDX-License-Identifier: Apache-2.0
"""Policies of arms with mimic joints in their chain: targets, limits of all members, MuJoCo."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from motion_nodes.core.reactive.mpc.policy import MpcPolicy
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.mimic_joints import Followers
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf import WorldConfig, build_model
from motion_nodes.typing import Array

VARIETY = Path(__file__).parent.parent / "variety"
DT = 0.02
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["lift_column", "palletizer"])
def robot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Robot:
    """A lift of two stages, and an arm that a four-bar linkage levels."""
    folder = tmp_path_factory.mktemp("robots") / request.param
    file = VARIETY / f"{request.param}.urdf"
    return new_robot(file, output=folder, spheres_accuracy=0.05, picture=False).robot


class Judge:
    """MuJoCo's kinematics of the robot, with its mimic joints moved as their leaders say."""

    def __init__(self, robot: Robot, tool: str) -> None:
        self._robot, self._followers = robot, Followers(robot.tree)
        _, self._model = build_model([RobotPlacement(robot, "arm")], WorldConfig())
        self._data = mujoco.MjData(self._model)
        # Frames without a mass are parts of the links that they are fixed to.
        self._X_LT, link = np.eye(4), tool
        while mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, f"arm/{link}") < 0:
            joint = robot.tree.parent_joint[link]
            assert not joint.movable
            self._X_LT, link = joint.X_PJ @ self._X_LT, joint.parent
        self._body = f"arm/{link}"

    def tool(self, q: Array) -> Array:
        """Return the position of the tool [m], shape (3,), in the world."""
        names = (*self._robot.joint_names, *self._followers.names)
        values = (*q, *self._followers.positions(q))
        for name, value in zip(names, values, strict=True):
            self._data.joint(f"arm/{name}").qpos[0] = value
        mujoco.mj_kinematics(self._model, self._data)
        body = self._data.body(self._body)
        return np.asarray(body.xpos + body.xmat.reshape(3, 3) @ self._X_LT[:3, 3])


@pytest.mark.parametrize("kind", [RmpflowPolicy, MpcPolicy])
def test_a_target_is_reached_by_all_members(robot: Robot, kind: type[RmpflowPolicy]) -> None:
    policy = kind(robot, ignore_robot_state_updates=True)
    judge, active = Judge(robot, policy.tool), list(policy.active_joints)
    columns = [robot.joint_names.index(name) for name in active]
    limits, whole = robot.limits, robot.home.copy()
    rng = np.random.default_rng(4)
    start = policy.default_cspace_target
    q = start + 0.25 * np.clip(rng.uniform(-1.0, 1.0, len(start)), -1.0, 1.0)
    q = limits.select(active).clip(q)
    whole[columns] = q
    target = judge.tool(whole)
    np.testing.assert_allclose(policy.tool_pose(q)[:3, 3], target, atol=1e-6)
    policy.set_end_effector_target(target)
    far = world_object("ball", Sphere(0.05), from_xyz_rpy((0.0, 0.0, -2.0)))
    policy.set_scene(Scene(objects={"ball": far}))
    sent, followers = [start], Followers(robot.tree)
    for _ in range(round(8.0 / DT)):
        sent.append(policy.compute_joint_targets(start, np.zeros(len(q)), frame_duration=DT)[0])
    path = np.tile(robot.home, (len(sent), 1))
    path[:, columns] = sent
    assert np.linalg.norm(judge.tool(path[-1]) - target) < 0.01
    # Members keep their own limits, not only those of their leaders.
    rates = np.abs(np.diff(followers.positions(path), axis=0)) / DT
    most = [robot.tree.joints[name].velocity for name in followers.names]
    assert (rates <= np.array(most) * (1.0 + 1e-6)).all()
    for name, moved in zip(followers.names, followers.positions(path).T, strict=True):
        joint = robot.tree.joints[name]
        assert (moved >= joint.lower - 1e-9).all()
        assert (moved <= joint.upper + 1e-9).all()


def test_the_rate_of_the_target_is_that_of_all_members(robot: Robot) -> None:
    """The tool of the policy moves as MuJoCo's, so its Jacobian contains all members."""
    policy = RmpflowPolicy(robot, ignore_robot_state_updates=True)
    judge, rng = Judge(robot, policy.tool), np.random.default_rng(0)
    columns = [robot.joint_names.index(name) for name in policy.active_joints]
    limits = robot.limits.select(policy.active_joints)
    low, high = np.maximum(limits.lower, -2.0), np.minimum(limits.upper, 2.0)
    for q in rng.uniform(low, high, (20, len(low))):
        whole = robot.home.copy()
        whole[columns] = q
        np.testing.assert_allclose(policy.tool_pose(q)[:3, 3], judge.tool(whole), atol=1e-6)
