# SPDX-License-Identifier: Apache-2.0
"""Changes of a world, its arrays, and voxels as a solid."""

from typing import Any

import numpy as np
import pytest
from raised_errors import about
from scene.checkers import configurations

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.collision_arrays import checked_matrix
from motion_nodes.core.scene.mesh_distance import signed_distance
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    AttachedBody,
    Part,
    Scene,
    WorldObject,
    checked_pose,
    difference,
    world_object,
)
from motion_nodes.core.scene.shapes import Capsule, HalfSpace, triangle_mesh
from motion_nodes.core.scene.triangle_surfaces import spatial_order
from motion_nodes.core.scene.voxels import MAX_VOXELS, box_surface, decode, encode, voxels
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand

BALL = world_object("ball", Sphere(0.1), from_xyz_rpy((1.0, 0.0, 0.0)))
CAN = world_object("can", Capsule(0.03, 0.1))
PLANE = (Part(HalfSpace(), np.eye(4)),)


def filled() -> World:
    world = World()
    world.add(BALL, CAN)
    return world


def test_each_change_makes_a_new_scene_and_leaves_the_old_one():
    world = filled()
    before = world.scene
    world.move({"ball": np.eye(4)})
    after = world.scene
    assert after.revision == before.revision + 1
    assert before.objects["ball"] is BALL
    assert after.objects["can"] is before.objects["can"]
    np.testing.assert_array_equal(after.objects["ball"].X_WO, np.eye(4))
    with pytest.raises(TypeError):
        after.objects["new"] = BALL  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda w: w.add(world_object("box", Box((1, 1, 1)))), {"added": ("box",)}),
        (lambda w: w.remove("ball"), {"removed": ("ball",)}),
        (lambda w: w.move({"can": from_xyz_rpy((0, 0, 1))}), {"moved": ("can",)}),
        (lambda w: w.enable("can", False), {"changed": ("can",)}),
        (lambda w: w.add(world_object("can", Sphere(0.1))), {"changed": ("can",)}),
        (lambda w: w.allow([("ball", "can")]), {"allowed": True}),
        (
            lambda w: w.attach_object("can", "hand", np.eye(4)),
            {"removed": ("can",), "attached": ("can",)},
        ),
        (lambda w: w.clear(), {"removed": ("ball", "can")}),
        (lambda w: w.replace(w.scene), {}),
    ],
)
def test_the_difference_names_what_changed(change, wanted):
    world = filled()
    before = world.scene
    change(world)
    diff = difference(before, world.scene)
    fields = ("added", "removed", "moved", "changed", "attached", "detached")
    assert {name: getattr(diff, name) for name in fields} == {
        name: wanted.get(name, ()) for name in fields
    }
    assert diff.allowed == wanted.get("allowed", False)
    assert diff.empty == (not wanted)


def test_attaching_and_detaching_keeps_the_place_in_the_world():
    world = filled()
    X_WL = from_xyz_rpy((0.3, -0.2, 0.5), (0.1, 0.2, 0.3))
    world.attach_object("ball", "hand", X_WL, ["finger"])
    body = world.scene.attached["ball"]
    assert "ball" not in world.scene.objects
    assert body.touch_links == {"finger"}
    np.testing.assert_allclose(X_WL @ body.X_LO, BALL.X_WO, atol=1e-12)
    moved = X_WL @ from_xyz_rpy((0.0, 0.0, 1.0))
    before = world.scene
    world.detach("ball", moved)
    assert difference(before, world.scene).detached == ("ball",)
    expected = moved @ inverse(X_WL) @ BALL.X_WO
    np.testing.assert_allclose(world.scene.objects["ball"].X_WO, expected, atol=1e-12)
    world.attach_object("ball", "hand", X_WL)
    world.detach("ball", None)
    assert "ball" not in world.scene.objects


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.remove("ball", "bell"), "bell"),
        (lambda w: w.move({"can": np.eye(4), "bell": np.eye(4)}), "bell"),
        (lambda w: w.move({"can": np.full((4, 4), np.nan)}), "object 'can'"),
        (lambda w: w.move({"can": 2.0 * np.eye(4)}), "object 'can'"),
        (lambda w: w.enable("bell"), "bell"),
        (lambda w: w.detach("can", None), "can"),
        (lambda w: w.attach_object("bell", "hand", np.eye(4)), "bell"),
        (lambda w: w.attach_object("can", "hand", np.zeros((4, 4))), "link 'hand'"),
        (lambda w: w.attach(AttachedBody("ground", "hand", np.eye(4), PLANE)), "ground"),
    ],
)
def test_what_is_refused_changes_nothing(change, words):
    world = filled()
    before = world.scene
    with pytest.raises(InvalidCommand, check=about(words)):
        change(world)
    assert world.scene is before


