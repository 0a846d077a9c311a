# SPDX-License-Identifier: Apache-2.0
"""Generated code of collision checking by coal and pinocchio, and a wall in closed form."""

import ctypes
import math

import coal
import numpy as np
import pytest
from scene.random_scenes import coal_shape, random_pose

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.shapes import Capsule, Cone
from motion_nodes.kernels import native
from motion_nodes.kernels.collision import collision_memory as memory
from motion_nodes.kernels.collision.collision_codegen import entry_functions
from motion_nodes.kernels.collision.collision_memory import KINDS
from motion_nodes.kernels.collision.collision_shapes import TEST, collision_tests
from motion_nodes.kernels.llvm_builder import FunctionBuilder
from motion_nodes.kernels.llvm_text import declarations
from motion_nodes.kernels.simd import Lanes

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
