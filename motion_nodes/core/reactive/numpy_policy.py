# SPDX-License-Identifier: Apache-2.0
"""One evaluation of the policy in plain NumPy, RMP by RMP.

It reports the contribution of each RMP. Formulas are those of the generated code, but combined by
point Jacobians instead of rigid bodies, for comparison in tests. The link pairs of self-collision
avoidance, with the joints between them, are also written as the tables of the generated code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import rotation_about
from motion_nodes.core.robot.rmpflow_settings import Collision, RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.scene.robot_spheres import checked_pairs, link_bodies, rigid_links
from motion_nodes.core.scene.scene import AllowedCollisions
from motion_nodes.kernels.formulas import rmps as formulas
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.formulas.rmps import JointState, ToolState
from motion_nodes.kernels.kinematic_arrays import PRISMATIC, REVOLUTE, PackedArrays
from motion_nodes.kernels.rmp.rmp_codegen import LinkTables
from motion_nodes.kernels.rmp.rmp_leaves import LEAVES, axis_coefficients, collision_coefficients
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays, RmpModel, obstacle_shapes
from motion_nodes.kernels.rmp.rmp_pairs import distance
from motion_nodes.typing import Array

ANGLE_WEIGHT = 0.1
"""Weight of orientation errors relative to position errors, for progress [m/rad]."""
_NOTHING = 1e-10  # smallest eigenvalue relative to the largest that is not treated as zero


@dataclass(frozen=True, eq=False)
class Distances:
    """Distances of a point to k obstacles."""

    value: Array
    """Signed distance [m], shape (k,)."""
    direction: Array
    """Unit vectors away from the obstacles, shape (k, 3)."""
    rate: Array
    """Time derivatives of the distances [m/s], shape (k,)."""
    curvature: Array
    """v^T H v with H the Hessian of the distance; 0 inside [m/s^2], shape (k,)."""


def distances(obstacles: ObstacleArrays, p: Array, v: Array) -> Distances:
    """Return the distances of a point at p [m] with velocity v [m/s] to all obstacles."""
    shapes = obstacle_shapes()
    found = [
        distance(NUMPY, shapes[name], list(p), list(v), list(rows.T))
        for name, rows in obstacles.rows.items()
        if len(rows)
    ]
    if not found:
        return Distances(np.empty(0), np.empty((0, 3)), np.empty(0), np.empty(0))
    return Distances(
        np.concatenate([d.value for d in found]),
        np.concatenate([np.column_stack(d.n) for d in found]),
        np.concatenate([d.rate for d in found]),
        np.concatenate([d.curvature for d in found]),
    )


@dataclass(frozen=True)
class LinkPair:
    """Two links: ranges of their spheres, and the joints between them."""

    a: tuple[int, int]
    b: tuple[int, int]
    path: tuple[tuple[int, int], ...]
    """Rows of the joints that move one relative to the other, each with a sign: 1 moves a, -1 b."""


@dataclass(frozen=True, eq=False)
class SelfSpheres:
    """Spheres of self-collision avoidance, those of moving links first."""

    rows: tuple[int, ...]
    """Row of each sphere."""
    spheres: Array
    """Centre in its row (fixed ones: in the base frame) and radius [m], shape (s, 4)."""
    pairs: tuple[LinkPair, ...]

    @property
    def moving(self) -> int:
        """Number of moving spheres."""
        return sum(row > 0 for row in self.rows)


def self_spheres(
    robot: Robot, model: RmpModel, links: tuple[str, ...], radii: Array
) -> SelfSpheres:
    """Return the spheres of all links, and the pairs of links that must not collide.

    Adjacent links, pairs ignored in the robot's file (as in collision checks), and pairs that only
    watched joints move relative to each other, are omitted.

    Args:
        robot: the robot.
        model: model of the generated code.
        links: link of each of the model's spheres.
        radii: their radii [m], shape (s,).
    """
    bodies = link_bodies(robot)
    rows = list(model.sphere_rows)
    spheres = [np.column_stack((model.sphere_centres, radii))]
    ranges = {name: (links.index(name), links.index(name) + links.count(name)) for name in links}
    rigid = rigid_links(robot.tree)
    kinematics = Kinematics(robot.tree, base=robot.base_frame)
    kinematics.warm_up(())
    for body in bodies:
        if body.name not in ranges and rigid[body.link] == rigid[robot.base_frame]:
            X = kinematics.pose(robot.home, body.link)
            ranges[body.name] = (len(rows), len(rows) + len(body.spheres))
            rows += [0] * len(body.spheres)
            centres = body.spheres[:, :3] @ X[:3, :3].T + X[:3, 3]
            spheres.append(np.column_stack((centres, body.spheres[:, 3])))
    pairs = []
    for i, j in checked_pairs(robot, bodies, AllowedCollisions()):
        a, b = ranges.get(bodies[i].name), ranges.get(bodies[j].name)
        if a is not None and b is not None:
            path = _path(model, rows[a[0]], rows[b[0]])
            if path:
                pairs.append(LinkPair(a, b, path))
    return SelfSpheres(tuple(rows), np.concatenate(spheres), tuple(pairs))


def _path(model: RmpModel, a: int, b: int) -> tuple[tuple[int, int], ...]:
    """Return the moving rows above exactly one of two rows."""
    moving = set(model.moving_rows)
    above_a, above_b = _above(model.arrays, a), _above(model.arrays, b)
    return tuple(
        (row, sign)
        for side, other, sign in ((above_a, above_b, 1), (above_b, above_a, -1))
        for row in side
        if row in moving and row not in other
    )


def _above(arrays: PackedArrays, row: int) -> list[int]:
    rows = []
    while row > 0:
        rows.append(row)
        row = int(arrays.parent[row])
    return rows


@dataclass(frozen=True, eq=False)
class Goal:
    """Goal of the policy, in the base frame."""

    posture: Array
    """Target positions of the active joints [rad or m], shape (n,)."""
    position: Array | None = None
    """Target position of the tool [m], shape (3,); None: unconstrained."""
    rotation: Array | None = None
    """Target rotation of the tool, shape (3, 3); None: unconstrained."""

    @cached_property
    def coordinates(self) -> Array:
        """Coordinates to measure displacements of the goal: 1 rad is weighted as 0.1 m.

        The posture counts only without a target of the tool.
        """
        parts = [] if self.position is None else [self.position]
        if self.rotation is not None:
            parts.append(ANGLE_WEIGHT * self.rotation.ravel())
        return np.concatenate(parts or [ANGLE_WEIGHT * self.posture])


@dataclass(frozen=True, eq=False)
class LeafReport:
    """Contribution of one RMP in joint space."""

    name: str
    M: Array
    """Metric J^T M J, shape (n, n)."""
    force: Array
    """J^T M (acceleration - J-dot qd), shape (n,)."""

    @property
    def weight(self) -> float:
        """Weight of the RMP: the trace of its metric."""
        return float(np.trace(self.M))

    @property
    def acceleration(self) -> Array:
        """Acceleration of the joints under this RMP alone [rad/s^2 or m/s^2], shape (n,)."""
        return np.asarray(np.linalg.pinv(self.M, rcond=_NOTHING, hermitian=True) @ self.force)


@dataclass(frozen=True, eq=False)
class NumpyEvaluation:
    """Result of an evaluation."""

    qdd: Array
    """Accelerations of the active joints [rad/s^2 or m/s^2], shape (n,)."""
    M: Array
    """Sum of the metrics, shape (n, n)."""
    rhs: Array
    """Sum of the forces, shape (n,)."""
    leaves: tuple[LeafReport, ...] = field(default=())


def resolve(M: Array, rhs: Array, most: float) -> Array:
    """Return the acceleration [rad/s^2] that resolves all RMPs, its norm limited to ``most``."""
    return capped(np.linalg.pinv(M, rcond=_NOTHING, hermitian=True) @ rhs, most)


class PointMotion:
    """Positions, Jacobians and J-dot qd of points of a robot in one state."""

    def __init__(self, arrays: PackedArrays, active: int, q: Array, qd: Array) -> None:
        rows = len(arrays.parent)
        self.R = np.tile(np.eye(3), (rows, 1, 1))
        self.p = np.zeros((rows, 3))
        self.w, self.v = np.zeros((rows, 3)), np.zeros((rows, 3))
        self.wd, self.a = np.zeros((rows, 3)), np.zeros((rows, 3))
        self._z = np.zeros((rows, 3))
        self._arrays, self._active = arrays, active
        self.q, self.qd = q, qd
        """Positions and velocities of all joints, active ones first [rad or m]."""
        for row in range(1, rows):
            self._forward(row, int(arrays.parent[row]), q, qd)

    def _forward(self, row: int, parent: int, q: Array, qd: Array) -> None:
        """Propagate pose, velocity and acceleration of a parent to its child.

        Source: Siciliano et al., Robotics (2009), section 7.5.1, without joint accelerations.
        """
        arrays = self._arrays
        R = self.R[parent] @ arrays.X_PJ[row][:3, :3]
        p = self.p[parent] + self.R[parent] @ arrays.X_PJ[row][:3, 3]
        z = R @ arrays.axis[row]
        w, kind = self.w[parent], arrays.kind[row]
        turn, slide = np.zeros(3), np.zeros(3)
        if kind in (REVOLUTE, PRISMATIC):
            index, k = arrays.q_index[row], arrays.multiplier[row]
            value, rate = k * q[index] + arrays.offset[row], k * qd[index]
            self._z[row] = k * z
            if kind == REVOLUTE:
                R = R @ rotation_about(arrays.axis[row], value)
                turn = rate * z
            else:
                p = p + value * z
                slide = rate * z
        arm = p - self.p[parent]
        self.R[row], self.p[row] = R, p
        self.w[row] = w + turn
        self.wd[row] = self.wd[parent] + np.cross(w, turn)
        self.v[row] = self.v[parent] + np.cross(w, arm) + slide
        self.a[row] = (
            self.a[parent]
            + np.cross(self.wd[parent], arm)
            + np.cross(w, np.cross(w, arm))
            + 2.0 * np.cross(w, slide)
        )

    def point(self, row: int, centre: Array) -> tuple[Array, Array, Array]:
        """Return position [m], velocity [m/s] and J-dot qd [m/s^2] of a point fixed to a row."""
        arm = self.R[row] @ centre
        w = self.w[row]
        velocity = self.v[row] + np.cross(w, arm)
        bias = self.a[row] + np.cross(self.wd[row], arm) + np.cross(w, np.cross(w, arm))
        return self.p[row] + arm, velocity, bias

    def jacobian(self, row: int, point: Array) -> tuple[Array, Array]:
        """Return linear and angular Jacobian of a point of a row, shape (3, n) each."""
        linear, angular = np.zeros((3, self._active)), np.zeros((3, self._active))
        arrays = self._arrays
        while row > 0:
            index = int(arrays.q_index[row])
            if 0 <= index < self._active and arrays.kind[row] == REVOLUTE:
                linear[:, index] += np.cross(self._z[row], point - self.p[row])
                angular[:, index] += self._z[row]
            elif 0 <= index < self._active and arrays.kind[row] == PRISMATIC:
                linear[:, index] += self._z[row]
            row = int(arrays.parent[row])
        return linear, angular


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Collision spheres and the obstacles they must avoid, in the base frame."""

    sphere_rows: tuple[int, ...]
    centres: Array
    """Centres of the spheres in their rows [m], shape (s, 3)."""
    radii: Array
    """Radii of the spheres [m], shape (s,)."""
    obstacles: ObstacleArrays
    guard_rows: tuple[int, ...]
    guard_radii: Array
    """Radii of the guard spheres [m], shape (g,)."""
    capsules: Array
    """Capsules of the base as rows of boxes, shape (c, OBSTACLE)."""
    apart: SelfSpheres | None = None
    """Link pairs of self-collision avoidance."""


