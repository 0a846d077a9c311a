# SPDX-License-Identifier: Apache-2.0
"""Motions of one arm in contact, by the impedance controller of its joints.

Its settings are changed for the motion and restored afterwards; the joints are held then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from moveit_msgs.msg import CartesianTrajectory, CartesianTrajectoryPoint
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool

from motion_nodes.nodes.task.remote_work import RemoteService, Work
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.executor_queue import ExecutorQueue
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER, JOINT_CONTROLLER
from motion_nodes.ros.node import MotionNode
from motion_nodes.tasks.task_codes import TaskCode
from motion_nodes.tasks.task_runner import SkillFailed
from motion_nodes.typing import Array

MAX_AGE = 0.5
"""Max age of a measured wrench [s]."""
NO_NAMES = Parameter("", value=[""]).to_parameter_msg().value
"""Empty list of names, as ROS can set it."""
LEAD = 0.5
"""Time to the first pose of a path [s]."""


class CompliantMotions:
    """Clients of the impedance controller of one arm."""

    def __init__(self, node: MotionNode[Any], jobs: ExecutorQueue) -> None:
        """Create the clients; poses and wrenches are those in the base frame.

        Args:
            node: the node.
            jobs: queue of its executor.
        """
        self._now: Callable[[], float] = node.now
        name = IMPEDANCE_CONTROLLER
        self._path = node.advertise(CartesianTrajectory, f"{name}/target_trajectory", qos.REQUESTS)
        self._target_wrench = node.advertise(WrenchStamped, f"{name}/target_wrench", qos.REQUESTS)
        self._measured = node.poll(WrenchStamped, f"{name}/external_wrench", qos.NEWEST)
        self._activate = RemoteService(node, jobs, SetBool, f"{name}/activate")
        self._get = RemoteService(node, jobs, GetParameters, f"{JOINT_CONTROLLER}/get_parameters")
        self._set = RemoteService(
            node, jobs, SetParametersAtomically, f"{JOINT_CONTROLLER}/set_parameters_atomically"
        )
        self._before: dict[str, Any] = {}
        """Previous values of changed parameters, by name."""
        self._force: tuple[float, Array] | None = None

    @property
    def force(self) -> Array | None:
        """Newest force of the environment on the tool [N], shape (3,); None if it is not known."""
        message = self._measured.newest()
        if message is not None:
            force = message.wrench.force
            self._force = (stamp_ns(message) * 1e-9, np.array([force.x, force.y, force.z]))
        if self._force is None or abs(self._now() - self._force[0]) > MAX_AGE:
            return None
        return self._force[1]

    def begin(self, settings: Mapping[str, Any]) -> Work:
        """Hold the tool at its current pose, compliantly.

        Args:
            settings: values of parameters, see :meth:`change`.

        Raises:
            SkillFailed: the arm has no impedance control, or a setting is refused.
        """
        yield from self.change(settings)
        yield from self._switch(True)

    def change(self, settings: Mapping[str, Any]) -> Work:
        """Change parameters at once; :meth:`end` and :meth:`abort` restore them.

        Args:
            settings: values by name; ``impedance.`` is added to names without a dot.

        Raises:
            SkillFailed: a setting is refused.
        """
        named = {k if "." in k else f"impedance.{k}": value for k, value in settings.items()}
        for name in named.keys() - self._before.keys():
            # One by one: rclpy returns nothing if one of them, such as an empty list, has no value.
            response = yield from self._get.call(GetParameters.Request(names=[name]))
            value = response.values[0] if response.values else NO_NAMES
            self._before[name] = ParameterMessage(name=name, value=value)
        yield from self._apply(
            [Parameter(name, value=value).to_parameter_msg() for name, value in named.items()]
        )

    def end(self) -> Work:
        """Hold the joints, and restore the settings."""
        yield from self._switch(False)
        yield from self._apply(list(self._before.values()))
        self._before = {}

    def abort(self) -> None:
        """Hold the joints and restore the settings without waiting, if they were changed."""
        if not self._before:
            return
        before, self._before = list(self._before.values()), {}
        self._activate.send(SetBool.Request(data=False))
        self._set.send(SetParametersAtomically.Request(parameters=before))

    def press(self, force: Sequence[float]) -> None:
        """Set the force that the tool exerts [N], shape (3,)."""
        message = WrenchStamped()
        to = message.wrench.force
        to.x, to.y, to.z = map(float, force)
        self._target_wrench.publish(message)

    def follow(self, poses: Sequence[Array], speed: float) -> Work:
        """Move the target of the tool through poses at a speed [m/s], and wait for its end.

        Args:
            poses: shape (4, 4) each; the first one is close to the current pose of the tool.
            speed: along the straight lines between them.
        """
        message, time = CartesianTrajectory(), LEAD
        for a, b in zip((poses[0], *poses[:-1]), poses, strict=True):
            time += float(np.linalg.norm(b[:3, 3] - a[:3, 3])) / speed
            point = CartesianTrajectoryPoint()
            fill_seconds(point.time_from_start, time)
            point.point.pose = pose_message(b)
            message.points.append(point)
        self._path.publish(message)
        yield from self.wait(time)

    def wait(self, seconds: float) -> Work:
        """Wait for a time of the robot's clock [s]."""
        end = self._now() + seconds
        while self._now() < end:
            yield

    # ---- inside

    def _switch(self, on: bool) -> Work:
        response = yield from self._activate.call(SetBool.Request(data=on))
        if not response.success:
            raise SkillFailed(response.message, TaskCode.MOTION_FAILED)

    def _apply(self, parameters: list[Any]) -> Work:
        request = SetParametersAtomically.Request(parameters=parameters)
        response = yield from self._set.call(request)
        if not response.result.successful:
            raise SkillFailed(response.result.reason, TaskCode.MOTION_FAILED)
