# SPDX-License-Identifier: Apache-2.0
"""Pairs that a group of joints cannot move relative to each other are not checked for it."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.link_margins import carriers, scene_for
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import AttachedBody, Part, world_object
from motion_nodes.core.scene.shapes import HalfSpace
from motion_nodes.core.scene.world import World

FRANKA = load_robot("franka")
ARM = FRANKA.group("arm").joints
FINGERS = FRANKA.group("gripper").joints


def full(**moved):
    q = FRANKA.home.copy()
    for name, value in moved.items():
        q[FRANKA.joint_names.index(name)] = value
    return q


@pytest.mark.parametrize("name", ["franka", "ur10e"])
@pytest.mark.parametrize("seed", range(4))
def test_links_of_one_carrier_stand_still_against_each_other(name, seed):
    """Relative poses change with random joints exactly where the carriers differ."""
    rng = np.random.default_rng(seed)
    robot = load_robot(name)
    joints = [j for j in robot.joint_names if rng.random() < 0.5]
    carrier = carriers(robot, joints)
    kinematics = Kinematics(robot.tree, robot.joint_names)
    a = robot.home.copy()
    b = a.copy()
    columns = [robot.joint_names.index(j) for j in joints]
    b[columns] += rng.uniform(0.1, 0.5, len(joints))
    before, after = kinematics.frames(a), kinematics.frames(b)
    for i, first in enumerate(kinematics.frame_names):
        for j, second in enumerate(kinematics.frame_names[:i]):
            relative = [np.linalg.inv(X[i]) @ X[j] for X in (before, after)]
            still = np.allclose(relative[0], relative[1], atol=1e-9)
            assert still == (carrier[first] == carrier[second])


def test_the_floor_under_the_base_and_closed_fingers_do_not_block_the_arm():
    world = World()
    world.add(world_object("floor", HalfSpace()))
    closed = full(panda_finger_joint1=0.0, panda_finger_joint2=0.0)
    whole = CollisionChecker(FRANKA, scene=world.scene)
    assert not whole.is_free(closed)
    told = {c.pair for c in whole.explain(closed)}
    assert ("panda_link0", "floor") in told
    arm = CollisionChecker(FRANKA, scene=scene_for(FRANKA, ARM, world.scene))
    assert arm.is_free(closed)
    # Collisions of the arm itself count.
    low = full(panda_joint2=1.7, panda_joint4=-0.5)
    assert "floor" in {c.pair[1] for c in arm.explain(low)}
    gripper = CollisionChecker(FRANKA, scene=scene_for(FRANKA, FINGERS, world.scene))
    told = {c.pair[0] for c in gripper.explain(low)}
    assert told == {"panda_leftfinger", "panda_rightfinger"}, "the hand was checked, too"


def test_what_is_carried_counts_with_its_carrier():
    world = World()
    X = Kinematics(FRANKA.tree, FRANKA.joint_names).pose(FRANKA.home, "panda_hand_tcp")
    ball = (Part(Sphere(0.03), np.eye(4)),)
    world.attach(AttachedBody("tool", "panda_hand_tcp", np.eye(4), ball))
    world.attach(AttachedBody("sign", "panda_link0", X, ball))
    for joints, touches in ((ARM, True), (FINGERS, False)):
        checker = CollisionChecker(FRANKA, scene=scene_for(FRANKA, joints, world.scene))
        pairs = {frozenset(c.pair) for c in checker.explain(FRANKA.home)}
        assert (frozenset(("tool", "sign")) in pairs) == touches


def test_what_the_scene_says_of_a_pair_stays():
    world = World()
    world.add(world_object("floor", HalfSpace()))
    world.set_allowed(world.scene.allowed.with_pairs([("floor", "panda_link0")], False))
    seen = scene_for(FRANKA, ARM, world.scene)
    assert not seen.allowed.allows("floor", "panda_link0")
    assert len(seen.allowed.pairs) > 1
    assert scene_for(FRANKA, ARM, world.scene) is seen
    assert scene_for(FRANKA, FINGERS, world.scene) is not seen
    assert seen.objects is world.scene.objects
    assert {b.name for b in link_bodies(FRANKA)} > {"panda_link0"}
