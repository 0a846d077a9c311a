# SPDX-License-Identifier: Apache-2.0
"""Impedance control: the law against pinocchio, motions in MuJoCo, and under the arbiter."""

import dataclasses

import numpy as np
import pinocchio
import pytest
import scipy.linalg
from control.compliant_arm import CompliantArm
from control.guarded_arm import PERIOD, GuardedArm
from long_params import shortened

from motion_nodes.core.control.cartesian_impedance import (
    CartesianImpedance,
    MomentumObserver,
    OperationalSpace,
)
from motion_nodes.core.control.joint_command import ControlMode, JointCommand
from motion_nodes.core.control.pose_targets import ImpedanceSettings, PoseFilter, PoseTrajectory
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, rotation_vector, turned
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownGroup
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.wiping import STROKE, WipingCell, WipingConfig
from motion_nodes.nodes.demo.wipe import run_wipe

ROBOT = load_robot("franka")
ARM = ROBOT.group("arm").joints


@pytest.fixture(scope="module")
def law():
    return CartesianImpedance(ROBOT)


@pytest.mark.parametrize("name", ["franka", "ur10e"])
def test_inertias_are_those_of_pinocchio(name):
    robot = load_robot(name)
    joints = robot.group("arm").joints
    space = OperationalSpace(robot, joints, robot.group("arm").tip)
    model = pinocchio.buildModelFromXML(robot.urdf)
    data, rng = model.createData(), np.random.default_rng(1)
    model.armature[:] = 0.0
    for joint in joints:
        model.armature[model.joints[model.getJointId(joint)].idx_v] = robot.drive(joint).armature
    columns = [model.joints[model.getJointId(joint)].idx_v for joint in joints]
    for _ in range(10):
        q, v = (rng.uniform(-1.0, 1.0, len(joints)) for _ in range(2))
        full = np.zeros(model.nq)
        full[columns] = q
        M = pinocchio.crba(model, data, full)
        M = np.triu(M) + np.triu(M, 1).T
        state = space.at(q, v)
        np.testing.assert_allclose(state.M, M[np.ix_(columns, columns)], atol=1e-9)
        np.testing.assert_allclose(
            np.linalg.inv(state.inertia), state.J @ state.M_inv @ state.J.T, rtol=0.02, atol=5e-3
        )
        # Efforts in the nullspace do not accelerate the tool.
        tau = state.nullspace @ rng.normal(size=len(q))
        assert (
            np.abs(state.J @ state.M_inv @ tau).max()
            < 0.05 * np.abs(state.M_inv @ tau).max() + 1e-9
        )


def test_external_efforts_are_observed():
    """Exact states of a motion under known efforts, some of them external."""
    space = OperationalSpace(ROBOT, ARM, "panda_hand_tcp")
    observer = MomentumObserver(7)
    q, v = ROBOT.home[ROBOT.indices(ARM)].copy(), np.zeros(7)
    outside, dt = np.array([1.0, -2.0, 0.5, 1.5, 0.2, -0.3, 0.1]), 0.001
    for _ in range(300):
        state = space.at(q, v)
        driven = state.bias - 2.0 * v
        found = observer.update(state, driven, dt)
        v = v + dt * (state.M_inv @ (driven + outside - state.bias))
        q = q + dt * v
    np.testing.assert_allclose(found, outside, atol=0.05)


def test_targets_move_within_limits():
    settings = ImpedanceSettings(max_velocity=0.2, max_acceleration=1.0, max_angular_velocity=0.5,
                                 max_angular_acceleration=2.0)  # fmt: skip
    move = PoseFilter(np.eye(4))
    move.goal = from_xyz_rpy((0.3, -0.1, 0.2), (1.0, 0.5, -2.0))
    twists = []
    for _ in range(10000):
        move.step(0.001, settings)
        twists.append(move.twist)
    v = np.array(twists)
    np.testing.assert_allclose(move.pose, move.goal, atol=1e-9)
    for part, speed, acceleration in ((v[:, :3], 0.2, 1.0), (v[:, 3:], 0.5, 2.0)):
        assert np.linalg.norm(part, axis=1).max() <= speed * 1.0001
        changes = np.linalg.norm(np.diff(part, axis=0), axis=1) / 0.001
        assert changes.max() <= acceleration * 1.001


