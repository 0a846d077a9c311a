# SPDX-License-Identifier: Apache-2.0
"""Bases in simulation: rollers of omni and mecanum wheels, odometry on the floor."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from sim.lockstep_robot import NAME, WheeledRobot

from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits, Twist2
from motion_nodes.core.bases.controller import BaseControllerConfig
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import RollerDescription
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.sim.backend import MockWorld, RobotBackend, RobotPlacement
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import RollerRing, WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

_WHEEL = """
  <link name="{name}_wheel">
    <inertial><mass value="0.4"/>
      <inertia ixx="6e-4" iyy="1e-3" izz="6e-4" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin rpy="1.5707963267948966 0 0"/>
      <geometry><cylinder radius="0.05" length="0.04"/></geometry></collision>
  </link>
  <joint name="{name}" type="continuous">
    <origin xyz="{x} {y} 0.05"/><parent link="base_link"/><child link="{name}_wheel"/>
    <axis xyz="0 1 0"/><limit effort="5" velocity="60"/>
  </joint>
"""
_PLACES = {"fl": (0.2, 0.15, 45), "fr": (0.2, -0.15, 135), "rl": (-0.2, 0.15, 135),
           "rr": (-0.2, -0.15, 45)}  # fmt: skip


@pytest.fixture(scope="module")
def mecanum(tmp_path_factory):
    """Return a base on four mecanum wheels."""
    folder = Path(tmp_path_factory.mktemp("mecanum"))
    wheels = "".join(_WHEEL.format(name=n, x=x, y=y) for n, (x, y, _) in _PLACES.items())
    (folder / "mecanum.urdf").write_text(
        '<robot name="mecanum"><link name="base_link"><inertial><origin xyz="0 0 0.08"/>'
        '<mass value="6"/><inertia ixx="0.05" iyy="0.09" izz="0.12" ixy="0" ixz="0" iyz="0"/>'
        '</inertial><collision><origin xyz="0 0 0.1"/><geometry><box size="0.4 0.2 0.06"/>'
        f"</geometry></collision></link>{wheels}</robot>"
    )
    entries = "\n".join(
        f"    - {{joint: {name}, radius: 0.05, roller_angle_deg: {angle}}}"
        for name, (_, _, angle) in _PLACES.items()
    )
    (folder / "robot.yaml").write_text(f"""format: 1
name: mecanum
kind: holonomic
urdf: mecanum.urdf
frames: {{base: base_link}}
base:
  wheels:
{entries}
  linear: {{x: {{max_velocity: 0.5, max_acceleration: 1.0}}}}
  angular: {{z: {{max_velocity: 2.0, max_acceleration: 4.0}}}}
drives:
  - {{joints: [fl, fr, rl, rr], mode: velocity, damping: 0.4, armature: 0.001}}
simulation:
  rollers:
    - {{wheels: [fl, fr, rl, rr], count: 12, radius: 0.01, mass: 0.008, damping: 0.00001}}
sources: {{base: made up for a test, drives: made up for a test}}
""")
    return load_robot(folder)


@pytest.fixture(scope="module")
def kaya():
    return load_robot("kaya")


def ring(angle: float, count: int = 10, radius: float = 0.009) -> RollerRing:
    rollers = RollerDescription(("w",), count=count, radius=radius, mass=0.005)
    return RollerRing(np.array((0.6, 0.0, 0.8)), 0.04, np.radians(angle), rollers)


def outline(wheel: RollerRing, directions: int = 720) -> np.ndarray:
    """Return the support function of the wheel in directions perpendicular to its axis [m]."""
    across = np.linalg.svd(wheel.axis[None])[2][1:]
    turn = np.linspace(0.0, 2.0 * np.pi, directions, endpoint=False)
    rays = np.cos(turn)[:, None] * across[0] + np.sin(turn)[:, None] * across[1]
    half = np.array((wheel.rollers.radius, wheel.rollers.radius, wheel.half_length))
    reaches = [
        rays @ middle + np.linalg.norm((rays @ rotation) * half, axis=1)
        for middle, rotation in wheel.placements()
    ]
    return np.max(reaches, axis=0)


@pytest.mark.parametrize("angle", [90.0, -90.0, 45.0, 135.0, 60.0])
@pytest.mark.parametrize("count", [8, 10, 16])
def test_the_outline_of_a_wheel_is_round(angle, count):
    reach = outline(ring(angle, count), 40 * count)
    assert reach.min() > 0.04 - 1e-9
    assert np.ptp(reach) < 2e-4 * (10.0 / count) ** 4


@pytest.mark.parametrize("angle", [90.0, 45.0, 120.0])
def test_the_roller_at_the_floor_has_the_angle_of_the_kinematics(angle):
    """Counter-clockwise from the wheel's axis, seen from above; see :class:`RollerWheel`."""
    wheel = ring(angle)
    for middle, rotation in wheel.placements():
        up = -middle / np.linalg.norm(middle)
        along = rotation[:, 2]
        seen = np.arctan2(np.cross(wheel.axis, along) @ up, wheel.axis @ along)
        assert np.degrees(seen) == pytest.approx(angle)
        assert np.linalg.det(rotation) == pytest.approx(1.0)
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)


