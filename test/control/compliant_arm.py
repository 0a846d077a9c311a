# SPDX-License-Identifier: Apache-2.0
"""An arm in MuJoCo under impedance control, without ROS; forces are applied at its tool."""

import mujoco
import numpy as np

from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.pose_targets import ImpedanceSettings
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import rotation_vector
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld


class CompliantArm:
    """A robot whose arm is under impedance control; its other joints hold."""

    def __init__(
        self, name: str = "franka", *, period: float = 0.001, bend: float = 0.0, **settings
    ) -> None:
        """``bend`` is added to all joints of the arm [rad], away from singular home states."""
        robot = self.robot = load_robot(name)
        self.law = CartesianImpedance(robot, settings=ImpedanceSettings(**settings))
        self.world = MujocoWorld([RobotPlacement(robot, "arm")], WorldConfig(time_step=0.001))
        self.period = period
        names = self.world.joint_names("arm")
        self.arm = np.array([names.index(joint) for joint in self.law.joint_names])
        self.efforts = np.full(len(names), np.nan)
        self.wrench = np.zeros(6)
        """External wrench on the tool in the base's axes [N, N m]."""
        at = self.world.data.qpos
        for joint in self.law.joint_names if bend else ():
            at[self.world.model.joint(f"arm/{joint}").qposadr[0]] += bend
        self.law.reset(*self.state[:2])

    @property
    def state(self):
        measured = self.world.state("arm")
        return tuple(values[self.arm] for values in measured[:3])

    @property
    def pose(self):
        return self.law.space.at(*self.state[:2]).X_BT

    def step(self) -> None:
        q, v, effort = self.state
        self.efforts[self.arm] = self.law.step(q, v, self.period, effort)
        self.world.command("arm", JointTargets(None, None, self.efforts))
        model, data = self.world.model, self.world.data
        data.qfrc_applied[:] = 0.0
        if self.wrench.any():
            body = model.body(f"arm/{self.robot.tree.parent_joint[self.law.tool].parent}").id
            mujoco.mj_applyFT(model, data, self.wrench[:3], self.wrench[3:], self.pose[:3, 3],
                              body, data.qfrc_applied)  # fmt: skip
        self.world.step(round(self.period / self.world.time_step))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / self.period)):
            self.step()

    def away(self, X: np.ndarray) -> np.ndarray:
        """Return the pose error of the tool from ``X`` [m, rad], shape (6,)."""
        now = self.pose
        return np.array([*(now - X)[:3, 3], *rotation_vector(now[:3, :3] @ X[:3, :3].T)])

    def push(self, wrench: np.ndarray, seconds: float, after: float) -> tuple[float, float]:
        """Apply a wrench for ``seconds``, then none for ``after`` [s].

        Returns:
            Energy input, and remaining kinetic and elastic energy [J].
        """
        self.wrench, given = wrench, 0.0
        for step in range(round((seconds + after) / self.period)):
            if step == round(seconds / self.period):
                self.wrench = np.zeros(6)
            given += float(self.wrench @ self.law.space.at(*self.state[:2]).twist) * self.period
            self.step()
        state, error = self.law.space.at(*self.state[:2]), self.law.status.error
        stiffness = self.law.settings.six("stiffness")
        left = 0.5 * state.v @ state.M @ state.v + 0.5 * error @ (stiffness * error)
        return given, float(left)

    def floor_force(self) -> float:
        """Normal force of all contacts with the floor, upwards [N]; the base's are excluded."""
        model, data = self.world.model, self.world.data
        total, force = 0.0, np.zeros(6)
        for i in range(data.ncon):
            mujoco.mj_contactForce(model, data, i, force)
            total += abs(float(data.contact[i].frame[2])) * force[0]
        return total
