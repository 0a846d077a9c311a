# SPDX-License-Identifier: Apache-2.0
"""Kernels of searches with tasks: components by SciPy, a point on a sphere, a planar arm.

Shortest paths on a sphere are arcs of great circles.
"""

import ctypes
import itertools
import math

import numpy as np
import pytest
from kernels.plain_kernels import plain
from scipy.spatial.transform import Rotation

from motion_nodes.kernels.search import constrained_rrt, manifold, task_space_rrt

PARTS, SPHERE, TASK = plain(manifold), plain(constrained_rrt), plain(task_space_rrt)


@pytest.fixture(autouse=True)
def _integers_wrap():
    with np.errstate(over="ignore"):
        yield


def moved(X, twist):
    """Return a pose after a motion by a twist, in the axes and about the place of X's parent."""
    Y = X.copy()
    Y[:3, :3] = Rotation.from_rotvec(twist[3:]).as_matrix() @ X[:3, :3]
    Y[:3, 3] += twist[:3]
    return Y


def point(q, X, J):
    """Kinematics of a point with three prismatic joints."""
    X[:], J[:] = np.eye(4), np.eye(6)[:, :3]
    X[:3, 3] = q


class Cap:
    """A spherical obstacle; segments are sampled."""

    memory = None

    def __init__(self, centre, radius):
        self.centre, self.radius = np.array(centre), radius

    def state(self, q):
        return np.linalg.norm(q - self.centre) >= self.radius

    def edge(self, a, b):
        return all(self.state(a + s * (b - a)) for s in np.linspace(0.0, 1.0, 9))


FREE = Cap((9.0, 9.0, 9.0), 0.1)
RIGHT, LEFT = np.array([1.0, 0.0, 0.0]), np.array([-1.0, 0.0, 0.0])
BOX = (np.full(3, -1.5), np.full(3, 1.5), np.zeros(3, bool), np.ones(3))


def on_sphere():
    from motion_nodes.kernels.search.manifold import Manifold

    bounds = np.full((1, 6, 2), (-math.inf, math.inf))
    bounds[0, 0] = 0.98, 1.02
    one, still = np.zeros(1, np.int64), np.eye(4)[None]
    return Manifold(
        np.array([point], object), one, still, still, one + PARTS.BALL, one + PARTS.NONE,
        one - 1, bounds, np.full((1, 6), 0.02), np.array(BOX[:2]),
    )  # fmt: skip


def sphere_space(checker, step=0.25):
    return SPHERE.ConstrainedSpace(SPHERE.TreeSpace(*BOX), checker, on_sphere(), step)


def roots(module, room, *places):
    trees = []
    for q in places:
        tree = module.Tree(
            np.empty((room, len(q))), np.full(room, -1), np.zeros(2, np.int64),
            np.array([5], np.uint64),
        )  # fmt: skip
        module.add(tree, q, -1)
        trees.append(tree)
    return trees


def branch(tree, node):
    rows = []
    while node >= 0:
        rows.append(tree.nodes[node])
        node = tree.parent[node]
    return rows[::-1]


def length(path):
    return np.linalg.norm(np.diff(path, axis=0), axis=1).sum()


def radii(path):
    share = np.linspace(0.0, 1.0, 20)[:, None]
    parts = [a + share * (b - a) for a, b in itertools.pairwise(path)]
    return np.linalg.norm(np.concatenate(parts), axis=1)


