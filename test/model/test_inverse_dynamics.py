# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics and payloads against Pinocchio, MuJoCo and closed forms."""

import dataclasses

import mujoco
import numpy as np
import pinocchio
import pytest
from kernels.random_trees import Oracle, random_tree
from raised_errors import about

from motion_nodes.core.robot.inverse_dynamics import (
    STANDARD_GRAVITY,
    InverseDynamics,
    PayloadDynamics,
    payload_of,
)
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import Inertial, frozen
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownJoint

PENDULUM = """<robot name="p"><link name="base"/>
<link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="swing" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
<dynamics damping="0.3"/></joint></robot>"""
BOTH = pytest.mark.parametrize("generic", [False, True], ids=["generated", "generic"])


def heavy_tree(seed, actuated):
    """Return a random tree with random link masses; every third link has none."""
    tree, rng = random_tree(seed, actuated), np.random.default_rng(seed)

    def inertial(place):
        root = rng.normal(size=(3, 3))
        X = np.eye(4)
        X[:3, :3], X[:3, 3] = np.linalg.qr(root)[0], rng.uniform(-0.3, 0.3, 3)
        if np.linalg.det(X[:3, :3]) < 0.0:
            X[:3, 0] *= -1.0
        body = Inertial(rng.uniform(0.2, 3.0), frozen(X), frozen(0.1 * root @ root.T))
        return None if place % 3 == 2 else body

    links = {
        name: dataclasses.replace(link, inertial=inertial(place))
        for place, (name, link) in enumerate(tree.links.items())
    }
    return dataclasses.replace(tree, links=links)


def by_pinocchio(tree, q, v, a):
    """Return efforts by an oracle in which mimic joints are independent."""
    oracle = Oracle(tree)
    model = oracle.model
    for name, link in tree.links.items():
        if link.inertial is None:
            continue
        frame = model.frames[oracle.frame_id[name]]
        X, own = pinocchio.SE3(np.array(link.inertial.X_LC)), link.inertial
        body = pinocchio.Inertia(own.mass, X.translation,
                                 X.rotation @ own.inertia @ X.rotation.T)  # fmt: skip
        model.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    model.gravity.linear = np.array(STANDARD_GRAVITY)
    E = oracle.expand
    return E.T @ pinocchio.rnea(model, model.createData(), E @ q + oracle.shift, E @ v, E @ a)


@BOTH
def test_a_pendulum(generic):
    dynamics = InverseDynamics(read_urdf(PENDULUM), armature=0.05, generic=generic)
    assert dynamics.generated is not generic
    for q, v, a in np.random.default_rng(0).normal(size=(20, 3)):
        expected = (0.1 + 2 * 0.25 + 0.05) * a + 0.3 * v + 2 * 9.80665 * 0.5 * np.sin(q)
        assert dynamics.efforts([q], [v], [a])[0] == pytest.approx(expected, abs=1e-12)
        assert dynamics.gravity([q])[0] == pytest.approx(2 * 9.80665 * 0.5 * np.sin(q))


def test_a_batch_equals_single_motions():
    tree = load_robot("franka").tree
    dynamics = InverseDynamics(tree)
    Q, V, A = np.random.default_rng(0).normal(size=(3, 20, 9))
    single = [dynamics.efforts(*motion) for motion in zip(Q, V, A, strict=True)]
    np.testing.assert_array_equal(dynamics.efforts_batch(Q, V, A), single)
    for wrong in (Q[:, :8], Q[:3], Q[0]):
        with pytest.raises(InvalidCommand):
            dynamics.efforts_batch(Q, wrong, A)


@BOTH
@pytest.mark.parametrize("seed", range(6))
def test_random_trees_agree_with_pinocchio(seed, generic):
    tree = heavy_tree(seed, 3 + seed)
    dynamics = InverseDynamics(tree, generic=generic)
    rng = np.random.default_rng(seed)
    for q, v, a in rng.normal(size=(5, 3, len(tree.joint_names))):
        expected = by_pinocchio(tree, q, v, a)
        np.testing.assert_allclose(dynamics.efforts(q, v, a), expected, rtol=1e-10, atol=1e-10)


def test_the_franka_agrees_with_pinocchio():
    robot = load_robot("franka")
    model = pinocchio.buildModelFromXML(robot.urdf)
    model.gravity.linear = np.array(STANDARD_GRAVITY)
    armature = [drive.armature for drive in robot.drives]
    dynamics = InverseDynamics(robot.tree, armature=armature)
    order = [model.joints[model.getJointId(name)].idx_q for name in dynamics.joint_names]
    model.armature[order] = armature
    data, rng = model.createData(), np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(robot.limits.lower, robot.limits.upper)
        v, a = rng.normal(size=(2, len(q)))
        Q, V, A = np.zeros((3, model.nq))
        Q[order], V[order], A[order] = q, v, a
        expected = pinocchio.rnea(model, data, Q, V, A)[order]
        np.testing.assert_allclose(dynamics.efforts(q, v, a), expected, atol=1e-9)


