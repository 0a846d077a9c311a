# SPDX-License-Identifier: Apache-2.0
"""Stop, Resume, drive pads and the trail of a base."""

import asyncio

import numpy as np
import pytest
from raised_errors import about
from view.test_browser_viewer import LIMIT, Record, as_page, drive_button, page, refresh
from view.toy_robot import hand_made, pose

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.drive_panel import (
    HOLD_TIMEOUT,
    STOP_REPEATS,
    Direction,
    PadState,
    PadTwist,
)
from motion_nodes.extras.viewer.live_robot import JUMP, MAX_POINTS, SPACING, TrailPoints
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def press_key(viewer):
    """Deliver the hotkey as from a page."""
    from viser._messages import CommandTriggerMessage

    viewer._server._connected_clients.setdefault(99, page())
    gui = viewer._server.gui
    pressed = gui._handle_command_trigger(99, CommandTriggerMessage(viewer._stop.key._impl.uuid))
    asyncio.run_coroutine_threadsafe(pressed, viewer._loop).result(LIMIT)


def test_stop_stands_above_all_robots_and_is_called_by_button_and_key(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"), stops=True)
    panel = viewer._stop
    inside = viewer._robots["arm"]._status._impl.parent_container_id
    folder = viewer._server.gui._container_handle_from_uuid[inside]
    assert panel.stop._impl.parent_container_id == folder._impl.parent_container_id
    assert panel.stop.order < folder.order
    assert panel.stop.visible
    assert viewer._stop.key.hotkey == "escape"
    record = Record()
    viewer.on_stop = record
    as_page(viewer, panel.stop, value=True)
    record.wait_for(lambda calls: len(calls) == 1)
    press_key(viewer)
    record.wait_for(lambda calls: len(calls) == 2)


def test_resume_is_shown_with_the_reason_while_stopped(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"), stops=True)
    panel, record = viewer._stop, Record()
    viewer.on_resume = record
    assert not panel.resume.visible
    viewer.set_stopped("stopped by /stop")
    refresh(viewer)
    assert panel.resume.visible
    assert panel.stop.visible
    assert "stopped by" in panel.line.content
    as_page(viewer, panel.resume, value=True)
    record.wait_for(lambda calls: len(calls) == 1)
    viewer.set_stopped("")
    refresh(viewer)
    assert not panel.resume.visible
    assert not panel.line.visible


def test_stop_lets_go_of_the_drive_pads(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")), stops=True)
    viewer.on_twist = record = Record()
    as_page(viewer, viewer._robots["toy"].drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Left"), value=True)
    record.wait_for(lambda calls: calls.count(("toy", 0.0, 0.0, 1.0)) >= 3)
    as_page(viewer, viewer._stop.stop, value=True)
    record.wait_for(lambda calls: calls[-3:] == [("toy", 0.0, 0.0, 0.0)] * 3)


def test_a_page_without_a_suite_has_no_stop(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"))
    assert viewer._stop is None
    viewer.set_stopped("nobody sees this")
    refresh(viewer)


REST = PadTwist()


@pytest.fixture
def pad():
    return PadState(0.5, 2.0)


def drain(pad, now):
    """Return all twists due at time ``now`` [s]."""
    sent = []
    while (twist := pad.step(now)) is not None and len(sent) < 20:
        sent.append(twist)
    return sent


def test_says_nothing_until_touched(pad):
    assert not pad.active
    assert pad.step(0.0) is None


@pytest.mark.parametrize(
    ("direction", "twist"),
    [
        (Direction.FORWARD, PadTwist(0.5, 0, 0)),
        (Direction.BACK, PadTwist(-0.5, 0, 0)),
        (Direction.TURN_LEFT, PadTwist(0, 0, 2.0)),
        (Direction.TURN_RIGHT, PadTwist(0, 0, -2.0)),
        (Direction.SLIDE_LEFT, PadTwist(0, 0.5, 0)),
        (Direction.SLIDE_RIGHT, PadTwist(0, -0.5, 0)),
        (Direction.ARC_LEFT, PadTwist(0.5, 0, 2.0)),
        (Direction.ARC_RIGHT, PadTwist(0.5, 0, -2.0)),
    ],
)
def test_directions(pad, direction, twist):
    pad.hold(direction, client=1, now=0.0)
    assert pad.step(0.0) == twist


def test_silence_of_the_page_ends_a_held_drive(pad):
    pad.hold(Direction.FORWARD, 1, 10.0)
    assert pad.step(10.0 + HOLD_TIMEOUT).vx == 0.5
    assert drain(pad, 10.01 + HOLD_TIMEOUT) == [REST] * STOP_REPEATS
    assert not pad.active


def test_a_held_drive_goes_on_as_long_as_the_page_repeats_it(pad):
    for now in np.arange(0.0, 5.0, 0.1):
        pad.hold(Direction.BACK, 1, now)
        assert pad.step(now + 0.05) == PadTwist(-0.5, 0, 0)


def test_release_ends_a_held_drive_at_once(pad):
    pad.hold(Direction.FORWARD, 1, 0.0)
    pad.release()
    assert drain(pad, 0.01) == [REST] * STOP_REPEATS


def test_latched_drive_goes_on_until_stopped(pad):
    pad.latch(Direction.FORWARD, 1, 0.0)
    pad.release()
    assert pad.step(1e4) == PadTwist(0.5, 0, 0)
    pad.stop()
    assert drain(pad, 1e4) == [REST] * STOP_REPEATS


def test_stop_at_rest_still_sends_zeros(pad):
    pad.stop()
    assert pad.active
    assert drain(pad, 0.0) == [REST] * STOP_REPEATS


@pytest.mark.parametrize("start", ["hold", "latch"])
def test_a_page_that_goes_ends_its_own_drive_only(pad, start):
    getattr(pad, start)(Direction.FORWARD, 7, 0.0)
    pad.client_left(8)
    assert pad.direction is Direction.FORWARD
    pad.client_left(7)
    assert drain(pad, 0.0) == [REST] * STOP_REPEATS


def test_speeds_act_on_a_drive_under_way(pad):
    pad.latch(Direction.ARC_LEFT, 1, 0.0)
    pad.set_speeds(0.1, 0.3)
    assert pad.step(0.0) == PadTwist(0.1, 0.0, 0.3)


@pytest.mark.parametrize("speeds", [(np.nan, 1.0), (1.0, np.inf), (-0.1, 1.0)])
def test_bad_speeds_change_nothing(pad, speeds):
    with pytest.raises(InvalidCommand, check=about("speeds")):
        pad.set_speeds(*speeds)
    pad.hold(Direction.ARC_LEFT, 1, 0.0)
    assert pad.step(0.0) == PadTwist(0.5, 0.0, 2.0)


def test_a_car_goes_to_the_side_of_its_button_in_reverse_too(pad):
    """The curvature wz / vx has the sign of the steering angle: positive to the left."""
    for left, right in (
        (Direction.ARC_LEFT, Direction.ARC_RIGHT),
        (Direction.BACK_LEFT, Direction.BACK_RIGHT),
    ):
        pad.hold(left, 1, 0.0)
        twist = pad.step(0.0)
        assert twist.wz / twist.vx > 0.0
        pad.hold(right, 1, 0.0)
        twist = pad.step(0.0)
        assert twist.wz / twist.vx < 0.0


def test_points_are_thinned_by_distance():
    trail = TrailPoints()
    for x in np.arange(0.0, 1.0, 0.001):
        trail.add(np.array([x, 0.0, 0.0]))
    lengths = np.linalg.norm(np.diff(trail.segments(), axis=1), axis=2)
    assert len(trail) <= 1.0 / SPACING + 1
    assert (lengths >= SPACING - 1e-9).all()
    assert (lengths < SPACING + 0.0011).all()


def test_a_base_that_stands_or_trembles_adds_nothing():
    trail = TrailPoints()
    rng = np.random.default_rng(1)
    changes = [trail.add(rng.normal(0.0, SPACING / 20, 3)) for _ in range(500)]
    assert sum(changes) == 1


def test_number_is_bounded_and_the_newest_stay():
    trail = TrailPoints()
    for step in range(5 * MAX_POINTS):
        trail.add(np.array([0.0, step * 2 * SPACING, 0.0]))
    assert len(trail) == MAX_POINTS
    assert trail.segments()[-1, 1, 1] == (5 * MAX_POINTS - 1) * 2 * SPACING
    assert trail.segments().shape == (MAX_POINTS - 1, 2, 3)


def test_a_jump_starts_the_line_anew():
    trail = TrailPoints()
    for x in np.arange(0.0, 1.0, 0.05):
        trail.add(np.array([x, 0.0, 0.0]))
    trail.add(np.array([1.0 + 2 * JUMP, 0.0, 0.0]))
    assert len(trail.segments()) == 0


def test_trail_appears_in_the_scene_and_can_be_cleared(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True))
    scene = viewer._server.scene
    for x in np.arange(0.0, 0.5, 0.05):
        viewer.robot("rover").update_base(pose((x, 0.0, 0.0)))
    viewer.flush()
    assert scene.get_handle_by_name("/trails/rover").points.shape == (9, 2, 3)
    viewer._robots["rover"].request_clear_trail()
    viewer.flush()
    assert scene.get_handle_by_name("/trails/rover") is None
    viewer.robot("rover").update_base(pose((0.6, 0.0, 0.0)))
    viewer.robot("rover").update_base(pose((0.7, 0.0, 0.0)))
    viewer.flush()
    assert len(scene.get_handle_by_name("/trails/rover").points) == 1


def test_a_robot_with_a_policy_has_a_drive_pad_only():
    plain = ViewedRobot.of(load_robot("go2"), "dog", followers=("ik",), edits_scene=True)
    assert not plain.drive
    assert plain.sliders
    walking = plain.driven_by_policy()
    assert walking.drive
    assert walking.name == "dog"
    for part in ("sliders", "named_states", "followers", "tool", "gripper"):
        assert not getattr(walking, part)
