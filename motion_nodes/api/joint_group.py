# SPDX-License-Identifier: Apache-2.0
"""A group of joints: kinematics, collision checks, planning and reactive motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.api.reactive_policy import ReactivePolicy
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.ik.chain import IkChain
from motion_nodes.ik.problem import IkBatchResult, IkRequest, IkResult, IkSettings
from motion_nodes.ik.solver import LeastSquaresIk
from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.limits import JointLimits
from motion_nodes.model.robot import Robot
from motion_nodes.model.tree import Array
from motion_nodes.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.planning.planning_problem import Goal, JointGoal, PlanRequest, PoseGoal
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.scene import Scene
from motion_nodes.scene.world import World
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.time_parameterization import retime
from motion_nodes.trajectory.timed_path import TimedPath

_EMPTY = Scene()


class JointGroup:
    """Joints that move together, such as an arm: ``robot["arm"]``.

    Configurations hold this group's joints only, in the order of ``joint_names``; other joints
    stand as in ``home``. Poses are of the group's tip in its base frame.
    """

    def __init__(self, robot: Robot, name: str) -> None:
        """Select a group; ``robot[name]`` makes one."""
        self._robot, self._group = robot, robot.group(name)
        self._checker: CollisionChecker | None = None

    def __repr__(self) -> str:
        """Return name, joints, base and tip."""
        ends = f": {self._group.base} to {self._group.tip}" if self._group.tip else ""
        return f"JointGroup({self.name}, {len(self.joint_names)} joints{ends})"

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._group.name

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints from base to tip, in the order of ``q``."""
        return self._group.joints

    @property
    def limits(self) -> JointLimits:
        """Limits of position, velocity, acceleration, jerk and effort, shape (n,) each."""
        return self._group.limits

    @property
    def base(self) -> str | None:
        """Frame that poses are relative to; None for a group that is no chain."""
        return self._group.base

    @property
    def tip(self) -> str | None:
        """Frame that is positioned; None for a group that is no chain."""
        return self._group.tip

    @property
    def state_names(self) -> tuple[str, ...]:
        """Named states that say something about this group."""
        names = set(self.joint_names)
        states = self._robot.states
        return tuple(n for n, state in states.items() if n == "home" or set(state) & names)

    def state(self, name: str) -> Array:
        """Return a named state [rad or m], shape (n,), read-only.

        Args:
            name: as in ``state_names``.

        Raises:
            UnknownState: lists the states of this group.
        """
        return self._robot.named_state(name, self.name)

    def random(self, count: int | None = None, *, seed: int | None = None) -> Array:
        """Return uniformly random configurations within limits, joints without limits in +-pi.

        Args:
            count: how many; None: one.
            seed: of the random numbers; None: different ones at each call.

        Returns:
            Shape (n,), or (count, n) [rad or m].
        """
        lower, upper = self.limits.lower, self.limits.upper
        low = np.where(np.isfinite(lower), lower, -np.pi)
        high = np.where(np.isfinite(upper), upper, np.pi)
        size = (len(low),) if count is None else (count, len(low))
        return np.random.default_rng(seed).uniform(low, high, size)

    # ---- kinematics

    def fk(self, q: ArrayLike, frame: str | None = None) -> Array:
        """Return the pose of the tip in the group's base.

        Args:
            q: positions [rad or m], shape (n,).
            frame: another frame than the tip.

        Returns:
            ``X_BT``, shape (4, 4).

        Raises:
            InvalidCommand: not n numbers.
            UnknownFrame: lists the frames.
            InvalidConfig: the group is no chain and ``frame`` is not given.
        """
        return self._kinematics.pose(q, self._frame(frame))

    def fk_batch(self, Q: ArrayLike, frame: str | None = None) -> Array:
        """Return the poses of m configurations (m, n) as shape (m, 4, 4); see :meth:`fk`.

        Args:
            Q: positions [rad or m], shape (m, n).
            frame: another frame than the tip.

        Returns:
            ``X_BT`` of each configuration, shape (m, 4, 4).

        Raises:
            InvalidCommand: another shape.
            UnknownFrame: lists the frames.
            InvalidConfig: the group is no chain and ``frame`` is not given.
        """
        return self._kinematics.pose_batch(Q, self._frame(frame))

    def jacobian(self, q: ArrayLike, frame: str | None = None) -> Array:
        """Return the geometric Jacobian of the tip in the axes of the group's base.

        Args:
            q: positions [rad or m], shape (n,).
            frame: another frame than the tip.

        Returns:
            ``J_BT``, shape (6, n): linear velocity rows [m/s per rad/s or m/s], then angular rows.

        Raises:
            InvalidCommand: not n numbers.
            UnknownFrame: lists the frames.
            InvalidConfig: the group is no chain and ``frame`` is not given.
        """
        return self._kinematics.jacobian(q, self._frame(frame))

    def ik(
        self,
        X_BT: ArrayLike,
        seed: ArrayLike | str | None = None,
        *,
        world: World | None = None,
        settings: IkSettings | None = None,
        locked: Mapping[str, float] | None = None,
        validity: Callable[[Array], bool | str] | None = None,
    ) -> IkResult:
        """Solve inverse kinematics.

        Args:
            X_BT: target pose of the tip in the group's base, shape (4, 4).
            seed: configuration to start from, shape (n,), or a named state; the solution is near
                it where possible. Default: the middle of the joints' ranges.
            world: obstacles; solutions then are free of collisions, with the robot itself too.
            settings: tolerances, timeout, number of restarts.
            locked: joints that keep a value [rad or m].
            validity: further condition on a solution; returns True, or why it is rejected.

        Returns:
            ``.success``, ``.q`` of shape (n,) within limits, ``.reason`` if there is no solution.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or no pose.
            UnknownJoint: a locked joint is not in this group.
            InvalidConfig: the group is no chain.
        """
        start = self._configuration(seed, "seed") if seed is not None else None
        request = IkRequest(
            X_BT, start, locked=locked, validity=self._valid(world, validity), settings=settings
        )
        return self._solver.solve(request)

    def ik_batch(
        self, X_BT: ArrayLike, seeds: ArrayLike | None = None, *, settings: IkSettings | None = None
    ) -> IkBatchResult:
        """Solve inverse kinematics for m poses on all processors.

        Args:
            X_BT: target poses of the tip in the group's base, shape (m, 4, 4).
            seeds: configurations to start from, shape (m, n), or (n,) for all.
            settings: tolerances, timeout of each pose, number of restarts.

        Returns:
            ``.solved`` of shape (m,), ``.q`` of shape (m, n), ``.status`` of each pose.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or no poses.
            InvalidConfig: the group is no chain.
        """
        return self._solver.solve_batch(X_BT, seeds, settings=settings)

    # ---- collision checks

    def collision_free(self, q: ArrayLike, world: World | None = None) -> bool:
        """Return whether a configuration is free of collisions; limits do not count.

        Args:
            q: positions [rad or m], shape (n,).
            world: obstacles; None: the robot alone.

        Raises:
            InvalidCommand: not n numbers.
        """
        return self.checker(world).exact.is_free(q)

    def collision_free_batch(self, Q: ArrayLike, world: World | None = None) -> NDArray[np.bool_]:
        """Return whether each of m configurations (m, n) is free of collisions, shape (m,).

        Args:
            Q: positions [rad or m], shape (m, n).
            world: obstacles; None: the robot alone.

        Returns:
            One truth value per configuration, shape (m,).

        Raises:
            InvalidCommand: another shape.
        """
        return self.checker(world).exact.are_free(Q)

    def problems(self, q: ArrayLike, world: World | None = None) -> tuple[str, ...]:
        """Return what is wrong with a configuration: limits and collisions, with names and depths.

        Args:
            q: positions [rad or m], shape (n,).
            world: obstacles; None: the robot alone.

        Returns:
            One sentence per problem; empty if the configuration is valid.

        Raises:
            InvalidCommand: not n numbers.
        """
        return self.checker(world).exact.problems(q)

    def checker(self, world: World | None = None) -> CollisionChecker:
        """Return the collision checker of this group in a world as it is now.

        Args:
            world: obstacles; None: the robot alone.

        Returns:
            An independent checker, with clearances, distances and edge checks.

        Raises:
            UnknownFrame: something is attached to a link that the robot does not have.
        """
        if self._checker is None:
            self._checker = CollisionChecker(self._robot, self.name)
        scene = _EMPTY if world is None else world.scene
        if self._checker.scene is not scene:
            changed = self._checker.snapshot()
            changed.set_scene(scene)
            self._checker = changed  # keeps what was prepared for this scene
        return self._checker.snapshot()

    # ---- motion

    def plan(
        self,
        start: ArrayLike | str,
        goal: ArrayLike | str | Goal | tuple[Goal, ...],
        world: World | None = None,
        *,
        timeout: float = 5.0,
        seed: int = 123456,
        options: PlanOptions | None = None,
    ) -> MotionPlan:
        """Plan a collision-free motion within all limits.

        Args:
            start: configuration [rad or m], shape (n,), or a named state.
            goal: configuration, shape (n,); named state; pose of the tip in the group's base,
                shape (4, 4); or goals with tolerances (:class:`JointGoal`, :class:`PoseGoal`), of
                which any is to be reached.
            world: obstacles; None: the robot alone.
            timeout: planning time [s].
            seed: of random numbers: equal requests give equal paths.
            options: planner and its settings, scaling of velocity and acceleration.

        Returns:
            ``.success``, ``.reason`` if there is none, ``.path`` of shape (k, n), and
            ``.trajectory`` with times [s], positions, velocities and accelerations.

        Raises:
            InvalidCommand: wrong shapes or numbers that are not finite.
            InvalidConfig: options outside their ranges; a joint without limits.
        """
        checker = self.checker(world)
        q = self._configuration(start, "start")
        request = PlanRequest(checker, q, self._goals(goal), timeout, seed)
        return plan(request, options)

    def time_parameterize(
        self,
        path: ArrayLike,
        *,
        velocity_scaling: float = 1.0,
        acceleration_scaling: float = 1.0,
        blend: float = 0.01,
    ) -> TimedPath:
        """Return the fastest motion along a path within velocity, acceleration and jerk limits.

        Args:
            path: waypoints joined by straight lines [rad or m], shape (k, n).
            velocity_scaling: share of the velocity limits, above 0 to 1.
            acceleration_scaling: share of the acceleration and jerk limits, above 0 to 1.
            blend: max deviation at a corner [rad or m]; 0: stop there.

        Returns:
            ``.duration`` [s], ``.sample(t)``, ``.points(step)``.

        Raises:
            InvalidCommand: waypoints that are no path, outside limits or not finite.
            InvalidConfig: a joint without limits; a scaling out of range.
        """
        return retime(
            path,
            self.limits,
            velocity_scaling=velocity_scaling,
            acceleration_scaling=acceleration_scaling,
            blending=CornerBlending(deviation=blend),
        )

    def rmpflow(self, world: World | None = None) -> ReactivePolicy:
        """Return a reactive policy that moves the tip to targets around the world's obstacles.

        Args:
            world: obstacles; it may change while the policy runs.

        Returns:
            ``policy.step(q, qd, target, dt)`` gives the next reference.

        Raises:
            InvalidConfig: the group is no chain.
            InvalidDescription: the robot has no RMPflow settings.
        """
        return ReactivePolicy(self._robot, self.name, self._frame(None), world)

    # ---- inside

    @cached_property
    def _kinematics(self) -> Kinematics:
        fixed = self._others_at_home()
        base = self._group.base or self._robot.base_frame
        return Kinematics(self._robot.tree, self.joint_names, fixed=fixed, base=base)

    @cached_property
    def _solver(self) -> LeastSquaresIk:
        return LeastSquaresIk(IkChain.of_group(self._robot, self.name))

    def _others_at_home(self) -> dict[str, float]:
        home = zip(self._robot.joint_names, self._robot.home.tolist(), strict=True)
        return {name: value for name, value in home if name not in self.joint_names}

    def _frame(self, frame: str | None) -> str:
        name = frame or self._group.tip
        if name is None:
            raise InvalidConfig(
                f"group '{self.name}' of {self._robot.name} has no tip; name a frame: "
                f"{', '.join(self._robot.tree.frame_names)}."
            )
        return name

    def _configuration(self, value: ArrayLike | str, what: str) -> Array:
        if isinstance(value, str):
            return self.state(value)
        try:
            q = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            q = np.empty(0)
        if q.shape != self.limits.lower.shape:
            raise InvalidCommand(
                f"{what} must hold {len(self.joint_names)} positions "
                f"({', '.join(self.joint_names)}), got {value!r}."
            )
        return q

    def _valid(
        self, world: World | None, condition: Callable[[Array], bool | str] | None
    ) -> Callable[[Array], bool | str] | None:
        if world is None:
            return condition
        checker = self.checker(world)

        def valid(q: Array) -> bool | str:
            problems = () if checker.exact.is_free(q) else checker.exact.problems(q)
            if problems:
                return problems[0]
            return True if condition is None else condition(q)

        return valid

    def _goals(self, goal: ArrayLike | str | Goal | tuple[Goal, ...]) -> tuple[Goal, ...]:
        if isinstance(goal, JointGoal | PoseGoal):
            return (goal,)
        if isinstance(goal, tuple) and goal and isinstance(goal[0], JointGoal | PoseGoal):
            return goal  # type: ignore[return-value]
        if not isinstance(goal, str):
            X = np.asarray(goal, dtype=np.float64)
            if X.shape == (4, 4):
                return (PoseGoal(self._frame(None), self._in_robot_base(X)),)
        return (JointGoal(self._configuration(goal, "goal")),)  # type: ignore[arg-type]

    def _in_robot_base(self, X_GT: Array) -> Array:
        """Return a pose given in the group's base, in the robot's base frame."""
        base, root = self._group.base, self._robot.base_frame
        if base in (None, root):
            return X_GT
        whole = Kinematics(self._robot.tree, base=root)
        return np.asarray(whole.pose(self._robot.home, str(base)) @ X_GT)
