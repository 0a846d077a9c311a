# SPDX-License-Identifier: Apache-2.0
"""A client with the calls of Isaac Sim's kinematics solver, and its articulation wrapper."""

import numpy as np
import pinocchio
import pytest
from model import xrdf_samples
from raised_errors import about
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig, UnknownFrame, UnknownJoint
from motion_nodes.extras.compat.kinematics_solver import (
    ArticulationKinematicsSolver,
    KinematicsSolver,
)

BASE, TURN = (0.4, -0.3, 0.6), Rotation.from_euler("xyz", (0.2, -0.1, 1.0))
PLACE, DOWN = (0.45, 0.15, 0.4), Rotation.from_euler("x", np.pi)


class Body:
    """The robot with its joints in reverse order, and one that the solver does not have."""

    def __init__(self, robot):
        self.joint_names = (*reversed(robot.joint_names), "lift")
        self.q = np.array([*robot.home[::-1], 0.2])

    def joint_positions(self):
        return self.q

    def joint_velocities(self):
        return 0.0 * self.q

    def apply(self, action):
        self.q[action.joint_indices] = action.joint_positions


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


def oracle(robot, names, q, frame):
    """Return position and rotation of a frame by pinocchio, the other joints at home."""
    model = pinocchio.buildModelFromXML(robot.urdf)
    values = dict(zip(robot.joint_names, robot.home, strict=True)) | dict(
        zip(names, q, strict=True)
    )
    full = pinocchio.neutral(model)
    for name, value in values.items():
        full[model.joints[model.getJointId(name)].idx_q] = value
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, full)
    X = data.oMf[model.getFrameId(frame)]
    return TURN.apply(X.translation) + BASE, TURN.as_matrix() @ X.rotation


@pytest.mark.parametrize("order", ["xyzw", "wxyz"])
def test_a_client_of_the_interface_reaches_its_target(franka, order):
    def quaternion(turn):
        return turn.as_quat(scalar_first=order == "wxyz")

    solver, body = KinematicsSolver(franka, quaternions=order), Body(franka)
    wrapper = ArticulationKinematicsSolver(body, solver, "panda_hand")
    solver.set_robot_base_pose(BASE, quaternion(TURN))
    target, turn = TURN.apply(PLACE) + BASE, TURN * DOWN
    action, success = wrapper.compute_inverse_kinematics(target, quaternion(turn), 1e-4, 1e-3)
    assert success
    body.apply(action)
    assert body.q[-1] == 0.2
    position, rotation = wrapper.compute_end_effector_pose()
    expected = oracle(franka, action.joint_names, action.joint_positions, "panda_hand")
    np.testing.assert_allclose(position, expected[0], atol=1e-9)
    np.testing.assert_allclose(rotation, expected[1], atol=1e-9)
    assert np.linalg.norm(position - target) < 1e-4
    assert (Rotation.from_matrix(rotation) * turn.inv()).magnitude() < 1e-3
    again, _ = wrapper.compute_inverse_kinematics(target, quaternion(turn), 1e-4, 1e-3)
    np.testing.assert_allclose(again.joint_positions, action.joint_positions, atol=1e-3)


def test_frames_inside_of_the_chain_leave_the_joints_behind_them(franka):
    solver = KinematicsSolver(franka)
    names, frames = solver.get_joint_names(), solver.get_all_frame_names()
    assert names == [f"panda_joint{k}" for k in range(1, 8)]
    assert {"panda_link4", "panda_hand"} <= set(frames)
    seed = franka.named_state("ready", "arm") + 0.1
    place = solver.compute_forward_kinematics("panda_link4", seed - 0.15)[0]
    q, success = solver.compute_inverse_kinematics("panda_link4", place, None, seed)
    assert success
    np.testing.assert_array_equal(q[4:], seed[4:])
    assert np.linalg.norm(solver.compute_forward_kinematics("panda_link4", q)[0] - place) < 1e-3