@dataclass(frozen=True, eq=False)
class JointBounds:
    """Joint limits as used by the RMPs, shape (n,) each."""

    lower: Array
    upper: Array
    max_velocity: Array
    region: Array


def evaluate(
    model: RmpModel,
    settings: RmpflowSettings,
    bounds: JointBounds,
    around: Surroundings,
    goal: Goal,
    motion: PointMotion,
) -> NumpyEvaluation:
    """Return the accelerations of the policy, and the contribution of each RMP.

    Args:
        model: the robot.
        settings: parameters.
        bounds: joint limits.
        around: spheres and obstacles, in the base frame.
        goal: goal in the base frame.
        motion: of the robot's points.
    """
    n = model.active
    spheres = around.sphere_rows, around.centres, around.radii
    guards = around.guard_rows, np.zeros((len(around.guard_rows), 3)), around.guard_radii
    reports = [
        *_joint_leaves(settings, bounds, goal, motion.q[:n], motion.qd[:n]),
        *_tool_leaves(model, settings, goal, motion),
        _collision_leaf("collision_rmp", motion, settings, spheres, around.obstacles),
        _collision_leaf(
            "body_collision", motion, settings, guards, ObstacleArrays({"box": around.capsules})
        ),
    ]
    if around.apart is not None:
        reports.append(_self_collision_leaf(model, motion, settings, around.apart))
    M = np.sum([leaf.M for leaf in reports], axis=0)
    rhs = np.sum([leaf.force for leaf in reports], axis=0)
    most = settings.canonical_resolve.max_acceleration_norm
    return NumpyEvaluation(resolve(M, rhs, most), M, rhs, tuple(reports))


