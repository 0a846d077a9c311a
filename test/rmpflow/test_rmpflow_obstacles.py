# SPDX-License-Identifier: Apache-2.0
"""Obstacles: packing, motion, distance fields, and those at rest."""

from dataclasses import replace

import numpy as np
import pytest
from rmpflow import rmp_cases

from motion_nodes.core.reactive.obstacle_scene import (
    FIELD_REACH,
    FieldObstacles,
    ObstacleMotion,
    ObstaclePacker,
)
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_motion import BrakingGuard, StandingObstacles
from motion_nodes.core.reactive.policy_state import RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, turned
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.distance_field import field_around
from motion_nodes.core.scene.scene import AllowedCollisions, Scene, WorldObject, world_object
from motion_nodes.core.scene.voxels import OCTOMAP, voxels
from motion_nodes.kernels.rmp.rmp_memory import ObstacleArrays

X_BW = inverse(from_xyz_rpy((0.3, -0.2, 0.1), (0.1, 0.2, -0.4)))


def scene_of(objects, allowed: AllowedCollisions | None = None) -> Scene:
    return Scene({item.name: item for item in objects}, allowed=allowed or AllowedCollisions())


def rows(packed: ObstacleArrays) -> np.ndarray:
    """Return rotations, positions and twists of all rows, of every shape."""
    return np.concatenate([np.column_stack((t[:, :12], t[:, -6:])) for t in packed.rows.values()])


def moved(item, twist, dt):
    X = item.X_WO.copy()
    X[:3, :3] = turned(X[:3, :3], dt * twist[3:])
    X[:3, 3] += dt * twist[:3]
    return replace(item, X_WO=X)


def test_a_packer_that_follows_packs_like_one_that_begins():
    rng = np.random.default_rng(3)
    objects = rmp_cases.scene(rng, 17)
    packer = ObstaclePacker()
    for step in range(6):
        chosen = rng.integers(len(objects), size=4)
        twists = {objects[i].name: rng.normal(size=6) for i in chosen[:2]}
        for i in chosen:
            objects[i] = moved(objects[i], rng.normal(size=6), 0.1)
        if step == 3:
            fresh = world_object(objects[0].name, Sphere(0.02), objects[0].X_WO)
            objects[0] = replace(objects[1], name=fresh.name)  # other shapes under its name
            objects[2] = replace(objects[2], enabled=False)
        one, other = packer.packed(scene_of(objects), X_BW, twists), ObstaclePacker()
        again = other.packed(scene_of(objects), X_BW, twists)
        assert one.rows.keys() == again.rows.keys()
        for name in one.rows:
            np.testing.assert_array_equal(one.rows[name], again.rows[name])


def test_each_row_moves_as_the_object_does():
    """Packed velocities equal the differences of poses shortly before and after."""
    rng = np.random.default_rng(4)
    objects = rmp_cases.scene(rng, 17)
    twists = {item.name: 0.5 * rng.normal(size=6) for item in objects}
    h = 1e-6
    before, now, after = (
        rows(
            ObstaclePacker().packed(
                scene_of([moved(item, twists[item.name], t) for item in objects]), X_BW, twists
            )
        )
        for t in (-h, 0.0, h)
    )
    velocity = (after[:, 9:12] - before[:, 9:12]) / (2.0 * h)
    # A half space is a box with its centre a kilometre below; it turns with the object.
    np.testing.assert_allclose(velocity, now[:, 12:15], atol=2e-5)
    spin = (after[:, :9] - before[:, :9]).reshape(-1, 3, 3) / (2.0 * h)
    R = now[:, :9].reshape(-1, 3, 3)
    W = spin @ R.transpose(0, 2, 1)
    np.testing.assert_allclose(
        np.column_stack((W[:, 2, 1], W[:, 0, 2], W[:, 1, 0])), now[:, 15:], atol=1e-6
    )


def test_what_all_links_may_touch_is_none_and_back():
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    packer = ObstaclePacker(("hand", "arm"))
    said = AllowedCollisions()
    for pairs, count in (
        ((), 1),
        ((("ball", "hand"),), 1),
        ((("ball", "hand"), ("ball", "arm")), 0),
        ((), 1),
    ):
        allowed = said.with_pairs(pairs, True)
        assert len(packer.packed(scene_of([ball], allowed), np.eye(4)).rows["sphere"]) == count


