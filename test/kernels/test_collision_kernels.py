# SPDX-License-Identifier: Apache-2.0
"""Kernels of collision checking by coal and pinocchio, and a wall in closed form."""

from __future__ import annotations

import ctypes
import itertools
import math

import coal
import numpy as np
import pytest
from kernels.compile_program import Compiled
from kernels.plain_kernels import plain
from kernels.random_trees import Oracle, random_tree
from kernels.test_convex_distance import by_coal
from scene.random_scenes import coal_shape, random_pose

from motion_nodes.kernels import native
from motion_nodes.kernels.collision import collision_memory as memory
from motion_nodes.kernels.collision import path_sweep, piece_arrays
from motion_nodes.kernels.collision.collision_shapes import TEST, collision_tests
from motion_nodes.kernels.collision.entry_points import entry_functions
from motion_nodes.kernels.collision.group_frames import groups_program
from motion_nodes.kernels.collision.shape_kinds import KINDS
from motion_nodes.kernels.collision.sphere_distances import nearest_text
from motion_nodes.kernels.control_flow import FunctionBuilder
from motion_nodes.kernels.kinematic_arrays import pack
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes
from motion_nodes.model.poses import from_xyz_rpy, inverse
from motion_nodes.model.tree import Box, Cylinder, Sphere
from motion_nodes.scene.convex_pieces import pieces_of
from motion_nodes.scene.shapes import Capsule, Cone

N = 4
LANES = Lanes("float", N)
SOLIDS = {
    memory.SPHERE: Sphere(0.3),
    memory.BOX: Box((0.4, 0.6, 0.2)),
    memory.CYLINDER: Cylinder(0.2, 0.7),
    memory.CAPSULE: Capsule(0.15, 0.6),
    memory.CONE: Cone(0.3, 0.8),
}
SIZES = {
    memory.SPHERE: (0.3,),
    memory.BOX: (0.2, 0.3, 0.1),
    memory.CYLINDER: (0.2, 0.35),
    memory.CAPSULE: (0.15, 0.3),
    memory.CONE: (0.3, 0.4, 1.0 / math.hypot(0.3, 0.8)),
}


def loaded(text):
    cpu = native.host_cpu()
    return native.LoadedCode(native.compiled(text, cpu), cpu)


def call(code, name, *arguments, result=ctypes.c_int64):
    kind = ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(arguments))
    values = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
    return kind(code.address(name))(*values)


def leaf(kind, X, number=0):
    row = np.zeros(memory.LEAF, np.float32)
    row.view(np.int32)[:2] = kind, number
    back = inverse(X if KINDS[kind].rotated else from_xyz_rpy(X[:3, 3]))
    values = [*back[:3, :3].ravel(), *back[:3, 3], *SIZES[kind]]
    row[4 : 4 + len(values)] = values
    return row


def table(**fields):
    made = np.zeros(memory.FIELDS.size, np.int64)
    for name, value in fields.items():
        place = memory.FIELDS[name]
        made[place] = value.ctypes.data if isinstance(value, np.ndarray) else value
    return made


def sphere_distance(solid, X, centre, radius):
    """Return signed distance and unit direction of a sphere, by coal."""
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = 1e-9
    poses = [coal.Transform3s(X[:3, :3], X[:3, 3]), coal.Transform3s(np.eye(3), centre)]
    found = coal.distance(coal_shape(solid), poses[0], coal.Sphere(1e-6), poses[1], request, result)
    way = centre - result.getNearestPoint1()
    return found + 1e-6 - radius, way / max(np.linalg.norm(way), 1e-12)


