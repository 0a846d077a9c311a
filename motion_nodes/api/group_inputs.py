# SPDX-License-Identifier: Apache-2.0
"""Conversion of the arguments of a joint group: configurations, goals and worlds."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.ik.problem import (
    IkResult,
    IkSettings,
    IkTolerance,
    as_configurations,
    locked_position,
)
from motion_nodes.core.ik.tasks_and_limits import Configuration
from motion_nodes.core.planning.planning_problem import Goal, JointGoal, PoseGoal, PosesGoal
from motion_nodes.core.planning.several_poses import solve_poses
from motion_nodes.core.robot.configurations import checked_state, leader_values
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint, check_type
from motion_nodes.extras import shown_on_page
from motion_nodes.tolerances import LIMIT_ROUNDING
from motion_nodes.typing import Array

_EMPTY = Scene()

RobotState = Mapping[str, float] | ArrayLike | str
"""Positions by joint, of all joints of a robot, shape (N,), or a named state [rad or m]."""


def shape_of(value: object) -> tuple[int, ...]:
    """Return the shape of an array of numbers; () for anything else."""
    try:
        return np.asarray(value, dtype=np.float64).shape
    except (TypeError, ValueError):
        return ()


class GroupInputs:
    """Converts arguments for one group of a robot.

    Args:
        robot: description of the robot.
        name: name or alias of the group.

    Raises:
        UnknownGroup: lists names and aliases.
    """

    def __init__(self, robot: Robot, name: str) -> None:
        self.robot, self.group = robot, robot.group(name)
        self.positions = robot.home
        """Positions of all joints [rad or m], of which those outside of the group count."""

    def at(self, positions: Array) -> GroupInputs:
        """Return the same for other positions of the joints outside of the group."""
        other = copy.copy(self)
        other.positions = positions
        # Shares compiled code and packed scenes.
        other._checker = self._checker.snapshot()
        other._checker.set_positions(positions)
        return other

    def state(self, state: RobotState) -> Array:
        """Return the positions of all joints in a state [rad or m], shape (N,), read-only.

        Raises:
            UnknownJoint, UnknownState, InvalidCommand: see :meth:`.JointGroup.at`.
        """
        return frozen(checked_state(self.robot, state))

    def frame(self, frame: str | None = None) -> str:
        """Return a frame: the given one, or the tip of the group.

        Raises:
            InvalidConfig: no frame is given and the group has no tip.
        """
        name = frame or self.group.tip
        if name is None:
            tips = self.group.tips
            has = f"has the tips {', '.join(tips)}" if tips else "has no tip"
            frames = tips or self.robot.tree.frame_names
            raise InvalidConfig(
                f"group '{self.group.name}' of {self.robot.name} {has}; specify a frame: "
                f"{', '.join(frames)}."
            )
        return name

    def configuration(self, value: ArrayLike | str, what: str) -> Array:
        """Return a configuration or named state [rad or m], shape (n,).

        Args:
            value: shape (n,), or the name of a state.
            what: name of the argument, for errors.

        Raises:
            InvalidCommand: not n numbers.
            UnknownState: lists the states of the group.
        """
        if isinstance(value, str):
            return self.robot.named_state(value, self.group.name)
        joints = self.group.joints
        if shape_of(value) != (len(joints),):
            raise InvalidCommand(
                f"{what} must be {len(joints)} positions ({', '.join(joints)}), got {value!r:.99}.",
                field=what,
            )
        return np.asarray(value, dtype=np.float64)

    def start(
        self, value: ArrayLike | str | Mapping[str, float], state: RobotState | None
    ) -> tuple[Array, RobotState | None]:
        """Return a start, shape (n,), and the state of the joints outside of the group.

        Args:
            value: a configuration or named state; or positions by joint [rad or m], which name all
                joints of the group and may name others.
            state: of the others, which has precedence; None: as in ``value``, else at home.

        Raises:
            InvalidCommand, UnknownState: as :meth:`configuration`, or a joint is missing.
        """
        if not isinstance(value, Mapping):
            return self.configuration(value, "start"), state
        joints = self.group.joints
        missing = [name for name in joints if name not in value]
        if missing:
            raise InvalidCommand(f"the start lacks {', '.join(missing)}.", field=missing[0])
        q = self.configuration([value[name] for name in joints], "start")
        if state is None:
            state = {name: x for name, x in value.items() if name not in joints} or None
        return q, state

    def goals(
        self,
        goal: ArrayLike | str | Goal | Mapping[str, ArrayLike] | tuple[Goal, ...],
        start: Array,
    ) -> tuple[Goal, ...]:
        """Return planning goals.

        Args:
            goal: goals, a named state, a configuration [rad or m], shape (n,), positions by joint,
                a pose of the tip in the group's base, shape (4, 4), or poses of several frames, by
                frame.
            start: joints not named by a goal by joint stay there [rad or m], shape (n,).

        Raises:
            InvalidCommand: none of these, or not a rigid pose.
            UnknownJoint: the group has no such joint.
            UnknownState: lists the states of the group.
            InvalidConfig: a pose, but the group has no tip.
        """
        if isinstance(goal, Goal):
            return (goal,)
        if isinstance(goal, tuple) and goal and isinstance(goal[0], Goal):
            return goal  # type: ignore[return-value]
        if isinstance(goal, Mapping) and goal and all(shape_of(x) == () for x in goal.values()):
            joints, q = self.group.joints, np.array(start)
            values = dict[str, float]()
            for name, value in goal.items():
                if not isinstance(value, numbers.Real):
                    raise InvalidCommand(f"goal: {name} is {value!r:.99}, no number.", field=name)
                values[name] = float(value)
            for name, number in leader_values(self.robot.tree, values).items():
                if name not in joints:
                    raise UnknownJoint(name, joints, f"group '{self.group.name}'")
                q[joints.index(name)] = number
            return (JointGoal(q),)
        if isinstance(goal, Mapping):
            return (self.poses(goal),)
        if not isinstance(goal, str) and shape_of(goal) == (4, 4):
            return (PoseGoal(self.frame(), self._in_robot_base(rigid_pose(goal, "goal"))),)  # type: ignore[arg-type]
        return (JointGoal(self.configuration(goal, "goal")),)  # type: ignore[arg-type]

    def poses(
        self, targets: Mapping[str, ArrayLike], tolerance: IkTolerance | None = None
    ) -> PosesGoal:
        """Return a goal with poses of several frames in the group's base.

        Args:
            targets: poses by frame, shape (4, 4) each.
            tolerance: tolerance of each pose; None: the default.

        Raises:
            InvalidCommand: no pose, or one that is not a rigid transform.
        """
        allowed = tolerance or IkTolerance()
        return PosesGoal(
            tuple(
                PoseGoal(
                    frame, self._in_robot_base(rigid_pose(X, f"the target of {frame}")), allowed
                )
                for frame, X in targets.items()
            )
        )

    def several_tips(
        self,
        targets: Mapping[str, ArrayLike],
        seed: Array | None,
        world: World | None,
        settings: IkSettings | None,
        locked: Mapping[str, float] | None,
        validity: Callable[[Array], bool | str] | None,
    ) -> IkResult:
        """Solve inverse kinematics for several frames.

        Arguments and errors are those of ``JointGroup.ik``.
        """
        limits, joints = self.group.limits, self.group.joints
        low = np.where(np.isfinite(limits.lower), limits.lower, -np.pi)
        high = np.where(np.isfinite(limits.upper), limits.upper, np.pi)
        start = 0.5 * (low + high) if seed is None else as_configurations(seed, joints, "seed")[0]
        q = start.clip(low, high)
        goal = self.poses(targets, None if settings is None else settings.tolerance)
        if locked:
            held = np.zeros(len(joints), np.bool_)
            for name, value in locked.items():
                if name not in joints:
                    raise UnknownJoint(name, joints, f"group '{self.group.name}'")
                k = joints.index(name)
                low_k, high_k = float(limits.lower[k]), float(limits.upper[k])
                held[k], q[k] = True, locked_position(name, value, low_k, high_k)
            below, above = (np.where(held, 0.0, np.maximum(x, 0.0)) for x in (q - low, high - q))
            goal = replace(goal, joints=JointGoal(q, below, above))
        return solve_poses(self.checker(world), goal, q, settings, self.validity(world, validity))

    def show(self, what: Any, world: World | None, port: int) -> Any:
        """Show the robot in the browser; see :meth:`.JointGroup.show`."""
        if isinstance(what, Configuration | IkResult):
            what = what.q
        if what is not None and not isinstance(what, str) and shape_of(what):
            q = self.configuration(what, "configuration").tolist()
            what = dict(zip(self.group.joints, q, strict=True))
        return shown_on_page(self.robot, what, world, port)

    def checker(self, world: World | None) -> CollisionChecker:
        """Return a collision checker in a world; None: without obstacles.

        Raises:
            InvalidCommand: not a world.
        """
        check_type(world, World, "world")
        scene = _EMPTY if world is None else world.scene
        # One read of the attribute: threads with other worlds replace it meanwhile.
        found = self._checker
        if found.scene is not scene:
            found = found.snapshot()
            found.set_scene(scene)
            self._checker = found  # caches the scene's data
        return found.snapshot()

    def problems(self, q: ArrayLike, world: World | None) -> tuple[str, ...]:
        """Return limit violations and collisions; see :meth:`.JointGroup.problems`."""
        return self.checker(world).exact.problems(q, LIMIT_ROUNDING)

    def validity(
        self, world: World | None, condition: Callable[[Array], bool | str] | None
    ) -> Callable[[Array], bool | str] | None:
        """Return the given condition combined with collision checks in a world.

        Args:
            world: obstacles; None: no collision checks.
            condition: condition on a configuration [rad or m], shape (n,); None: no condition.
        """
        if world is None:
            return condition
        checker = self.checker(world)

        def valid(q: Array) -> bool | str:
            problems = () if checker.exact.is_free(q) else checker.exact.problems(q)
            if problems:
                return problems[0]
            return True if condition is None else condition(q)

        return valid

    @cached_property
    def _checker(self) -> CollisionChecker:
        return CollisionChecker(self.robot, self.group.name)

    def _in_robot_base(self, X_GT: Array) -> Array:
        """Return a pose given in the group's base, in the robot's base frame."""
        base, root = self.group.base, self.robot.base_frame
        if base in (None, root):
            return X_GT
        whole = Kinematics(self.robot.tree, base=root)
        return np.asarray(whole.pose(self.positions, str(base)) @ X_GT)
