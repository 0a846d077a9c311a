# SPDX-License-Identifier: Apache-2.0
"""The dead man's switch of a drive pad."""

from __future__ import annotations

import numpy as np
import pytest
from raised_errors import about

from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.drive_panel import (
    HOLD_TIMEOUT,
    STOP_REPEATS,
    Direction,
    PadState,
    PadTwist,
)

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