def test_closest_leaf_of_each_sphere():
    code = loaded(nearest_text(LANES))
    rng, count = np.random.default_rng(1), 8 * N
    poses = {kind: random_pose(rng, 0.0, 1.2) for kind in SOLIDS}
    leaves = np.array([leaf(kind, X, k) for k, (kind, X) in enumerate(poses.items())])
    checked = (rng.uniform(size=(len(leaves), count)) < 0.7).astype(np.int8)
    checked[:, 0] = 0
    x = rng.uniform(-1.2, 1.2, (4, count)).astype(np.float32)
    x[3] = 0.01 * np.arange(count)
    out, planes = np.zeros((5, count), np.float32), np.zeros(4, np.float32)
    held = table(leaf_count=len(leaves), leaves=leaves, planes=planes)
    call(code, "nearest", count, x, checked, out, held, result=None)
    assert out[0, 0] == np.inf
    assert out[4, 0] == -1.0
    outside = 0
    for i in range(1, count):
        centre = x[:3, i].astype(float)
        found = {
            number: sphere_distance(SOLIDS[kind], poses[kind], centre, float(x[3, i]))
            for number, kind in enumerate(SOLIDS)
            if checked[number, i]
        }
        if not found:
            continue
        closest = min(found, key=lambda number: found[number][0])
        distance, direction = found[closest]
        assert out[0, i] == pytest.approx(distance, abs=2e-5)
        assert out[4, i] == closest
        if distance + x[3, i] > 1e-3:
            outside += 1
            assert out[1:4, i] == pytest.approx(direction, abs=1e-3)
    assert outside > count // 2


def test_spheres_touch_the_leaves_that_coal_says():
    text = "\n".join([collision_tests(LANES, KINDS), *declarations(LANES)])
    code = loaded(text.replace("define internal i64 @hits(", "define i64 @hits("))
    assert list(TEST) == ["leaf", "centres", "radii", "count", "limit"]
    rng, planes, hits = np.random.default_rng(2), np.zeros(4, np.float32), 0
    for kind, solid in SOLIDS.items():
        for _ in range(12):
            X = random_pose(rng, 0.0, 0.3)
            centres = rng.uniform(-0.6, 0.6, (3, 3, N)).astype(np.float32)
            radii = rng.uniform(0.02, 0.2, 3).astype(np.float32)
            distance = np.array([
                [sphere_distance(solid, X, centres[s, :, k].astype(float), float(radii[s]))[0]
                 for k in range(N)] for s in range(3)
            ])  # fmt: skip
            if (np.abs(distance) < 1e-4).any():
                continue
            found = call(code, "hits", leaf(kind, X), centres, radii, 3, (1 << N), planes)
            expected = (distance < 0.0).any(axis=0)
            assert found == sum(1 << k for k in range(N) if expected[k])
            hits += expected.sum()
    assert 60 < hits < 200
    centres[:] = np.nan
    assert call(code, "hits", leaf(kind, X), centres, radii, 1, 99, planes) == (1 << N) - 1


@pytest.fixture(scope="module")
def wall():
    """Checks of two joints, of which the first collides between 0.50 and 0.52 [rad]."""
    names = ("q", "h", "poses", "bounds", "spheres", "placed")
    flow = FunctionBuilder(LANES, **dict.fromkeys(names, "ptr"), limit="i64")
    q = flow.pointer("q", "float").load(0, N)
    flow.ret(((q > 0.50) & (q < 0.52)).bits())
    wide = [f"declare <{N} x double> @llvm.{f}.v{N}f64(<{N} x double>)" for f in ("rint", "fabs")]
    scalar = [f"declare double @llvm.{f}.f64(double)" for f in ("rint", "fabs", "sqrt", "ceil")]
    text = [flow.function("block"), entry_functions(LANES), *wide, *scalar, *declarations(LANES)]
    turns, inverse_steps = np.array([2.0 * math.pi, 0.0]), 1.0 / np.array([0.015, 0.5])
    held = table(joints=2, inputs=3, turns=turns, inverse_steps=inverse_steps,
                 standing=np.array([9.0], np.float32), groups=1, bodies=1, spheres=1)  # fmt: skip
    keep = (turns, inverse_steps, np.array([9.0], np.float32))
    held[memory.FIELDS["standing"]] = keep[2].ctypes.data
    return loaded("\n".join(dict.fromkeys(text))), held, keep


