# SPDX-License-Identifier: Apache-2.0
"""Voxels as a solid: merging, checks against each voxel alone, and OctoMap's formats."""

from __future__ import annotations

import numpy as np
import pytest
from scene.checkers import configurations

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.voxels import MAX_VOXELS, box_surface, decode, encode, voxels
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand

EDGE = 0.05
X_WV = from_xyz_rpy((0.8, 0.1, 0.5), (0.0, 0.0, 0.3))


def random_voxels(count: int, seed: int = 0, reach: int = 12, edge: float = EDGE):
    rng = np.random.default_rng(seed)
    return voxels(edge, rng.integers(-reach, reach, (count, 3)))


def test_merged_boxes_are_exactly_the_voxels():
    for seed, count in enumerate((1, 30, 3000)):
        made = random_voxels(count, seed, reach=7)
        corners = (made.boxes / EDGE).round().astype(int)
        cells = [
            (x, y, z)
            for (x0, y0, z0), (x1, y1, z1) in corners
            for x in range(x0, x1)
            for y in range(y0, y1)
            for z in range(z0, z1)
        ]
        assert len(cells) == len(set(cells))
        assert set(cells) == set(map(tuple, made.cells.tolist()))
    block = voxels(EDGE, np.argwhere(np.ones((5, 6, 7))))
    assert len(block.boxes) == 1


@pytest.mark.parametrize(
    ("edge", "cells"),
    [(0.0, [[0, 0, 0]]), (np.nan, [[0, 0, 0]]), (0.1, np.empty((0, 3))), (0.1, [[1 << 21, 0, 0]]),
     (0.1, np.zeros((MAX_VOXELS + 1, 3), np.int8))],
)  # fmt: skip
def test_invalid_voxels(edge, cells):
    with pytest.raises(InvalidCommand):
        voxels(edge, cells)


def test_checks_equal_those_of_single_boxes():
    robot, made = load_robot("franka"), random_voxels(150)
    one, many = World(), World()
    one.add(world_object("<octomap>", made, X_WV))
    places = []
    for cell in made.cells:
        X = np.eye(4)
        X[:3, 3] = (cell + 0.5) * EDGE
        places.append(X)
    boxes = tuple(Box((EDGE,) * 3) for _ in places)
    many.add(world_object("boxes", boxes, X_WV, poses=tuple(places)))
    checkers = [CollisionChecker(robot, "arm", scene=world.scene) for world in (one, many)]
    Q = configurations(checkers[0], 400, seed=3)
    free = [checker.are_free(Q) for checker in checkers]
    # On the common face of two boxes, verdicts may differ by rounding.
    assert (free[0] != free[1]).sum() <= 1
    assert 0.02 < free[0].mean() < 0.98
    for q in Q[:40]:
        exact = [checker.exact.is_free(q) for checker in checkers]
        assert exact[0] == exact[1]
        near = [checker.distance(q).value for checker in checkers]
        if near[1] > 0.0:
            assert near[0] == pytest.approx(near[1], abs=1e-6)


def test_distances_and_surface():
    made = random_voxels(60)
    points = np.random.default_rng(2).uniform(-1.0, 1.0, (200, 3))
    distance, direction = signed_distance(made, points)
    low, high = made.cells * EDGE, (made.cells + 1) * EDGE
    beyond = np.maximum(low - points[:, None], points[:, None] - high)
    expected = np.linalg.norm(np.maximum(beyond, 0.0), axis=2).min(axis=1)
    outside = distance > 0.0
    assert distance[outside] == pytest.approx(expected[outside], abs=1e-12)
    assert (expected[~outside] == 0.0).all()
    step = 1e-6
    moved = signed_distance(made, points + step * direction)[0]
    assert ((moved - distance) / step)[outside] == pytest.approx(1.0, abs=1e-3)
    vertices, faces = box_surface(made.boxes)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    volume = np.einsum("ti,ti->", a, np.cross(b, c)) / 6.0
    assert volume == pytest.approx(len(made.cells) * EDGE**3)


def leaves_of(data: bytes) -> dict[tuple[int, int, int, int], int]:
    """Read the binary format recursively: (keys, depth) -> mark of each leaf."""
    found = {}

    def node(at: int, depth: int, key: tuple[int, ...]) -> int:
        marks, at = data[at] | data[at + 1] << 8, at + 2
        for child in range(8):
            mark = marks >> (2 * child) & 3
            own = tuple(2 * key[axis] + (child >> axis & 1) for axis in range(3))
            if mark == 3:
                at = node(at, depth + 1, own)
            elif mark:
                found[(*own, depth + 1)] = mark
        return at

    assert node(0, 0, (0, 0, 0)) == len(data)
    return found


@pytest.mark.parametrize("binary", [True, False])
def test_octrees_there_and_back(binary):
    for count in (1, 7, 4000):
        made = random_voxels(count, seed=count, reach=20)
        assert decode(encode(made, binary), EDGE, binary).equals(made)


def test_binary_trees_by_a_second_reader():
    made = random_voxels(300, reach=6)
    leaves = leaves_of(encode(made))
    assert set(leaves.values()) == {2}
    keys = {(x - 32768, y - 32768, z - 32768) for x, y, z, depth in leaves if depth == 16}
    assert keys == set(map(tuple, made.cells.tolist()))


def test_pruned_and_free_nodes():
    # One level of free child 0, occupied child 7 of the whole space: too large to be voxels.
    with pytest.raises(InvalidCommand):
        decode(bytes([0x01, 0x80]), EDGE)
    # A chain of first children, whose last node has one free and one occupied leaf at depth 15.
    chain = bytes([0x03, 0x00]) * 14 + bytes([0x01 | 0x02 << 2, 0x00])
    made = decode(chain, EDGE)
    assert len(made.cells) == 8
    assert made.cells.max(axis=0).tolist() == [3 - 32768, 1 - 32768, 1 - 32768]
    free = bytes([0x03, 0x00]) * 15 + bytes([0x01, 0x00])
    assert decode(free, EDGE) is None
    assert decode(b"", EDGE) is None


@pytest.mark.parametrize(
    ("data", "binary"),
    [(b"\x00", True), (b"\xff\xff", True), (b"\xff" * 7, False), (bytes([3, 0]) * 40, True),
     (b"\x00\x00\x00\x00\x00" * 2, False), (bytes([3, 0]) * 16 + bytes([2, 0]), True)],
)  # fmt: skip
def test_invalid_trees(data, binary):
    with pytest.raises(InvalidCommand):
        decode(data, EDGE, binary)
