# SPDX-License-Identifier: Apache-2.0
"""Padding and scale of links: exact and sphere checks, against the world only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_margins import checked_margin, scaled, with_margins
from motion_nodes.core.scene.robot_spheres import link_bodies, link_parts
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand

FRANKA = load_robot("franka")
HOME = FRANKA.home[:7]
HAND = "panda_hand"


def distance_of(checker, name=HAND):
    """Return the distance of a link from the world [m]: the max free clearance, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        checker.set_clearance(middle)
        free = not any(name in contact.pair for contact in checker.exact.explain(HOME))
        low, high = (middle, high) if free else (low, middle)
    checker.set_clearance(0.0)
    return low


@pytest.fixture(scope="module")
def placed():
    """Return the robot at home with a small ball below its fingers, checked for the hand only."""
    checker = CollisionChecker(FRANKA, "arm")
    X = checker._poses(HOME)[HAND] @ from_xyz_rpy((0.0, 0.25, 0.03))
    world = World()
    world.add(world_object("ball", Sphere(0.02), X))
    checker.set_scene(world.scene)
    return checker, world


def test_padding_is_a_distance_from_the_world(placed):
    checker, world = placed
    without = distance_of(checker)
    world.set_margin(HAND, padding=0.05)
    checker.set_scene(world.scene)
    assert distance_of(checker) == pytest.approx(without - 0.05, abs=3e-4)
    spheres = CollisionChecker(FRANKA, "arm", scene=world.scene).distance(HOME)
    world.set_margin(HAND)
    assert not world.scene.margins
    bare = CollisionChecker(FRANKA, "arm", scene=world.scene)
    checker.set_scene(world.scene)
    assert distance_of(checker) == pytest.approx(without, abs=3e-4)
    assert not any(margin.padding for margin in (b.margin for b in bare.bodies))
    assert spheres.value <= bare.distance(HOME).value


def test_kernel_numpy_and_exact_checks_see_the_padding(placed):
    checker, world = placed
    assert checker.is_free(HOME)
    world.set_margin(HAND, padding=distance_of(checker) + 0.02)
    checker.set_scene(world.scene)
    assert not checker.is_free(HOME)
    assert not checker.exact.is_free(HOME)
    assert [contact.pair for contact in checker.exact.explain(HOME)] == [(HAND, "ball")]
    assert [contact.pair for contact in checker.explain(HOME)] == [(HAND, "ball")]
    gaps = checker.sphere_pairs()
    assert (HAND, "ball") in gaps.names
    world.set_margin(HAND)
    checker.set_scene(world.scene)


def test_links_and_attached_bodies_are_checked_as_they_are():
    world = World()
    for link in ("panda_hand", "panda_link3", "panda_link0", "panda_link5"):
        world.set_margin(link, padding=0.5, scale=1.5)
    held = AttachedBody("tool", "panda_link8", np.eye(4), (Part(Box((0.02,) * 3), np.eye(4)),))
    checked = CollisionChecker(FRANKA, "arm", scene=Scene(margins=world.scene.margins))
    assert checked.is_free(HOME)
    assert checked.exact.is_free(HOME)
    held = AttachedBody("tool", HAND, from_xyz_rpy((0, 0, 0.2)), held.parts)
    scene = Scene(attached={"tool": held}, margins=world.scene.margins)
    bare = Scene(attached={"tool": held})
    for one in (checked, checked.exact):
        checked.set_scene(scene)
        free = one.is_free(HOME)
        checked.set_scene(bare)
        assert free == one.is_free(HOME)


def test_scale_enlarges_about_the_centre_and_reduces(placed):
    checker, world = placed
    without = distance_of(checker)
    results = {}
    for scale in (0.5, 1.5):
        world.set_margin(HAND, scale=scale)
        checker.set_scene(world.scene)
        results[scale] = distance_of(checker)
    world.set_margin(HAND)
    checker.set_scene(world.scene)
    assert results[0.5] > without + 0.01 > without > results[1.5] + 0.01
    box = scaled(Part(Box((0.1, 0.2, 0.3)), np.eye(4)), 2.0)
    assert box.solid == Box((0.2, 0.4, 0.6))


def test_spheres_of_a_scaled_mesh_are_those_of_the_mesh_scaled():
    bodies = tuple(body for body in link_bodies(FRANKA) if body.link == "panda_link5")
    covered = replace(FRANKA, spheres={})
    parts = link_parts(covered, "panda_link5")
    for scale in (0.01, 1.7, 100.0):
        larger = with_margins(covered, bodies, {"panda_link5": checked_margin("", scale=scale)})[1]
        for part in parts:
            solid, X = scaled(part, scale).solid, part.X_OS
            corners = solid.vertices @ X[:3, :3].T + X[:3, 3]
            gaps = np.linalg.norm(corners[:, None] - larger.spheres[:, :3], axis=2)
            assert (gaps - larger.spheres[:, 3]).min(axis=1).max() < 1e-9 * scale


@pytest.mark.parametrize(
    ("padding", "scale"), [(np.nan, 1), (-1e-3, 1), (0, 0), (0, 1e-160), (0, np.inf)]
)
def test_invalid_margins_change_nothing(padding, scale):
    world = World()
    with pytest.raises(InvalidCommand):
        world.set_margin(HAND, padding, scale)
    assert not world.scene.margins
