# SPDX-License-Identifier: Apache-2.0
"""Pairs of links that collide by their spheres only, found by random sampling.

Spheres extend beyond the geometry. Where two links pass close to each other, they may collide over
a whole range of a joint that the geometry moves through freely, and no path would be found.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from motion_nodes.model.kinematics import Kinematics
from motion_nodes.model.robot import Robot
from motion_nodes.robot_setup.notes import Notes, listed
from motion_nodes.robot_setup.self_collisions import (
    SelfCollisions,
    random_configurations,
    sphere_distances,
)
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.robot_spheres import link_bodies
from motion_nodes.typing import Array

OFTEN = 0.01
"""Min fraction of configurations in which the spheres of such a pair collide."""
CONFIGURATIONS = 1000
"""Number of configurations."""
_LOOKED_AT = 100
"""Max number of collisions by spheres that are checked exactly."""


def add_excess_pairs(
    robot: Robot,
    found: SelfCollisions,
    still: Collection[str],
    rng: np.random.Generator,
    findings: Notes,
) -> bool:
    """Find such pairs among those that are checked, and add them to those checked exactly.

    Args:
        robot: with its meshes.
        found: its pairs; ``exact_only`` is extended.
        still: joints that stay at home.
        rng: of the configurations.
        findings: a note is added.

    Returns:
        Whether there are any.
    """
    Q = random_configurations(robot, CONFIGURATIONS, rng, still)
    checked = [pair for pair in found.checked if pair not in found.exact_only]
    pairs = excess_pairs(CollisionChecker(robot), checked, Q)
    if pairs:
        found.exact_only += pairs
        text = f"{listed('-'.join(p) for p in pairs)}: only their spheres collide, not their shapes"
        findings.add("guessed", "collision.ignore_spheres", text)
    return bool(pairs)


def excess_pairs(
    checker: CollisionChecker, pairs: Sequence[tuple[str, str]], Q: Array
) -> list[tuple[str, str]]:
    """Return the pairs whose spheres collide in some configurations, but whose shapes in none.

    Args:
        checker: of all joints of the robot.
        pairs: pairs of links that are checked.
        Q: random configurations, shape (m, n) [rad or m].
    """
    robot = checker.robot
    kinematics = Kinematics(robot.tree, base=robot.base_frame, generic=True)
    X = dict(
        zip(kinematics.frame_names, np.swapaxes(kinematics.frames_batch(Q), 0, 1), strict=True)
    )
    bodies = {body.name: body for body in link_bodies(robot)}
    touching: dict[int, set[frozenset[str]]] = {}
    found = []
    for pair in pairs:
        a, b = (bodies[name] for name in pair)
        distance = sphere_distances(a, b, X[a.link], X[b.link])
        if (distance < 0.0).mean() < OFTEN:
            continue
        deepest = np.argsort(distance)[: (distance < 0.0).sum()]
        rows = deepest[np.unique(np.linspace(0, len(deepest) - 1, _LOOKED_AT).astype(int))]
        for row in rows.tolist():
            if row not in touching:
                touching[row] = {frozenset(c.pair) for c in checker.exact.explain(Q[row])}
            if frozenset(pair) in touching[row]:
                break
        else:
            found.append(pair)
    return found
