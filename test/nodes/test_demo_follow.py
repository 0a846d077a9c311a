# SPDX-License-Identifier: Apache-2.0
"""The show "follow": positions of target and ball, and the tolerances of its checks."""

from types import SimpleNamespace

import numpy as np
import pytest

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import MotionError
from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.follow import (
    LAG,
    NEAR,
    SETTLING_TIME,
    Eight,
    Pace,
    Pass,
    Round,
    Seen,
    came_late,
    check_round,
    free_to_follow,
)
from motion_nodes.nodes.demo.shows import show_of

STEP = 0.01
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


def test_the_eight_begins_and_ends_gently_where_it_began():
    eight = Eight()
    times = np.arange(0.0, eight.whole + STEP, STEP)
    places = np.array([eight.at(t) for t in times])
    speeds = np.linalg.norm(np.diff(places, axis=0), axis=1) / STEP
    assert places[0] == pytest.approx(eight.centre)
    assert places[-1] == pytest.approx(eight.centre, abs=1e-9)
    assert speeds[0] < 0.01
    assert speeds[-1] < 0.01
    assert speeds.max() == pytest.approx(eight.speed, rel=0.02)
    assert 0.1 < eight.speed < 0.15
    assert np.abs(np.diff(speeds)).max() / STEP < 0.3  # [m/s^2]
    half = Eight(duration=6.0, turns=0.5)
    assert half.at(half.whole) == pytest.approx(eight.centre, abs=1e-9)
    assert half.speed == pytest.approx(eight.speed, rel=0.1)
    assert np.ptp(places[:, 1]) == pytest.approx(2.0 * eight.width, rel=0.01)


def test_the_ball_is_out_of_the_way_at_both_ends_and_in_it_between():
    eight, crossing = Eight(), Pass()
    times = np.arange(0.0, eight.whole, STEP)
    apart = [np.linalg.norm(eight.at(t) - crossing.at(t)) for t in times]
    ends = [np.linalg.norm(eight.at(t) - p) for t in times for p in (crossing.start, crossing.end)]
    assert min(ends) > NEAR
    assert min(apart) < 0.1
    assert crossing.at(-1.0) == pytest.approx(crossing.start)
    assert crossing.at(99.0) == pytest.approx(crossing.end)


def test_an_arm_that_follows_passes_and_one_that_does_not_fails(client):
    good, bad = DemoFindings(), DemoFindings()
    check_round(client, round_of(client, 0.5 * LAG), good, 0.1)
    check_round(client, round_of(client, 3.0 * LAG), bad, 0.1)
    assert good.ok
    assert "5.0 mm (median)" in good.lines[0]
    assert not bad.ok
    assert bad.lines[0].startswith("[FAILED]")


def test_states_that_come_late_allow_what_the_lateness_makes(client):
    findings = DemoFindings()
    part = round_of(client, 2.0 * LAG)
    client.seen = client.seen[::5]
    check_round(client, part, findings, 0.1)
    assert findings.ok
    assert "40 mm allowed with states every 100 ms" in findings.lines[0]


@pytest.mark.long
def test_a_touched_ball_is_found(client):
    tool = client.kinematics.pose(swing(4.0), client.tool)[:3, 3]
    for offset, ok in ((0.35, True), (0.05, False)):
        findings = DemoFindings()
        ball = tool + np.array((0.0, 0.0, -offset))
        check_round(client, round_of(client, 0.0, lambda t, ball=ball: ball), findings, 0.1)
        assert findings.ok is ok, findings.lines


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


def test_a_leader_that_got_no_processor_goes_on_from_where_it_was():
    pace = Pace(10.0)
    assert pace.to(10.02) == pytest.approx(0.02)
    assert pace.to(11.0) == pytest.approx(0.02 + Pace.STEP)
    assert pace.to(11.02) == pytest.approx(0.04 + Pace.STEP)
    assert pace.to(11.0) == pytest.approx(0.04 + Pace.STEP)
    assert pace.at(10.01) == pytest.approx(0.01)
    assert pace.at(11.0) == pytest.approx(0.02 + Pace.STEP)
    assert pace.at(99.0) == pytest.approx(0.04 + Pace.STEP)


def test_nothing_is_judged_while_the_ball_is_near_or_was(client):
    near = (2.0, 3.0)
    ball = lambda t: np.zeros(3) if near[0] <= t <= near[1] else np.ones(3)  # noqa: E731
    part = Round(0.0, 10.0, lambda t: np.zeros(3), ball)
    times = np.arange(0.0, 10.0, 0.1)
    free = free_to_follow(part, times, np.zeros((len(times), 3)))
    assert times[free].min() > near[1] + SETTLING_TIME - 0.01
    assert free[-1]


def test_who_follows_is_chosen_by_name():
    assert show_of("follow", "ik").parts < show_of("follow").parts
    with pytest.raises(MotionError, match="'rmpflow'"):
        show_of("follow", "rmpflw")
    with pytest.raises(MotionError, match="'elbow'"):
        show_of("elbow", "ik")
