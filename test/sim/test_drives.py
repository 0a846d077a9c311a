# SPDX-License-Identifier: Apache-2.0
"""Drives in simulation: gains, commands merged into targets, passive joints, the UR10e."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.extras.sim.backend import MockWorld, RobotPlacement
from motion_nodes.extras.sim.drive_targets import DriveMode, DriveTargets, JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

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


def test_before_any_command_position_drives_hold_home_and_wheels_zero_speed(franka, rover):
    arm = DriveTargets("arm", franka)
    np.testing.assert_array_equal(arm.position, franka.home)
    assert set(arm.mode) == {DriveMode.POSITION}
    wheels = DriveTargets("rover", rover)
    np.testing.assert_array_equal(wheels.velocity, 0.0)
    assert np.isnan(wheels.position).all()
    np.testing.assert_array_equal(wheels.gains(), [[0.0, 0.0], [0.05, 0.05]])


def test_channels_choose_the_mode_and_its_gains(spinner):
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


def test_a_joint_that_changes_mode_drops_the_targets_of_its_old_mode(spinner):
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


def test_a_joint_that_keeps_its_mode_keeps_the_channels_not_given(spinner):
    targets = DriveTargets("s", spinner)
    accept(targets, JointTargets([0.5], [0.25], [1.5]), 0.0)
    accept(targets, JointTargets([0.75]), 0.0)
    assert (targets.position[0], targets.velocity[0], targets.effort[0]) == (0.75, 0.25, 1.5)


def test_joints_change_mode_independently(franka):
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
def test_nan_keeps_the_previous_target_to_the_bit(seed):
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


def test_a_command_without_any_value_changes_nothing(franka):
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
def test_bad_commands_are_rejected_whole(make_spinner, command, words):
    targets = DriveTargets("turret", make_spinner(kind="revolute"))  # type: ignore[operator]
    accept(targets, JointTargets([0.25], [0.5], [0.75]), 1.0)
    before = snapshot(targets)
    with pytest.raises(InvalidCommand) as caught:
        accept(targets, command, 2.0)
    for word in ("turret", *words):
        assert word in str(caught.value)
    assert snapshot(targets) == before


def test_one_bad_joint_rejects_the_good_ones_too(franka):
    targets = DriveTargets("arm", franka)
    before = snapshot(targets)
    velocity = np.zeros(len(franka.joint_names))
    velocity[-1] = inf
    with pytest.raises(InvalidCommand, check=about("panda_finger_joint2")):
        accept(targets, JointTargets(franka.home + 0.01, velocity), 1.0)
    assert snapshot(targets) == before


def test_a_drive_without_stiffness_refuses_positions(rover):
    targets = DriveTargets("rover", rover)
    before = snapshot(targets)
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets([nan, 1.0], [2.0, nan]), 0.0)
    assert snapshot(targets) == before


def test_a_drive_without_damping_refuses_speeds(make_spinner):
    targets = DriveTargets("s", make_spinner(damping=0.0))  # type: ignore[operator]
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets(None, [1.0]), 0.0)


def test_a_position_drive_described_without_stiffness_says_so(make_spinner):
    targets = DriveTargets("s", make_spinner(stiffness=0.0))  # type: ignore[operator]
    with pytest.raises(InvalidCommand):
        accept(targets, JointTargets([0.1]), 0.0)


def test_release_zeroes_speed_and_effort_but_not_position(rover, spinner):
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


def test_release_of_an_effort_drive_leaves_it_limp(spinner):
    arm = DriveTargets("s", spinner)
    accept(arm, JointTargets(None, None, [1.0]), 0.0)
    assert arm.release_stale(1.0, 0.5) == ("spin",)
    assert arm.mode[0] == DriveMode.EFFORT
    assert arm.feed()[0] == 0.0


def test_release_of_an_unknown_joint_releases_nothing(rover):
    wheels = DriveTargets("rover", rover)
    accept(wheels, JointTargets(None, [3.0, 4.0]), 0.0)
    before = snapshot(wheels)
    with pytest.raises(UnknownJoint, check=about("left_weel_joint")):
        wheels.release(["right_wheel_joint", "left_weel_joint"])
    assert snapshot(wheels) == before


def test_the_watchdog_releases_only_what_is_stale(rover):
    wheels = DriveTargets("rover", rover)
    accept(wheels, JointTargets(None, [3.0, 4.0]), 1.0)
    accept(wheels, JointTargets(None, [nan, 5.0]), 1.4)
    assert wheels.release_stale(1.5, 0.5) == ()
    assert wheels.release_stale(1.6, 0.5) == ("left_wheel_joint",)
    np.testing.assert_array_equal(wheels.velocity, [0.0, 5.0])
    assert wheels.release_stale(1.7, 0.5) == ()
    assert wheels.release_stale(2.0, 0.5) == ("right_wheel_joint",)


def test_reset_restores_targets_and_modes(rover):
    wheels = DriveTargets("rover", rover)
    before = snapshot(wheels)
    accept(wheels, JointTargets(None, None, [0.5, -0.5]), 1.0)
    wheels.reset()
    assert snapshot(wheels) == before


NAN = np.full(12, np.nan)


@pytest.fixture(scope="module")
def one_world():
    return MujocoWorld([RobotPlacement(load_robot("go2"), "go2", np.eye(4))])


@pytest.fixture
def world(one_world):
    one_world.reset()
    return one_world


def test_gains_follow_the_drive_law_and_return_at_a_reset(world):
    targets = world.targets("go2")
    described = targets.gains()
    world.set_gains("go2", np.full(12, 20.0), NAN)
    np.testing.assert_array_equal(targets.gains()[0], 20.0)
    np.testing.assert_array_equal(targets.gains()[1], described[1])
    target = world.state("go2").position + 0.05
    world.command("go2", JointTargets(target, np.zeros(12)))
    world.step(2)
    before = world.state("go2")
    world.step()
    between = 0.5 * (before.position + world.state("go2").position)
    speed = 0.5 * (before.velocity + world.state("go2").velocity)
    expected = 20.0 * (target - between) - described[1] * speed
    np.testing.assert_allclose(world.state("go2").effort, expected, atol=0.6)
    world.set_gains("go2", NAN, NAN)
    np.testing.assert_array_equal(targets.gains(), described)
    world.set_gains("go2", np.zeros(12), np.zeros(12))
    world.reset()
    np.testing.assert_array_equal(targets.gains(), described)


@pytest.mark.parametrize(
    "bad", [np.full(12, -1.0), np.full(12, 1e9), np.ones(3), np.full(12, np.inf)]
)
def test_bad_gains_are_rejected_whole(world, bad):
    before = world.targets("go2").gains()
    for pair in ((bad, NAN), (NAN, bad)):
        with pytest.raises(InvalidCommand):
            world.set_gains("go2", *pair)
    np.testing.assert_array_equal(world.targets("go2").gains(), before)


def test_accelerometer_at_rest_and_in_free_fall(world):
    robot = load_robot("go2")
    X_WR = from_xyz_rpy((0.0, 0.0, 5.0), (0.3, 0.2, 0.1))
    falling = MujocoWorld([RobotPlacement(robot, "go2", X_WR)], WorldConfig(floor_height=-50.0))
    falling.set_gains("go2", np.zeros(12), np.zeros(12))
    falling.step(20)
    np.testing.assert_allclose(falling.base_acceleration("go2"), 0.0, atol=0.3)
    world.step(500)
    np.testing.assert_allclose(world.base_acceleration("go2"), [0, 0, 9.81], atol=0.1)
    mock = MockWorld([RobotPlacement(robot, "go2", X_WR)])
    np.testing.assert_allclose(
        mock.base_acceleration("go2"), X_WR[:3, :3].T @ [0.0, 0.0, 9.80665], atol=0.01
    )


def test_accelerometer_is_the_derivative_of_the_velocity(world):
    world.set_gains("go2", np.full(12, 40.0), np.full(12, 1.0))
    world.command("go2", JointTargets(world.state("go2").position + 0.1, np.zeros(12)))
    world.step()
    checked = 0
    for _ in range(40):
        R0 = world.base_pose("go2")[:3, :3]
        v0 = R0 @ world.base_twist("go2")[:3]
        world.step()
        R1 = world.base_pose("go2")[:3, :3]
        v1 = R1 @ world.base_twist("go2")[:3]
        # Within a step the orientation changes by the angular velocity times its duration.
        measured = R1 @ world.base_acceleration("go2") - [0.0, 0.0, 9.80665]
        np.testing.assert_allclose(measured * world.time_step, v1 - v0, atol=2e-4)
        checked += np.abs(v1 - v0).max() > 1e-3
    assert checked > 5


def test_streams_to_drives_with_set_gains_act_at_once(world):
    target = world.state("go2").position + 0.1

    def sent(stamp_ns):
        world.stream("go2", JointTargets(target), stamp_ns)
        return np.array_equal(world.targets("go2").position, target)

    # A stream is delayed by the latency, unless the gains of drives are set.
    assert not sent(5_000_000)
    world.set_gains("go2", np.full(12, 20.0), NAN)
    assert sent(10_000_000)
    assert sent(15_000_000)
    assert world.covered_ns() == 15_000_000 + 8_000_000
    world.set_gains("go2", NAN, NAN)
    target = target + 0.01
    assert not sent(20_000_000)


@pytest.fixture(scope="module")
def ur10e():
    return load_robot("ur10e")


def test_every_named_state_is_held(ur10e):
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    for state in ur10e.state_names:
        q = ur10e.named_state(state)
        world.reset()
        world.command("r", JointTargets(q))
        world.step(2000)
        sample = world.state("r")
        np.testing.assert_allclose(sample.position, q, atol=0.003, err_msg=state)
        assert np.abs(sample.velocity).max() < 1e-6
        assert len(world.data.contact) == 0


@pytest.mark.parametrize("size", [0.1, -0.5])
def test_a_bare_step_of_any_joint_does_not_overshoot(ur10e, size):
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    for joint in range(6):
        q = ur10e.named_state("ready").copy()
        world.reset()
        world.command("r", JointTargets(q))
        world.step(1500)
        start = world.state("r").position[joint]
        q[joint] += size
        world.command("r", JointTargets(q))
        path = []
        for _ in range(600):
            world.step()
            path.append(world.state("r").position[joint])
        progress = (np.array(path) - start) / size
        assert progress.max() < 1.03, joint
        assert np.diff(progress).min() > -0.002, joint
        np.testing.assert_allclose(progress[-1], 1.0, atol=0.01)


def test_a_smooth_stream_is_followed_far_from_the_torque_limits(ur10e):
    """Positions and velocities every 4 ms, as sent by the joint controller."""
    world = MujocoWorld([RobotPlacement(ur10e, "r")])
    start = ur10e.named_state("ready")
    goal = start + np.array((1.0, 0.5, -0.7, 0.8, -0.9, 1.5))
    duration = 2.0
    world.command("r", JointTargets(start))
    world.step(1500)
    held = world.state("r").position - start
    worst, effort = 0.0, 0.0
    steps = round(duration / 0.004)
    for k in range(1, steps + 1):
        s = k / steps
        q = start + (goal - start) * (10 * s**3 - 15 * s**4 + 6 * s**5)
        v = (goal - start) * (30 * s**2 - 60 * s**3 + 30 * s**4) / duration
        world.command("r", JointTargets(q, v))
        world.step(2)
        sample = world.state("r")
        worst = max(worst, np.abs(sample.position - q - held).max())
        effort = max(effort, (np.abs(sample.effort) / ur10e.limits.effort).max())
    assert worst < 0.01
    assert effort < 0.7


nan_of_in_worlds = np.nan


@pytest.fixture(scope="module")
def carter():
    return load_robot("nova_carter")


def command(robot: Robot, **values: float) -> np.ndarray:
    """Return an array over all joints with NaN where nothing is given."""
    array = np.full(len(robot.joint_names), nan_of_in_worlds)
    for name, value in values.items():
        array[robot.joint_names.index(name)] = value
    return array


@pytest.mark.parametrize("kind", [MujocoWorld, MockWorld])
@pytest.mark.parametrize("channel", ["position", "velocity", "effort"])
def test_a_command_to_a_passive_joint_is_refused_whole(carter, kind, channel):
    world = kind([RobotPlacement(carter, "r")])
    values = command(carter, joint_wheel_left=1.0, joint_swing_left=0.1)
    with pytest.raises(InvalidCommand):
        world.command("r", JointTargets(**{channel: values}))
    world.step(100)
    np.testing.assert_allclose(world.state("r").velocity[:2], 0.0, atol=1e-3)


def test_passive_joints_feel_no_effort_but_are_reported(carter):
    world = MujocoWorld([RobotPlacement(carter, "r")])
    speeds = command(carter, joint_wheel_left=3.0, joint_wheel_right=3.0)
    world.command("r", JointTargets(velocity=speeds))
    world.step(1000)
    sample = world.state("r")
    where = [carter.joint_names.index(name) for name in carter.passive_joints]
    np.testing.assert_array_equal(sample.effort[where], 0.0)
    rolling = {
        name: sample.velocity[i] for name, i in zip(carter.passive_joints, where, strict=True)
    }
    # 0.42 m/s on wheels of 0.0755 m.
    assert rolling["joint_caster_left"] == pytest.approx(0.42 / 0.0755, rel=0.02)
    assert rolling["joint_caster_right"] == pytest.approx(0.42 / 0.0755, rel=0.02)


@pytest.mark.parametrize("start", [2.8, -1.5])
def test_casters_turn_round_and_trail(carter, start):
    world = MujocoWorld([RobotPlacement(carter, "r")])
    for side in ("left", "right"):
        world.data.joint(f"r/joint_swing_{side}").qpos[0] = start
    speeds = command(carter, joint_wheel_left=4.0, joint_wheel_right=4.0)
    world.command("r", JointTargets(velocity=speeds))
    world.step(2500)
    for side in ("left", "right"):
        swing = world.state("r").position[carter.joint_names.index(f"joint_swing_{side}")]
        assert abs(np.arctan2(np.sin(swing), np.cos(swing))) < 0.05


def test_all_four_wheels_stand_on_the_floor(carter):
    world = MujocoWorld([RobotPlacement(carter, "r")])
    world.step(1000)
    touching = {
        world.model.body(int(world.model.geom_bodyid[geom])).name
        for contact in world.data.contact
        for geom in contact.geom
    } - {"world"}
    assert touching == {
        "r/wheel_left", "r/wheel_right", "r/caster_wheel_left", "r/caster_wheel_right",
    }  # fmt: skip
