# SPDX-License-Identifier: Apache-2.0
"""Reports of the reactive policy: status, Servo status, markers, metrics of its RMPs.

They are computed in the slow loop, from snapshots of the fast one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from moveit_msgs.msg import ServoStatus
from rclpy.serialization import serialize_message
from visualization_msgs.msg import MarkerArray

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_inspection import PolicyInspector
from motion_nodes.core.reactive.policy_state import Errors, Phase, PolicyView
from motion_nodes.core.reactive.singularity import NearSingularity
from motion_nodes.core.reactive.targets import FollowerCommand, JogCommand, TwistCommand
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.markers import Colour, Markers
from motion_nodes.ros.node import MotionNode
from motion_nodes.typing import Array

NEAR, FAR = 0.0, 0.2
"""Distances at which spheres are red and green [m]."""
ARROW = 0.03
"""Length of arrows per acceleration [m per m/s^2]."""
MAX_LENGTH = 0.3
"""Max length of arrows [m]."""
MIN_LENGTH = 0.005
"""Length below which arrows are omitted [m]."""
TARGET: Colour = (0.1, 0.7, 0.9, 0.9)
STUCK: Colour = (0.9, 0.1, 0.1, 0.9)
RMPS: dict[str, Colour] = {
    "target_rmp": (0.1, 0.7, 0.9, 1.0),
    "axis_target_rmp": (0.2, 0.4, 0.9, 1.0),
    "collision_rmp": (0.9, 0.2, 0.1, 1.0),
    "body_collision": (0.9, 0.4, 0.1, 1.0),
    "self_collision_rmp": (0.9, 0.5, 0.2, 1.0),
    "cspace_target_rmp": (0.6, 0.6, 0.2, 1.0),
    "joint_limit_rmp": (0.7, 0.2, 0.7, 1.0),
}
"""Colours of the arrows by RMP; others are grey."""
OTHERS: Colour = (0.6, 0.6, 0.6, 1.0)
CLOSE = 0.1
"""Distance below which an obstacle is reported as the cause of a slow Servo motion [m]."""
SLOWED, HALTED = 0.7, 0.2
"""Fractions of the commanded speed below which Servo is slowed down, and halted."""
NEAR_SINGULARITY = {
    NearSingularity.APPROACHING: ServoStatus.DECELERATE_FOR_APPROACHING_SINGULARITY,
    NearSingularity.LEAVING: ServoStatus.DECELERATE_FOR_LEAVING_SINGULARITY,
    NearSingularity.HALTED: ServoStatus.HALT_FOR_SINGULARITY,
}
"""Codes of scaled twists."""
NEAR_LIMIT = 0.3
"""Distance from its limit below which a slow joint is reported as the cause [rad or m]: the limits'
RMPs slow it down before it is there."""
_LEVELS = {Phase.STUCK: DiagnosticStatus.WARN, Phase.STOPPED: DiagnosticStatus.WARN}
_FIGURES = ["weight", "force", "acceleration"]


class PolicySnapshot(NamedTuple):
    """State after a step; immutable, so any thread may read it."""

    phase: Phase
    text: str
    errors: Errors
    servo: FollowerCommand | None
    """Active Servo command, if any."""
    view: PolicyView | None
    """View of the last step; None while no references are sent."""


def policy_markers(
    frame: str, stamp: Any, inspector: PolicyInspector, view: PolicyView, snapshot: PolicySnapshot
) -> MarkerArray:
    """Return the markers of a view, in the robot's base frame.

    Args:
        frame: name of the base frame on /tf.
        stamp: builtin_interfaces/Time of the message.
        inspector: set to the view.
        view: of the policy, or of the robot without a target.
        snapshot: state of the policy.
    """
    markers = Markers(frame, stamp)
    spheres, distances = inspector.spheres()
    for (x, y, z, radius), distance in zip(spheres, distances.tolist(), strict=True):
        markers.spheres("spheres", np.array([[x, y, z]]), np.array([radius]), _warning(distance))
    X_BT = inspector.tool_pose()
    markers.axes("tool", X_BT, 0.06)
    goal = view.goal
    if snapshot.view is None:
        return markers.message
    if goal.position is not None:
        colour = STUCK if snapshot.phase is Phase.STUCK else TARGET
        markers.dots("target", goal.position[None], colour, 0.03)
        if goal.rotation is not None:
            X_BG = np.eye(4)
            X_BG[:3, :3], X_BG[:3, 3] = goal.rotation, goal.position
            markers.axes("target_axes", X_BG, 0.1)
    for rmp in inspector.figures():
        arrow = ARROW * rmp.tool
        length = float(np.linalg.norm(arrow))
        if length > MIN_LENGTH:
            arrow *= min(1.0, MAX_LENGTH / length)
            markers.arrow(rmp.name, X_BT[:3, 3], X_BT[:3, 3] + arrow, RMPS.get(rmp.name, OTHERS))
    return markers.message


def _warning(distance: float) -> Colour:
    """Return a colour from red (in contact) to green (far), for a distance [m]."""
    share = float(np.clip((distance - NEAR) / (FAR - NEAR), 0.0, 1.0))
    return (1.0 - share, 0.2 + 0.6 * share, 0.15, 0.5)


class _SteadyMessage:
    """A message without a stamp that seldom changes; it is serialized when it does."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._content: tuple[Any, ...] | None = None
        self._data = b""

    def publish(self, content: tuple[Any, ...], make: Callable[[], Any]) -> None:
        """Publish the message that ``make`` returns for this content."""
        if content != self._content:
            self._content, self._data = content, serialize_message(make())
        self._publisher.publish(self._data)


