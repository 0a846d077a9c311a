# SPDX-License-Identifier: Apache-2.0
"""Gravity loads against pinocchio and against a pendulum's closed form."""

import numpy as np
import pinocchio
import pytest

from motion_nodes.errors import BadConfig
from motion_nodes.model.gravity import GravityLoad
from motion_nodes.model.loader import load_robot

PENDULUM = """<robot name="p"><link name="base"/>
<link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="swing" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
</joint></robot>"""


def test_a_pendulum_needs_m_g_l_sin_q():
    from motion_nodes.model.urdf import read_urdf

    load = GravityLoad(read_urdf(PENDULUM))
    for q in (-1.0, 0.0, 0.3, 1.57):
        assert load.efforts(np.array([q]))[0] == pytest.approx(2 * 9.80665 * 0.5 * np.sin(q))


def test_the_franka_agrees_with_pinocchio():
    robot = load_robot("franka")
    model = pinocchio.buildModelFromXML(robot.urdf)
    model.gravity.linear = np.array([0.0, 0.0, -9.80665])
    data = model.createData()
    load = GravityLoad(robot.tree)
    order = [model.joints[model.getJointId(name)].idx_q for name in load.joint_names]
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(robot.limits.lower, robot.limits.upper)
        placed = np.zeros(model.nq)
        placed[order] = q
        oracle = pinocchio.computeGeneralizedGravity(model, data, placed)[order]
        np.testing.assert_allclose(load.efforts(q), oracle, atol=1e-9)


def test_some_joints_in_another_order():
    robot = load_robot("franka")
    names = ["panda_joint4", "panda_joint2"]
    part, whole = GravityLoad(robot.tree, names), GravityLoad(robot.tree)
    q = np.zeros(len(whole.joint_names))
    q[[1, 3]] = 0.4, -1.2
    expected = whole.efforts(q)[[3, 1]]
    np.testing.assert_allclose(part.efforts(np.array([-1.2, 0.4])), expected, atol=1e-9)


def test_bad_gravity_is_refused():
    with pytest.raises(BadConfig, match="three finite numbers"):
        GravityLoad(load_robot("jetbot").tree, gravity=(0.0, np.nan, 0.0))
