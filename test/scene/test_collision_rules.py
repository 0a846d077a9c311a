# SPDX-License-Identifier: Apache-2.0
"""Rules of the collision checker: clearance, exceptions, carried bodies; and its reasons."""

from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about
from scene.checkers import NEAR, configurations, pair
from scene.random_scenes import random_pose, random_scene
from scene.slider_robot import sliding_robot

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.core.scene.checker import CollisionChecker, carriers, scene_for
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import (
    AllowedCollisions,
    AttachedBody,
    Part,
    Scene,
    touch_links,
    world_object,
)
from motion_nodes.core.scene.shapes import HalfSpace, triangle_mesh
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, UnknownFrame


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


def test_clearance_is_that_from_the_world_not_from_itself(franka):
    q = franka.home[:7]
    tip = Kinematics(franka.tree).pose(franka.home, "panda_hand_tcp")[:3, 3]
    ball = world_object("ball", Sphere(0.03), from_xyz_rpy(tip + np.array([0.12, 0.0, 0.0])))
    for checker in pair(franka, scene=Scene({"ball": ball})):
        gap = min(c for c in checker.sphere_distances(q).distance)
        checker.set_clearance(gap - 1e-4)
        assert checker.is_free(q)
        assert checker.exact.is_free(q)
        checker.set_clearance(gap + 1e-4)
        assert not checker.is_free(q)
        assert {c.kind for c in checker.explain(q)} == {"world"}
        assert any("required are" in text for text in checker.problems(q))
        checker.set_clearance(0.1)
        assert not checker.exact.is_free(q)
        assert {c.kind for c in checker.exact.explain(q)} == {"world"}
        checker.set_scene(Scene())
        own = checker.distance(q)
        assert own.pair is not None
        assert own.value < 0.1
        assert checker.is_free(q)
        assert checker.exact.is_free(q)
        assert not checker.explain(q)
        checker.set_sphere_margin(own.value + 1e-4)
        assert not checker.is_free(q)


def test_disabled_allowed_and_removed_objects_do_not_count(franka):
    q = franka.home[:7]
    hand = Kinematics(franka.tree).pose(franka.home, "panda_hand")[:3, 3]
    for checker in pair(franka):
        world = World()

        def free(world: World = world, checker: CollisionChecker = checker) -> bool:
            checker.set_scene(world.scene)
            return checker.is_free(q)

        assert free()
        world.add(world_object("ball", Sphere(0.05), from_xyz_rpy(hand)))
        assert not free()
        world.enable("ball", False)
        assert free()
        world.enable("ball")
        assert not free()
        touching = {c.pair[0] for c in checker.explain(q)}
        world.allow([(link, "ball") for link in touching])
        assert free()
        world.allow([("panda_hand", "ball")], allowed=False)
        assert not free()
        assert {c.pair[0] for c in checker.explain(q)} == {"panda_hand"}
        world.set_allowed(AllowedCollisions().with_default("ball", True))
        assert free()
        world.set_allowed(AllowedCollisions())
        world.move({"ball": from_xyz_rpy((5.0, 0.0, 0.0))})
        assert free()
        world.move({"ball": from_xyz_rpy(hand)})
        assert not free()
        world.remove("ball")
        assert free()


def test_links_that_the_robot_ignores_or_that_are_neighbours_are_not_checked(franka):
    checker = CollisionChecker(franka, "arm")
    told = {frozenset(checker.bodies[k].name for k in pair) for pair in checker.pairs}
    assert frozenset(("panda_link0", "panda_link5")) in told
    for a, b in (
        ("panda_link1", "panda_link2"),  # neighbours
        ("panda_link7", "panda_hand"),  # joined by fixed joints
        ("panda_link6", "panda_hand"),  # neighbours, fixed joints left out
        ("panda_leftfinger", "panda_rightfinger"),  # ignored by the robot's file
    ):
        assert frozenset((a, b)) not in told


