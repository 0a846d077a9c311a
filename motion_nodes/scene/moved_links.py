# SPDX-License-Identifier: Apache-2.0
"""Restriction of collision checks to pairs that a group of joints moves relative to each other.

The arm of a mobile robot cannot change contacts between base and floor, or between fingers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from motion_nodes.model.robot import Robot
from motion_nodes.scene.allowed_collisions import Pair, pair_of
from motion_nodes.scene.robot_spheres import link_bodies
from motion_nodes.scene.scene import Scene


def carriers(robot: Robot, joints: Collection[str]) -> Mapping[str, str]:
    """Return for each link the top link of its rigid group when only the given joints move.

    Args:
        robot: the robot.
        joints: the moving joints, including their mimic joints.
    """
    tree = robot.tree
    found: dict[str, str] = {}
    for link in tree.frame_names:
        joint = tree.parent_joint.get(link)
        if joint is None:
            found[link] = link
            continue
        leads = joint.mimic.joint if joint.mimic is not None else joint.name
        found[link] = link if leads in joints else found[joint.parent]
    return found


def scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    """Return a scene without pairs that some joints cannot change.

    A collision is allowed if the joints do not move the pair relative to each other; explicit
    entries of the scene are kept. Cached: the same scene yields the same object.

    Args:
        robot: the robot of the scene.
        joints: the moving joints.
        scene: the complete scene.
    """
    with _lock:
        known = _known.setdefault(scene, {})
    key = (robot, frozenset(joints))
    if key not in known:
        known[key] = _scene_for(robot, joints, scene)
    return known[key]


_known: weakref.WeakKeyDictionary[Scene, dict[Any, Scene]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def _scene_for(robot: Robot, joints: Collection[str], scene: Scene) -> Scene:
    carrier = carriers(robot, joints)
    bodies = {body.name: carrier[body.name] for body in link_bodies(robot)}
    bodies |= {body.name: carrier[body.link] for body in scene.attached.values()}
    still = [name for name, on in bodies.items() if on == robot.tree.root]
    pairs: set[Pair] = {pair_of(name, item) for name in still for item in scene.objects}
    names = list(bodies)
    for i, a in enumerate(names):
        pairs.update(pair_of(a, b) for b in names[i + 1 :] if bodies[a] == bodies[b])
    return replace(scene, allowed=scene.allowed.with_pairs(pairs.difference(scene.allowed.pairs)))