def test_paths_on_a_sphere_stay_there_and_become_great_circles():
    hill, found = Cap((0.0, 0.6, 0.8), 0.9), np.zeros(2, np.int64)
    held = sphere_space(hill)
    first, second = roots(SPHERE, 400, RIGHT, LEFT)
    outcome = SPHERE.grow_on_manifold(first, second, held, 60, found)
    assert outcome == SPHERE.FOUND
    path = np.array(branch(first, found[0]) + branch(second, found[1])[::-1])
    assert path[[0, -1]] == pytest.approx(np.array([RIGHT, LEFT]))
    # Up to 0.7 of the margin beyond the bounds may be used between nodes.
    low, high = 0.98 - 0.75 * 0.02, 1.02 + 0.75 * 0.02
    assert low <= radii(path).min() < radii(path).max() <= high
    assert all(hill.edge(a, b) for a, b in itertools.pairwise(path))
    rows = np.full((200, 3), np.nan)
    rows[: len(path)] = path
    count = SPHERE.shorten_on_manifold(rows, len(path), held, 40, np.array([2], np.uint64))
    short = rows[:count].copy()
    SPHERE.smooth_on_manifold(short, held, 1)
    assert short[[0, -1]] == pytest.approx(np.array([RIGHT, LEFT]))
    assert low <= radii(short).min() < radii(short).max() <= high
    assert all(hill.edge(a, b) for a, b in itertools.pairwise(short))
    assert 0.96 * math.pi < length(short) <= length(path) * 1.001
    assert length(short) < 1.1 * math.pi
    first, second = roots(SPHERE, 2, RIGHT, LEFT)
    outcome = SPHERE.grow_on_manifold(first, second, sphere_space(FREE), 9, found)
    assert outcome == SPHERE.FULL
    first, second = roots(SPHERE, 40, RIGHT, np.array([math.cos(0.2), math.sin(0.2), 0.0]))
    outcome = SPHERE.grow_on_manifold(first, second, sphere_space(FREE), 0, found)
    assert outcome == SPHERE.FOUND  # roots that see each other


class Caps:
    """Several spherical obstacles."""

    memory = None

    def __init__(self, radius, *centres):
        self.caps = [Cap(centre, radius) for centre in centres]

    def edge(self, a, b):
        return all(cap.edge(a, b) for cap in self.caps)


@pytest.mark.parametrize("step", [0.25, 0.6])
def test_all_nodes_and_edges_of_both_trees_are_valid(step):
    """Chords of 0.6 leave the tolerance of the sphere; obstacles stand on all sides of the path."""
    found = np.zeros(2, np.int64)
    sides = [(0.0, y, z) for y, z in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))]
    caps = Caps(0.6, *sides)
    trees = roots(SPHERE, 400, RIGHT, LEFT)
    outcome = SPHERE.grow_on_manifold(*trees, sphere_space(caps, step), 60, found)
    assert outcome == SPHERE.FOUND
    edges = [
        np.array([tree.nodes[tree.parent[k]], tree.nodes[k]])
        for tree in trees
        for k in range(1, tree.count[0])
    ]
    assert len(edges) > 12
    for edge in edges:
        assert caps.edge(*edge)
        assert np.linalg.norm(edge, axis=1) == pytest.approx(1.0, abs=0.021)
        assert np.abs(radii(edge) - 1.0).max() <= 0.02 + 0.72 * 0.02
        assert length(edge) <= 2.5 * step


def test_no_step_ends_where_the_projection_fails():
    """Halfway to the other side is the centre, where the distance from it has no gradient."""
    rows, work = np.zeros((9, 3)), PARTS.make_work(1, 3)
    rows[0] = RIGHT
    count, reached = SPHERE._walk(sphere_space(FREE, 1.0), LEFT, 8, rows, work)
    assert not reached
    assert np.linalg.norm(rows[: count + 1], axis=1) == pytest.approx(1.0, abs=0.021)


def test_smoothing_moves_waypoints_only_where_their_edges_are_free():
    azimuth, elevation = np.array([-0.2, 0.0, 0.2]), np.array([0.0, 0.12, 0.0])
    path = np.stack([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth),
                     np.sin(elevation)], axis=1)  # fmt: skip
    before, below = path.copy(), Cap((1.0, 0.0, 0.0), 0.1)
    SPHERE.smooth_on_manifold(path, sphere_space(below), 1)
    assert path == pytest.approx(before, abs=0.0)
    SPHERE.smooth_on_manifold(path, sphere_space(FREE), 1)
    assert path[1, 2] == pytest.approx(0.06, abs=2e-3)


