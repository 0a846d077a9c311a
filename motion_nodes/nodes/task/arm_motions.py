# SPDX-License-Identifier: Apache-2.0
"""Motions of one arm and its gripper for skills, through the planner and the joint controller.

Motions in contact use the impedance controller of the joints. Its settings are changed for the
motion and restored afterwards; the joints are held then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from action_msgs.srv import CancelGoal
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import CartesianTrajectory, CartesianTrajectoryPoint, MoveItErrorCodes
from moveit_msgs.srv import GetCartesianPath
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from motion_nodes.api.joint_group import JointGroup
from motion_nodes.core.control.gripper import FingerGap, GraspState
from motion_nodes.extras.tasks.task_codes import SkillFailed, TaskCode
from motion_nodes.nodes.articulation.gripper_actions import STATUS
from motion_nodes.nodes.clients.commands import arm_to_joints
from motion_nodes.nodes.task.remote_work import RemoteAction, RemoteService, Work, require_success
from motion_nodes.nodes.task.task_params import TaskServerParams
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.loops import ExecutorQueue
from motion_nodes.ros.joint_topics import JointStateReader, stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.names import CONTACT, IMPEDANCE_CONTROLLER, JOINT_CONTROLLER
from motion_nodes.ros.node import MotionNode, RobotNode
from motion_nodes.typing import Array

MAX_FORCE = "contact.max_force"
"""Parameter of the joint controller: force at the tool at which it stops the arm."""
FOLLOW = f"{JOINT_CONTROLLER}/follow_joint_trajectory"
MAX_STEP = 0.005
"""Distance of the points of a straight motion [m]."""
ASK_AGAIN = 60.0
"""Time until a controller that did not answer is asked again for its limit of the force [s]."""
SLOW = 0.25
"""Scaling of the velocity limits close to objects. References that arrive late are extrapolated: on
a busy machine a fast tool overshoots by 15 mm."""
STATE_TIMEOUT = 1.0
"""Max age of joint states [s]."""
CONTACT_REPORT = 0.1
"""Time after a failed motion in which the controller may report a contact [s]."""
SETTLE = 0.3
"""Time after a grip until its result is checked [s]."""
MAX_AGE = 0.5
"""Max age of a measured wrench [s]."""
NO_NAMES = Parameter("", value=[""]).to_parameter_msg().value
"""Empty list of names, as ROS can set it."""
LEAD = 0.5
"""Time to the first pose of a path [s]."""


class ArmMotions:
    """Clients of one arm."""

    def __init__(
        self,
        node: RobotNode[TaskServerParams],
        jobs: ExecutorQueue,
        arm: JointGroup,
        gripper: JointGroup | None,
    ) -> None:
        """Create the clients.

        Args:
            node: the node.
            jobs: queue of its executor.
            arm: group of the arm.
            gripper: group of the fingers; None: it has none.
        """
        self.arm, self.gripper, self._node = arm, gripper, node
        self._move = RemoteAction(node, jobs, MoveGroup, "move_action")
        self._execute = RemoteAction(node, jobs, ExecuteTrajectory, "execute_trajectory")
        self._grip = RemoteAction(
            node, jobs, GripperCommand, "gripper_action_controller/gripper_cmd"
        )
        self._everyone = [
            RemoteService(node, jobs, CancelGoal, f"{name}/_action/cancel_goal")
            for name in ("move_action", "execute_trajectory", FOLLOW)
        ]
        self._get = RemoteService(node, jobs, GetParameters, f"{JOINT_CONTROLLER}/get_parameters")
        self._set = RemoteService(
            node, jobs, SetParametersAtomically, f"{JOINT_CONTROLLER}/set_parameters_atomically"
        )
        self._configured_force: float | None = None
        self._ask_again_at = 0.0
        self._force_limit = 0.0
        """The limit that applies [N]; 0: none."""
        self._reports = node.poll(DiagnosticStatus, STATUS, qos.STATUS)
        self._controller = node.poll(DiagnosticStatus, f"{JOINT_CONTROLLER}/status", qos.STATUS)
        self._cartesian = RemoteService(node, jobs, GetCartesianPath, "compute_cartesian_path")
        states = node.poll_bytes(JointState, "joint_states", qos.STATES)
        self._state = JointStateReader(states, arm.joint_names, limits=arm.limits)
        # Separate messages: many grippers publish their own joint states.
        self._fingers = None if gripper is None else JointStateReader(
            node.poll_bytes(JointState, "joint_states", qos.STATES), gripper.joint_names,
            limits=gripper.limits,
        )  # fmt: skip
        self._gap = None if gripper is None else FingerGap(
            node.robot.tree, gripper.joint_names, self._fingers_at("close")
        )  # fmt: skip

    def _fingers_at(self, name: str) -> Array:
        """Return the positions of the fingers in the state ``open`` or ``close``."""
        if self.gripper is None:
            raise SkillFailed("the robot has no gripper", TaskCode.GRIPPER_FAILED)
        if name in self.gripper.state_names:
            return self.gripper.state(name)
        limits = self.gripper.limits
        return limits.upper if name == "open" else limits.lower

    def positions(self) -> Array | None:
        """Return measured positions of the arm [rad], shape (n,); None if they are unknown."""
        self._state.update()
        return None if self._state.fault(STATE_TIMEOUT) else self._state.position.copy()

    def tool_pose(self) -> Array | None:
        """Return the measured pose of the tool in the base frame, shape (4, 4), if known."""
        q = self.positions()
        return None if q is None else self.arm.fk(q)

    @property
    def max_width(self) -> float:
        """Max distance of the fingers [m]."""
        return 0.0 if self._gap is None else self._gap.at(self._fingers_at("open"))

    @property
    def width(self) -> float | None:
        """Measured distance of the fingers [m]; None if it is unknown."""
        if self._fingers is None or self._gap is None:
            return None
        self._fingers.update()
        return None if self._fingers.fault(STATE_TIMEOUT) else self._gap.at(self._fingers.position)

    def to_joints(self, q: Array, what: str) -> Work:
        """Plan and execute a motion of the arm to joint positions [rad], shape (n,)."""
        joints = dict(zip(self.arm.joint_names, np.asarray(q).tolist(), strict=True))
        request = arm_to_joints("", self.arm.name, joints)
        yield from self._completed(self._move, request.goal, what)

    def to_state(self, name: str) -> Work:
        """Plan and execute a motion to a named state."""
        yield from self.to_joints(self.arm.state(name), name)

    def straight(self, *poses: Array, what: str, speed: float = 1.0, checked: bool = True) -> Work:
        """Move the tool straight through poses in the base frame, shape (4, 4) each.

        Args:
            poses: to move through.
            what: name of the motion in errors.
            speed: scaling of the velocity limits.
            checked: whether a collision ends it.

        Raises:
            SkillFailed: a part of the path is not possible.
        """
        request = GetCartesianPath.Request(
            group_name=self.arm.name,
            link_name=self.arm.tip,
            waypoints=[pose_message(pose) for pose in poses],
            max_step=MAX_STEP,
            avoid_collisions=checked,
            max_velocity_scaling_factor=speed,
        )
        request.header.frame_id = self.arm.base
        response = yield from self._cartesian.call(request, 30.0)
        good = response.error_code.val == MoveItErrorCodes.SUCCESS
        if not good or response.fraction < 1.0 - 1e-6:
            text = response.error_code.message or f"only {100 * response.fraction:.0f} % possible"
            raise SkillFailed(f"{what}: {text}", TaskCode.MOTION_FAILED)
        goal = ExecuteTrajectory.Goal(trajectory=response.solution)
        yield from self._completed(self._execute, goal, what)

    def open(self) -> Work:
        """Open the gripper."""
        yield from self._to_position("open", 0.0)

    def close(self) -> Work:
        """Close the gripper; return the distance of the fingers afterwards [m]."""
        result = yield from self._to_position("close", self._node.params.grip_effort)
        end = self._node.now() + SETTLE
        while self._node.now() < end:
            yield
        return 0.0 if self._gap is None else self._gap.at(float(result.position))

    def cancel(self) -> None:
        """Cancel active goals."""
        for action in (self._move, self._execute, self._grip):
            action.cancel()

    def cancel_all(self) -> None:
        """Cancel the motions of all clients."""
        for service in self._everyone:
            service.send(CancelGoal.Request())  # without an id: all goals

    def limit_force(self, force: float | None) -> None:
        """Stop the arm at an external force at the tool [N]; None: as it was configured.

        A smaller configured limit applies. Without detection of contacts the controller refuses it,
        and nothing changes.
        """
        configured = self._configured_force
        if configured is None:
            return
        value = configured if force is None else min(force, configured or force)
        if value != self._force_limit:
            self._force_limit = value
            made = Parameter(MAX_FORCE, value=value).to_parameter_msg()
            self._set.send(SetParametersAtomically.Request(parameters=[made]))

    def learn_force_limit(self) -> Work:
        """Read the configured limit of the external force, once; without one, none is set."""
        if self._configured_force is not None or time.monotonic() < self._ask_again_at:
            return
        try:
            response = yield from self._get.call(GetParameters.Request(names=[MAX_FORCE]))
        except SkillFailed:  # a controller of another package, or a busy machine
            self._ask_again_at = time.monotonic() + ASK_AGAIN
            return
        values = response.values
        if values and values[0].type == ParameterType.PARAMETER_DOUBLE:
            self._configured_force = self._force_limit = float(values[0].double_value)
        else:
            self._ask_again_at = np.inf

    def grasp_report(self) -> str:
        """Return why the controller reports the grasp as lost since the last call, or ''."""
        message = self._reports.newest()
        if message is None or message.message != GraspState.LOST.value:
            return ""
        return next((v.value for v in message.values if v.key == "reason"), "the grasp was lost")

    def destroy(self) -> None:
        """Destroy the clients."""
        for action in (self._move, self._execute, self._grip):
            action.destroy()

    def _completed(self, action: RemoteAction, goal: Any, what: str) -> Work:
        """Execute a motion."""
        self._contact()  # an earlier one
        outcome = yield from action.execute(goal)
        try:
            require_success(outcome, what)
        except SkillFailed:
            end = time.monotonic() + CONTACT_REPORT
            while not (contact := self._contact()) and time.monotonic() < end:
                yield
            if contact:
                raise SkillFailed(f"{what}: {contact}", TaskCode.CONTACT) from None
            raise

    def _contact(self) -> str:
        """Return the contact that has stopped the joints, by the controller's status, or ''."""
        message = self._controller.newest()
        values = () if message is None else message.values
        return next((value.value for value in values if value.key == CONTACT), "")

    def _to_position(self, state: str, effort: float) -> Work:
        goal = GripperCommand.Goal()
        goal.command.position = float(self._fingers_at(state)[0])
        goal.command.max_effort = effort
        _, result = yield from self._grip.execute(goal)
        if not (result.reached_goal or result.stalled):
            raise SkillFailed("the gripper did not reach its position", TaskCode.GRIPPER_FAILED)
        return result


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
