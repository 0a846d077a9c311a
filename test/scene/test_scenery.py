# SPDX-License-Identifier: Apache-2.0
"""The floor and other fixed parts; padding and scale of links."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.core.bases.from_robot import root_height
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.placement import parse_placement
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.robot_spheres import link_bodies, link_parts, scaled, with_margins
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, checked_margin, world_object
from motion_nodes.core.scene.scenery import (
    FLOOR,
    SCENERY,
    floor_below,
    floor_of,
    joined,
    neighbours_of,
)
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand, InvalidConfig

SHIPPED = {name: load_robot(name) for name in sorted(available_robots())}
ARMS = [name for name, robot in SHIPPED.items() if robot.kind == "arm" and robot.arm_joints]
DRIVING = [name for name, robot in SHIPPED.items() if robot.base is not None]


class Heights:
    """Heights of the spheres of links above the root link: an oracle without the checker."""

    def __init__(self, robot: Robot) -> None:
        self.kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.tree.root)
        self.spheres = {body.name: body.spheres for body in link_bodies(robot)}

    def lowest(self, link: str, q: np.ndarray) -> float:
        spheres, X = self.spheres[link], self.kinematics.pose(q, link)
        return float((spheres[:, :3] @ X[2, :3] + X[2, 3] - spheres[:, 3]).min())


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("height", [0.0, 0.1])
def test_a_configuration_is_free_of_the_floor_where_no_moving_sphere_is_below_it(name, height):
    robot = load_robot(name)
    floor = floor_of(robot, height)
    checker = CollisionChecker(robot, robot.joint_names, scene=floor.scene())
    links = [
        body.name
        for body in link_bodies(robot)
        if tuple(sorted((body.name, FLOOR))) not in floor.allowed
    ]
    heights = Heights(robot)
    rng = np.random.default_rng(3)
    count = {False: 0, True: 0}
    for q in rng.uniform(robot.limits.lower, robot.limits.upper, (60, len(robot.home))):
        depth = {link: height - heights.lowest(link, q) for link in links}
        below = {link for link, d in depth.items() if d > 1e-6}
        if any(abs(d) < 1e-6 for d in depth.values()):
            continue
        named = {c.pair[0] for c in checker.explain(q) if c.kind == "world"}
        assert named == below
        count[bool(below)] += 1
    assert min(count.values()) > 0


@pytest.mark.parametrize("name", ARMS)
def test_only_what_no_joint_moves_may_touch_the_floor_and_all_named_states_are_free(name):
    robot = load_robot(name)
    floor = floor_of(robot)
    fixed = {pair[0] if pair[1] == FLOOR else pair[1] for pair in floor.allowed}
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.tree.root)
    other = np.clip(robot.home + 0.3, robot.limits.lower, robot.limits.upper)
    for link in fixed:
        moved = kinematics.pose(other, link) - kinematics.pose(robot.home, link)
        assert np.abs(moved).max() < 1e-12
    checker = CollisionChecker(robot, robot.joint_names, scene=floor.scene())
    index = {joint: i for i, joint in enumerate(robot.joint_names)}
    for state in robot.states.values():
        q = robot.home.copy()
        for joint, value in state.items():
            q[index[joint]] = value
        assert checker.is_free(q)
    assert floor.objects[FLOOR].kind == SCENERY


@pytest.mark.long
@pytest.mark.parametrize("name", DRIVING)
def test_a_driving_robot_stands_on_the_floor_with_its_wheels(name):
    robot = load_robot(name)
    floor = floor_of(robot, -root_height(robot))
    checker = CollisionChecker(robot, robot.joint_names, scene=floor.scene())
    assert not [c for c in checker.explain(robot.home) if FLOOR in c.pair]


def test_fixed_parts_of_another_arm_stand_where_it_stands():
    franka, ur = load_robot("franka"), load_robot("ur10e")
    place, other = parse_placement("franka@1,2,0.5"), parse_placement("ur10e@1.5,2,-0.4")
    scenery, notes = neighbours_of(franka, place, {"b": (ur, other)})
    assert not notes
    assert list(scenery.objects) == ["b/base_link_inertia"]
    item = scenery.objects["b/base_link_inertia"]
    X_WL = other.X_WR @ Kinematics(ur.tree, ur.joint_names, base=ur.tree.root).pose(
        ur.home, "base_link_inertia"
    )
    np.testing.assert_allclose(place.X_WR @ item.X_WO, X_WL, atol=1e-12)
    # The Franka's hand collides with it.
    X = item.X_WO[:3, 3]
    q = franka.home.copy()
    q[0] = np.arctan2(X[1], X[0])
    q[1], q[3] = 1.0, -2.2
    checker = CollisionChecker(franka, franka.joint_names, scene=scenery.scene())
    assert "b/base_link_inertia" in {c.pair[1] for c in checker.explain(q)}
    both = joined(floor_of(franka), scenery)
    assert set(both.objects) == {FLOOR, "b/base_link_inertia"}


@pytest.mark.parametrize("name", ARMS)
def test_the_floor_is_below_all_named_states(name):
    robot = load_robot(name)
    assert floor_below([robot]) == 0.0
    q = robot.home.copy()
    q[1] += np.pi if robot.limits.upper[1] > 3.2 else robot.limits.upper[1] - q[1]
    hanging = dataclasses.replace(
        robot, states={**robot.states, "low": dict(zip(robot.joint_names, q, strict=True))}
    )
    height = floor_below([robot, hanging])
    for each in (q, robot.home):
        free = CollisionChecker(robot, robot.joint_names, scene=floor_of(robot, height).scene())
        assert not any(c.kind == "world" for c in free.explain(each))
    heights = Heights(robot)
    lowest = min(heights.lowest(link, q) for link in heights.spheres if not _is_fixed(robot, link))
    assert height == pytest.approx(lowest - 0.05 if lowest < 0.0 else 0.0, abs=1e-3)


def _is_fixed(robot: Robot, link: str) -> bool:
    return not any(joint.movable for joint in robot.tree.path(robot.tree.root, link))


def test_parts_inside_the_home_configuration_are_left_out_and_named():
    franka = load_robot("franka")
    place = parse_placement("franka")
    scenery, notes = neighbours_of(franka, place, {"b": (franka, place)})
    assert not scenery.objects
    assert not scenery.allowed
    assert len(notes) == 1
    assert "b/panda_link0" in notes[0]


@pytest.mark.parametrize("height", [np.nan, np.inf])
def test_a_height_that_is_no_number_is_refused(height):
    with pytest.raises(InvalidConfig, check=about("floor_height")):
        floor_of(load_robot("franka"), height)


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
