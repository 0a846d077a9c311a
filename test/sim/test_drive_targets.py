# SPDX-License-Identifier: Apache-2.0
"""Merging of commands into targets: modes, NaN, atomic rejection, watchdog."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.extras.sim.drive_targets import DriveMode, DriveTargets, JointTargets

nan, inf = np.nan, np.inf


def accept(targets: DriveTargets, command: JointTargets, time: float) -> bool:
    """Validate and merge a command at a time [s]; return whether it contained any value."""
    channels = targets.check(command)
    given = ~np.isnan(channels).all(axis=0)
    if given.any():
        targets.merge(*channels)
        targets.renew(given, time)
    return bool(given.any())


def snapshot(targets: DriveTargets) -> bytes:
    """Return the bytes of the state of the targets."""
    arrays = (targets.position, targets.velocity, targets.effort, targets.mode, targets._stamp)
    return b"".join(array.tobytes() for array in arrays)


def test_before_any_command_position_drives_hold_home_and_wheels_zero_speed(
    franka: Robot, rover: Robot
) -> None:
    arm = DriveTargets("arm", franka)
    np.testing.assert_array_equal(arm.position, franka.home)
    assert set(arm.mode) == {DriveMode.POSITION}
    wheels = DriveTargets("rover", rover)
    np.testing.assert_array_equal(wheels.velocity, 0.0)
    assert np.isnan(wheels.position).all()
    np.testing.assert_array_equal(wheels.gains(), [[0.0, 0.0], [0.05, 0.05]])


def test_channels_choose_the_mode_and_its_gains(spinner: Robot) -> None:
    targets = DriveTargets("s", spinner)
    for command, mode, gains, feed in (
        (JointTargets([0.5]), DriveMode.POSITION, (40.0, 4.0), 20.0),
        (JointTargets([0.5], [0.25], [1.5]), DriveMode.POSITION, (40.0, 4.0), 22.5),
        (JointTargets(None, [2.0]), DriveMode.VELOCITY, (0.0, 4.0), 8.0),
        (JointTargets(None, [2.0], [0.5]), DriveMode.VELOCITY, (0.0, 4.0), 8.5),
        (JointTargets([nan], [nan], [1.25]), DriveMode.EFFORT, (0.0, 0.0), 1.25),
    ):
        assert accept(targets, command, 0.0)
        assert targets.mode[0] == mode
        assert [g[0] for g in targets.gains()] == list(gains)
        assert targets.feed()[0] == feed


def test_a_joint_that_changes_mode_drops_the_targets_of_its_old_mode(spinner: Robot) -> None:
    targets = DriveTargets("s", spinner)
    accept(targets, JointTargets([0.5], [0.25], [1.5]), 0.0)
    accept(targets, JointTargets(None, [2.0]), 0.0)
    assert np.isnan(targets.position[0])
    assert targets.effort[0] == 0.0
    accept(targets, JointTargets([0.125]), 0.0)
    assert (targets.velocity[0], targets.effort[0]) == (0.0, 0.0)
    accept(targets, JointTargets(None, None, [1.0]), 0.0)
    assert np.isnan(targets.position[0])
    assert np.isnan(targets.velocity[0])


def test_a_joint_that_keeps_its_mode_keeps_the_channels_not_given(spinner: Robot) -> None:
    targets = DriveTargets("s", spinner)
    accept(targets, JointTargets([0.5], [0.25], [1.5]), 0.0)
    accept(targets, JointTargets([0.75]), 0.0)
    assert (targets.position[0], targets.velocity[0], targets.effort[0]) == (0.75, 0.25, 1.5)


def test_joints_change_mode_independently(franka: Robot) -> None:
    targets = DriveTargets("arm", franka)
    n = len(targets.joint_names)
    velocity = np.full(n, nan)
    velocity[2] = 0.3
    accept(targets, JointTargets(velocity=velocity), 0.0)
    expected = np.zeros(n)
    expected[2] = DriveMode.VELOCITY
    np.testing.assert_array_equal(targets.mode, expected)
    kp, kd = targets.gains()
    others = np.arange(n) != 2
    np.testing.assert_array_equal(
        kp[others], [d.stiffness for d in franka.drives if d.joint != franka.joint_names[2]]
    )
    assert kp[2] == 0.0
    assert kd[2] == franka.drives[2].damping


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_nan_keeps_the_previous_target_to_the_bit(seed: int) -> None:
    robot = load_robot("franka")
    rng = np.random.default_rng(seed)
    targets = DriveTargets("arm", robot)
    n = len(robot.joint_names)
    span = robot.limits.upper - robot.limits.lower
    accept(
        targets, JointTargets(robot.limits.lower + rng.random(n) * span, 0.1 * rng.random(n)), 0.0
    )
    before = targets.position
    command = robot.limits.lower + rng.random(n) * span
    silent = rng.random(n) < 0.5
    command[silent] = nan
    accept(targets, JointTargets(command), 1.0)
    assert targets.position[silent].tobytes() == before[silent].tobytes()
    assert targets.position[~silent].tobytes() == command[~silent].tobytes()


def test_a_command_without_any_value_changes_nothing(franka: Robot) -> None:
    targets = DriveTargets("arm", franka)
    before = snapshot(targets)
    assert not accept(targets, JointTargets(np.full(len(franka.joint_names), nan)), 3.0)
    assert not accept(targets, JointTargets(), 3.0)
    assert snapshot(targets) == before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (JointTargets([0.1], [inf]), ("velocity", "inf", "'spin'", "-30 to 30")),
        (JointTargets([-inf]), ("position", "-inf", "'spin'")),
        (JointTargets([0.1], None, [-inf]), ("effort", "-inf", "'spin'", "-50 to 50")),
        (JointTargets([0.1], None, [1e9]), ("effort", "1e+09", "'spin'")),
        (JointTargets([4.0]), ("position", "'spin'", "4", "-2.5", "3.5")),
        (JointTargets([0.1, 0.2]), ("position", "(2,)", "(1,)", "spin")),
        (JointTargets([0.1], [[0.2]]), ("velocity", "(1, 1)")),
        (JointTargets(["fast"]), ("position", "numbers")),
        (JointTargets([0.1], 0.0), ("velocity", "()")),
    ],
)
def test_bad_commands_are_rejected_whole(
    make_spinner: object, command: JointTargets, words: tuple[str, ...]
) -> None:
    targets = DriveTargets("turret", make_spinner(kind="revolute"))  # type: ignore[operator]
    accept(targets, JointTargets([0.25], [0.5], [0.75]), 1.0)
    before = snapshot(targets)
    with pytest.raises(InvalidCommand) as caught:
        accept(targets, command, 2.0)
    for word in ("turret", *words):
        assert word in str(caught.value)
    assert snapshot(targets) == before


def test_one_bad_joint_rejects_the_good_ones_too(franka: Robot) -> None:
    targets = DriveTargets("arm", franka)
    before = snapshot(targets)
    velocity = np.zeros(len(franka.joint_names))
    velocity[-1] = inf
    with pytest.raises(InvalidCommand, check=about("panda_finger_joint2")):
        accept(targets, JointTargets(franka.home + 0.01, velocity), 1.0)
    assert snapshot(targets) == before


def test_a_drive_without_stiffness_refuses_positions(rover: Robot) -> None:
    targets = DriveTargets("rover", rover)
    before = snapshot(targets)
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets([nan, 1.0], [2.0, nan]), 0.0)
    assert snapshot(targets) == before


def test_a_drive_without_damping_refuses_speeds(make_spinner: object) -> None:
    targets = DriveTargets("s", make_spinner(damping=0.0))  # type: ignore[operator]
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets(None, [1.0]), 0.0)


def test_a_position_drive_described_without_stiffness_says_so(make_spinner: object) -> None:
    targets = DriveTargets("s", make_spinner(stiffness=0.0))  # type: ignore[operator]
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets([0.1]), 0.0)


def test_release_zeroes_speed_and_effort_but_not_position(rover: Robot, spinner: Robot) -> None:
    wheels = DriveTargets("rover", rover)
    accept(wheels, JointTargets(None, [3.0, 4.0], [0.1, 0.2]), 0.0)
    assert wheels.release(["left_wheel_joint"])
    np.testing.assert_array_equal(wheels.velocity, [0.0, 4.0])
    np.testing.assert_array_equal(wheels.effort, [0.0, 0.2])
    assert wheels.release()
    assert not wheels.release()
    np.testing.assert_array_equal(wheels.velocity, [0.0, 0.0])
    arm = DriveTargets("s", spinner)
    accept(arm, JointTargets([0.5], [0.25], [1.0]), 0.0)
    arm.release()
    assert (arm.position[0], arm.velocity[0], arm.effort[0]) == (0.5, 0.0, 0.0)
    assert arm.mode[0] == DriveMode.POSITION


def test_release_of_an_effort_drive_leaves_it_limp(spinner: Robot) -> None:
    arm = DriveTargets("s", spinner)
    accept(arm, JointTargets(None, None, [1.0]), 0.0)
    assert arm.release_stale(1.0, 0.5) == ("spin",)
    assert arm.mode[0] == DriveMode.EFFORT
    assert arm.feed()[0] == 0.0


def test_release_of_an_unknown_joint_releases_nothing(rover: Robot) -> None:
    wheels = DriveTargets("rover", rover)
    accept(wheels, JointTargets(None, [3.0, 4.0]), 0.0)
    before = snapshot(wheels)
    with pytest.raises(UnknownJoint, check=about("left_weel_joint")):
        wheels.release(["right_wheel_joint", "left_weel_joint"])
    assert snapshot(wheels) == before


def test_the_watchdog_releases_only_what_is_stale(rover: Robot) -> None:
    wheels = DriveTargets("rover", rover)
    accept(wheels, JointTargets(None, [3.0, 4.0]), 1.0)
    accept(wheels, JointTargets(None, [nan, 5.0]), 1.4)
    assert wheels.release_stale(1.5, 0.5) == ()
    assert wheels.release_stale(1.6, 0.5) == ("left_wheel_joint",)
    np.testing.assert_array_equal(wheels.velocity, [0.0, 5.0])
    assert wheels.release_stale(1.7, 0.5) == ()
    assert wheels.release_stale(2.0, 0.5) == ("right_wheel_joint",)


def test_reset_restores_targets_and_modes(rover: Robot) -> None:
    wheels = DriveTargets("rover", rover)
    before = snapshot(wheels)
    accept(wheels, JointTargets(None, None, [0.5, -0.5]), 1.0)
    wheels.reset()
    assert snapshot(wheels) == before
