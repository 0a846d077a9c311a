# SPDX-License-Identifier: Apache-2.0
"""``motion up`` of robots that are given as files, and a client with the requests of MoveIt's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import (
    Constraints,
    JointConstraint,
    OrientationConstraint,
    PositionConstraint,
    RobotState,
)
from moveit_msgs.srv import GetCartesianPath, GetPositionIK, GetStateValidity
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from motion_nodes.ros.messages.moveit_messages import pose_message

SUCCESS = 1
Array = np.ndarray[Any, np.dtype[np.float64]]


class Suite:
    """A running ``motion up FILE`` and a client of it."""

    def __init__(self, file: Path, folder: Path, options: Sequence[str] = ()) -> None:
        """Start it with further options, and wait until it is ready."""
        self.log = folder / f"{file.stem}.log"
        python = [sys.executable, "-m", "motion_nodes.cli.main"]
        command = [*python, "up", str(file), "--viewer", "none", *options]
        with self.log.open("w") as out:
            self._process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        until = time.monotonic() + 240.0
        while "READY" not in self.log.read_text():
            if self._process.poll() is not None or time.monotonic() > until:
                self._end()
                raise RuntimeError(f"motion up {file} did not start:\n{self.log.read_text()}")
            time.sleep(0.2)
        self.node = rclpy.create_node("variety")
        self.q: dict[str, float] = {}
        self.node.create_subscription(JointState, "joint_states", self._measured, 1)
        self.contacts = 0
        """Unexpected contacts, as reported by the simulation."""
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnosed, 10)
        self._move = ActionClient(self.node, MoveGroup, "move_action")
        self._execute = ActionClient(self.node, ExecuteTrajectory, "execute_trajectory")
        self._validity = self.node.create_client(GetStateValidity, "check_state_validity")
        self._ik = self.node.create_client(GetPositionIK, "compute_ik")
        self._cartesian = self.node.create_client(GetCartesianPath, "compute_cartesian_path")
        if not self._move.wait_for_server(30.0) or not self._validity.wait_for_service(30.0):
            self._end()
            raise RuntimeError(f"{file.name} has no planner:\n{self.log.read_text()}")

    def _measured(self, message: JointState) -> None:
        self.q = dict(zip(message.name, message.position, strict=True))

    def _diagnosed(self, message: DiagnosticArray) -> None:
        for status in message.status:
            for item in status.values:
                if item.key == "contacts":
                    self.contacts = max(self.contacts, int(item.value))

    def spin(self, seconds: float) -> None:
        """Receive messages for a time [s]."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rclpy.spin_once(self.node, timeout_sec=0.02)

    def positions(self, names: Sequence[str]) -> Array:
        """Return the newest measured positions of joints [rad or m]."""
        return np.array([self.q[name] for name in names])

    def result(self, future: Any, limit: float = 90.0) -> Any:
        """Return the result of a future; None after a time [s]."""
        rclpy.spin_until_future_complete(self.node, future, timeout_sec=limit)
        return future.result()

    def valid(self, names: Sequence[str], q: Array, group: str = "") -> bool:
        """Return whether a configuration is free of collisions."""
        request = GetStateValidity.Request(robot_state=robot_state(names, q), group_name=group)
        answer = self.result(self._validity.call_async(request))
        return bool(answer is not None and answer.valid)

    def move(self, group: str, constraints: Constraints) -> str:
        """Execute a goal; return the failure, empty for success."""
        goal = MoveGroup.Goal()
        goal.request.group_name = group
        goal.request.start_state.is_diff = True
        goal.request.allowed_planning_time = 5.0
        goal.request.max_velocity_scaling_factor = 1.0
        goal.request.max_acceleration_scaling_factor = 1.0
        goal.request.goal_constraints = [constraints]
        return self._carried_out(self._move, goal)

    def execute(self, trajectory: Any) -> str:
        """Execute a planned trajectory; return the failure, empty for success."""
        return self._carried_out(self._execute, ExecuteTrajectory.Goal(trajectory=trajectory))

    def _carried_out(self, client: ActionClient, goal: Any) -> str:
        handle = self.result(client.send_goal_async(goal))
        if handle is None or not handle.accepted:
            return "not accepted"
        answer = self.result(handle.get_result_async())
        if answer is None:
            return "no result"
        return failure(answer.result.error_code)

    def inverse_kinematics(self, group: str, tip: str, base: str, X: Array) -> Any:
        """Return the response of ``compute_ik`` for a pose, without collisions."""
        request = GetPositionIK.Request()
        request.ik_request.group_name, request.ik_request.ik_link_name = group, tip
        request.ik_request.pose_stamped.header.frame_id = base
        request.ik_request.pose_stamped.pose = pose_message(X)
        request.ik_request.avoid_collisions = True
        request.ik_request.timeout.sec = 2
        request.ik_request.robot_state.is_diff = True
        return self.result(self._ik.call_async(request))

    def cartesian_path(self, group: str, tip: str, base: str, poses: Sequence[Array]) -> Any:
        """Return the response of ``compute_cartesian_path`` from the present state."""
        request = GetCartesianPath.Request(group_name=group, link_name=tip, max_step=0.005)
        request.header.frame_id = base
        request.waypoints = [pose_message(X) for X in poses]
        request.avoid_collisions = True
        request.start_state.is_diff = True
        return self.result(self._cartesian.call_async(request))

    def close(self) -> None:
        """End client and suite."""
        self.node.destroy_node()
        self._end()

    def _end(self) -> None:
        if self._process.poll() is not None:
            return
        os.kill(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(30.0)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)


def failure(code: Any) -> str:
    """Return code and message of a failure; empty for success."""
    return "" if code.val == SUCCESS else f"{code.val}: {code.message}"


def robot_state(names: Sequence[str], q: Array) -> RobotState:
    """Return a state of some joints; the others have their present positions."""
    message = RobotState(is_diff=True)
    message.joint_state.name, message.joint_state.position = list(names), q.tolist()
    return message


def joint_goal(joints: Mapping[str, float]) -> Constraints:
    """Return a goal of all joints."""
    return Constraints(
        joint_constraints=[
            JointConstraint(
                joint_name=n, position=float(v), tolerance_above=1e-4, tolerance_below=1e-4,
                weight=1.0,
            )
            for n, v in joints.items()
        ]
    )  # fmt: skip


def pose_goal(link: str, base: str, X: Array) -> Constraints:
    """Return a goal of a link's pose."""
    pose = pose_message(X)
    place = PositionConstraint(link_name=link, weight=1.0)
    place.header.frame_id = base
    place.constraint_region.primitives = [SolidPrimitive(type=SolidPrimitive.SPHERE,
                                                         dimensions=[1e-3])]  # fmt: skip
    place.constraint_region.primitive_poses = [pose]
    turn = OrientationConstraint(link_name=link, orientation=pose.orientation, weight=1.0)
    turn.header.frame_id = base
    turn.absolute_x_axis_tolerance = turn.absolute_y_axis_tolerance = 5e-3
    turn.absolute_z_axis_tolerance = 5e-3
    return Constraints(position_constraints=[place], orientation_constraints=[turn])
