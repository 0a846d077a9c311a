# SPDX-License-Identifier: Apache-2.0
"""Faults of inputs and parts of nodes, without DDS."""

import threading
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from std_msgs.msg import String
from std_srvs.srv import Trigger

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.articulation.follow_trajectory import OldTrajectory, start
from motion_nodes.nodes.articulation_controller import ArticulationControllerNode
from motion_nodes.nodes.base_navigator import BaseNavigatorNode
from motion_nodes.nodes.cell_topics import CameraTopics
from motion_nodes.nodes.clients import commands
from motion_nodes.nodes.clients.ros2 import calls, graph, topic
from motion_nodes.nodes.object_detector import ObjectDetectorNode
from motion_nodes.nodes.occupancy_mapper import OccupancyMapperNode
from motion_nodes.nodes.planner.planner_params import scenery_for
from motion_nodes.nodes.viewer.viewer_robot import WatchedRobot
from motion_nodes.ros.joint_topics import set_stamp

SECOND = 1_000_000_000


def made(kind, robot: str):
    """Return a configured node that is not active."""
    node = kind(ros_args=["--ros-args", "-p", f"robot:={robot}", "-p", "autostart:=false"])
    node.trigger_configure()
    assert node.failure is None
    return node


def test_the_loss_of_odometry_stamped_ahead_is_not_hidden(ros):
    node = made(BaseNavigatorNode, "jetbot")
    try:
        timeout, now = node.params.odom_timeout, 1000 * SECOND
        for ahead, fault in ((0, ""), (3600 * SECOND, "in the future")):
            message = Odometry()
            message.pose.pose.orientation.w = 1.0
            set_stamp(message, now + ahead)
            node._odometry = SimpleNamespace(newest=lambda m=message: m, topic="odom")
            node._read_odometry(now)
            assert fault in node._odometry_fault(now)
            assert bool(node._odometry_fault(now)) == bool(fault)
            lost = "no odometry" if not ahead else fault
            assert lost in node._odometry_fault(now + int((timeout + 0.1) * SECOND))
    finally:
        node.destroy_node()


def test_an_estimated_payload_is_set_as_a_whole_or_not_at_all(ros):
    node = made(ArticulationControllerNode, "franka")
    try:
        for mass, center, success in ((0.5, [0.0, 99.0, 0.0], False), (0.5, [0, 0, 0.1], True)):
            node._payload._estimate = lambda m=mass, c=center: (m, np.array(c, dtype=float))
            response = node._payload._on_estimate(Trigger.Request(), Trigger.Response())
            assert response.success == success, response.message
            assert ("payload.center" in response.message) == (not success)
            assert node.params.impedance_payload_mass == (mass if success else 0.0)
    finally:
        node.destroy_node()


@pytest.mark.parametrize(
    ("now", "stamp", "error"),
    [(10, 1_700_000_000, InvalidCommand), (1_700_000_000, 10, OldTrajectory)],
)
def test_a_trajectory_by_another_clock_is_refused(now, stamp, error):
    step = SimpleNamespace(next_ns=now * SECOND)
    params = SimpleNamespace(inactive_controllers=())
    host = SimpleNamespace(step=step, refusal=lambda: None, runner=None, params=params)
    goal = SimpleNamespace(trajectory=SimpleNamespace(end_time=1.0))
    with pytest.raises(error, match="use_sim_time"):
        start(host, goal, Time(sec=stamp), "a trajectory")


ARM = """<robot name="crane">
  <link name="base_link">
    <collision><geometry><box size="0.2 0.2 0.4"/></geometry></collision>
  </link>
  <link name="boom">
    <inertial><mass value="1"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.3 0 0"/><geometry><box size="0.6 0.1 0.1"/></geometry></collision>
  </link>
  <joint name="slew" type="revolute"><parent link="base_link"/><child link="boom"/>
    <origin xyz="0 0 0.4"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="1" effort="50"/></joint>
</robot>
"""


@pytest.mark.long
def test_an_arm_of_the_cell_that_is_only_a_urdf_is_scenery_too(tmp_path):
    (tmp_path / "crane.urdf").write_text(ARM)
    cell = (f"a:={tmp_path}/crane.urdf@1,0,0", "b:=franka")
    params = SimpleNamespace(cell=cell, floor=False, floor_height=0.0)
    scenery, notes = scenery_for(load_robot("franka"), "/b", params)
    assert any("base_link" in name for name in scenery.objects), notes


def test_known_objects_are_excluded_once_the_pose_of_the_base_is_known_again():
    known: list[list[str]] = []
    poses = SimpleNamespace(known=True, frame_is_base=True)

    def base_at(_time: float) -> np.ndarray:
        if not poses.known:
            raise MotionError("the transform is old")
        return np.eye(4)

    poses.base_at = base_at
    node: Any = SimpleNamespace(
        _scene=Scene(), _known_from=None, _poses=poses, now=lambda: 0.0, warn=lambda *_: None,
        _map=SimpleNamespace(
            set_known_objects=lambda items, _: known.append([item.name for item in items])
        ),
    )  # fmt: skip
    update = OccupancyMapperNode._update_scene
    update(node, first := Scene())
    poses.known = False
    table = Scene({"table": world_object("table", Box((1.0, 1.0, 0.1)))})
    update(node, table)
    poses.known = True
    for _ in range(3):
        update(node, table)
    assert known == [[], ["table"]]
    update(node, first)
    assert known[-1] == []


