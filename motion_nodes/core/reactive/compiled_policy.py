# SPDX-License-Identifier: Apache-2.0
"""Accelerations of RMPflow by generated code, and reports in NumPy."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.reactive.numpy_policy import (
    Goal,
    JointBounds,
    NumpyEvaluation,
    PointMotion,
    SelfSpheres,
    Surroundings,
    evaluate,
    link_tables,
    resolve,
    self_spheres,
)
from motion_nodes.core.reactive.rmp_inputs import (
    buffered_limits,
    pack_capsules,
    parameter_numbers,
    rmp_model,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import frozen
from motion_nodes.kernels.formulas.shapes import BOX
from motion_nodes.kernels.rmp.rmp_codegen import LinkTables, rmp_calls
from motion_nodes.kernels.rmp.rmp_integration import SOLVABLE
from motion_nodes.kernels.rmp.rmp_memory import (
    BLOCK,
    FAR,
    ObstacleArrays,
    empty_obstacles,
    new_memory,
    obstacle_bounds,
    obstacle_field,
    padded,
    rmp_layout,
    sphere_places,
)
from motion_nodes.typing import Array


class Evaluator:
    """Evaluates one robot's RMPs in a state. Everything is in the robot's base frame.

    ``q`` and ``qd`` contain all joints in the order of ``joint_names``, the active ones first; they
    must be finite.
    """

    def __init__(
        self, robot: Robot, active: tuple[str, ...], tool: str, settings: RmpflowSettings
    ) -> None:
        """Create the evaluator; code is compiled at the first use of a robot.

        Args:
            robot: with collision spheres or collision geometry.
            active: joints moved by the policy.
            tool: frame of the targets.
            settings: parameters.

        Raises:
            UnknownJoint, UnknownFrame: a name that the robot does not have.
            InvalidConfig: settings that do not fit the robot.
        """
        robot.indices(active)
        self.active = active
        self.watched = tuple(name for name in robot.joint_names if name not in active)
        self.limits: JointLimits = robot.limits.select(active)
        self.model, self.spheres = rmp_model(robot, active, tool, settings)
        self._tool = tool
        self._kinematics = Kinematics(robot.tree, self.joint_names, base=robot.base_frame)
        self._kinematics.warm_up([tool])
        self._at = rmp_layout(self.model)
        self._robot = robot
        self._memory = new_memory(self.model)
        self._whole = self._memory.view(np.int64)
        self._run, entry = rmp_calls(self.model)
        fields = [
            self._memory[self._at[x] :].ctypes.data for x in ("q", "qd", "qdd", "least_pivot")
        ]
        self.addresses = (entry, self._memory.ctypes.data, *fields)
        """Addresses of the code, its memory and four fields, for the integration."""
        self._carried = np.empty((0, 4))
        self.obstacles = empty_obstacles()
        self.goal = Goal(frozen(robot.home[robot.indices(active)]))
        joints = len(self.joint_names)
        self._q, self._qd = self._view("q", joints), self._view("qd", joints)
        self._posture, self._has_goal = (
            self._view("posture", len(active)),
            self._view("has_goal", 2),
        )
        self._goal_position, self._goal_axes = self._view("goal", 3), self._view("goal_axes", 3, 3)
        self._put("radius", self.spheres.radii)
        self.set_settings(settings)
        self.set_obstacles(self.obstacles)
        self.set_goal(self.goal)
        self.set_carried(self._carried)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """All joints of a state, in order."""
        return (*self.active, *self.watched)

    @functools.cached_property
    def self_spheres(self) -> SelfSpheres:
        """Link pairs of self-collision avoidance."""
        return self_spheres(self._robot, self.model, self.spheres.links, self.spheres.radii)

    @functools.cached_property
    def _links(self) -> LinkTables:
        return link_tables(self.model, self.self_spheres)

    def set_settings(self, settings: RmpflowSettings) -> None:
        """Replace the parameters; frames of controllers do not change.

        Raises:
            InvalidConfig: they do not fit the robot; the previous parameters stay.
        """
        lower, upper = buffered_limits(self.limits.lower, self.limits.upper, settings, self.active)
        cap = settings.joint_velocity_cap_rmp
        fastest = np.minimum(self.limits.velocity, cap.max_velocity)
        region = fastest * (cap.velocity_damping_region / cap.max_velocity)
        self.settings = settings
        self.bounds = JointBounds(lower, upper, fastest, region)
        for name in ("lower", "upper", "max_velocity", "region"):
            self._put(name, getattr(self.bounds, name))
        self._put("parameters", parameter_numbers(self.model, settings))
        self._capsules = pack_capsules(settings.body_cylinders)
        self._capsule_bounds = obstacle_bounds(BOX.name, self._capsules)
        self._point_to("capsules", self._capsules, self._capsule_bounds)
        radii = np.array([item.radius for item in settings.body_collision_controllers])
        self._guard_radii = radii[: len(self.model.guard_rows)]
        self._put("radius", self._guard_radii, sphere_places(self.model)[1])
        self._apart = settings.self_collision_rmp.metric_scalar > 0.0
        self._whole[self._at["link_pairs"] + 1] = 0
        if self._apart:
            self._point_to("link_pairs", self._links.pairs)
            for name in ("sizes", "paths", "radii", "fixed"):
                self._whole[self._at[f"link_{name}"]] = getattr(self._links, name).ctypes.data
            self._whole[self._at["link_fixed"] + 1] = self._links.fixed.shape[1]
            self._whole[self._at["moving_spheres"]] = self.self_spheres.moving

    def set_obstacles(self, obstacles: ObstacleArrays) -> None:
        """Replace the obstacles."""
        self.obstacles = obstacles
        self._bounds = {name: obstacle_bounds(name, rows) for name, rows in obstacles.rows.items()}
        for name, rows in obstacles.rows.items():
            self._point_to(obstacle_field(name), rows, self._bounds[name])

    def set_carried(self, spheres: Array) -> None:
        """Set the attached spheres, which avoid obstacles, too.

        Args:
            spheres: centre in the tool's frame and radius [m], shape (c, 4).
        """
        self._carried = spheres
        start, _, total = sphere_places(self.model)
        centres = self._memory[self._at["centre"] :][: 3 * total].reshape(3, total)
        radii = self._memory[self._at["radius"] :][:total]
        radii[start : sphere_places(self.model)[1]] = -10.0 * FAR
        centres[:, start : start + len(spheres)] = spheres[:, :3].T
        radii[start : start + len(spheres)] = spheres[:, 3]
        self._whole[self._at["blocks"]] = padded(start + len(spheres)) // BLOCK

    def set_goal(self, goal: Goal) -> None:
        """Replace the goal."""
        self.goal = goal
        self._posture[:] = goal.posture
        self._has_goal[:] = goal.position is not None, goal.rotation is not None
        if goal.position is not None:
            self._goal_position[:] = goal.position
        if goal.rotation is not None:
            self._goal_axes[:] = goal.rotation

    def set_watched(self, q: Array, qd: Array) -> None:
        """Set the state of the watched joints for the integration, shape (m,) each."""
        n = self.model.active
        self._q[n:], self._qd[n:] = q, qd

    def acceleration(self, q: Array, qd: Array) -> Array:
        """Return accelerations of the active joints, norm capped [rad/s^2 or m/s^2], shape (n,)."""
        self._evaluate(q, qd)
        n, at = self.model.active, self._at
        solution = self._memory[at["qdd"] : at["qdd"] + n].copy()
        if self._memory[at["least_pivot"]] > SOLVABLE and np.isfinite(solution).all():
            return solution
        M = self._memory[at["M"] : at["M"] + n * n].reshape(n, n)
        rhs = self._memory[at["rhs"] : at["rhs"] + n]
        if not (np.isfinite(M).all() and np.isfinite(rhs).all()):
            return np.zeros(n)
        return resolve(M, rhs, self.settings.canonical_resolve.max_acceleration_norm)

    def report(self, q: Array, qd: Array) -> NumpyEvaluation:
        """Return accelerations [rad/s^2] and the contribution of each RMP; takes milliseconds."""
        model = self.model
        carried = len(self._carried)
        around = Surroundings(
            (*model.sphere_rows, *(model.tool_row,) * carried),
            np.concatenate((model.sphere_centres, self._carried[:, :3])),
            np.concatenate((self.spheres.radii, self._carried[:, 3])),
            self.obstacles,
            model.guard_rows,
            self._guard_radii,
            self._capsules,
            self.self_spheres if self._apart else None,
        )
        motion = PointMotion(model.arrays, model.active, q, qd)
        return evaluate(model, self.settings, self.bounds, around, self.goal, motion)

    def tool_pose(self, q: Array) -> Array:
        """Return the pose of the tool in the base frame, shape (4, 4)."""
        return self._kinematics.pose(q, self._tool)

    def tool_jacobian(self, q: Array) -> Array:
        """Return the Jacobian of the tool's origin in the base frame, shape (6, m)."""
        return self._kinematics.jacobian(q, self._tool)

    def clearances(self, q: Array) -> Array:
        """Return the min signed distance of each sphere to all obstacles [m], shape (s + c,).

        Spheres are those of the robot, then the attached ones. Without obstacles: infinity.
        """
        count = len(self.spheres.radii) + len(self._carried)
        self._evaluate(q, np.zeros(len(q)))
        nearest = self._memory[self._at["nearest"] :][:count]
        return np.where(nearest >= FAR, np.inf, nearest)

    def sphere_positions(self, q: Array) -> Array:
        """Return the robot's and the attached spheres in the base frame [m], shape (s + c, 4)."""
        radii = np.concatenate((self.spheres.radii, self._carried[:, 3]))
        self._evaluate(q, np.zeros(len(q)))
        total = sphere_places(self.model)[2]
        places = self._memory[self._at["position"] :][: 3 * total].reshape(3, total)
        return np.column_stack((places[:, : len(radii)].T, radii))

    def _evaluate(self, q: Array, qd: Array) -> None:
        self._q[:], self._qd[:] = q, qd
        self._run(self._memory)

    def _put(self, field: str, values: object, start: int = 0) -> None:
        numbers = np.ravel(np.asarray(values, np.float64))
        at = self._at[field] + start
        self._memory[at : at + len(numbers)] = numbers

    def _view(self, field: str, *shape: int) -> Array:
        """Return a writable view of a field of the memory."""
        at = self._at[field]
        return self._memory[at : at + math.prod(shape)].reshape(shape)

    def _point_to(self, field: str, rows: NDArray[Any], bounds: Array | None = None) -> None:
        self._whole[self._at[field]] = rows.ctypes.data
        self._whole[self._at[field] + 1] = len(rows)
        if bounds is not None:
            self._whole[self._at[field] + 2] = bounds.ctypes.data