def test_edges_are_checked_at_steps_that_no_wall_fits_between(wall):
    code, held, _ = wall
    rng = np.random.default_rng(3)

    def edge(a, b):
        return call(code, "edge", np.array(a), np.array(b), held, result=ctypes.c_int32)

    for _ in range(50):
        a, b = rng.uniform(-1.0, 0.49), rng.uniform(0.53, 2.0)
        assert edge((a, 0.0), (b, 0.3)) == 0  # the wall is wider than a step
        assert edge((b, 0.0), (a, 0.3)) == 0
        assert edge((a, 0.0), (0.49, 5.0)) == 1
    turn = 4000.0 * math.pi
    assert edge((0.51 + turn, 0.0), (0.51 + turn, 0.0)) == 0
    assert edge((0.48 + turn, 0.0), (0.49 + turn, 0.0)) == 1
    assert edge((0.51, 0.0), (0.6, 0.0)) == 1  # its begin was checked before
    for bad in (math.nan, math.inf, 1e9):
        assert edge((0.0, bad), (0.0, bad)) == 0
        assert edge((0.0, 0.0), (0.0, bad)) == 0
    q = np.array([0.51, 0.0])
    assert call(code, "state", q, held, result=ctypes.c_int32) == 0
    Q = np.zeros((11, 2))
    Q[:, 0] = np.linspace(0.45, 0.55, 11)
    Q[5, 0], Q[7, 1] = 0.51 + turn, math.nan
    free = np.full(12, 7, np.int8)
    call(code, "many", Q, 11, free, held, result=None)
    expected = [not 0.50 < q < 0.52 for q in Q[:, 0]]
    expected[5] = expected[7] = False
    assert free.tolist() == [*expected, 7]


def test_group_frames_are_those_of_pinocchio():
    tree = random_tree(12, 5)
    oracle, arrays = Oracle(tree), pack(tree.packed, tree.joint_names, {})
    rows = [len(tree.frame_names) - 1, 2]
    code = Compiled(groups_program(arrays, rows), Lanes("double", N))
    Q = np.random.default_rng(4).normal(size=(N, 5))
    (found,) = code.side_by_side(Q)
    for q, poses in zip(Q, found.reshape(N, 2, 12), strict=True):
        for row, pose in zip(rows, poses, strict=True):
            X = oracle.pose(q, tree.frame_names[row])
            assert pose == pytest.approx([*X[:3, :3].ravel(), *X[:3, 3]], abs=1e-12)


SWEEP, ARRAYS = plain(path_sweep), plain(piece_arrays)
RAIL, BAR, POST = Box((0.1, 0.1, 0.1)), Box((0.5, 0.06, 0.08)), Cylinder(0.07, 0.5)
X_BAR, X_POST = from_xyz_rpy((0.25, 0.0, 0.0)), from_xyz_rpy((0.5, 0.3, 0.05), (0.2, 0.1, 0.0))


def reach(solid):
    size = {Box: lambda s: math.sqrt(sum(x * x for x in s.size)) / 2.0,
            Cylinder: lambda s: math.hypot(s.radius, s.length / 2.0)}  # fmt: skip
    return size[type(solid)](solid)


def pieces(*placed):
    made, owner = pieces_of([solid for solid, _ in placed])
    assert owner.tolist() == list(range(len(placed)))
    X = np.array([X @ np.vstack([made.X[k], [0, 0, 0, 1]]) for k, (_, X) in enumerate(placed)])
    reaches = np.array([reach(solid) for solid, _ in placed])
    return ARRAYS.Pieces(made.kind, made.size, X[:, :3], reaches, made.first, made.points)


