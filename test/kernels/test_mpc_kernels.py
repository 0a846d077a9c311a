# SPDX-License-Identifier: Apache-2.0
"""Rollouts of a toy robot, and their costs of distances: sums in NumPy as oracle.

The robot is a sphere on an arm that turns on a carriage: joint 0 is the carriage's place along x,
joint 1 the turn about z.
"""

import ctypes
import math

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.kernels import mpc, native
from motion_nodes.kernels.formulas.ops import NUMPY
from motion_nodes.kernels.mpc import (
    FIELDS,
    JOINT_FIELDS,
    OUTPUTS,
    ROW,
    WEIGHTS,
    links_function,
    rollout_text,
)
from motion_nodes.kernels.rmp.rmp_memory import obstacle_shapes
from motion_nodes.kernels.simd import Lanes

N, STEPS, KNOTS, TAIL = 4, 6, 2, 5
LANES = Lanes("float", N)
W = dict(zip(WEIGHTS, np.linspace(0.3, 1.9, len(WEIGHTS)), strict=True)) | {
    "margin": 0.25, "self_margin": 0.2, "dt": 0.05, "discount": 0.9, "clearance": 0.05,
    "tail_limit": 2.0, "response": mpc.response(0.05),
}  # fmt: skip
CENTRES, RADII = np.array([[0.4, 0.0, 0.0], [0.6, 0.0, 0.1]]), np.array([0.08, 0.05])
BALL_AT = np.array([[0.7 - 0.05 * k, 0.1, 0.0] for k in range(STEPS)])
BALL_RADIUS = 0.2


@pytest.fixture(scope="module")
def code():
    assert "links" in links_function(LANES)
    text = rollout_text(LANES).replace("define internal", "define")
    cpu = native.host_cpu()
    return native.LoadedCode(native.compiled(text, cpu), cpu)


def call(code, name, *arguments):
    values = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(values))(code.address(name))(*values)


def view(address, *shape):
    size = math.prod(shape)
    return np.ctypeslib.as_array((ctypes.c_float * size).from_address(address)).reshape(shape)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def place(q_address, poses_address):
    q, poses = view(q_address, 2, N), view(poses_address, 12, N)
    for k in range(N):
        X = pose(q[:, k])
        poses[:9, k], poses[9:, k] = X[:3, :3].ravel(), X[:3, 3]


def pose(q):
    return from_xyz_rpy((q[0], 0.0, 0.0), (0.0, 0.0, q[1]))


class Table:
    """The memory of the rollouts; keeps the arrays that it refers to."""

    def __init__(self):
        self.data, self.kept = np.zeros(FIELDS.size, np.int64), []

    def put(self, **values):
        for name, value in values.items():
            if isinstance(value, int):
                self.data[FIELDS[name]] = value
                continue
            whole = name in ("body_groups", "body_firsts", "pair_bodies")
            kind = np.int64 if name == "obstacles" else np.int32 if whole else np.float32
            array = np.ascontiguousarray(value, kind)
            self.kept.append(array)
            self.data[FIELDS[name]] = array.ctypes.data
        return self

    def last(self):
        return self.kept[-1]


def bodies(table, bound=0.3):
    """Put one body of two spheres with its bounding sphere."""
    return table.put(
        groups=1, bodies=1, spheres=2, world_bodies=1, body_groups=[0], body_firsts=[0, 2],
        body_centres=[[0.5, 0.0, 0.0]], body_radii=[bound], sphere_centres=CENTRES,
        sphere_radii=RADII, pairs=0, weights=[W[name] for name in WEIGHTS],
    )  # fmt: skip


def ball_rows(places):
    rows = np.zeros((len(places), ROW))
    for row, place in zip(rows, places, strict=True):
        X = inverse(from_xyz_rpy(place))
        row[:9], row[9:12], row[15] = X[:3, :3].ravel(), X[:3, 3], BALL_RADIUS
        row[16:19], row[19] = place, BALL_RADIUS
    return rows


def hinge(distances, margin, weight):
    short = np.maximum(0.0, (margin - np.asarray(distances)) / margin)
    return weight * (short**2).sum()


