# SPDX-License-Identifier: Apache-2.0
"""Transforms of a base whose base frame is not the root of its description."""

import itertools

import pytest
from geometry_msgs.msg import TwistStamped
from model.holonomic_robot import TRIANGLE, triangle
from model.robot_samples import joint, link, write_robot
from nav_msgs.msg import Odometry
from ros_client import LATCHED, RELIABLE
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy
from motion_nodes.ros.transforms import transform_pose


def test_each_frame_has_one_parent(suite, client, tmp_path):
    """The base frame stands on a fixed joint of the root, askew: the transforms are one tree."""
    mount = '<origin xyz="0.1 -0.2 0.3" rpy="0.02 -0.03 0.4"/>'
    text = triangle().replace(
        "</robot>",
        link("footprint") + joint("mount", "fixed", "footprint", "a", mount) + "</robot>",
    )
    write_robot(tmp_path, TRIANGLE, text)
    heard = [
        client.listen(TFMessage, topic, qos)
        for topic, qos in (("/tf", RELIABLE), ("/tf_static", LATCHED))
    ]
    odom = client.listen(Odometry, "/tri/mecanum_drive_controller/odom")
    suite.bring_up(f"tri:={tmp_path}", backend="mock", rate=100.0)
    command = TwistStamped()
    command.twist.linear.x, command.twist.angular.z = 0.3, 1.5
    drive = client.publisher(TwistStamped, "/tri/cmd_vel")

    def parents() -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for message in itertools.chain(*(topic.messages for topic in heard)):
            for t in message.transforms:
                found.setdefault(t.child_frame_id, set()).add(t.header.frame_id)
        return found

    def turned() -> bool:
        return bool(odom) and abs(odom.newest.pose.pose.orientation.z) > 0.3

    client.repeat(
        lambda: drive.publish(command),
        lambda: turned() and "tri/w0" in parents(), "a turn",
    )  # fmt: skip
    assert {child: names for child, names in parents().items() if len(names) != 1} == {}
    assert parents()["tri/footprint"] == {"tri/odom"}
    # By tf the base frame is where the odometry says, at each stamp that both have.
    X_RB = from_xyz_rpy((0.1, -0.2, 0.3), (0.02, -0.03, 0.4))
    by_stamp = {
        (t.header.stamp.sec, t.header.stamp.nanosec): t
        for message in heard[0].messages
        for t in message.transforms
        if t.child_frame_id == "tri/footprint"
    }
    compared = 0
    for message in odom.messages:
        t = by_stamp.get((message.header.stamp.sec, message.header.stamp.nanosec))
        if t is not None:
            X_OB = transform_pose(t) @ X_RB
            compared += 1
            p, q = message.pose.pose.position, message.pose.pose.orientation
            X_odom = from_xyz_quat((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))
            assert X_OB == pytest.approx(X_odom, abs=1e-6)
    assert compared > 10