def test_static_objects_do_not_move():
    world = World()
    world.add(world_object("wall", Box((1, 1, 1)), static=True))
    with pytest.raises(InvalidCommand, check=about("wall")):
        world.move({"wall": np.eye(4)})


def test_an_attached_name_cannot_be_added():
    world = World()
    world.attach(AttachedBody("can", "hand", np.eye(4), (Part(Sphere(0.1), np.eye(4)),)))
    with pytest.raises(InvalidCommand):
        world.add(CAN)


@pytest.mark.parametrize(
    "make",
    [
        lambda: world_object("", Sphere(0.1)),
        lambda: world_object("a", Sphere(0.0)),
        lambda: world_object("a", Box((1.0, float("inf"), 1.0))),
        lambda: world_object("a", Capsule(0.1, -1.0)),
        lambda: world_object("a", ()),
        lambda: world_object("a", (Sphere(0.1),), poses=(np.eye(4), np.eye(4))),
        lambda: world_object("a", Sphere(0.1), np.eye(3)),
        lambda: triangle_mesh([], []),
        lambda: triangle_mesh([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]]),
        lambda: triangle_mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 3]]),
        lambda: triangle_mesh([[0, 0, np.nan], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]),
        lambda: checked_pose(np.diag([1.0, 1.0, -1.0, 1.0]), "a mirror"),
    ],
)
def test_what_is_no_object_is_refused(make):
    with pytest.raises(InvalidCommand):
        make()


def test_who_may_touch_whom():
    allowed = AllowedCollisions()
    assert not allowed.allows("a", "b")
    by_pair = allowed.with_pairs([("b", "a")])
    assert by_pair.allows("a", "b")
    assert by_pair.allows("b", "a")
    assert not by_pair.with_pairs([("a", "b")], None).allows("a", "b")
    by_name = allowed.with_default("a", True)
    assert by_name.allows("a", "z")
    assert not by_name.with_default("z", False).allows("a", "z")
    assert not by_name.with_pairs([("a", "z")], False).allows("a", "z")
    assert not by_name.with_default("a", None).allows("a", "z")
    assert allowed == AllowedCollisions()


def test_another_scene_is_taken_whole():
    world = filled()
    revision = world.revision
    world.replace(Scene({"ball": BALL}, revision=77))
    assert set(world.scene.objects) == {"ball"}
    assert world.revision == revision + 1


def random_matrix(rng: Any, links: list[str], objects: list[str]) -> AllowedCollisions:
    """Return random entries of pairs and defaults, also for names that nothing has."""
    names = [*links, *objects, "nothing"]
    allowed = AllowedCollisions()
    for value in (True, False):
        pairs = [(str(rng.choice(names)), str(rng.choice(names))) for _ in range(12)]
        allowed = allowed.with_pairs(pairs, value)
    for name in rng.choice(names, 4, replace=False):
        allowed = allowed.with_default(str(name), bool(rng.random() < 0.7))
    return allowed


def test_a_pair_is_checked_unless_the_matrix_allows_its_collision():
    rng, bodies = np.random.default_rng(5), link_bodies(load_robot("franka"))
    objects = tuple(WorldObject(f"object_{k}", np.eye(4), ()) for k in range(6))
    for _ in range(50):
        allowed = random_matrix(rng, [b.name for b in bodies], [o.name for o in objects])
        expected = [
            [body.in_world and not allowed.allows(body.name, item.name) for body in bodies]
            for item in objects
        ]
        assert np.array_equal(checked_matrix(allowed, objects, bodies), expected)


def test_the_spatial_order_is_that_of_interleaved_bits():
    points = np.random.default_rng(6).uniform(-1.0, 2.0, (300, 3))
    low = points.min(axis=0)
    cells = np.minimum((points - low) / np.ptp(points, axis=0).max() * 1024.0, 1023.0).astype(int)
    codes = [
        sum(
            ((int(x) >> bit) & 1) << (3 * bit + axis)
            for bit in range(10)
            for axis, x in enumerate(cell)
        )
        for cell in cells
    ]
    order = spatial_order(np.stack([points, points], axis=1))
    assert np.array_equal(order, np.argsort(codes, kind="stable"))


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
