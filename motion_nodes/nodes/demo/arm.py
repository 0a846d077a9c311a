# SPDX-License-Identifier: Apache-2.0
"""Shows of a redundant arm: self-motion of its elbow, and retraction of its tool.

Checks use measured joint states and forward kinematics.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState as State
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.redundancy import self_motion
from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.loader import load_description
from motion_nodes.core.robot.poses import inverse
from motion_nodes.errors import MotionError
from motion_nodes.ros import qos, signals
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.trajectory_messages import fill_seconds
from motion_nodes.ros.names import JOINT_CONTROLLER
from motion_nodes.tolerances import POSITION_ROUNDING
from motion_nodes.typing import Array

FRAME = "motion_demo"
"""``frame_id`` of the demo's messages, which identifies them."""
STOPPED = 130
"""Exit code after a stop signal, as shells report SIGINT."""
_POLL_PERIOD = 0.01
"""Period of polling [s]; the fastest topics have a few messages per period."""
ELBOW_REACH = 0.7
"""Max joint motion of the self-motion to either side [rad]."""
ELBOW_STEP = 0.02
"""Step of the self-motion [rad]; the tool is exact at its configurations."""
MAX_JOINT_STEP = 0.2
"""Max joint motion per step of the tool; larger ones change the IK branch [rad]."""
SPEED = 0.3
"""Max joint speed [rad/s]."""
STEP = 0.02
"""Step of the retraction [m]."""
TOOL_POSITION, TOOL_ORIENTATION = 1e-3, 1e-3
"""Max deviations of the tool [m], [rad]."""
REST = 0.4
"""Pause after each motion [s]."""


@dataclass
class DemoFindings:
    """Results of the checks of a show."""

    lines: list[str] = field(default_factory=list)
    """Of all rounds."""
    ok: bool = True
    _before: int = 0
    """Number of lines of the previous rounds."""

    def begin_round(self) -> None:
        """Begin a round, in which each check runs once more."""
        self._before = len(self.lines)

    def check(self, ok: bool, text: str) -> None:
        """Record and print the result of a check; not after a stop signal, which cuts motions."""
        if signals.STOP.is_set():
            return
        self.ok &= ok
        self.lines.append(f"[{'ok' if ok else 'FAILED'}] {text}")
        print(f"  {self.lines[-1]}", flush=True)

    def missing(self, checks: Sequence[str]) -> list[str]:
        """Return the checks that have no line in this round; see :meth:`conclude`."""
        lines = self.lines[self._before :]
        return [check for check in checks if not any(check in line for line in lines)]

    def conclude(self, checks: Sequence[str], *, headless: bool) -> int:
        """Print the result of all checks, and which did not run.

        Args:
            checks: of a round, each by words that its lines contain.
            headless: whether all checks had to run.

        Returns:
            Exit code: 0, 1 if a check failed or did not run, 130 after a stop signal before all
            have run. With a page, a stop signal is the normal end: 0.
        """
        missing = self.missing(checks)
        if not self.ok:
            print("demo: checks FAILED", flush=True)
        elif not missing:
            print("demo: all checks passed", flush=True)
        if missing:
            why = "stopped" if signals.STOP.is_set() else "incomplete"
            print(f"demo: {why}; these checks did not run: {', '.join(missing)}", flush=True)
        if not self.ok or not (headless and missing):
            return 0 if self.ok else 1
        return STOPPED if signals.STOP.is_set() else 1


class ClientNode:
    """A node that leaves robots to other clients as soon as these command them."""

    def __init__(self) -> None:
        self.node = Node("motion_demo", use_global_arguments=False)
        self.guests: set[str] = set()
        """Robots and objects that other clients command."""
        self._subscriptions: list[tuple[PolledSubscription[Any], Callable[[Any], object]]] = []

    def subscribe(
        self, kind: type, topic: str, callback: Callable[[Any], object], profile: QoSProfile
    ) -> None:
        """Subscribe to a topic; the callback is called in :meth:`spin`."""
        subscription: PolledSubscription[Any] = PolledSubscription(self.node, kind, topic, profile)
        self._subscriptions.append((subscription, callback))

    def spin(self, seconds: float) -> bool:
        """Receive messages for a time [s]; return False after a stop signal."""
        end = time.monotonic() + seconds
        while not signals.STOP.is_set():
            for subscription, callback in self._subscriptions:
                for message in subscription.all():
                    callback(message)
            remaining = end - time.monotonic()
            if remaining <= 0.0:
                break
            signals.STOP.wait(min(_POLL_PERIOD, remaining))
        return not signals.STOP.is_set()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Receive messages until a condition holds; return False on a timeout [s]."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or not self.spin(0.05):
                return False
        return True

    def waiting_for(self) -> str:
        """Return the parts that are not ready yet, as far as known."""
        return ""

    def release(self, name: str) -> None:
        """Leave a robot or object to another client."""
        if name not in self.guests:
            self.guests.add(name)
            print(f"  another client commands the {name}; the demo releases it", flush=True)


