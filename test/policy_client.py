# SPDX-License-Identifier: Apache-2.0
"""A client of the reactive policy: targets, servo commands, obstacles, state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from control_msgs.msg import JointJog
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped
from joint_client import ARM, CONTROLLER, FRANKA, JointClient
from moveit_msgs.msg import CollisionObject, PlanningScene, ServoStatus
from moveit_msgs.srv import ApplyPlanningScene
from ros_client import RosClient, values_of
from ros_processes import Suite
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.typing import Array

POLICY = "/rmpflow_policy"
SERVO = "/servo_node"
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
TIP = FRANKA.tool_frame
DOWN = (np.pi, 0.0, 0.0)


@contextlib.contextmanager
def franka_policy(
    suite: Suite, client: RosClient, rate: float, **parameters: Any
) -> Iterator[PolicyClient]:
    """Start the policy of a Franka without physics, with its controller and planner.

    Args:
        suite: starts the nodes.
        client: node of the test.
        rate: update rate of the loops [Hz].
        parameters: parameters of the policy.
    """
    common = {"robot": "franka", "use_sim_time": True}
    suite.node("mock_sim", robots=["franka"], update_rate=rate)
    suite.node("articulation_controller", update_rate=rate, **common)
    suite.node("rrt_planner", **common)
    suite.node("rmpflow_policy", update_rate=rate, **parameters, **common)
    arm = JointClient(client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        client.wait_for_diagnosis(node, word, within=60.0)
    arm.wait_for()
    yield PolicyClient(arm)
    arm.close()


class PolicyClient:
    """A client of the policy of one Franka."""

    def __init__(self, arm: JointClient) -> None:
        self.arm, self.client = arm, arm.client
        self.statuses = self.client.listen(DiagnosticStatus, f"{POLICY}/status")
        self.servo_statuses = self.client.listen(ServoStatus, f"{SERVO}/status")
        self.sent = self.client.listen(JointState, f"{CONTROLLER}/reference")
        self._publishers: dict[str, Any] = {}
        for kind, topic in (
            (PoseStamped, f"{POLICY}/reference"),
            (JointState, f"{POLICY}/posture"),
            (TwistStamped, f"{SERVO}/delta_twist_cmds"),
            (JointJog, f"{SERVO}/delta_joint_cmds"),
        ):
            self.publisher(kind, topic)
        # A subscriber discovers its publisher slightly later than vice versa.
        self.client.spin(1.0)

    # ---- inputs

    def publisher(self, kind: Any, topic: str) -> Any:
        """Return a publisher to which the policy subscribes."""
        if topic not in self._publishers:
            self._publishers[topic] = self.client.publisher(kind, topic)
        return self._publishers[topic]

    def target(self, xyz: Sequence[float], rpy: Sequence[float] = DOWN, frame: str = "") -> Any:
        """Return a target message."""
        message = PoseStamped(pose=pose_message(from_xyz_rpy(xyz, rpy)))
        message.header.frame_id = frame
        return message

    def go(self, xyz: Sequence[float], rpy: Sequence[float] = DOWN, frame: str = "") -> None:
        """Send a target."""
        self.send(self.target(xyz, rpy, frame))

    def send(self, message: Any) -> None:
        """Send a target message."""
        self.publisher(PoseStamped, f"{POLICY}/reference").publish(message)

    def tend(self, names: Sequence[str], positions: Sequence[float]) -> None:
        """Send a posture."""
        message = JointState(name=list(names), position=list(positions))
        self.publisher(JointState, f"{POLICY}/posture").publish(message)

    def twist(self, *, frame: str = "", **parts: float) -> Callable[[], None]:
        """Return a function that sends a twist, such as ``linear_x=0.5``."""
        message = TwistStamped()
        message.header.frame_id = frame
        for name, value in parts.items():
            kind, axis = name.split("_")
            setattr(getattr(message.twist, kind), axis, value)
        publisher = self.publisher(TwistStamped, f"{SERVO}/delta_twist_cmds")
        return lambda: publisher.publish(message)

    def jog(self, **speeds: float) -> Callable[[], None]:
        """Return a function that sends joint velocities [rad/s]."""
        message = JointJog(joint_names=list(speeds), velocities=list(speeds.values()))
        publisher = self.publisher(JointJog, f"{SERVO}/delta_joint_cmds")
        return lambda: publisher.publish(message)

    def trigger(self, name: str) -> Any:
        """Call a service without arguments."""
        return self.client.call(Trigger, name)

    def switch(self, name: str, on: bool) -> Any:
        """Call a SetBool service."""
        answer = self.client.call(SetBool, name, SetBool.Request(data=on))
        assert answer.success, answer.message
        return answer

    def scene(self, *objects: CollisionObject) -> None:
        """Set the objects of the scene; wait until the policy has received them."""
        message = PlanningScene()
        message.world.collision_objects = list(objects)
        request = ApplyPlanningScene.Request(scene=message)
        assert self.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success
        self.client.wait(lambda: self.figure("objects") == str(len(objects)), "the scene")

    def scene_moves(self, name: str, xyz: Sequence[float]) -> None:
        """Move an object of the scene, without waiting."""
        message = CollisionObject(id=name, operation=CollisionObject.MOVE)
        message.pose = pose_message(from_xyz_rpy(xyz))
        self.publisher(CollisionObject, "/collision_object").publish(message)

    def begin_anew(self) -> None:
        """Reset targets, obstacles and the policy's parameters; move the robot home."""
        self.switch(f"{POLICY}/pause", False)
        self.trigger(f"{POLICY}/reset")
        self.trigger(f"{SERVO}/start_servo")
        self.switch(f"{SERVO}/pause_servo", False)
        if self.figure("objects") not in ("", "0"):
            self.scene()
        self.wait_for("idle")
        self.arm.go_home()
        # The last messages may be from before the motion home.
        self.rest()
        self.sent.clear()

    # ---- outputs

    def quiet(self) -> None:
        """Wait until nothing has been sent for a second."""
        for _ in range(10):
            self.sent.clear()
            self.client.spin(1.0)
            if not self.sent:
                return
        raise AssertionError(f"it goes on sending; it says: {self.text}")

    def rest(self) -> None:
        """Wait until references and joints are at rest."""
        self.arm.clear()

        def still() -> bool:
            reports = self.arm.reports
            if len(reports) < 3 or len(self.arm.states) < 3:
                return False
            led = np.abs(np.nan_to_num(reports.newest.reference.velocities)).max()
            return bool(led < 1e-6) and self.arm.speed() < 1e-3

        self.client.wait(still, "the joints to rest")

    @property
    def text(self) -> str:
        """Newest status."""
        return "" if self.statuses.newest is None else str(self.statuses.newest.message)

    def wait_for(self, word: str, within: float = 20.0) -> str:
        """Wait until a new status begins with a word; return it."""
        self.statuses.clear()

        def said() -> str:
            return self.text if self.text.startswith(word) else ""

        try:
            text = str(self.client.wait(said, f"status '{word}'", within))
        except AssertionError as error:
            raise AssertionError(f"{error}; it says: {self.text}") from None
        # After a pause of this process, the newest states are still to be received.
        self.client.spin(self.client.PERIOD)
        return text

    def stays(self, word: str, seconds: float) -> None:
        """Check that the status keeps a word for a time [s]."""
        self.statuses.clear()
        self.client.spin(seconds)
        self.client.wait(lambda: self.statuses, "a status")
        assert {message.message.partition(":")[0] for message in self.statuses.messages} == {word}

    def figure(self, key: str) -> str:
        """Return a value of its diagnostics."""
        status = self.client.diagnostics(POLICY)
        return "" if status is None else values_of(status).get(key, "")

    def wait_for_warning(self, text: str) -> None:
        """Wait until its diagnostics show a warning."""
        try:
            self.client.wait(lambda: text in self.figure("last warning"), f"warning '{text}'")
        except AssertionError as error:
            raise AssertionError(f"{error}; the last is {self.figure('last warning')}") from None

    @property
    def q(self) -> Array:
        """Measured positions of all joints [rad or m], shape (n,)."""
        joints = self.arm.joints
        return np.array([joints[name] for name in FRANKA.joint_names])

    @property
    def tool(self) -> Array:
        """Measured pose of the tool, shape (4, 4)."""
        return KINEMATICS.pose(self.q, TIP)

    @property
    def tool_speed(self) -> Array:
        """Measured twist of the tool [m/s, rad/s], shape (6,)."""
        message = self.arm.states.newest
        speeds = dict(zip(message.name, message.velocity, strict=True))
        qd = np.array([speeds[name] for name in FRANKA.joint_names])
        return KINEMATICS.jacobian(self.q, TIP) @ qd

    @property
    def fastest(self) -> float:
        """Return the max speed of a joint between two sent references, by their stamps [rad/s].

        A jump has an effect even if messages were lost.
        """
        heard = self.sent.messages
        rows = np.array([message.position for message in heard])
        times = np.array([m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in heard])
        apart = np.diff(times) > 1e-4
        assert apart.any()
        assert list(self.sent.newest.name) == ARM
        return float((np.abs(np.diff(rows, axis=0))[apart] / np.diff(times)[apart, None]).max())
