# SPDX-License-Identifier: Apache-2.0
"""Operational space against pinocchio; the law's settings, target limits and refusals."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from motion_nodes.core.control.cartesian_impedance import (
    CartesianImpedance,
    MomentumObserver,
    OperationalSpace,
)
from motion_nodes.core.control.impedance_settings import ImpedanceSettings
from motion_nodes.core.control.pose_targets import PoseFilter, PoseTrajectory
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownGroup

ROBOT = load_robot("franka")
ARM = ROBOT.group("arm").joints


@pytest.fixture(scope="module")
def law() -> CartesianImpedance:
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