def test_a_search_that_fails_is_not_read_again():
    failed: Future[Any] = Future()
    failed.set_exception(ValueError("no points"))
    node: Any = SimpleNamespace(
        _inputs=SimpleNamespace(
            update=lambda: None, cameras=[], follower=SimpleNamespace(
                world=SimpleNamespace(scene=Scene())
            ),
        ),
        _update_attached=lambda _: None, _unsearched=False, _search=failed, _found={},
    )  # fmt: skip
    with pytest.raises(ValueError, match="no points"):
        ObjectDetectorNode.tick(node, 0.1)
    ObjectDetectorNode.tick(node, 0.1)


def test_cameras_render_again_after_a_stop_with_a_pending_state():
    cameras: Any = CameraTopics.__new__(CameraTopics)
    cameras._cameras = []
    cameras._static = SimpleNamespace(send=lambda *_: None)
    cameras._node = SimpleNamespace(now_ns=lambda: 0)
    cameras._thread, cameras._pending = None, ("state", 0)
    cameras._work = lambda: None
    cameras.start()
    assert cameras._pending is None
    cameras._wake = SimpleNamespace(set=lambda: None)
    cameras.stop()


def test_odometry_without_a_rotation_is_not_shown():
    """Firmware that leaves the orientation at zero."""
    warnings: list[str] = []
    shown: list[np.ndarray] = []
    robot: Any = WatchedRobot.__new__(WatchedRobot)
    robot.name, robot.X_WO, robot._X_WB = "base", np.eye(4), np.eye(4)
    robot.robot = SimpleNamespace(home=np.zeros(1))
    robot.state = SimpleNamespace(update=lambda: False, position=np.zeros(1))
    robot._node = SimpleNamespace(warn=lambda _, text: warnings.append(text))
    robot.navigation = robot.planning = robot.attachment = robot.target = None
    robot.suction = robot.task = None
    message = Odometry()
    message.pose.pose.orientation.w = 0.0
    robot._odom = SimpleNamespace(newest=lambda: message)
    page: Any = SimpleNamespace(update_base=shown.append)
    robot.show(page)
    assert not shown
    assert "quaternion" in warnings[0]
    message.pose.pose.orientation.w = 1.0
    robot.show(page)
    assert len(shown) == 1


def test_texts_with_empty_lines_are_echoed_as_csv(monkeypatch, capsys):
    node = SimpleNamespace(
        create_subscription=lambda _kind, _topic, show, _qos: show(String(data="a\n\nb"))
    )
    monkeypatch.setattr(topic, "participant", lambda: nullcontext(node))
    monkeypatch.setattr(topic, "topic_class", lambda *_: String)
    monkeypatch.setattr(topic, "_subscription_qos", lambda *_: None)
    options: Any = SimpleNamespace(
        topic="/t", type=None, once=True, csv=True, field=None, full_length=True, timeout=None
    )
    assert topic._echo(options) == 0
    assert capsys.readouterr().out == "'a,,b'\n"


@pytest.mark.parametrize("accepted", [True, False])
def test_a_goal_that_is_accepted_after_ctrl_c_is_canceled(monkeypatch, accepted):
    stop = threading.Event()
    monkeypatch.setattr(commands.signals, "STOP", stop)
    canceled: list[bool] = []
    answer: Future[Any] = Future()
    confirmed: Future[Any] = Future()
    confirmed.set_result(None)
    handle = SimpleNamespace(
        accepted=accepted, cancel_goal_async=lambda: (canceled.append(True), confirmed)[1]
    )

    def spin(_node: Any, timeout_sec: float) -> None:
        # The response arrives in the cycle after the signal.
        if stop.is_set():
            answer.set_result(handle)
        stop.set()

    monkeypatch.setattr(commands.rclpy, "spin_once", spin)
    client = commands._Client.__new__(commands._Client)
    client._node, client._action = None, "/move_action"
    client._request = SimpleNamespace(goal=None)
    client._client = SimpleNamespace(
        server_is_ready=lambda: True, send_goal_async=lambda *_: answer
    )
    client._on_feedback = lambda _: None
    assert client.accepted_goal(commands.time.monotonic() + 60.0) == "stopped"
    assert canceled == [True] * accepted


@pytest.mark.parametrize("accepted", [True, False])
def test_ros2_action_send_goal_cancels_a_goal_that_is_accepted_after_ctrl_c(monkeypatch, accepted):
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(graph.signals, "STOP", stop)
    canceled: list[bool] = []
    answer: Future[Any] = Future()
    confirmed: Future[Any] = Future()
    confirmed.set_result(None)
    handle = SimpleNamespace(
        accepted=accepted, cancel_goal_async=lambda: (canceled.append(True), confirmed)[1]
    )
    monkeypatch.setattr(graph.rclpy, "spin_once", lambda *_, **__: answer.set_result(handle))
    sent: Any = answer
    node: Any = None
    calls.cancel_late(node, sent)
    assert canceled == [True] * accepted