def test_damping_gives_each_mode_its_ratio(law):
    q = ROBOT.home[ROBOT.indices(ARM)]
    inertia = law.space.at(q, np.zeros(7)).inertia
    law.set_settings(ImpedanceSettings(stiffness=(800.0, 200.0, 500.0, 30.0, 50.0, 20.0),
                                       damping_ratio=(0.6, 0.6)))  # fmt: skip
    D, K = law._damping(inertia), np.diag(law.settings.six("stiffness"))
    system = np.block([[np.zeros((6, 6)), np.eye(6)],
                       [-np.linalg.solve(inertia, K), -np.linalg.solve(inertia, D)]])  # fmt: skip
    values = np.linalg.eigvals(system)
    np.testing.assert_allclose(-values.real / np.abs(values), 0.6, rtol=1e-6)
    law.set_settings(ImpedanceSettings(damping=(50.0, 3.0)))
    np.testing.assert_allclose(law._damping(inertia), np.diag([50.0] * 3 + [3.0] * 3))


@pytest.mark.parametrize(
    "values",
    [
        {"stiffness": (-1.0, 10.0)},
        {"stiffness": (1.0, 2.0, 3.0)},
        {"stiffness": (np.nan, 10.0)},
        {"stiffness": (1e300, 10.0)},
        {"damping_ratio": (np.inf, 1.0)},
        {"force_axes": ("w",)},
        {"frame": "camera"},
        {"payload_mass": -1.0},
        {"payload_center": (0.0, 0.0)},
        {"max_effort_rate": 0.0},
    ],
)
def test_settings_out_of_range_are_refused(values):
    with pytest.raises(InvalidConfig):
        ImpedanceSettings(**values)


def test_stiffness_beyond_the_rate_is_named_with_its_bound(law):
    assert law.check_rate(ImpedanceSettings(), 250.0) is None
    text = law.check_rate(ImpedanceSettings(stiffness=(50000.0, 40.0)), 250.0)
    assert text is not None
    most = float(text.split("at most ")[1].split()[0])
    assert law.check_rate(ImpedanceSettings(stiffness=(0.99 * most, 40.0)), 250.0) is None


def test_wrong_names_and_wrenches_are_refused(law):
    with pytest.raises(UnknownGroup):
        CartesianImpedance(ROBOT, "leg")
    with pytest.raises(UnknownFrame):
        CartesianImpedance(ROBOT, tool="nose")
    for wrench in ((1.0, 2.0), (np.nan,) * 6):
        with pytest.raises(InvalidCommand):
            law.set_wrench(wrench)


def test_a_trajectory_is_followed_without_lag(law):
    """Along straight lines, at the times of its points, except for ramps between them."""
    start = from_xyz_rpy((0.5, 0.0, 0.4), (np.pi, 0.0, 0.0))
    ways = [from_xyz_rpy((0.5, y, 0.4), (np.pi, 0.0, a)) for y, a in ((0.1, 0.2), (0.0, 0.0))]
    path = PoseTrajectory([1.0, 2.0], ways).from_pose(start)
    filter_, settings, dt = PoseFilter(start), ImpedanceSettings(), 0.002
    speeds = []
    for k in range(round(3.0 / dt)):
        filter_.goal, filter_.goal_twist = path.at(k * dt)
        before = filter_.twist
        filter_.step(dt, settings)
        speeds.append(np.linalg.norm(filter_.twist[:3]))
        assert np.linalg.norm(filter_.twist[:3] - before[:3]) <= 2.0 * dt + 1e-9
        ramps = min(abs((k + 1) * dt - t) for t in (0.0, 1.0)) < 0.4
        if not ramps and k * dt < 1.99:
            np.testing.assert_allclose(filter_.pose, path.at((k + 1) * dt)[0], atol=1e-9)
    np.testing.assert_allclose(filter_.pose, ways[-1], atol=1e-9)
    assert max(speeds) <= settings.max_velocity


