# SPDX-License-Identifier: Apache-2.0
"""Requests of the trajectory generator for a robot with several tips, and of changing joints."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from moveit_msgs.msg import GenericTrajectory, MotionPlanRequest
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from two_arms import TIPS, write_two_arms

from motion_nodes.model.loader import load_robot
from motion_nodes.nodes.trajectory.generator_params import TrajectoryGeneratorParams
from motion_nodes.nodes.trajectory.generator_requests import MAX_CHECKERS, GeneratorRequests
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.parameters import declared
from motion_nodes.scene.scene import Scene


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    robot = load_robot(str(write_two_arms(tmp_path_factory.mktemp("two_arms"))))
    defaults = {
        entry.field: entry.default
        for entry in declared(TrajectoryGeneratorParams)
        if entry.default is not dataclasses.MISSING
    }
    params = TrajectoryGeneratorParams(**{**defaults, "robot": "two_arms"})
    return GeneratorRequests(robot, lambda: params, lambda: robot.home, lambda: (Scene(), ""))


def asked(requests, joints, **fields):
    """Return a request for a short motion of joints from the home state."""
    home = requests.robot.home[requests.robot.indices(joints)]
    points = [home, home + 0.1, home + 0.15]
    message = JointTrajectory(joint_names=list(joints))
    message.points = [JointTrajectoryPoint(positions=q.tolist()) for q in points]
    reference = GenericTrajectory(joint_trajectory=[message])
    return MotionPlanRequest(reference_trajectories=[reference], **fields)


def test_the_speed_limit_applies_to_the_tip_of_the_requested_group(requests):
    joints = requests.robot.group("left_arm").joints
    free = requests.retimed(asked(requests, joints, group_name="left_arm"))
    fields = {"group_name": "left_arm", "max_cartesian_speed": 0.02}
    slow = requests.retimed(asked(requests, joints, **fields))
    named = requests.retimed(
        asked(requests, joints, cartesian_speed_limited_link=TIPS[0], **fields)
    )
    assert slow.motion.duration > 2.0 * free.motion.duration
    assert slow.motion.duration == pytest.approx(named.motion.duration)
    with pytest.raises(RequestRejected, match="name a group"):
        requests.retimed(asked(requests, joints, max_cartesian_speed=0.02))


def test_checkers_of_many_orders_of_joints_are_bounded(requests):
    joints = requests.robot.group("left_arm").joints[:4]
    for order in itertools.islice(itertools.permutations(joints), MAX_CHECKERS + 4):
        made = requests.retimed(asked(requests, order))
        assert made.trajectory.joint_names == order
    assert len(requests._checkers) <= MAX_CHECKERS
    assert np.isfinite(made.trajectory.positions).all()