def test_seen_motion_and_its_end():
    turn = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    assert not motion.twists(0.0)
    motion.update(scene_of([moved(ball, turn, 0.2)]), 0.2)
    np.testing.assert_allclose(motion.twists(0.2)["ball"], turn, atol=1e-12)
    assert motion.moving
    assert motion.twists(0.6)
    assert motion.moving
    assert not motion.twists(0.6001)
    assert not motion.moving


def test_the_pose_of_a_moving_object_is_predicted_until_it_counts_as_at_rest():
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    assert not motion.poses(0.02)
    motion.update(scene_of([moved(ball, twist, 0.04)]), 0.04)
    for ahead in (0.01, 0.05, 0.1):
        (X,) = motion.poses(0.04 + ahead)["ball"]
        np.testing.assert_allclose(X, moved(ball, twist, 0.04 + ahead).X_WO, atol=1e-12)
    assert not motion.poses(0.1401)


def stamped(item, stamp):
    return scene_of([replace(item, observed_at=stamp)])


def test_stamps_of_poses_that_arrive_late_are_respected():
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    # Observed every 40 ms, received 150 and 200 ms later.
    motion.update(stamped(ball, 100.0), 0.15, 100.15)
    motion.update(stamped(moved(ball, twist, 0.04), 100.04), 0.24, 100.24)
    np.testing.assert_allclose(motion.twists(0.24)["ball"], twist, atol=1e-9)
    (X,) = motion.poses(0.3)["ball"]
    np.testing.assert_allclose(X, moved(ball, twist, 0.3).X_WO, atol=1e-9)


@pytest.mark.parametrize("stamp", [None, 0.0, 1e9, -1e300])
def test_stamps_of_another_clock_are_ignored(stamp):
    twist = np.array((0.1, -0.2, 0.05, 0.3, 0.4, -0.5))
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(stamped(ball, stamp), 0.0, 100.0)
    motion.update(stamped(moved(ball, twist, 0.1), stamp), 0.1, 100.1)
    np.testing.assert_allclose(motion.twists(0.1)["ball"], twist, atol=1e-12)
    (X,) = motion.poses(0.15)["ball"]
    np.testing.assert_allclose(X, moved(ball, twist, 0.15).X_WO)


@pytest.mark.parametrize("interval", [0.03, 0.2, 0.5, 1.0])
def test_between_slow_updates_an_object_may_have_stopped_or_not(interval):
    twist = np.array((0.5, 0.0, 0.0, 0.0, 0.0, 0.0))
    ball = world_object("ball", Sphere(0.1), np.eye(4))
    motion, packer = ObstacleMotion(), ObstaclePacker()
    motion.update(scene_of([ball]), 0.0)
    scene = scene_of([moved(ball, twist, interval)])
    motion.update(scene, interval)
    for now in np.linspace(1.0, 2.0, 21) * interval:
        found = [X[0, 3] for X in motion.poses(now)["ball"]]
        assert found[0] == pytest.approx(0.5 * min(now, interval + 0.3))
        assert found[-1] == pytest.approx(0.5 * min(now, max(2.5 * interval, interval + 0.1)))
        assert len(found) == 1 or now > interval + min(interval, 0.3)  # due, or long ago
        assert (np.diff(found) < 0.08).all()  # no gap on its way
        rows = packer.packed(scene, np.eye(4), motion.twists(now), motion.poses(now)).rows
        np.testing.assert_allclose(rows["sphere"][:, 9], found)


def test_a_half_turn_between_two_looks_was_no_motion():
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.4, 0.0, 0.2)))
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    motion.update(scene_of([moved(ball, np.array((0.0, 0.0, 0.0, np.pi, 0.0, 0.0)), 1.0)]), 2.0)
    assert not motion.twists(2.0)


@pytest.mark.parametrize("axis", range(3))
def test_who_is_put_elsewhere_stands_still(axis):
    ball = world_object("ball", Sphere(0.1), np.eye(4))
    leap = np.zeros(6)
    leap[axis] = 5.0
    motion = ObstacleMotion()
    motion.update(scene_of([ball]), 0.0)
    motion.update(scene_of([moved(ball, leap, 0.1)]), 0.1)
    assert not motion.twists(0.1)


EDGE = 0.02
GOAL = (0.3, 0.45, 0.35)
FRAME = from_xyz_rpy((0.1, -0.05, 0.02), (0.0, 0.0, 0.3))


