# SPDX-License-Identifier: Apache-2.0
"""Actions of policies: limits of sent commands, and a checked path that covers the stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.control.action_filter import ActionFilter
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.errors import InvalidCommand, InvalidConfig

ROBOT = load_robot("xarm6")
LIMITS = ROBOT.limits
RATE, STEP = 30.0, 0.04
CYCLES = 8
"""Of the controller for each action."""


def started() -> ActionFilter:
    made = ActionFilter(LIMITS, RATE, check_step=STEP)
    made.start(ROBOT.named_state("ready"))
    return made


@given(st.lists(st.floats(-7.0, 7.0), min_size=6, max_size=6), st.floats(0.0, 10.0))
def test_actions_keep_position_and_velocity_limits(values: list[float], elapsed: float) -> None:
    made = started()
    before = ROBOT.named_state("ready")
    sent = made.propose(values, elapsed)
    assert LIMITS.within(sent.position, 1e-9)
    assert (np.abs(sent.velocity) <= LIMITS.velocity * (1.0 + 1e-9)).all()
    corners = np.vstack([before, sent.way])
    assert np.abs(np.diff(corners, axis=0)).max(initial=0.0) <= STEP + 1e-9
    # The path passes through the action, or begins at it.
    assert np.abs(corners - sent.position).max(axis=1).min() < 1e-9
    if np.abs(np.array(values) - sent.position).max() > 1e-3:
        assert sent.changes


@pytest.mark.parametrize("speed", [0.3, 1.0, 2.5])
def test_an_arm_comes_to_rest_within_the_checked_way(speed: float) -> None:
    """The controller's limiter follows the actions, until the last one is held."""
    made, limiter = started(), OnlineLimiter(LIMITS)
    position = ROBOT.named_state("ready").copy()
    limiter.reset(position)
    by_velocity = np.zeros(6, dtype=np.bool_)
    furthest, checked = -np.inf, -np.inf
    for k in range(60):
        wanted = position.copy()
        wanted[0] = speed * min(k, 30) / RATE
        sent = made.propose(wanted, 1.0 / RATE) if k <= 30 else made.hold()
        made.accept(sent)
        if len(sent.way):
            checked = max(checked, float(sent.way[:, 0].max()))
        for _ in range(CYCLES):
            limiter.step(by_velocity, sent.position, sent.velocity, 1.0 / (RATE * CYCLES))
            furthest = max(furthest, float(limiter.position[0]))
    assert limiter.velocity == pytest.approx(np.zeros(6), abs=1e-6)
    assert speed - 0.01 < furthest <= checked + 1e-3


def test_all_joints_are_slowed_down_alike() -> None:
    made, before = started(), ROBOT.named_state("ready")
    change = np.array([1.0, 0.5, 0.0, -0.25, 0.1, 0.0])
    sent = made.propose(before + change, 0.0)
    moved = sent.position - before
    assert moved / moved[0] == pytest.approx(change)
    assert "velocity limit" in sent.changes[0]


def test_what_it_does_not_accept() -> None:
    with pytest.raises(InvalidCommand):
        ActionFilter(LIMITS, RATE).propose(np.zeros(6), 0.0)
    made = started()
    for values in ([np.nan] * 6, [0.0] * 5, [[0.0] * 6]):
        with pytest.raises(InvalidCommand, check=about("an action")):
            made.propose(values, 0.0)
    for settings in ({"rate": 0.0}, {"rate": np.nan}, {"rate": 30.0, "speed": 1.5}):
        with pytest.raises(InvalidConfig):
            ActionFilter(LIMITS, **settings)


@pytest.mark.parametrize("unlimited", [("acceleration",), ("jerk",), ("acceleration", "jerk")])
def test_robots_without_limits_of_acceleration_or_jerk(unlimited: tuple[str, ...]) -> None:
    limits = replace(LIMITS, **dict.fromkeys(unlimited, np.full(6, np.inf)))
    made = ActionFilter(limits, RATE, check_step=STEP)
    made.start(ROBOT.named_state("ready"))
    wanted = ROBOT.named_state("ready").copy()
    wanted[0] += 0.05
    sent = made.propose(wanted, 1.0 / RATE)
    assert np.isfinite(sent.way).all()
    # One period passes until a hold is sent.
    assert sent.way[-1, 0] >= wanted[0] + sent.velocity[0] / RATE - 1e-9
