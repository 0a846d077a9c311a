# SPDX-License-Identifier: Apache-2.0
"""What requests refer to: the current state of the joints and of their controller, and frames.

Measured positions are shared by the threads of a node. Frames are links of the robot, by forward
kinematics, frames of a scene, and those of /tf. A joint controller tells the references of its
joints, and preempted streams.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticStatus
from moveit_msgs.msg import MoveItErrorCodes

from motion_nodes.core.robot.bounds import JOINT_STATE, VELOCITY
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointTurns
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.scene import Scene, SceneFrame, find_frame
from motion_nodes.errors import MotionError, UnknownFrame
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import JointSampleReader, JointStateReader
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.names import PREEMPTED
from motion_nodes.ros.node import RobotNode
from motion_nodes.ros.transforms import TransformTree, frame_id, frame_prefix
from motion_nodes.typing import Array

STOP_LATENCY = 0.5
"""[s] Max time from the decision to stop a motion until its joints brake."""
FIRST_STATE_TIMEOUT = 1.0
"""Time that :meth:`CurrentStateMonitor.wait` waits for joint_states [s]."""
MAX_AGE = 0.25
"""[s] Max age of a controller state."""


class CurrentStateMonitor:
    """Newest measured positions and velocities of all joints; thread-safe."""

    def __init__(
        self, reader: JointStateReader, timeout: Callable[[], float] = lambda: np.inf
    ) -> None:
        """Monitor the joints of a reader, which is updated here only.

        Args:
            reader: of joint_states.
            timeout: returns the max age of a state for execution [s].
        """
        self._reader = reader
        self._timeout = timeout
        self._lock = threading.Lock()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints, in the order of all arrays."""
        return self._reader.joint_names

    @property
    def turns(self) -> JointTurns:
        """Differences of positions of the joints."""
        return self._reader.encoders.turns

    @property
    def age(self) -> float:
        """Age of the state [s]; infinite before the first one."""
        return self._reader.age()

    def newest(self) -> tuple[Array, str]:
        """Return the newest state regardless of its age.

        Returns:
            Positions [rad or m], shape (n,), and why they are unknown; empty if they are known.
        """
        with self._lock:
            self._reader.update()
            fault = "" if self._reader.received else self._reader.fault(np.inf)
            return self._reader.position.copy(), fault

    def fresh(self) -> Array:
        """Return positions that are not older than the timeout [rad or m], shape (n,).

        Raises:
            RequestRejected: the state is unknown or too old.
        """
        with self._lock:
            self._reader.update()
            fault = self._reader.fault(self._timeout())
            position = self._reader.position.copy()
        if fault:
            raise RequestRejected(MoveItErrorCodes.ROBOT_STATE_STALE, f"the robot's state: {fault}")
        return position

    def complete(self, given: Mapping[str, float], what: str) -> Array:
        """Return positions of all joints: those given, and measured ones for the others.

        Args:
            given: positions by joint name [rad or m].
            what: name of the state in error messages.

        Returns:
            Positions [rad or m], shape (n,).

        Raises:
            RequestRejected: joints that are neither given nor measured.
        """
        names = self.joint_names
        if len(given) == len(names):
            return np.array([given[name] for name in names])
        q, fault = self.newest()
        if fault:
            missing = ", ".join(name for name in names if name not in given)
            raise RequestRejected(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f"{what} does not give {missing}, and the robot's state is not known: {fault}",
            )
        return np.array([given.get(name, value) for name, value in zip(names, q, strict=True)])

    def wait(self) -> None:
        """Wait for a fresh state, at most :data:`FIRST_STATE_TIMEOUT`."""
        end = time.monotonic() + FIRST_STATE_TIMEOUT
        while time.monotonic() < end:
            try:
                self.fresh()
            except RequestRejected:
                time.sleep(0.01)
            else:
                return

    def ways_to_rest(self, deceleration: Array) -> Array:
        """Return how far the joints move until they rest, if they stop now [rad or m], shape (n,).

        Args:
            deceleration: with which they brake [rad/s^2 or m/s^2], shape (n,); may be infinite.
        """
        with self._lock:
            speed = np.abs(self._reader.velocity)
        return speed * STOP_LATENCY + speed**2 / (2.0 * deceleration)

    def speed(self, joints: Collection[str]) -> tuple[float, str]:
        """Return the max speed of some joints [rad/s or m/s], and the joint that has it.

        Raises:
            RequestRejected: the state is unknown or too old.
        """
        self.fresh()
        with self._lock:
            speeds = np.abs(self._reader.velocity)
        chosen = [i for i, name in enumerate(self.joint_names) if name in joints]
        if not chosen:
            return 0.0, ""
        fastest = max(chosen, key=lambda i: speeds[i])
        return float(speeds[fastest]), self.joint_names[fastest]


