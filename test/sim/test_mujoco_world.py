# SPDX-License-Identifier: Apache-2.0
"""Physics of the MuJoCo world against closed forms and ideal kinematics; determinism; sleep."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Part
from motion_nodes.core.trajectory.time_parameterization import retime
from motion_nodes.core.trajectory.timed_path import PathEfforts
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim import backend
from motion_nodes.extras.sim.backend import RobotPlacement, SimulationDiverged
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.free_bodies import DAMPING, FRICTION, RANGE
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.scene_bodies import SceneBody

MakeRobot = Callable[..., Robot]
nan = np.nan
INERTIA = 0.04 + 0.06
"""Inertia of the spinner about its axis: rotor and armature [kg m^2]."""


def world_of(robot: Robot, name: str = "r") -> MujocoWorld:
    """Return a world with one robot at the origin."""
    return MujocoWorld([RobotPlacement(robot, name)])


def wheel_targets(robot: Robot, vx: float, wz: float) -> JointTargets:
    """Return the ideal wheel speeds for a body twist."""
    spec = robot.base
    assert spec is not None
    base = DifferentialBase(
        DifferentialConfig(
            left_wheel_names=spec.left_wheel_names,
            right_wheel_names=spec.right_wheel_names,
            wheel_radius=spec.wheel_radius,
            wheel_separation=spec.wheel_separation,
        )
    )
    speeds = np.full(len(robot.joint_names), nan)
    wheels = [robot.joint_names.index(name) for name in base.wheel_names]
    speeds[wheels] = base.wheels_from_twist(Twist2(vx, 0.0, wz))
    return JointTargets(velocity=speeds)


def mean_twist(world: MujocoWorld, name: str, steps: int) -> np.ndarray:
    """Return the twist of the base averaged over the next steps."""
    total = np.zeros(6)
    for _ in range(steps):
        world.step()
        total += world.base_twist(name)
    return total / steps


@pytest.mark.long
def test_every_named_state_of_the_franka_is_held_within_a_hundredth(franka):
    world = world_of(franka)
    for state in franka.state_names:
        q = franka.named_state(state)
        world.reset()
        world.command("r", JointTargets(q))
        world.step(1500)
        sample = world.state("r")
        np.testing.assert_allclose(sample.position, q, atol=0.01, err_msg=state)
        assert np.abs(sample.velocity).max() < 1e-6


def test_the_franka_holds_home_before_any_command(franka):
    world = world_of(franka)
    world.step(1000)
    np.testing.assert_allclose(world.state("r").position, franka.home, atol=0.005)


def test_at_rest_the_drives_of_the_franka_bear_gravity(franka):
    world = world_of(franka)
    world.step(1500)
    mujoco.mj_forward(world.model, world.data)
    # Without the fingers, which rest on their stops at home.
    arm = franka.group("arm")
    dofs = [int(world.model.joint(f"r/{name}").dofadr[0]) for name in arm.joints]
    effort = world.state("r").effort[arm.indices]
    assert np.abs(effort).max() > 10.0
    np.testing.assert_allclose(effort, world.data.qfrc_bias[dofs], atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("joint", range(7))
@pytest.mark.parametrize("size", [0.1, 0.5])
def test_a_step_of_a_franka_joint_does_not_oscillate(franka, joint, size):
    world = world_of(franka)
    q = franka.home.copy()
    q[joint] += size
    world.command("r", JointTargets(q))
    path = []
    for _ in range(500):
        world.step()
        path.append(world.state("r").position[joint])
    progress = (np.array(path) - franka.home[joint]) / size
    assert progress.max() < 1.03
    assert np.diff(progress).min() > -0.005
    np.testing.assert_allclose(progress[-1], 1.0, atol=0.03)


def test_a_small_step_follows_the_closed_form(make_spinner):
    # kp 40, kd 4, inertia 0.1: w = 20 rad/s, critically damped.
    world = world_of(make_spinner())
    world.command("r", JointTargets([0.05]))
    times, path = [], []
    for _ in range(200):
        world.step()
        times.append(world.time)
        path.append(world.state("r").position[0])
    wt = 20.0 * np.array(times)
    np.testing.assert_allclose(path, 0.05 * (1.0 - (1.0 + wt) * np.exp(-wt)), atol=0.05 * 0.02)


def test_velocity_mode_holds_the_speed_without_stiffness(make_spinner):
    world = world_of(make_spinner())
    world.command("r", JointTargets(velocity=[1.5]))
    world.step(1000)
    assert world.model.actuator("r/spin").biasprm[1] == 0.0
    np.testing.assert_allclose(world.state("r").velocity, 1.5, rtol=1e-7)
    start = world.state("r").position[0]
    world.step(500)
    np.testing.assert_allclose(world.state("r").position[0] - start, 1.5, rtol=1e-6)


def test_velocity_mode_droops_by_the_losses_of_the_joint(make_spinner):
    world = world_of(make_spinner(loss=0.5))
    world.command("r", JointTargets(velocity=[1.5]))
    world.step(1000)
    np.testing.assert_allclose(world.state("r").velocity, 1.5 * 4.0 / (4.0 + 0.5), rtol=1e-7)


@pytest.mark.parametrize("effort", [0.5, -2.0])
def test_effort_mode_accelerates_by_effort_over_inertia(make_spinner, effort):
    world = world_of(make_spinner())
    world.command("r", JointTargets(effort=[effort]))
    world.step(250)
    np.testing.assert_allclose(world.state("r").velocity, effort / INERTIA * 0.5, rtol=1e-9)
    np.testing.assert_allclose(world.state("r").effort, effort)


@pytest.mark.parametrize(
    "command", [JointTargets(effort=[20.0]), JointTargets([50.0]), JointTargets(velocity=[29.0])]
)
def test_effort_saturates_at_the_limit(make_spinner, command):
    world = world_of(make_spinner(effort=5.0))
    world.command("r", command)
    world.step(50)
    np.testing.assert_allclose(world.state("r").effort, 5.0)
    np.testing.assert_allclose(world.state("r").velocity, 5.0 / INERTIA * 0.1, rtol=1e-9)


def test_a_round_trip_through_the_modes_restores_the_gains(make_spinner):
    world = world_of(make_spinner())
    before = world.model.actuator("r/spin").biasprm.copy()
    world.command("r", JointTargets(velocity=[1.0]))
    world.command("r", JointTargets(effort=[1.0]))
    np.testing.assert_array_equal(world.model.actuator("r/spin").biasprm[:3], 0.0)
    world.command("r", JointTargets([0.5]))
    np.testing.assert_array_equal(world.model.actuator("r/spin").biasprm, before)
    assert before[1] == -40.0
    world.step(1000)
    np.testing.assert_allclose(world.state("r").position, 0.5, atol=1e-6)


def test_the_stop_holds_a_joint_whose_target_lies_beyond_its_limit(make_spinner):
    world = world_of(make_spinner(kind="revolute"))
    world.command("r", JointTargets([2.5]))
    world.step(2000)
    assert 1.99 < world.state("r").position[0] < 2.03


@pytest.mark.parametrize("name", ["jetbot", "rover"])
@pytest.mark.parametrize(
    ("vx", "wz"), [(0.1, 0.0), (0.4, 0.0), (-0.2, 0.0), (0.0, 1.0), (0.0, -3.0), (0.2, 1.0)]
)
def test_a_base_moves_as_its_kinematics_say(name, vx, wz, request):
    robot = request.getfixturevalue(name)
    world = world_of(robot)
    world.command("r", wheel_targets(robot, vx, wz))
    world.step(500)
    twist = mean_twist(world, "r", 250)
    assert abs(twist[0] - vx) < 0.01 * abs(vx) + 0.002
    assert abs(twist[5] - wz) < 0.02 * abs(wz) + 0.002
    np.testing.assert_allclose(twist[[2, 3, 4]], 0.0, atol=0.005)


def test_a_turn_on_the_spot_stays_on_the_spot(jetbot):
    world = world_of(jetbot)
    world.command("r", wheel_targets(jetbot, 0.0, 2.0))
    world.step(int(2 * np.pi / 2.0 / world.time_step))
    assert np.linalg.norm(world.base_pose("r")[:2, 3]) < 0.005


def test_a_base_stands_still_when_told_zero(jetbot):
    world = world_of(jetbot)
    world.command("r", wheel_targets(jetbot, 0.3, 1.0))
    world.step(500)
    world.command("r", wheel_targets(jetbot, 0.0, 0.0))
    world.step(250)
    before = world.base_pose("r")
    world.step(2500)
    np.testing.assert_allclose(world.base_pose("r"), before, atol=1e-5)
    assert np.abs(world.base_twist("r")).max() < 1e-5


def test_the_caster_slides_without_friction_and_wheels_grip(jetbot):
    world = world_of(jetbot)
    world.step(500)
    dims = {}
    for contact in world.data.contact:
        bodies = {world.model.body(int(world.model.geom_bodyid[g])).name for g in contact.geom}
        assert "world" in bodies, f"links of the robot touch: {bodies}"
        (body,) = bodies - {"world"}
        dims[body] = (contact.dim, contact.friction[0])
    assert dims.pop("r/caster_link")[0] == 1
    assert dims == {"r/left_wheel_link": (3, 1.0), "r/right_wheel_link": (3, 1.0)}


@pytest.mark.parametrize("ahead", [0.0, 0.2, -0.1])
def test_twist_is_the_rate_of_the_pose(make_rover, ahead):
    rover = make_rover(ahead=ahead)
    world = MujocoWorld([RobotPlacement(rover, "r", from_xyz_rpy((1, 2, 0), (0, 0, 2.0)))])
    world.command("r", wheel_targets(rover, 0.3, 2.0))
    world.step(400)
    X0 = world.base_pose("r")
    world.step()
    # The engine integrates with the new velocity, so the difference is that of the newer twist.
    twist, X1 = world.base_twist("r"), world.base_pose("r")
    rate = (X1 - X0) / world.time_step
    W = X1[:3, :3].T @ rate[:3, :3]
    np.testing.assert_allclose(X1[:3, :3].T @ rate[:3, 3], twist[:3], atol=0.002)
    np.testing.assert_allclose([W[2, 1], W[0, 2], W[1, 0]], twist[3:], atol=0.01)
    assert abs(twist[5]) > 1.9


@pytest.mark.parametrize("height", [0.0, 0.03, 0.2])
def test_a_base_is_put_on_its_wheels_wherever_its_root_is(make_rover, height):
    X_WR = from_xyz_rpy((0.5, -1.0, 0.0), (0.0, 0.0, 0.7))
    world = MujocoWorld([RobotPlacement(make_rover(height=height), "r", X_WR)])
    # The base frame is the body, whose axle is 0.03 m above the floor.
    expected = X_WR @ from_xyz_rpy((0.0, 0.0, 0.03))
    np.testing.assert_allclose(world.base_pose("r"), expected, atol=1e-9)
    world.step(500)
    np.testing.assert_allclose(world.base_pose("r"), expected, atol=5e-4)


def test_an_arm_stays_where_it_was_placed(franka):
    X_WR = from_xyz_rpy((0.4, 0.2, 0.7), (0.0, 0.0, -1.0))
    world = MujocoWorld([RobotPlacement(franka, "r", X_WR)])
    world.step(100)
    np.testing.assert_array_equal(world.base_pose("r"), X_WR)
    np.testing.assert_array_equal(world.base_twist("r"), np.zeros(6))
    np.testing.assert_allclose(world.data.body("r/panda_link0").xpos, X_WR[:3, 3], atol=1e-12)


def test_robots_in_one_world_do_not_disturb_each_other(franka, jetbot):
    together = MujocoWorld(
        [
            RobotPlacement(franka, "arm"),
            RobotPlacement(jetbot, "a", from_xyz_rpy((1.0, 0.0, 0.0))),
            RobotPlacement(jetbot, "b", from_xyz_rpy((1.0, 1.0, 0.0))),
        ]
    )
    alone = MujocoWorld([RobotPlacement(jetbot, "a", from_xyz_rpy((1.0, 0.0, 0.0)))])
    together.command("arm", JointTargets(franka.limits.clip(franka.home + 0.2)))
    for world in (together, alone):
        world.command("a", wheel_targets(jetbot, 0.2, 0.5))
        world.step(500)
    # An arm's drives need substeps, which slightly changes the slip of wheels.
    np.testing.assert_allclose(together.base_pose("a"), alone.base_pose("a"), atol=2e-3)
    np.testing.assert_allclose(together.base_pose("b")[:2, 3], [1.0, 1.0], atol=1e-5)
    assert together.joint_names("a") == together.joint_names("b") == jetbot.joint_names


def test_robots_that_meet_push_each_other(jetbot):
    world = MujocoWorld(
        [RobotPlacement(jetbot, "a"), RobotPlacement(jetbot, "b", from_xyz_rpy((0.3, 0, 0)))]
    )
    world.command("a", wheel_targets(jetbot, 0.4, 0.0))
    world.step(1000)
    gap = world.base_pose("b")[0, 3] - world.base_pose("a")[0, 3]
    assert 0.13 < gap < 0.25


def test_an_obstacle_stops_a_base(rover):
    wall = Obstacle("wall", Box((0.1, 1.0, 0.4)), from_xyz_rpy((0.5, 0.0, 0.2)))
    ball = Obstacle("ball", Sphere(0.2), from_xyz_rpy((-2.0, 0.0, 0.2)))
    world = MujocoWorld([RobotPlacement(rover, "r")], WorldConfig(obstacles=(wall, ball)))
    world.command("r", wheel_targets(rover, 0.3, 0.0))
    world.step(2000)
    # The wall's face is at 0.45, the front of the body 0.05 ahead of its frame.
    assert 0.38 < world.base_pose("r")[0, 3] < 0.405
    assert world.model.geom("obstacle:ball").size[0] == 0.2


@pytest.mark.long
def test_equal_commands_give_equal_worlds_to_the_bit_also_after_reset(franka, jetbot):
    placements = [RobotPlacement(franka, "f"), RobotPlacement(jetbot, "j", from_xyz_rpy((1, 0, 0)))]

    def drive(world: MujocoWorld) -> bytes:
        world.command("f", JointTargets(franka.limits.clip(franka.home + 0.2)))
        world.step(50)
        world.command("j", wheel_targets(jetbot, 0.2, -0.7))
        world.step(250)
        return world.data.qpos.tobytes() + world.data.qvel.tobytes()

    fresh = MujocoWorld(placements)
    used = MujocoWorld(placements)
    used.command("f", JointTargets(effort=np.full(len(franka.joint_names), 0.5)))
    used.command("j", JointTargets(effort=np.array([0.02, -0.02])))
    used.step(333)
    used.reset()
    assert used.time == 0.0
    np.testing.assert_array_equal(used.model.actuator_biasprm, fresh.model.actuator_biasprm)
    for name in ("f", "j"):
        for a, b in zip(used.state(name), fresh.state(name), strict=True):
            np.testing.assert_array_equal(a, b)
    assert drive(used) == drive(fresh)


def test_stepping_at_once_equals_stepping_singly(rover):
    one, many = world_of(rover), world_of(rover)
    for world in (one, many):
        world.command("r", wheel_targets(rover, 0.2, 0.4))
    many.step(200)
    for _ in range(200):
        one.step()
    np.testing.assert_array_equal(one.data.qpos, many.data.qpos)
    assert one.time == many.time
    np.testing.assert_allclose(many.time, 0.4)


def test_the_watchdog_stops_wheels_that_are_not_told_any_more(jetbot):
    world = world_of(jetbot)
    world.command("r", wheel_targets(jetbot, 0.3, 0.0))
    world.step(200)
    assert world.release_stale("r", 0.5) == ()
    world.step(100)
    assert set(world.release_stale("r", 0.5)) == set(jetbot.joint_names)
    world.step(200)
    assert np.abs(world.base_twist("r")).max() < 1e-3


@pytest.mark.parametrize("value", [nan, np.inf, 1e7])
def test_a_runaway_is_reported_and_reset_helps(rover, value):
    world = world_of(rover)
    world.step(10)
    world.data.joint("r/left_wheel_joint").qvel[0] = value
    with pytest.raises(SimulationDiverged, match="'r'"):
        world.step(5)
    with pytest.raises(SimulationDiverged):
        world.step()
    world.reset()
    world.step(10)
    fresh = world_of(rover)
    fresh.step(10)
    np.testing.assert_array_equal(world.data.qpos, fresh.data.qpos)


def test_an_absurd_drive_is_reported_not_hidden(make_spinner):
    world = world_of(make_spinner(effort=1e9))
    world.command("r", JointTargets(effort=[1e9]))
    with pytest.raises(SimulationDiverged):
        world.step(200)


@pytest.mark.long
@pytest.mark.parametrize("stiffness", [1e6, 1e9])
def test_very_stiff_drives_are_stable(make_spinner, stiffness):
    robot = make_spinner(stiffness=stiffness, damping=stiffness * 1e-3, effort=1e15)
    world = world_of(robot)
    for target in np.sin(np.linspace(0.0, 6.0, 300)):
        world.command("r", JointTargets([target]))
        world.step(5)
        assert abs(world.state("r").position[0] - target) < 0.01
    world.step(100)
    np.testing.assert_allclose(world.state("r").position, target, atol=1e-6)


def test_a_saturated_drive_presses_without_chatter(franka):
    table = Obstacle("table", Box((0.5, 0.4, 0.4)), from_xyz_rpy((0.55, 0.0, 0.2)))
    world = MujocoWorld([RobotPlacement(franka, "r")], WorldConfig(obstacles=(table,)))
    q = franka.home.copy()
    q[1] += 0.5
    world.command("r", JointTargets(q))
    world.step(2000)
    assert len(world.data.contact) > 0
    assert min(contact.dist for contact in world.data.contact) > -0.002
    limit = franka.limits.effort
    for _ in range(200):
        world.step()
        sample = world.state("r")
        assert np.abs(sample.velocity).max() < 0.01
        assert (np.abs(sample.effort) <= limit * (1 + 1e-9)).all()
    assert np.abs(sample.effort[:7] / limit[:7]).max() > 0.9


@pytest.mark.long
def test_a_motion_at_the_effort_limits_is_followed(franka):
    """Planned motions respect the effort limits, so that drives follow them at full speed."""
    joints = franka.group("arm").joints
    rng, limits = np.random.default_rng(5), franka.limits.select(joints)
    efforts = PathEfforts(franka, joints, franka.home)
    world = MujocoWorld([RobotPlacement(franka, "r", from_xyz_rpy((0.0, 0.0, 3.0)))])
    max_effort = np.array([franka.drive(name).max_effort for name in joints])
    checker, used = CollisionChecker(franka, joints), 0.0
    for _ in range(6):
        goal = franka.home[:7]
        while np.abs(goal - franka.home[:7]).max() < 1.5 or not checker.is_free(goal):
            goal = rng.uniform(limits.lower, limits.upper)
        motion = retime([franka.home[:7], goal], limits, efforts=efforts)
        world.reset()
        for t in np.arange(1, 1 + round(motion.duration / world.time_step)) * world.time_step:
            sample = motion.sample(t)
            q, v = franka.home.copy(), np.zeros(9)
            q[:7], v[:7] = sample.position, sample.velocity
            world.command("r", JointTargets(q, v))
            world.step()
            state = world.state("r")
            if world.contacts():
                break
            np.testing.assert_allclose(state.position, q, atol=0.008)
            assert (np.abs(state.velocity[:7]) <= 1.03 * limits.velocity).all()
            used = max(used, float((np.abs(state.effort[:7]) / max_effort).max()))
    assert used > 0.8, "the motions do not reach the effort limits"


def test_a_change_of_modes_is_not_interpolated(franka):
    """After a change of mode the drive has the effort of the new mode only."""
    world = MujocoWorld([RobotPlacement(franka, "r")])
    world.command("r", JointTargets(franka.home))
    world.step(200)
    for targets in (JointTargets(effort=np.zeros(9)), JointTargets(franka.home)):
        before = world.state("r")
        world.command("r", targets)
        world.step()
        np.testing.assert_allclose(world.state("r").position, before.position, atol=1e-3)
    world.reset()
    world.step()
    np.testing.assert_allclose(world.state("r").position, franka.home, atol=1e-4)


def test_a_drawer_slides_by_friction_and_damping_and_stays_in_its_cabinet(make_spinner):
    word = "drawer:=drawer:0.3,0.3,0.15:1.5@2,0.1,0.3,0.4"
    world = MujocoWorld(
        [RobotPlacement(make_spinner(), "r")], WorldConfig(objects=(parse_free_body(word),))
    )
    closed, out = world.object_pose("drawer"), -np.array((np.cos(0.4), np.sin(0.4), 0.0))
    np.testing.assert_allclose(closed, from_xyz_rpy((2.0, 0.1, 0.3), (0.0, 0.0, 0.4)), atol=1e-9)

    def pulled(force: float, seconds: float) -> float:
        world.push_object("drawer", np.array((*(force * out), 0.0, 0.0, 0.0)), seconds)
        for _ in range(round(seconds / world.time_step)):
            world.step()
        moved = (world.object_pose("drawer") - closed)[:3, 3]
        assert moved == pytest.approx(float(moved @ out) * out, abs=1e-6)
        return float(moved @ out)

    assert pulled(0.9 * FRICTION, 0.5) == pytest.approx(0.0, abs=1e-3)
    speed, lag = 0.1, 1.5 / DAMPING
    way = speed * (1.0 - lag * (1.0 - np.exp(-1.0 / lag)))
    assert pulled(FRICTION + speed * DAMPING, 1.0) == pytest.approx(way, abs=2e-3)
    assert pulled(20.0, 1.0) == pytest.approx(RANGE, abs=2e-3)
    with pytest.raises(InvalidConfig):
        world.place_object("drawer", np.eye(4))


NAME = "arm"
SETTLES = 4.0
"""[s] Time after which the arm sleeps."""


@pytest.fixture
def world():
    """A Franka beside a cube on the floor, asleep."""
    config = WorldConfig(objects=(parse_free_body("cube:=box:0.05,0.05,0.05:0.2@0.5,0.4,0.025"),))
    world = MujocoWorld([RobotPlacement(load_robot("franka"), NAME, np.eye(4))], config)
    run(world, SETTLES)
    assert sleeps(world)
    return world


def run(world: MujocoWorld, seconds: float) -> None:
    world.step(round(seconds / world.time_step))


def sleeps(world: MujocoWorld) -> bool:
    """Return whether a step computes nothing but the time."""
    solver, time = world.data.qacc_warmstart, world.time
    before = solver.copy()
    solver[:] = 123.0  # each computed step replaces it
    world.step()
    computed = bool((solver != 123.0).any())
    solver[:] = before
    assert world.time == pytest.approx(time + world.time_step)
    return not computed


def test_a_sleeping_world_stays_where_it_was(world):
    before = world.state(NAME)
    time = world.time
    run(world, 1.0)
    assert world.time == pytest.approx(time + 1.0)
    for a, b in zip(before, world.state(NAME), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isfinite(world.state(NAME).effort).all()


def commands(world: MujocoWorld) -> None:
    target = world.state(NAME).position.copy()
    target[:7] += 0.1
    world.command(NAME, JointTargets(target, np.zeros_like(target), np.full_like(target, np.nan)))


def changes_gains(world: MujocoWorld) -> None:
    n = len(world.joint_names(NAME))
    world.set_gains(NAME, np.full(n, 50.0), np.full(n, 5.0))


def pushes_the_cube(world: MujocoWorld) -> None:
    world.push_object("cube", np.array([5.0, 0.0, 0.0, 0.0, 0.0, 0.0]), 0.1)


def places_the_cube(world: MujocoWorld) -> None:
    X = np.eye(4)
    X[:3, 3] = 0.5, 0.4, 0.2
    world.place_object("cube", X)


def writes_the_state(world: MujocoWorld) -> None:
    world.data.qpos[0] += 0.01


def applies_a_force(world: MujocoWorld) -> None:
    world.data.qfrc_applied[0] = 20.0


@pytest.mark.parametrize(
    "change",
    [
        commands,
        changes_gains,
        pushes_the_cube,
        places_the_cube,
        writes_the_state,
        applies_a_force,
    ],
)
def test_a_change_wakes_it(world, change):
    before = world.data.qpos.copy()
    change(world)
    assert not sleeps(world)
    run(world, 0.2)
    assert np.abs(world.data.qpos - before).max() > 1e-4


def test_bodies_of_a_scene_wake_it(world):
    world.set_bodies({})
    assert not sleeps(world)


def test_a_body_that_stays_without_contacts_does_not_wake_it(world):
    """The simulation tries to enable its contacts all the time."""
    X = np.array(world.data.body("arm/panda_hand").xpos)
    body = SceneBody(NAME, (Part(Box((0.1, 0.1, 0.1)), np.eye(4)),), from_xyz_rpy(X))
    world.set_bodies({"scene:inside": body})
    assert "inside" in "".join(world.body_faults)
    run(world, SETTLES)
    assert sleeps(world)
    world.revive_bodies()
    assert sleeps(world)
    assert world.body_faults


def test_a_motion_after_sleep_is_that_of_a_world_that_never_slept(world):
    other = MujocoWorld(
        [RobotPlacement(load_robot("franka"), NAME, np.eye(4))],
        WorldConfig(objects=(parse_free_body("cube:=box:0.05,0.05,0.05:0.2@0.5,0.4,0.025"),)),
    )
    while other.time < world.time - 1e-9:
        mujoco.mj_step(other.model, other.data)
    for each in (world, other):
        commands(each)
        run(each, 0.5)
    np.testing.assert_allclose(world.data.qpos, other.data.qpos, atol=1e-6)


def test_a_moving_world_does_not_sleep(world):
    commands(world)
    for _ in range(40):
        assert not sleeps(world)
        run(world, 0.005)


def test_a_world_at_rest_sleeps_again(world):
    commands(world)
    run(world, SETTLES + 2.0)
    assert sleeps(world)


def replayed(seed: int) -> np.ndarray:
    """Return the positions of an arm that follows a stream with rests and late samples."""
    rng = np.random.default_rng(seed)
    world = MujocoWorld([RobotPlacement(load_robot("franka"), NAME, np.eye(4))])
    q = world.state(NAME).position.copy()
    none, still = np.full_like(q, np.nan), np.zeros_like(q)
    resting = JointTargets(q.copy(), still, none)
    period, seen, waiting = 4_000_000, [], []
    velocity = still
    for k in range(1500):
        now = k * period
        if k % 300 == 200:
            velocity = np.concatenate((rng.uniform(-0.5, 0.5, 7), np.zeros(len(q) - 7)))
        elif k % 300 == 280:
            velocity, resting = still, JointTargets(q.copy(), still, none)
        if velocity.any():
            q = q + velocity * period * 1e-9
            sample = JointTargets(q.copy(), velocity, none)
        else:
            sample = resting
        waiting.append((now, sample))
        if rng.random() < 0.8:  # otherwise it comes with the next one
            for stamp, late in waiting:
                world.stream(NAME, late, stamp)
            waiting.clear()
        world.advance(2, now)
        seen.append(world.state(NAME).position)
    return np.array(seen)


def test_streams_at_rest_are_followed_rarely_without_a_difference(monkeypatch):
    for seed in (1, 2):
        rarely = replayed(seed)
        with monkeypatch.context() as patch:
            patch.setattr(backend, "MAX_UNFOLLOWED_NS", 0)
            always = replayed(seed)
        assert np.ptp(rarely, axis=0).max() > 0.1
        np.testing.assert_allclose(rarely, always, rtol=0.0, atol=1e-12)