@pytest.mark.parametrize(("times", "xs"), [
    ([], []), ([1.0], []), ([1.0, 1.0], [0.0, 0.1]), ([2.0, 1.0], [0.0, 0.1]), ([-1.0], [0.0]),
    ([np.nan], [0.0]), ([0.0, 0.1], [0.0, 0.1]),
])  # fmt: skip
def test_trajectories_that_cannot_be_followed_are_refused(law, times, xs):
    law.reset(ROBOT.home[:7], np.zeros(7))
    before = law._path
    with pytest.raises(InvalidCommand):
        law.set_trajectory(PoseTrajectory(times, [from_xyz_rpy((x, 0.0, 0.5)) for x in xs]))
    assert law._path is before


@pytest.mark.parametrize("values", [[np.nan] * 7, [np.inf] * 7, [0.0] * 6])
def test_a_posture_that_is_no_configuration_is_refused(law, values):
    with pytest.raises(InvalidCommand):
        law.set_posture(values)


@pytest.mark.parametrize("size", [200.0, 1e300])
@pytest.mark.parametrize("axis", [0, 4])
def test_a_wrench_beyond_the_limits_is_refused(law, size, axis):
    law.reset(ROBOT.home[:7], np.zeros(7))
    tau = law.step(ROBOT.home[:7], np.zeros(7), 1e-3)
    with pytest.raises(InvalidCommand):
        law.set_wrench(size * np.eye(6)[axis])
    np.testing.assert_allclose(law.step(ROBOT.home[:7], np.zeros(7), 1e-3), tau, atol=1e-6)


