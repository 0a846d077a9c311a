# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 (messages are imported only where ROS 2 is)
"""A service, an action and a topic of the compiled packages between two processes over DDS."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_domain import ENVIRONMENT

rclpy = pytest.importorskip("rclpy", reason="ROS 2 is not installed")
from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from geometry_msgs.msg import TransformStamped
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, MoveItErrorCodes
from moveit_msgs.srv import GetPositionIK
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from shape_msgs.msg import SolidPrimitive
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectoryPoint

HERE = Path(__file__).parent
LIMIT = 20.0  # [s] for one condition; discovery took up to 3 s on a busy machine
ANSWERED = 2.0  # [s] a server drops its answer if it has not discovered the client yet


class Client:
    """A node of this process with an executor, waiting for conditions."""

    def __init__(self, node, executor):
        self.node, self.executor = node, executor

    def wait(self, condition, what):
        deadline = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < deadline, f"waited {LIMIT} s in vain for {what}"
            self.executor.spin_once(timeout_sec=0.05)

    def answer(self, ask, what):
        """Return the answer to a request, which is repeated as the first one may be lost."""
        futures, again = [], 0.0

        def answered():
            nonlocal again
            if time.monotonic() >= again:
                futures.append(ask())
                again = time.monotonic() + ANSWERED
            return any(future.done() for future in futures)

        self.wait(answered, what)
        return next(future.result() for future in futures if future.done())


@pytest.fixture(scope="module")
def client():
    server = subprocess.Popen(
        [sys.executable, str(HERE / "interface_echo_server.py")],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    )
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("client", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        yield Client(node, executor)
    finally:
        node.destroy_node()
        context.shutdown()
        server.send_signal(signal.SIGINT)
        try:
            _, errors = server.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            server.kill()
            _, errors = server.communicate()
    assert server.returncode == 0, errors


def test_a_moveit_msgs_service_answers(client):
    service = client.node.create_client(GetPositionIK, "compute_ik")
    client.wait(service.service_is_ready, "the service")
    request = GetPositionIK.Request()
    request.ik_request.group_name = "arm"
    state = request.ik_request.robot_state
    state.joint_state.name = ["a", "b"]
    state.joint_state.position = [0.25, -1.5]
    box = SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1, 0.2, 0.3])
    held = CollisionObject(id="cup", primitives=[box], operation=CollisionObject.APPEND)
    state.attached_collision_objects = [AttachedCollisionObject(link_name="hand", object=held)]
    answer = client.answer(lambda: service.call_async(request), "the answer")
    assert answer.solution == state
    assert answer.error_code.val == MoveItErrorCodes.NO_IK_SOLUTION == -31
    assert answer.error_code.message == "arm"


def test_a_control_msgs_action_gives_feedback_and_result(client):
    action = ActionClient(client.node, FollowJointTrajectory, "follow")
    client.wait(action.server_is_ready, "the action server")
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = ["j1", "j2"]
    goal.trajectory.points = [JointTrajectoryPoint(positions=[0.5, 0.75])]
    seen = []

    def sent():
        handle = client.answer(
            lambda: action.send_goal_async(goal, lambda message: seen.append(message.feedback)),
            "acceptance",
        )
        assert handle.accepted
        answer = client.answer(handle.get_result_async, "the result")
        assert answer.status == GoalStatus.STATUS_ABORTED
        codes = FollowJointTrajectory.Result
        assert answer.result.error_code == codes.GOAL_TOLERANCE_VIOLATED == -5
        assert answer.result.error_string == "j1, j2"
        return seen  # feedback of the first goals may be lost before discovery

    client.wait(sent, "feedback")
    assert list(seen[0].joint_names) == ["j1", "j2"]
    assert list(seen[0].desired.positions) == [0.5, 0.75]


def test_a_tf2_msgs_topic_comes_back_and_shows_the_released_hash(client):
    received = []
    client.node.create_subscription(TFMessage, "tf_out", received.append, 10)
    publisher = client.node.create_publisher(TFMessage, "tf_in", 10)
    transform = TransformStamped(child_frame_id="camera")
    transform.header.frame_id = "world"
    transform.transform.translation.z = 1.25

    def echoed():
        publisher.publish(TFMessage(transforms=[transform]))  # the first may be lost
        return received

    client.wait(echoed, "the echo")
    assert len(received[0].transforms) == 1
    back = received[0].transforms[0]
    assert back.child_frame_id == "camera_echoed"
    back.child_frame_id = "camera"
    assert back == transform

    # The hash that the other process announces over DDS, not that of a local file.
    (endpoint,) = client.node.get_publishers_info_by_topic("tf_out")
    golden = json.loads((HERE / "golden_rihs01.json").read_text())["released"]
    assert str(endpoint.topic_type_hash) == golden["tf2_msgs/msg/TFMessage"]
