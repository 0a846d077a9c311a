# SPDX-License-Identifier: Apache-2.0
"""Shows of one redundant arm, over ROS alone: its elbow moves, its tool retracts.

What is checked is measured: forward kinematics of the joint states that come back.
"""

from __future__ import annotations

import itertools

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState as State
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.ik.tool_goal import ArticulationIk
from motion_nodes.model.poses import inverse
from motion_nodes.model.tree import Array
from motion_nodes.nodes.demo.arm_motions import ArmMotion, eased, elbow_round, retraction
from motion_nodes.nodes.demo.client import ClientNode, DemoFindings
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos, signals
from motion_nodes.ros.names import JOINT_CONTROLLER

SPEED = 0.3
"""[rad/s] Of the fastest joint."""
STEP = 0.02
"""[m] Of the retraction."""
TOOL_STILL, TOOL_LEVEL = 1e-3, 1e-3
"""[m], [rad] What the tool may move by."""
SETTLED = 1e-6
"""[rad] When the controller's reference is this near to the last row, a motion has ended."""
REST = 0.4
"""[s] At the end of each motion."""


class ArmClient(ClientNode):
    """The endpoints of the arm, and where its tool has been."""

    def __init__(self, arm: str = "franka", elbow: str = "panda_link4") -> None:
        """Create the client.

        Args:
            arm: the robot and its namespace.
            elbow: the frame that shows that the arm moves.
        """
        super().__init__()
        self.robot = load_description(arm)
        self.ik = ArticulationIk(self.robot, "arm")
        self._elbow = elbow
        self.joints: dict[str, float] = {}
        self.seen: list[Array] = []
        """Values of the arm's joints, as measured since the last :meth:`watch`."""
        self.reference: dict[str, float] = {}
        """Where the controller leads the joints; the load pulls them off by milliradians."""
        listen = self.hear
        controller = f"/{arm}/{JOINT_CONTROLLER}"
        listen(JointState, f"/{arm}/joint_states", self._hear, qos.STATES)
        listen(State, f"{controller}/controller_state", self._hear_controller, qos.NEWEST)
        listen(JointState, f"{controller}/reference", lambda _: self.welcome("arm"), qos.COMMANDS)
        self._out = self.node.create_publisher(
            JointTrajectory, f"{controller}/joint_trajectory", qos.STREAM
        )

    @property
    def ready(self) -> bool:
        """True when the arm speaks, and its controller leads it and listens."""
        return bool(self.joints) and bool(self.reference) and self._out.get_subscription_count() > 0

    @property
    def q(self) -> Array:
        """Where the arm's joints are led [rad], shape (n,)."""
        return np.array([self.reference[name] for name in self.ik.joint_names])

    @property
    def X_WT(self) -> Array:
        """Where the tool is, by the measured joints, shape (4, 4)."""
        return self.ik.tool_pose(self.joints)

    def performed(self, motion: ArmMotion, findings: DemoFindings) -> bool:
        """Have the arm pass a motion and rest; False when it did not, or is somebody else's."""
        self._send(motion)
        end, duration = motion.positions[-1], float(motion.times[-1])
        there = (
            self.spin(0.5 * duration)
            and self.wait(
                lambda: bool(self.guests) or float(np.abs(self.q - end).max()) < SETTLED,
                10.0 + 2.0 * duration,
            )
            and self.spin(REST)
        )
        if there or signals.STOP.is_set():
            return there and not self.guests
        off = np.abs(self.q - end)
        worst = self.ik.joint_names[int(off.argmax())]
        findings.check(False, f"the arm did not get there: {worst} is off by {off.max():.3g} rad")
        return False

    def _send(self, motion: ArmMotion) -> None:
        message = JointTrajectory(joint_names=list(self.ik.joint_names))
        for q, v, t in zip(*motion, strict=True):
            point = JointTrajectoryPoint(positions=q.tolist(), velocities=v.tolist())
            point.time_from_start.sec = int(t)
            point.time_from_start.nanosec = int((t - int(t)) * 1e9)
            message.points.append(point)
        self._out.publish(message)

    def watch(self) -> None:
        """Begin to note where the joints are."""
        self.seen.clear()

    def elbow_way(self) -> float:
        """Return how far the elbow has been from where it was first [m]."""
        places = self.ik.chain.kinematics.pose_batch(np.array(self.seen), self._elbow)[:, :3, 3]
        return float(np.linalg.norm(places - places[0], axis=1).max())

    def tool_deviation(self, X_WT: Array) -> tuple[float, float]:
        """Return how far the tool has been from a pose at most [m, rad]."""
        poses = self.ik.chain.kinematics.pose_batch(np.array(self.seen), self.ik.chain.tip)
        return deviation(X_WT, poses)

    def _hear_controller(self, message: State) -> None:
        self.reference = dict(zip(message.joint_names, message.reference.positions, strict=False))

    def _hear(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=False))
        self.seen.append(np.array([self.joints[name] for name in self.ik.joint_names]))


def deviation(X: Array, poses: Array) -> tuple[float, float]:
    """Return the greatest distance [m] and angle [rad] of poses, shape (m, 4, 4), from one."""
    apart = inverse(X) @ poses
    cosines = 0.5 * (np.trace(apart[:, :3, :3], axis1=1, axis2=2) - 1.0)
    distances = np.linalg.norm(apart[:, :3, 3], axis=1)
    return float(distances.max()), float(np.arccos(np.clip(cosines, -1.0, 1.0)).max())


def show_elbow(client: ArmClient, findings: DemoFindings) -> None:
    """Move the elbow to either side and back while the tool stays, and check both."""
    client.spin(REST)
    X_WT = client.X_WT
    client.watch()
    for rows in elbow_round(client.ik.chain, client.q):
        if not client.performed(eased(rows, SPEED), findings):
            return
    distance, angle = client.tool_deviation(X_WT)
    way = client.elbow_way()
    findings.check(
        distance <= TOOL_STILL and angle <= TOOL_LEVEL and way > 0.1,
        f"the elbow went {100 * way:.0f} cm while the tool moved by {1000 * distance:.2f} mm and "
        f"{1000 * angle:.2f} mrad at most",
    )


def show_retraction(client: ArmClient, findings: DemoFindings) -> None:
    """Draw the tool back in steps along its z axis, check each, and bring it forward again."""
    client.spin(REST)
    X_WT = client.X_WT
    rows = retraction(client.ik, client.q, STEP)
    for k, pair in enumerate(itertools.pairwise(rows), start=1):
        if not client.performed(eased(np.array(pair), SPEED), findings):
            return
        wanted = X_WT.copy()
        wanted[:3, 3] -= k * STEP * X_WT[:3, 2]
        distance, angle = deviation(wanted, client.X_WT[None])
        findings.check(
            distance <= TOOL_STILL and angle <= TOOL_LEVEL,
            f"retracted by {1000 * k * STEP:.0f} mm: the tool is {1000 * distance:.2f} mm and "
            f"{1000 * angle:.2f} mrad from there",
        )
    client.performed(eased(rows[::-1], SPEED), findings)