STIFF = {"stiffness": (1000.0, 1000.0, 500.0, 50.0, 50.0, 50.0), "frame": "base"}
SETTLING = 0.002
"""[s] Period where only the end of a slow motion counts."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "bend"), [("franka", 0.0), ("ur10e", 0.8)])
def test_deflection_is_force_over_stiffness(name, bend):
    arm = CompliantArm(name, bend=bend, period=SETTLING, **STIFF)
    X = arm.pose
    for wrench in ((8.0, -6.0, 5.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 2.0, -1.0, 0.5)):
        arm.wrench = np.array(wrench)
        arm.run(3.5)
        expected = arm.wrench / np.array(STIFF["stiffness"])
        assert np.linalg.norm(arm.away(X) - expected) < 0.02 * np.linalg.norm(expected)
        np.testing.assert_allclose(arm.law.status.external_wrench, arm.wrench, atol=0.3)


@pytest.mark.long
def test_stiffness_acts_along_the_axes_of_the_tool():
    stiffness = (1000.0, 1000.0, 200.0, 50.0, 50.0, 50.0)
    arm = CompliantArm(stiffness=stiffness, frame="tool", period=SETTLING)
    X = arm.pose
    z = X[:3, 2]
    arm.wrench[:3] = 5.0 * z
    arm.run(2.5)
    np.testing.assert_allclose(arm.away(X)[:3], 0.025 * z, atol=5e-4)


@pytest.mark.long
def test_a_large_turn_takes_the_short_way():
    arm = CompliantArm(max_torque=20.0, period=SETTLING)
    X = arm.pose
    axis = X[:3, 2]
    goal = X.copy()
    goal[:3, :3] = turned(X[:3, :3], np.deg2rad(-120.0) * axis)
    arm.law.set_target(goal)
    turns = []
    for _ in range(40):
        arm.run(0.1)
        turns.append(rotation_vector(arm.pose[:3, :3] @ X[:3, :3].T) @ axis)
    assert np.rad2deg(turns[-1]) == pytest.approx(-120.0, abs=1.0)
    assert max(turns) < 0.01


def test_a_free_arm_holds_still():
    arm = CompliantArm(stiffness=(0.0, 0.0), nullspace_stiffness=0.0, period=SETTLING)
    arm.run(0.5)
    X = arm.pose
    arm.run(3.0)
    assert np.linalg.norm(arm.away(X)[:3]) < 2.5e-5, "0.5 mm a minute"


@pytest.mark.long
def test_the_tool_stays_where_it_is_when_the_elbow_moves():
    arm = CompliantArm(stiffness=(1000.0, 50.0), nullspace_stiffness=50.0, period=SETTLING)
    arm.run(0.5)
    X, q = arm.pose, arm.state[0]
    arm.law.set_posture(q + np.array([0.4, 0.0, -0.4, 0.0, 0.4, 0.0, -0.4]))
    most = 0.0
    for _ in range(20):
        arm.run(0.1)
        most = max(most, float(np.linalg.norm(arm.away(X)[:3])))
    assert np.abs(arm.state[0] - q).max() > 0.1, "the elbow moved"
    assert most < 1e-3


@pytest.mark.long
@pytest.mark.parametrize(("ratio", "mode"), shortened([(0.3, 0), (0.7, 3), (0.3, 5)], 2))
def test_damping_ratio_is_as_asked(ratio, mode):
    """From the overshoot of a mode: exp(-pi zeta / sqrt(1 - zeta^2))."""
    arm = CompliantArm(
        stiffness=(400.0, 30.0), damping_ratio=(ratio, ratio), nullspace_stiffness=0.0, frame="base"
    )
    X, inertia = arm.pose, arm.law.space.at(*arm.state[:2]).inertia
    k, shapes = scipy.linalg.eigh(np.diag(arm.law.settings.six("stiffness")), inertia)
    shape = shapes[:, mode] * 0.01 / np.abs(shapes[:, mode]).max()
    goal = X.copy()
    goal[:3, 3] += shape[:3]
    goal[:3, :3] = turned(X[:3, :3], shape[3:])
    arm.law.set_target(goal)
    arm.law._filter.pose = goal.copy()  # a step, not a ramp
    way = []
    for _ in range(round(6000.0 / np.sqrt(k[mode]))):
        arm.step()
        way.append(shape @ inertia @ arm.away(X) / (shape @ inertia @ shape))
    log = np.log(max(way) - 1.0)
    assert -log / np.hypot(np.pi, log) == pytest.approx(ratio, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("period", shortened([0.004, 0.001]))
def test_pushed_anywhere_it_gives_back_no_more_than_it_got(period):
    rng = np.random.default_rng(5)
    arm = CompliantArm(period=period, nullspace_stiffness=0.0)
    arm.run(0.3)
    for _ in range(4):
        wrench = rng.normal(size=6) * (8.0, 8.0, 8.0, 1.0, 1.0, 1.0)
        given, left = arm.push(wrench, 0.4, 0.8)
        assert left <= given + 1e-3
        assert arm.law.status.energy > -1e-3


@pytest.mark.long
def test_forces_and_efforts_are_limited():
    arm = CompliantArm(max_force=20.0, max_velocity=10.0, max_acceleration=100.0)
    goal = arm.pose
    goal[0, 3] += 0.3
    arm.law.set_target(goal)
    before = arm.efforts[arm.arm].copy()
    for _ in range(200):
        arm.step()
        efforts = arm.efforts[arm.arm]
        if np.isfinite(before).all():
            assert np.abs(efforts - before).max() <= 1000.0 * arm.period + 1e-9
        assert (np.abs(efforts) <= arm.law.limits.effort).all()
        before = efforts.copy()
    arm.run(1.5)
    X = arm.pose
    arm.wrench[0] = -25.0
    arm.run(1.0)
    assert arm.away(X)[0] < -0.01, "stronger than the limit"


@pytest.mark.long
def test_a_payload_is_carried_where_it_is_known():
    arm = CompliantArm(**STIFF)
    X = arm.pose
    arm.wrench[2] = -1.5 * 9.80665
    arm.law.set_settings(dataclasses.replace(arm.law.settings, payload_mass=1.5))
    arm.run(2.0)
    assert np.abs(arm.away(X)[:3]).max() < 1e-3


@pytest.mark.long
def test_a_force_is_controlled_while_the_tool_slides_on_a_floor():
    """The floor is soft, and has friction; the force is that of MuJoCo's contacts."""
    arm = CompliantArm(
        frame="base", stiffness=(1500.0, 60.0), max_velocity=0.1, force_gain=2.0
    )  # fmt: skip
    arm.world.model.geom_friction[:, 0], arm.world.model.geom_solref[:, 0] = 0.3, 0.02
    arm.world.model.geom_solimp[:, :3] = (0.9, 0.95, 1e-3)
    low = arm.pose
    low[2, 3] = 0.012
    arm.law.set_target(low)
    arm.run(5.0)
    arm.law.set_settings(dataclasses.replace(arm.law.settings, force_axes=("z",)))
    arm.law.set_wrench((0.0, 0.0, -10.0, 0.0, 0.0, 0.0))
    arm.run(2.0)
    assert arm.floor_force() == pytest.approx(10.0, abs=0.5)
    slide = low.copy()
    slide[1, 3] += 0.15
    arm.law.set_target(slide)
    forces = []
    for _ in range(2000):
        arm.step()
        forces.append(arm.floor_force())
    # Both fingers chatter: average over 0.1 s.
    means = np.convolve(forces, np.full(100, 0.01), "valid")[200:]
    assert means.min() > 8.0
    assert means.max() < 12.0
    assert arm.away(low)[1] > 0.1


