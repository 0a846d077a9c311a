# SPDX-License-Identifier: Apache-2.0
"""Common behaviour of all backends, and details of the mock."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, InvalidDescription, UnknownJoint
from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement, UnknownRobot
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

MakeRobot = Callable[..., Robot]
nan = np.nan
both = pytest.mark.parametrize("backend", [MujocoWorld, MockWorld])


def cell(backend: type[RobotBackend], franka: Robot, rover: Robot) -> RobotBackend:
    """Return a cell of two robots."""
    X_WR = from_xyz_rpy((1.0, 0.5, 0.0), (0.0, 0.0, 0.6))
    return backend([RobotPlacement(franka, "arm"), RobotPlacement(rover, "base", X_WR)])


def everything(world: RobotBackend) -> list[np.ndarray]:
    """Return all state of a cell."""
    return [
        np.array([world.time]),
        *(array for name in world.names for array in world.state(name)),
        *(world.base_pose(name) for name in world.names),
        *(world.base_twist(name) for name in world.names),
    ]


@both
def test_a_new_cell_is_at_home(backend, franka, rover):
    world = cell(backend, franka, rover)
    assert world.time == 0.0
    assert world.names == ("arm", "base")
    assert world.joint_names("arm") == franka.joint_names
    np.testing.assert_array_equal(world.state("arm").position, franka.home)
    np.testing.assert_array_equal(world.state("arm").velocity, 0.0)
    np.testing.assert_allclose(
        world.base_pose("base"), from_xyz_rpy((1.0, 0.5, 0.03), (0.0, 0.0, 0.6)), atol=1e-9
    )
    np.testing.assert_array_equal(world.base_pose("arm"), np.eye(4))
    np.testing.assert_array_equal(world.base_twist("arm"), np.zeros(6))


@both
def test_what_is_handed_out_can_neither_be_written_nor_changes(backend, franka, rover):
    world = cell(backend, franka, rover)
    world.command("base", JointTargets(velocity=[5.0, 6.0]))
    world.step(10)
    handed = everything(world)[1:]
    kept = [array.copy() for array in handed]
    world.step(100)
    for array, copy in zip(handed, kept, strict=True):
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, copy)


@both
def test_reset_equals_a_new_cell(backend, franka, rover):
    world, fresh = cell(backend, franka, rover), cell(backend, franka, rover)
    world.command("arm", JointTargets(franka.limits.clip(franka.home + 0.2)))
    world.command("base", JointTargets(velocity=[5.0, nan], effort=[nan, 0.1]))
    world.step(100)
    world.reset()
    for _ in range(2):
        for a, b in zip(everything(world), everything(fresh), strict=True):
            np.testing.assert_array_equal(a, b)
        for w in (world, fresh):
            w.command("base", JointTargets(velocity=[3.0, 4.0]))
            w.step(50)


@both
def test_a_bad_command_moves_nothing(backend, franka, rover):
    world, quiet = cell(backend, franka, rover), cell(backend, franka, rover)
    with pytest.raises(InvalidCommand):
        world.command("base", JointTargets(velocity=[3.0, np.inf]))
    with pytest.raises(InvalidCommand):
        world.command("base", JointTargets(velocity=[3.0]))
    for w in (world, quiet):
        w.step(100)
    for a, b in zip(everything(world), everything(quiet), strict=True):
        np.testing.assert_array_equal(a, b)


@both
def test_unknown_robots_and_joints_are_named_with_what_there_is(backend, franka, rover):
    world = cell(backend, franka, rover)
    calls: list[Callable[[], object]] = [
        lambda: world.state("bse"),
        lambda: world.base_pose("bse"),
        lambda: world.base_twist("bse"),
        lambda: world.joint_names("bse"),
        lambda: world.command("bse", JointTargets()),
        lambda: world.release("bse"),
        lambda: world.release_stale("bse", 1.0),
    ]
    for call in calls:
        with pytest.raises(UnknownRobot):
            call()
    with pytest.raises(UnknownJoint, check=about("left_wheel")):
        world.release("base", ["left_wheel"])


@both
def test_no_steps_do_nothing(backend, franka, rover):
    world = cell(backend, franka, rover)
    world.command("base", JointTargets(velocity=[5.0, 6.0]))
    world.step(10)
    before = everything(world)
    world.step(0)
    world.step(-3)
    for a, b in zip(everything(world), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_mock_needs_no_physics_engine():
    code = "import sys, motion_nodes.extras.sim.backend; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@both
@pytest.mark.parametrize("seed", range(8))
def test_streams_at_rest_are_followed_like_any_others(backend, franka, rover, seed):
    """The shortcut for references at rest gives the same motion as sampling every step."""
    rng = np.random.default_rng(seed)
    short, long = cell(backend, franka, rover), cell(backend, franka, rover)
    n, wheels = len(franka.joint_names), len(rover.joint_names)
    arm, base = JointTargets(franka.home), JointTargets(velocity=np.zeros(wheels))
    for _ in range(60):
        if rng.random() < 0.15:
            arm = JointTargets(franka.home + rng.uniform(-0.02, 0.02, n), np.zeros(n))
        if rng.random() < 0.1:
            base = JointTargets(velocity=np.full(wheels, rng.choice((0.0, 1.0))))
        sent, count = rng.random(2) < (0.95, 0.8), int(rng.integers(0, 5))
        for world in (short, long):
            now_ns = round(world.time * 1e9)
            for name, targets, given_now in zip(world.names, (arm, base), sent, strict=True):
                if given_now:
                    world.stream(name, targets, now_ns)
            if world is long:
                world._settled = False
            world.advance(count, now_ns)
            world.release_stale("base", 0.05)
        for a, b in zip(everything(short), everything(long), strict=True):
            np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-9)


@both
def test_release_stops_a_base(backend, franka, rover):
    world = cell(backend, franka, rover)
    world.command("base", JointTargets(velocity=[8.0, 8.0]))
    world.step(200)
    assert world.base_twist("base")[0] > 0.2
    world.release("base")
    world.step(500)
    np.testing.assert_allclose(world.base_twist("base"), 0.0, atol=1e-3)


@both
def test_cells_that_make_no_sense_are_refused(backend, rover):
    with pytest.raises(InvalidConfig):
        backend([])
    with pytest.raises(InvalidConfig, check=about("twin")):
        backend([RobotPlacement(rover, "twin"), RobotPlacement(rover, "twin")])


def test_placements_that_make_no_sense_are_refused(rover):
    for name in ("", "a/b", "1st", "a b"):
        with pytest.raises(InvalidConfig, check=about(name)):
            RobotPlacement(rover, name)
    flipped = np.diag([1.0, 1.0, -1.0, 1.0])
    for X in (np.eye(3), np.full((4, 4), nan), 2.0 * np.eye(4), flipped):
        with pytest.raises(InvalidConfig, match="'r'"):
            RobotPlacement(rover, "r", X)


@both
def test_a_base_frame_on_a_moving_link_is_refused(backend, make_spinner):
    robot = make_spinner()
    file = robot.directory / "robot.yaml"
    file.write_text(file.read_text().replace("base: stand", "base: rotor"))
    with pytest.raises(InvalidDescription):
        backend([RobotPlacement(load_robot(robot.directory), "r")])


def test_the_mock_reaches_a_position_at_the_speed_limit(make_spinner):
    world = MockWorld([RobotPlacement(make_spinner(velocity=3.0), "r")], time_step=0.01)
    world.command("r", JointTargets([0.3]))
    world.step(5)
    np.testing.assert_allclose(world.state("r").position, 0.15)
    np.testing.assert_allclose(world.state("r").velocity, 3.0)
    world.step(6)
    np.testing.assert_allclose(world.state("r").position, 0.3)
    np.testing.assert_allclose(world.state("r").velocity, 0.0, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_mock_moves_along_with_a_target_that_has_a_speed(make_spinner, count):
    world = MockWorld([RobotPlacement(make_spinner(velocity=3.0), "r")], time_step=0.002)
    for i in range(1, 6):
        world.command("r", JointTargets([0.004 * i], [0.5]))
        world.step(count)
        np.testing.assert_allclose(world.state("r").position, 0.004 * i)
        np.testing.assert_allclose(world.state("r").velocity, 0.5)
    world.command("r", JointTargets([0.02], [0.0]))
    world.step(count)
    np.testing.assert_array_equal(world.state("r").velocity, 0.0)


def test_the_mock_takes_on_speeds_and_stops_at_limits(make_spinner):
    world = MockWorld([RobotPlacement(make_spinner(kind="revolute"), "r")], time_step=0.01)
    world.command("r", JointTargets(velocity=[2.5]))
    world.step(40)
    np.testing.assert_allclose(world.state("r").position, 1.0)
    np.testing.assert_allclose(world.state("r").velocity, 2.5)
    world.step(60)
    np.testing.assert_array_equal(world.state("r").position, 2.0)
    np.testing.assert_array_equal(world.state("r").velocity, 0.0)
    world.command("r", JointTargets(velocity=[-20.0]))
    world.step()
    np.testing.assert_allclose(world.state("r").velocity, -3.0)


def test_the_mock_reports_efforts_saturated_and_moves_nothing(make_spinner):
    world = MockWorld([RobotPlacement(make_spinner(effort=5.0), "r")])
    world.command("r", JointTargets(effort=[20.0]))
    world.step(100)
    np.testing.assert_array_equal(world.state("r").effort, 5.0)
    np.testing.assert_array_equal(world.state("r").position, 0.0)


@given(left=st.floats(-15.0, 15.0), right=st.floats(-15.0, 15.0), count=st.integers(1, 200))
@settings(max_examples=40, deadline=None)
def test_the_mock_base_runs_on_an_arc(left, right, count):
    robot = load_robot("jetbot")
    spec = robot.base
    assert spec is not None
    world = MockWorld([RobotPlacement(robot, "r", from_xyz_rpy((1, 2, 0), (0, 0, 0.5)))])
    speeds = {"left_wheel_joint": left, "right_wheel_joint": right}
    world.command("r", JointTargets(velocity=[speeds[name] for name in robot.joint_names]))
    world.step(count)
    vx = spec.wheel_radius * (right + left) / 2
    wz = spec.wheel_radius * (right - left) / spec.wheel_separation
    # Oracle: a fine numerical integral instead of the arc formula.
    t = (np.arange(4000) + 0.5) * world.time / 4000
    end = np.array([1.0, 2.0]) + vx * world.time * np.array(
        [np.cos(0.5 + wz * t).mean(), np.sin(0.5 + wz * t).mean()]
    )
    X = world.base_pose("r")
    np.testing.assert_allclose(X[:2, 3], end, atol=1e-6)
    yaw = 0.5 + wz * world.time
    np.testing.assert_allclose(X[:2, 0], [np.cos(yaw), np.sin(yaw)], atol=1e-9)
    np.testing.assert_allclose(world.base_twist("r"), [vx, 0, 0, 0, 0, wz], atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_mock_steps_at_once_equal_single_steps(franka, rover, count):
    at_once, singly = cell(MockWorld, franka, rover), cell(MockWorld, franka, rover)
    for world in (at_once, singly):
        world.command("arm", JointTargets(franka.home - 0.05))
        world.command("base", JointTargets(velocity=[2.0, 3.0]))
    at_once.step(count)
    for _ in range(count):
        singly.step()
    for a, b in zip(everything(at_once), everything(singly), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("bad", [0.0, -0.1, nan, np.inf])
def test_the_mock_refuses_bad_steps(rover, bad):
    with pytest.raises(InvalidConfig, check=about("time_step")):
        MockWorld([RobotPlacement(rover, "r")], time_step=bad)
