# SPDX-License-Identifier: Apache-2.0
"""Checks of an arm on a driver by ROS clients: all ways to command motion, and the stop."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from joint_client import ABORTED, SUCCEEDED, JointClient, smooth
from moveit_msgs.msg import PlanningScene
from moveit_msgs.srv import ApplyPlanningScene
from planner_client import Codes, Planner, box
from ros_client import RosClient, values_of
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.ros.messages.moveit_messages import pose_message

AHEAD = 0.7
"""Angle of the first joint on either side of an obstacle, from home [rad]."""
CUBE = 0.17
"""Edge of the obstacle at the tool's home position, per distance from the base [m/m]."""
POLICY, DRIVER = "/rmpflow_policy", "/robot_driver"


class DriverJourney:
    """One arm without a namespace; the caller starts its suite."""

    def __init__(
        self, client: RosClient, robot: Robot, home: dict[str, float], speed: float = 1.0
    ) -> None:
        """Create the clients.

        Args:
            client: node of the test.
            robot: its model.
            home: configuration of the arm in which the motions are centred [rad].
            speed: velocity and acceleration scaling of planned motions.
        """
        self.scaling = {
            "max_velocity_scaling_factor": speed,
            "max_acceleration_scaling_factor": speed,
        }
        self.client, self.robot, self.home = client, robot, home
        self.first = next(iter(home))
        self.arm, self.planner = JointClient(client), Planner(JointClient(client))

    def close(self) -> None:
        """Destroy the action clients."""
        self.arm.close()
        self.planner.arm.close()

    def parts(self, near: float) -> dict[str, Callable[[], Any]]:
        """Return all checks by name; ``near``: joint tolerance of goals [rad]."""
        return {
            "trajectory": lambda: self.trajectory(near),
            "stream": lambda: self.stream(near),
            "plan": lambda: self.around_an_obstacle(near),
            "policy": lambda: self.follow_a_target(3.0 * near),
            "stop": lambda: self.stop(near),
        }

    def trajectory(self, near: float) -> None:
        """A trajectory to home."""
        seconds = max(1.0, 2.0 * self.arm.away(self.home))
        status, result = self.arm.follow(smooth(self.home, seconds)).result(within=60.0)
        assert status == SUCCEEDED, result.error_string
        self.arm.arrives(self.home, near)

    def stream(self, near: float, seconds: float = 2.0) -> None:
        """References of one joint on a sine, 50 in a second; it follows and comes back."""
        publisher = self.arm.publisher(JointState, "reference")
        middle, reached, elapsed, last = self.home[self.first], 0.0, 0.0, time.monotonic()

        def send() -> None:
            nonlocal reached, elapsed, last
            now = time.monotonic()
            # The sine stands while this process pauses: the arm reaches both of its ends.
            elapsed, last = elapsed + min(now - last, 0.05), now
            phase = min(1.0, elapsed / seconds)
            value = middle + 0.1 * math.sin(2.0 * math.pi * phase)
            publisher.publish(JointState(name=[self.first], position=[value]))
            reached = max(reached, self.arm.joints[self.first] - middle)

        self.client.repeat(send, lambda: elapsed > 1.2 * seconds, "the end of the sine", rate=50.0)
        assert reached > 0.07, f"{self.first} moved by {reached:.3f} of 0.1 rad"
        self.arm.arrives(self.home, near)
        self.arm.rest(below=0.02)

    def around_an_obstacle(self, near: float) -> None:
        """A planned motion around an obstacle on the direct path."""
        sides = [self.home | {self.first: self.home[self.first] + s * AHEAD} for s in (-1.0, 1.0)]
        status, result = self.planner.move(sides[0], **self.scaling).result(within=60.0)
        assert status == SUCCEEDED, (status, result.error_code)
        x, y, z = self.tool(self.home)[:3, 3]
        edge = CUBE * math.hypot(x, y, z)
        self._scene(box("obstacle", (edge, edge, edge), (x, y, z)))
        try:
            assert self.planner.refused(self.home)[0] == Codes.GOAL_IN_COLLISION
            status, result = self.planner.move(sides[1], **self.scaling).result(within=60.0)
            assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS), result.error_code
            self.arm.arrives(sides[1], near)
        finally:
            self._scene()

    def follow_a_target(self, near: float) -> None:
        """The reactive policy brings the tool within ``near`` [m] of a target."""
        goal = self.tool(self.home | {self.first: self.home[self.first] + 0.15})
        target = PoseStamped(pose=pose_message(goal))
        publisher = self.client.publisher(PoseStamped, f"{POLICY}/reference")

        def away() -> float:
            return float(np.linalg.norm(self.tool(self.arm.joints)[:3, 3] - goal[:3, 3]))

        self.client.repeat(lambda: publisher.publish(target), lambda: away() < near, "the target")
        assert self.client.call(Trigger, f"{POLICY}/clear_target").success
        self.arm.rest(below=0.02)

    def stop(self, near: float) -> float:
        """The stop during a trajectory, and the resume; return the time to rest [s]."""
        goal = self.home | {self.first: self.home[self.first] - 0.5}
        call = self.arm.follow(smooth(goal, 3.0))
        assert call.accepted()
        self.client.wait(lambda: call.done or self.arm.away(self.home) > 0.05, "motion")
        assert not call.done, call.result()
        assert self.client.call(Trigger, f"{self.arm.controller}/stop").success
        began = time.monotonic()
        status, _ = call.result()
        assert status == ABORTED
        self.arm.rest(below=0.02)
        took = time.monotonic() - began
        assert self.arm.away(goal) > 0.05, "it did not stop before the goal"
        refused = self.arm.follow(smooth(self.home, 2.0))
        assert not refused.accepted() or refused.result()[0] == ABORTED
        assert self.client.call(Trigger, f"{self.arm.controller}/resume").success
        self.trajectory(near)
        return took

    def reports(self) -> list[str]:
        """Return diagnostics of driver, controller and policy; state and reference of the arm."""
        found = [self.client.diagnostics(name) for name in (DRIVER, self.arm.controller, POLICY)]
        measured, reference = self.arm.states.newest, self.arm.reports.newest.reference
        return [
            *(f"{status.message}: {values_of(status)}" for status in found if status),
            f"measured {list(measured.position)} at {list(measured.velocity)}",
            f"reference {list(reference.positions)} at {list(reference.velocities)}",
        ]

    def tool(self, joints: dict[str, float]) -> np.ndarray:
        """Return the pose of the tool in the base frame, shape (4, 4)."""
        robot = self.robot
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        known = dict(zip(robot.joint_names, robot.home.tolist(), strict=True)) | joints
        q = np.array([known[name] for name in robot.joint_names])
        return np.asarray(kinematics.pose(q, robot.tool_frame))

    def _scene(self, *objects: Any) -> None:
        message = PlanningScene()
        message.world.collision_objects = list(objects)
        request = ApplyPlanningScene.Request(scene=message)
        assert self.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success
