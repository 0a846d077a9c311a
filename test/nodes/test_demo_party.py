# SPDX-License-Identifier: Apache-2.0
"""Shows "party" and "factory": paths, fences and checks, without nodes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from action_msgs.msg import GoalStatus

from motion_nodes.api.robot_model import RobotModel
from motion_nodes.core.navigation.planar_geometry import PlanarPath
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.robot_spheres import link_bodies
from motion_nodes.core.scene.scene import Scene
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.task_runner import SkillFailed
from motion_nodes.nodes.demo import party, task_shows
from motion_nodes.nodes.demo.routines import Travel, together
from motion_nodes.nodes.demo.task_shows import ARMS, CUBE, LEFT, MIDDLE, RIGHT, fence

DOWN = (math.pi, 0.0, 0.0)


def test_the_lap_is_closed_smooth_and_around_all_others():
    lap = PlanarPath(party.lap(party.STRAIGHT, party.RADIUS))
    assert lap.length == pytest.approx(2.0 * (party.STRAIGHT + math.pi * party.RADIUS), rel=1e-3)
    assert np.allclose(lap.xy[0], lap.xy[-1], atol=1e-9)
    assert np.abs(lap.turns).max() < 0.1
    assert np.abs(np.diff(lap.yaw) - np.diff(lap.direction))[1:-1].max() < 0.05
    places = {place.namespace: place for place in parse_placements(party.ROBOTS)}
    assert set(places) == {party.PLANNING, party.REACTIVE, *party.ROUNDS}
    car = places["leatherback"]
    track = lap.xy + np.array((car.x, car.y))
    reach = {party.PLANNING: 1.05, party.REACTIVE: 0.85, "jetbot": 0.15, "kaya": 0.25}
    taken = []
    for name, radius in reach.items():
        poses = party.ROUNDS[name].poses if name in party.ROUNDS else (party.Pose2(),)
        points = np.array([(places[name].x + p.x, places[name].y + p.y) for p in poses])
        taken.append((points, radius))
        gaps = np.linalg.norm(track[:, None] - points, axis=-1)
        assert gaps.min() > radius + 0.2, f"{name} keeps clear of the car"
    for i, (a, first) in enumerate(taken):
        for b, second in taken[:i]:
            assert np.linalg.norm(a[:, None] - b, axis=-1).min() > first + second


def test_a_lap_that_was_interrupted_is_continued():
    lap = party.lap(party.STRAIGHT, party.RADIUS)
    for here in (party.Pose2(), party.Pose2(-0.1, 0.05), party.Pose2(0.2, 0.0)):
        assert party.rest_of(lap, here) == lap
    rest = party.rest_of(lap, party.Pose2(2.0 + party.RADIUS, party.RADIUS + 0.04))
    assert rest[-1] == lap[-1]
    assert rest[0].distance(party.Pose2(2.0 + party.RADIUS, party.RADIUS)) < 0.1


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_goal_that_fails_is_sent_again_a_few_times(failures):
    sent = []

    def work():
        sent.append(None)
        yield
        if len(sent) <= failures:
            raise SkillFailed("late")
        return GoalStatus.STATUS_SUCCEEDED, None

    if failures < party.ATTEMPTS:
        assert len(list(party.persistent(work, "plan"))) == failures + 1
    else:
        with pytest.raises(SkillFailed, match="late"):
            list(party.persistent(work, "plan"))
    assert len(sent) == min(failures + 1, party.ATTEMPTS)


def test_travel_counts_movements_and_not_noise():
    noisy, moved = Travel(), Travel()
    rng = np.random.default_rng(1)
    for k in range(200):
        noisy.update(0.01 * k, rng.normal(0.0, 5e-4, 2))
        moved.update(0.01 * k, np.array((0.02 * max(k - 50, 0), 0.0)))
    assert (noisy.length, math.isnan(noisy.begin)) == (0.0, True)
    assert moved.length == pytest.approx(0.02 * 149)
    assert (moved.begin, moved.end) == pytest.approx((0.51, 1.99))
    assert together([moved, moved]) == pytest.approx(1.48)
    assert together([moved, noisy]) == 0.0


def travelled(length: float) -> Travel:
    travel = Travel()
    for k in range(101):
        travel.update(0.1 * k, np.array((length * k / 100, 0.0)))
    return travel


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({}, []),
        ({"failures": {"kaya": "stuck"}}, ["kaya"]),
        ({"travels": {"jetbot": Travel()}}, ["jetbot", "all of them"]),
        ({"travels": {"xarm6": travelled(0.5)}}, ["xarm6"]),
        ({"ends": {"leatherback": party.Pose2(0.3, 0.0, 0.0)}}, ["leatherback"]),
    ],
)
def test_a_robot_that_failed_or_did_not_move_is_a_failed_check(change, failed):
    names = (party.PLANNING, party.REACTIVE, *party.ROUNDS)
    places = dict.fromkeys(party.ROUNDS, party.Pose2())
    given = {
        "failures": dict.fromkeys(names, ""),
        "travels": {name: travelled(20.0) for name in names},
        "ends": places,
    }
    for key, values in change.items():
        given[key] = {**given[key], **values}
    found = party.checks(given["failures"], given["travels"], places, given["ends"])
    wrong = [text for text, ok in found if not ok]
    assert len(wrong) == len(failed)
    assert all(any(text.startswith(name) for text in wrong) for name in failed)


@pytest.fixture(scope="module")
def arm():
    return RobotModel(load_robot("franka"))["arm"]


def fenced(*, open_zone: bool) -> World:
    made = fence(open_zone=open_zone)
    return World(Scene({made.name: made}))


def test_an_arm_reaches_its_places_and_the_zone_only_when_it_is_open(arm):
    closed, opened = fenced(open_zone=False), fenced(open_zone=True)
    home = arm.state("home")

    def reaches(place, height, world):
        turns = (0.0, 0.5 * math.pi, math.pi)
        poses = [from_xyz_rpy((*place, height), (DOWN[0], 0.0, turn)) for turn in turns]
        return any(arm.ik(X, seed=home, world=world).success for X in poses)

    assert arm.collision_free(home, closed)
    for place in (LEFT, RIGHT):
        for height in (0.03, 0.15):
            assert reaches(place, height, closed)
    for height in (0.03, 3.5 * CUBE + 0.1):
        assert reaches(MIDDLE, height, opened)
        assert not reaches(MIDDLE, height, closed)


def test_arms_within_their_fences_do_not_touch(arm):
    """Neighbours and opposite arms, one of them with the zone, by their collision spheres."""
    robot = load_robot("franka")
    kinematics = Kinematics(robot.tree, robot.joint_names, base=robot.base_frame)
    bodies = link_bodies(robot)
    rng = np.random.default_rng(2)

    def spheres(open_zone: bool, where, count: int):
        world, found = fenced(open_zone=open_zone), []
        low, high = arm.limits.lower, arm.limits.upper
        while len(found) < count:
            q = arm.state("home") + rng.uniform(-0.9, 0.9, 7)
            q = np.clip(q, low, high)
            if arm.collision_free(q, world):
                full = robot.home.copy()
                full[:7] = q
                centres = []
                for body in bodies:
                    X = where.X_WB @ kinematics.pose(full, body.name)
                    at = body.spheres[:, :3] @ X[:3, :3].T + X[:3, 3]
                    centres.append(np.column_stack((at, body.spheres[:, 3])))
                found.append(np.concatenate(centres))
        return found

    west, south, east, _ = ARMS
    inside = spheres(True, west, 40)
    assert max(s[:, 0].max() for s in inside) > -0.1, "some are in the zone"
    for other in (south, east):
        for a in spheres(False, other, 20):
            for b in inside:
                gap = np.linalg.norm(a[:, None, :3] - b[None, :, :3], axis=-1)
                assert (gap - a[:, None, 3] - b[None, :, 3]).min() > 0.0


def test_the_turns_are_each_of_one_arm_and_the_cubes_are_where_they_are_picked():
    turns = [step.turn for steps in task_shows.STEPS.values() for step in steps]
    given = sorted(turn for turn in turns if turn is not None)
    assert given == list(range(len(given)))
    assert (
        len(task_shows.factory_objects())
        == len(task_shows.CUBES)
        == len(set(task_shows.STACK))
        == 4
    )
    spots = [arm.cube_at(place)[:2, 3] for arm in ARMS for place in (LEFT, RIGHT, MIDDLE)]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(spots) for b in spots[:i]]
    assert sorted(apart)[6] > 2.0 * CUBE, "only the four views of the middle are one place"
    assert sorted(apart)[5] == pytest.approx(0.0, abs=1e-9)


def test_the_stack_is_checked():
    good = {name: np.array((0.0, 0.0, (k + 0.5) * CUBE)) for k, name in enumerate(task_shows.STACK)}
    assert all(ok for _, ok in task_shows.stack_checks(good))
    fallen = good | {"red_cube": np.array((0.1, 0.0, 0.5 * CUBE))}
    assert [ok for _, ok in task_shows.stack_checks(fallen)] == [True, True, True, False]
