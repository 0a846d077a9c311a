# SPDX-License-Identifier: Apache-2.0
"""The peer of the trajectory benchmarks: an action server as rclpy's tutorials write one.

``python benchmarks/usual_trajectory.py --rate HZ``: subscription callbacks, a timer that leads the
joints and an action server whose execute callback awaits the end, spun by a
SingleThreadedExecutor (a MultiThreadedExecutor, as many use, answers later still). Parsing, checks
and the work of a tick are the suite's own cores, so that only the way of running them differs. The
peer does less beside it: no gripper, no stamps, no controller_state, no diagnostics, no lifecycle.
ros2_controllers, the natural peer, is C++ for an installed ROS and cannot be had from PyPI.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import rclpy
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionServer, CancelResponse
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from sensor_msgs.msg import JointState

from motion_nodes.control.joint_arbiter import JointArbiter
from motion_nodes.control.joint_controller import ArticulationController
from motion_nodes.control.tolerances import Tolerances
from motion_nodes.control.trajectory_follower import FollowGoal, FollowStatus
from motion_nodes.errors import MotionError
from motion_nodes.model.loader import load_robot
from motion_nodes.ros.messages.trajectory_messages import trajectory_from

FEEDBACK_RATE = 20.0
"""[Hz]"""


class UsualTrajectories(Node):
    """Follows trajectories."""

    def __init__(self, rate: float) -> None:
        """Begin ticking at ``rate`` [Hz]."""
        super().__init__("joint_trajectory_controller")
        robot = load_robot("franka")
        self.names = list(robot.joint_names)
        self.runner = JointArbiter(ArticulationController(robot.limits), 0.1)
        self.measured = np.full(len(self.names), np.nan)
        self.speed = np.zeros(len(self.names))
        self.followed: list[Any] = []
        self.before = time.monotonic()
        self.create_subscription(JointState, "joint_states", self.hear_state, 10)
        self.publisher = self.create_publisher(JointState, "joint_command", 10)
        self.create_timer(1.0 / rate, self.tick)
        self.create_timer(1.0 / FEEDBACK_RATE, self.send_feedback)
        self.server = ActionServer(
            self, FollowJointTrajectory, "~/follow_joint_trajectory", self.execute,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )  # fmt: skip

    def hear_state(self, message: JointState) -> None:
        """Take a measured state."""
        position = dict(zip(message.name, message.position, strict=True))
        velocity = dict(zip(message.name, message.velocity, strict=True))
        self.measured = np.array([position[name] for name in self.names])
        self.speed = np.array([velocity[name] for name in self.names])
        if not self.runner.controller.ready:
            self.runner.controller.reset(self.measured)

    def tick(self) -> None:
        """Lead the joints one step on; the message's stamp says when the tick began."""
        stamp, now = self.get_clock().now().to_msg(), time.monotonic()
        dt, self.before = now - self.before, now
        if not self.runner.controller.ready:
            return
        reference = self.runner.step(dt, self.measured, self.speed)
        message = JointState()
        message.header.stamp = stamp
        message.name = self.names
        message.position = reference.positions.tolist()
        message.velocity = reference.velocities.tolist()
        message.effort = reference.efforts.tolist()
        self.publisher.publish(message)
        self.look()

    async def execute(self, handle: Any) -> Any:
        """Follow one trajectory to its end."""
        result = FollowJointTrajectory.Result()
        try:
            trajectory = trajectory_from(handle.request.trajectory, self.names)
            n = len(trajectory.joint_names)
            wish = FollowGoal(trajectory=trajectory, path=Tolerances.uniform(n, 0.0),
                              goal=Tolerances.uniform(n, 0.01), goal_time=5.0)  # fmt: skip
            run = self.runner.start(wish, "an action goal")
        except MotionError as error:
            handle.abort()
            result.error_code, result.error_string = result.INVALID_GOAL, str(error)
            return result
        ended = Future()
        self.followed.append((handle, run, ended))
        await ended
        status = run.follower.status
        if status is FollowStatus.SUCCEEDED:
            handle.succeed()
        elif status is FollowStatus.CANCELED:
            handle.canceled()
        else:
            handle.abort()
            result.error_code, result.error_string = result.INVALID_GOAL, run.follower.text
        return result

    def look(self) -> None:
        """Let go on what waits for trajectories that have ended."""
        for followed in list(self.followed):
            handle, run, ended = followed
            if handle.is_cancel_requested and not run.follower.status.ended:
                self.runner.cancel(run, "canceled")
            if run.follower.status.ended:
                self.followed.remove(followed)
                ended.set_result(None)

    def send_feedback(self) -> None:
        """Say how the trajectories go."""
        for handle, run, _ in self.followed:
            if run.sample is not None:
                message = FollowJointTrajectory.Feedback(joint_names=list(run.follower.joint_names))
                message.desired.positions = run.sample.position.tolist()
                message.actual.positions = self.measured[run.joints].tolist()
                handle.publish_feedback(message)


def main() -> None:
    """Spin the node until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, required=True, help="[Hz]")
    options = parser.parse_args()
    rclpy.init(args=[])
    node = UsualTrajectories(options.rate)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    print("ready", flush=True)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


if __name__ == "__main__":
    main()