def test_solutions_avoid_obstacles_that_were_added(franka):
    solver = KinematicsSolver(franka)
    assert solver.supports_collision_avoidance()
    q, _ = solver.compute_inverse_kinematics("panda_hand", PLACE, DOWN.as_quat())
    elbow = solver.compute_forward_kinematics("panda_link4", q)[0]
    solver.add_sphere("ball", 0.06, from_xyz_rpy(tuple(elbow), (0.0, 0.0, 0.0)))
    other, success = solver.compute_inverse_kinematics("panda_hand", PLACE, DOWN.as_quat(), q)
    assert success
    away = solver.compute_forward_kinematics("panda_link4", other)[0] - elbow
    assert np.linalg.norm(away) > 0.06
    solver.add_sphere("target", 0.05, from_xyz_rpy(PLACE, (0.0, 0.0, 0.0)))
    assert not solver.compute_inverse_kinematics("panda_hand", PLACE, DOWN.as_quat(), q)[1]
    assert "collision" in solver.last.reason


def test_failures_keep_the_robot_where_it_is(franka):
    solver, body = KinematicsSolver(franka), Body(franka)
    wrapper = ArticulationKinematicsSolver(body, solver, "panda_hand")
    before = body.q.copy()
    action, success = wrapper.compute_inverse_kinematics((3.0, 0.0, 0.0))
    body.apply(action)
    assert not success
    np.testing.assert_array_equal(body.q, before)
    solver.set_max_iterations(1)
    assert solver.get_max_iterations() == 1
    assert not wrapper.compute_inverse_kinematics(PLACE, DOWN.as_quat())[1]


def test_settings_and_seeds_are_kept(franka):
    solver = KinematicsSolver(franka)
    solver.set_default_position_tolerance(1e-5)
    solver.set_default_orientation_tolerance(2e-4)
    assert solver.get_default_position_tolerance() == 1e-5
    assert solver.get_default_orientation_tolerance() == 2e-4
    seeds = [franka.named_state("ready", "arm")]
    solver.set_default_cspace_seeds(seeds)
    np.testing.assert_array_equal(solver.get_default_cspace_seeds(), seeds)
    place, turn = solver.compute_forward_kinematics("panda_hand", seeds[0])
    q, success = solver.compute_inverse_kinematics("panda_hand", place, turn)
    assert success
    np.testing.assert_allclose(q, seeds[0], atol=1e-6)
    lower, upper = solver.get_cspace_position_limits()
    assert ((lower <= q) & (q <= upper)).all()


def test_lula_files_make_a_solver(tmp_path):
    file = xrdf_samples.write_pair(tmp_path, "crane.yaml", xrdf_samples.LULA)
    solver = KinematicsSolver.from_files(file)
    assert solver.get_joint_names() == ["slew", "lift"]
    q = np.array((0.3, -0.4))
    place, _ = solver.compute_forward_kinematics("stick", q)
    found, success = solver.compute_inverse_kinematics("stick", place, None, q + 0.2)
    assert success
    np.testing.assert_allclose(
        solver.compute_forward_kinematics("stick", found)[0], place, atol=1e-3
    )


def test_bad_calls_are_errors(franka):
    solver = KinematicsSolver(franka)
    with pytest.raises(UnknownFrame, check=about("panda_hnad")):
        solver.compute_inverse_kinematics("panda_hnad", PLACE)
    with pytest.raises(InvalidConfig):
        solver.compute_inverse_kinematics("panda_link0", PLACE)
    for bad in ((np.nan, 0.0, 0.0), (0.0, 0.0)):
        with pytest.raises(InvalidCommand):
            solver.compute_inverse_kinematics("panda_hand", bad)
    with pytest.raises(InvalidCommand):
        solver.compute_inverse_kinematics("panda_hand", PLACE, warm_start=np.zeros(3))
    with pytest.raises(InvalidConfig):
        solver.set_max_iterations(0)
    with pytest.raises(InvalidConfig):
        KinematicsSolver(franka, quaternions="xywz")
    body = Body(franka)
    body.joint_names = (*body.joint_names[:-2], "panda_joint9", "lift")
    with pytest.raises(UnknownJoint, check=about("panda_joint1")):
        ArticulationKinematicsSolver(body, solver, "panda_hand")
