# SPDX-License-Identifier: Apache-2.0
"""Common parts of the tasks of an arm: tool, gripper, initial poses by inverse kinematics.

With a gripper there is one more action: at or above 0 it opens the gripper, else it closes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import mujoco
import numpy as np

from motion_nodes.api.robot_model import load_robot as load_front_door
from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.learning.networks import Floats
from motion_nodes.extras.learning.tasks.robot_cell import TIME_STEP, RobotCell, TaskState

ROBOT = "franka"
FINGERS = (f"{ROBOT}/panda_leftfinger", f"{ROBOT}/panda_rightfinger")
OPEN = 0.04
"""Position of each finger of the open gripper [m]."""
_AHEAD = 0.004
"""Max distance of finger targets from the fingers [m]: limits their force to 40 N and their speed
to 0.2 m/s, because these light links would pass through gripped objects."""
HARD = (2.0 * TIME_STEP, 1.0)
"""MuJoCo's ``solref`` of the stiffest contacts and limits that the time step allows."""
_IK = IkSettings(attempts=1, timeout=10.0)
JITTER = 0.1
"""Max deviation of initial joint positions from the default [rad]."""


class ArmCell(RobotCell):
    """World, actions and sensors of a task of an arm."""

    gripper = False
    """Whether there is one more action, of the Franka's gripper."""

    def __init__(
        self, default: Sequence[float], scale: Sequence[float], robot_name: str = ROBOT
    ) -> None:
        """Build the world.

        Args:
            default: default positions of the arm [rad], shape (n,).
            scale: radians per unit of action, shape (n,).
            robot_name: the robot.
        """
        self._arm, self._lock = load_front_door(robot_name)["arm"], threading.Lock()
        self.default_pose = self._arm.fk(np.array(default))
        """Pose of the tool in the base at the default position, shape (4, 4)."""
        self._tool = f"{robot_name}/{load_robot(robot_name).tool_frame}"
        super().__init__(robot_name, "arm", default, scale)
        if self.gripper:
            self.action_size += 1
            self.default[self.moved :] = OPEN
        for name in self.joint_names[self.moved :]:
            self.model.jnt_solref[self.model.joint(f"{robot_name}/{name}").id] = HARD

    def add_scenery(self, spec: mujoco.MjSpec) -> None:
        """Add the sensors of the tool to the world."""
        for kind in ("FRAMEPOS", "FRAMELINVEL"):
            self.add_sensor(spec, f"tool.{kind}", kind, mujoco.mjtObj.mjOBJ_XBODY, self._tool)

    def targets(self, state: TaskState, actions: Floats) -> Floats:
        """Return joint targets before their limits, shape (n, joints)."""
        targets, n = super().targets(state, actions), self.moved
        if self.gripper:
            fingers = self.positions(state)[:, n:]
            desired = np.where(actions[:, n:] >= 0.0, OPEN, 0.0)
            targets[:, n:] = fingers + np.clip(desired - fingers, -_AHEAD, _AHEAD)
        return targets

    def put_tool(self, q: Floats, rows: Floats, poses: Floats) -> None:
        """Change initial positions so that the tool is at some poses, if IK finds a solution.

        Args:
            q: initial positions, shape (n, nq), changed.
            rows: which of them, shape (m,).
            poses: of the tool in the base, shape (m, 4, 4).
        """
        if len(rows):
            # Shards in several threads share the task; results must not depend on the timeout.
            with self._lock:
                found = self._arm.ik_batch(poses, self.default[: self.moved], settings=_IK)
            good = found.solved
            q[np.ix_(rows[good], self.joint_q[: self.moved])] = found.q[good]

    def tool(self, state: TaskState) -> Floats:
        """Return positions of the tool in the base [m], shape (n, 3)."""
        return state.sensors[:, self.sensor("tool.FRAMEPOS")]