@pytest.mark.long
def test_a_tool_that_was_pushed_off_a_surface_returns():
    """The force correction has compensated the whole push by then."""
    damping = (np.nan, np.nan, 100.0, np.nan, np.nan, np.nan)
    arm = CompliantArm(frame="base", force_axes=("z",), damping=damping)
    arm.law.set_wrench((0.0, 0.0, -5.0, 0.0, 0.0, 0.0))
    arm.wrench[2] = 25.0
    arm.run(0.4)
    arm.wrench[2] = 0.0
    arm.run(0.8)
    assert arm.law.space.at(*arm.state[:2]).twist[2] < -0.03


@pytest.mark.long
def test_an_uneven_table_is_wiped_with_the_force_that_was_asked(tmp_path):
    plot = tmp_path / "wipe.svg"
    assert run_wipe(headless=True, port=0, output=plot) == 0
    assert plot.read_text().count("polyline") >= 6


@pytest.mark.long
def test_a_faster_stroke_over_the_same_bumps_is_worse():
    """The demo's check can fail."""
    cell = WipingCell(WipingConfig(speed=0.2))
    *_, stroke = cell.wipe()
    assert stroke is not None
    assert stroke.places[-1] > 0.5 * STROKE - 0.01
    assert stroke.within(0.2) < 0.9


@pytest.mark.parametrize("values", [{"force": -1.0}, {"speed": float("nan")}, {"bump": 1.0}])
def test_numbers_out_of_range_are_refused(values):
    with pytest.raises(InvalidConfig):
        WipingConfig(**values)


def test_a_plot_that_cannot_be_written_is_refused_before_the_demo(tmp_path):
    for file in (tmp_path / "wipe.png", tmp_path / "none" / "wipe.svg"):
        with pytest.raises(InvalidConfig):
            run_wipe(headless=True, port=0, output=file)


