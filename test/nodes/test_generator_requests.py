# SPDX-License-Identifier: Apache-2.0
"""Requests of the trajectory generator: several tips, many orders of joints, stops meanwhile."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from moveit_msgs.msg import GenericTrajectory, MotionPlanRequest, MoveItErrorCodes
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from two_arms import TIPS, write_two_arms

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.generator_params import TrajectoryGeneratorParams
from motion_nodes.nodes.generator_requests import MAX_CHECKERS, GeneratorRequests
from motion_nodes.nodes.trajectory_generator import TrajectoryGeneratorNode
from motion_nodes.ros.clients.trajectory_execution import ExecutionResult
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.parameters import declared


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    robot = load_robot(str(write_two_arms(tmp_path_factory.mktemp("two_arms"))))
    defaults = {
        entry.field: entry.default
        for entry in declared(TrajectoryGeneratorParams)
        if entry.default is not dataclasses.MISSING
    }
    params = TrajectoryGeneratorParams(**{**defaults, "robot": "two_arms"})
    node = SimpleNamespace(robot=robot, params=params)
    state = SimpleNamespace(newest=lambda: (robot.home, ""))
    return GeneratorRequests(node, state, SimpleNamespace(scene=Scene(), note=""))


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


@pytest.mark.parametrize("end", ["halt", "stopped", "newer"])
def test_a_request_under_way_is_not_executed_after_the_end(ros, monkeypatch, end):
    node = TrajectoryGeneratorNode(
        ros_args=["--ros-args", "-p", "robot:=franka", "-p", "execute:=true", "-p",
                  "autostart:=false"]
    )  # fmt: skip
    try:
        node.trigger_configure()
        assert node.failure is None
        joints = node.robot.group("arm").joints
        message = asked(node.requests, joints).reference_trajectories[0].joint_trajectory[0]
        made = node.requests.from_waypoints(message)
        begun, go, generated, executed = threading.Event(), threading.Event(), [], []

        def generate(name: str, *, waits: bool):
            def job():
                generated.append(name)
                if waits:
                    begun.set()
                    assert go.wait(30.0)
                return made

            return job

        def execute(motion, _message):
            executed.append(generated[-1])
            return ExecutionResult(MoveItErrorCodes.SUCCESS, "")

        run, finished = node._run, threading.Event()

        def run_and_tell(job):
            try:
                run(job)
            finally:
                finished.set()

        monkeypatch.setattr(node, "_run", run_and_tell)
        monkeypatch.setattr(node._execution, "execute", execute)
        node._enqueue("waypoints", generate("first", waits=True))
        assert begun.wait(30.0)
        node._enqueue("waypoints", generate("second", waits=False))
        if end != "newer":
            node.halt() if end == "halt" else node.stopped("the suite was stopped")
        go.set()
        assert finished.wait(30.0)
        node._queue.put(None)
        node._worker.join()
        assert executed == (["second"] if end == "newer" else [])
        assert generated == (["first", "second"] if end == "newer" else ["first"])
    finally:
        node.destroy_node()
