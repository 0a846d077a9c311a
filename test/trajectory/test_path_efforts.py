# SPDX-License-Identifier: Apache-2.0
"""Motions within effort limits, by Pinocchio."""

import dataclasses

import numpy as np
import pinocchio
import pytest

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.trajectory.joint_path import CornerBlending
from motion_nodes.core.trajectory.path_efforts import PathEfforts
from motion_nodes.core.trajectory.time_parameterization import retime

SHARE = 0.9
BOTH = pytest.mark.parametrize("jerk", [False, True], ids=["acceleration", "jerk"])


class Oracle:
    """Efforts of the Franka's arm with its fingers at home, by Pinocchio."""

    def __init__(self):
        self.robot = load_robot("franka")
        self.joints = self.robot.group("arm").joints
        self.limits = self.robot.limits.select(self.joints)
        self._model = pinocchio.buildModelFromXML(self.robot.urdf)
        self._model.gravity.linear = np.array(STANDARD_GRAVITY)
        self._data = self._model.createData()
        names = [self._model.names[k] for k in range(1, self._model.njoints)]
        self._order = [names.index(name) for name in self.robot.joint_names]
        drives = [self.robot.drive(name) for name in self.joints]
        self.max_effort = np.array([drive.max_effort for drive in drives])
        self._model.armature[:] = 0.0
        for name in self.joints:
            self._model.armature[names.index(name)] = self.robot.drive(name).armature

    def efforts(self, q, v, a):
        full = [np.zeros(self._model.nv) for _ in range(3)]
        full[0][self._order] = self.robot.home
        for whole, part in zip(full, (q, v, a), strict=True):
            whole[self._order[: len(part)]] = part
        tau = pinocchio.rnea(self._model, self._data, *full)
        return tau[self._order[: len(q)]]

    def path_efforts(self):
        return PathEfforts(self.robot, self.joints, self.robot.home, SHARE)

    def use(self, motion):
        """Return the max ratio of effort to effort limit along a motion."""
        Q, V, A, _ = motion.states(np.arange(0.0, motion.duration, 5e-4))
        efforts = np.array([self.efforts(*row) for row in zip(Q, V, A, strict=True)])
        return float((np.abs(efforts) / self.max_effort).max())


@pytest.fixture(scope="module")
def oracle():
    return Oracle()


def test_strips_are_those_of_the_equations_of_motion(oracle):
    """tau = A u + B x + g for any squared speed x and acceleration u along the path."""
    rng = np.random.default_rng(3)
    efforts = oracle.path_efforts()
    for _ in range(20):
        q = rng.uniform(oracle.limits.lower, oracle.limits.upper)
        q1, q2 = rng.normal(size=(2, 7))
        x, u = rng.uniform(0.0, 2.0), rng.normal()
        A, B = efforts.strips_at(q[None], q1[None], q2[None])[0]
        still = oracle.efforts(q, np.zeros(7), np.zeros(7))
        room = np.maximum(SHARE * oracle.max_effort - np.abs(still), 0.1 * oracle.max_effort)
        expected = oracle.efforts(q, q1 * np.sqrt(x), q1 * u + q2 * x) - still
        np.testing.assert_allclose((A * u + B * x) * room, expected, atol=1e-8)


def test_joints_may_be_in_any_order(oracle):
    q, v, a = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 7, 7))  # as many states as joints
    other = PathEfforts(oracle.robot, oracle.joints[::-1], oracle.robot.home, SHARE)
    use = other.usage(q[:, ::-1], v[:, ::-1], a[:, ::-1])
    assert use == pytest.approx(oracle.path_efforts().usage(q, v, a))


def test_viscous_friction_is_left_out(oracle):
    tree = oracle.robot.tree
    joints = {n: dataclasses.replace(j, damping=0.7) for n, j in tree.joints.items()}
    tree = dataclasses.replace(tree, joints=joints)
    robot = dataclasses.replace(oracle.robot, tree=tree)
    viscous = PathEfforts(robot, oracle.joints, robot.home, SHARE)
    q, q1, q2 = np.random.default_rng(1).normal(size=(3, 5, 7))
    expected = oracle.path_efforts().strips_at(q, q1, q2)
    np.testing.assert_allclose(viscous.strips_at(q, q1, q2), expected, atol=1e-9)


@pytest.mark.long
@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_motions_respect_effort_limits(oracle, seed, jerk):
    """Some motions exceed them if only velocity and acceleration are limited; stretching the whole
    motion would take longer."""
    rng = np.random.default_rng(seed)
    path = rng.uniform(oracle.limits.lower, oracle.limits.upper, (2 + seed % 3, 7))
    limits = dataclasses.replace(oracle.limits, jerk=np.full(7, 7500.0 if jerk else np.inf))
    efforts, blending = oracle.path_efforts(), CornerBlending(0.05)
    free = retime(path, limits, blending=blending)
    motion = retime(path, limits, blending=blending, efforts=efforts)
    excess = efforts.stretch(free)
    assert (oracle.use(free) > SHARE + 1e-3) == (excess > 1.0 + 1e-3)
    assert oracle.use(motion) <= SHARE + 0.01
    assert free.duration * (1.0 - 1e-3) <= motion.duration <= free.duration * excess * (1.0 + 1e-3)
    assert (motion.interval_use(limits) <= 1.0 + 1e-4).all()


def test_a_motion_within_them_is_unchanged(oracle):
    path = np.array([oracle.robot.home[:7], oracle.robot.home[:7] + 0.05])
    slow = {"velocity_scaling": 0.1, "acceleration_scaling": 0.1}
    free = retime(path, oracle.limits, **slow)
    motion = retime(path, oracle.limits, **slow, efforts=oracle.path_efforts())
    np.testing.assert_array_equal(free.clock, motion.clock)


def test_heavier_than_its_drives_permit(oracle):
    """Gravity alone exceeds the limits: a tenth of them remains for the motion, which is slow."""
    weak = tuple(
        dataclasses.replace(d, max_effort=0.05 * d.max_effort) for d in oracle.robot.drives
    )
    robot = dataclasses.replace(oracle.robot, drives=weak)
    path = np.array([oracle.robot.home[:7], oracle.robot.home[:7] + 0.3])
    motion = retime(
        path, oracle.limits, efforts=PathEfforts(robot, oracle.joints, robot.home, SHARE)
    )
    assert retime(path, oracle.limits).duration < motion.duration < 60.0
