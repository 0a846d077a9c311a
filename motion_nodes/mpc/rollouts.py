# SPDX-License-Identifier: Apache-2.0
"""Rollouts of sampled motions of one robot: attractors in, costs and clearances out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels import native
from motion_nodes.kernels.collision.collision_binding import collision_calls
from motion_nodes.kernels.mpc.mpc_memory import FIELDS, JOINT_FIELDS, OUTPUTS, WEIGHTS
from motion_nodes.kernels.mpc.mpc_rollout import rollout_call
from motion_nodes.kernels.mpc.tracking_law import response
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, empty_obstacles, obstacle_shapes
from motion_nodes.model.robot import Robot
from motion_nodes.mpc.mpc_settings import MpcSettings
from motion_nodes.mpc.obstacle_rows import rows_at
from motion_nodes.rmpflow.numpy_policy import Goal
from motion_nodes.scene.collision_robot_arrays import RobotLayout
from motion_nodes.scene.robot_spheres import CollisionBody, carried_body, checked_pairs, link_bodies
from motion_nodes.scene.scene import Scene
from motion_nodes.typing import Array

TAIL = 24
"""Number of configurations checked on the straight line from a rollout's end to its goal."""
COSTS = {
    "world": 0.5, "self": 0.5, "collision": 100.0, "position": 0.2, "rotation": 0.04, "goal": 0.1,
    "effort": 0.002, "posture": 0.001, "terminal": 80.0, "tail": 10.0, "tail_limit": 5.0,
    "discount": 0.98, "away": 2.0,
}  # fmt: skip
"""Weights of the cost terms named in ``mpc_memory`` that are not settings."""

WITHOUT_GOAL = {"position": 3.0, "rotation": 0.3, "goal": 0.01, "tail": 0.0, "away": 1e3}
"""Weights if no goal is collision-free: the tool moves as close as possible."""

Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RolloutCosts:
    """Results of rollouts, shape (s,) each; see ``mpc_memory.OUTPUTS``."""

    cost: Array
    """Total cost; infinite if it is not finite."""
    clearance: Array
    """Min distance within the margins over the horizon [m]."""
    blocked: Array
    """Mean cost of collisions on the straight line from the end to the goal."""
    distance: Array
    """Distance of the end from the goal [weighted rad or m]."""
    free: Array
    """Number of free configurations on that line before the first that is not."""


