# SPDX-License-Identifier: Apache-2.0
"""A group of joints: kinematics, collision checks, planning and reactive motion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.api.batches import PLANS, ik_parts, pairs_of, plan_part, run_parts, split
from motion_nodes.api.group_inputs import RobotState
from motion_nodes.api.group_members import GroupMembers
from motion_nodes.api.reactive_policy import ReactivePolicy
from motion_nodes.errors import InvalidConfig
from motion_nodes.ik.collision_free import CollisionFree
from motion_nodes.ik.problem import IkBatchResult, IkRequest, IkResult, IkSettings
from motion_nodes.ik.task_mask import solve_reachable
from motion_nodes.model.limits import LIMIT_ROUNDING
from motion_nodes.model.tree import Array
from motion_nodes.mpc.mpc_settings import MpcSettings
from motion_nodes.planning.constrained.path_constraints import PathConstraint
from motion_nodes.planning.pipeline import MotionPlan, PlanOptions, plan
from motion_nodes.planning.planning_problem import Goal, PlanRequest
from motion_nodes.planning.warm_up import announced_compilation
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.world import World
from motion_nodes.trajectory.blended_path import CornerBlending
from motion_nodes.trajectory.path_efforts import effort_limits
from motion_nodes.trajectory.time_parameterization import retime
from motion_nodes.trajectory.timed_path import TimedPath


class JointGroup(GroupMembers):
    """A planning group of a robot, such as an arm: ``robot["arm"]``.

    Configurations contain the joints of the group, in the order of ``joint_names``. All other
    joints, such as fingers, torso and the other arm, are at home, or where ``state`` of a call
    says, or :meth:`at` for all calls. Poses are those of the group's tip in its base frame.
    """

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
            X_BT: target pose of the tip in the group's base, shape (4, 4); or poses by frame, which
                are reached simultaneously, such as those of both tools of a group of two arms.
            seed: initial guess [rad or m], shape (n,), or a named state; solutions close to it are
                preferred. Default: the centre of the joint ranges.
            world: obstacles; if given, solutions are free of collisions and self-collisions.
            settings: tolerances, timeout [s], max number of restarts.
            locked: fixed positions by joint [rad or m].
            validity: further condition on a solution; returns True, or the reason for rejection.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.success``, ``.q`` of shape (n,) within limits, ``.reason`` if there is no solution.
            For groups of fewer than six joints the rotation about the approach axis is free if the
            pose is unreachable; ``.reason`` then notes it.

        Raises:
            InvalidCommand: wrong shapes, numbers that are not finite, or not a rigid pose.
            UnknownJoint: a locked joint is not in this group.
            UnknownFrame: a target of an unknown frame.
            UnknownState: lists the states of this group.
            InvalidConfig: the group is not a chain, and the target is a single pose.
        """
        group = self.at(state)
        inputs = group._inputs
        start = inputs.configuration(seed, "seed") if seed is not None else None
        if isinstance(X_BT, Mapping):
            return inputs.several_tips(X_BT, start, world, settings, locked, validity)
        request = IkRequest(
            X_BT,
            start,
            locked=locked,
            validity=inputs.validity(world, validity),
            settings=settings,
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
            return ik_parts(group, self._robot, X_BT, seeds, world, settings, executor)
        solver, accept = group._solver, None
        if world is not None:
            accept = CollisionFree(group.checker(world), solver.chain)
        return solver.solve_batch(X_BT, seeds, settings=settings, acceptance=accept)

    # ---- collision checks

    def collision_free(
        self, q: ArrayLike, world: World | None = None, *, state: RobotState | None = None
    ) -> bool:
        """Return whether a configuration is collision-free; limits are not checked.

        Args:
            q: configuration [rad or m], shape (n,); with NaN it is not collision-free.
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Raises:
            InvalidCommand: not n numbers.
        """
        return self.checker(world, state=state).exact.is_free(q)

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
        self, q: ArrayLike, world: World | None = None, *, state: RobotState | None = None
    ) -> tuple[str, ...]:
        """Return limit violations and collisions of a configuration.

        Args:
            q: configuration [rad or m], shape (n,).
            world: obstacles; None: self-collisions only.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            One text per violation, with names and depths; empty if the configuration is valid.
            Positions outside a limit by rounding, as in goals of plans, are valid.

        Raises:
            InvalidCommand: not n numbers.
        """
        return self.checker(world, state=state).exact.problems(q, LIMIT_ROUNDING)

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
        constraints: Sequence[PathConstraint] = (),
        options: PlanOptions | None = None,
        state: RobotState | None = None,
    ) -> MotionPlan:
        """Plan a collision-free motion within all limits.

        Args:
            start: configuration [rad or m], shape (n,), or a named state; or positions by joint of
                the group's joints, and of others as in ``state``.
            goal: a configuration or named state; or a pose of the tip in the group's base, shape
                (4, 4); or poses by frame, reached simultaneously; or one or a tuple of
                :class:`JointGoal`, :class:`PoseGoal` and :class:`PosesGoal`.
            world: obstacles; None: self-collisions only.
            timeout: max planning time [s].
            seed: random seed; equal requests give equal paths.
            constraints: path constraints, such as :class:`TaskSpaceRegion` in the robot's base.
            options: planner and its settings, velocity and acceleration scaling.
            state: positions of the joints outside of the group; see :meth:`at`.

        Returns:
            ``.success``, ``.reason`` of a failure, ``.path`` of shape (k, n), and ``.trajectory``
            with times [s], positions, velocities and accelerations.

        Raises:
            InvalidCommand: wrong shapes or numbers that are not finite.
            UnknownJoint, UnknownState: lists those of the robot, or the states of this group.
            InvalidConfig: timeout or options out of range; a joint without limits.
        """
        if not timeout > 0.0:
            raise InvalidConfig(f"timeout is {timeout} s; it must be above 0.", field="timeout")
        q, state = self._inputs.start(start, state)
        inputs = self.at(state)._inputs
        goals, along = inputs.goals(goal), tuple(constraints)
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
        pairs = pairs_of(starts, goals, len(self.joint_names))
        scene = None if world is None else world.scene
        parts = [(pairs[part], scene, timeout, seed, options) for part in split(len(pairs), PLANS)]
        found = run_parts(self.at(state), self._robot, plan_part, parts, executor)
        return [plan for plans in found for plan in plans]

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
