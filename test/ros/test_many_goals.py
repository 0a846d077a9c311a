# SPDX-License-Identifier: Apache-2.0
"""An action server bounds the number of goals without a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from nav2_msgs.action import ComputePathToPose
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from ros_client import RosClient, spun

from motion_nodes.ros.concurrency import action_servers
from motion_nodes.ros.concurrency.action_servers import ActionGoal, ActionOutcome, GoalServer
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.node import MotionNode, NodeParams

MANY, MOST = QoSProfile(depth=100), 16


class Waiting(MotionNode[NodeParams]):
    """Offers an action whose goals wait."""

    params_type = NodeParams

    def __init__(self) -> None:
        super().__init__("waiting", ros_args=[])

    def configure(self) -> None:
        self.jobs = ExecutorQueue(self)
        self.begun: list[ActionGoal] = []
        self.server = GoalServer(
            self, self.jobs, ComputePathToPose, "~/plan", begin=self.begun.append,
            cancel=lambda goal: False,
        )  # fmt: skip

    def tick(self, dt: float) -> None:
        """Nothing."""

    def release(self) -> None:
        self.server.destroy()
        self.jobs.destroy()


@pytest.fixture
def node(ros: Any) -> Iterator[Waiting]:
    yield from spun(Waiting(), SingleThreadedExecutor())


def test_goals_beyond_the_bound_are_aborted_with_the_reason(
    node: Waiting, client: RosClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action_servers, "MOST_GOALS", MOST)
    profiles = {"goal_service_qos_profile": MANY, "result_service_qos_profile": MANY}
    action = ActionClient(client.node, ComputePathToPose, "waiting/plan", **profiles)
    client.wait(action.server_is_ready, "the action server")
    results: list[Any] = []
    for count in (MOST, 3):
        sent = [action.send_goal_async(ComputePathToPose.Goal()) for _ in range(count)]
        client.wait(lambda s=sent: all(f.done() for f in s), "the responses")
        results += [future.result().get_result_async() for future in sent]
    client.wait(lambda: all(f.done() for f in results[MOST:]), "the results of the last")
    for future in results[MOST:]:
        answer = future.result()
        assert answer.status == GoalStatus.STATUS_ABORTED
        assert str(MOST) in answer.result.error_msg
    assert not any(future.done() for future in results[:MOST])
    assert len(node.begun) == MOST
    for goal in node.begun:
        goal.finish(ActionOutcome.SUCCEEDED, goal.result)
    client.wait(lambda: all(f.done() for f in results), "all results")
    action.destroy()
