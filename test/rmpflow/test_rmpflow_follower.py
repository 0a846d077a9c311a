# SPDX-License-Identifier: Apache-2.0
"""Inputs and messages of the follower, with ideal robots and ones that do not follow."""

import numpy as np
import pytest

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.policy_state import FollowerSettings, Phase, RobotMotion
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.shapes import Box, Sphere
from motion_nodes.core.scene.world import World
from motion_nodes.errors import InvalidCommand

DT = 0.01
FRANKA = load_robot("franka")
POLICY = RmpflowPolicy(FRANKA, ignore_robot_state_updates=True)
HOME = POLICY.default_cspace_target
FINGERS = FRANKA.home[FRANKA.indices(POLICY.watched_joints)]
KINEMATICS = Kinematics(FRANKA.tree, (*POLICY.active_joints, *POLICY.watched_joints))
DOWN = from_xyz_rpy((0.45, 0.15, 0.4), (np.pi, 0.0, 0.0))


class Robot:
    """An ideal robot that is commanded by a follower."""

    def __init__(self, q=HOME, **settings):
        POLICY.reset()
        POLICY.set_ignore_state_updates(True)
        self.follower = Follower(POLICY, FollowerSettings(**settings))
        self.q, self.qd, self.now = np.array(q), np.zeros(len(q)), 0.0
        self.told = []
        """Times of the received commands [s]."""
        self.speeds, self.led = [], None
        self.blocked = False

    def run(self, seconds, each=None, *, news=True):
        for _ in range(round(seconds / DT)):
            if each is not None:
                each(self.now)
            led = (self.q, self.qd) if self.led is None else self.led
            motion = RobotMotion(self.q, self.qd, FINGERS, np.zeros(len(FINGERS)), *led)
            targets = self.follower.step(motion if news else None, DT, self.now)
            self.now += DT
            if targets is not None:
                self.told.append(self.now)
                if not self.blocked:
                    self.q, self.qd = targets
            self.speeds.append(np.abs(self.qd).max())
        return self.follower.phase

    @property
    def tool(self):
        return POLICY.tool_pose(self.q)

    @property
    def tool_speed(self):
        J = KINEMATICS.jacobian(np.concatenate((self.q, FINGERS)), POLICY.tool)
        return J[:, : len(self.q)] @ self.qd


def test_without_a_target_nothing_is_said_and_with_one_it_arrives_and_falls_silent():
    robot = Robot()
    assert robot.run(0.2) is Phase.IDLE
    assert not robot.told
    robot.follower.follow_pose(DOWN, robot.now)
    assert robot.run(6.0) is Phase.ARRIVED
    assert robot.tool[:3, 3] == pytest.approx(DOWN[:3, 3], abs=0.005)
    assert robot.follower.errors.orientation < np.radians(1.0)
    robot.told.clear()
    robot.run(1.0)
    assert len(robot.told) < 3, "too many messages at rest"


def test_it_begins_where_the_robot_is_led_so_that_nothing_jumps():
    """A robot that is moved by another command keeps its velocity."""
    robot = Robot()
    moving = np.full(len(HOME), 0.2)
    robot.led = (HOME + 0.01, moving)
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(DT)
    assert robot.q == pytest.approx(HOME + 0.01, abs=0.3 * DT)
    assert robot.qd == pytest.approx(moving, abs=0.15)


def test_joint_speeds_change_within_the_limits_of_jerk_and_acceleration():
    robot = Robot()
    limits = FRANKA.limits.select(POLICY.active_joints)
    targets = [from_xyz_rpy((0.45, y, 0.4), (np.pi, 0, 0)) for y in (-0.5, 0.5)]
    speeds = []

    def jumps(now):
        robot.follower.follow_pose(targets[int(now / 0.25) % 2], now)
        speeds.append(robot.qd.copy())

    robot.run(2.0, jumps)
    acceleration = np.diff(speeds, axis=0) / DT
    assert (np.abs(speeds) <= limits.velocity + 1e-9).all()
    assert (np.abs(acceleration) <= limits.acceleration * (1 + 1e-6)).all()


def test_a_lower_cap_of_speeds_counts_at_once_and_is_never_exceeded():
    robot = Robot()
    settings = POLICY.settings
    robot.follower.follow_pose(from_xyz_rpy((0.4, -0.4, 0.4), (np.pi, 0, 0)), 0.0)
    robot.run(0.4)
    assert robot.speeds[-1] > 0.3
    try:
        POLICY.set_parameters(
            {
                "joint_velocity_cap_rmp.max_velocity": 0.2,
                "joint_velocity_cap_rmp.velocity_damping_region": 0.1,
            }
        )
        robot.run(0.4)
        robot.speeds.clear()
        robot.run(0.5)
        assert 0.1 < max(robot.speeds) <= 0.2 + 1e-9
    finally:
        POLICY.set_settings(settings)