def planar(q, X, J):
    """Pose and Jacobian of an arm of three links of 1 m in the plane, in memory or in arrays."""
    if isinstance(q, int):
        q, X, J = (
            np.ctypeslib.as_array((ctypes.c_double * math.prod(shape)).from_address(a)).reshape(
                shape
            )
            for a, shape in ((q, (3,)), (X, (4, 4)), (J, (6, 3)))
        )
    angles = np.cumsum(q)
    X[:] = np.eye(4)
    X[:3, :3] = Rotation.from_rotvec([0.0, 0.0, angles[-1]]).as_matrix()
    steps = np.stack([np.cos(angles), np.sin(angles)])
    X[:2, 3] = steps.sum(axis=1)
    J[:] = 0.0
    J[5] = 1.0
    for k in range(3):
        x, y = steps[:, k:].sum(axis=1)
        J[0, k], J[1, k] = -y, x


def test_pose_and_jacobian_of_a_tip_are_those_of_a_point_of_the_link():
    rng = np.random.default_rng(8)
    X_BL, X_LT, at_link = np.eye(4), np.eye(4), rng.normal(size=(6, 3))
    for pose in (X_BL, X_LT):
        pose[:3, :3], pose[:3, 3] = (
            Rotation.random(random_state=rng).as_matrix(),
            rng.normal(size=3),
        )

    def link(q, X, J):
        for address, values in ((X, X_BL), (J, at_link)):
            ctypes.memmove(address, np.ascontiguousarray(values).ctypes.data, values.nbytes)

    X, J = np.empty((4, 4)), np.empty((6, 3))
    TASK._tip(TASK.Tip(link, X_LT), np.zeros(3), X, J)
    assert pytest.approx(X_BL @ X_LT) == X
    lever = X_BL[:3, :3] @ X_LT[:3, 3]
    assert J[3:] == pytest.approx(at_link[3:])
    assert J[:3] == pytest.approx(at_link[:3] + np.cross(at_link[3:], lever, axis=0))


def test_errors_are_those_of_the_target_less_its_tolerances():
    rng, out = np.random.default_rng(6), np.empty(6)
    for _ in range(20):
        X, T = np.eye(4), np.eye(4)
        for pose in (X, T):
            pose[:3, :3] = Rotation.random(random_state=rng).as_matrix()
            pose[:3, 3] = rng.normal(size=3)
        error = np.concatenate([
            T[:3, :3].T @ (T[:3, 3] - X[:3, 3]),
            Rotation.from_matrix(X[:3, :3].T @ T[:3, :3]).as_rotvec(),
        ])  # fmt: skip
        slack, radius = rng.uniform(0.0, 0.6, 6), rng.uniform(0.0, 0.3, 2)
        left = np.sign(error) * np.maximum(np.abs(error) - slack, 0.0)
        norms = [np.linalg.norm(left[:3]), np.linalg.norm(left[3:])]
        lengths = TASK._error(X, T, slack, radius, out)
        assert lengths == pytest.approx(np.maximum(norms - radius, 0.0), abs=1e-9)
        for k, norm in enumerate(norms):
            scale = max(0.0, 1.0 - radius[k] / norm) if norm > 0.0 else 0.0
            part = slice(3 * k, 3 * k + 3)
            assert out[part] == pytest.approx(scale * left[part], abs=1e-9)


def options(**changes):
    return TASK.TaskOptions(
        step_size=0.2, tries=50, exploitation=0.5, exploration=0.2, low=np.array([-1.0, 0.0, 0.0]),
        high=np.array([2.0, 2.0, 0.0]), zone=np.array([0.02, 0.05]), gradient=np.array([1.0, 0.3]),
        nearness=np.array([1.0, 0.3]), substeps_away=30, substeps_near=60, near_scale=5.0,
        culling=0.3, substep=0.1,
    )._replace(**changes)  # fmt: skip


