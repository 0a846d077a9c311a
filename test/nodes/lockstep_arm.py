# SPDX-License-Identifier: Apache-2.0
"""A Franka in MuJoCo that executes skills, with controller, physics and skills in lockstep.

It stands for the motions, the impedance controller and the detector of a task server. Paths are
straight lines of the joints or of the tool, not planned ones; everything else is that of the nodes.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np

import motion_nodes as mn
from motion_nodes.core.control.active_trajectories import FollowGoal, Tolerances
from motion_nodes.core.control.cartesian_impedance import CartesianImpedance
from motion_nodes.core.control.contact_wrench import (
    ContactWrench,
    EffortResidual,
    Ripple,
    WrenchGuard,
    WrenchLimits,
)
from motion_nodes.core.control.gripper import GripperConfig, GripperMove, GripStatus
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import JointCommand
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.control.joint_drive import EffortLimiter, motion_load
from motion_nodes.core.control.pose_targets import ImpedanceSettings, PoseTrajectory
from motion_nodes.core.ik.problem import IkSettings
from motion_nodes.core.robot.inverse_dynamics import PayloadDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.scene import AttachedBody, world_object
from motion_nodes.core.scene.scenery import floor_of
from motion_nodes.core.scene.shapes import TriangleMesh
from motion_nodes.core.scene.world import World
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.world_state import (
    CompositeObject,
    ObjectState,
    WorldState,
    composite_of,
)
from motion_nodes.nodes.task.arm_motions import LEAD
from motion_nodes.nodes.task.skill_parts import SkillParts
from motion_nodes.nodes.task.skill_robot import RobotSkills
from motion_nodes.nodes.task.task_params import TaskServerParams

PERIOD, STEPS = 0.004, 2
"""Of the controller [s], and steps of the physics in it, as with the nodes."""
POLL = 5
"""Periods between two polls of a skill."""
GRIP = 30.0
"""Effort of each finger [N]."""
TOOL = "panda_hand_tcp"
MODEL = mn.load_robot("franka")
ROBOT = load_robot("franka")
Work = Iterator[None]


class LockstepArm:
    """The arm, its controller and the objects around it."""

    def __init__(self, *objects: str, model: mn.RobotModel = MODEL) -> None:
        robot = self.robot = model.description
        bodies = tuple(parse_free_body(word) for word in objects)
        config = WorldConfig(time_step=PERIOD / STEPS, objects=bodies)
        self.world = MujocoWorld([RobotPlacement(robot, "arm")], config)
        self.scene = World(floor_of(robot).scene())
        self.arm, self.gripper, self.max_width = model["arm"], model["gripper"], 0.08
        self.joints = robot.arm_joints
        self._columns = robot.indices(self.joints)
        self._arm = robot.group("arm").joints
        self._fingers = robot.group("gripper").joints
        self._i = np.array([self.joints.index(name) for name in self._arm])
        self._f = np.array([self.joints.index(name) for name in self._fingers])
        limits = robot.limits.select(self.joints)
        controller = ArticulationController(limits)
        start = robot.home[self._columns]
        controller.reset(start)
        self.runner = JointArbiter(controller)
        drives = [robot.drive(joint) for joint in self.joints]
        kp, kd = (np.array([getattr(d, name) for d in drives]) for name in ("stiffness", "damping"))
        self._dynamics = PayloadDynamics(robot, self.joints, TOOL)
        ripple = Ripple.of(kp, kd, limits.acceleration, 2.0 * PERIOD)
        self._residual = EffortResidual(self._dynamics, ripple)
        self._contact = ContactWrench(robot, self.joints, self._arm, TOOL)
        self._guard = WrenchGuard(WrenchLimits())
        self._limiter = EffortLimiter(kp, limits)
        self.law = CartesianImpedance(robot, settings=ImpedanceSettings())
        self._before: ImpedanceSettings | None = None
        self._move: GripperMove | None = None
        self.hidden: set[str] = set()
        self.detector = True
        """Whether poses of objects are detected."""
        self.mean_force = 0.0
        """Vertical force of objects on each other since the last poll of a skill [N], upwards."""
        model = self.world.model
        owners = [model.body(int(body)).name for body in model.geom_bodyid]
        self._of_objects = np.array([name.startswith("object:") for name in owners])
        """Whether a shape of the physics is one of an object."""
        for name in self.world.objects:
            self.show(self._truth(name))
        self._command(start, np.full(len(start), np.nan), self._dynamics.gravity(start))
        self.run(0.2)

    # ---- skills

    def skills(self, base: Any = None) -> RobotSkills:
        touching = frozenset({"panda_hand", "panda_leftfinger", "panda_rightfinger"})
        node: Any = SimpleNamespace(params=TaskServerParams(robot=self.robot.name))
        return RobotSkills(SkillParts(node, self, self, self, self.scene, touching, base))

    def execute(self, skills: RobotSkills, skill: str, **args: str) -> Iterator[str]:
        """Execute a skill; yields its phase at each poll. Raises SkillFailed."""
        phase: list[str] = [""]

        def enter(name: str) -> None:
            phase[0] = name

        work = skills.work_of(PlanStep(skill, args), self.observe(), enter)
        for _ in work:
            pushes = []
            for _ in range(POLL):
                self.step()
                pushes.append(self._force_between_objects())
            self.mean_force = float(np.mean(pushes))
            yield phase[0]
        yield phase[0]

    def do(self, skills: RobotSkills, skill: str, **args: str) -> str:
        """Execute a skill; return its last phase."""
        return list(self.execute(skills, skill, **args))[-1]

    # ---- tasks

    @property
    def held(self) -> str | None:
        return next(iter(self.scene.scene.attached), None)

    def states(self, _now: float) -> dict[str, Any]:
        return dict(self.observe().objects)

    def observe(self) -> WorldState:
        return WorldState({name: self._truth(name) for name in self.world.objects}, held=self.held)

    def stop(self) -> None:
        """What the joint controller does at a stop."""
        self.runner.stop_all("stopped")
        self._move = None

    # ---- physics

    @property
    def q(self) -> np.ndarray:
        return np.array(self.world.state("arm").position)[self._columns]

    @property
    def width(self) -> float:
        """Distance of the fingers [m]."""
        return float(self.q[self._f].sum())

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD)):
            self.step()

    def step(self) -> None:
        """One period of the controller, as the node does it."""
        measured = self.world.state("arm")[:3]
        q, v, effort = (np.array(values)[self._columns] for values in measured)
        residual = self._residual.update(self.world.time, q, v, effort)
        self._contact.update(self.world.time, q, v, self._residual, known=True)
        if found := self._guard.check(self._contact.certain):
            self.runner.stop_in_contact(found, np.isin(self.joints, self._arm), q)
        if self._move is not None and self._move.status is GripStatus.MOVING:
            far = self._f[int(np.argmax(np.abs(q[self._f] - self._move.goal)))]
            effort_to_goal = effort[self._f] * np.sign(self._move.goal - q[self._f])
            command = float(self.runner.controller.reference_position[far])
            pushing = bool(effort_to_goal.min() > 0.5 * GRIP)
            self._move.evaluate(float(q[far]), float(np.abs(v[self._f]).max()), PERIOD,
                             pushing=pushing, reference=command)  # fmt: skip
        reference = self.runner.step(PERIOD, q, v, residual=residual, effort=effort)
        bounds = self.runner.effort_bounds
        sent = self._limiter.limit(reference, q, bounds, PERIOD)
        load = motion_load(self._dynamics, reference, q, v, gravity=True, inertia=True)
        by_position = ~np.isnan(reference.positions) & np.isinf(bounds)
        efforts = np.where(by_position, np.nan_to_num(sent.efforts) + load, sent.efforts)
        self._command(sent.positions, sent.velocities, efforts)
        self.world.step(STEPS)

    def _command(self, *targets: np.ndarray) -> None:
        """Command positions, velocities and efforts of the joints of arm and hand, (n,) each."""
        rows = np.full((3, len(self.robot.joint_names)), np.nan)
        rows[:, self._columns] = targets
        self.world.command("arm", JointTargets(*rows))

    @property
    def pressing(self) -> bool:
        """Whether a force is commanded."""
        return bool(self.law._wrench.any())

    def friction(self, name: str, value: float) -> None:
        """Set the friction of an object with everything but the fingers."""
        self.world.model.geom(f"object:{name}/0").friction[0] = value

    def holds(self, name: str) -> bool:
        """Return whether an object is between the fingers, by the physics."""
        away = self.world.object_pose(name)[:3, 3] - self.tool_pose()[:3, 3]
        return bool(np.linalg.norm(away) < 0.06)

    def _force_between_objects(self) -> float:
        """Return the vertical force of the contacts of objects with each other [N]."""
        model, data = self.world.model, self.world.data
        between = self._of_objects[data.contact.geom].all(axis=1)
        total, wrench = 0.0, np.zeros(6)
        for k in np.flatnonzero(between):
            mujoco.mj_contactForce(model, data, k, wrench)
            frame = data.contact.frame[k].reshape(3, 3)
            total += abs(float(frame[:, 2] @ wrench[:3]))
        return total

    # ---- motions

    def positions(self) -> np.ndarray:
        return self.q[self._i]

    def tool_pose(self) -> np.ndarray:
        return self.arm.fk(self.positions())

    def to_joints(self, q: Any, what: str) -> Work:
        plan = self.arm.plan(self.positions(), q, self.scene)
        if not plan.success:
            raise SkillFailed(f"{what}: {plan.reason}")
        yield from self._follow_path(plan.path, 0.5, what)

    def to_state(self, name: str) -> Work:
        yield from self.to_joints(self.arm.state(name), name)

    def straight(self, *poses: Any, what: str, speed: float = 1.0, checked: bool = True) -> Work:
        q, path, at = self.positions(), [self.positions()], self.tool_pose()
        for pose in poses:
            count = int(np.ceil(np.linalg.norm(pose[:3, 3] - at[:3, 3]) / 0.005)) + 1
            for s in np.linspace(0.0, 1.0, count)[1:]:
                X = np.array(pose)
                X[:3, 3] = at[:3, 3] + s * (pose[:3, 3] - at[:3, 3])
                found = self.arm.ik(X, seed=q, settings=IkSettings(attempts=1))
                if not found.success:
                    raise SkillFailed(f"{what}: {found.reason}")
                q = found.q
                path.append(q)
            at = np.array(pose)
        yield from self._follow_path(path, speed, what)

    def open(self) -> Work:
        yield from self._to_width(0.04, np.inf)

    def close(self) -> Work:
        yield from self._to_width(0.0, GRIP)
        yield from self.wait(0.3)
        return self.width

    def cancel(self) -> None:
        self.runner.abort_all("canceled")

    def cancel_all(self) -> None:
        self.cancel()

    def grasp_report(self) -> str:
        return ""

    def limit_force(self, force: float | None) -> None:
        self._guard.limits = WrenchLimits(max_force=force or 0.0)

    def learn_force_limit(self) -> Work:
        yield

    def _to_width(self, goal: float, effort: float) -> Work:
        self._move = GripperMove(goal, GripperConfig(lower=0.0, upper=0.04))
        command = JointCommand(names=self._fingers, positions=[goal] * 2)
        self.runner.claim(command, "gripper", effort)
        while self._move.status is GripStatus.MOVING:
            yield
        if self._move.status is GripStatus.TIMED_OUT:
            raise SkillFailed("the gripper did not reach its position")

    def _follow_path(self, path: Sequence[np.ndarray], speed: float, what: str) -> Work:
        timed = self.arm.time_parameterize(
            self.arm.limits.clip(np.array(path)),
            velocity_scaling=speed,
            acceleration_scaling=speed,
            blend=0.001,
        )
        times = np.linspace(0.0, timed.duration, 2 + int(timed.duration / 0.01))
        found = [timed.sample(t) for t in times.tolist()]
        q, v, a = (np.array([s[k] for s in found]) for k in range(3))
        trajectory = mn.JointTrajectory(self._arm, times, q, v, a)
        loose, near = Tolerances.uniform(7, 0.0), Tolerances.uniform(7, 0.02)
        run = self.runner.start(
            FollowGoal(trajectory=trajectory, path=loose, goal=near, goal_time=3.0), what
        )
        while not run.status.ended:
            yield
        if run.status.name != "SUCCEEDED":
            raise SkillFailed(f"{what}: {run.status.name} {self.runner.fault}")

    # ---- impedance control

    @property
    def force(self) -> np.ndarray | None:
        law = self.runner.compliance.law
        if law is not None and law.status is not None:
            return law.status.external_wrench[:3].copy()
        value = self._contact.value[:3]
        return value.copy() if np.isfinite(value).all() else None

    def begin(self, settings: Mapping[str, Any]) -> Work:
        self._before = self.law.settings
        yield from self.change(settings)
        self.runner.comply(self.law, self.runner.begin_stream("activate"))

    def change(self, settings: Mapping[str, Any]) -> Work:
        given = {k.replace(".", "_"): tuple(v) if isinstance(v, list) else v
                 for k, v in settings.items()}  # fmt: skip
        self.law.set_settings(dataclasses.replace(self.law.settings, **given))
        payload = self.law.settings.payload_mass, self.law.settings.payload_center
        self._dynamics.set_payload(*payload)
        yield

    def end(self) -> Work:
        self.abort()
        yield

    def abort(self) -> None:
        if self._before is not None:
            self.runner.take(self._arm, "end")
            self.law.set_settings(self._before)
            self._dynamics.set_payload(self._before.payload_mass, self._before.payload_center)
            self._before = None

    def press(self, force: Sequence[float]) -> None:
        self.law.set_wrench((*force, 0.0, 0.0, 0.0))

    def follow(self, poses: Sequence[np.ndarray], speed: float) -> Work:
        lengths = [0.0] + [
            float(np.linalg.norm(b[:3, 3] - a[:3, 3])) for a, b in itertools.pairwise(poses)
        ]
        times = LEAD + np.cumsum(lengths) / speed
        self.law.set_trajectory(PoseTrajectory(times.tolist(), list(poses)))
        yield from self.wait(float(times[-1]))

    def wait(self, seconds: float) -> Work:
        end = self.world.time + seconds
        while self.world.time < end:
            yield

    # ---- objects

    def now(self) -> float:
        return self.world.time

    @property
    def reported_at(self) -> float:
        return self.world.time

    def detects(self, name: str) -> bool:
        return self.detector

    def detected(self, name: str) -> ObjectState | None:
        return self._truth(name) if self.detector else None

    def hide(self, item: ObjectState) -> None:
        if item.name in self.scene.scene.objects:
            self.scene.remove(item.name)

    def show(self, item: ObjectState) -> None:
        composite = self._composite(item.name)
        self.scene.add(
            world_object(item.name, item.shape, item.X_WO)
            if composite is None
            else composite.at(item.name, item.X_WO)
        )

    def attach(self, item: ObjectState, link: str, X_LO: np.ndarray, touching: Any) -> None:
        if item.name in self.scene.scene.attached:
            self.scene.detach(item.name, None)
        self.hide(item)
        composite = self._composite(item.name)
        if composite is None:
            parts = world_object(item.name, item.shape).parts
        else:
            parts, X_LO = composite.parts, composite.in_link(X_LO)
        self.scene.attach(AttachedBody(item.name, link, X_LO, parts, touching))

    def detach(self, item: ObjectState) -> None:
        self.scene.detach(item.name, None)

    def forget(self, name: str) -> None:
        pass

    def _truth(self, name: str) -> ObjectState:
        composite, X = self._composite(name), self.world.object_pose(name)
        if composite is None:
            return ObjectState(name, X, self.world.free_body(name).geometry, self.world.time)
        X, mesh = X @ composite.X_OB, composite.mesh
        return ObjectState(name, X, composite.box, self.world.time, mesh=mesh)

    def _composite(self, name: str) -> CompositeObject | None:
        """Return the shape of an object that is a mesh."""
        solid = self.world.free_body(name).solid
        return composite_of(world_object(name, solid)) if isinstance(solid, TriangleMesh) else None
