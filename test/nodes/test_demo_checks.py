# SPDX-License-Identifier: Apache-2.0
"""Shows of the demo: their checks, with robots that perform more or less well."""

import math
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from action_msgs.msg import GoalStatus

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import Odometry, wrap_angle
from motion_nodes.core.ik.tool_goal import ArticulationIk
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.tasks.task_codes import SkillFailed
from motion_nodes.nodes.demo import party, task_shows
from motion_nodes.nodes.demo.arm import DemoFindings, deviation, eased, elbow_round, retraction
from motion_nodes.nodes.demo.base import SquareDrive
from motion_nodes.nodes.demo.follow import LAG, Round, Seen, came_late, check_round
from motion_nodes.nodes.demo.learned_policies import SEGMENTS, show_drawer, show_walking
from motion_nodes.nodes.demo.routines import Travel
from motion_nodes.nodes.demo.shows import SHOWS, show_of
from motion_nodes.nodes.demo.task_shows import CUBE
from motion_nodes.ros import signals

CHECKS = ("arm at rest", "square driven")


@pytest.fixture
def stop(monkeypatch):
    """The stop event, not set."""
    event = threading.Event()
    monkeypatch.setattr(signals, "STOP", event)
    return event


@pytest.mark.parametrize(
    ("results", "stopped", "headless", "code", "said"),
    [
        ([True, True], False, True, 0, "all checks passed"),
        ([True, True], True, True, 0, "all checks passed"),
        ([True], True, True, 130, "stopped; these checks did not run: square driven"),
        ([True], True, False, 0, "stopped; these checks did not run: square driven"),
        ([], True, True, 130, "did not run: arm at rest, square driven"),
        ([True], False, True, 1, "incomplete; these checks did not run: square driven"),
        ([False], True, True, 1, "checks FAILED"),
        ([True, False], False, False, 1, "checks FAILED"),
    ],
)
def test_result_and_exit_code(stop, capsys, results, stopped, headless, code, said):
    findings = DemoFindings()
    for name, ok in zip(CHECKS, results, strict=False):
        findings.check(ok, f"the {name}: 0.01 m/s")
    if stopped:
        stop.set()
        # A measurement during an interrupted motion is no result.
        findings.check(False, "the square driven: nan m")
    assert findings.conclude(CHECKS, headless=headless) == code
    printed = capsys.readouterr().out
    assert said in printed
    assert ("all checks passed" in printed) == (code == 0 and "did not run" not in printed)


def test_each_round_has_all_checks(stop):
    findings = DemoFindings()
    findings.check(True, "the arm at rest")
    findings.begin_round()
    assert findings.missing(CHECKS) == list(CHECKS)
    assert findings.lines == ["[ok] the arm at rest"]


def test_every_show_names_its_checks():
    for name, show in SHOWS.items():
        assert show.checks, name
        assert len(set(show.checks)) == len(show.checks), name


def test_ctrl_c_in_a_headless_demo(tmp_path):
    command = [sys.executable, "-m", "motion_nodes.cli.main", "demo", "wipe", "--headless"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "wiping" in line
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=90.0)
    assert "did not run: the cup held, on average, of the time" in rest
    assert "all checks passed" not in rest
    assert process.returncode == 130


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


def test_the_stack_is_checked():
    good = {name: np.array((0.0, 0.0, (k + 0.5) * CUBE)) for k, name in enumerate(task_shows.STACK)}
    assert all(ok for _, ok in task_shows.stack_checks(good))
    fallen = good | {"red_cube": np.array((0.1, 0.0, 0.5 * CUBE))}
    assert [ok for _, ok in task_shows.stack_checks(fallen)] == [True, True, True, False]


HOME = load_robot("franka").home[:7]


@pytest.fixture(scope="module")
def client():
    robot = load_robot("franka")
    joints = robot.group("arm").joints
    kinematics = Kinematics(robot.tree, joints, base=robot.base_frame)
    return SimpleNamespace(
        robot=robot,
        joints=joints,
        kinematics=kinematics,
        tool="panda_hand_tcp",
        who="rmpflow",
        guests=set(),
    )


def swing(t):
    """Return joints of an arm that swings."""
    q = HOME.copy()
    q[0] += 0.3 * np.sin(0.4 * t)
    return q


