# SPDX-License-Identifier: Apache-2.0
"""What the reactive policy tells of itself: status, servo's status, markers, figures of its leaves.

All of it is made beside the loop, from views that the loop leaves behind.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from control_msgs.msg import DynamicJointState, InterfaceValue
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from moveit_msgs.msg import ServoStatus
from visualization_msgs.msg import MarkerArray

from motion_nodes.model.tree import Array
from motion_nodes.nodes.policy.policy_markers import policy_markers
from motion_nodes.nodes.policy.policy_snapshot import PolicyNews
from motion_nodes.rmpflow.follower_settings import Phase
from motion_nodes.rmpflow.policy_inspection import PolicyInspector
from motion_nodes.rmpflow.policy_view import PolicyView
from motion_nodes.rmpflow.targets import FollowerCommand
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.markers import Markers
from motion_nodes.ros.node import MotionNode

CLOSE = 0.1
"""[m] An obstacle that is nearer is taken for what slows a servo command down."""
SLOWED, HALTED = 0.7, 0.2
"""Parts of a wished speed below which servo counts as slowed down and as halted."""
AT_LIMIT = 0.02
"""[rad or m] Nearer to its limit a joint holds servo up."""
_LEVELS = {Phase.STUCK: DiagnosticStatus.WARN, Phase.STOPPED: DiagnosticStatus.WARN}
_FIGURES = ["weight", "force", "acceleration"]


class PolicyReports:
    """Publishes while somebody listens, each at its own rate."""

    def __init__(self, node: MotionNode[Any], onlooker: PolicyInspector, frame: str) -> None:
        """Advertise.

        Args:
            node: that publishes.
            onlooker: who explains; nobody else uses it.
            frame: the robot's base on /tf.
        """
        self._node, self._onlooker, self._frame = node, onlooker, frame
        limits = node.robot.limits  # type: ignore[attr-defined]
        self._lower, self._upper = limits.lower, limits.upper
        self._status = node.advertise(DiagnosticStatus, "~/status")
        self._servo = node.advertise(ServoStatus, "servo_node/status")
        self._markers = node.advertise(MarkerArray, "~/markers")
        self._metrics = node.advertise(DynamicJointState, "~/leaf_metrics")
        self._due = {"status": 0.0, "markers": 0.0, "metrics": 0.0}
        self._shown = False
        self._told: tuple[str, str] = ("", "")

    def tell(self, news: PolicyNews, idle_view: PolicyView | None, servo_refusal: str) -> None:
        """Publish what is due.

        Args:
            news: of the loop.
            idle_view: the robot as it stands, while nothing is told to it.
            servo_refusal: why servo's commands are refused; empty if they count.
        """
        params = self._node.params
        view, word = news.view or idle_view, (news.phase.value, news.text)
        status = self._is_due("status", params.status_rate) or word != self._told
        markers = view is not None and self._wanted(self._markers, "markers", params.marker_rate)
        metrics = news.view is not None and self._wanted(
            self._metrics, "metrics", params.metrics_rate
        )
        # A look costs as much as all steps in that time, so it is taken only where it is told of.
        if view is not None and (status or markers or metrics):
            self._onlooker.set_view(view)
        if status:
            self._told = word
            self._tell_status(news, view)
            self._tell_servo(news, view, servo_refusal)
        if view is None:
            return
        if markers:
            stamp = self._node.get_clock().now().to_msg()
            self._markers.publish(policy_markers(self._frame, stamp, self._onlooker, view, news))
            self._shown = True
        elif self._shown and params.marker_rate == 0.0:
            self.hide()
        if metrics:
            self._tell_metrics()

    def hide(self) -> None:
        """Take the markers away."""
        if self._shown:
            stamp = self._node.get_clock().now().to_msg()
            self._markers.publish(Markers(self._frame, stamp).message)
        self._shown = False

    def _wanted(self, publisher: Any, name: str, rate: float) -> bool:
        return rate > 0.0 and self._is_due(name, rate) and publisher.get_subscription_count() > 0

    def _is_due(self, name: str, rate: float) -> bool:
        now = time.monotonic()
        if now < self._due[name]:
            return False
        self._due[name] = max(self._due[name] + 1.0 / rate, now)
        return True

    def _tell_status(self, news: PolicyNews, view: PolicyView | None) -> None:
        values = {
            "position_error [m]": news.errors.position,
            "orientation_error [rad]": news.errors.orientation,
            "posture_error [rad]": news.errors.posture,
            "clearance [m]": math.nan if view is None else self._onlooker.clearance(),
        }
        self._status.publish(
            DiagnosticStatus(
                level=_LEVELS.get(news.phase, DiagnosticStatus.OK),
                name=self._node.get_fully_qualified_name().lstrip("/"),
                message=news.text,
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
        )

    def _tell_servo(self, news: PolicyNews, view: PolicyView | None, refusal: str) -> None:
        message = ServoStatus(code=ServoStatus.NO_WARNING)
        if refusal:
            message.code, message.message = ServoStatus.INVALID, refusal
        elif news.phase is Phase.STOPPED:
            message.code, message.message = ServoStatus.INVALID, news.text
        elif news.servo is not None and news.view is not None:
            message.code, message.message = self._held_by(news.servo, news.view)
        self._servo.publish(message)

    def _held_by(self, wish: FollowerCommand, view: PolicyView) -> tuple[int, str]:
        """Return what holds a servo command up."""
        reached = self._onlooker.share_of_speed(wish)
        if reached > SLOWED:
            return ServoStatus.NO_WARNING, ""
        clearance = self._onlooker.clearance()
        if clearance < CLOSE:
            code = (
                ServoStatus.HALT_FOR_COLLISION
                if reached < HALTED
                else ServoStatus.DECELERATE_FOR_COLLISION
            )
            return code, f"an obstacle is {clearance:.3f} m away"
        joints = self._onlooker.active_joints
        robot = self._node.robot  # type: ignore[attr-defined]
        indices = robot.indices(joints)
        q = view.q[: len(joints)]
        room: Array = np.minimum(q - self._lower[indices], self._upper[indices] - q)
        i = int(room.argmin())
        if room[i] < AT_LIMIT:
            return ServoStatus.JOINT_BOUND, f"{joints[i]} is at its limit"
        return ServoStatus.NO_WARNING, ""

    def _tell_metrics(self) -> None:
        figures = self._onlooker.figures()
        message = DynamicJointState(
            joint_names=[leaf.name for leaf in figures],
            interface_values=[
                InterfaceValue(
                    interface_names=_FIGURES, values=[leaf.weight, leaf.force, leaf.acceleration]
                )
                for leaf in figures
            ],
        )
        set_stamp(message, self._node.now_ns())
        self._metrics.publish(message)