@pytest.mark.parametrize("twist", [(0.1, 0, 0, 0, 0, 0), (0, 0.05, -0.1, 0, 0, 0.4)])
def test_a_twist_is_kept_while_it_is_renewed_and_ends_by_itself(twist):
    robot = Robot()
    begin = robot.tool
    robot.run(1.0, lambda now: robot.follower.follow_twist(twist, now))
    assert robot.tool_speed == pytest.approx(twist, abs=0.01)
    assert robot.tool[:3, 3] - begin[:3, 3] == pytest.approx(twist[:3], abs=0.01)
    before = robot.tool
    assert robot.run(1.0) is Phase.IDLE
    assert robot.speeds[-1] == 0.0
    assert np.linalg.norm(robot.tool[:3, 3] - before[:3, 3]) < 0.035, "it stopped late"


def beside_a_ball(aside):
    """Return a robot with a ball beside its tool, at an offset [m]."""
    robot = Robot()
    X = from_xyz_rpy(robot.tool[:3, 3] + np.array(aside))
    POLICY.set_scene(World(Scene(objects={"ball": world_object("ball", Sphere(0.05), X)})).scene)
    return robot


@pytest.mark.parametrize("twist", [(0.1, 0, 0, 0, 0, 0), (0, 0, -0.1, 0, 0, 0.4)])
@pytest.mark.parametrize("aside", [(0.13, 0.0, 0.0), (0.0, 0.16, 0.0), (-0.12, 0.0, -0.05)])
def test_a_stop_beside_an_obstacle_only_brakes(aside, twist):
    robot = beside_a_ball(aside)
    robot.run(0.5, lambda now: robot.follower.follow_twist(twist, now))
    robot.run(0.3)
    before, forward = robot.q.copy(), np.sign(robot.qd)
    assert robot.run(1.0) is Phase.IDLE
    assert np.min((robot.q - before) * forward) > -2e-3, "a joint was pushed back"


@pytest.mark.parametrize("aside", [(0.11, 0.0, 0.0), (0.0, 0.14, 0.0), (-0.12, 0.0, -0.05)])
def test_a_command_that_ends_at_rest_beside_an_obstacle_moves_nothing(aside):
    robot = beside_a_ball(aside)
    robot.run(4.0, lambda now: robot.follower.follow_twist(np.zeros(6), now))
    before = robot.q.copy()
    assert robot.run(2.0) is Phase.IDLE
    assert robot.q == pytest.approx(before, abs=1e-3)


def test_jogged_joints_move_at_their_speeds_and_the_others_stay():
    robot = Robot()
    speeds = np.zeros(len(HOME))
    speeds[[0, 6]] = 0.4, -0.3
    robot.run(1.5, lambda now: robot.follower.follow_jog(speeds, now))
    assert robot.qd == pytest.approx(speeds, abs=0.03)
    assert (robot.q - HOME)[[1, 2, 3, 4, 5]] == pytest.approx(np.zeros(5), abs=0.02)


def test_a_jog_stops_at_the_joint_limit():
    robot = Robot()
    upper = FRANKA.limits.select(POLICY.active_joints).upper[6]
    speeds = np.zeros(len(HOME))
    speeds[6] = 1.5
    most = -np.inf

    def jog(now):
        nonlocal most
        robot.follower.follow_jog(speeds, now)
        most = max(most, robot.q[6])

    robot.run(4.0, jog)
    assert upper - 0.2 < most <= upper
    assert abs(robot.qd[6]) < 0.02


def test_a_twist_into_a_wall_stops_before_it():
    robot = Robot()
    wall = world_object("wall", Box((0.02, 2.0, 2.0)), from_xyz_rpy((0.55, 0.0, 0.5)))
    POLICY.set_scene(World(Scene(objects={"wall": wall})).scene)
    robot.run(6.0, lambda now: robot.follower.follow_twist((0.2, 0, 0, 0, 0, 0), now))
    assert POLICY.clearance() > 0.0
    assert abs(robot.tool_speed[0]) < 0.02
    back = (-0.1, 0, 0, 0, 0, 0)
    x = robot.tool[0, 3]
    robot.run(1.0, lambda now: robot.follower.follow_twist(back, now))
    assert robot.tool[0, 3] < x - 0.07, "the held-up motion accumulated"