def _joint_leaves(
    s: RmpflowSettings, bounds: JointBounds, goal: Goal, q: Array, qd: Array
) -> list[LeafReport]:
    offset = goal.posture - q
    limits = (bounds.lower, bounds.upper, bounds.max_velocity, bounds.region)
    state = JointState(q, qd, *limits, offset, float(np.linalg.norm(offset)))
    reports = []
    for leaf in LEAVES:
        if leaf.joint is not None:
            metric, force = leaf.joint(NUMPY, state, leaf.coefficients(s))
            M = np.diag(np.broadcast_to(metric, q.shape))
            reports.append(LeafReport(leaf.name, M, np.broadcast_to(force, q.shape)))
    return reports


def _tool_leaves(
    model: RmpModel, s: RmpflowSettings, goal: Goal, motion: PointMotion
) -> list[LeafReport]:
    row = model.tool_row
    x, xd, bias = motion.point(row, np.zeros(3))
    J, J_w = motion.jacobian(row, x)
    at = x if goal.position is None else goal.position
    state = ToolState(list(x), list(xd), list(at))
    reports = []
    for leaf in LEAVES:
        if leaf.tool is not None and not (leaf.needs_position and goal.position is None):
            M, force = (np.array(part) for part in leaf.tool(NUMPY, state, leaf.coefficients(s)))
            reports.append(LeafReport(leaf.name, J.T @ M @ J, J.T @ (force - M @ bias)))
    if goal.rotation is not None:
        p = axis_coefficients(s)
        squared, has_position = float((at - x) @ (at - x)), float(goal.position is not None)
        weight = formulas.axis_weight(NUMPY, squared, has_position, p)
        M_q, total = np.zeros((model.active, model.active)), np.zeros(model.active)
        w, wd = motion.w[row], motion.wd[row]
        for k in range(3):
            n = motion.R[row][:, k]
            nd = np.cross(w, n)
            J_n = np.cross(J_w.T, n).T
            n_bias = np.cross(wd, n) + np.cross(w, nd)
            desired = np.array(
                formulas.axis_target(list(n), list(nd), list(goal.rotation[:, k]), p)
            )
            M_q += weight * J_n.T @ J_n
            total += weight * J_n.T @ (desired - n_bias)
        reports.append(LeafReport("axis_target_rmp", M_q, total))
    return reports