def wall(X_WO: np.ndarray = FRAME) -> Scene:
    """A wall of voxels across the way from home to the goal, in a frame of its own."""
    rng = np.random.default_rng(0)
    points = rng.uniform((0.15, 0.17, 0.0), (0.7, 0.25, 0.45), (60_000, 3))
    X = inverse(FRAME)
    cells = np.floor((points @ X[:3, :3].T + X[:3, 3]) / EDGE)
    item = world_object(OCTOMAP, voxels(EDGE, cells), X_WO)
    return Scene({OCTOMAP: item})


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


def run(franka, scene: Scene, by_field: bool, frames: int = 300) -> tuple[float, float]:
    """Return position error at the end and min distance from the wall on the way [m]."""
    policy = RmpflowPolicy(franka)
    policy.use_distance_field(by_field)
    policy.set_scene(scene)
    policy.set_end_effector_target(GOAL)
    checker = CollisionChecker(franka, "arm")
    q, qd = franka.named_state("ready", "arm"), np.zeros(7)
    closest = np.inf
    for k in range(frames):
        q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        if k % 10 == 0:
            spheres = checker.sphere_positions(q)
            field = FieldObstacles(scene.objects[OCTOMAP], FIELD)
            closest = min(closest, distance(field, spheres))
    return policy.status.position_error, closest


FIELD = field_around(wall().objects[OCTOMAP].parts[0].solid, FIELD_REACH)


def distance(obstacles: FieldObstacles, spheres: np.ndarray) -> float:
    X_FW = inverse(obstacles.item.X_WO)
    centres = spheres[:, :3] @ X_FW[:3, :3].T + X_FW[:3, 3]
    return float((obstacles.field.distance(centres) - spheres[:, 3]).min())


def test_the_tool_arrives_behind_a_wall_without_touching_it(franka):
    for by_field in (False, True):
        error, closest = run(franka, wall(), by_field)
        assert error < 0.02, by_field
        assert closest > 0.0, by_field
    # Without obstacles it would pass through the wall.
    policy = RmpflowPolicy(franka)
    policy.set_end_effector_target(GOAL)
    q, qd, closest = franka.named_state("ready", "arm"), np.zeros(7), np.inf
    checker = CollisionChecker(franka, "arm")
    obstacles = FieldObstacles(wall().objects[OCTOMAP], FIELD)
    for _ in range(240):
        q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        closest = min(closest, distance(obstacles, checker.sphere_positions(q)))
    assert closest < 0.0


def test_the_balls_are_where_the_nearest_voxels_are():
    item = wall().objects[OCTOMAP]
    solid = item.parts[0].solid
    rng = np.random.default_rng(1)
    spheres = np.column_stack((rng.uniform(-0.2, 0.9, (200, 3)), np.full(200, 0.05)))
    X_BW = inverse(from_xyz_rpy((0.3, 0.1, -0.2), (0.2, 0.1, 0.5)))
    rows = FieldObstacles(item, FIELD).nearest(spheres, X_BW)
    X_FB = inverse(X_BW @ item.X_WO)
    centres = spheres[:, :3] @ X_FB[:3, :3].T + X_FB[:3, 3]
    low = solid.cells * EDGE
    true = np.array([
        np.linalg.norm(np.clip(c, low, low + EDGE) - c, axis=1).min() for c in centres
    ])  # fmt: skip
    chosen = np.flatnonzero((true > 0.0) & (true - 0.05 < FIELD_REACH - EDGE))
    assert len(chosen) > 100
    for k in chosen:
        away = np.linalg.norm(rows[:, 9:12] - spheres[k, :3], axis=1) - rows[:, 15]
        # The ball of this sphere, or one that is closer, within a voxel.
        assert away.min() <= true[k] + 1.5 * EDGE
    assert np.isfinite(rows).all()


def test_objects_that_may_be_touched_or_are_disabled_have_no_effect(franka):
    scene = wall()
    off = Scene({OCTOMAP: replace(scene.objects[OCTOMAP], enabled=False)})
    links = [link for link in franka.tree.links]
    allowed = replace(scene, allowed=scene.allowed.with_pairs((link, OCTOMAP) for link in links))
    ends = []
    for world in (Scene(), off, allowed):
        policy = RmpflowPolicy(franka)
        policy.use_distance_field(True)
        policy.set_scene(world)
        policy.set_end_effector_target(GOAL)
        q, qd = franka.named_state("ready", "arm"), np.zeros(7)
        for _ in range(30):
            q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
        ends.append(q)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)