@pytest.fixture(scope="module")
def crane():
    """A bar that turns on a carriage, beside a post: the tables of the sweep."""
    i = np.int32
    bodies = ARRAYS.PieceBodies(
        parent=np.array([-1, 0, 1], i), kind=np.array([0, 2, 1], i),
        X_PJ=np.stack([np.eye(4)] * 3), axis=np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1.0]]),
        joint=np.array([-1, 0, 1], i), multiplier=np.ones(3), offset=np.zeros(3),
        row=np.array([1, 2], i), ball=np.array([[0, 0, 0, 0.09], [0.25, 0, 0, 0.26]]),
        first=np.array([0, 1, 2], i), chain_first=np.array([0, 1, 3], i),
        chain=np.array([1, 2, 1], i), pairs=np.empty((0, 4), i), apart=np.empty(0),
        pieces=pieces((RAIL, np.eye(4)), (BAR, X_BAR)),
    )  # fmt: skip
    corner = np.array([0.13, 0.13, 0.33])
    box = np.concatenate([X_POST[:3, 3] - corner, X_POST[:3, 3] + corner])[None]
    world = ARRAYS.PieceWorld(
        pieces((POST, X_POST)), np.zeros(1, i), box, box, box, np.ones((1, 2), np.int8)
    )
    work = ARRAYS.SweepWorkspace(
        np.empty((3, 3, 4)), np.empty((2, 3)), np.empty((2, 4)), np.empty((2, 3, 4)),
        np.zeros((6, 3)), np.empty((2, 2)), np.empty((60, 2)), np.empty((60, 2), i),
        np.empty((400, 3), i),
    )  # fmt: skip
    return ARRAYS.Table(bodies, world, work, 0.0)


def clearance(q):
    """Return the distance of the crane from the post, by coal."""
    X = from_xyz_rpy((q[0], 0.0, 0.0))
    turned = from_xyz_rpy((q[0], 0.0, 0.0), (0.0, 0.0, q[1])) @ X_BAR
    return min(by_coal(RAIL, X, POST, X_POST), by_coal(BAR, turned, POST, X_POST))


def test_single_configurations_are_judged_as_by_coal(crane):
    Q = np.random.default_rng(5).uniform((-0.1, -0.6), (0.6, 1.6), (40, 2))
    free = np.zeros(40, bool)
    assert SWEEP.free_states(crane, Q, 0, free) == 40
    distances = np.array([clearance(q) for q in Q])
    sure = np.abs(distances) > 1e-6
    np.testing.assert_array_equal(free[sure], distances[sure] > 0.0)
    assert 2 <= (~free).sum() <= 20


def sweep(crane, path, finest=1e-5):
    path = np.asarray(path, float)
    steps = np.abs(np.diff(path, axis=0))
    places = np.concatenate([[0.0], np.cumsum(steps.max(axis=1))])
    variation = np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
    contacts, out = np.zeros((1, 3), np.int32), np.empty(4)
    code = SWEEP.sweep(crane, path, places, variation, 1, finest, contacts, out)
    return code, out, contacts


def test_paths_are_proven_free_or_in_collision_as_dense_samples_say(crane):
    rng, outcomes = np.random.default_rng(6), []
    for _ in range(12):
        path = rng.uniform((-0.1, -0.6), (0.6, 1.6), (3, 2))
        dense = np.concatenate([
            a + np.linspace(0.0, 1.0, 60)[:, None] * (b - a)
            for a, b in itertools.pairwise(path)
        ])  # fmt: skip
        least = min(clearance(q) for q in dense)
        if abs(least) < 0.01:
            continue
        code, out, contacts = sweep(crane, path)
        assert code == (ARRAYS.FREE if least > 0.0 else ARRAYS.COLLISION)
        outcomes.append(code)
        if code == ARRAYS.COLLISION:
            assert contacts[0, 2] in (-1, -2)
            assert out[3] == 1.0
        else:
            assert out[1] == 0.0
            assert out[0] < 200  # large steps where it is far
    assert ARRAYS.FREE in outcomes
    assert ARRAYS.COLLISION in outcomes
    grazing = crane._replace(clearance=0.05)
    for q in rng.uniform((-0.1, -0.6), (0.6, 1.6), (10, 2)):
        if abs(clearance(q) - 0.05) > 1e-6:
            assert (sweep(grazing, [q])[0] == ARRAYS.FREE) == (clearance(q) > 0.05)


def test_a_collision_between_free_ends_and_a_free_middle_is_found(crane):
    start = (0.1, 0.2)
    for end, expected in (((0.1, 3.0), ARRAYS.COLLISION), ((0.1, -2.6), ARRAYS.FREE)):
        middle = np.mean([start, end], axis=0)
        assert min(clearance(q) for q in (start, middle, end)) > 0.0
        assert sweep(crane, [start, end])[0] == expected
