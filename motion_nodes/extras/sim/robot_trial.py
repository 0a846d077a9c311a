# SPDX-License-Identifier: Apache-2.0
"""Test of a robot in simulation: standing, motion of its groups, driving, motion planning.

Many values of a new robot's description are estimates; a wrong estimate fails one of these tests.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.bases.odometry import arc_displacement
from motion_nodes.core.planning.pipeline import plan
from motion_nodes.core.planning.planning_problem import JointGoal, PlanRequest
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import DifferentialSpec
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.errors import MotionError
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import set_positions
from motion_nodes.extras.sim.mjcf_shapes import lowest_point
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.typing import Array

_STAND = 1.0
"""Duration of the test at rest [s]."""
_SAG = 0.05
"""Max position error of a joint that holds its position [rad or m]."""
_TILT = 0.3
"""Max inclination of a base at rest [rad]."""
_FALL = 0.2
"""Max distance by which the base of a robot at rest sinks [m]."""
_MOVE, _MOVE_TIME = 0.3, 1.5
"""Displacement of each joint of a group [rad], and its duration [s]."""
_SLIDE = 0.03
"""Displacement of sliding joints [m]."""
_DIRECTIONS = 30
"""Max number of random directions sampled for a contact-free motion within the effort limits."""
_HELD = 0.9
"""Max load of a joint, as a fraction of its effort limit."""
_DISTANCE, _ANGLE = 1.0, 0.5 * math.pi
"""Distance and angle of the drives of a base [m, rad]."""
_DRIVE_ERROR, _TURN_ERROR = 0.1, 0.15
"""Max relative error of odometry after these drives."""
_HEADING_ERROR = 0.15
"""Max error of the heading after a straight drive, per metre [rad/m]."""
_ASIDE = 0.03
"""Max error of the position after a turn on two wheels, per radian [m/rad]."""
_LONGEST_DRIVE = 20.0
"""Max duration of a drive [s]."""
_MOST_SKID = 8.0
"""Max plausible ratio of effective and geometric wheel separation."""
_STILL = 1e-3
"""Displacement below which nothing has moved [rad or m]."""
_LEAST = 0.5
"""Min fraction of a commanded distance or angle that the wheels travel."""
_WEAK = "check the wheels' effort limits and the friction of casters and floor"
_HANGING = 0.01
"""Depth of an arm below its base beyond which there is no floor [m]."""
_NAME = "robot"


@dataclass(frozen=True)
class TrialStep:
    """Result of one test."""

    name: str
    passed: bool
    text: str
    """The measurement, or the fault and its remedy."""


def try_robot(
    robot: Robot, progress: Callable[[str], None] = lambda text: None
) -> tuple[TrialStep, ...]:
    """Test a robot in MuJoCo, and plan a motion of its main group.

    Args:
        robot: the robot.
        progress: called with the name of each step.
    """
    return tuple(_Trial(robot, progress).steps())


def effective_separation(robot: Robot) -> float | None:
    """Return the wheel separation with which skid-steering matches the odometry [m].

    The wheels of a skid-steered base slip sideways in a turn, so it turns less than its kinematics
    predict (the ratio is the ``wheel_separation_multiplier`` of ros2_controllers).

    Args:
        robot: the robot.

    Returns:
        The value measured in simulation; None for other bases, or if it cannot turn.
    """
    if not isinstance(robot.base, DifferentialSpec) or len(robot.base.wheel_names) <= 2:
        return None
    trial = _Trial(robot, lambda text: None)
    trial.build()
    odometry, truth = (moved.wz for moved in trial.turned())
    ratio = odometry / truth if truth > 0.05 else math.inf
    return robot.base.wheel_separation * ratio if 0.5 < ratio < _MOST_SKID else None


class _Trial:
    """Trial of one robot."""

    def __init__(self, robot: Robot, progress: Callable[[str], None]) -> None:
        self._robot, self._progress = robot, progress
        self._placement = RobotPlacement(robot, _NAME)
        self._wheels = robot.base.wheel_names if robot.base is not None else ()
        free = {*robot.passive_joints, *self._wheels}
        self._held = np.array([name not in free for name in robot.joint_names])
        """Joints that hold positions, shape (n,)."""

    def steps(self) -> Iterator[TrialStep]:
        """Yield the results; only the first if the simulation cannot be built."""
        self._progress("building the simulation")
        try:
            self.build()
        except MotionError as error:
            yield TrialStep("simulation", False, str(error))
            return
        # The simulation leaves the second processor, and most of the time Python's lock, to a plan.
        with ThreadPoolExecutor(1, "trial") as beside:
            yield from self._moved(beside)

    def _moved(self, beside: Executor) -> Iterator[TrialStep]:
        # No motion is planned for a leg.
        least = 6 if self._robot.kind == "floating" else 1
        groups = self._robot.groups.values()
        plans = any(group.tip and len(group.joints) >= least for group in groups)
        planned = beside.submit(self._plan).result if plans else None
        yield from self._tried([("stands", self._stand)])
        for together in self._disjoint_groups():
            yield from self._groups_moved(together)
        if self._robot.base is not None:
            drive, turn = f"drives {_DISTANCE:g} m", f"turns {math.degrees(_ANGLE):g} degrees"
            yield from self._tried([(drive, self._drive), (turn, self._turn)])
        if planned is not None:
            yield from self._tried([("plans a motion", planned)])

    def _tried(self, actions: Iterable[tuple[str, Callable[[], str]]]) -> Iterator[TrialStep]:
        for name, action in actions:
            self._progress(name)
            try:
                yield TrialStep(name, True, action())
            except MotionError as error:
                yield TrialStep(name, False, str(error))

    def build(self) -> None:
        """Build the simulation, without a floor for an arm that reaches below its base."""
        self._world = MujocoWorld([self._placement])
        lowest = lowest_point(self._world.model, self._world.data, _NAME, 0.0)
        if self._robot.kind == "arm" and lowest < -_HANGING:
            self._remove_floor()

    def _remove_floor(self) -> None:
        floor = self._world.model.geom("floor")
        floor.contype[:] = floor.conaffinity[:] = 0

    # ---- steps; each raises MotionError if it fails

    def _stand(self) -> str:
        self._world.reset()
        start = self._world.base_pose(_NAME)
        self._run(_STAND)
        self._check_joints(self._robot.home, "holding 'home'")
        X_WB = self._world.base_pose(_NAME)
        tilt = math.acos(min(1.0, max(-1.0, float(X_WB[:3, 2] @ start[:3, 2]))))
        if tilt > _TILT:
            raise MotionError(
                f"it falls over: within {_STAND:g} s its base tilts by "
                f"{math.degrees(tilt):.0f} degrees; check named_states.home and the masses"
            )
        fallen = float(start[2, 3] - X_WB[2, 3])
        if fallen > _FALL:
            raise MotionError(
                f"its base sinks by {fallen:.2f} m within {_STAND:g} s; check the collision "
                "geometry of its feet or wheels, and named_states.home"
            )
        return f"for {_STAND:g} s; the base moved by {1e3 * abs(fallen):.0f} mm in height"

    def _disjoint_groups(self) -> list[dict[str, list[str]]]:
        """Return the joints of all groups, by name, in lists of groups without common joints."""
        rounds: list[dict[str, list[str]]] = []
        for group in self._robot.groups.values():
            joints = [name for name in group.joints if name not in self._wheels]
            taken = (r for r in rounds if not any({*joints} & {*others} for others in r.values()))
            if joints and (together := next(taken, None)) is not None:
                together[group.name] = joints
            elif joints:
                rounds.append({group.name: joints})
        return rounds

    def _groups_moved(self, groups: Mapping[str, list[str]]) -> Iterator[TrialStep]:
        """Move groups at once; one by one if that fails, to tell which of them cannot move."""
        if len(groups) > 1:
            self._progress(f"moves {', '.join(groups)}")
            try:
                texts = self._move(list(groups.values()))
            except MotionError:
                pass
            else:
                for name, text in zip(groups, texts, strict=True):
                    yield TrialStep(f"moves {name}", True, text)
                return
        yield from self._tried(
            (f"moves {name}", lambda joints=joints: self._move([joints])[0])  # type: ignore[misc]
            for name, joints in groups.items()
        )

    def _move(self, groups: Sequence[list[str]]) -> list[str]:
        """Move the joints of disjoint groups at once; return the measurement of each."""
        robot = self._robot
        # The legs of a standing robot cannot be moved one by one: test them without gravity.
        if robot.kind == "floating":
            self._world.model.opt.gravity[:] = 0.0
            self._remove_floor()
        self._world.reset()
        end = robot.home.copy()
        for joints in groups:
            columns = robot.indices(joints)
            end[columns] = self._end_of(joints)[columns]
        if len(groups) > 1 and not self._is_free_to(end):
            raise MotionError("the groups touch each other if they move at once")
        steps = max(1, round(_MOVE_TIME / self._world.time_step))
        for k in range(1, steps + 1):
            share = k / steps
            smooth = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
            self._command(robot.home + smooth * (end - robot.home))
            self._world.step()
        self._run(0.3)
        self._check_joints(end, "at the end of the motion")
        return [self._reached(joints, end) for joints in groups]

    def _end_of(self, joints: list[str]) -> Array:
        """Return the end of a short motion of a group from home, shape (n,)."""
        robot = self._robot
        columns = robot.indices(joints)
        limits = robot.limits.select(joints)
        start = robot.home[columns]
        sliding = np.array([robot.tree.joints[name].kind is JointKind.PRISMATIC for name in joints])
        reach = np.minimum(np.where(sliding, _SLIDE, _MOVE), 0.5 * limits.velocity * _MOVE_TIME)
        bounded = np.isfinite(limits.upper - limits.lower)
        ends_of = np.where(bounded, (limits.lower, limits.upper), start)
        middle = 0.5 * (ends_of[0] + ends_of[1])
        inwards = np.where(middle >= start, 1.0, -1.0)
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (_DIRECTIONS, len(joints)))
        ends = []
        for direction in (inwards, -inwards, *signs):
            end = robot.home.copy()
            end[columns] = limits.clip(start + direction * reach)
            ends.append(end)
        # The first one without contacts with the floor or the robot itself; else the first one.
        end = next(filter(self._is_free_to, ends), ends[0])
        if np.abs(end[columns] - start).max() < _STILL:
            stuck = zip(joints, limits.velocity, strict=True)
            stopped = ", ".join(name for name, velocity in stuck if velocity <= 0.0)
            why = f"the velocity of {stopped} is 0" if stopped else "their limits leave no room"
            raise MotionError(f"nothing moves: {why}; check the limits in the URDF")
        return np.asarray(end)

    def _reached(self, joints: list[str], end: Array) -> str:
        """Return how far the joints of a group moved, and how far they are off."""
        columns = self._robot.indices(joints)
        start, goal = self._robot.home[columns], end[columns]
        reached = self._world.state(_NAME).position[columns]
        if np.abs(reached - start).max() < 0.5 * np.abs(goal - start).max():
            raise MotionError(
                f"nothing moves: {', '.join(joints)} are still at their start; check the drives "
                "and whether their links collide"
            )
        off = np.abs(reached - goal).max()
        return f"by up to {np.abs(goal - start).max():.2g} rad or m, {1e3 * off:.1f} mrad or mm off"

    def _is_free_to(self, end: Array) -> bool:
        """Return whether the straight motion from home has no new contacts and feasible efforts."""
        data = copy.copy(self._world.data)
        home, held = self._contacts_at(self._robot.home, data)
        path = (self._robot.home + share * (end - self._robot.home) for share in (0.3, 0.6, 1.0))
        found = [self._contacts_at(q, data) for q in path]
        return all(touching <= home and (can or not held) for touching, can in found)

    def _contacts_at(self, q: Array, data: mujoco.MjData) -> tuple[set[tuple[int, int]], bool]:
        """Return the pairs of bodies in contact, and whether the drives can hold ``q``."""
        model = self._world.model
        set_positions(data, self._placement, q)
        mujoco.mj_forward(model, data)
        pairs = model.geom_bodyid[data.contact.geom[data.contact.dist < 0.0]]
        addresses = [model.joint(f"{_NAME}/{n}").dofadr[0] for n in self._robot.joint_names]
        load = np.abs(data.qfrc_bias[addresses])
        held = bool((load <= _HELD * self._robot.limits.effort).all())
        return {(int(a), int(b)) for a, b in pairs}, held

    def _drive(self) -> str:
        limits = self._robot.base.linear.x  # type: ignore[union-attr]
        twist = Twist2(0.7 * limits.max_velocity, 0.0, 0.0)
        rolled, moved = self._driven(twist, _DISTANCE / twist.vx)
        odometry, truth, turned = rolled.vx, moved.vx, moved.wz - rolled.wz
        expected = min(_DISTANCE, twist.vx * _LONGEST_DRIVE)
        if odometry < _LEAST * expected:
            raise MotionError(f"the wheels turned for {odometry:.2f} of {expected:.2f} m; {_WEAK}")
        if truth < (1.0 - 2.0 * _DRIVE_ERROR) * odometry or abs(truth - odometry) > (
            _DRIVE_ERROR * odometry
        ):
            raise MotionError(
                f"the wheels turned for {odometry:.2f} m, the base moved {truth:.2f} m; check "
                "wheel_radius, the wheels' axes and the contacts with the floor"
            )
        if abs(turned) > _HEADING_ERROR * odometry:
            raise MotionError(
                f"on {odometry:.2f} m straight ahead the base turned by "
                f"{math.degrees(turned):.0f} degrees; check the radii of the wheels of each side "
                "and what drags on the floor"
            )
        return f"{truth:.3f} m, by odometry {odometry:.3f} m"

    def turned(self) -> tuple[Twist2, Twist2]:
        """Turn; return the motion measured by the wheels, and the ground truth [m, m, rad].

        Raises:
            MotionError: the wheels cannot turn the base.
        """
        twist = self._turn_twist
        if not twist.wz > 0.0:
            raise MotionError(
                "its wheels cannot turn it; check the roller angles and the positions of the wheels"
            )
        return self._driven(twist, _ANGLE / twist.wz)

    @property
    def _turn_twist(self) -> Twist2:
        """Twist of a turn; that of a car is as tight as its steering permits."""
        base, robot = self._robot.base, self._robot
        assert base is not None
        vx = 0.5 * base.linear.x.max_velocity if robot.kind == "ackermann" else 0.0
        commanded = Twist2(vx, 0.0, 0.5 * base.angular.z.max_velocity)
        return base_of(robot).nearest_twist(commanded)

    def _turn(self) -> str:
        rolled, moved = self.turned()
        odometry, truth = rolled.wz, moved.wz
        expected = min(_ANGLE, self._turn_twist.wz * _LONGEST_DRIVE)
        if odometry < _LEAST * expected:
            raise MotionError(
                f"the wheels turned for {math.degrees(odometry):.0f} of "
                f"{math.degrees(expected):.0f} degrees; {_WEAK}"
            )
        if abs(truth - odometry) > _TURN_ERROR * odometry:
            raise MotionError(
                f"the wheels turned for {math.degrees(odometry):.0f} degrees, the base by "
                f"{math.degrees(truth):.0f}; check wheel_separation, the wheels' axes and the "
                "contacts with the floor"
            )
        aside = math.dist((moved.vx, moved.vy), arc_displacement(rolled))
        # Four and more wheels skid about a point that depends on the load.
        if aside > _ASIDE * odometry and len(self._wheels) == 2:
            raise MotionError(
                f"in a turn by {math.degrees(odometry):.0f} degrees the base frame was {aside:.3f} "
                "m beside its odometry; check that frames.base is on the fixed axle"
            )
        return f"{math.degrees(truth):.1f} degrees, by odometry {math.degrees(odometry):.1f}"

    def _plan(self) -> str:
        robot = self._robot
        group = max((g for g in robot.groups.values() if g.tip), key=lambda g: len(g.joints))
        checker = CollisionChecker(robot, group.joints)
        columns = robot.indices(group.joints)
        goal = robot.home[columns]
        ready = robot.states.get("ready", {})
        goal = np.array([ready.get(n, q) for n, q in zip(group.joints, goal, strict=True)])
        to = "'ready'"
        if np.abs(goal - robot.home[columns]).max() < _STILL:
            goal, to = self._somewhere_free(checker, robot.home[columns]), "a random configuration"
        found = plan(PlanRequest(checker, robot.home[columns], (JointGoal(goal),), timeout=5.0))
        if found.path is None:
            raise MotionError(f"no motion from 'home' to {to}: {found.result.reason}")
        return f"from 'home' to {to} in {found.result.time:.3f} s"

    @staticmethod
    def _somewhere_free(checker: CollisionChecker, home: Array) -> Array:
        """Return a collision-free configuration at a distance from home, shape (n,)."""
        limits, rng = checker.limits, np.random.default_rng(0)
        low = np.maximum(limits.lower, home - math.pi)
        high = np.minimum(limits.upper, home + math.pi)
        Q = rng.uniform(low, high, (1000, len(home)))
        away = np.abs(Q - home).max(axis=1) > _STILL
        for q in Q[away & checker.are_free(Q)]:
            if checker.exact.is_free(q):
                return np.asarray(q)
        raise MotionError(
            "no other configuration than 'home' is free of collisions; check the collision "
            "geometry and the limits of the joints"
        )

    # ---- helpers

    def _command(self, q: Array) -> None:
        self._world.command(_NAME, JointTargets(position=np.where(self._held, q, np.nan)))

    def _run(self, duration: float) -> None:
        self._world.step(max(1, round(duration / self._world.time_step)))

    def _check_joints(self, desired: Array, when: str) -> None:
        off = np.where(self._held, np.abs(self._world.state(_NAME).position - desired), 0.0)
        i = int(np.argmax(off))
        if not off[i] <= _SAG:
            name = self._robot.joint_names[i]
            raise MotionError(
                f"{name} is {off[i]:.3g} from its reference {when}; check its effort limit, the "
                "gains in drives, and whether its links collide"
            )

    def _driven(self, twist: Twist2, duration: float) -> tuple[Twist2, Twist2]:
        """Drive with a twist; return the motion of the wheels, and the ground truth [m, m, rad]."""
        world, robot = self._world, self._robot
        world.reset()
        self._run(0.5)
        base = base_of(robot)
        duration = min(duration, _LONGEST_DRIVE)
        steering = base.steer(twist, np.zeros(len(base.steering_names)), 100.0)
        columns = robot.indices(base.wheel_names)
        begin = world.state(_NAME).position[columns]
        X = world.base_pose(_NAME)
        turned, yaw = 0.0, math.atan2(X[1, 0], X[0, 0])
        steps = round((duration + 0.5) / world.time_step)
        ramp = max(1, round(0.5 / world.time_step))
        for k in range(steps):
            share = min(1.0, (k + 1) / ramp, max(0.0, (steps - k) / ramp))
            velocity = np.full(len(robot.joint_names), np.nan)
            velocity[columns] = base.wheels_from_twist(twist.scaled(share))
            position = np.full(len(robot.joint_names), np.nan)
            position[robot.indices(base.steering_names)] = steering
            world.command(_NAME, JointTargets(position, velocity))
            world.step()
            now, last = world.base_pose(_NAME), yaw
            yaw = math.atan2(now[1, 0], now[0, 0])
            turned += math.remainder(yaw - last, 2.0 * math.pi)
        rolled = base.twist_from_wheels(world.state(_NAME).position[columns] - begin, steering)
        moved = X[:2, :2].T @ (world.base_pose(_NAME)[:2, 3] - X[:2, 3])
        return rolled, Twist2(float(moved[0]), float(moved[1]), turned)
