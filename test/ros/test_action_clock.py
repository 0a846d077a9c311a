# SPDX-License-Identifier: Apache-2.0
"""Action servers in simulated time: it stamps goals, and does not wake the executor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from control_msgs.action import GripperCommand
from patience import wait_until
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from ros_client import RosClient, spun
from rosgraph_msgs.msg import Clock

from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.action_servers import (
    ActionGoal,
    ActionOutcome,
    GoalServer,
)
from motion_nodes.ros.concurrency.queues import ExecutorQueue
from motion_nodes.ros.node import MotionNode, NodeParams

TICKS = 50


class Gripping(MotionNode[NodeParams]):
    """Offers an action whose goals end at once."""

    params_type = NodeParams

    def __init__(self) -> None:
        super().__init__("gripping", ros_args=["--ros-args", "-p", "use_sim_time:=true"])

    def configure(self) -> None:
        self.jobs = ExecutorQueue(self)
        self.server = GoalServer(
            self, self.jobs, GripperCommand, "~/grip", begin=self._begin, cancel=lambda goal: False
        )
        self.ticks = 0

    def tick(self, dt: float) -> None:
        self.ticks += 1

    def release(self) -> None:
        self.server.destroy()
        self.jobs.destroy()

    def _begin(self, goal: ActionGoal) -> None:
        goal.finish(ActionOutcome.SUCCEEDED, goal.result)


class CountingExecutor(SingleThreadedExecutor):
    """Counts how often it checks an entity."""

    looks = 0

    def can_execute(self, entity: Any) -> bool:
        self.looks += 1
        return bool(super().can_execute(entity))


@pytest.fixture
def executor(ros: Any) -> Iterator[CountingExecutor]:
    made = CountingExecutor()
    yield made
    made.shutdown()


@pytest.fixture
def node(executor: CountingExecutor) -> Iterator[Gripping]:
    yield from spun(Gripping(), executor)


def test_the_clock_wakes_nobody_and_goals_are_stamped_by_it(
    node: Gripping, executor: CountingExecutor, client: RosClient
) -> None:
    clock = client.publisher(Clock, "/clock", qos.STATES)
    action = ActionClient(client.node, GripperCommand, "gripping/grip")
    client.wait(action.server_is_ready, "the action server")
    seconds = 1000

    def tell() -> None:
        nonlocal seconds
        seconds += 1
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)

    client.repeat(tell, lambda: node.now() > 1000.0, "simulated time")
    client.spin(0.3)
    before, ticks = executor.looks, node.ticks
    for _ in range(TICKS):
        tell()
        time.sleep(0.02)
    assert node.ticks > ticks + TICKS // 4
    wait_until(lambda: node.now() == pytest.approx(seconds), "the last time")
    # Other events, such as the discovery of a client, may cause a check of all entities.
    entities = sum(1 for _ in node.services) + sum(1 for _ in node.waitables) + 10
    assert executor.looks - before < 5 * entities
    future = action.send_goal_async(GripperCommand.Goal())
    client.wait(future.done, "the goal's answer")
    stamp = future.result().stamp
    assert stamp.sec == seconds
