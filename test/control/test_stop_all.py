# SPDX-License-Identifier: Apache-2.0
"""The stop of all joints: within limits; goals are aborted, streams have to restart."""

from __future__ import annotations

import numpy as np
import pytest
from control.test_arbitration import (
    DT,
    GOAL,
    JOINTS,
    Cell,
    Grip,
    PositionStream,
    Trajectory,
    limits,
)

from motion_nodes.core.control.joint_command import STREAM_PAUSE
from motion_nodes.core.control.trajectory_follower import FollowStatus

WHY = "stopped by /stop"


def speed(cell: Cell) -> np.ndarray:
    return cell.controller.reference(np.arange(3)).velocity


@pytest.mark.parametrize("kind", [Trajectory, PositionStream, Grip])
def test_joints_come_to_rest_within_their_limits_and_stay(kind):
    cell = Cell()
    given = kind(cell, 2.0 if kind is PositionStream else GOAL)
    given.begin()
    cell.run(0.3)
    assert abs(speed(cell)[0]) > 0.1
    cell.streaming.clear()
    cell.runner.stop_all(WHY)
    speeds = [speed(cell)]
    while cell.controller.moving:
        cell.run(DT)
        speeds.append(speed(cell))
        assert len(speeds) < 200
    most = np.abs(np.diff(speeds, axis=0)).max() / DT
    assert most <= limits().acceleration.max() * 1.001
    rested = cell.position
    cell.run(1.0)
    np.testing.assert_allclose(cell.position, rested, atol=1e-6)


def test_goals_are_aborted_with_the_reason():
    cell = Cell()
    trajectory, grip = Trajectory(cell, GOAL), Grip(cell, GOAL, ("c",))
    trajectory.begin()
    grip.begin()
    cell.run(0.1)
    cell.runner.stop_all(WHY)
    assert trajectory.run.follower.status is FollowStatus.ABORTED
    assert trajectory.run.follower.text == WHY
    assert not cell.runner.claims
    assert cell.runner.holders == (WHY,) * len(JOINTS)


def test_a_stream_from_before_counts_again_only_after_a_pause():
    cell = Cell()
    stream = PositionStream(cell, 0.9)
    stream.begin()
    cell.run(0.2)
    cell.runner.stop_all(WHY)
    cell.run(0.5)
    rested = cell.position
    stream.dropped = 0
    cell.run(0.5)
    assert stream.dropped > 10
    np.testing.assert_allclose(cell.position, rested, atol=1e-6)
    cell.streaming.clear()
    cell.run(STREAM_PAUSE + 2 * DT)
    stream.dropped = 0
    stream.go_on()
    assert stream.dropped == 0


def test_what_is_gripped_stays_gripped():
    cell = Cell()
    command = Grip(cell, GOAL).command(GOAL)
    cell.runner.claim(command, "a grip", max_effort=12.0)
    cell.run(2.0)
    cell.runner.effort_bounds[1] = 5.0
    cell.runner.stop_all(WHY)
    assert cell.runner.effort_bounds[0] == 12.0
    assert np.isinf(cell.runner.effort_bounds[1])
    # An object is between the fingers: their reference continues to push.
    held = cell.position - [0.2, 0.0, 0.0]
    for _ in range(200):
        cell.runner.step(DT, held, np.zeros(3))
    assert cell.position[0] == pytest.approx(GOAL, abs=1e-6)
