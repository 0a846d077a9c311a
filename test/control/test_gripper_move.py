# SPDX-License-Identifier: Apache-2.0
"""Gripper motions: goal reached, stalled, timed out, refused."""

import pytest
from raised_errors import about

from motion_nodes.core.control.gripper import GripperConfig, GripperMove, GripStatus
from motion_nodes.errors import InvalidCommand, InvalidConfig

CONFIG = GripperConfig(lower=0.0, upper=0.04)


def close(goal, stop_at, speed=0.05, dt=0.01, seconds=20.0):
    move, position, elapsed = GripperMove(goal, CONFIG), 0.04, 0.0
    while elapsed < seconds:
        free = position > stop_at
        position = max(position - speed * dt, stop_at)
        elapsed += dt
        status = move.evaluate(position, -speed if free else 0.0, dt)
        if status is not GripStatus.MOVING:
            return status, elapsed
    return move.status, elapsed


def test_an_empty_hand_reaches_its_goal():
    status, _ = close(0.01, 0.0)
    assert status is GripStatus.REACHED


def test_an_object_stalls_it_after_the_stall_time():
    status, elapsed = close(0.0, 0.02)
    assert status is GripStatus.STALLED
    assert elapsed == pytest.approx(0.4 + CONFIG.stall_timeout, abs=0.03)


def test_fingers_that_wait_for_their_reference_do_not_stall():
    """An object is released: the reference returns from 0 through the surface at 0.02."""
    move, reference = GripperMove(0.04, CONFIG), 0.0
    for _ in range(400):
        reference = min(reference + 0.05 * 0.004, 0.04)
        status = move.evaluate(
            max(reference, 0.02), 0.05 * (reference > 0.02), 0.004, reference=reference
        )
    assert status is GripStatus.REACHED


def test_fingers_that_pause_at_each_measurement_do_not_stall():
    """A drive whose references are late stops after each of them."""
    move, position = GripperMove(0.01, CONFIG), 0.04
    while (status := move.evaluate(position, 0.0, 0.05)) is GripStatus.MOVING:
        position -= 0.0012
    assert status is GripStatus.REACHED


@pytest.mark.parametrize("reference", [0.03, 0.0199])
def test_fingers_blocked_at_or_before_their_reference_stall(reference):
    """A guard may hold the reference where the fingers are."""
    move = GripperMove(0.04, CONFIG)
    for _ in range(100):
        status = move.evaluate(0.02, 0.0, 0.004, reference=reference)
    assert status is GripStatus.STALLED


def test_creeping_for_ever_times_out():
    move = GripperMove(0.0, CONFIG)
    for _ in range(1100):
        status = move.evaluate(0.03, 0.01, 0.01)
    assert status is GripStatus.TIMED_OUT
    assert move.evaluate(0.0, 0.0, 0.01) is GripStatus.TIMED_OUT


@pytest.mark.parametrize(("goal", "text"), [(0.2, "position"), (float("nan"), "position")])
def test_bad_goals_are_refused(goal, text):
    with pytest.raises(InvalidCommand, check=about(text)):
        GripperMove(goal, CONFIG)


def test_goals_at_the_edge_are_brought_inside():
    assert GripperMove(0.0415, CONFIG).goal == 0.04


@pytest.mark.parametrize(
    "settings", [{"upper": -1.0}, {"stall_timeout": 0.0}, {"goal_tolerance": float("nan")}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidConfig):
        GripperConfig(**({"lower": 0.0, "upper": 0.04} | settings))
