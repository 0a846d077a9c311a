# SPDX-License-Identifier: Apache-2.0
"""The policy over DDS with faulty joint_states: lost, permuted, truncated, foreign."""

import random

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from joint_client import ARM, CONTROLLER, FRANKA, HOME
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.ros.messages.moveit_messages import pose_message

POLICY = "/rmpflow_policy"
STATES = 50.0
"""[Hz] At which the robot tells its state."""
pytestmark = pytest.mark.timeout(900)


class BadDriver:
    """A robot that executes commands at once, and publishes faulty states.

    Arm and fingers have a publisher each. Of the good messages of the arm 30 % are lost; between
    them come empty, malformed and foreign ones.
    """

    def __init__(self, client) -> None:
        self.client, self._random = client, random.Random(8)
        self.sent = client.listen(JointState, f"{CONTROLLER}/reference")
        self.statuses = client.listen(DiagnosticStatus, f"{POLICY}/status")
        self._arm, self._fingers, self._target = (
            client.publisher(kind, topic)
            for kind, topic in (
                (JointState, "/joint_states"),
                (JointState, "/joint_states"),
                (PoseStamped, f"{POLICY}/reference"),
            )
        )
        self.q = {name: float(q) for name, q in zip(FRANKA.joint_names, FRANKA.home, strict=True)}
        self.q |= HOME
        self.silent: set[str] = set()
        self._followed = 0

    def tell(self) -> None:
        """Execute the commands since the last call, and publish the state."""
        for message in self.sent.messages[self._followed :]:
            self.q |= dict(zip(message.name, message.position, strict=True))
        self._followed = len(self.sent)
        fingers = [name for name in FRANKA.joint_names if name not in ARM]
        self._fingers.publish(self._message(fingers))
        lie = self._lie()
        if lie is not None:
            self._arm.publish(lie)
        if self._random.random() > 0.3:
            self._arm.publish(self._message(ARM))

    def _message(self, names) -> JointState:
        told = {name: self.q[name] for name in names if name not in self.silent}
        told |= {"camera_tilt": 9.0, "lid": -9.0}
        mixed = list(told)
        self._random.shuffle(mixed)
        return JointState(name=mixed, position=[told[name] for name in mixed])

    def _lie(self) -> JointState | bytes | None:
        good = [9.0] * len(ARM)
        whole = serialize_message(JointState(name=ARM, position=good))
        return self._random.choice(
            [
                None,
                JointState(),
                JointState(name=["wheel"], position=[9.0]),
                JointState(name=ARM, position=good[:3]),
                JointState(name=ARM, position=good, velocity=[1.0]),
                JointState(name=ARM, position=[float("nan")] * len(ARM)),
                JointState(name=ARM, position=[float("inf")] * len(ARM)),
                whole[: self._random.randrange(4, 100)],
            ]
        )

    def go(self, xyz) -> None:
        """Publish a target at a position [m]."""
        message = PoseStamped(pose=pose_message(from_xyz_rpy(xyz, (np.pi, 0.0, 0.0))))
        self._target.publish(message)

    def reach(self, xyz) -> None:
        """Publish a target until it is received, and the state until the policy arrives."""
        self.statuses.clear()

        def both() -> None:
            self.go(xyz)
            self.tell()

        def received() -> bool:
            newest = self.statuses.newest
            return newest is not None and not str(newest.message).startswith("idle")

        self.client.repeat(both, received, "a target", rate=STATES)
        self.until("arrived")
        # After a pause of this process, the last commands are still to be received.
        self.client.repeat_for(self.tell, 0.1, rate=STATES)

    def until(self, word: str, within: float = 60.0) -> str:
        """Publish the state until the policy's status begins with ``word``; return the status."""
        self.statuses.clear()

        def said() -> str:
            newest = self.statuses.newest
            text = "" if newest is None else str(newest.message)
            return text if text.startswith(word) else ""

        return self.client.repeat(self.tell, said, f"status '{word}'", rate=STATES, within=within)


@pytest.fixture(scope="module")
def robot(module_suite, module_client):
    patient = {"state_timeout": 2.0, "max_tracking_error": 2.5, "update_rate": STATES}
    module_suite.node("rmpflow_policy", robot="franka", **patient)
    module_client.wait_for_diagnosis(POLICY, "idle", within=100.0)
    return BadDriver(module_client)


def test_it_goes_to_its_target_and_believes_no_lie(robot):
    robot.until("idle")
    start = dict(robot.q)
    place = (0.45, 0.15, 0.4)
    robot.reach(place)
    rows = np.array([message.position for message in robot.sent.messages])
    times = [m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec for m in robot.sent.messages]
    assert all(message.name == ARM for message in robot.sent.messages)
    np.testing.assert_allclose(rows[0], [start[name] for name in ARM], atol=0.05)
    limits = FRANKA.group("arm").limits
    assert ((rows >= limits.lower) & (rows <= limits.upper)).all()
    steps = np.abs(np.diff(rows, axis=0))
    # A step that comes late makes up for two periods at most.
    longest = np.maximum(np.diff(times), 2.0 / STATES)[:, None]
    assert (steps <= 1.05 * limits.velocity * longest).all()
    kinematics = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
    q = np.array([robot.q[name] for name in FRANKA.joint_names])
    assert kinematics.pose(q, FRANKA.tool_frame)[:3, 3] == pytest.approx(place, abs=0.006)


@pytest.mark.long
def test_a_joint_that_falls_silent_ends_the_motion_for_good(robot):
    robot.until("")
    robot.go((0.3, -0.4, 0.5))
    robot.until("following")
    robot.silent = {"panda_joint4"}
    assert "of panda_joint4" in robot.until("stopped")
    robot.sent.clear()
    robot._followed = 0
    robot.silent = set()
    robot.client.repeat_for(robot.tell, 1.0, rate=STATES)
    assert not robot.sent, "the target was dropped"
    robot.go((0.4, -0.1, 0.5))
    robot.until("arrived")