def test_costs_of_obstacles_and_links_are_squared_hinges(code):
    rng = np.random.default_rng(1)
    firsts, centres, radii = (
        [0, 3, 7],
        rng.uniform(-0.3, 0.3, (7, 3, N)),
        rng.uniform(0.02, 0.06, 7),
    )
    bounds = np.stack([centres[:3].mean(axis=0), centres[3:].mean(axis=0)])
    table = Table().put(
        bodies=2, world_bodies=1, body_firsts=firsts, body_radii=[0.8, 0.8], sphere_radii=radii,
        pairs=1, pair_bodies=[[0, 1]], weights=[W[name] for name in WEIGHTS],
    )  # fmt: skip
    places = rng.uniform(-0.4, 0.4, (3, 3))
    spheres, around = (np.ascontiguousarray(a, np.float32) for a in (centres, bounds))
    sums, rows = np.zeros((2, N), np.float32), ball_rows(places).astype(np.float32)
    sums[0], sums[1] = 1.0, W["margin"]
    call(code, "world_sphere", table.data, around, spheres, sums, rows, 3)
    for k in range(N):
        distance = [
            np.linalg.norm(centres[i, :, k] - place) - BALL_RADIUS - radii[i]
            for i in range(3)
            for place in places
        ]
        assert sums[0, k] == pytest.approx(1.0 + hinge(distance, W["margin"], W["world"]), rel=1e-5)
        assert sums[1, k] == pytest.approx(min(W["margin"], *distance), abs=1e-6)
    sums[0], sums[1] = 2.0, 9.0
    call(code, "links", table.data, around, spheres, sums)
    for k in range(N):
        distance = [
            np.linalg.norm(centres[i, :, k] - centres[j, :, k]) - radii[i] - radii[j]
            for i in range(3)
            for j in range(3, 7)
        ]
        expected = 2.0 + hinge(distance, W["self_margin"], W["self"])
        assert sums[0, k] == pytest.approx(expected, rel=1e-5)
        assert sums[1, k] == pytest.approx(min(distance), abs=1e-6)


def test_spheres_are_placed_with_their_groups(code):
    table, poses = bodies(Table()), np.empty((12, N), np.float32)
    q = np.random.default_rng(2).normal(size=(N, 2)).astype(np.float32)
    for k in range(N):
        X = pose(q[k])
        poses[:9, k], poses[9:, k] = X[:3, :3].ravel(), X[:3, 3]
    bounds, spheres = np.empty((1, 3, N), np.float32), np.empty((2, 3, N), np.float32)
    call(code, "place_spheres", table.data, poses, bounds, spheres)
    for k in range(N):
        X = pose(q[k])
        assert bounds[0, :, k] == pytest.approx(X[:3, :3] @ [0.5, 0, 0] + X[:3, 3], abs=1e-6)
        for i in range(2):
            expected = X[:3, :3] @ CENTRES[i] + X[:3, 3]
            assert spheres[i, :, k] == pytest.approx(expected, abs=1e-6)


def distances(q, step):
    X = pose(q)
    points = CENTRES @ X[:3, :3].T + X[:3, 3]
    return np.linalg.norm(points - BALL_AT[step], axis=1) - BALL_RADIUS - RADII


