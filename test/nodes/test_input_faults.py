# SPDX-License-Identifier: Apache-2.0
"""Inputs of nodes that must not be taken for good: late stamps, half of a payload."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from std_srvs.srv import Trigger

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.articulation.follow_trajectory import OldTrajectory, start
from motion_nodes.nodes.articulation_controller import ArticulationControllerNode
from motion_nodes.nodes.base_navigator import BaseNavigatorNode
from motion_nodes.nodes.planner.planner_params import scenery_for
from motion_nodes.ros.joint_topics import set_stamp

SECOND = 1_000_000_000


def made(kind, robot: str):
    """Return a configured node that is not active."""
    node = kind(ros_args=["--ros-args", "-p", f"robot:={robot}", "-p", "autostart:=false"])
    node.trigger_configure()
    assert node.failure is None
    return node


def test_the_loss_of_odometry_stamped_ahead_is_not_hidden(ros):
    node = made(BaseNavigatorNode, "jetbot")
    try:
        timeout, now = node.params.odom_timeout, 1000 * SECOND
        for ahead, fault in ((0, ""), (3600 * SECOND, "in the future")):
            message = Odometry()
            message.pose.pose.orientation.w = 1.0
            set_stamp(message, now + ahead)
            node._odometry = SimpleNamespace(newest=lambda m=message: m, topic="odom")
            node._read_odometry(now)
            assert fault in node._odometry_fault(now)
            assert bool(node._odometry_fault(now)) == bool(fault)
            lost = "no odometry" if not ahead else fault
            assert lost in node._odometry_fault(now + int((timeout + 0.1) * SECOND))
    finally:
        node.destroy_node()


def test_an_estimated_payload_is_set_as_a_whole_or_not_at_all(ros):
    node = made(ArticulationControllerNode, "franka")
    try:
        for mass, center, success in ((0.5, [0.0, 99.0, 0.0], False), (0.5, [0, 0, 0.1], True)):
            node._payload._estimate = lambda m=mass, c=center: (m, np.array(c, dtype=float))
            response = node._payload._on_estimate(Trigger.Request(), Trigger.Response())
            assert response.success == success, response.message
            assert ("payload.center" in response.message) == (not success)
            assert node.params.impedance_payload_mass == (mass if success else 0.0)
    finally:
        node.destroy_node()


@pytest.mark.parametrize(
    ("now", "stamp", "error"),
    [(10, 1_700_000_000, InvalidCommand), (1_700_000_000, 10, OldTrajectory)],
)
def test_a_trajectory_by_another_clock_is_refused(now, stamp, error):
    step = SimpleNamespace(next_ns=now * SECOND)
    host = SimpleNamespace(step=step, refusal=lambda: None, runner=None)
    goal = SimpleNamespace(trajectory=SimpleNamespace(end_time=1.0))
    with pytest.raises(error, match="use_sim_time"):
        start(host, goal, Time(sec=stamp), "a trajectory")


ARM = """<robot name="crane">
  <link name="base_link">
    <collision><geometry><box size="0.2 0.2 0.4"/></geometry></collision>
  </link>
  <link name="boom">
    <inertial><mass value="1"/>
      <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="0.3 0 0"/><geometry><box size="0.6 0.1 0.1"/></geometry></collision>
  </link>
  <joint name="slew" type="revolute"><parent link="base_link"/><child link="boom"/>
    <origin xyz="0 0 0.4"/><axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="1" effort="50"/></joint>
</robot>
"""


@pytest.mark.long
def test_an_arm_of_the_cell_that_is_only_a_urdf_is_scenery_too(tmp_path):
    (tmp_path / "crane.urdf").write_text(ARM)
    cell = (f"a:={tmp_path}/crane.urdf@1,0,0", "b:=franka")
    params = SimpleNamespace(cell=cell, floor=False, floor_height=0.0)
    scenery, notes = scenery_for(load_robot("franka"), "/b", params)
    assert any("base_link" in name for name in scenery.objects), notes
