# SPDX-License-Identifier: Apache-2.0
"""Dynamics with a payload, against Pinocchio with the same mass on the hand."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from motion_nodes.core.robot.inverse_dynamics import STANDARD_GRAVITY, PayloadDynamics, payload_of
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig

ROBOT = load_robot("franka")
JOINTS = ROBOT.group("arm").joints
TOOL = "panda_hand_tcp"
MASS, CENTER = 1.7, np.array((0.03, -0.02, 0.08))


def loaded() -> PayloadDynamics:
    dynamics = PayloadDynamics(ROBOT, JOINTS, TOOL)
    dynamics.set_payload(MASS, CENTER)
    return dynamics


def test_efforts_and_inertia_are_those_of_pinocchio():
    model = pinocchio.buildModelFromXML(ROBOT.urdf)
    model.gravity.linear[:] = STANDARD_GRAVITY
    frame = model.frames[model.getFrameId(TOOL)]
    point = pinocchio.Inertia(MASS, CENTER, np.zeros((3, 3)))
    model.appendBodyToJoint(frame.parentJoint, point, frame.placement)
    model.rotorInertia[:] = 0.0
    data, dynamics = model.createData(), loaded()
    armature = np.array([ROBOT.drive(joint).armature for joint in JOINTS])
    rng = np.random.default_rng(3)
    columns = [model.joints[model.getJointId(joint)].idx_v for joint in JOINTS]
    for _ in range(20):
        q, v, a = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        q[columns], v[columns], a[columns] = rng.normal(size=(3, 7))
        expected = pinocchio.rnea(model, data, q, v, a)[columns] + armature * a[columns]
        damping = np.array([ROBOT.tree.joint(joint).damping for joint in JOINTS])
        found = dynamics.efforts(q[columns], v[columns], a[columns])
        batch = dynamics.efforts_batch(*(x[None, columns] for x in (q, v, a)))
        np.testing.assert_allclose(batch[0], found, atol=1e-6)
        np.testing.assert_allclose(found - damping * v[columns], expected, atol=2e-3)
        M = pinocchio.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        terms = dynamics.terms(q[columns], v[columns])
        expected_M = M[np.ix_(columns, columns)] + np.diag(armature)
        np.testing.assert_allclose(terms.inertia, expected_M, atol=1e-9)
        np.testing.assert_allclose(terms.inertia @ a[columns] + terms.bias, found, atol=1e-9)
        np.testing.assert_allclose(terms.gravity, dynamics.gravity(q[columns]), atol=1e-12)


def test_a_configuration_that_is_changed_in_place_is_a_new_one():
    dynamics = loaded()
    q = np.array(ROBOT.home[:7])
    before = dynamics.gravity(q)
    q[1] += 0.5
    assert np.abs(dynamics.gravity(q) - before).max() > 1.0
    dynamics.set_payload(0.0)
    np.testing.assert_allclose(dynamics.gravity(q), PayloadDynamics(ROBOT, JOINTS, TOOL).gravity(q))


@pytest.mark.parametrize("known", [0.0, 0.5])
def test_a_payload_is_estimated_from_its_wrench(known):
    K = Kinematics(ROBOT.tree, JOINTS)
    q = np.array(ROBOT.home[:7]) + 0.3
    R = K.pose(q, TOOL)[:3, :3]
    empty = PayloadDynamics(ROBOT, JOINTS, TOOL)
    empty.set_payload(known, (0.0, 0.0, 0.02))
    residual = loaded().gravity(q) - empty.gravity(q)
    wrench = -np.linalg.lstsq(K.jacobian(q, TOOL).T, residual, rcond=None)[0]
    mass, center = payload_of(wrench, R, known, (0.0, 0.0, 0.02))
    assert mass == pytest.approx(MASS, rel=1e-6)
    down = R.T @ np.array((0.0, 0.0, -1.0))
    across = np.eye(3) - np.outer(down, down)
    np.testing.assert_allclose(across @ center, across @ CENTER, atol=1e-6)


@pytest.mark.parametrize("force", [(8.0, 0.0, -5.0), (0.0, 0.0, 6.0), (np.nan, 0.0, 0.0)])
def test_what_is_no_weight_is_refused(force):
    with pytest.raises(InvalidCommand):
        payload_of(np.array((*force, 0.0, 0.0, 0.0)), np.eye(3), 0.0, np.zeros(3))
    assert payload_of(np.zeros(6), np.eye(3), 0.0, np.zeros(3))[0] == 0.0


@pytest.mark.parametrize("mass", [-1.0, np.nan, np.inf])
def test_impossible_payloads_are_refused(mass):
    dynamics = loaded()
    with pytest.raises(InvalidConfig):
        dynamics.set_payload(mass)
    with pytest.raises(InvalidConfig):
        dynamics.set_payload(1.0, (0.0, np.nan, 0.0))
    assert dynamics.payload_mass == MASS
