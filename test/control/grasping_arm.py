# SPDX-License-Identifier: Apache-2.0
"""A Franka in MuJoCo that grips an object on a post with a force and lifts it, without ROS."""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np

import motion_nodes as mn
from motion_nodes.core.control.active_trajectories import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.control.contact_wrench import ContactWrench, EffortResidual, Ripple
from motion_nodes.core.control.gripper import (
    GraspForce,
    GraspSettings,
    GripperConfig,
    GripperMove,
    GripStatus,
)
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_drive import EffortLimiter, motion_load
from motion_nodes.core.robot.inverse_dynamics import PayloadDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, Trajectory
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import FreeBody
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

PERIOD = 0.002
PLACE = (0.5, 0.0, 0.3)
"""Top of the post [m]."""
POST = (0.06, 0.06, PLACE[2])
"""Its size [m]."""
TOOL = "panda_hand_tcp"
MODEL = mn.load_robot("franka")
ROBOT = load_robot("franka")


@dataclasses.dataclass(frozen=True)
class Item:
    """An object to grip."""

    width: float
    """Between the fingers [m]."""
    height: float
    mass: float
    friction: float
    round: bool = False

    @property
    def body(self) -> FreeBody:
        size = (self.width, self.width, self.height)
        shape = Cylinder(0.5 * self.width, self.height) if self.round else Box(size)
        at = (*PLACE[:2], PLACE[2] + 0.5 * self.height)
        return FreeBody("item", shape, self.mass, from_xyz_rpy(at), friction=self.friction)