class Expected:
    """A rollout in NumPy."""

    def __init__(self, joints, tool):
        self.joints = {name: joints[:, k] for k, name in enumerate(JOINT_FIELDS)}
        self.tool = tool

    def collisions(self, q, step):
        d = distances(q, step)
        return hinge(d, W["margin"], W["world"]), min(W["margin"], d.min())

    def off_target(self, q):
        X, tool = pose(q), self.tool
        p = X[:3, :3] @ tool[:3] + X[:3, 3] - tool[3:6]
        turned = max(3.0 - X[:3, :3].ravel() @ tool[6:], 0.0) + 1e-6
        return W["position"] * math.sqrt(p @ p + 1e-6) + W["rotation"] * math.sqrt(turned)

    def off_goal(self, q, goal):
        return math.sqrt(((self.joints["scale"] * (q - goal)) ** 2).sum() + 1e-6)

    def run(self, q, basis, knots, goal):
        j, dt = self.joints, W["dt"]
        v, last, cost, share, least = j["qd"], j["qdd"], 0.0, 1.0, W["margin"]
        for step in range(STEPS):
            offset = basis[step] @ knots - q
            rate = mpc.tracking_rate(NUMPY, offset, j["speed"], j["acceleration"]).min()
            a = mpc.acceleration(rate, offset, v, W["response"])
            a = a / max(1.0, np.abs(a / j["acceleration"]).max())
            a = np.clip(a, last - j["jerk"] * dt, last + j["jerk"] * dt)
            q, v, last = q + dt * (v + 0.5 * dt * a), v + dt * a, a
            close, near = self.collisions(q, step)
            away = self.off_goal(q, goal)
            now = close * min(away * W["away"], 1.0) + (near < 0.0) * W["collision"]
            now += self.off_target(q) + away * W["goal"]
            now += W["effort"] * ((a / j["acceleration"]) ** 2).sum()
            now += W["posture"] * ((q - j["posture"]) ** 2).sum()
            cost, share, least = cost + share * now, share * W["discount"], min(least, near)
        distance = self.off_goal(q, goal)
        cost += (distance * W["goal"] + self.off_target(q)) * W["terminal"]
        blocked, free, still = 0.0, 0, True
        for k in range(TAIL):
            one, near = self.collisions(q + (goal - q) * (k + 1) / TAIL, 2)
            closed = near < W["clearance"]
            still = still and not closed
            free += still
            blocked += min(one + 1.0 if closed else 0.0, W["tail_limit"]) / TAIL
        return cost + blocked * W["tail"], least, blocked, distance, free


def test_rollouts_and_their_costs(code):
    rng = np.random.default_rng(3)
    joints = np.array([
        [0.1, 0.2, 2.0, 5.0, 300.0, 0.3, 1.0], [-0.2, 0.1, 1.5, 4.0, 60.0, -0.1, 0.7]
    ])  # fmt: skip
    tool = np.array([0.6, 0.0, 0.1, 0.5, 0.3, 0.1, *pose((0.0, 0.4))[:3, :3].ravel()])
    starts, goals = rng.normal(0.0, 0.4, (2, 2, 2, N))
    attractors = rng.normal(0.0, 0.8, (2, KNOTS, 2, N))
    basis = np.stack([np.linspace(1.0, 0.0, STEPS), np.linspace(0.0, 1.0, STEPS)], axis=1)
    rows = ball_rows(BALL_AT).astype(np.float32)
    shapes = [entry for name in obstacle_shapes()
              for entry in ((rows.ctypes.data, 1) if name == "sphere" else (0, 0))]  # fmt: skip
    address = ctypes.cast(place, ctypes.c_void_p).value
    table = bodies(Table()).put(
        place=address, joints=2, inputs=2, standing=[], tool_group=0, tool=tool, steps=STEPS,
        knots=KNOTS, tail=TAIL, tail_step=2, blocks=2, joint_values=joints, starts=starts,
        basis=basis, attractors=attractors, goals=goals, obstacles=shapes,
        out=np.zeros((2, len(OUTPUTS), N)),
    )  # fmt: skip
    out = table.last()
    call(code, "rollout", table.data)
    oracle = Expected(joints, tool)
    collided = 0
    for block in range(2):
        for k in range(N):
            cost, near, blocked, distance, free = oracle.run(
                starts[block, :, k], basis, attractors[block, :, :, k], goals[block, :, k]
            )
            found = dict(zip(OUTPUTS, out[block, :, k], strict=True))
            assert found["cost"] == pytest.approx(cost, rel=1e-3)
            assert found["clearance"] == pytest.approx(near, abs=1e-4)
            assert found["blocked"] == pytest.approx(blocked, abs=1e-3)
            assert found["distance"] == pytest.approx(distance, abs=1e-3)
            assert found["free"] == free
            collided += near < 0.0
    assert 0 < collided < 2 * N
