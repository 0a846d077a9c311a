# SPDX-License-Identifier: Apache-2.0
"""A policy never moves the robot into an obstacle at rest, and is not held inside one."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.reactive.follower_settings import RobotMotion
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_motion import BrakingGuard, StandingObstacles
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, WorldObject, world_object

DT = 0.01
FAR = from_xyz_rpy((3.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def policy() -> RmpflowPolicy:
    return RmpflowPolicy(load_robot("franka"), ignore_robot_state_updates=True)


def box(name: str, size: tuple[float, float, float], X: np.ndarray) -> WorldObject:
    return world_object(name, Box(size), X)


def boxed_target(policy: RmpflowPolicy, seed: int) -> tuple[Scene, np.ndarray]:
    """Return a box around a pose of the tool, and the pose."""
    rng, home = np.random.default_rng(seed), policy.default_cspace_target
    limits = policy.robot.limits.select(policy.active_joints)
    X = policy.tool_pose(limits.clip(home + rng.uniform(-0.6, 0.6, len(home))))
    at = X[:3, 3] + rng.uniform(-0.05, 0.05, 3)
    size = tuple(rng.uniform(0.05, 0.2, 3).tolist())
    return Scene({"box": box("box", size, from_xyz_rpy(at, rng.uniform(-1.0, 1.0, 3)))}), X


def followed(policy: RmpflowPolicy, scene: Scene, X: np.ndarray) -> np.ndarray:
    """Return the references on the path to a pose [rad], shape (k, n)."""
    policy.reset()
    policy.set_scene(scene)
    follower, q = Follower(policy), policy.default_cspace_target
    follower.follow_pose(X, 0.0)
    fingers = policy.robot.home[policy.robot.indices(policy.watched_joints)]
    qd, still, sent = np.zeros(len(q)), np.zeros(len(fingers)), []
    for k in range(500):
        step = follower.step(RobotMotion(q, qd, fingers, still), DT, (k + 1) * DT)
        q, qd = (q, np.zeros(len(q))) if step is None else step
        sent.append(q)
    return np.array(sent)


def test_a_target_inside_a_box_does_not_lead_into_it(
    policy: RmpflowPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is one of 250 with which the policy alone touches the box."""
    scene, X = boxed_target(policy, 58)
    checker = CollisionChecker(policy.robot, policy.active_joints, scene=scene)
    assert checker.exact.are_free(followed(policy, scene, X)).all()
    monkeypatch.setattr(BrakingGuard, "admitted", lambda self, q, qd, dt: (q, qd))
    assert not checker.exact.are_free(followed(policy, scene, X)).all()


def standing(policy: RmpflowPolicy) -> StandingObstacles:
    return StandingObstacles(policy, (*policy.active_joints, *policy.watched_joints))


def path(policy: RmpflowPolicy) -> np.ndarray:
    q = policy.robot.home[policy.robot.indices((*policy.active_joints, *policy.watched_joints))]
    return np.array([q, q])


def test_only_objects_at_rest_count_and_tables_under_the_base_do_not(policy: RmpflowPolicy) -> None:
    policy.reset()
    at = policy.tool_pose(policy.default_cspace_target)
    obstacles = standing(policy)
    table = box("table", (2.0, 2.0, 0.1), from_xyz_rpy((0.0, 0.0, -0.05)))
    policy.set_scene(Scene({"table": table}))
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)

    inside = box("box", (0.1, 0.1, 0.1), at)
    policy.set_scene(Scene({"table": table, "box": inside}))
    assert obstacles.update()
    assert not obstacles.update()
    assert not obstacles.free(path(policy), 0.1)
    policy.set_obstacle_twists({"box": np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])})
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)
    policy.set_obstacle_twists({})
    assert obstacles.update()
    assert not obstacles.free(path(policy), 0.1)

    policy.set_robot_base_pose(FAR)
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)
    policy.reset()
    policy.set_robot_base_pose(np.eye(4))


def test_an_object_put_onto_the_robot_does_not_hold_it(policy: RmpflowPolicy) -> None:
    policy.reset()
    q = policy.default_cspace_target
    guard, rest = BrakingGuard(policy), np.zeros(len(q))
    policy.set_internal_robot_joint_states(q, rest)
    guard.begin(q, rest)
    policy.set_scene(Scene({"box": box("box", (0.1, 0.1, 0.1), policy.tool_pose(q))}))
    ahead, speed = q + 1e-3, np.full(len(q), 0.1)
    at, velocity = guard.admitted(ahead, speed, DT)
    assert (at == ahead).all()
    assert (velocity == speed).all()
    assert not guard.braking
