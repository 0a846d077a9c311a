# SPDX-License-Identifier: Apache-2.0
"""Rollouts of sampled motions of one robot: attractors in, costs and clearances out.

Guides out of traps are waypoints in joint space, connected by collision-free straight lines. Two
trees, from the robot's configuration and from its goals, grow by one step per plan: each is
extended towards many random configurations at once, and its new nodes are connected with the other
tree. All lines of a step are checked in one call of the rollouts' code.

Source: J. Kuffner, S. LaValle, RRT-Connect: an efficient approach to single-query path planning,
ICRA 2000.

Obstacles are predicted with constant twists over the horizon.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.reactive.mpc_settings import MpcSettings
from motion_nodes.core.reactive.numpy_policy import Goal
from motion_nodes.core.robot.poses import rotation_about
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.collision_arrays import CheckedRobot, RobotLayout
from motion_nodes.core.scene.robot_spheres import (
    CollisionBody,
    carried_body,
    checked_pairs,
    link_bodies,
)
from motion_nodes.core.scene.scene import Scene
from motion_nodes.kernels import native
from motion_nodes.kernels.collision.collision_binding import collision_calls
from motion_nodes.kernels.mpc import (
    FIELDS,
    JOINT_FIELDS,
    OUTPUTS,
    ROW,
    WEIGHTS,
    response,
    rollout_call,
)
from motion_nodes.kernels.rmp.rmp_memory import (
    ObstacleArrays,
    bounding_radii,
    empty_obstacles,
    obstacle_shapes,
)
from motion_nodes.tolerances import NO_ROTATION
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
_DRAWN = 64
"""Number of random configurations per step."""
_TOWARDS = 0.2
"""Fraction of them drawn from the nodes of the other tree."""
_SPACING = 0.08
"""Max spacing of checked configurations on a line [rad or m]."""
_LONGEST = 1.6
"""Max displacement of any joint in an extension [rad or m]."""
_SHORTEST = 0.04
"""Min collision-free fraction of an extension for it to be kept."""
_DENSE = 0.4
"""Max spacing of the points of a guide before it is shortened [rad or m]."""
_MOST = 3000
"""Max number of nodes of a tree; a search that exceeds it restarts."""
_ELSEWHERE = 0.3
"""Displacement of robot or goals beyond which they become new roots [rad or m]."""


def rows_at(obstacles: ObstacleArrays, times: Array) -> dict[str, NDArray[np.float32]]:
    """Return the rows of each shape as read by the rollouts, see ``mpc_memory.ROW``.

    Args:
        obstacles: obstacles in the base frame, with twists.
        times: times of the steps from now [s], shape (t,).

    Returns:
        Rows by name of the shape, shape (t, count, ROW).
    """
    return {name: _predicted(name, rows, times) for name, rows in obstacles.rows.items()}


def _predicted(name: str, rows: Array, times: Array) -> NDArray[np.float32]:
    still = _in_kernel(name, rows[:, :9].reshape(-1, 3, 3), rows[:, 9:12], rows)
    out = np.repeat(still[None], len(times), axis=0)
    moving = np.flatnonzero((rows[:, 16:22] != 0.0).any(axis=1))
    if len(moving):
        own = rows[moving]
        p = own[:, 9:12] + times[:, None, None] * own[:, 16:19]
        turned = _rotations(times[:, None, None] * own[:, 19:22])
        out[:, moving] = _in_kernel(name, turned @ own[:, :9].reshape(-1, 3, 3), p, own)
    return out


def _in_kernel(name: str, R: Array, p: Array, rows: Array) -> NDArray[np.float32]:
    """Return the rows of obstacles at poses in the base frame, shape (..., k, ROW)."""
    found = np.empty((*p.shape[:-1], ROW), np.float32)
    back = np.swapaxes(R, -1, -2)
    found[..., :9] = back.reshape(*p.shape[:-1], 9)
    found[..., 9:12] = -(back @ p[..., None])[..., 0]
    found[..., 12:16] = rows[:, 12:16]
    found[..., 16:19] = p
    found[..., 19] = bounding_radii(name, rows)
    return found


def _rotations(vectors: Array) -> Array:
    """Return the rotations of rotation vectors [rad], shape (..., 3, 3)."""
    angle = np.linalg.norm(vectors, axis=-1)
    return rotation_about(vectors / np.maximum(angle, NO_ROTATION)[..., None], angle)


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
        checked = CheckedRobot(bodies, pairs, self._robot.home, steps, 0.0, 0.0)
        found = self._layout.fields(checked)
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


class _Tree:
    """Nodes with their parents; there may be several roots."""

    def __init__(self, roots: Array) -> None:
        self.nodes: Array = roots.copy()
        self._parents = [-1] * len(roots)

    def include(self, roots: Array) -> None:
        """Add configurations that are far from all roots as roots, shape (m, n)."""
        for q in roots:
            known = self.nodes[np.flatnonzero(np.array(self._parents) < 0)]
            if np.abs(known - q).max(axis=1).min() > _ELSEWHERE:
                self.add(q[None], np.array([-1]))

    def add(self, nodes: Array, parents: NDArray[np.intp]) -> NDArray[np.intp]:
        """Add nodes, shape (m, n), and return their indices."""
        first = len(self.nodes)
        self.nodes = np.concatenate((self.nodes, nodes))
        self._parents += parents.tolist()
        return np.arange(first, len(self.nodes))

    def nearest(self, Q: Array) -> NDArray[np.intp]:
        """Return the node closest to each configuration, shape (m,)."""
        # |q - x|^2 without the part that is equal for all nodes.
        apart = (self.nodes * self.nodes).sum(axis=1) - 2.0 * (Q @ self.nodes.T)
        return np.asarray(apart.argmin(axis=1))

    def to_root(self, index: int) -> list[Array]:
        """Return the configurations from a node to its root."""
        found = []
        while index >= 0:
            found.append(self.nodes[index])
            index = self._parents[index]
        return found


class GuideSearch:
    """Incremental search for a guide; not thread-safe."""

    def __init__(self, rollouts: Rollouts, lower: Array, upper: Array) -> None:
        """Create.

        Args:
            rollouts: collision checks of lines.
            lower: lower limits of the joints [rad or m], shape (n,); finite.
            upper: upper limits of the joints [rad or m], shape (n,); finite.
        """
        self._rollouts = rollouts
        self._lower, self._upper = lower, upper
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Clear the trees, and reset the random numbers."""
        self._rng = np.random.default_rng(seed)
        self.forget()

    def forget(self) -> None:
        """Clear the trees."""
        self._trees: tuple[_Tree, _Tree] | None = None

    def reached(self, count: int) -> Array:
        """Return random nodes of the robot's tree, shape (count, n); (0, n) without a search."""
        if self._trees is None:
            return np.empty((0, len(self._lower)))
        nodes = self._trees[0].nodes
        return nodes[self._rng.integers(len(nodes), size=count)]

    def grow(self, q: Array, goals: Array) -> Array | None:
        """Grow both trees; return the guide once they meet, shape (w, n), else None.

        It leads from the robot's configuration, or an earlier one during the search, to a goal.

        Args:
            q: configuration of the robot [rad or m], shape (n,).
            goals: collision-free goals [rad or m], shape (b, n).
        """
        trees = self._trees
        if trees is None or max(len(tree.nodes) for tree in trees) > _MOST:
            trees = self._trees = (_Tree(q[None]), _Tree(goals))
        trees[0].include(q[None])
        trees[1].include(goals)
        for own, other in (trees, trees[::-1]):
            met = self._extend(own, other)
            if met is not None:
                ends = own.to_root(met[0]), other.to_root(met[1])
                start, rest = ends if own is trees[0] else ends[::-1]
                self.forget()
                return self._shortened(np.array([*start[::-1], *rest]))
        return None

    def _extend(self, own: _Tree, other: _Tree) -> tuple[int, int] | None:
        """Extend a tree; return the nodes at which it meets the other one, else None."""
        rng = self._rng
        drawn = rng.uniform(self._lower, self._upper, (_DRAWN, len(self._lower)))
        towards = round(_TOWARDS * _DRAWN)
        drawn[:towards] = other.nodes[rng.integers(len(other.nodes), size=towards)]
        parents = own.nearest(drawn)
        starts = own.nodes[parents]
        length = np.abs(drawn - starts).max(axis=1, keepdims=True)
        ends = starts + (drawn - starts) * np.minimum(1.0, _LONGEST / np.maximum(length, 1e-9))
        share = self._free_along(starts, ends)
        kept = share > _SHORTEST
        if not kept.any():
            return None
        reached = (starts + share[:, None] * (ends - starts))[kept]
        added = own.add(reached, parents[kept])
        closest = other.nearest(reached)
        met = np.flatnonzero(self._free_along(reached, other.nodes[closest]) >= 1.0)
        return (int(added[met[0]]), int(closest[met[0]])) if len(met) else None

    def _free_along(self, starts: Array, ends: Array) -> Array:
        length = float(np.abs(ends - starts).max(initial=0.0))
        return self._rollouts.free_along(starts, ends, max(1, math.ceil(length / _SPACING)))

    def _shortened(self, path: Array) -> Array:
        """Return a path without the waypoints that collision-free straight lines can skip."""
        path = _dense(path)
        kept, at = [path[0]], 0
        while at < len(path) - 1:
            ahead = path[at + 1 :]
            free = self._free_along(np.repeat(path[at : at + 1], len(ahead), axis=0), ahead) >= 1.0
            at += 1 + (int(np.flatnonzero(free)[-1]) if free.any() else 0)
            kept.append(path[at])
        return np.array(kept)


def _dense(path: Array) -> Array:
    """Return a path with additional points on its lines, shape (w, n)."""
    points = [path[:1]]
    for a, b in itertools.pairwise(path):
        count = math.ceil(float(np.abs(b - a).max()) / _DENSE)
        points.append(a + np.linspace(0.0, 1.0, count + 1)[1:, None] * (b - a))
    return np.concatenate(points)
