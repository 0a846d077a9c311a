# SPDX-License-Identifier: Apache-2.0
"""Kernel of the RRT towards poses of a tip, guided by the transposed Jacobian.

Errors are those of the tip in the axes of the target: position [m], then rotation vector [rad]. The
target's tolerances are subtracted, so an unconstrained axis has no error.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from motion_nodes.kernels.bridges import Checker, call_both, edge_free
from motion_nodes.kernels.jit import kernel, part
from motion_nodes.kernels.search.classic_trees import (
    CONTINUE,
    FOUND,
    FULL,
    NO_SAMPLE,
    Tree,
    TreeSpace,
    add,
    draw,
    free_way,
    nearest,
    square_below,
    steer,
    uniform,
)
from motion_nodes.typing import Array


class Tip(NamedTuple):
    """The controlled frame."""

    both: int
    """Address of ``both_one(q, pose, jacobian)`` of its link."""
    X_LT: Array
    """Pose of the tip in its link, shape (4, 4)."""


class Targets(NamedTuple):
    """Alternative target poses of the tip."""

    poses: Array
    """Poses in the base, shape (g, 4, 4)."""
    slack: Array
    """Tolerance per error component [m, rad], inf for an unconstrained one, shape (g, 6)."""
    radius: Array
    """Tolerances of the norms of position and rotation error [m, rad], shape (g, 2)."""


class TaskNodes(NamedTuple):
    """Data of the nodes, in addition to :class:`Tree`."""

    tip: Array
    """Positions of the tip [m], shape (room, 3)."""
    away: Array
    """Weighted distance to each target, shape (room, g)."""
    used: Any
    """1 for nodes that are no longer extended to a target, shape (room,), uint8."""


class TaskOptions(NamedTuple):
    """Growth of the tree; see :class:`motion_nodes.core.planning.task_space_rrt.RrtConfig`."""

    step_size: float
    tries: int
    exploitation: float
    exploration: float
    low: Array
    """Lower corner of the box in which tip positions are sampled [m], shape (3,)."""
    high: Array
    zone: Array
    """Position [m] and rotation error [rad] of the zone in which a target is found, shape (2,)."""
    gradient: Array
    """Weights of position and rotation error in the gradient, shape (2,)."""
    nearness: Array
    """Weights of position and rotation error in the distance of tip and target, shape (2,)."""
    substeps_away: int
    substeps_near: int
    near_scale: float
    culling: float
    substep: float


class TaskSearch(NamedTuple):
    """State of a search."""

    tree: Tree
    """With the start as its root, grown by earlier calls."""
    tasks: TaskNodes
    """Data of its nodes."""
    space: TreeSpace
    """Sampling bounds and metric."""
    checker: Checker
    tip: Tip
    targets: Targets
    options: TaskOptions


class TargetPose(NamedTuple):
    """One target of the tip; see :class:`Targets`."""

    pose: Array
    slack: Array
    radius: Array


@kernel
def grow_to_pose(search: TaskSearch, iterations: int, found: Any) -> int:
    """Grow the tree by a number of iterations, or until a new node is in the zone of a target.

    The first call (before any iteration) also checks the root.

    Args:
        search: the search.
        iterations: number of iterations.
        found: indices of node and target, shape (2,), int64.

    Returns:
        ``CONTINUE``, ``FOUND``, ``FULL`` or ``NO_SAMPLE``.

    Source: M. Vande Weghe, D. Ferguson and S. Srinivasa, "Randomized path planning for redundant
    manipulators without inverse kinematics", Humanoids 2007, with task-space exploration as in
    NVIDIA's planner of the same kind.
    """
    tree, tasks, space, checker, _, targets, options = search
    n, g = tree.nodes.shape[1], targets.poses.shape[0]
    work = np.empty((options.substeps_near + options.substeps_away + 2, n))
    sample, place = np.empty(n), np.eye(4)
    anywhere = np.zeros(6)
    anywhere[3:] = math.inf
    explored = TargetPose(place, anywhere, np.zeros(2))
    if tree.count[1] == 0 and _note(search, 0, found):
        return FOUND
    for _ in range(iterations):
        if tree.count[0] >= tree.nodes.shape[0]:
            return FULL
        tree.count[1] += 1
        chance = uniform(tree.random)
        node, steps = -1, 0
        if chance < options.exploitation:
            target = int(uniform(tree.random) * g)
            node = _to_exploit(tree, tasks, space, target, options.culling * options.step_size)
            if node >= 0:
                chosen = TargetPose(
                    targets.poses[target], targets.slack[target], targets.radius[target]
                )
                steps = _descend(search, tree.nodes[node], chosen, True, work)
        elif chance < options.exploitation + options.exploration:
            for k in range(3):
                share = uniform(tree.random)
                place[k, 3] = options.low[k] + share * (options.high[k] - options.low[k])
            node = _nearest_tip(tasks, tree.count[0], place)
            steps = _descend(search, tree.nodes[node], explored, False, work)
        if chance >= options.exploitation + options.exploration or node < 0:
            if not draw(space, tree.random, checker, options.tries, sample):
                return NO_SAMPLE
            node = nearest(space, tree.nodes, tree.count[0], sample)
            steps = _towards(space, checker, tree.nodes[node], sample, options, work)
        if steps == 0:
            continue
        new = _join(tree, space, checker, node, steps, work)
        if new >= 0 and _note(search, new, found):
            return FOUND
    return CONTINUE


@part
def _note(search: TaskSearch, node: int, found: Any) -> bool:
    """Store the data of a new node; return whether it is in the zone of a target."""
    tree, tasks, _, _, tip, targets, options = search
    X, J, error = np.empty((4, 4)), np.empty((6, tree.nodes.shape[1])), np.empty(6)
    _tip(tip, tree.nodes[node], X, J)
    tasks.tip[node] = X[:3, 3]
    tasks.used[node] = 0
    inside = False
    for i in range(targets.poses.shape[0]):
        lengths = _error(X, targets.poses[i], targets.slack[i], targets.radius[i], error)
        tasks.away[node, i] = options.nearness[0] * lengths[0] + options.nearness[1] * lengths[1]
        if not inside and lengths[0] <= options.zone[0] and lengths[1] <= options.zone[1]:
            found[0], found[1] = node, i
            inside = True
    return inside


@part
def _tip(tip: Tip, q: Array, X: Array, J: Array) -> None:
    """Write pose and Jacobian of the tip."""
    call_both(tip.both, q.ctypes.data, X.ctypes.data, J.ctypes.data)
    T, R = tip.X_LT, X[:3, :3].copy()
    r0 = R[0, 0] * T[0, 3] + R[0, 1] * T[1, 3] + R[0, 2] * T[2, 3]
    r1 = R[1, 0] * T[0, 3] + R[1, 1] * T[1, 3] + R[1, 2] * T[2, 3]
    r2 = R[2, 0] * T[0, 3] + R[2, 1] * T[1, 3] + R[2, 2] * T[2, 3]
    for i in range(3):
        for j in range(3):
            X[i, j] = R[i, 0] * T[0, j] + R[i, 1] * T[1, j] + R[i, 2] * T[2, j]
    X[0, 3] += r0
    X[1, 3] += r1
    X[2, 3] += r2
    for k in range(J.shape[1]):
        J[0, k] += J[4, k] * r2 - J[5, k] * r1
        J[1, k] += J[5, k] * r0 - J[3, k] * r2
        J[2, k] += J[3, k] * r1 - J[4, k] * r0


@part
def _error(X: Array, target: Array, slack: Array, radius: Array, out: Array) -> tuple[float, float]:
    """Write the error to the target beyond its tolerances; return both norms [m], [rad]."""
    # R is the target's rotation relative to the tip, in the target's axes.
    R = np.empty((3, 3))
    for i in range(3):
        out[i] = 0.0
        for k in range(3):
            out[i] += target[k, i] * (target[k, 3] - X[k, 3])
        for j in range(3):
            R[i, j] = 0.0
            for k in range(3):
                R[i, j] += target[k, j] * X[k, i]
    # The rotation vector of R; at half a turn its direction is arbitrary.
    x, y, z = R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]
    sine = 0.5 * math.sqrt(x * x + y * y + z * z)
    angle = math.atan2(sine, 0.5 * (R[0, 0] + R[1, 1] + R[2, 2] - 1.0))
    scale = 0.5 * angle / sine if sine > 1e-9 else 0.5
    if sine <= 1e-9 and angle > 1.0:
        x, y, z, scale = 2.0, 0.0, 0.0, 0.5 * math.pi
    out[3], out[4], out[5] = scale * x, scale * y, scale * z
    for k in range(6):
        left = max(0.0, abs(out[k]) - slack[k])
        out[k] = math.copysign(left, out[k])
    position = math.sqrt(out[0] * out[0] + out[1] * out[1] + out[2] * out[2])
    rotation = math.sqrt(out[3] * out[3] + out[4] * out[4] + out[5] * out[5])
    for k in range(3):
        out[k] *= max(0.0, 1.0 - radius[0] / position) if position > 0.0 else 0.0
        out[3 + k] *= max(0.0, 1.0 - radius[1] / rotation) if rotation > 0.0 else 0.0
    return max(0.0, position - radius[0]), max(0.0, rotation - radius[1])


@part
def _descend(
    search: TaskSearch, start: Array, target: TargetPose, exploit: bool, path: Array
) -> int:
    """Follow the transposed Jacobian while collision-free and the error decreases.

    Returns:
        Number of substeps; their ends are in ``path`` from row 1 on.
    """
    _, _, space, checker, tip, _, options = search
    X, J, error = np.empty((4, 4)), np.empty((6, start.shape[0])), np.empty(6)
    path[0] = start
    steps, before = 0, math.inf
    while True:
        _tip(tip, path[steps], X, J)
        lengths = _error(X, target.pose, target.slack, target.radius, error)
        left = options.gradient[0] * lengths[0] ** 2 + options.gradient[1] * lengths[1] ** 2
        if left >= before:
            return max(0, steps - 1)
        before = left
        near = exploit and lengths[0] < options.near_scale * options.zone[0]
        if steps >= (options.substeps_near if near else options.substeps_away) or left == 0.0:
            return steps
        _into_base(target.pose, error)
        if not _gradient_step(space, options, J, error, path[steps], path[steps + 1]):
            return steps
        if not edge_free(checker, path, steps, path, steps + 1):
            return steps
        steps += 1


@part
def _into_base(target: Array, error: Array) -> None:
    """Turn an error from the axes of the target into those of the base, in place."""
    for at in range(0, 6, 3):
        x, y, z = error[at], error[at + 1], error[at + 2]
        for i in range(3):
            error[at + i] = target[i, 0] * x + target[i, 1] * y + target[i, 2] * z


@part
def _gradient_step(
    space: TreeSpace, options: TaskOptions, J: Array, e: Array, q: Array, out: Array
) -> bool:
    """Write the end of a gradient step on the squared error; False if the gradient vanishes.

    The error is in the axes of the base, as the Jacobian.
    """
    n, dq = q.shape[0], out  # overwritten at last
    moved = np.zeros(6)
    square = 0.0
    for k in range(n):
        dq[k] = 0.0
        for i in range(6):
            dq[k] += options.gradient[i // 3] * J[i, k] * e[i]
        # A joint at a limit that would exceed it is excluded.
        at_end = (dq[k] > 0.0 and q[k] >= space.high[k]) or (dq[k] < 0.0 and q[k] <= space.low[k])
        if at_end and not space.wraps[k]:
            dq[k] = 0.0
        square += dq[k] * dq[k]
    if square < 1e-24:
        return False
    gain, curvature = 0.0, 0.0
    for i in range(6):
        for k in range(n):
            moved[i] += J[i, k] * dq[k]
        gain += options.gradient[i // 3] * e[i] * moved[i]
        curvature += options.gradient[i // 3] * moved[i] * moved[i]
    scale = min(gain / curvature if curvature > 0.0 else 0.0, options.substep / math.sqrt(square))
    for k in range(n):
        out[k] = q[k] + scale * dq[k]
        if not space.wraps[k]:
            out[k] = min(max(out[k], space.low[k]), space.high[k])
    return True


@part
def _towards(
    space: TreeSpace, checker: Checker, start: Array, goal: Array, options: TaskOptions, path: Array
) -> int:
    """Take straight steps towards a configuration while collision-free; return their number."""
    path[0] = start
    steps = 0
    while steps < max(1, options.substeps_away):
        if steer(space, path[steps], goal, options.step_size, path[steps + 1]) < 1e-9:
            break
        if not edge_free(checker, path, steps, path, steps + 1):
            break
        steps += 1
    return steps


@part
def _join(
    tree: Tree, space: TreeSpace, checker: Checker, node: int, steps: int, path: Array
) -> int:
    """Add the farthest substep reachable by a collision-free edge; -1 if there is none."""
    work = np.empty(path.shape[1])
    while steps > 0:
        if free_way(space, checker, tree.nodes[node], path[steps], work):
            return add(tree, path[steps], node)
        steps //= 2
    return -1


@part
def _to_exploit(tree: Tree, tasks: TaskNodes, space: TreeSpace, target: int, cull: float) -> int:
    """Return the unmarked node closest to a target, and mark it as extended; -1 if there is none.

    Nodes within ``cull`` of it are marked as well, because they would take the same path.
    """
    best, least = -1, math.inf
    for i in range(tree.count[0]):
        if tasks.used[i] == 0 and tasks.away[i, target] < least:
            best, least = i, tasks.away[i, target]
    if best < 0:
        return -1
    tasks.used[best] = 1
    if cull > 0.0:
        q, limit, turning = tree.nodes[best], cull * cull, space.wraps.any()
        for i in range(tree.count[0]):
            near = square_below(space, tree.nodes, i, q, limit, turning) < limit
            if near and tasks.used[i] == 0:
                tasks.used[i] = 1
    return best


@part
def _nearest_tip(tasks: TaskNodes, count: int, place: Array) -> int:
    """Return the node whose tip is closest to the position of a pose."""
    best, least = 0, math.inf
    for i in range(count):
        x, y = tasks.tip[i, 0] - place[0, 3], tasks.tip[i, 1] - place[1, 3]
        z = tasks.tip[i, 2] - place[2, 3]
        square = x * x + y * y + z * z
        if square < least:
            best, least = i, square
    return best
