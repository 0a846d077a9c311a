# SPDX-License-Identifier: Apache-2.0
"""The UR10e against the manufacturer's tables; its collision spheres against its shapes."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco_urdf import imported

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, multiply
from motion_nodes.core.robot.robot import Robot

PI = np.pi


@pytest.fixture(scope="module")
def ur10e() -> Robot:
    return load_robot("ur10e")


def _classic(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    """Return Rz(theta) Tz(d) Tx(a) Rx(alpha)."""
    return multiply(from_xyz_rpy((0, 0, d), (0, 0, theta)), from_xyz_rpy((a, 0, 0), (alpha, 0, 0)))


def test_base_to_tool_follows_the_published_denavit_hartenberg_table(ur10e: Robot) -> None:
    """The manufacturer's frames are `base` and `tool0`."""
    a = (0, -0.6127, -0.57155, 0, 0, 0)
    d = (0.1807, 0, 0, 0.17415, 0.11985, 0.11655)
    alpha = (PI / 2, 0, 0, PI / 2, -PI / 2, 0)
    kinematics = Kinematics(ur10e.tree)
    rng = np.random.default_rng(11)
    for q in rng.uniform(-PI, PI, (20, 6)):
        X_base = kinematics.pose(q, "base")
        X_tool = kinematics.pose(q, "tool0")
        ours = np.linalg.inv(X_base) @ X_tool
        np.testing.assert_allclose(ours, multiply(*map(_classic, a, d, alpha, q)), atol=1e-9)


def test_clients_find_group_frames_and_joints_by_their_usual_names(ur10e: Robot) -> None:
    joints = (
        "shoulder_pan_joint",
        "shoulder_lift_joint",
        "elbow_joint",
        "wrist_1_joint",
        "wrist_2_joint",
        "wrist_3_joint",
    )
    assert ur10e.joint_names == ur10e.group("ur_manipulator").joints == joints
    assert ur10e.group("manipulator") is ur10e.group("arm") is ur10e.group("ur_manipulator")
    assert (ur10e.base_frame, ur10e.tool_frame) == ("base_link", "tool0")
    for frame in ("base_link_inertia", "base", "flange", "ft_frame", "wrist_3_link"):
        assert frame in ur10e.tree.links
    assert {"home", "up", "test_configuration", "ready"} <= set(ur10e.state_names)


def test_the_tool_points_down_in_ready(ur10e: Robot) -> None:
    X = Kinematics(ur10e.tree).pose(ur10e.named_state("ready"), "tool0")
    np.testing.assert_allclose(X[:3, 2], (0, 0, -1), atol=1e-3)
    assert X[0, 3] > 0.5
    assert X[2, 3] > 0.3


def test_limits_are_those_of_the_manual(ur10e: Robot) -> None:
    degrees = np.degrees(ur10e.limits.velocity)
    np.testing.assert_allclose(degrees, (120, 120, 180, 180, 180, 180), rtol=1e-12)
    np.testing.assert_allclose(ur10e.limits.effort, (330, 330, 150, 54, 54, 54))
    np.testing.assert_allclose(np.degrees(ur10e.limits.upper), (360, 360, 180, 360, 360, 360))
    np.testing.assert_array_equal(ur10e.limits.lower, -ur10e.limits.upper)


def test_named_states_touch_nothing(ur10e: Robot) -> None:
    model = imported(ur10e)
    data = mujoco.MjData(model)
    near = {frozenset((joint.parent, joint.child)) for joint in ur10e.tree.joints.values()}
    never = {frozenset(pair) for pair in ur10e.description.collision.ignore}
    for name in ur10e.state_names:
        for joint, value in zip(ur10e.joint_names, ur10e.named_state(name), strict=True):
            data.qpos[model.joint(joint).qposadr[0]] = value
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            pair = frozenset(model.body(model.geom_bodyid[g]).name for g in contact.geom)
            assert pair in near | never or "world" in pair, (name, pair)