def test_descent_ends_at_the_limits_or_where_the_error_grows():
    low, start = np.full(3, -0.4), np.array([0.3, 0.2, 0.2])
    space = TASK.TreeSpace(low, -low, np.zeros(3, bool), np.ones(3))
    goal, path, anywhere = np.eye(4), np.zeros((95, 3)), np.array([0.0, 0.0, 0.0, 9.0, 9.0, 9.0])
    goal[:2, 3] = 0.4, 1.6
    for substep in (0.1, 3.0):
        search = TASK.TaskSearch(
            None, None, space, FREE, TASK.Tip(planar, np.eye(4)), None, options(substep=substep)
        )
        steps = TASK._descend(
            search, start, TASK.TargetPose(goal, anywhere, np.zeros(2)), True, path
        )
        assert steps > 0
        assert (np.abs(path[: steps + 1]) <= 0.4).all()
        away, X, J = [], np.empty((4, 4)), np.empty((6, 3))
        for q in path[: steps + 1]:
            planar(q, X, J)
            away.append(np.linalg.norm(X[:2, 3] - goal[:2, 3]))
        assert (np.diff(away) < 0.0).all()


def test_nodes_are_extended_to_a_target_once_the_closest_first():
    space = TASK.TreeSpace(np.full(2, -2.0), np.full(2, 2.0), np.zeros(2, bool), np.ones(2))
    away = np.array([0.5, 0.2, 0.9, 0.4])
    (tree,) = roots(TASK, 4, np.zeros(2))
    for q in ([1.0, 0.0], [1.0, 0.05], [-1.0, 0.0]):
        TASK.add(tree, np.array(q), 0)
    for cull, expected in ((0.0, [1, 3, 0, 2, -1]), (0.1, [1, 3, 0, -1])):
        tasks = TASK.TaskNodes(np.zeros((4, 3)), away[:, None], np.zeros(4, np.uint8))
        assert [TASK._to_exploit(tree, tasks, space, 0, cull) for _ in expected] == expected


def test_a_tree_reaches_a_pose_of_a_planar_arm():
    start, low = np.array([0.3, 0.2, 0.2]), np.full(3, -2.5)
    space = TASK.TreeSpace(low, -low, np.zeros(3, bool), np.ones(3))
    goal = np.eye(4)
    goal[:3, :3] = Rotation.from_rotvec([0.0, 0.0, 2.0]).as_matrix()
    goal[:2, 3] = 0.4, 1.6
    targets = TASK.Targets(goal[None], np.zeros((1, 6)), np.zeros((1, 2)))
    ball = Cap((0.8, 0.6, 0.5), 0.35)  # in joint space, on the straight way
    offset = moved(np.eye(4), np.array([0.1, 0.05, 0.0, 0.0, 0.0, 0.4]))
    (tree,) = roots(TASK, 600, start)
    tasks = TASK.TaskNodes(np.empty((600, 3)), np.empty((600, 1)), np.zeros(600, np.uint8))
    found = np.zeros(2, np.int64)
    search = TASK.TaskSearch(tree, tasks, space, ball, TASK.Tip(planar, offset), targets, options())
    outcome = TASK.grow_to_pose(search, 300, found)
    assert outcome == TASK.FOUND
    path = np.array(branch(tree, found[0]))
    assert path[0] == pytest.approx(start)
    assert all(ball.edge(a, b) for a, b in itertools.pairwise(path))
    assert (np.abs(path) <= 2.5 + 1e-12).all()
    X, J = np.empty((4, 4)), np.empty((6, 3))
    planar(path[-1], X, J)
    X = X @ offset
    assert np.linalg.norm(X[:3, 3] - goal[:3, 3]) <= 0.02
    assert Rotation.from_matrix(X[:3, :3].T @ goal[:3, :3]).magnitude() <= 0.05
    assert tasks.tip[found[0]] == pytest.approx(X[:3, 3])
    (tree,) = roots(TASK, 1, start)
    search = search._replace(tree=tree, tip=TASK.Tip(planar, np.eye(4)))
    outcome = TASK.grow_to_pose(search, 9, found)
    assert outcome == TASK.FULL