def test_the_franka_agrees_with_mujoco():
    """The model is that of the simulation: its conversion keeps the dynamics."""
    from motion_nodes.extras.sim.backend import RobotPlacement
    from motion_nodes.extras.sim.mjcf import WorldConfig, build_model

    robot = load_robot("franka")
    _, model = build_model([RobotPlacement(robot, "arm")], WorldConfig(gravity=STANDARD_GRAVITY))
    model.opt.disableflags |= (
        mujoco.mjtDisableBit.mjDSBL_CONTACT
        | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    )
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    dynamics = InverseDynamics(robot.tree, armature=[drive.armature for drive in robot.drives])
    places = [model.joint(f"arm/{name}").qposadr[0] for name in dynamics.joint_names]
    dofs = [model.joint(f"arm/{name}").dofadr[0] for name in dynamics.joint_names]
    for _ in range(10):
        q, v, a = rng.normal(size=(3, len(places)))
        data.qpos[places], data.qvel[dofs] = q, v
        mujoco.mj_forward(model, data)
        data.qacc[dofs] = a
        mujoco.mj_inverse(model, data)
        np.testing.assert_allclose(
            dynamics.efforts(q, v, a), data.qfrc_inverse[dofs], atol=1e-7, rtol=1e-7
        )


def test_power_is_the_change_of_energy():
    """Without damping, the power of the efforts is the rate of kinetic and potential energy."""
    tree = heavy_tree(3, 5)
    dynamics = InverseDynamics(tree)
    n, rng, h = len(tree.joint_names), np.random.default_rng(5), 1e-6

    def mass_matrix(q):
        return np.array(
            [dynamics.efforts(q, np.zeros(n), e) - dynamics.gravity(q) for e in np.eye(n)]
        )

    q, v, a = rng.normal(size=(3, n))
    M = mass_matrix(q)
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > -1e-12

    def kinetic(t):
        qt, vt = q + v * t + 0.5 * a * t * t, v + a * t
        return 0.5 * vt @ mass_matrix(qt) @ vt

    change = (kinetic(h) - kinetic(-h)) / (2 * h) + dynamics.gravity(q) @ v
    assert dynamics.efforts(q, v, a) @ v == pytest.approx(change, rel=1e-6)


@BOTH
def test_some_joints_in_another_order(generic):
    robot = load_robot("franka")
    names = ["panda_joint4", "panda_joint2"]
    part = InverseDynamics(robot.tree, names, armature=[0.1, 0.2], generic=generic)
    whole = InverseDynamics(robot.tree)
    full = np.zeros((3, len(whole.joint_names)))
    small = np.array([[-1.2, 0.4], [0.5, -0.6], [2.0, 3.0]])
    full[:, [3, 1]] = small
    expected = whole.efforts(*full)[[3, 1]] + [0.1 * 2.0, 0.2 * 3.0]
    np.testing.assert_allclose(part.efforts(*small), expected, atol=1e-9)


def test_bad_input_is_refused():
    tree = load_robot("franka").tree
    with pytest.raises(InvalidConfig):
        InverseDynamics(tree, gravity=(0.0, np.nan, 0.0))
    with pytest.raises(InvalidConfig):
        InverseDynamics(tree, armature=[1.0, 2.0])
    with pytest.raises(InvalidConfig, check=about("armature")):
        InverseDynamics(tree, armature=-1.0)
    with pytest.raises(UnknownJoint, check=about("panda_joint_1")):
        InverseDynamics(tree, ["panda_joint_1"])
    for generic in (False, True):
        dynamics = InverseDynamics(tree, generic=generic)
        for lengths in ((8, 9, 9), (9, 8, 10), (8, 9, 10), (10, 10, 7)):
            with pytest.raises(InvalidCommand):
                dynamics.efforts(*map(np.zeros, lengths))
        with pytest.raises(InvalidCommand):
            dynamics.gravity(1.0)
        with pytest.raises(InvalidCommand):
            dynamics.gravity(["a"] * 9)
        whole = [list(range(9)), np.arange(9), np.arange(9.0)[::-1]]
        expected = dynamics.efforts(*(np.array(x, np.float64) for x in whole))
        np.testing.assert_array_equal(dynamics.efforts(*whole), expected)


def test_nan_stays_with_what_it_moves():
    """A measured NaN makes the efforts NaN and has no effect on later calls."""
    dynamics = InverseDynamics(load_robot("franka").tree)
    q = np.zeros(9)
    q[3] = np.nan
    tau = dynamics.gravity(q)
    assert np.isnan(tau[1])
    assert np.isfinite(dynamics.gravity(np.zeros(9))).all()


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
