# SPDX-License-Identifier: Apache-2.0
"""Parts of nodes with faults of their inputs, without DDS."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nav_msgs.msg import Odometry
from std_msgs.msg import String

from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.errors import MotionError
from motion_nodes.nodes.cell_topics import CameraTopics
from motion_nodes.nodes.clients import commands
from motion_nodes.nodes.clients.ros2 import calls, graph, topic
from motion_nodes.nodes.object_detector import ObjectDetectorNode
from motion_nodes.nodes.occupancy_mapper import OccupancyMapperNode
from motion_nodes.nodes.viewer.viewer_robot import WatchedRobot


def test_known_objects_are_excluded_once_the_pose_of_the_base_is_known_again() -> None:
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


def test_a_search_that_fails_is_not_read_again() -> None:
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


def test_cameras_render_again_after_a_stop_with_a_pending_state() -> None:
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


def test_odometry_without_a_rotation_is_not_shown() -> None:
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
    page: Any = SimpleNamespace(update_base=lambda _, X: shown.append(X))
    robot.show(page)
    assert not shown
    assert "quaternion" in warnings[0]
    message.pose.pose.orientation.w = 1.0
    robot.show(page)
    assert len(shown) == 1


def test_texts_with_empty_lines_are_echoed_as_csv(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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
def test_a_goal_that_is_accepted_after_ctrl_c_is_canceled(
    monkeypatch: pytest.MonkeyPatch, accepted: bool
) -> None:
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
def test_ros2_action_send_goal_cancels_a_goal_that_is_accepted_after_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, accepted: bool
) -> None:
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
