# SPDX-License-Identifier: Apache-2.0
"""A group of joints: kinematics, collision checks, planning and reactive motion."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.api.batches import PLANS, ik_parts, many, pairs_of, plan_part, run_parts, split
from motion_nodes.api.group_inputs import GroupInputs, RobotState, shape_of
from motion_nodes.api.reactive_policy import ReactivePolicy
from motion_nodes.core.ik.chain import IkChain
from motion_nodes.core.ik.problem import IkBatchResult, IkRequest, IkResult, IkSettings
from motion_nodes.core.ik.relaxed_poses import solve_reachable
from motion_nodes.core.ik.solver import LeastSquaresIk
from motion_nodes.core.ik.tasks_and_limits import BaseMotion, Configuration
from motion_nodes.core.planning.path_constraints import PathConstraint
from motion_nodes.core.planning.path_tools import interpolate_joint_waypoints, waypoints_from_path
from motion_nodes.core.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.core.planning.planning_problem import Goal, JointSpace, PlanRequest
from motion_nodes.core.planning.warm_up import announced_compilation
from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.checker import CollisionChecker, CollisionFree
from motion_nodes.core.scene.world import World
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.timed_path import TimedPath, effort_limits
from motion_nodes.errors import InvalidCommand, InvalidConfig, check_type
from motion_nodes.typing import Array

_STATES = 16
"""Number of states whose prepared groups are kept."""


class JointGroup:
    """A planning group of a robot, such as an arm: ``robot["arm"]``.

    Configurations contain the joints of the group, in the order of ``joint_names``. All other
    joints, such as fingers, torso and the other arm, are at home, or where ``state`` of a call
    says, or :meth:`at` for all calls. Poses are those of the group's tip in its base frame.
    """

    def __init__(self, robot: Robot, name: str) -> None:
        """Select a group; usually by ``robot[name]``.

        Args:
            robot: description of the robot.
            name: name or alias of the group, or of several with ``+`` between them.

        Raises:
            UnknownGroup: lists names and aliases.
        """
        self._robot, self._group = robot, robot.group(name)
        self._inputs = GroupInputs(robot, self._group.name)
        self._elsewhere: dict[bytes, Self] = {}

    def at(self, state: RobotState | None) -> Self:
        """Return the same group with the joints outside of it at other positions.

        Args:
            state: positions by joint, joints that are not named are at home; or of all joints of
                the robot, shape (N,), such as a measured state; or a named state [rad or m]. Those
                of the group's own joints are not used. None: this group.

        Raises:
            UnknownJoint, UnknownState: unknown name.
            InvalidCommand: a value that is not finite or outside of its limits, the wrong number of
                values, or a mimic joint elsewhere than its joint says.
        """
        if state is None:
            return self
        positions = self._inputs.state(state)
        outside = np.ones(len(positions), np.bool_)
        outside[self._group.indices] = False
        key = positions[outside].tobytes()
        if key == self._inputs.positions[outside].tobytes():
            return self
        known = self._elsewhere.get(key)
        if known is None:
            known = copy.copy(self)
            for name in ("_kinematics", "_solver"):
                known.__dict__.pop(name, None)
            known._inputs = self._inputs.at(positions)
            known._elsewhere = {}
            while len(self._elsewhere) >= _STATES:
                self._elsewhere.pop(next(iter(self._elsewhere), b""), None)
            self._elsewhere[key] = known
        return known

    def __repr__(self) -> str:
        """Return name, joints, base and tip."""
        tips = " and ".join(self.tips)
        ends = f": {self._group.base or self._robot.base_frame} to {tips}" if tips else ""
        count = len(self.joint_names)
        return f"JointGroup({self.name}, {count} joint{'s' * (count != 1)}{ends})"

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
        """Reference frame of poses; None for a group that is not a chain."""
        return self._group.base

    @property
    def tip(self) -> str | None:
        """Frame that poses refer to; None for a group that is not a chain."""
        return self._group.tip

    @property
    def tips(self) -> tuple[str, ...]:
        """Tips of all chains: one for an arm, two for a group of both arms."""
        return self._group.tips

    @property
    def state_names(self) -> tuple[str, ...]:
        """Named states that contain joints of this group."""
        names, states = set(self.joint_names), self._robot.states
        return tuple(n for n, state in states.items() if n == "home" or set(state) & names)

    def state(self, name: str) -> Array:
        """Return a named state [rad or m], shape (n,), read-only.

        Args:
            name: one of ``state_names``.

        Raises:
            UnknownState: lists the states of this group.
        """
        return self._robot.named_state(name, self.name)

    def random(self, count: int | None = None, *, seed: int | None = None) -> Array:
        """Return uniformly distributed random configurations within the position limits.

        Joints without limits are sampled in [-pi, pi].

        Args:
            count: number of configurations; None: one, without the first dimension.
            seed: random seed; None: not reproducible.

        Returns:
            Configurations [rad or m], shape (n,) or (count, n).

        Raises:
            InvalidCommand: a count or seed that is not a whole number from 0 on.
        """
        for name, value in (("count", count), ("seed", seed)):
            if value is not None and not (isinstance(value, numbers.Integral) and value >= 0):
                raise InvalidCommand(f"{name} is {value!r}; it must be a whole number from 0 on.")
        low = np.nan_to_num(self.limits.lower, neginf=-np.pi)
        high = np.nan_to_num(self.limits.upper, posinf=np.pi)
        size = low.shape if count is None else (count, len(low))
        return np.random.default_rng(seed).uniform(low, high, size)

    # ---- forward kinematics

    def fk(
        self, q: ArrayLike | str, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute forward kinematics: the pose of the tip in the group's base.

        Args:
            q: one configuration [rad or m], shape (n,), or m, shape (m, n), or a named state.
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``X_BT``, shape (4, 4), or (m, 4, 4).

        Raises:
            InvalidCommand: wrong shape, or no numbers; NaN gives NaN.
            UnknownState, UnknownFrame: lists the states of this group, or the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        kinematics, name = self.at(state)._kinematics, self._inputs.frame(frame)
        try:
            return kinematics.pose(q, name)
        except InvalidCommand:
            # Looked at here, so that one is as fast as ever.
            given, several = self._read(q)
        return kinematics.pose_batch(given, name) if several else kinematics.pose(given, name)

    def fk_batch(
        self, Q: ArrayLike, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute forward kinematics of m configurations; see :meth:`fk`.

        Args:
            Q: configurations [rad or m], shape (m, n).
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``X_BT`` of each configuration, shape (m, 4, 4).

        Raises:
            InvalidCommand: wrong shape, or no numbers; NaN gives NaN.
            UnknownFrame: lists the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        return self.at(state)._kinematics.pose_batch(Q, self._inputs.frame(frame))

    def jacobian(
        self, q: ArrayLike | str, frame: str | None = None, *, state: RobotState | None = None
    ) -> Array:
        """Compute the geometric Jacobian of the tip, expressed in the group's base.

        Args:
            q: one configuration [rad or m], shape (n,), or m, shape (m, n), or a named state.
            frame: frame instead of the tip.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``J_BT``, shape (6, n), or (m, 6, n): rows of the linear velocity [m/rad or 1], then of
            the angular velocity [1 or rad/m].

        Raises:
            InvalidCommand: wrong shape, or no numbers; NaN gives NaN.
            UnknownState, UnknownFrame: lists the states of this group, or the frames.
            InvalidConfig: the group has no tip and ``frame`` is not given.
        """
        kinematics, name = self.at(state)._kinematics, self._inputs.frame(frame)
        try:
            return kinematics.jacobian(q, name)
        except InvalidCommand:
            given, several = self._read(q)
        compute = kinematics.jacobian_batch if several else kinematics.jacobian
        return compute(given, name)

    # ---- inverse kinematics

    def ik(
        self,
        X_BT: ArrayLike | Mapping[str, ArrayLike],
        seed: ArrayLike | str | None = None,
        *,
        world: World | None = None,
        settings: IkSettings | None = None,
        locked: Mapping[str, float] | None = None,
        validity: Callable[[Array], bool | str] | None = None,
        state: RobotState | None = None,
    ) -> IkResult:
        """Solve inverse kinematics.

        Args:
            X_BT: target pose of the tip in the group's base, shape (4, 4), or m poses, shape
                (m, 4, 4); or poses by frame, which are reached simultaneously, such as those of
                both tools of a group of two arms.
            seed: initial guess [rad or m], shape (n,), of m poses also (m, n), or a named state;
                solutions close to it are preferred. Default: the centre of the joint ranges.
            world: obstacles; if given, solutions are free of collisions and self-collisions.
            settings: tolerances, timeout [s], max number of restarts.
            locked: fixed positions by joint [rad or m].
            validity: further condition on a solution; returns True, or the reason for rejection.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.success``, ``.q`` of shape (n,) within limits, ``.reason`` if there is no solution.
            For groups of fewer than six joints the rotation about the approach axis is free if the
            pose is unreachable, with fewer than five more of it; ``.reason`` then notes it. For m
            poses the :class:`IkBatchResult` of :meth:`ik_batch`.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or not a rigid pose; locked
                joints or a condition for m poses.
            UnknownJoint: a locked joint is not in this group.
            UnknownFrame: a target of an unknown frame.
            UnknownState: lists the states of this group.
            InvalidConfig: the group is not a chain, and the target is a single pose.
        """
        check_type(settings, IkSettings, "settings")
        check_type(locked, Mapping, "locked")
        group = self.at(state)
        inputs = group._inputs
        if not isinstance(X_BT, Mapping) and len(shape_of(X_BT)) == 3:
            if locked or validity:
                raise InvalidCommand("locked joints and conditions are for one pose.", field="X_BT")
            many = inputs.configuration(seed, "seed") if isinstance(seed, str) else seed
            # The type of the common case is declared; ik_batch has its own.
            return group.ik_batch(X_BT, many, world=world, settings=settings)  # type: ignore[return-value]
        start = inputs.configuration(seed, "seed") if seed is not None else None
        if isinstance(X_BT, Mapping):
            return inputs.several_tips(X_BT, start, world, settings, locked, validity)
        request = IkRequest(
            X_BT, start, locked=locked, validity=inputs.validity(world, validity), settings=settings
        )
        return solve_reachable(group._solver, request, group._solver.chain)

    def ik_batch(
        self,
        X_BT: ArrayLike,
        seeds: ArrayLike | None = None,
        *,
        world: World | None = None,
        settings: IkSettings | None = None,
        executor: Executor | None = None,
        state: RobotState | None = None,
    ) -> IkBatchResult:
        """Solve inverse kinematics for m poses in parallel on all processors.

        Args:
            X_BT: target poses of the tip in the group's base, shape (m, 4, 4).
            seeds: initial guesses [rad or m], shape (m, n), or (n,) for all poses.
            world: obstacles; if given, solutions are free of collisions and self-collisions.
            settings: tolerances, timeout per pose [s], max number of restarts.
            executor: executes parts of the batch, e.g. Dask's; None: threads of this process.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.solved``, shape (m,), ``.q`` [rad or m], shape (m, n), ``.status`` of each pose.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or poses that are not rigid.
            InvalidConfig: the group is not a chain.
        """
        group = self.at(state)
        if executor is not None:
            return ik_parts(group, X_BT, seeds, world, settings, executor)
        solver, accept = group._solver, None
        if world is not None:
            accept = CollisionFree(group.checker(world), solver.chain.joint_names)
        return solver.solve_batch(X_BT, seeds, settings=settings, acceptance=accept)

    def configuration(
        self,
        q: ArrayLike | str,
        *,
        base: BaseMotion = "fixed",
        X_WB: ArrayLike | None = None,
        state: RobotState | None = None,
    ) -> Configuration:
        """Return where :func:`solve_step` begins: joint positions, and how the base moves.

        Args:
            q: configuration [rad or m], shape (n,), or a named state.
            base: ``fixed``; ``planar``, along the axes in which the wheels can drive; ``floating``.
            X_WB: pose of the robot's base frame in the world, shape (4, 4); None: identity.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            A configuration with poses and Jacobians of all frames in the world.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or not a rigid pose.
            UnknownState: lists the states of this group.
            InvalidConfig: a base that cannot move so.
        """
        inputs = self.at(state)._inputs
        start = inputs.configuration(q, "q")
        return Configuration(
            self._robot, self.joint_names, start, others=inputs.positions, base=base, X_WB=X_WB
        )

    # ---- collision checks

    def collision_free(
        self, q: ArrayLike | str, world: World | None = None, *, state: RobotState | None = None
    ) -> bool:
        """Return whether a configuration is collision-free; limits are not checked.

        Args:
            q: one configuration [rad or m], shape (n,), or m, shape (m, n), or a named state; with
                NaN it is not collision-free.
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            Whether it is; for m configurations an array of bool, shape (m,).

        Raises:
            InvalidCommand: wrong shape.
            UnknownState: lists the states of this group.
        """
        exact = self.checker(world, state=state).exact
        given, several = self._read(q)
        if several:
            return exact.are_free(given)  # type: ignore[return-value]
        return exact.is_free(given)

    def collision_free_batch(
        self, Q: ArrayLike, world: World | None = None, *, state: RobotState | None = None
    ) -> NDArray[np.bool_]:
        """Return whether each of m configurations is collision-free; limits are not checked.

        Args:
            Q: configurations [rad or m], shape (m, n).
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            True for each collision-free configuration, shape (m,); False for those with NaN.

        Raises:
            InvalidCommand: wrong shape.
        """
        return self.checker(world, state=state).exact.are_free(Q)

    def problems(
        self, q: ArrayLike | str, world: World | None = None, *, state: RobotState | None = None
    ) -> tuple[str, ...]:
        """Return limit violations and collisions of a configuration.

        Args:
            q: configuration [rad or m], shape (n,), or a named state.
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            One text per violation, with names and depths; empty if the configuration is valid.
            Positions outside a limit by rounding, as in goals of plans, are valid.

        Raises:
            InvalidCommand: not n numbers.
            UnknownState: lists the states of this group.
        """
        return self.at(state)._inputs.problems(self._read(q, one=True)[0], world)

    def checker(
        self, world: World | None = None, *, state: RobotState | None = None
    ) -> CollisionChecker:
        """Return a collision checker of this group for the current state of a world.

        Args:
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            An independent checker, with clearances, distances and edge checks.

        Raises:
            UnknownFrame: a body is attached to a link that the robot does not have.
        """
        return self.at(state)._inputs.checker(world)

    # ---- motion

    def plan(
        self,
        start: ArrayLike | str | Mapping[str, float],
        goal: ArrayLike | str | Goal | Mapping[str, ArrayLike] | tuple[Goal, ...],
        world: World | None = None,
        *,
        timeout: float = 5.0,
        seed: int = 123456,
        constraints: PathConstraint | Sequence[PathConstraint] = (),
        options: PlanOptions | None = None,
        state: RobotState | None = None,
    ) -> MotionPlan:
        """Plan a collision-free motion within all limits.

        Args:
            start: configuration [rad or m], shape (n,), or a named state; or positions by joint of
                the group's joints, and of others as in ``state``. Many starts or goals, as lists or
                arrays of shape (m, n) or (m, 4, 4), are planned in parallel by :meth:`plan_batch`.
            goal: a configuration or named state; positions by joint, of which those not named stay
                at the start; a pose of the tip in the group's base, shape (4, 4); poses by frame,
                reached simultaneously; or one or a tuple of :class:`JointGoal`, :class:`PoseGoal`
                and :class:`PosesGoal`.
            world: obstacles; None: self-collisions only.
            timeout: max planning time [s].
            seed: random seed; equal requests give equal paths.
            constraints: one or several path constraints, such as :class:`TaskSpaceRegion` in the
                robot's base.
            options: planner and its settings, velocity and acceleration scaling.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.success``, ``.reason`` of a failure, ``.path`` of shape (k, n), and ``.trajectory``
            with times [s], positions, velocities and accelerations. A list of these for many starts
            or goals.

        Raises:
            InvalidCommand: wrong shapes or numbers that are not finite; path constraints for many.
            UnknownJoint, UnknownState: lists those of the robot, or the states of this group.
            InvalidConfig: timeout, seed or options out of range; a joint without limits.
        """
        if not (isinstance(timeout, numbers.Real) and timeout > 0.0):
            raise InvalidConfig(f"timeout is {timeout!r} s; it must be above 0.", field="timeout")
        if not isinstance(seed, numbers.Integral):
            raise InvalidConfig(f"seed is {seed!r:.60}; it must be a whole number.", field="seed")
        check_type(options, PlanOptions, "options")
        if not isinstance(constraints, list | tuple):
            constraints = (constraints,)
        for constraint in constraints:
            check_type(constraint, PathConstraint, "constraints")
        if many(start, len(self.joint_names)) or many(goal, len(self.joint_names)):
            if constraints:
                raise InvalidCommand("path constraints are for one motion.", field="constraints")
            starts: Any = start
            goals_of: Any = goal
            plans: Any = self.plan_batch(
                starts, goals_of, world, timeout=timeout, seed=seed, options=options, state=state
            )
            return plans  # type: ignore[no-any-return]
        q, state = self._inputs.start(start, state)
        inputs = self.at(state)._inputs
        goals, along = inputs.goals(goal, q), tuple(constraints)
        request = PlanRequest(inputs.checker(world), q, goals, timeout, seed, constraints=along)
        with announced_compilation():
            return plan(request, options)

    def plan_batch(
        self,
        starts: ArrayLike | str | Sequence[ArrayLike | str],
        goals: ArrayLike | str | Goal | Sequence[ArrayLike | str | Goal],
        world: World | None = None,
        *,
        timeout: float = 5.0,
        seed: int = 123456,
        options: PlanOptions | None = None,
        executor: Executor | None = None,
        state: RobotState | None = None,
    ) -> list[MotionPlan]:
        """Plan m motions in parallel; results are those of :meth:`plan`, without the search tree.

        Args:
            starts: one for all motions or m, e.g. an array of shape (m, n) [rad or m].
            goals: one for all motions or m, e.g. an array of shape (m, n) or (m, 4, 4).
            world: obstacles; None: self-collisions only.
            timeout: max planning time of each motion [s].
            seed: random seed of each motion.
            options: planner and its settings, velocity and acceleration scaling.
            executor: executes parts of the batch, e.g. Dask's; None: threads of this process.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            The result of each motion, in order.

        Raises:
            InvalidCommand: as :meth:`plan`, or different numbers of starts and goals.
        """
        check_type(world, World, "world")
        pairs = pairs_of(starts, goals, len(self.joint_names))
        scene = None if world is None else world.scene
        parts = [(pairs[part], scene, timeout, seed, options) for part in split(len(pairs), PLANS)]
        found = run_parts(self.at(state), plan_part, parts, executor)
        return [plan for plans in found for plan in plans]

    def interpolate(
        self,
        waypoints: ArrayLike,
        world: World | None = None,
        *,
        resolutions: ArrayLike | None = None,
        state: RobotState | None = None,
    ) -> Array | None:
        """Return the dense path along the straight lines between waypoints.

        Args:
            waypoints: configurations [rad or m], shape (k, n).
            world: obstacles; None: self-collisions only.
            resolutions: max step of each joint [rad or m], shape (n,) or a scalar; None: 3 degrees
                and 0.02 m.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            The path with all waypoints, shape (m, n); None if it is in collision, by collision
            spheres, or outside the limits.

        Raises:
            InvalidCommand: wrong shape, or a number that is not finite.
        """
        is_free = self.checker(world, state=state).are_free
        return interpolate_joint_waypoints(self._space, waypoints, is_free, resolutions)

    def simplify(self, path: ArrayLike, tolerance: float = 1e-3) -> Array:
        """Return the waypoints at which a path changes its direction, and both ends.

        Args:
            path: configurations [rad or m], joined by straight lines, shape (k, n).
            tolerance: max deviation of the result from the path [rad or m].

        Raises:
            InvalidCommand: wrong shape, or a number that is not finite.
        """
        return waypoints_from_path(self._space, path, tolerance)

    def time_parameterize(
        self,
        path: ArrayLike,
        *,
        velocity_scaling: float = 1.0,
        acceleration_scaling: float = 1.0,
        blend: float = 0.01,
        state: RobotState | None = None,
    ) -> TimedPath:
        """Time-parameterize a path: minimal time within all limits, efforts included.

        Args:
            path: waypoints [rad or m], joined by straight lines, shape (k, n).
            velocity_scaling: fraction of the velocity limits, above 0 to 1.
            acceleration_scaling: fraction of the acceleration and jerk limits, above 0 to 1.
            blend: max deviation at corners [rad or m]; 0: stop at each waypoint.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.duration`` [s], ``.sample(t)``, ``.points(step)``.

        Raises:
            InvalidCommand: wrong shape, or waypoints outside limits or not finite.
            InvalidConfig: a joint without limits; a scaling out of range.
        """
        return retime(
            path,
            self.limits,
            velocity_scaling=velocity_scaling,
            acceleration_scaling=acceleration_scaling,
            blending=CornerBlending(deviation=blend),
            efforts=effort_limits(self._robot, self.joint_names, self.at(state)._inputs.positions),
        )

    def rmpflow(
        self, world: World | None = None, *, state: RobotState | None = None
    ) -> ReactivePolicy:
        """Return a reactive policy that moves the tip to targets and avoids obstacles.

        Args:
            world: obstacles; changes apply while the policy runs.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            A policy; ``policy.step(q, qd, target, dt)`` returns the next joint reference.

        Raises:
            InvalidConfig: the group is not a chain.
            InvalidDescription: the robot has no RMPflow settings.
        """
        inputs = self.at(state)._inputs
        return ReactivePolicy(
            inputs.robot, self.name, inputs.frame(), world, others=inputs.positions
        )

    def mpc(
        self,
        world: World | None = None,
        *,
        settings: MpcSettings | None = None,
        state: RobotState | None = None,
    ) -> ReactivePolicy:
        """Return a reactive MPC policy, which escapes local minima of RMPflow by prediction.

        Args:
            world: obstacles; changes apply while the policy runs.
            settings: horizon, samples, margins, seed.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            A policy; ``policy.step(q, qd, target, dt)`` returns the next joint reference.

        Raises:
            InvalidConfig: the group is not a chain.
            InvalidDescription: the robot has no RMPflow settings.
        """
        found = settings or MpcSettings()
        inputs = self.at(state)._inputs
        return ReactivePolicy(
            inputs.robot, self.name, inputs.frame(), world, mpc=found, others=inputs.positions
        )

    def show(self, what: Any = None, *, world: World | None = None, port: int = 8080) -> Any:
        """Show the robot in the browser; arguments and errors are those of ``RobotModel.show``.

        Args:
            what: a configuration of the group, as numbers or of :meth:`configuration`, a state, a
                result of :meth:`ik`, a trajectory or a plan.
            world: obstacles to show.
            port: first TCP port to try.

        Returns:
            The page.
        """
        return self._inputs.show(what, world, port)

    # ---- inside

    def _read(self, q: ArrayLike | str, *, one: bool = False) -> tuple[ArrayLike, bool]:
        """Return configurations, a named state as its positions, and whether they are several."""
        if isinstance(q, str):
            return self.state(q), False
        shape, n = shape_of(q), len(self.joint_names)
        several = len(shape) == 2 and shape[1] == n and not one
        if shape == (n,) or several:
            return q, several
        given = f"shape {shape}" if shape else f"{q!r:.60}"
        many = "" if one else f", or (m, {n}) for m of them"
        raise InvalidCommand(
            f"configurations of group '{self.name}' have shape ({n},){many} "
            f"({', '.join(self.joint_names)}), or are the name of a state; got {given}.",
            field="q",
        ) from None

    @cached_property
    def _space(self) -> JointSpace:
        return JointSpace.of_robot(self._robot, self.joint_names)

    @cached_property
    def _kinematics(self) -> Kinematics:
        whole = zip(self._robot.joint_names, self._inputs.positions.tolist(), strict=True)
        fixed = {name: value for name, value in whole if name not in self.joint_names}
        base = self._group.base or self._robot.base_frame
        return Kinematics(self._robot.tree, self.joint_names, fixed=fixed, base=base)

    @cached_property
    def _solver(self) -> LeastSquaresIk:
        return LeastSquaresIk(IkChain.of_group(self._robot, self.name, self._inputs.positions))
