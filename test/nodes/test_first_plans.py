# SPDX-License-Identifier: Apache-2.0
"""Requests on a new machine, while their code is being compiled."""

import sys
import threading

import pytest
from geometry_msgs.msg import PoseStamped
from joint_client import ABORTED, ARM, CANCELED, HOME, SUCCEEDED, JointClient
from planner_client import Planner, box
from ros_client import BEST_EFFORT
from ros_processes import usual
from scene_requests import diff
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene import exact_warm_up
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.kinematics.solution_checks import StateChecks
from motion_nodes.nodes.rmpflow_policy import RmpflowPolicyNode

# The planner node on a machine on which only straight motions are compiled, until the file exists.
PLANNER = """
import sys, time
from pathlib import Path
from motion_nodes.nodes import rrt_planner
from motion_nodes.ros.run import run_node

def compile_apart(robot, direct, ready, given_up):
    direct()
    while not Path(FILE).exists():
        if given_up():
            return
        time.sleep(0.02)
    ready()

rrt_planner.is_prepared = lambda: False
rrt_planner.compile_apart = compile_apart
run_node(rrt_planner.RrtPlannerNode)
"""
ASIDE = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.6}
BEHIND = {**ASIDE, "panda_joint1": 1.9}
pytestmark = pytest.mark.timeout(300)


def test_straight_motions_do_not_wait_for_the_planner(suite, client, tmp_path):
    compiled = tmp_path / "compiled"
    suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    suite.node("articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0)
    parameters = [f"{key}:={value}" for key, value in usual("rrt_planner").items()]
    parameters += ["robot:=franka", "use_sim_time:=true"]
    suite.run(
        [sys.executable, "-c", PLANNER.replace("FILE", repr(str(compiled))), "--ros-args"]
        + [word for each in parameters for word in ("-p", each)]
    )
    arm = JointClient(client)
    arm.wait_for()
    planner = Planner(arm)
    status, result = planner.move(ASIDE).result()
    assert status == SUCCEEDED, result.error_code.message
    arm.rest()
    # Invalid requests do not wait until the planner is compiled.
    tool = {"planner_id": "PTP", "pipeline_id": "pilz_industrial_motion_planner"}
    for goal, wrong, word in (
        (ASIDE, {"group_name": "legs"}, "legs"),
        (ASIDE, {"max_velocity_scaling_factor": -7.0}, "max_velocity_scaling_factor"),
        (ASIDE, {"group_name": "legs", **tool}, "legs"),
        ({**ASIDE, "elbow": 0.1}, {}, "elbow"),
    ):
        status, result = planner.move(goal, **wrong).result()
        assert status == ABORTED
        assert word in result.error_code.message
    # A request waits for the planner that it names, or if its line is blocked.
    other = planner.move(BEHIND, planner_id="RRTstar")
    assert other.accepted()
    client.spin(1.0)
    assert not other.done
    assert other.cancel()
    assert other.result()[0] == CANCELED
    post = diff(box("post", (0.04, 0.04, 1.2), (0.1, 0.3, 0.6)))
    blocked = planner.move(BEHIND, options={"planning_scene_diff": post})
    assert blocked.accepted()
    client.spin(1.0)
    assert not blocked.done
    compiled.touch()
    status, result = blocked.result()
    assert status == SUCCEEDED, result.error_code.message


def test_requests_wait_for_the_compilation_and_the_start_does_not(monkeypatch):
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


def test_nothing_waits_where_the_checks_are_compiled(monkeypatch):
    monkeypatch.setattr(exact_warm_up, "needs_compilation", lambda: False)
    checks = StateChecks(load_robot("franka"))
    checks.warm_up()
    assert checks.compiled


def test_targets_of_the_policy_wait_for_the_compilation(client, monkeypatch):
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
