# SPDX-License-Identifier: Apache-2.0
"""Clients of actions and services, written as any client is, and the messages they send."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint
from moveit_msgs.srv import GetStateValidity
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

LIMIT = 30.0  # [s] Longest wait for an answer
MOVE = "move_action"
SUCCEEDED = 4  # action_msgs/GoalStatus


class Goal:
    """A goal on its way."""

    def __init__(self, future: Any) -> None:
        """Wait for nothing yet."""
        self.ended = False
        self.handle: Any = None
        self.result: Any = None
        future.add_done_callback(self._on_answer)

    @property
    def succeeded(self) -> bool:
        """Whether its result says so."""
        return self.result is not None and self.result.status == SUCCEEDED

    def _on_answer(self, future: Any) -> None:
        self.handle = future.result()
        if self.handle.accepted:
            self.handle.get_result_async().add_done_callback(self._on_result)
        else:
            self.ended = True

    def _on_result(self, future: Any) -> None:
        self.result = future.result()
        self.ended = True


class Client:
    """Sends goals and requests; answers arrive while it waits."""

    def __init__(self, node: Node, **actions: Any) -> None:
        """Create action clients on a node that it spins; names and types of ``actions``."""
        self.node = node
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(node)
        self._actions = {name: (kind, ActionClient(node, kind, name))
                         for name, kind in actions.items()}  # fmt: skip

    def close(self) -> None:
        """Destroy clients and node."""
        for _, client in self._actions.values():
            client.destroy()
        self._executor.shutdown()
        self.node.destroy_node()

    def wait_for_servers(self, within: float = LIMIT) -> None:
        """Wait until all action servers are there."""
        for name, (_, client) in self._actions.items():
            self.wait(client.server_is_ready, f"action server {name}", within)

    def wait(self, condition: Callable[[], Any], what: str, within: float = LIMIT) -> None:
        """Spin until a condition is true.

        Raises:
            TimeoutError: it did not become true in time.
        """
        end = time.monotonic() + within
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {within:g} s: {what}")
            self._executor.spin_once(timeout_sec=0.05)

    def spin(self, seconds: float) -> None:
        """Spin for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            self._executor.spin_once(timeout_sec=left)

    def call(self, service: Any, request: Any, within: float = LIMIT) -> Any:
        """Return the response of a service."""
        self.wait(service.service_is_ready, service.srv_name, within)
        future = service.call_async(request)
        self.wait(future.done, service.srv_name, within)
        return future.result()

    def send(self, action: str, goal: Any) -> Goal:
        """Send a goal."""
        return Goal(self._actions[action][1].send_goal_async(goal))

    def finish(self, action: str, goal: Any, within: float = LIMIT) -> Goal:
        """Send a goal and wait for its result, or its rejection."""
        sent = self.send(action, goal)
        self.wait(lambda: sent.ended, f"a result of {action}", within)
        return sent


class SuiteReports:
    """What simulation and planner of one robot report on /diagnostics."""

    def __init__(self, node: Node) -> None:
        """Subscribe."""
        self.simulation: dict[str, str] = {}
        """The last values of the simulation; always the same object."""
        self.planner: dict[str, str] = {}
        """The last values of the planner."""
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 100)

    @property
    def ready(self) -> bool:
        """Whether the planner plans, and the simulation has reported."""
        return self.planner.get("ready to plan") == "True" and bool(self.simulation)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {entry.key: entry.value for entry in status.values}
            if status.name == "mujoco_sim":
                self.simulation.clear()
                self.simulation.update(values)
            elif status.name == "move_group":
                self.planner = values


def plan_goal(group: str, joints: Sequence[str], q: np.ndarray, **request: Any) -> Any:
    """Return a goal of move_action; ``request`` are fields of its MotionPlanRequest."""
    goal = MoveGroup.Goal()
    goal.request.group_name = group
    pairs = zip(joints, q.tolist(), strict=True)
    each = [JointConstraint(joint_name=name, position=value) for name, value in pairs]
    goal.request.goal_constraints = [Constraints(joint_constraints=each)]
    for name, value in request.items():
        setattr(goal.request, name, value)
    return goal


def validity_request(group: str, joints: Sequence[str], q: np.ndarray) -> Any:
    """Return a request of check_state_validity."""
    request = GetStateValidity.Request(group_name=group)
    request.robot_state.joint_state.name = list(joints)
    request.robot_state.joint_state.position = q.tolist()
    return request
