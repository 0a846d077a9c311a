# SPDX-License-Identifier: Apache-2.0
"""Checks of robot states while they are compiled for the first time on a machine."""

from __future__ import annotations

import threading

import pytest
from geometry_msgs.msg import PoseStamped
from ros_client import BEST_EFFORT, RosClient
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene import exact_warm_up
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.kinematics.solution_checks import StateChecks
from motion_nodes.nodes.rmpflow_policy import RmpflowPolicyNode


def test_requests_wait_for_the_compilation_and_the_start_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, robot = threading.Event(), load_robot("franka")
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: True)
    monkeypatch.setattr(exact_warm_up, "compile_exact_checks", compiled.wait)
    checks, answers = StateChecks(robot), list[bool]()
    checks.warm_up()
    assert not checks.compiled

    def ask() -> None:
        checker = checks.checker((), robot.home, Scene())
        answers.append(checker.exact.is_free(robot.home))

    request = threading.Thread(target=ask)
    request.start()
    request.join(0.2)
    assert request.is_alive()
    compiled.set()
    request.join(30.0)
    assert checks.compiled
    assert answers == [True]


def test_nothing_waits_where_the_checks_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: False)
    checks = StateChecks(load_robot("franka"))
    checks.warm_up()
    assert checks.compiled


def test_targets_of_the_policy_wait_for_the_compilation(
    client: RosClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, robot = threading.Event(), load_robot("franka")
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: True)
    monkeypatch.setattr(exact_warm_up, "compile_exact_checks", compiled.wait)
    sent = client.listen(JointState, "/joint_trajectory_controller/reference", BEST_EFFORT)
    node = RmpflowPolicyNode(
        ros_args=["--ros-args", "-p", "robot:=franka", "-p", "autostart:=false"]
    )
    target = PoseStamped()
    target.header.frame_id = robot.base_frame
    target.pose.position.x, target.pose.position.z = 0.5, 0.5
    target.pose.orientation.x = 1.0

    def tell() -> None:
        states.publish(JointState(name=list(robot.joint_names), position=robot.home.tolist()))
        targets.publish(target)

    try:
        assert node.trigger_configure().name == node.trigger_activate().name == "SUCCESS"
        assert node.notice()
        states = client.publisher(JointState, "/joint_states")
        targets = client.publisher(PoseStamped, "/rmpflow_policy/reference")
        client.repeat(tell, lambda: not node._follower.silent, "the target")
        client.repeat_for(tell, 0.5)
        assert not len(sent)
        compiled.set()
        client.repeat(tell, lambda: len(sent), "references")
        assert not node.notice()
    finally:
        node.destroy_node()
