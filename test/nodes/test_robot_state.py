# SPDX-License-Identifier: Apache-2.0
"""Transforms of the robot state publisher at rest and after motions, by scripted joint states."""

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.nodes.robot_state import RobotStateNode
from motion_nodes.tolerances import EQUAL_POSITIONS

ROBOT = load_robot("ur10e")
TREE = ROBOT.tree
NAMES = list(TREE.packed.frame_names)
KINEMATICS = Kinematics(TREE)


@pytest.fixture
def publisher(client):
    """A publisher of joint states, while the node is active."""
    words = ["--ros-args", "-r", "__ns:=/lone", "-r", "/tf:=/lone/tf", "-p", "robot:=ur10e",
             "-p", "autostart:=false", "-p", "update_rate:=100.0"]  # fmt: skip
    node = RobotStateNode(ros_args=words)
    try:
        node.trigger_configure()
        node.trigger_activate()
        assert node.failure is None
        yield client.publisher(JointState, "/lone/joint_states")
    finally:
        node.destroy_node()


def stamp(message: TFMessage) -> int:
    """Return the common stamp of all transforms [s]."""
    (found,) = {(t.header.stamp.sec, t.header.stamp.nanosec) for t in message.transforms}
    assert found[1] == 0
    return int(found[0])


def deviation(message: TFMessage, q: np.ndarray) -> float:
    """Return the max difference between transforms and forward kinematics at ``q`` [rad]."""
    X_WF, worst = KINEMATICS.frames(q), 0.0
    assert len(message.transforms) == len(TREE.joint_names)
    for each in message.transforms:
        t, r = each.transform.translation, each.transform.rotation
        X_PC = from_xyz_quat((t.x, t.y, t.z), (r.x, r.y, r.z, r.w))
        parent, child = (NAMES.index(f) for f in (each.header.frame_id, each.child_frame_id))
        worst = max(worst, float(np.abs(X_WF[parent] @ X_PC - X_WF[child]).max()))
    return worst


def test_transforms_at_rest_and_after_each_motion(client, publisher):
    """At rest only stamps change; motions that are too small to count do not add up."""
    moving = client.listen(TFMessage, "/lone/tf")
    client.wait(lambda: client.node.count_publishers("/lone/tf"), "the node's transforms")
    first = np.linspace(-0.9, 0.8, len(TREE.joint_names))
    second = first.copy()
    second[2] += 0.3
    creeping = [first + 0.6 * k * EQUAL_POSITIONS for k in range(5)]
    for second_number, q in enumerate((first, first, second, second, *creeping), start=7):
        state = JointState(name=list(TREE.joint_names), position=q.tolist())
        state.header.stamp.sec = second_number

        def answered(at: int = second_number) -> bool:
            return moving.newest is not None and stamp(moving.newest) == at

        client.repeat(lambda state=state: publisher.publish(state), answered, "transforms")
        assert deviation(moving.newest, q) < 1e-12 + len(q) * EQUAL_POSITIONS