class ControllerReferences:
    """The newest reference of some joints."""

    def __init__(self, subscription: PolledSubscription[bytes], joints: Sequence[str]) -> None:
        """Create the reader.

        Args:
            subscription: serialized JointTrajectoryControllerState messages.
            joints: names of the joints, in the order of the arrays.
        """
        self._subscription, self._joints = subscription, tuple(joints)
        self._samples = JointSampleReader()
        self._names: bytes | tuple[str, ...] = ()
        self._count = 0
        self._columns: list[int] | None = None
        self._at_ns = 0
        self._known: tuple[Array, Array] | None = None

    def newest(self, now_ns: int) -> tuple[Array, Array] | None:
        """Return the references extrapolated to now, at constant velocity.

        Args:
            now_ns: current time [ns].

        Returns:
            Positions [rad or m] and velocities [rad/s or m/s], shape (n,) each; None if unknown.
        """
        message = self._subscription.newest()
        if message is not None:
            self._known = self._read(message)
        age = (now_ns - self._at_ns) * 1e-9
        if self._known is None or not -MAX_AGE < age < MAX_AGE:
            return None
        q, qd = self._known
        return q + max(age, 0.0) * qd, qd

    def _read(self, data: bytes) -> tuple[Array, Array] | None:
        try:
            sample = self._samples.read(data, JointTrajectoryControllerState)
            if sample.names != self._names:
                names = sample.joint_names()
                complete = all(joint in names for joint in self._joints)
                self._columns = [names.index(j) for j in self._joints] if complete else None
                self._names, self._count = sample.names, len(names)
        except InvalidMessage:
            return None
        self._at_ns = sample.stamp_ns
        columns, count = self._columns, self._count
        if columns is None or len(sample.position) != count:
            return None
        q, qd = sample.position[columns], np.zeros(len(columns))
        if len(sample.velocity) == count:
            qd = sample.velocity[columns]
            qd = np.where(np.abs(qd) <= VELOCITY.max, qd, 0.0)
        return (q, qd) if (np.abs(q) <= JOINT_STATE.max).all() else None


class Preemptions:
    """Preempted streams in a controller's ~/status."""

    def __init__(self, subscription: PolledSubscription[DiagnosticStatus]) -> None:
        self._subscription = subscription
        self._preempted: dict[str, str] = {}

    def of(self, sender: str) -> str:
        """Return the command that preempted a sender's stream, as text; empty if none did."""
        for message in self._subscription.all():
            self._preempted = {
                pair.key.removeprefix(PREEMPTED): pair.value
                for pair in message.values
                if pair.key.startswith(PREEMPTED)
            }
        return self._preempted.get(sender, "")


class Transforms(Protocol):
    """Transforms between frames, as :class:`~motion_nodes.ros.transforms.TransformTree`."""

    def update(self) -> None:
        """Process received transforms."""

    def destroy(self) -> None:
        """Destroy the subscriptions."""

    def pose(self, parent: str, child: str) -> tuple[Array, int | None]:
        """Return ``X_PC``, shape (4, 4), and the oldest stamp in it [ns].

        Raises:
            MotionError: the frames are unknown or not connected.
        """


