# SPDX-License-Identifier: Apache-2.0
"""Arrays of the world: which pairs are checked, and the spatial order."""

from __future__ import annotations

from typing import Any

import numpy as np

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.allowed_collisions import AllowedCollisions
from motion_nodes.core.scene.collision_arrays import checked_matrix
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import WorldObject
from motion_nodes.core.scene.triangle_surfaces import spatial_order


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


def test_a_pair_is_checked_unless_the_matrix_allows_its_collision() -> None:
    rng, bodies = np.random.default_rng(5), link_bodies(load_robot("franka"))
    objects = tuple(WorldObject(f"object_{k}", np.eye(4), ()) for k in range(6))
    for _ in range(50):
        allowed = random_matrix(rng, [b.name for b in bodies], [o.name for o in objects])
        expected = [
            [body.in_world and not allowed.allows(body.name, item.name) for body in bodies]
            for item in objects
        ]
        assert np.array_equal(checked_matrix(allowed, objects, bodies), expected)


def test_the_spatial_order_is_that_of_interleaved_bits() -> None:
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