class Rollouts:
    """Evaluates sampled motions; not thread-safe."""

    def __init__(self, robot: Robot, joints: tuple[str, ...], tool: str) -> None:
        """Create; code is compiled at the first use of a robot.

        Args:
            robot: the robot.
            joints: names of the active joints.
            tool: frame of the targets.

        Raises:
            CodeGenerationError: code cannot be generated on this machine.
        """
        self._robot, self._joints = robot, joints
        self._watched = robot.indices([name for name in robot.joint_names if name not in joints])
        self.lanes = native.host_cpu().lanes("float").count
        self._layout = RobotLayout(robot, joints, collision_calls())
        self._group, self._X_GT = self._layout.group_frame(tool)
        self._run = rollout_call()
        self._table = np.zeros(FIELDS.size, np.int64)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._values = np.ones((len(joints), len(JOINT_FIELDS)), np.float32)
        self._tool = np.zeros(15, np.float32)
        self._weights = np.zeros(len(WEIGHTS), np.float32)
        self._obstacles: ObstacleArrays | None = None
        self._put("joint_values", self._values)
        self._put("tool", self._tool)
        self._put("weights", self._weights)
        self._put("tool_group", self._group)
        self.set_scene(Scene())
        self.set_settings(MpcSettings())

    def set_settings(self, settings: MpcSettings) -> None:
        """Set horizon, knots and margins; removes all obstacles."""
        s = self.settings = settings
        self.dt = s.horizon / s.steps
        self.knot_times = np.linspace(0.0, s.horizon - self.dt, s.knots)
        self.times: Array = self.dt * np.arange(1.0, s.steps + 1.0)
        self._put("steps", s.steps)
        self._put("knots", s.knots)
        self._put("tail", TAIL)
        self._put("tail_step", s.steps - 1)
        self._put("basis", self.basis(self.times - self.dt).astype(np.float32))
        own = {"margin": s.margin, "self_margin": s.self_margin, "dt": self.dt,
               "response": response(self.dt), "clearance": s.clearance}  # fmt: skip
        self._weights[:] = [(COSTS | own)[name] for name in WEIGHTS]
        self._obstacles = None
        self.set_obstacles(empty_obstacles())

    def set_limits(self, speed: Array, acceleration: Array, jerk: Array) -> None:
        """Set the limits of the joints, shape (n,) each, finite [rad or m, s]."""
        limits = {"speed": speed, "acceleration": acceleration, "jerk": jerk}
        for name, value in limits.items():
            self._values[:, JOINT_FIELDS.index(name)] = value

    def basis(self, times: Array) -> Array:
        """Return the weights of the knots in the attractor at times [s], shape (t, knots).

        The attractor is interpolated linearly, and constant after the last knot.
        """
        unit = np.eye(len(self.knot_times))
        return np.column_stack([np.interp(times, self.knot_times, row) for row in unit])

    def set_scene(self, scene: Scene) -> None:
        """Set the attached bodies, and the pairs of bodies to check."""
        attached = tuple(carried_body(item) for item in scene.attached.values())
        bodies = (*link_bodies(self._robot), *attached)
        moved = [body for body in bodies if self._is_moved(body)]
        bodies = (*moved, *(body for body in bodies if body not in moved))
        pairs = checked_pairs(self._robot, bodies, scene.allowed)
        steps = np.ones(len(self._joints))
        found = self._layout.fields(bodies, pairs, self._robot.home, 0.0, 0.0, steps)
        for name, value in found.items():
            if name in FIELDS:
                self._put(name, value)
        self._put("world_bodies", len(moved))

    def _is_moved(self, body: CollisionBody) -> bool:
        """Return whether an active joint moves a body."""
        joint = self._robot.tree.parent_joint.get(body.link)
        while joint is not None:
            name = joint.mimic.joint if joint.mimic is not None else joint.name
            if joint.movable and name in self._joints:
                return True
            joint = self._robot.tree.parent_joint.get(joint.parent)
        return False

    def set_obstacles(self, obstacles: ObstacleArrays) -> None:
        """Set the obstacles in the base frame; they move with constant twists."""
        if obstacles is self._obstacles:
            return
        self._obstacles = obstacles
        rows = rows_at(obstacles, self.times)
        table = np.zeros((len(obstacle_shapes()), 2), np.int64)
        for k, name in enumerate(obstacle_shapes()):
            found = self._arrays[f"rows of {name}"] = np.ascontiguousarray(rows[name])
            table[k] = found.ctypes.data, found.shape[1]
        self._put("obstacles", table)

    def set_goal(self, goal: Goal, scale: Array, *, free: bool) -> None:
        """Set target and posture.

        Args:
            goal: goal in the base frame.
            scale: weights of the joints in distances from their goals, shape (n,).
            free: whether a collision-free configuration at the target is known.
        """
        costs = COSTS if free else COSTS | WITHOUT_GOAL
        for name in WITHOUT_GOAL:
            self._weights[WEIGHTS.index(name)] = costs[name]
        self._values[:, JOINT_FIELDS.index("posture")] = goal.posture
        self._values[:, JOINT_FIELDS.index("scale")] = scale
        R, p = self._X_GT[:3, :3], self._X_GT[:3, 3]
        self._tool[:3] = p
        if goal.position is None:
            self._weights[WEIGHTS.index("position")] = 0.0
        else:
            self._tool[3:6] = goal.position
        if goal.rotation is None:
            self._weights[WEIGHTS.index("rotation")] = 0.0
        else:
            self._tool[6:] = (goal.rotation @ R.T).ravel()

    def set_watched(self, q: Array) -> None:
        """Set the positions of the other joints in the robot's order [rad or m]."""
        self._put("standing", q.astype(np.float32))

    def run(self, q: Array, qd: Array, qdd: Array, attractors: Array, goals: Array) -> RolloutCosts:
        """Return the results of sampled motions.

        Args:
            q: positions [rad or m], shape (n,).
            qd: velocities [rad/s or m/s], shape (n,).
            qdd: accelerations of the last step [rad/s^2 or m/s^2], shape (n,).
            attractors: knots of each sample [rad or m], shape (s, k, n); s is a multiple of the
                number of lanes.
            goals: goal of each sample [rad or m], shape (s, n).
        """
        starts = np.repeat(q[None], len(goals), axis=0)
        return self._evaluated(starts, qd, qdd, attractors, goals)

    def _evaluated(
        self, starts: Array, qd: Array, qdd: Array, attractors: Array, goals: Array
    ) -> RolloutCosts:
        for k, state in enumerate((qd, qdd)):
            self._values[:, k] = state
        blocks = len(attractors) // self.lanes
        self._put("blocks", blocks)
        self._put("attractors", self._in_lanes(attractors))
        self._put("starts", self._in_lanes(starts))
        self._put("goals", self._in_lanes(goals))
        out = np.empty((blocks, len(OUTPUTS), self.lanes), np.float32)
        self._put("out", out)
        self._run(self._table.ctypes.data)
        costs = out.transpose(1, 0, 2).reshape(len(OUTPUTS), -1).astype(np.float64)
        costs[0] = np.where(np.isfinite(costs[0]), costs[0], np.inf)
        return RolloutCosts(*costs)

    def free_along(self, starts: Array, ends: Array, points: int) -> Array:
        """Return the collision-free fraction of straight lines in joint space, shape (s,).

        Obstacles are at their poses of the first step. The starts are not checked.

        Args:
            starts: starts of the lines [rad or m], shape (s, n).
            ends: ends of the lines [rad or m], shape (s, n).
            points: number of configurations checked on each line.
        """
        count, lacking = len(ends), -len(ends) % self.lanes
        starts, ends = (np.pad(x, ((0, lacking), (0, 0)), mode="edge") for x in (starts, ends))
        rest = np.zeros(ends.shape[1])
        kept = {name: int(self._table[FIELDS[name]]) for name in ("steps", "tail", "tail_step")}
        for name, value in (("steps", 0), ("tail", points), ("tail_step", 0)):
            self._put(name, value)
        found = self._evaluated(starts, rest, rest, ends[:, None], ends).free
        for name, value in kept.items():
            self._put(name, value)
        return found[:count] / points

    def are_free(self, Q: Array) -> NDArray[np.bool_]:
        """Return which configurations [rad or m], shape (s, n), keep the min clearance."""
        return self.free_along(Q, Q, 1) > 0.5

    def _in_lanes(self, values: Array) -> Single:
        blocks = values.astype(np.float32).reshape(-1, self.lanes, *values.shape[1:])
        return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))

    def _put(self, field: str, value: int | NDArray[Any]) -> None:
        if isinstance(value, np.ndarray):
            self._arrays[field] = value
            value = value.ctypes.data
        self._table[FIELDS[field]] = value