class Arm(GuardedArm):
    """A guarded arm with an impedance law."""

    def __init__(self) -> None:
        super().__init__("franka")
        self.law = CartesianImpedance(self.robot)
        self.sent: list[np.ndarray] = []

    def step(self) -> None:
        state = self.world.state("arm")
        self.time += PERIOD
        reference = self.runner.step(
            PERIOD, state.position, state.velocity, effort=np.array(state.effort)
        )
        efforts = np.where(
            np.isnan(reference.efforts), self.dynamics.gravity(state.position), reference.efforts
        )
        self.world.command("arm", JointTargets(reference.positions, reference.velocities, efforts))
        self.world.step(round(PERIOD / self.world.time_step))
        self.positions.append(state.position.copy())
        self.speeds.append(state.velocity.copy())
        self.efforts.append(state.effort.copy())
        self.references.append(reference.positions.copy())

    def comply(self, name: str = "target") -> np.ndarray:
        return self.runner.comply(self.law, self.runner.begin_stream(name))


@pytest.fixture
def arm():
    made = Arm()
    made.run(0.5)
    return made


def test_it_begins_without_motion_and_holds(arm):
    before = arm.positions[-1]
    assert not len(arm.comply())
    arm.run(2.0)
    assert np.abs(arm.positions[-1] - before)[:7].max() < 2e-3
    assert np.isnan(arm.references[-1][:7]).all()
    assert np.isfinite(arm.references[-1][7:]).all(), "fingers stay under position control"
    efforts = np.array(arm.efforts)[-600:, :7]
    assert np.abs(np.diff(efforts, axis=0)).max() < 1.0


def test_it_is_led_and_a_trajectory_takes_the_joints_back(arm):
    arm.comply()
    arm.run(0.2)
    target = arm.law.status.pose.copy()
    target[:3, 3] += (0.05, 0.1, -0.05)
    arm.law.set_target(target)
    arm.run(2.0)
    assert np.abs(arm.law.status.pose - target).max() < 2e-3
    run = arm.go(arm.robot.home, speed=0.3)
    arm.step()
    assert arm.runner.compliance.law is None
    assert set(arm.runner.holders[:7]) == {"the test"}
    while not run.status.ended:
        arm.step()
    assert run.text == ""
    assert np.abs(arm.positions[-1] - arm.robot.home)[:7].max() < 0.01


@pytest.mark.long
@pytest.mark.parametrize("way", ["stop", "stream", "abort"])
def test_a_moving_arm_brakes_within_its_limits(arm, way):
    arm.comply()
    arm.run(0.1)
    target = arm.law.status.pose.copy()
    target[:3, 3] += (0.0, 0.3, 0.0)
    arm.law.set_target(target)
    arm.run(0.5)
    assert np.abs(arm.speeds[-1]).max() > 0.2
    if way == "stop":
        arm.runner.stop_all("a stop")
    elif way == "abort":
        arm.runner.abort_all("a loss")
    else:  # one joint is enough
        first = arm.positions[-1][0]
        stream = arm.runner.begin_stream("other")
        arm.runner.follow_stream(JointCommand(names=["panda_joint1"], positions=[first]), stream)
    count = len(arm.speeds)
    arm.run(1.0)
    v = np.array(arm.speeds)[count - 1 :, :7]
    a = np.abs(np.diff(v, axis=0)) / PERIOD
    assert (a.max(axis=0) < 2.0 * arm.controller.limits.acceleration[:7]).all()
    assert np.abs(v[-1]).max() < 0.01
    assert np.isfinite(arm.references[-1]).all()


def test_a_stream_that_was_preempted_does_not_come_back(arm):
    stream = arm.runner.begin_stream("target")
    arm.runner.comply(arm.law, stream)
    arm.run(0.1)
    arm.runner.take(["panda_joint2"], "somebody")
    assert len(arm.runner.comply(arm.law, stream)) == 1
    assert arm.runner.compliance.law is None
    assert not len(arm.comply("again"))
    assert arm.runner.compliance.law is arm.law


def test_joints_under_another_control_mode_are_refused(arm):
    arm.controller.switch_mode(ControlMode.VELOCITY, ["panda_joint3"])
    with pytest.raises(InvalidCommand):
        arm.comply()
    assert arm.runner.compliance.law is None