def test_a_target_that_moves_is_followed_without_lag():
    robot, errors = Robot(), []
    sent = -1.0

    def target(now):
        return from_xyz_rpy((0.45, 0.1 * now - 0.2, 0.45), (np.pi, 0.0, 0.0))

    def follow(now):
        nonlocal sent
        if now - sent >= 1 / 30:
            sent = now
            robot.follower.follow_pose(target(now), now)
        errors.append(np.linalg.norm(robot.tool[:3, 3] - target(now)[:3, 3]))

    robot.run(4.0, follow)
    assert max(errors[-200:]) < 0.01


def test_the_newest_input_leads():
    robot = Robot()
    follower = robot.follower
    follower.follow_pose(DOWN, 0.0)
    robot.run(0.5)
    robot.run(0.3, lambda now: follower.follow_twist((0, 0, 0.1, 0, 0, 0), now))
    assert robot.tool_speed[2] > 0.05
    assert robot.run(1.0) is Phase.IDLE, "it returned to the target before the twist"
    follower.follow_posture(HOME, robot.now)
    assert robot.run(5.0) is Phase.ARRIVED
    assert robot.q == pytest.approx(HOME, abs=0.01)


def test_a_posture_beside_a_pose_settles_the_elbow_and_keeps_the_tool():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(4.0)
    elbow = robot.q[2]
    posture = HOME.copy()
    posture[2] += 0.8
    robot.follower.follow_posture(posture, robot.now)
    assert robot.run(4.0) is Phase.ARRIVED
    assert robot.q[2] > elbow + 0.2
    assert robot.tool[:3, 3] == pytest.approx(DOWN[:3, 3], abs=0.01)


def test_a_target_that_is_not_renewed_is_lost():
    robot = Robot(target_timeout=0.3)
    robot.run(0.2, lambda now: robot.follower.follow_pose(DOWN, now))
    assert robot.speeds[-1] > 0.1
    assert robot.run(0.9) is Phase.STOPPED
    assert "not renewed for 0.3 s" in robot.follower.text
    assert robot.speeds[-1] == 0.0
    told = len(robot.told)
    robot.run(0.5)
    assert len(robot.told) == told
    robot.follower.follow_pose(DOWN, robot.now)
    assert robot.run(0.1) is Phase.FOLLOWING


def test_pause_stops_and_goes_on():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.5)
    robot.follower.pause(True)
    assert robot.run(0.6) is Phase.PAUSED
    assert robot.speeds[-1] == 0.0
    robot.follower.follow_twist((0.1, 0, 0, 0, 0, 0), robot.now)
    assert robot.run(0.3) is Phase.PAUSED
    robot.follower.pause(False)
    assert robot.run(6.0) is Phase.ARRIVED


def test_cleared_while_paused_it_stays_silent():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.5)
    robot.follower.pause(True)
    robot.follower.clear()
    robot.run(0.6)
    robot.follower.pause(False)
    told = len(robot.told)
    assert robot.run(0.5) is Phase.IDLE
    assert len(robot.told) == told


def test_who_leads_the_resting_robot_elsewhere_gets_it():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(5.0)
    told = len(robot.told)
    robot.led = (robot.q + 0.05, np.zeros(len(robot.q)))
    assert robot.run(0.5) is Phase.IDLE
    assert "another command" in robot.follower.text
    assert len(robot.told) == told


def test_an_obstacle_that_comes_near_moves_a_robot_that_rests():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(5.0)
    told = len(robot.told)
    X = robot.tool
    X[:3, 3] += (0.0, 0.1, 0.06)
    POLICY.set_scene(World(Scene(objects={"ball": world_object("ball", Sphere(0.05), X)})).scene)
    robot.run(1.0)
    assert len(robot.told) > told + 20


def test_a_robot_that_does_not_follow_is_let_go():
    robot = Robot(max_tracking_error=0.1)
    robot.blocked = True
    robot.follower.follow_pose(DOWN, 0.0)
    assert robot.run(3.0) is Phase.STOPPED
    assert "panda_joint" in robot.follower.text
    robot.blocked = False
    told = len(robot.told)
    robot.run(0.5)
    assert len(robot.told) == told


def test_measurements_may_be_late():
    robot = Robot(max_tracking_error=0.02)
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.3)
    assert np.abs(robot.qd).max() > 0.2
    before = robot.q
    robot.run(0.2, news=False)
    robot.q = before
    assert robot.run(DT) is Phase.FOLLOWING
    robot.q = before
    robot.run(0.2, news=False)
    robot.q = before
    assert robot.run(DT) is Phase.STOPPING