class PolicyReports:
    """Publishes each report at its own rate; markers and metrics only while subscribed."""

    def __init__(
        self, node: MotionNode[Any], policy: RmpflowPolicy, settings: RmpflowSettings, frame: str
    ) -> None:
        """Create the publishers.

        Args:
            node: the policy node.
            policy: what is inspected.
            settings: of its RMPs.
            frame: name of the base frame on /tf.
        """
        self._node, self._frame = node, frame
        self._inspector = PolicyInspector(policy.robot, policy.active_joints, policy.tool, settings)
        limits = node.robot.limits  # type: ignore[attr-defined]
        self._lower, self._upper = limits.lower, limits.upper
        self._status = _SteadyMessage(node.advertise(DiagnosticStatus, "~/status"))
        self._servo = _SteadyMessage(node.advertise(ServoStatus, "servo_node/status"))
        self._markers = node.advertise(MarkerArray, "~/markers")
        self._metrics = node.advertise(DynamicJointState, "~/leaf_metrics")
        self._due = {"status": 0.0, "markers": 0.0, "metrics": 0.0}
        self._shown = False
        self._published: tuple[str, str] = ("", "")
        self._viewed: PolicyView | None = None
        """The view that the inspector has."""

    def publish(
        self, snapshot: PolicySnapshot, idle_view: PolicyView | None, servo_refusal: str
    ) -> None:
        """Publish the reports that are due.

        Args:
            snapshot: of the policy.
            idle_view: view of the robot while no references are sent.
            servo_refusal: why Servo commands are refused; empty if they are accepted.
        """
        params = self._node.params
        view, state = snapshot.view or idle_view, (snapshot.phase.value, snapshot.text)
        status = self._is_due("status", params.status_rate) or state != self._published
        markers = view is not None and self._subscribed(
            self._markers, "markers", params.marker_rate
        )
        metrics = snapshot.view is not None and self._subscribed(
            self._metrics, "metrics", params.metrics_rate
        )
        # An inspection costs as much as several policy steps.
        if view is not None and view is not self._viewed and (status or markers or metrics):
            self._inspector.set_view(view)
            self._viewed = view
        if status:
            self._published = state
            content = (snapshot.phase, snapshot.text, snapshot.errors, view, params.escape)
            self._status.publish(content, lambda: self._status_message(snapshot, view))
            self._publish_servo(snapshot, view, servo_refusal)
        if view is None:
            return
        if markers:
            stamp = self._node.get_clock().now().to_msg()
            self._markers.publish(
                policy_markers(self._frame, stamp, self._inspector, view, snapshot)
            )
            self._shown = True
        elif self._shown and params.marker_rate == 0.0:
            self.hide()
        if metrics:
            self._publish_metrics()

    def hide(self) -> None:
        """Delete the markers."""
        if self._shown:
            stamp = self._node.get_clock().now().to_msg()
            self._markers.publish(Markers(self._frame, stamp).message)
        self._shown = False

    def _subscribed(self, publisher: Any, name: str, rate: float) -> bool:
        return rate > 0.0 and self._is_due(name, rate) and publisher.get_subscription_count() > 0

    def _is_due(self, name: str, rate: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = max(self._due[name] + 1.0 / rate, now)
        return True

    def _status_message(
        self, snapshot: PolicySnapshot, view: PolicyView | None
    ) -> DiagnosticStatus:
        values = {
            "position_error [m]": snapshot.errors.position,
            "orientation_error [rad]": snapshot.errors.orientation,
            "posture_error [rad]": snapshot.errors.posture,
            "clearance [m]": math.nan if view is None else self._inspector.clearance(),
        }
        return DiagnosticStatus(
            level=_LEVELS.get(snapshot.phase, DiagnosticStatus.OK),
            name=self._node.get_fully_qualified_name().lstrip("/"),
            message=snapshot.text,
            hardware_id="rmpflow_policy",
            values=[
                *(
                    KeyValue(key=key, value=f"{value:.4g}")
                    for key, value in values.items()
                    if not math.isnan(value)
                ),
                KeyValue(key="escape", value=self._node.params.escape),
            ],
        )

    def _publish_servo(
        self, snapshot: PolicySnapshot, view: PolicyView | None, refusal: str
    ) -> None:
        code, text = ServoStatus.NO_WARNING, ""
        if refusal:
            code, text = ServoStatus.INVALID, refusal
        elif snapshot.phase is Phase.STOPPED:
            code, text = ServoStatus.INVALID, snapshot.text
        elif snapshot.servo is not None and snapshot.view is not None:
            code, text = self._servo_status(snapshot.servo, snapshot.view)
        self._servo.publish((code, text), lambda: ServoStatus(code=code, message=text))

    def _servo_status(self, command: FollowerCommand, view: PolicyView) -> tuple[int, str]:
        """Return code and text of the cause of a slow Servo motion."""
        if isinstance(command, TwistCommand) and command.scale.share < 1.0:
            return NEAR_SINGULARITY[command.scale.cause], command.scale.cause.value
        share = self._inspector.share_of_speed(command)
        limited = self._limited_joint(command, view)
        if limited and (share <= SLOWED or isinstance(command, JogCommand)):
            return ServoStatus.JOINT_BOUND, limited
        if share > SLOWED:
            return ServoStatus.NO_WARNING, ""
        clearance = self._inspector.clearance()
        if clearance < CLOSE:
            code = (
                ServoStatus.HALT_FOR_COLLISION
                if share < HALTED
                else ServoStatus.DECELERATE_FOR_COLLISION
            )
            return code, f"an obstacle is {clearance:.3f} m away"
        return ServoStatus.NO_WARNING, ""

    def _limited_joint(self, command: FollowerCommand, view: PolicyView) -> str:
        """Return which joint is slow because it is near its limit; empty for none.

        Of a jog these are commanded joints that do not reach their velocity towards the limit; of
        other commands, the joint nearest to a limit.
        """
        joints = self._inspector.active_joints
        robot = self._node.robot  # type: ignore[attr-defined]
        indices, n = robot.indices(joints), len(joints)
        q, qd = view.q[:n], view.qd[:n]
        below: Array = q - self._lower[indices]
        above: Array = self._upper[indices] - q
        if isinstance(command, JogCommand):
            desired = command.velocity
            margins = np.where(desired > 0.0, above, below)
            margins[(desired == 0.0) | (qd * np.sign(desired) > SLOWED * np.abs(desired))] = np.inf
        else:
            margins = np.minimum(below, above)
        i = int(margins.argmin())
        if margins[i] > NEAR_LIMIT:
            return ""
        return f"{joints[i]} is {max(float(margins[i]), 0.0):.3f} from its limit"

    def _publish_metrics(self) -> None:
        figures = self._inspector.figures()
        message = DynamicJointState(
            joint_names=[rmp.name for rmp in figures],
            interface_values=[
                InterfaceValue(
                    interface_names=_FIGURES, values=[rmp.weight, rmp.force, rmp.acceleration]
                )
                for rmp in figures
            ],
        )
        set_stamp(message, self._node.now_ns())
        self._metrics.publish(message)