class ArmMotion(NamedTuple):
    """Waypoints of a motion that starts and ends at rest."""

    positions: Array
    """[rad], shape (m, n)."""
    velocities: Array
    """[rad/s], shape (m, n)."""
    times: Array
    """[s], from 0, shape (m,)."""


def eased(rows: Array, speed: float) -> ArmMotion:
    """Return the motion through waypoints with a cosine time scaling.

    The path parameter s in [0, 1] is s(t) = (1 - cos(pi t / T)) / 2.

    Args:
        rows: waypoints [rad], shape (m, n), m at least 2.
        speed: max joint speed [rad/s].
    """
    steps = np.abs(np.diff(rows, axis=0)).max(axis=1)
    length = np.concatenate([[0.0], np.cumsum(steps)])
    s = length / length[-1]
    duration = 0.5 * np.pi * length[-1] / speed
    times = duration / np.pi * np.arccos(1.0 - 2.0 * s)
    slopes = np.gradient(rows, length, axis=0)
    rates = length[-1] * 0.5 * np.pi / duration * np.sin(np.pi * times / duration)
    return ArmMotion(rows, slopes * rates[:, None], times)


def elbow_round(chain: IkChain, q: Array) -> list[Array]:
    """Return self-motions of the elbow to either side and back.

    Args:
        chain: an arm with one redundant joint.
        q: start configuration [rad], shape (n,).

    Returns:
        Configurations of each motion [rad], shape (m, n) each.

    Raises:
        InvalidConfig: the arm is not redundant.
    """
    count = round(ELBOW_REACH / ELBOW_STEP)
    legs: list[Array] = []
    for step in (ELBOW_STEP, -ELBOW_STEP):
        out = self_motion(chain, q, step=step, count=count)
        if len(out) > 1:
            legs += [out, out[::-1]]
    return legs


def retraction(ik: ArticulationIk, q: Array, step: float = 0.02, count: int = 8) -> Array:
    """Return configurations that retract the tool along its z axis.

    Args:
        ik: of the arm.
        q: start configuration [rad], shape (n,).
        step: distance between poses of the tool [m].
        count: number of steps.

    Returns:
        Configurations, the first one ``q`` [rad], shape (count + 1, n).

    Raises:
        MotionError: a pose is not reachable, or only with a change of the IK branch.
    """
    X, rows = ik.tool_pose(q), [np.asarray(q, dtype=np.float64)]
    for k in range(1, count + 1):
        target = X.copy()
        target[:3, 3] -= k * step * X[:3, 2]
        goal = ik.goal_for(target, rows[-1])
        if not goal.success:
            raise MotionError(f"step {k} of the retraction: {goal.result.reason}")
        joint_step = float(np.abs(goal.positions - rows[-1]).max())
        if joint_step > MAX_JOINT_STEP:
            raise MotionError(
                f"step {k} of the retraction moves a joint by {joint_step:.3g} rad, allowed is "
                f"{MAX_JOINT_STEP:g}; start from another configuration"
            )
        rows.append(goal.positions)
    return np.array(rows)


RETRACTION_CHECKS = tuple(f"retracted by {20 * k} mm" for k in range(1, 9))
"""Checks of a round, see :meth:`DemoFindings.conclude`."""