def test_from_the_robots_own_state_each_step_waits_for_news():
    robot = Robot()
    POLICY.set_ignore_state_updates(False)
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.3)
    told = len(robot.told)
    robot.run(0.1, news=False)
    assert len(robot.told) == told
    assert robot.run(6.0) is Phase.ARRIVED
    assert robot.tool[:3, 3] == pytest.approx(DOWN[:3, 3], abs=0.005)


def test_the_end_is_told_in_one_message_that_can_be_reached():
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.6)
    before, speed = robot.q, robot.qd
    q, qd = robot.follower.rest_at(DT)
    assert not qd.any()
    moved = np.sign(speed) * (q - before)
    fast = np.abs(speed) > 0.05
    assert fast.any()
    assert (moved[fast] > 0.0).all(), "not forward over the stopping distance"
    assert (moved < 0.3).all()
    assert robot.follower.rest_at(DT) is None
    assert robot.follower.phase is Phase.IDLE


def trapped(robot):
    """Put the robot's target behind a U of walls that opens towards the robot."""
    walls = {
        "back": ((0.02, 0.5, 0.5), (0.62, 0.0, 0.5)),
        "left": ((0.25, 0.02, 0.5), (0.5, 0.25, 0.5)),
        "right": ((0.25, 0.02, 0.5), (0.5, -0.25, 0.5)),
        "lid": ((0.25, 0.5, 0.02), (0.5, 0.0, 0.75)),
        "floor": ((0.25, 0.5, 0.02), (0.5, 0.0, 0.25)),
    }
    objects = {n: world_object(n, Box(size), from_xyz_rpy(at)) for n, (size, at) in walls.items()}
    POLICY.set_scene(World(Scene(objects=objects)).scene)
    robot.follower.follow_pose(from_xyz_rpy((0.7, 0.0, 0.5)), robot.now, oriented=False)


def test_a_trap_is_told_within_two_seconds_of_standstill():
    robot = Robot()
    trapped(robot)
    moved = 0.0
    while robot.run(0.1) is not Phase.STUCK:
        moved = robot.now if np.linalg.norm(robot.tool_speed[:3]) > 0.02 else moved
        assert robot.now < 8.0
    assert robot.now - moved < 2.0
    assert "no progress towards the target" in robot.follower.text


@pytest.mark.long
def test_a_planner_gets_the_robot_at_rest_and_gives_it_back():
    robot = Robot(escape=True, escape_pause=1.0)
    follower = robot.follower
    trapped(robot)
    while follower.escape_target is None:
        robot.run(0.05)
        assert robot.now < 8.0
    assert robot.speeds[-1] == 0.0
    told = len(robot.told)
    robot.run(0.5)
    assert len(robot.told) == told, "commands were sent while the planner moved the robot"
    follower.hand_back(robot.now, "no way")
    assert robot.run(3.0) in (Phase.STUCK, Phase.STOPPING, Phase.ESCAPING)
    while follower.escape_target is None:
        robot.run(0.05)
        assert robot.now < 14.0
    POLICY.set_scene(Scene())
    follower.hand_back(robot.now)
    assert robot.run(6.0) is Phase.ARRIVED


def escaping(robot, within=8.0):
    """Run until the follower requests a planner."""
    end = robot.now + within
    while robot.follower.escape_target is None:
        robot.run(0.05)
        assert robot.now < end


@pytest.mark.long
def test_the_posture_is_tried_once_after_a_planner_failed():
    robot = Robot(escape=True, retreat=True, escape_pause=60.0)
    trapped(robot)
    escaping(robot)
    assert "planner" in robot.follower.text
    robot.follower.hand_back(robot.now, "the planner failed: no time")
    texts = set()
    for _ in range(300):
        robot.run(0.05)
        texts.add(robot.follower.text)
        assert robot.follower.escape_target is None
    assert any("back to the posture" in text for text in texts)
    assert robot.follower.phase is Phase.STUCK
    assert "no time" in robot.follower.text


@pytest.mark.long
def test_a_target_out_of_reach_is_reported_and_not_tried_again():
    robot = Robot(escape=True, retreat=True, escape_pause=0.5)
    follower = robot.follower
    trapped(robot)
    escaping(robot)
    follower.hand_back(robot.now, "the target is in collision: words", impossible=True)
    tries = 0
    for _ in range(200):
        robot.run(0.05)
        tries += follower.escape_target is not None or "posture" in follower.text
    assert tries == 0
    assert robot.follower.phase is Phase.STUCK
    assert "in collision" in robot.follower.text
    # A new scene, or a target that has moved in small steps, is tried again.
    follower.scene_changed(robot.now)
    escaping(robot)
    follower.hand_back(robot.now, "the target is in collision: words", impossible=True)
    for k in range(1, 8):
        follower.follow_pose(from_xyz_rpy((0.7, 0.01 * k, 0.5)), robot.now, oriented=False)
        robot.run(0.05)
    escaping(robot)


