# SPDX-License-Identifier: Apache-2.0
"""An arm in MuJoCo under a guarded runner, as in the articulation controller, without ROS."""

import numpy as np

from motion_nodes.core.control.active_trajectories import FollowGoal, Tolerances, TrajectoryFollower
from motion_nodes.core.control.contact_wrench import EffortResidual, Ripple
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_drive import motion_load
from motion_nodes.core.control.joint_guard import (
    GuardSettings,
    JointGuard,
    effort_margins,
    gripper_joints,
    position_tolerances,
)
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, rest_to_rest_duration
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

PERIOD = 0.004


class GuardedArm:
    """A robot on a floor that the controller does not know."""

    def __init__(self, name: str, *, by_effort: bool = True, feed_forward: bool = True) -> None:
        robot = self.robot = load_robot(name)
        self.joints = robot.arm_joints
        self.world = MujocoWorld([RobotPlacement(robot, "arm")])
        controller = self.controller = ArticulationController(robot.limits.select(self.joints))
        controller.reset(self.position)
        self.runner = JointArbiter(controller, start_tolerance=0.1)
        drives = [robot.drive(joint) for joint in self.joints]
        stiffness = np.array([drive.stiffness for drive in drives])
        margins = effort_margins(robot, self.joints)
        settings = GuardSettings(
            tolerance=position_tolerances(robot, self.joints, stiffness),
            effort_margin=np.where(margins > 0.0, margins, np.inf),
            lag=0.25,
            lower=self.runner.controller.limits.lower,
            upper=self.runner.controller.limits.upper,
        )
        self.runner.guard = JointGuard(settings, PERIOD)
        self.runner.resync.never = gripper_joints(robot, self.joints)
        armature = [drive.armature for drive in drives]
        self.dynamics = InverseDynamics(robot.tree, self.joints, armature=armature)
        damping = np.array([drive.damping for drive in drives])
        ripple = Ripple.of(stiffness, damping, controller.limits.acceleration, 2.0 * PERIOD)
        self.residual = EffortResidual(self.dynamics, ripple) if by_effort else None
        self.feed_forward = feed_forward
        self.time = 0.0
        self.positions: list[np.ndarray] = []
        self.references: list[np.ndarray] = []
        self.efforts: list[np.ndarray] = []
        self.speeds: list[np.ndarray] = []
        self.touching: list[bool] = []
        self._usual_contacts = self.world.data.ncon

    @property
    def position(self) -> np.ndarray:
        """Measured joint positions [rad or m]."""
        return np.array(self.world.state("arm").position)

    @property
    def away(self) -> float:
        """Max distance of a joint from its reference [rad or m]."""
        return float(np.abs(self.references[-1] - self.positions[-1]).max())

    def step(self) -> None:
        """One period of the controller."""
        state = self.world.state("arm")
        self.time += PERIOD
        residual = None
        if self.residual is not None:
            residual = self.residual.update(self.time, state.position, state.velocity, state.effort)
        reference = self.runner.step(PERIOD, state.position, state.velocity, residual=residual)
        load = np.zeros(len(self.joints))
        if self.feed_forward:
            load = motion_load(self.dynamics, reference, state.position, state.velocity,
                               gravity=True, inertia=True)  # fmt: skip
        self.world.command("arm", JointTargets(reference.positions, reference.velocities, load))
        self.world.step(round(PERIOD / self.world.time_step))
        self.touching.append(self.world.data.ncon > self._usual_contacts)
        self.positions.append(state.position.copy())
        self.speeds.append(state.velocity.copy())
        self.efforts.append(state.effort.copy())
        self.references.append(reference.positions.copy())

    def run(self, seconds: float) -> None:
        """Run for ``seconds``."""
        for _ in range(round(seconds / PERIOD)):
            self.step()

    def go(self, goal: np.ndarray, speed: float = 1.0) -> TrajectoryFollower:
        """Start a motion of all joints from measured positions, at ``speed`` times the limits."""
        q = self.position
        limits = self.controller.limits
        q, goal = (x.clip(limits.lower, limits.upper) for x in (q, np.asarray(goal)))
        usable = (speed * limits.velocity, speed * limits.acceleration, speed * limits.jerk)
        duration = max(0.2, rest_to_rest_duration(np.abs(goal - q), *usable))
        still = np.zeros((2, len(q)))
        path = JointTrajectory(self.joints, np.array([0.0, duration]), np.array([q, goal]), still,
                               still)  # fmt: skip
        none, near = Tolerances.uniform(len(q), 0.0), Tolerances.uniform(len(q), 0.01)
        return self.runner.start(FollowGoal(trajectory=path, path=none, goal=near), "the test")