def collision(x: Array, rate: Array, p: Collision) -> tuple[Array, Array]:
    """Return acceleration [m/s^2] and metric at signed distances [m] and their rates."""
    return formulas.collision(NUMPY, x, rate, list(collision_coefficients(p).values()))


def capped(acceleration: Array, most: float) -> Array:
    """Return an acceleration [rad/s^2] with its norm limited to ``most``, same direction."""
    norm = float(np.linalg.norm(acceleration))
    return acceleration * (most / norm) if norm > most else acceleration


def _collision_leaf(
    name: str,
    motion: PointMotion,
    s: RmpflowSettings,
    spheres: tuple[tuple[int, ...], Array, Array],
    obstacles: ObstacleArrays,
) -> LeafReport:
    """Return the leaf of spheres: their rows, centres in them (s, 3) and radii (s,)."""
    n = motion.jacobian(0, np.zeros(3))[0].shape[1]
    M, force = np.zeros((n, n)), np.zeros(n)
    for row, centre, radius in zip(*spheres, strict=True):
        p, v, bias = motion.point(row, centre)
        found = distances(obstacles, p, v)
        if not len(found.value):
            continue
        desired, weight = collision(found.value - radius, found.rate, s.collision_rmp)
        J = found.direction @ motion.jacobian(row, p)[0]
        M += J.T @ (weight[:, None] * J)
        force += J.T @ (weight * (desired - found.direction @ bias - found.curvature))
    return LeafReport(name, M, force)


