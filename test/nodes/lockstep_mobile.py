# SPDX-License-Identifier: Apache-2.0
"""A mobile manipulator in MuJoCo that executes tasks, with everything in lockstep.

Beyond the arm of :mod:`lockstep_arm`: the navigator drives the wheels by odometry, and objects are
detected, and kept in the planning scene, at their poses in the base frame by odometry.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from nodes.lockstep_arm import PERIOD, POLL, LockstepArm, Work

import motion_nodes as mn
from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.base_motion import MotionLimits
from motion_nodes.core.navigation.navigator import MotionResult, Navigator
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_motions import GoToPose
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.extras.tasks.task_plan import Plan, PlanStep
from motion_nodes.extras.tasks.task_runner import TaskRunner, TaskStatus
from motion_nodes.extras.tasks.world_state import STAND_OFF, ObjectState, WorldState
from motion_nodes.nodes.task.skill_parts import DriveOutlines
from motion_nodes.nodes.task.skill_robot import WorkExecution

LIMITS = MotionLimits(
    max_velocity=1.0,
    max_acceleration=0.8,
    max_deceleration=0.8,
    max_yaw_velocity=1.5,
    max_yaw_acceleration=1.5,
    max_yaw_deceleration=1.5,
)
SEEN_EVERY = 0.2
"""Period of updates of the planning scene [s]."""


class LockstepMobile(LockstepArm):
    """The robot; also the base and the robot of its tasks."""

    def __init__(self, model: mn.RobotModel, *objects: str) -> None:
        robot = model.description
        self._base: Any = model.base
        self._wheels = robot.indices(robot.base_joints)
        self._odometry = self._base.odometry()
        self._rolled: np.ndarray | None = None
        self._navigator, self._twist = Navigator(LIMITS, kind=robot.kind), Twist2()
        self._seen_at = 0.0
        super().__init__(*objects, model=model)
        self.outlines = DriveOutlines.of(robot)
        self._skills = self.skills(base=self)
        self.touched: set[frozenset[str]] = set()
        """Pairs of bodies of robot and objects that touched, by their names in MuJoCo."""

    def run_task(
        self, plan: Plan, each: Callable[[TaskRunner], None] = lambda _: None
    ) -> TaskRunner:
        """Execute a plan to its end; ``each`` is called in each cycle."""
        runner = TaskRunner(self, plan)
        while runner.tick() is TaskStatus.RUNNING:
            for _ in range(POLL):
                self.step()
            self._note_contacts()
            each(runner)
        return runner

    # ---- robot of a task

    def observe(self) -> WorldState:
        state = super().observe()
        return WorldState(state.objects, held=state.held, has_base=True, stand_off=STAND_OFF)

    def start(self, step: PlanStep, state: WorldState) -> WorkExecution:
        return WorkExecution(self._skills, step, state)

    # ---- base

    @property
    def pose(self) -> Pose2:
        """Pose by odometry; the world is the odometry frame."""
        odometry = self._odometry
        return Pose2(odometry.x, odometry.y, odometry.yaw)

    @property
    def X_WB(self) -> np.ndarray:
        x, y, yaw = self.pose
        return from_xyz_rpy((x, y, 0.0), (0.0, 0.0, yaw))

    def in_odom_now(self) -> Pose2:
        return self.pose

    def drive(self, goal: Pose2) -> Work:
        motion = GoToPose(self.robot.kind, goal, LIMITS, reversing=True)
        task = self._navigator.start(motion, "task", self._twist)
        while not task.ended:
            yield
        if task.ending is not MotionResult.SUCCEEDED:
            raise SkillFailed(task.text)

    def step(self) -> None:
        super().step()
        wheels = np.array(self.world.state("arm").position)[self._wheels]
        if self._rolled is not None:
            path = self._base.twist_from_wheels(wheels - self._rolled)
            self._odometry.advance(path, PERIOD)
            self._twist = path.scaled(1.0 / PERIOD)
        self._rolled = wheels
        if self.world.time >= self._seen_at + SEEN_EVERY:
            self._seen_at = self.world.time
            for name in set(self.scene.scene.objects) & set(self.world.objects):
                self.show(self._truth(name))

    def _command(self, *targets: np.ndarray) -> None:
        rows = np.full((3, len(self.robot.joint_names)), np.nan)
        rows[:, self._columns] = targets
        driven = self._navigator.step(self.pose, self._twist, PERIOD) or Twist2()
        rows[1, self._wheels] = self._base.wheels_from_twist(*driven)
        self.world.command("arm", JointTargets(*rows))

    # ---- objects

    def _truth(self, name: str) -> ObjectState:
        found = super()._truth(name)
        movable = max(found.shape.size) <= 0.3
        return ObjectState(name, inverse(self.X_WB) @ found.X_WO, found.shape, found.stamp, movable)

    def _note_contacts(self) -> None:
        model, data = self.world.model, self.world.data
        for pair in model.geom_bodyid[data.contact.geom[data.contact.dist < 0.0]]:
            names = [model.body(int(body)).name for body in pair]
            if sum(name.startswith("arm/") for name in names) == 1:
                self.touched.add(frozenset(names))