def test_what_is_carried_collides_until_it_is_put_down(franka):
    q = franka.home[:7]
    X_WL = Kinematics(franka.tree).pose(franka.home, "panda_hand")
    X_WO = X_WL @ from_xyz_rpy((0.0, 0.0, 0.3))
    shelf = world_object("shelf", Box((0.4, 0.4, 0.02)), X_WO @ from_xyz_rpy((0.0, 0.0, 0.06)))
    for checker in pair(franka):
        world = World()
        world.add(shelf)
        world.add(world_object("can", Cylinder(0.03, 0.15), X_WO))
        checker.set_scene(world.scene)
        assert checker.is_free(q)
        world.attach_object("can", "panda_hand", X_WL)
        checker.set_scene(world.scene)
        assert not checker.is_free(q)
        contact = checker.explain(q)[0]
        assert contact.kind == "attached"
        assert contact.pair == ("can", "shelf")
        assert "can is" in checker.problems(q)[0]
        assert "can" in checker.sphere_bodies
        moved = q + np.array([0.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
        assert checker.is_free(moved)
        assert not checker.edge_free(moved, q)
        world.detach("can", X_WL)
        checker.set_scene(world.scene)
        assert checker.is_free(q)


def test_touch_links_may_touch_what_is_carried(franka):
    q = franka.home[:7]
    fingers = ("panda_leftfinger", "panda_rightfinger")
    cube = (Part(Box((0.04, 0.08, 0.04)), np.eye(4)),)
    between = from_xyz_rpy((0.0, 0.0, 0.1))
    for checker in pair(franka):
        for touch, free in ((fingers, True), ((), False)):
            body = AttachedBody("cube", "panda_hand", between, cube, frozenset(touch))
            checker.set_scene(Scene(attached={"cube": body}))
            assert checker.is_free(q) == free
        told = {frozenset(c.pair) for c in checker.explain(q)}
        assert told == {frozenset(("cube", finger)) for finger in fingers}
        allowed = AllowedCollisions().with_pairs([("cube", finger) for finger in fingers])
        checker.set_scene(Scene(attached={"cube": body}, allowed=allowed))
        assert checker.is_free(q)


def test_joints_that_are_not_planned_for_stand_where_they_were_set(franka):
    q = franka.home[:7]
    finger = Kinematics(franka.tree).pose(franka.home, "panda_leftfinger") @ from_xyz_rpy(
        (0.0, 0.008, 0.044)
    )
    for checker in pair(franka):
        ball = world_object("ball", Sphere(0.01), finger)
        checker.set_scene(Scene({"ball": ball}))
        assert not checker.is_free(q)
        checker.set_positions({"panda_finger_joint1": 0.0})
        assert checker.is_free(q)
        checker.set_positions(franka.home)
        assert not checker.is_free(q)


def test_a_moved_base_sees_the_world_from_there(franka):
    rng = np.random.default_rng(9)
    scene = random_scene(rng, 10)
    X_WB = random_pose(rng, 1.0, 3.0)
    moved = Scene(
        {name: replace(item, X_WO=X_WB @ item.X_WO) for name, item in scene.objects.items()}
    )
    for checker in pair(franka):
        checker.set_scene(scene)
        Q = configurations(checker, 40, 9)
        before = checker.are_free(Q)
        explained = checker.explain(Q[np.flatnonzero(~before)[0]])
        checker.set_base_pose(X_WB)
        checker.set_scene(moved)
        np.testing.assert_array_equal(checker.are_free(Q), before)
        again = checker.explain(Q[np.flatnonzero(~before)[0]])
        assert [c.pair for c in again] == [c.pair for c in explained]
        expected = X_WB[:3, :3] @ explained[0].position + X_WB[:3, 3]
        np.testing.assert_allclose(again[0].position, expected, atol=1e-9)


@pytest.mark.long
def test_ten_thousand_objects_are_sorted_out(franka):
    """The verdict with thousands of far and small objects is that of the few near ones."""
    rng = np.random.default_rng(10)
    near = random_scene(rng, 9, size=0.04)
    objects = dict(near.objects)
    small = Sphere(0.002)
    for index in range(10_000):
        X = random_pose(rng, 0.7, 4.0)
        objects[f"grain_{index}"] = world_object(f"grain_{index}", small, X)
    fast = CollisionChecker(franka, "arm", scene=Scene(objects))
    positions = np.array([objects[f"grain_{i}"].X_WO[:3, 3] for i in range(10_000)])
    alone = CollisionChecker(franka, "arm", scene=near)
    Q = configurations(fast, 20, 10)
    for q, free in zip(Q, fast.are_free(Q), strict=True):
        spheres = alone.sphere_positions(q)
        gaps = np.linalg.norm(positions[:, None] - spheres[None, :, :3], axis=2) - spheres[:, 3]
        gap = gaps.min() - 0.002
        if abs(gap) > NEAR:
            assert free == (gap > 0.0 and alone.is_free(q))


def test_the_ground_counts_everywhere(franka):
    q = franka.home[:7]
    for checker in pair(franka):
        low = world_object("ground", HalfSpace(), from_xyz_rpy((0.0, 0.0, -0.05)))
        checker.set_scene(Scene({"ground": low}))
        assert checker.is_free(q)
        high = world_object("ground", HalfSpace(), from_xyz_rpy((0.0, 0.0, 0.3)))
        checker.set_scene(Scene({"ground": high}))
        assert not checker.is_free(q)
        assert checker.explain(q)[0].pair[1] == "ground"


def test_reasons_come_in_order_and_worst_first(franka):
    checker = CollisionChecker(franka, "arm")
    q = franka.home[:7].copy()
    q[1], q[3] = 2.5, -3.3  # outside their limits, and folded into itself
    scene = random_scene(np.random.default_rng(11), 20, size=0.1, low=0.1, high=0.6)
    checker.set_scene(scene)
    told = checker.explain(q)
    kinds = [c.kind for c in told]
    assert kinds == sorted(kinds, key=["limit", "self", "attached", "world"].index)
    assert {"limit", "world"} <= set(kinds)
    for kind in set(kinds):
        depths = [c.depth for c in told if c.kind == kind]
        assert depths == sorted(depths, reverse=True)
    limits = {c.pair: c.depth for c in told if c.kind == "limit"}
    assert limits["panda_joint2", "upper"] == pytest.approx(2.5 - checker.limits.upper[1])
    assert limits["panda_joint4", "lower"] == pytest.approx(checker.limits.lower[3] + 3.3)
    words = checker.problems(q)
    assert words[0].startswith("panda_joint2 is 2.5")
    assert any("mm deep in" in text for text in words)
    assert checker.problems(franka.home[:7] * 0.0 + q, tolerance=1.0)[0].startswith("panda_")


def test_limits_of_other_checks_do_not_count(franka):
    q = franka.home[:7].copy()
    q[6] = 4.0  # turns the hand beyond its limit
    for checker in pair(franka):
        assert checker.is_free(q)
        assert checker.problems(q)


def test_steps_of_joints_whose_range_is_beyond_half_a_turn_or_metres_away(tmp_path):
    """A rail from 4 to 9 m on a turntable from 4 to 5 rad."""
    limits = '<limit lower="4" upper="{}" velocity="1" effort="1"/>'
    ball = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    urdf = (
        '<robot name="slider"><link name="base"/><link name="table"/>'
        f'<link name="cart">{ball}</link>'
        '<joint name="turn" type="revolute"><parent link="base"/><child link="table"/>'
        f'<axis xyz="0 0 1"/>{limits.format(5)}</joint>'
        '<joint name="slide" type="prismatic"><parent link="table"/><child link="cart"/>'
        f'<axis xyz="1 0 0"/>{limits.format(9)}</joint></robot>'
    )
    robot = sliding_robot(tmp_path, urdf, {"turn": 4.5, "slide": 4.5}, ("base", "cart"))
    turn, slide = CollisionChecker(robot, resolution=0.02).resolution
    assert slide == pytest.approx(0.02)
    assert 0.02 / 9.0 <= turn < 0.02 / 8.5


@pytest.mark.parametrize(
    ("solid", "x"), [(Sphere(1e300), 0.0), (Box((1.0, 1e8, 1.0)), 0.0), (Sphere(0.1), 1e300)]
)
def test_numbers_beyond_what_is_plausible_are_no_objects(solid, x):
    with pytest.raises(InvalidCommand):
        world_object("far", solid, from_xyz_rpy((x, 0.0, 0.0)))
    with pytest.raises(InvalidCommand):
        triangle_mesh(1e155 * np.eye(3), [(0, 1, 2)])


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


ROBOTS = sorted(available_robots())


@pytest.mark.parametrize("name", ROBOTS)
def test_they_are_links_and_include_the_carrier_but_never_the_whole_arm(name):
    robot = load_robot(name)
    for link in robot.tree.frame_names:
        found = touch_links(robot, link)
        assert link in found
        assert found <= set(robot.tree.frame_names)
    for group in robot.groups.values():
        if group.tip is not None:
            first = robot.tree.joint(group.joints[0])
            assert first.parent not in touch_links(robot, group.tip)


@pytest.mark.parametrize("name", [n for n in ROBOTS if "gripper" in load_robot(n).groups])
def test_a_gripper_carries_with_all_its_fingers(name):
    robot = load_robot(name)
    fingers = {robot.tree.joint(joint).child for joint in robot.groups["gripper"].joints}
    palms = {robot.tree.joint(joint).parent for joint in robot.groups["gripper"].joints}
    for link in (robot.tool_frame, *fingers, *palms):
        assert fingers | palms <= touch_links(robot, link)


def test_fingers_that_mimic_others_touch_too():
    robot = load_robot("open_manipulator_x")
    assert {"gripper_left_link", "gripper_right_link"} <= touch_links(robot, robot.tool_frame)


def test_an_arm_without_a_gripper_touches_with_its_flange():
    found = touch_links(load_robot("ur10e"), "tool0")
    assert "wrist_3_link" in found
    assert "wrist_2_link" not in found


def test_wheels_are_no_gripper():
    robot = load_robot("jetbot")
    wheels = {robot.tree.joint(joint).child for joint in robot.base.wheel_names}
    assert not wheels & touch_links(robot, robot.base_frame)


def test_an_unknown_link():
    with pytest.raises(UnknownFrame, check=about("panda_hnad")):
        touch_links(load_robot("franka"), "panda_hnad")