class ArmClient(ClientNode):
    """Endpoints of the arm, and a record of its joint states."""

    def __init__(self, arm: str = "franka", elbow: str = "panda_link4") -> None:
        """Create the client.

        Args:
            arm: name of the robot and its namespace.
            elbow: frame whose motion is measured.
        """
        super().__init__()
        self.robot = load_description(arm)
        self.ik = ArticulationIk(self.robot, "arm")
        self._elbow = elbow
        self.joints: dict[str, float] = {}
        self.measured: list[Array] = []
        """Measured joint positions since the last :meth:`start_record`, shape (n,) each."""
        self.reference: dict[str, float] = {}
        """Reference of the controller; measured positions differ by milliradians under load."""
        sub = self.subscribe
        controller = f"/{arm}/{JOINT_CONTROLLER}"
        sub(JointState, f"/{arm}/joint_states", self._on_state, qos.STATES)
        sub(State, f"{controller}/controller_state", self._on_controller, qos.NEWEST)
        sub(JointState, f"{controller}/reference", lambda _: self.release("arm"), qos.COMMANDS)
        self._out = self.node.create_publisher(
            JointTrajectory, f"{controller}/joint_trajectory", qos.STREAM
        )

    @property
    def ready(self) -> bool:
        """Whether states and references were received and the controller has subscribed."""
        return bool(self.joints) and bool(self.reference) and self._out.get_subscription_count() > 0

    @property
    def q(self) -> Array:
        """Current reference [rad], shape (n,)."""
        return np.array([self.reference[name] for name in self.ik.joint_names])

    @property
    def X_WT(self) -> Array:
        """Measured pose of the tool, shape (4, 4)."""
        return self.ik.tool_pose(self.joints)

    def execute(self, motion: ArmMotion, findings: DemoFindings) -> bool:
        """Execute a motion; return False if it failed or another client commands the arm."""
        self._send(motion)
        end, duration = motion.positions[-1], float(motion.times[-1])
        reached = (
            self.spin(0.5 * duration)
            and self.wait(
                lambda: bool(self.guests) or float(np.abs(self.q - end).max()) < POSITION_ROUNDING,
                10.0 + 2.0 * duration,
            )
            and self.spin(REST)
        )
        if reached or signals.STOP.is_set():
            return reached and not self.guests
        error = np.abs(self.q - end)
        joint = self.ik.joint_names[int(error.argmax())]
        findings.check(False, f"goal not reached: error of {joint} is {error.max():.3g} rad")
        return False

    def _send(self, motion: ArmMotion) -> None:
        message = JointTrajectory(joint_names=list(self.ik.joint_names))
        for q, v, t in zip(*motion, strict=True):
            point = JointTrajectoryPoint(positions=q.tolist(), velocities=v.tolist())
            fill_seconds(point.time_from_start, t)
            message.points.append(point)
        self._out.publish(message)

    def start_record(self) -> None:
        """Start a new record of joint states."""
        self.measured.clear()

    def elbow_displacement(self) -> float:
        """Return the max displacement of the elbow in the record [m]."""
        poses = self.ik.chain.kinematics.pose_batch(np.array(self.measured), self._elbow)
        return float(np.linalg.norm(poses[:, :3, 3] - poses[0, :3, 3], axis=1).max())

    def tool_deviation(self, X_WT: Array) -> tuple[float, float]:
        """Return the max deviations of the tool from a pose in the record [m], [rad]."""
        poses = self.ik.chain.kinematics.pose_batch(np.array(self.measured), self.ik.chain.tip)
        return deviation(X_WT, poses)

    def _on_controller(self, message: State) -> None:
        self.reference = dict(zip(message.joint_names, message.reference.positions, strict=False))

    def _on_state(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=False))
        self.measured.append(np.array([self.joints[name] for name in self.ik.joint_names]))


def deviation(X: Array, poses: Array) -> tuple[float, float]:
    """Return the max distance [m] and angle [rad] of poses, shape (m, 4, 4), from a pose."""
    errors = inverse(X) @ poses
    cosines = 0.5 * (np.trace(errors[:, :3, :3], axis1=1, axis2=2) - 1.0)
    distances = np.linalg.norm(errors[:, :3, 3], axis=1)
    return float(distances.max()), float(np.arccos(np.clip(cosines, -1.0, 1.0)).max())


def show_elbow(client: ArmClient, findings: DemoFindings) -> None:
    """Move the elbow to either side and back with a fixed tool, and check both."""
    client.spin(REST)
    X_WT = client.X_WT
    client.start_record()
    for rows in elbow_round(client.ik.chain, client.q):
        if not client.execute(eased(rows, SPEED), findings):
            return
    distance, angle = client.tool_deviation(X_WT)
    elbow = client.elbow_displacement()
    findings.check(
        distance <= TOOL_POSITION and angle <= TOOL_ORIENTATION and elbow > 0.1,
        f"the elbow moved by {100 * elbow:.0f} cm, the tool by at most {1000 * distance:.2f} mm "
        f"and {1000 * angle:.2f} mrad",
    )


def show_retraction(client: ArmClient, findings: DemoFindings) -> None:
    """Retract the tool in steps along its z axis, check each, and move back."""
    client.spin(REST)
    X_WT = client.X_WT
    rows = retraction(client.ik, client.q, STEP)
    for k, pair in enumerate(itertools.pairwise(rows), start=1):
        if not client.execute(eased(np.array(pair), SPEED), findings):
            return
        target = X_WT.copy()
        target[:3, 3] -= k * STEP * X_WT[:3, 2]
        distance, angle = deviation(target, client.X_WT[None])
        findings.check(
            distance <= TOOL_POSITION and angle <= TOOL_ORIENTATION,
            f"retracted by {1000 * k * STEP:.0f} mm: tool error {1000 * distance:.2f} mm and "
            f"{1000 * angle:.2f} mrad",
        )
    client.execute(eased(rows[::-1], SPEED), findings)