class RobotFrames:
    """Lookup of frames in the base frame of a robot."""

    def __init__(self, kinematics: Kinematics, tree: Transforms, prefix: str) -> None:
        """Create the lookup.

        Args:
            kinematics: forward kinematics of the robot's links in its base frame.
            tree: transforms of /tf, for all other frames.
            prefix: prefix of the robot's frames on /tf; may be empty.
        """
        self.kinematics, self.tree = kinematics, tree
        self._prefix = prefix
        self._scene: Scene | None = None

    @classmethod
    def of(cls, node: RobotNode[Any]) -> RobotFrames:
        """Return the lookup of a node with parameter ``tf_frame_prefix``; see :meth:`destroy`.

        Args:
            node: the node of the robot; the kinematics of all its joints are compiled.
        """
        prefix = frame_prefix(node, node.params.tf_frame_prefix)
        return cls.of_robot(node.robot, TransformTree(node), prefix)

    @classmethod
    def of_robot(cls, robot: Robot, tree: Transforms, prefix: str) -> RobotFrames:
        """Return the lookup of a robot, whose kinematics are compiled; arguments as above."""
        kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
        kinematics.warm_up(())
        return cls(kinematics, tree, prefix)

    def destroy(self) -> None:
        """Destroy the subscriptions of /tf."""
        self.tree.destroy()

    def in_scene(self, scene: Scene) -> RobotFrames:
        """Return a lookup that also finds the objects of a scene and their subframes.

        Args:
            scene: with poses in the robot's base frame.
        """
        frames = copy.copy(self)
        frames._scene = scene
        return frames

    def scene_frame(self, frame: str) -> SceneFrame | None:
        """Return a frame of the scene; None if there is no such frame, or it is a link."""
        name = self.name_of(frame)
        if self._scene is None or name in self.kinematics.frame_names:
            return None
        return find_frame(self._scene.objects, self._scene.attached, name)

    def full_name(self, link: str) -> str:
        """Return the name of a link of the robot on /tf."""
        return frame_id(self._prefix, link)

    def name_of(self, frame: str) -> str:
        """Return a frame name without the robot's prefix; empty stands for the base frame."""
        name = frame.lstrip("/")
        if not name:
            return self.kinematics.base
        own = name.removeprefix(frame_id(self._prefix, ""))
        return own if own in self.kinematics.frame_names else name

    def is_base(self, frame: str) -> bool:
        """Return whether a frame is the base frame; an empty name is."""
        return self.name_of(frame) == self.kinematics.base

    def is_own(self, frame: str) -> bool:
        """Return whether a frame is a link of the robot."""
        return self.name_of(frame) in self.kinematics.frame_names

    def pose(self, frame: str, q: Array) -> Array:
        """Return the pose ``X_BF`` of a frame in the base frame, shape (4, 4).

        Args:
            frame: name of the frame.
            q: joint positions [rad or m], shape (n,).

        Raises:
            RequestRejected: the frame is unknown to the robot, the scene and /tf, or not
                connected to the base frame.
        """
        name = self.name_of(frame)
        if name in self.kinematics.frame_names:
            return self.kinematics.pose(q, name)
        found = self.scene_frame(frame)
        if found is not None:
            return found.X if found.link is None else self.kinematics.pose(q, found.link) @ found.X
        base = self.full_name(self.kinematics.base)
        try:
            self.tree.update()
            return self.tree.pose(base, name)[0]
        except UnknownFrame as error:
            links = UnknownFrame(name, self.kinematics.frame_names, "the robot")
            raise RequestRejected(
                MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, f"{links} On /tf: {error}"
            ) from None
        except MotionError as error:
            raise RequestRejected(MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, str(error)) from None