def _self_collision_leaf(
    model: RmpModel, motion: PointMotion, s: RmpflowSettings, apart: SelfSpheres
) -> LeafReport:
    found = [motion.point(r, c) for r, c in zip(apart.rows, apart.spheres[:, :3], strict=True)]
    p, v, bias = (np.array(part) for part in zip(*found, strict=True))
    J = np.array([motion.jacobian(r, x)[0] for r, x in zip(apart.rows, p, strict=True)])
    M, force = np.zeros((model.active, model.active)), np.zeros(model.active)
    for pair in apart.pairs:
        a, b = (k.ravel() for k in np.meshgrid(range(*pair.a), range(*pair.b), indexing="ij"))
        offset, moved = p[a] - p[b], v[a] - v[b]
        length = np.linalg.norm(offset, axis=1)
        n = offset / length[:, None]
        rate = (n * moved).sum(axis=1)
        bend = ((moved * moved).sum(axis=1) - rate**2) / length
        x = length - apart.spheres[a, 3] - apart.spheres[b, 3]
        desired, weight = collision(x, rate, s.self_collision_rmp)
        J_x = np.einsum("ki,kij->kj", n, J[a] - J[b])
        M += J_x.T @ (weight[:, None] * J_x)
        force += J_x.T @ (weight * (desired - bend - (n * (bias[a] - bias[b])).sum(axis=1)))
    return LeafReport("self_collision_rmp", M, force)


def link_tables(model: RmpModel, apart: SelfSpheres) -> LinkTables:
    """Return the tables of a robot's link pairs."""
    column = {row: k for k, row in enumerate(model.moving_rows)}
    pairs: list[tuple[int, ...]] = []
    paths: list[tuple[int, ...]] = []
    sizes: list[float] = []
    for pair in apart.pairs:
        start = len(paths)
        for row, sign in pair.path:
            paths.append((column[row], int(model.arrays.q_index[row]), sign))
        pairs.append((*pair.a, *pair.b, start, len(paths)))
        sizes.append(sum(_size(apart.spheres[first:end]) for first, end in (pair.a, pair.b)))
    fixed = np.zeros((9, len(apart.spheres) - apart.moving))
    fixed[:3] = apart.spheres[apart.moving :, :3].T
    return LinkTables(
        np.array(pairs, np.int64).reshape(-1, 6),
        np.array(sizes, np.float64),
        np.array(paths, np.int64).reshape(-1, 3),
        apart.spheres[:, 3].copy(),
        fixed,
    )


def _size(spheres: Array) -> float:
    """Return the radius of a ball about the first sphere's centre that contains all [m]."""
    offsets = np.linalg.norm(spheres[:, :3] - spheres[0, :3], axis=1)
    return float((offsets + spheres[:, 3]).max())