DT = 0.01
FAR = from_xyz_rpy((3.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def policy():
    return RmpflowPolicy(load_robot("franka"), ignore_robot_state_updates=True)


def box(name: str, size: tuple[float, float, float], X: np.ndarray) -> WorldObject:
    return world_object(name, Box(size), X)


def boxed_target(policy: RmpflowPolicy, seed: int) -> tuple[Scene, np.ndarray]:
    """Return a box around a pose of the tool, and the pose."""
    rng, home = np.random.default_rng(seed), policy.default_cspace_target
    limits = policy.robot.limits.select(policy.active_joints)
    X = policy.tool_pose(limits.clip(home + rng.uniform(-0.6, 0.6, len(home))))
    at = X[:3, 3] + rng.uniform(-0.05, 0.05, 3)
    size = tuple(rng.uniform(0.05, 0.2, 3).tolist())
    return Scene({"box": box("box", size, from_xyz_rpy(at, rng.uniform(-1.0, 1.0, 3)))}), X


def followed(policy: RmpflowPolicy, scene: Scene, X: np.ndarray) -> np.ndarray:
    """Return the references on the path to a pose [rad], shape (k, n)."""
    policy.reset()
    policy.set_scene(scene)
    follower, q = Follower(policy), policy.default_cspace_target
    follower.follow_pose(X, 0.0)
    fingers = policy.robot.home[policy.robot.indices(policy.watched_joints)]
    qd, still, sent = np.zeros(len(q)), np.zeros(len(fingers)), []
    for k in range(500):
        step = follower.step(RobotMotion(q, qd, fingers, still), DT, (k + 1) * DT)
        q, qd = (q, np.zeros(len(q))) if step is None else step
        sent.append(q)
    return np.array(sent)


def test_a_target_inside_a_box_does_not_lead_into_it(policy, monkeypatch):
    """The seed is one of 250 with which the policy alone touches the box."""
    scene, X = boxed_target(policy, 58)
    checker = CollisionChecker(policy.robot, policy.active_joints, scene=scene)
    assert checker.exact.are_free(followed(policy, scene, X)).all()
    monkeypatch.setattr(BrakingGuard, "admitted", lambda self, q, qd, dt: (q, qd))
    assert not checker.exact.are_free(followed(policy, scene, X)).all()


def standing(policy: RmpflowPolicy) -> StandingObstacles:
    return StandingObstacles(policy, (*policy.active_joints, *policy.watched_joints))


def path(policy: RmpflowPolicy) -> np.ndarray:
    q = policy.robot.home[policy.robot.indices((*policy.active_joints, *policy.watched_joints))]
    return np.array([q, q])


def test_only_objects_at_rest_count_and_tables_under_the_base_do_not(policy):
    policy.reset()
    at = policy.tool_pose(policy.default_cspace_target)
    obstacles = standing(policy)
    table = box("table", (2.0, 2.0, 0.1), from_xyz_rpy((0.0, 0.0, -0.05)))
    policy.set_scene(Scene({"table": table}))
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)

    inside = box("box", (0.1, 0.1, 0.1), at)
    policy.set_scene(Scene({"table": table, "box": inside}))
    assert obstacles.update()
    assert not obstacles.update()
    assert not obstacles.free(path(policy), 0.1)
    policy.set_obstacle_twists({"box": np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])})
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)
    policy.set_obstacle_twists({})
    assert obstacles.update()
    assert not obstacles.free(path(policy), 0.1)

    policy.set_robot_base_pose(FAR)
    assert obstacles.update()
    assert obstacles.free(path(policy), 0.1)
    policy.reset()
    policy.set_robot_base_pose(np.eye(4))


def test_an_object_put_onto_the_robot_does_not_hold_it(policy):
    policy.reset()
    q = policy.default_cspace_target
    guard, rest = BrakingGuard(policy), np.zeros(len(q))
    policy.set_internal_robot_joint_states(q, rest)
    guard.begin(q, rest)
    policy.set_scene(Scene({"box": box("box", (0.1, 0.1, 0.1), policy.tool_pose(q))}))
    ahead, speed = q + 1e-3, np.full(len(q), 0.1)
    at, velocity = guard.admitted(ahead, speed, DT)
    assert (at == ahead).all()
    assert (velocity == speed).all()
    assert not guard.braking