def round_of(client, behind=0.0, ball=None):
    """Return a round whose target the arm follows ``behind`` [m] too low."""
    times = np.arange(0.0, 8.0, 0.02)
    client.seen = [Seen(t, swing(t)) for t in times]

    def target(t):
        p = client.kinematics.pose(swing(t), client.tool)[:3, 3]
        return p + np.array((0.0, 0.0, behind))

    return Round(0.0, 8.0, target, ball)


def test_an_arm_that_follows_passes_and_one_that_does_not_fails(client):
    good, bad = DemoFindings(), DemoFindings()
    check_round(client, round_of(client, 0.5 * LAG), good, 0.1)
    check_round(client, round_of(client, 3.0 * LAG), bad, 0.1)
    assert good.ok
    assert "5.0 mm (median)" in good.lines[0]
    assert not bad.ok
    assert bad.lines[0].startswith("[FAILED]")


def test_a_touched_ball_is_judged_again_only_where_states_came_late(client):
    tool = client.kinematics.pose(swing(4.0), client.tool)[:3, 3]
    part = round_of(client, 0.0, lambda t: tool + (0.0 if t > 3.9 else 1.0))
    client.seen = [Seen(t, swing(t)) for t in np.arange(0.0, 8.0, 0.008)]
    assert came_late(client, part, 0.1) == ""
    client.seen = client.seen[::4]
    assert came_late(client, part, 0.1) == "the arm avoided the obstacle late"
    assert came_late(client, part._replace(ball=lambda t: tool + 9.0), 0.1) == ""
    findings = DemoFindings()
    check_round(client, part._replace(last=False), findings, 0.1)
    assert findings.ok
    assert len(findings.lines) == 1


def test_who_follows_is_chosen_by_name():
    assert show_of("follow", "ik").parts < show_of("follow").parts
    with pytest.raises(MotionError, match="'rmpflow'"):
        show_of("follow", "rmpflw")
    with pytest.raises(MotionError, match="'elbow'"):
        show_of("elbow", "ik")


class Walker:
    """A client whose robot walks at ``gain`` times the command; time passes when it spins."""

    def __init__(self, gain: float, tilt: float = 0.1, mode: str = "running") -> None:
        self.gain, self.tilt, self.mode = gain, tilt, mode
        self.now, self.guests, self.velocities = 0.0, set(), []
        self._twist = np.zeros(3)

    def walk(self, twist) -> None:
        self._twist = self.gain * np.array(twist)

    def spin(self, seconds: float) -> bool:
        self.now += seconds
        self.velocities.append((self.now, self._twist))
        return True


@pytest.mark.parametrize(
    ("walker", "failed"),
    [
        (Walker(1.0), 0),
        (Walker(0.8), 0),
        (Walker(0.3), len(SEGMENTS)),
        (Walker(1.0, tilt=1.0), 1),
        (Walker(1.0, mode="damped"), 1),
    ],
)
def test_velocities_tilt_and_mode_are_checked(walker, failed):
    findings = DemoFindings()
    show_walking(walker, findings)
    assert sum(line.startswith("[FAILED]") for line in findings.lines) == failed
    assert findings.ok == (failed == 0)
    assert len(findings.lines) == len(SEGMENTS) + 1


def test_a_robot_that_others_command_is_left_to_them():
    walker, findings = Walker(1.0), DemoFindings()
    walker.guests.add("robot")
    show_walking(walker, findings)
    assert not findings.lines


class Puller:
    """A client whose drawer opens by some distance [m]."""

    mode, now = "running", 0.0

    def __init__(self, opening: float, problem: str = "") -> None:
        self.opening, self.problem, self.guests = opening, problem, set()

    def start(self) -> str:
        return self.problem

    def wait(self, condition, seconds: float) -> bool:
        return condition()


@pytest.mark.parametrize(
    ("puller", "ok"), [(Puller(0.25), True), (Puller(0.1), False), (Puller(0.25, "no"), False)]
)
def test_the_opening_of_the_drawer_is_checked(puller, ok):
    findings = DemoFindings()
    show_drawer(puller, findings)
    assert findings.ok == ok
    assert puller.guests == {"arm"}