class Passing:
    """A ball that moves, seen at 50 Hz with noise."""

    def __init__(self, at, rng):
        self.rng, self.at, self.velocity = rng, np.array(at), np.array([0.0, -0.1, 0.0])
        self.shown = -1.0

    def __call__(self, now):
        self.at = self.at + self.velocity * DT
        if now - self.shown >= 0.02:
            self.shown = now
            seen = self.at + self.rng.normal(scale=0.001, size=3)
            objects = dict(POLICY.scene.objects)
            objects["ball"] = world_object("ball", Sphere(0.05), from_xyz_rpy(seen))
            POLICY.set_scene(Scene(objects=objects), now)


@pytest.mark.long
def test_no_planner_moves_the_robot_while_an_obstacle_approaches():
    robot = Robot(escape=True, escape_pause=1.0)
    follower = robot.follower
    trapped(robot)
    while robot.run(0.1) is Phase.FOLLOWING and robot.speeds[-1] > 0.02:
        assert robot.now < 8.0
    ball = Passing(robot.tool[:3, 3] + (0.0, 0.38, 0.0), np.random.default_rng(1))
    for _ in range(44):
        robot.run(0.05, ball)
        assert follower.escape_target is None
    assert follower.phase is Phase.STUCK
    assert "ball moves" in follower.text
    # At rest, even if its pose is noisy, it delays no plan.
    ball.velocity = np.zeros(3)
    end = robot.now + 4.0
    while follower.escape_target is None:
        robot.run(0.05, ball)
        assert robot.now < end
    robot.run(0.5, ball)
    assert follower.escape_target is not None
    # One that comes close while the planner moves the robot is avoided.
    ball.velocity, told = np.array([0.0, -0.1, 0.0]), len(robot.told)
    while follower.escape_target is not None:
        robot.run(DT, ball)
        assert robot.now < end + 4.0
    robot.run(0.2, ball)
    assert len(robot.told) > told
    assert POLICY.clearance() > 0.0


def test_a_target_out_of_reach_is_tried_again_with_another_orientation():
    robot = Robot(escape=True)
    trapped(robot)
    for pitch in (None, 0.0, 0.6):  # unconstrained, constrained, turned in place
        if pitch is not None:
            X = from_xyz_rpy((0.7, 0.0, 0.5), (0.0, pitch, 0.0))
            robot.follower.follow_pose(X, robot.now)
        escaping(robot)
        robot.follower.hand_back(robot.now, "the target is not reachable", impossible=True)


@pytest.mark.long
@pytest.mark.parametrize("end", ["clear", "twist", "far target"])
def test_another_input_ends_the_hand_over(end):
    robot = Robot(escape=True)
    follower = robot.follower
    trapped(robot)
    while follower.escape_target is None:
        robot.run(0.05)
    if end == "clear":
        follower.clear()
        expected = Phase.IDLE
    elif end == "twist":
        follower.follow_twist((-0.1, 0, 0, 0, 0, 0), robot.now)
        expected = Phase.FOLLOWING
    else:
        follower.follow_pose(DOWN, robot.now)
        expected = Phase.FOLLOWING
    assert follower.escape_target is None
    assert robot.run(0.1) is expected


@pytest.mark.parametrize(
    "order",
    [
        lambda f: f.follow_pose(np.full((4, 4), np.nan), 0.0),
        lambda f: f.follow_pose(np.zeros((3, 3)), 0.0),
        lambda f: f.follow_posture([0.0] * 6, 0.0),
        lambda f: f.follow_posture([np.inf, 0, 0, 0, 0, 0, 0], 0.0),
        lambda f: f.follow_posture([9.0, 0, 0, 0, 0, 0, 0], 0.0),
        lambda f: f.follow_twist([0.1, np.nan, 0, 0, 0, 0], 0.0),
        lambda f: f.follow_twist([0.1], 0.0),
        lambda f: f.follow_jog([0.1], 0.0),
    ],
)
def test_a_bad_input_changes_nothing(order):
    robot = Robot()
    robot.follower.follow_pose(DOWN, 0.0)
    robot.run(0.3)
    before = robot.follower.command
    with pytest.raises(InvalidCommand):
        order(robot.follower)
    assert robot.follower.command is before
    assert robot.run(0.2) is Phase.FOLLOWING
