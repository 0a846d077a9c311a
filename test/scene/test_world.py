# SPDX-License-Identifier: Apache-2.0
"""Changes of a world: revisions, differences, attached objects, errors without side effects."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions
from motion_nodes.core.scene.scene import (
    AttachedBody,
    Part,
    Scene,
    checked_pose,
    difference,
    world_object,
)
from motion_nodes.core.scene.shapes import Capsule, HalfSpace, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand

BALL = world_object("ball", Sphere(0.1), from_xyz_rpy((1.0, 0.0, 0.0)))
CAN = world_object("can", Capsule(0.03, 0.1))
PLANE = (Part(HalfSpace(), np.eye(4)),)


def filled() -> World:
    world = World()
    world.add(BALL, CAN)
    return world


def test_each_change_makes_a_new_scene_and_leaves_the_old_one() -> None:
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
def test_the_difference_names_what_changed(
    change: Callable[[World], None], wanted: dict[str, object]
) -> None:
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


def test_attaching_and_detaching_keeps_the_place_in_the_world() -> None:
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
        (
            lambda w: w.attach(AttachedBody("ground", "hand", np.eye(4), PLANE)),
            "ground",
        ),
    ],
)
def test_what_is_refused_changes_nothing(change: Callable[[World], None], words: str) -> None:
    world = filled()
    before = world.scene
    with pytest.raises(InvalidCommand, check=about(words)):
        change(world)
    assert world.scene is before


def test_static_objects_do_not_move() -> None:
    world = World()
    world.add(world_object("wall", Box((1, 1, 1)), static=True))
    with pytest.raises(InvalidCommand, check=about("wall")):
        world.move({"wall": np.eye(4)})


def test_an_attached_name_cannot_be_added() -> None:
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
def test_what_is_no_object_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidCommand):
        make()


def test_who_may_touch_whom() -> None:
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


def test_another_scene_is_taken_whole() -> None:
    world = filled()
    revision = world.revision
    world.replace(Scene({"ball": BALL}, revision=77))
    assert set(world.scene.objects) == {"ball"}
    assert world.revision == revision + 1