class GraspingArm:
    """The arm with its hand around an item."""

    def __init__(self, item: Item, settings: GraspSettings, max_effort: float = np.inf) -> None:
        self.item, self.settings = item, settings
        post = Obstacle("post", Box(POST), from_xyz_rpy((*PLACE[:2], 0.5 * PLACE[2])))
        config = WorldConfig(time_step=PERIOD, obstacles=(post,), objects=(item.body,))
        self.world = MujocoWorld([RobotPlacement(ROBOT, "arm")], config)
        model, data = self.world.model, self.world.data
        model.geom_priority[model.geom("object:item/0").id] = (
            2  # its friction takes precedence over that of the fingers
        )
        self.joints = ROBOT.arm_joints
        self.fingers = ROBOT.group("gripper").joints
        self.arm = MODEL["arm"]
        at = self.configuration(PLACE[2] + 0.5 * item.height + 0.01)
        start = np.array([*at, 0.04, 0.04])
        for joint, value in zip(self.joints, start, strict=True):
            data.joint(f"arm/{joint}").qpos[0] = value
        mujoco.mj_forward(model, data)
        limits = ROBOT.limits.select(self.joints)
        controller = ArticulationController(limits)
        controller.reset(start)
        self.runner = JointArbiter(controller)
        drives = [ROBOT.drive(joint) for joint in self.joints]
        kp, kd = (np.array([getattr(d, name) for d in drives]) for name in ("stiffness", "damping"))
        self.dynamics = PayloadDynamics(ROBOT, self.joints, TOOL)
        ripple = Ripple.of(kp, kd, limits.acceleration, 2.0 * PERIOD)
        self.residual = EffortResidual(self.dynamics, ripple)
        self.contact = ContactWrench(ROBOT, self.joints, ROBOT.group("arm").joints, TOOL)
        self.limiter = EffortLimiter(kp, limits)
        self.indices = np.array([self.joints.index(name) for name in self.fingers])
        self.max = min(max_effort, float(limits.effort[self.indices].min()))
        self.grasp: GraspForce | None = None
        self.move: GripperMove | None = None
        self.world.command("arm", JointTargets(start, None, self.dynamics.gravity(start)))
        self.world._before[:] = self.world.data.ctrl

    def configuration(self, z: float, xy: tuple[float, float] = PLACE[:2]) -> np.ndarray:
        """Return joint positions with the tool pointing down at height ``z`` [m]."""
        ik = self.arm.ik(from_xyz_rpy((*xy, z), (np.pi, 0.0, 0.0)), seed=self.arm.state("ready"))
        assert ik.success, ik.reason
        return np.asarray(ik.q)

    def grip(self, goal: float = 0.0) -> GripStatus:
        """Close the fingers until they reach their goal or stall."""
        lower, upper = 0.0, 0.04
        self.move = GripperMove(goal, GripperConfig(lower=lower, upper=upper))
        self.grasp = GraspForce(self.settings, self.max, len(self.fingers))
        command = JointCommand(names=self.fingers, positions=[goal] * len(self.fingers))
        self.runner.claim(command, "the test", self.grasp.force)
        self.run(lambda: self.move.status is not GripStatus.MOVING, 10.0)
        self.run(lambda: not self.grasp.settling, 1.0)
        return self.move.status

    def follow(self, trajectory: Trajectory) -> FollowStatus:
        """Follow a trajectory of the arm to its end."""
        times = np.linspace(trajectory.start_time, trajectory.end_time, 200)
        found = [trajectory.sample(t) for t in times.tolist()]
        q, v, a = (np.array([s[k] for s in found]) for k in range(3))
        names = ROBOT.group("arm").joints
        path = JointTrajectory(names, times - times[0], q, v, a)
        loose, near = Tolerances.uniform(len(names), 0.0), Tolerances.uniform(len(names), 0.02)
        run = self.runner.start(FollowGoal(trajectory=path, path=loose, goal=near), "the test")
        self.run(lambda: run.status.ended, times[-1] - times[0] + 6.0)
        return run.status

    def go(self, q: np.ndarray, scaling: float) -> FollowStatus:
        """Move in a straight line in joint space."""
        here = self.q[: len(q)]
        path = self.arm.time_parameterize(
            np.array([here, q]), velocity_scaling=scaling, acceleration_scaling=scaling
        )
        return self.follow(path)

    @property
    def q(self) -> np.ndarray:
        return np.array(self.world.state("arm").position)

    @property
    def held(self) -> bool:
        """Whether the item is between the fingers, by the physics."""
        X = self.arm.fk(self.q[:7])
        p = self.world.object_pose("item")[:3, 3]
        return bool(np.linalg.norm(p - X[:3, 3]) < 0.5 * self.item.height + 0.03)

    def run(self, until: Callable[[], bool], within: float) -> None:
        for _ in range(round(within / PERIOD)):
            if until():
                return
            self.step()

    def step(self) -> None:
        """One period of the controller, as the node does it."""
        q, v, effort = (np.array(values) for values in self.world.state("arm")[:3])
        residual = self.residual.update(self.world.time, q, v, effort)
        self.contact.update(self.world.time, q, v, self.residual, known=True)
        if self.grasp is not None:
            self._watch(q, v, effort)
        reference = self.runner.step(PERIOD, q, v, residual=residual)
        load = motion_load(self.dynamics, reference, q, v, gravity=True, inertia=True)
        bounds = self.runner.effort_bounds
        sent = self.limiter.limit(reference, q, bounds, PERIOD)
        load = np.where(np.isinf(bounds), load, 0.0)
        self.world.command("arm", JointTargets(sent.positions, sent.velocities, load))
        self.world.step()

    def _watch(self, q: np.ndarray, v: np.ndarray, effort: np.ndarray) -> None:
        grasp, move, i = self.grasp, self.move, self.indices
        pushing = float((effort[i] * np.sign(move.goal - q[i])).clip(0.0).min())
        if move.status is GripStatus.MOVING:
            far = i[int(np.argmax(np.abs(q[i] - move.goal)))]
            speed = float(np.abs(v[i]).max())
            reference = float(self.runner.controller.reference_position[far])
            pushes = grasp.pushing(pushing)
            move.evaluate(float(q[far]), speed, PERIOD, pushing=pushes, reference=reference)
            if move.status is GripStatus.STALLED:
                grasp.hold(float(q[i].mean()), move.goal - float(q[far]))
        load, certain = (float(np.linalg.norm(w[:3])) for w in (
            self.contact.value, self.contact.certain))  # fmt: skip
        grasp.step(float(q[i].mean()), pushing, load, PERIOD, certain)
        if grasp.holding or self.settings.grasp_force > 0.0:
            self.runner.effort_bounds[i] = grasp.efforts(q[i])