@pytest.mark.parametrize("start", [(0.0, 0.0, 0.0), (3.0, -2.0, 3.0), (0.5, 0.5, math.pi)])
def test_the_square_is_closed_counter_clockwise(start):
    odometry, square = Odometry(), SquareDrive(1.0, speed=0.3, turn_rate=1.5)
    odometry.set_pose(*start)
    corners, legs = [], []
    for _ in range(2000):
        twist = square.step(odometry.x, odometry.y, odometry.yaw)
        if legs and square.leg != legs[-1] and square.leg % 2:
            corners.append((odometry.x, odometry.y))
        legs.append(square.leg)
        if square.done:
            break
        assert 0.0 <= twist.vx <= 0.3
        assert abs(twist.wz) <= 1.5
        assert twist.vy == 0.0
        odometry.advance(twist.scaled(0.02), 0.02)
    assert square.done
    assert sorted(legs) == legs
    assert square.step(odometry.x, odometry.y, odometry.yaw) == Twist2()
    c, s = math.cos(start[2]), math.sin(start[2])
    seen = [
        (c * (x - start[0]) + s * (y - start[1]), -s * (x - start[0]) + c * (y - start[1]))
        for x, y in corners
    ]
    for (x, y), expected in zip(seen, ((1, 0), (1, 1), (0, 1), (0, 0)), strict=True):
        assert math.hypot(x - expected[0], y - expected[1]) < 0.02
    assert abs(wrap_angle(odometry.yaw - start[2])) < 0.01


FRANKA = load_robot("franka")
HOME_ARM_MOTIONS = FRANKA.home[:7]


@pytest.fixture(scope="module")
def ik():
    return ArticulationIk(FRANKA, "arm")


def between(motion, parts: int = 20) -> np.ndarray:
    """Joint positions on the cubic segments by which a controller interpolates rows."""
    rows = []
    for i in range(len(motion.times) - 1):
        h = motion.times[i + 1] - motion.times[i]
        for s in np.linspace(0.0, 1.0, parts):
            rows.append(
                (1 + 2 * s) * (1 - s) ** 2 * motion.positions[i]
                + s * (1 - s) ** 2 * h * motion.velocities[i]
                + s**2 * (3 - 2 * s) * motion.positions[i + 1]
                + s**2 * (s - 1) * h * motion.velocities[i + 1]
            )
    return np.array(rows)


def test_the_elbow_moves_and_the_tool_stays(ik):
    kinematics, tip = ik.chain.kinematics, ik.chain.tip
    legs = elbow_round(ik.chain, HOME_ARM_MOTIONS)
    assert len(legs) == 4
    elbow = [kinematics.pose(leg[-1], "panda_link4")[:3, 3] for leg in (legs[0], legs[2])]
    assert np.linalg.norm(elbow[0] - elbow[1]) > 0.25, "to either side"
    assert np.array_equal(legs[1][-1], HOME_ARM_MOTIONS)
    for leg in legs:
        motion = eased(leg, 0.3)
        distance, angle = deviation(
            ik.tool_pose(HOME_ARM_MOTIONS), kinematics.pose_batch(between(motion), tip)
        )
        assert distance < 1e-4
        assert angle < 1e-4


def test_the_tool_is_drawn_back_in_even_steps(ik):
    rows = retraction(ik, HOME_ARM_MOTIONS, step=0.02, count=8)
    poses = ik.chain.kinematics.pose_batch(rows, ik.chain.tip)
    steps = np.diff(poses[:, :3, 3], axis=0)
    assert np.allclose(steps, -0.02 * poses[0, :3, 2], atol=5e-6)
    assert np.abs(poses[:, :3, :3] - poses[0, :3, :3]).max() < 5e-6
    assert np.abs(np.diff(rows, axis=0)).max() < 0.1, "no jumps"
    motion = between(eased(rows[:2], 0.3))
    on_the_way = ik.chain.kinematics.pose_batch(motion, ik.chain.tip)[:, :3, 3] - poses[0, :3, 3]
    beside = on_the_way - np.outer(on_the_way @ poses[0, :3, 2], poses[0, :3, 2])
    assert np.linalg.norm(beside, axis=1).max() < 1e-3


def test_a_retraction_out_of_reach_says_at_which_step(ik):
    with pytest.raises(MotionError, match=r"step \d+") as caught:
        retraction(ik, HOME_ARM_MOTIONS, step=0.1, count=12)
    k = int(re.findall(r"\d+", str(caught.value))[0])
    assert len(retraction(ik, HOME_ARM_MOTIONS, step=0.1, count=k - 1)) == k, "the steps before it"


def test_an_arm_without_a_spare_joint_has_no_such_elbow():
    ur = ArticulationIk(load_robot("ur10e"), "arm")
    with pytest.raises(InvalidConfig):
        elbow_round(ur.chain, np.array([0.3, -1.2, 1.4, -0.9, 1.1, 0.4]))
