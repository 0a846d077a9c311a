# SPDX-License-Identifier: Apache-2.0
"""A policy on a robot with more joints in another order, and its controller."""

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.reactive.obstacle_scene import ObstacleMotion
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.extras.compat.articulation_policy import (
    ArticulationMotionPolicy,
    MotionPolicyController,
)

POSE = (0.45, 0.15, 0.4)


class PerfectRobot:
    """An ideal robot with joints in reverse order, and one that the policy does not have."""

    def __init__(self, robot):
        self.joint_names = (*reversed(robot.joint_names), "lift")
        self.q = np.array([*robot.home[::-1], 0.2])
        self.qd = np.zeros(len(self.q))

    def joint_positions(self):
        return self.q

    def joint_velocities(self):
        return self.qd

    def apply(self, targets):
        told = np.isfinite(targets.positions)
        self.q = np.where(told, targets.positions, self.q)
        self.qd = np.where(told, targets.velocities, self.qd)


def made():
    robot = load_robot("franka")
    body = PerfectRobot(robot)
    policy = RmpflowPolicy(robot, ignore_robot_state_updates=False)
    return body, ArticulationMotionPolicy(body, policy, default_physics_dt=0.02)


def test_nine_joints_and_a_lift_get_seven_values():
    body, articulation = made()
    articulation.policy.set_end_effector_target(POSE)
    targets = articulation.move()
    positions, velocities = targets.padded_with_none()
    assert targets.names == body.joint_names
    silent = {n for n, x in zip(targets.names, positions, strict=True) if x is None}
    assert silent == {"panda_finger_joint1", "panda_finger_joint2", "lift"}
    assert [v is None for v in velocities] == [p is None for p in positions]
    for _ in range(250):
        articulation.move()
    assert articulation.policy.status.position_error < 0.005
    assert body.q[-1] == 0.2


def test_a_robot_without_a_joint_is_refused():
    body, articulation = made()
    body.joint_names = (*body.joint_names[:-2], "panda_joint9", "lift")
    with pytest.raises(UnknownJoint, check=about("panda_joint1")):
        ArticulationMotionPolicy(body, articulation.policy)


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(10, np.nan)])
def test_a_bad_state_commands_nothing(bad):
    body, articulation = made()
    articulation.policy.set_end_effector_target(POSE)
    body.q = bad
    with pytest.raises(InvalidCommand, check=about("the robot's state")):
        articulation.move()
    assert body.q is bad


def test_controller_follows_a_moving_cube_and_minds_a_ball():
    body, articulation = made()
    controller = MotionPolicyController("follow", articulation)
    lags = []
    for k in range(400):
        cube = np.array([0.45, 0.2 - 0.0008 * k, 0.4])
        body.apply(controller.forward(cube, (1.0, 0.0, 0.0, 0.0)))
        lags.append(articulation.policy.status.position_error)
    assert max(lags[150:]) < 0.04
    tool = articulation.policy.tool_pose(body.q[:9][::-1][:7])
    ball = world_object("ball", Sphere(0.05), from_xyz_rpy(tool[:3, 3] + (0.0, 0.0, -0.1)))
    controller.add_obstacle(ball)
    for _ in range(100):
        body.apply(controller.forward(tool[:3, 3] - (0.0, 0.0, 0.1)))
    held = articulation.policy.status.position_error
    assert held > 0.05
    assert articulation.policy.clearance() > 0.0
    controller.remove_obstacle("ball")
    for _ in range(200):
        body.apply(controller.forward(tool[:3, 3] - (0.0, 0.0, 0.1)))
    assert articulation.policy.status.position_error < 0.01
    with pytest.raises(InvalidCommand, check=about("ball")):
        controller.remove_obstacle("ball")
    with pytest.raises(InvalidCommand, check=about("position")):
        controller.forward((np.nan, 0.0, 0.0))


def test_motion_of_obstacles_is_seen_and_forgotten():
    motion = ObstacleMotion()

    def see(t, x, turn=0.0):
        item = world_object("ball", Sphere(0.1), from_xyz_rpy((x, 0.0, 0.0), (0.0, 0.0, turn)))
        motion.update(Scene(objects={"ball": item}), t)
        return motion.twists(t)

    assert see(0.0, 0.0) == {}
    assert see(0.1, 0.05, 0.02)["ball"] == pytest.approx([0.5, 0, 0, 0, 0, 0.2])
    assert motion.twists(0.25)["ball"] == pytest.approx([0.5, 0, 0, 0, 0, 0.2])
    assert motion.twists(0.4) == {}
    assert see(0.2, 9.0, 0.02) == {}
    assert see(0.3, 9.01, 0.02)["ball"] == pytest.approx([0.1, 0, 0, 0, 0, 0])
