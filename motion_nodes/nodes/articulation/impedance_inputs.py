# SPDX-License-Identifier: Apache-2.0
"""Cartesian impedance control of an arm: its targets, switch and reports.

A target preempts other commands of the arm's joints, and is preempted by any other command
(docs/impedance_control.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from geometry_msgs.msg import PoseStamped, WrenchStamped
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from moveit_msgs.msg import CartesianTrajectory
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.joint_command import STREAM_PAUSE, Stream, StreamSenders
from motion_nodes.core.control.pose_targets import ImpedanceSettings, PoseTrajectory
from motion_nodes.core.robot.bounds import JOINT_POSITION, check_count
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, MotionError, UnknownJoint
from motion_nodes.nodes.articulation.articulation_params import ArticulationParams
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.servers import respond_from_loop
from motion_nodes.ros.endpoint_node import subscribed
from motion_nodes.ros.joint_topics import JointStateReader, set_stamp, stamp_ns
from motion_nodes.ros.messages.moveit_messages import pose_message, pose_of
from motion_nodes.ros.messages.trajectory_messages import seconds
from motion_nodes.ros.names import IMPEDANCE_CONTROLLER
from motion_nodes.ros.parameters import settings_from
from motion_nodes.ros.ros_time import command_time
from motion_nodes.ros.transforms import frame_id, frame_prefix
from motion_nodes.typing import Array

if TYPE_CHECKING:
    from motion_nodes.nodes.articulation_controller import ArticulationControllerNode

LABELS = {
    State.PRIMARY_STATE_UNCONFIGURED: "unconfigured",
    State.PRIMARY_STATE_INACTIVE: "inactive",
    State.PRIMARY_STATE_ACTIVE: "active",
}
"""Labels of the states of a managed node."""
MAX_POSES = 1000
"""Max number of poses of a trajectory: they are read in the control loop."""
POLL_PERIOD = 0.0075
"""[s] Min wall time between two polls without an active law."""
Parse = Callable[[Any], Any]
"""Returns the validated value of a message; raises MotionError for an invalid one."""
Apply = Callable[[CartesianImpedance, Any], None]
"""Sets that value."""


def impedance_settings(params: ArticulationParams) -> ImpedanceSettings:
    """Return the settings from the parameters.

    Raises:
        InvalidConfig: a value out of range, or a list of wrong length.
    """
    return settings_from(params, ImpedanceSettings, "impedance_")


def impedance_problem(params: ArticulationParams, law: CartesianImpedance | None) -> str | None:
    """Return why parameters are not possible, or None.

    Args:
        params: of the controller.
        law: of its arm; None before it is known.
    """
    try:
        settings = impedance_settings(params)
    except InvalidConfig as error:
        return f"impedance.{error}".replace("impedance.payload_", "payload.")
    problem = None if law is None else law.check_rate(settings, params.update_rate)
    return problem and f"impedance.stiffness: {problem}"


class ImpedanceInputs:
    """Subscriptions, service and reports of Cartesian impedance control."""

    def __init__(
        self, host: ArticulationControllerNode, robot: Robot, state: JointStateReader
    ) -> None:
        """Subscribe, and compile the law where the robot has an arm with inertial parameters."""
        self._host, self._robot, self._state = host, robot, state
        self.law: CartesianImpedance | None = None
        """The law; None where the robot has none."""
        self.why_not = ""
        """Why there is no law."""
        self._make_law(host.params)
        self._kinematics = Kinematics(robot.tree, host.params.joints, base=robot.base_frame)
        self._prefix = frame_prefix(host, host.params.tf_frame_prefix)
        self._senders = StreamSenders(host.runner.begin_stream)
        self._taken_at = 0.0
        law = CartesianImpedance
        self._topics: list[tuple[PolledSubscription[Any], str, Parse, Apply]] = []
        self._offered = bool(host.params.impedance_group)
        if not self._offered:
            return
        self._topics += [
            (host.poll(kind, f"{IMPEDANCE_CONTROLLER}/{name}", depth),
             f"{IMPEDANCE_CONTROLLER}/{name}", parse, apply)
            for kind, name, depth, parse, apply in (
                (PoseStamped, "target_pose", qos.NEWEST, self._pose_of, law.set_target),
                (CartesianTrajectory, "target_trajectory", qos.REQUESTS, self._trajectory_of,
                 law.set_trajectory),
                (WrenchStamped, "target_wrench", qos.NEWEST, self._wrench_of, law.set_wrench),
                (JointState, "target_joint", qos.NEWEST, self._posture_of, law.set_posture),
            )
        ]  # fmt: skip
        self._pose = host.advertise(PoseStamped, f"{IMPEDANCE_CONTROLLER}/current_pose")
        self._wrench = host.advertise(WrenchStamped, f"{IMPEDANCE_CONTROLLER}/external_wrench")
        host.serve(SetBool, f"{IMPEDANCE_CONTROLLER}/activate", self._on_activate)
        host.serve(GetState, f"{IMPEDANCE_CONTROLLER}/get_state", self._on_get_state)
        host.serve(ChangeState, f"{IMPEDANCE_CONTROLLER}/change_state", self._on_change_state)

    def take(self, now: float, *, at_once: bool = False) -> None:
        """Apply the received messages; without an active law at most each 7.5 ms of wall time.

        Args:
            now: ROS time [s].
            at_once: regardless of the time since the last call.
        """
        wall = time.monotonic()
        due = at_once or wall - self._taken_at >= POLL_PERIOD
        if not due and self._host.runner.compliance.law is None:
            return
        self._taken_at = wall
        for topic, name, parse, apply in self._topics:
            for message, number, sent in topic.traced():
                sender = message.header.frame_id if isinstance(message, JointState) else ""
                stream = self._senders.stream_of(name, sender, number, sent)
                self._apply(message, name, stream, parse, apply, now)

    @property
    def subscriptions(self) -> tuple[PolledSubscription[Any], ...]:
        """Subscriptions that :meth:`take` reads."""
        return tuple(topic for topic, *_ in self._topics)

    @property
    def reported(self) -> bool:
        """Whether somebody subscribes to the external wrench or to the pose."""
        return self._offered and bool(subscribed((self._wrench, self._pose)))

    def set_params(self, params: ArticulationParams) -> None:
        """Apply changed settings, also to an active law."""
        if self.law is not None:
            self.law.set_settings(impedance_settings(params))

    def report(self, now_ns: int) -> None:
        """Publish the external wrench in the base frame, and the pose of an active law.

        Args:
            now_ns: stamp [ns].
        """
        contact = self._host.contact
        if not self._offered:
            return
        external = np.full(6, np.nan) if contact is None else contact.value
        law = self._host.runner.compliance.law
        status = None if law is None else law.status
        if status is not None:
            external = status.external_wrench
        if status is not None and self._pose.get_subscription_count():
            pose = PoseStamped(pose=pose_message(status.pose))
            self._stamp(pose, now_ns)
            self._pose.publish(pose)
        if np.isfinite(external).all() and self._wrench.get_subscription_count():
            wrench = WrenchStamped()
            self._stamp(wrench, now_ns)
            force, torque = wrench.wrench.force, wrench.wrench.torque
            force.x, force.y, force.z, torque.x, torque.y, torque.z = external.tolist()
            self._wrench.publish(wrench)

    def _stamp(self, message: Any, now_ns: int) -> None:
        message.header.frame_id = frame_id(self._prefix, self._robot.base_frame)
        set_stamp(message, now_ns)

    # ---- inside

    def _make_law(self, params: ArticulationParams) -> None:
        robot = self._robot
        try:
            if not params.effort_commands:
                raise InvalidConfig("the robot accepts no efforts (effort_commands is false)")
            group = robot.group(params.impedance_group)
            for joint in group.joints:
                if joint not in params.joints:
                    raise UnknownJoint(joint, params.joints, "this controller")
            efforts = robot.limits.select(group.joints).effort
            if not (np.isfinite(efforts) & (efforts > 0.0)).all():
                raise InvalidConfig(f"group '{group.name}' has no effort limits")
            law = CartesianImpedance(robot, group.name, impedance_settings(params))
            if problem := impedance_problem(params, law):
                raise InvalidConfig(problem)
            self.law = law
        except MotionError as error:
            self.why_not = f"no impedance control: {error}"

    def _checked_law(self) -> CartesianImpedance:
        if self.law is None:
            raise InvalidCommand(self.why_not)
        refusal = self._host.refusal()
        if refusal is not None:
            raise InvalidCommand(refusal)
        return self.law

    def _apply(
        self, message: Any, name: str, stream: Stream, parse: Parse, apply: Apply, now: float
    ) -> None:
        try:
            stamp, warning = command_time(
                stamp_ns(message) * 1e-9, now, self._host.params.command_timeout
            )
            if warning:
                self._host.warn(f"{name} stamp", f"{name}: {warning}")
            if stamp is None:
                return
            law = self._checked_law()
            # Before other commands are preempted: an invalid message changes nothing.
            value = parse(message)
            lost = self._host.runner.comply(law, stream)
            if len(lost):
                holder = self._host.runner.holders[int(lost[0])]
                raise InvalidCommand(
                    f"preempted by {holder}; accepted again after a pause of {STREAM_PAUSE:g} s"
                )
            apply(law, value)
        except MotionError as error:
            self._host.warn(name, f"{name} refused, nothing changes: {error}")

    def _pose_of(self, message: PoseStamped) -> Array:
        """Return a target in the base, shape (4, 4)."""
        X_BF = self._frame(message.header.frame_id)
        X_FT, note = pose_of(message.pose, "the target")
        if note:
            self._host.warn("target quaternion", note)
        return np.asarray(X_BF @ X_FT)

    def _trajectory_of(self, message: CartesianTrajectory) -> PoseTrajectory:
        """Return a trajectory of the tool in the base; velocities of its points are not used."""
        assert self.law is not None
        if message.tracked_frame.lstrip("/") not in ("", self.law.tool):
            raise InvalidCommand(
                f"the trajectory is one of '{message.tracked_frame}'; controlled is {self.law.tool}"
            )
        check_count(len(message.points), MAX_POSES, "poses of a trajectory")
        X_BF, poses, times = self._frame(message.header.frame_id), [], []
        for k, point in enumerate(message.points):
            poses.append(X_BF @ pose_of(point.point.pose, f"pose {k} of the trajectory")[0])
            times.append(seconds(point.time_from_start))
        trajectory, law = PoseTrajectory(times, poses), self.law
        active = self._host.runner.compliance.law is law
        X_BT = None if active else self._kinematics.pose(self._state.position, law.tool)
        law.check_trajectory(trajectory, X_BT)
        return trajectory

    def _wrench_of(self, message: WrenchStamped) -> Array:
        """Return force and torque in the base's axes [N, N m], shape (6,)."""
        assert self.law is not None
        R, f, t = self._frame(message.header.frame_id)[:3, :3], *_vectors(message)
        return self.law.checked_wrench(np.concatenate((R @ f, R @ t)))

    def _posture_of(self, message: JointState) -> Array:
        """Return joint positions [rad or m], shape (n,): measured ones where none are given."""
        assert self.law is not None
        joints = self.law.joint_names
        names = list(message.name) or list(joints)
        if len(names) != len(message.position):
            raise InvalidCommand(f"{len(names)} names for {len(message.position)} positions")
        JOINT_POSITION.check(message.position, "position", names)
        if not np.isfinite(message.position).all():
            raise InvalidCommand(f"a position of the posture is not finite: {message.position}")
        known = self._state.joint_names
        posture = self._state.position[[known.index(joint) for joint in joints]].copy()
        for name, value in zip(names, message.position, strict=True):
            if name not in joints:
                raise UnknownJoint(name, joints, "this arm")
            posture[joints.index(name)] = value
        return posture

    def _frame(self, name: str) -> Array:
        """Return the pose of a frame of the robot in its base frame, shape (4, 4)."""
        own = name.lstrip("/").removeprefix(frame_id(self._prefix, ""))
        if not own or own == self._robot.base_frame:
            return np.eye(4)
        if own not in self._kinematics.frame_names:
            raise InvalidCommand(
                f"frame '{name}' is not one of the robot's; give the target in "
                f"{self._robot.base_frame}, or in the frame of a link"
            )
        return self._kinematics.pose(self._state.position, own)

    def _on_activate(self, request: Any, response: Any) -> Any:
        """Hold the tool compliantly at its current pose, or hold the joints again."""
        return respond_from_loop(
            self._host, response, self._activate if request.data else self._deactivate
        )

    def _on_get_state(self, _request: Any, response: Any) -> Any:
        """Return the state as that of a managed node, for the controller manager."""
        active = self._host.runner.compliance.law is not None
        state = State.PRIMARY_STATE_ACTIVE if active else State.PRIMARY_STATE_INACTIVE
        if self.law is None:
            state = State.PRIMARY_STATE_UNCONFIGURED
        response.current_state = State(id=state, label=LABELS[state])
        return response

    def _on_change_state(self, request: Any, response: Any) -> Any:
        jobs = {
            Transition.TRANSITION_ACTIVATE: self._activate,
            Transition.TRANSITION_DEACTIVATE: self._deactivate,
        }
        job = jobs.get(request.transition.id)
        response.success = False
        if job is None or not self._host.active:
            self._host.warn(
                "impedance",
                f"{IMPEDANCE_CONTROLLER} is a mode of this controller: it can be activated and "
                "deactivated while this controller is active, nothing else",
            )
            return response
        try:
            self._host.in_loop(job)
            response.success = True
        except (MotionError, TimeoutError) as error:
            self._host.warn("impedance", f"{IMPEDANCE_CONTROLLER}: {error}")
        return response

    def _activate(self) -> str:
        runner, law = self._host.runner, self._checked_law()
        runner.comply(law, runner.begin_stream(f"{IMPEDANCE_CONTROLLER}/activate"))
        return f"{law.tool} is held with the impedance of the parameters"

    def _deactivate(self) -> str:
        runner = self._host.runner
        law = runner.compliance.law
        if law is None:
            return "impedance control was not active"
        runner.take(law.joint_names, f"{IMPEDANCE_CONTROLLER}/activate with false")
        return "holding the joints"


def _vectors(message: WrenchStamped) -> tuple[Array, Array]:
    """Return force [N] and torque [N m], shape (3,) each."""
    f, t = message.wrench.force, message.wrench.torque
    return np.array((f.x, f.y, f.z)), np.array((t.x, t.y, t.z))