def test_rollers_are_no_joints_of_the_robot(kaya):
    world = MujocoWorld([RobotPlacement(kaya, "r")])
    assert world.joint_names("r") == ("axle_0_joint", "axle_1_joint", "axle_2_joint")
    assert world.model.njnt == 1 + 3 + 30
    assert world.model.nu == 3


def test_only_rollers_touch_the_floor_and_no_part_of_the_robot(kaya):
    world = MujocoWorld([RobotPlacement(kaya, "r")])
    world.command("r", JointTargets(velocity=[3.0, -5.0, 8.0]))
    for _ in range(300):
        world.step(5)
        for contact in world.data.contact:
            names = {world.model.body(int(world.model.geom_bodyid[g])).name for g in contact.geom}
            assert "world" in names
            assert all("roller" in name for name in names - {"world"})
            assert contact.dist > -1e-4


def drive(robot: Robot, twist: Twist2, seconds: float = 3.0) -> np.ndarray:
    """Drive with the wheel speeds of a twist; return the resulting twist."""
    world = MujocoWorld([RobotPlacement(robot, "r")])
    speeds = base_of(robot).wheels_from_twist(twist)
    steps = int(seconds / world.time_step)
    total = np.zeros(6)
    for k in range(steps):
        world.command("r", JointTargets(velocity=speeds * min(1.0, 4.0 * k / steps)))
        world.step()
        if k >= steps // 2:
            total += world.base_twist("r")
    return total / (steps - steps // 2)


@pytest.mark.long
@pytest.mark.parametrize("name", ["kaya", "mecanum"])
@pytest.mark.parametrize(
    "twist", [(0.3, 0, 0), (0, 0.3, 0), (-0.2, -0.2, 0), (0, 0, 1.2), (0.2, -0.1, 0.5)]
)
def test_a_base_moves_as_its_kinematics_say(name, twist, request):
    got = drive(request.getfixturevalue(name), Twist2(*twist))
    np.testing.assert_allclose(got[[0, 1, 5]], twist, atol=0.012)
    np.testing.assert_allclose(got[[2, 3, 4]], 0.0, atol=0.02)


def test_rolling_is_smooth(kaya):
    """The height of the robot changes by less than 0.2 mm."""
    world = MujocoWorld([RobotPlacement(kaya, "r")])
    heights = []
    for k in range(1500):
        speeds = base_of(kaya).wheels_from_twist(Twist2(0.3, 0.2, 0.5).scaled(min(1.0, k / 300)))
        world.command("r", JointTargets(velocity=speeds))
        world.step()
        heights.append(world.base_pose("r")[2, 3])
    assert np.ptp(heights[300:]) < 2e-4
    assert np.abs(heights).max() < 2e-4


def test_rollers_give_way_along_their_own_direction_only(kaya):
    """On a slope the drives hold the robot but for their creep; a wheel along it does not."""
    slope = np.radians(5.0)
    world = MujocoWorld(
        [RobotPlacement(kaya, "r")],
        WorldConfig(gravity=(9.81 * np.sin(slope), 0.0, -9.81 * np.cos(slope))),
    )
    world.command("r", JointTargets(velocity=[0.0, 0.0, 0.0]))
    world.step(1000)
    # Three axes at 120 degrees hold with 3/2 of one wheel's damping at the rim.
    mass = world.model.body("r/base_link").subtreemass[0]
    damping = 1.5 * kaya.drive("axle_0_joint").damping / 0.04**2
    creep = mass * 9.81 * np.sin(slope) / damping * world.time
    held = world.base_pose("r")[:2, 3]
    np.testing.assert_allclose(held, (creep, 0.0), atol=0.1 * creep)
    # The rollers of the rear wheel roll along the slope: alone, it does not hold.
    world.command("r", JointTargets(effort=[np.nan, 0.0, 0.0]))
    world.step(500)
    moved = world.base_pose("r")[:2, 3] - held
    assert moved[0] > 0.1
    assert abs(moved[1]) < 0.02


def test_robots_on_rollers_meet_obstacles_and_each_other(kaya):
    world = MujocoWorld(
        [RobotPlacement(kaya, "a"), RobotPlacement(kaya, "b", from_xyz_rpy((0.5, 0.0, 0.0)))]
    )
    world.command("a", JointTargets(velocity=base_of(kaya).wheels_from_twist(Twist2(0.3))))
    world.step(1500)
    gap = world.base_pose("b")[0, 3] - world.base_pose("a")[0, 3]
    assert 0.15 < gap < 0.35


def with_rollers(robot: Robot, **values: float) -> Robot:
    """Return the robot with other rollers."""
    simulation = robot.description.simulation
    rollers = (dataclasses.replace(simulation.rollers[0], **values),)
    simulation = dataclasses.replace(simulation, rollers=rollers)
    description = dataclasses.replace(robot.description, simulation=simulation)
    return dataclasses.replace(robot, description=description)


@pytest.mark.parametrize("mass", [0.01, 0.0078])
def test_rollers_that_leave_nothing_for_the_hub_are_refused(kaya, mass):
    with pytest.raises(InvalidDescription):
        MujocoWorld([RobotPlacement(with_rollers(kaya, mass=mass), "r")])


def test_a_world_with_rollers_is_repeatable(kaya):
    def run(world: MujocoWorld) -> bytes:
        world.command("r", JointTargets(velocity=[2.0, -1.0, 4.0]))
        world.step(400)
        return world.data.qpos.tobytes()

    world = MujocoWorld([RobotPlacement(kaya, "r")])
    first = run(world)
    world.reset()
    assert run(world) == first
    assert mujoco.mj_id2name(world.model, mujoco.mjtObj.mjOBJ_JOINT, 0) == "r/floating"


BASES = ("jetbot", "nova_carter", "kaya", "leatherback")
PERIOD = 0.01
X_WR = from_xyz_rpy((1.0, -2.0, 0.0), (0.0, 0.0, 0.7))


_RAMP = BodyAxisLimits(max_acceleration=1.0)
CONFIG = BaseControllerConfig(
    limits=BaseLimits(x=_RAMP, y=_RAMP, yaw=BodyAxisLimits(max_acceleration=2.0))
)
"""Low acceleration limits."""


def drive_of_the_floor(
    world: RobotBackend, robot: Robot, program: Callable[[float], Twist2], seconds: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Drive a base by a program of twists over time.

    Returns:
        Poses by odometry and in the world, (x, y, yaw) from the start, and the travelled
        distance [m].
    """
    cell = WheeledRobot(robot, world, CONFIG)
    start = world.base_pose(NAME)
    way, last = 0.0, start[:2, 3]
    for k in range(round(seconds / PERIOD)):
        cell.measure(PERIOD)
        cell.controller.command(program(k * PERIOD), world.time)
        cell.drive(PERIOD)
        cell.step(PERIOD)
        here = world.base_pose(NAME)[:2, 3]
        way, last = way + math.dist(here, last), here
    cell.measure(PERIOD)
    X = inverse(start) @ world.base_pose(NAME)
    odometry = cell.odometry
    return (
        np.array((odometry.x, odometry.y, odometry.yaw)),
        np.array((X[0, 3], X[1, 3], math.atan2(X[1, 0], X[0, 0]))),
        way,
    )


def program_of(robot: Robot) -> Callable[[float], Twist2]:
    """Return turns to both sides, forward and backward, and sideways if the base can."""
    base = robot.base
    assert base is not None
    v, w = 0.5 * base.linear.x.max_velocity, 0.4 * base.angular.z.max_velocity
    side = 0.5 * v if robot.kind == "holonomic" else 0.0

    def program(t: float) -> Twist2:
        if t < 2.0:
            return Twist2(v, side, w)
        if t < 4.0:
            return Twist2(v, -side, -w)
        return Twist2(-v, side, 0.5 * w) if t < 6.0 else Twist2()

    return program


@pytest.mark.parametrize("name", BASES)
def test_wheel_odometry_is_within_a_percent_of_the_truth(name):
    robot = load_robot(name)
    world = MujocoWorld([RobotPlacement(robot, NAME, X_WR)])
    believed, true, way = drive_of_the_floor(world, robot, program_of(robot), 7.5)
    assert way > 0.8
    assert math.dist(believed[:2], true[:2]) < 0.01 * way
    assert abs(math.remainder(believed[2] - true[2], math.tau)) < 0.02
    # It is at rest and upright.
    assert np.abs(world.base_twist(NAME)).max() < 0.01
    assert world.base_pose(NAME)[2, 2] > 0.9999


@pytest.mark.long
@pytest.mark.parametrize("name", BASES)
def test_without_physics_odometry_and_truth_are_the_same(name):
    robot = load_robot(name)
    world = MockWorld([RobotPlacement(robot, NAME, X_WR)])
    believed, true, way = drive_of_the_floor(world, robot, program_of(robot), 7.5)
    assert way > 0.8
    np.testing.assert_allclose(believed, true, atol=2e-3)


def test_the_wheels_of_a_car_take_their_angles():
    robot = load_robot("leatherback")
    world = MujocoWorld([RobotPlacement(robot, NAME)])
    drive_of_the_floor(world, robot, lambda t: Twist2(0.8, 0.0, 1.0), 3.0)
    q = dict(zip(robot.joint_names, world.state(NAME).position, strict=True))
    R, L, T = 0.8, 0.32, 0.24
    left, right = q["Knuckle__Upright__Front_Left"], q["Knuckle__Upright__Front_Right"]
    assert left == pytest.approx(math.atan(L / (R - T / 2)), abs=0.01)
    assert right == pytest.approx(math.atan(L / (R + T / 2)), abs=0.01)
    # The turning circle of the rear axle's middle.
    twist = world.base_twist(NAME)
    assert twist[0] / twist[5] == pytest.approx(R, rel=0.02)


def test_a_holonomic_base_slides_without_turning():
    robot = load_robot("kaya")
    world = MujocoWorld([RobotPlacement(robot, NAME)])
    _, true, _ = drive_of_the_floor(world, robot, lambda t: Twist2(0.0, 0.3, 0.0), 4.0)
    assert true[1] > 1.0
    assert abs(true[0]) < 0.02
    assert abs(true[2]) < 0.02


def test_bases_of_every_kind_share_a_world():
    placements = [
        RobotPlacement(load_robot(name), name, from_xyz_rpy((0.0, 1.5 * i, 0.0)))
        for i, name in enumerate(BASES)
    ]
    world = MujocoWorld(placements)
    for placement in placements:
        robot = placement.robot
        base = base_of(robot)
        speeds = np.full(len(robot.joint_names), np.nan)
        wheels = [robot.joint_names.index(name) for name in base.wheel_names]
        speeds[wheels] = base.wheels_from_twist(Twist2(0.2))
        world.command(placement.name, JointTargets(velocity=speeds))
    world.step(1500)
    for placement in placements:
        X = inverse(placement.X_WR) @ world.base_pose(placement.name)
        assert X[0, 3] == pytest.approx(0.6, abs=0.03), placement.name
        assert abs(X[1, 3]) < 0.02
