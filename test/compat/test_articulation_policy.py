# SPDX-License-Identifier: Apache-2.0
"""A policy on a robot with more joints, and trajectories as actions."""

import numpy as np
import pytest
from raised_errors import about
from trajectory.retime_limits import limits_of

from motion_nodes.core.reactive.obstacle_scene import ObstacleMotion
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint
from motion_nodes.extras.compat.articulation_policy import (
    ArticulationMotionPolicy,
    MotionPolicyController,
)
from motion_nodes.extras.compat.path_planner import ArticulationTrajectory

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


ROBOT = ("joint3", "joint2", "finger", "joint1")


def made_of_articulation_trajectory():
    limits = limits_of([1.0, 1.0, 1.0], 5.0)
    return retime([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1]], limits)


def test_interface_of_trajectories():
    trajectory = made_of_articulation_trajectory()
    assert trajectory.active_joints == ("joint1", "joint2", "joint3")
    assert trajectory.get_active_joints() == ["joint1", "joint2", "joint3"]
    assert trajectory.duration == trajectory.end_time - trajectory.start_time
    for targets in (trajectory.joint_targets(0.1), trajectory.get_joint_targets(0.1)):
        np.testing.assert_array_equal(targets[0], trajectory.sample(0.1).position)
        np.testing.assert_array_equal(targets[1], trajectory.sample(0.1).velocity)
    points = JointTrajectory(("a",), [1.0, 3.0], [[0.0], [1.0]])
    assert points.duration == 2.0
    assert len(points.get_joint_targets(2.0)) == 2


def test_actions_name_the_joints_of_the_robot():
    trajectory = made_of_articulation_trajectory()
    articulation = ArticulationTrajectory(ROBOT, trajectory)
    action = articulation.get_action_at_time(trajectory.end_time)
    robot = np.zeros(4)
    robot[action.joint_indices] = action.joint_positions
    np.testing.assert_allclose(robot, [0.1, -0.2, 0.0, 0.3], atol=1e-12)
    np.testing.assert_allclose(action.joint_velocities, 0.0, atol=1e-9)
    first = articulation.get_initial_action()
    np.testing.assert_array_equal(first.joint_positions, np.zeros(3))
    assert articulation.get_active_joints_subset() == ("joint1", "joint2", "joint3")
    assert articulation.get_robot_articulation() == ROBOT
    assert articulation.get_trajectory_duration() == trajectory.duration


@pytest.mark.parametrize("step", [None, 0.01, 1.0 / 60.0, 0.0301, 10.0])
def test_sequences_include_the_end(step):
    trajectory = made_of_articulation_trajectory()
    articulation = ArticulationTrajectory(ROBOT, trajectory, physics_dt=0.02)
    actions = articulation.get_action_sequence(step)
    assert len(actions) == int(np.ceil(trajectory.duration / (step or 0.02) - 1e-9)) + 1
    np.testing.assert_allclose(actions[0].joint_positions, np.zeros(3))
    np.testing.assert_allclose(actions[-1].joint_positions, [0.3, -0.2, 0.1], atol=1e-12)


def test_what_makes_no_sense_is_refused():
    trajectory = made_of_articulation_trajectory()
    articulation = ArticulationTrajectory(ROBOT, trajectory)
    for time in (-0.001, trajectory.end_time + 0.001, float("nan")):
        with pytest.raises(ValueError, check=about("time")):
            articulation.get_action_at_time(time)
    for step in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidCommand):
            articulation.get_action_sequence(step)
        with pytest.raises(InvalidConfig, check=about("physics_dt")):
            ArticulationTrajectory(ROBOT, trajectory, step)
    with pytest.raises(UnknownJoint, check=about("joint1")):
        ArticulationTrajectory(("joint2", "joint3"), trajectory)
