# SPDX-License-Identifier: Apache-2.0
"""Poses and paths from and to messages, and the transform tree over DDS."""

import math
import time

import numpy as np
import pytest
from geometry_msgs.msg import Pose, PoseStamped, TransformStamped, Twist
from nav_msgs.msg import Path
from patience import wait_until
from raised_errors import about
from rclpy.node import Node
from rclpy.serialization import serialize_message
from ros_client import LATCHED, RELIABLE
from tf2_msgs.msg import TFMessage

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.navigation.planar_geometry import PlanarPath, Pose2
from motion_nodes.core.robot.bounds import OBJECTS
from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy, to_quat_xyzw
from motion_nodes.errors import InvalidCommand, MotionError, UnknownFrame
from motion_nodes.ros.messages.cdr import child_frames
from motion_nodes.ros.messages.planar_messages import (
    fill_pose,
    frame_of,
    path_message,
    pose2_from,
    poses_from,
    twist2_from,
)
from motion_nodes.ros.qos import TF_READER
from motion_nodes.ros.transforms import READ_PERIOD, TransformTree


def message_of(X):
    message = Pose()
    message.position.x, message.position.y, message.position.z = X[:3, 3].tolist()
    q = message.orientation
    q.x, q.y, q.z, q.w = to_quat_xyzw(X).tolist()
    return message


@pytest.mark.parametrize("yaw", [0.0, 1.0, -3.1, math.pi])
def test_pose_there_and_back(yaw):
    message = Pose()
    fill_pose(message, Pose2(1.0, -2.0, yaw))
    back = pose2_from(message)
    assert back[:2] == (1.0, -2.0)
    assert math.cos(back.yaw - yaw) == pytest.approx(1.0)


def test_a_tilted_pose_is_seen_from_above():
    X = from_xyz_rpy((1.0, 2.0, 3.0), (0.2, -0.3, 0.7))
    assert pose2_from(message_of(X)) == pytest.approx((1.0, 2.0, 0.7))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [("x", math.nan, "the goal"), ("w", math.inf, "the goal"), ("w", 0.0, "the goal"),
     ("w", 1.5, "the goal"), ("w", 0.9, "the goal")],
)  # fmt: skip
def test_bad_poses(field, value, text):
    message = Pose()
    setattr(message.position if field == "x" else message.orientation, field, value)
    with pytest.raises(InvalidCommand, check=about(text)):
        pose2_from(message, "the goal")


def test_rounded_orientations_are_accepted():
    message = Pose()
    message.orientation.z, message.orientation.w = 0.707, 0.707
    assert pose2_from(message).yaw == pytest.approx(0.5 * math.pi)


def test_frames():
    message = PoseStamped()
    with pytest.raises(InvalidCommand):
        frame_of(message, "the goal")
    message.header.frame_id = "/map"
    assert frame_of(message, "the goal") == "map"


def test_path_there_and_back():
    path = PlanarPath([(0, 0, 0), (1, 2, 0.5), (2, 2, 1.0)])
    message = path_message(path, "odom", 1_500_000_000)
    assert message.header.stamp.sec == 1
    frame, poses = poses_from(message)
    assert frame == "odom"
    assert np.array(poses) == pytest.approx(path.poses())


def test_the_frame_of_a_path_may_stand_in_its_poses_alone():
    message = path_message(PlanarPath([(0, 0, 0), (1, 0, 0)]), "odom", 0)
    message.header.frame_id = ""
    assert poses_from(message)[0] == "odom"
    message.poses[1].header.frame_id = ""
    assert poses_from(message)[0] == "odom"
    message.poses[1].header.frame_id = "map"
    with pytest.raises(InvalidCommand):
        poses_from(message)


def test_empty_path():
    with pytest.raises(InvalidCommand):
        poses_from(Path())


def test_twist():
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = 1.0, 2.0, 3.0
    assert twist2_from(message) == Twist2(1.0, 2.0, 3.0)


def transform(parent, child, X, stamp=5):
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.header.stamp.sec = stamp
    t, q = message.transform.translation, message.transform.rotation
    t.x, t.y, t.z = X[:3, 3].tolist()
    q.x, q.y, q.z, q.w = to_quat_xyzw(X).tolist()
    return message


def test_a_tree_on_demand_subscribes_with_its_first_update(ros):
    node = Node("test_tree", use_global_arguments=False)
    fixed = node.create_publisher(TFMessage, "/tf_static", LATCHED)
    fixed.publish(TFMessage(transforms=[transform("shelf", "box", np.eye(4))]))
    tree = TransformTree(node, on_demand=True)
    assert "/tf" not in {each.topic_name for each in node.subscriptions}
    wait_until(lambda: tree.update() or tree.links(), "the static transform")
    tree.destroy()
    assert not list(node.subscriptions)
    node.destroy_node()


class TestTree:
    map_odom = from_xyz_rpy((1.0, 0.0, 0.0), (0.0, 0.0, 0.5))
    odom_base = from_xyz_rpy((2.0, 1.0, 0.0), (0.0, 0.0, -0.2))
    base_camera = from_xyz_rpy((0.1, 0.0, 0.3), (-1.5, 0.0, -1.5))

    @pytest.fixture
    def tree(self, ros):
        node = Node("test_tree", use_global_arguments=False)
        sender = Node("test_transforms", use_global_arguments=False)
        tree = TransformTree(node)
        moving = sender.create_publisher(TFMessage, "/tf", RELIABLE)
        fixed = sender.create_publisher(TFMessage, "/tf_static", LATCHED)
        wait_until(lambda: moving.get_subscription_count(), "a reader of /tf")
        fixed.publish(
            TFMessage(transforms=[transform("base_link", "camera", self.base_camera),
                                  transform("shelf", "box", np.eye(4))])
        )  # fmt: skip
        self.send = lambda *entries: moving.publish(TFMessage(transforms=list(entries)))
        self.send(
            transform("map", "odom", self.map_odom, 7),
            transform("odom", "base_link", self.odom_base),
        )

        def complete():
            tree.update()
            try:
                return tree.pose("map", "camera") is not None
            except MotionError:
                return False

        wait_until(complete, "all transforms")
        yield tree
        tree.destroy()
        node.destroy_node()
        sender.destroy_node()

    def test_one_that_was_sent_once_is_not_pushed_out_by_fast_ones(self, tree):
        self.send(transform("map", "parcel", self.odom_base))
        time.sleep(2.0 * READ_PERIOD)
        for _ in range(2 * TF_READER.depth):
            self.send(transform("odom", "base_link", self.odom_base))
            time.sleep(2e-4)
        tree.update()
        assert tree.pose("map", "parcel")[0] == pytest.approx(self.odom_base)

    def test_poses_along_the_tree(self, tree):
        wanted = self.map_odom @ self.odom_base @ self.base_camera
        X, stamp = tree.pose("map", "camera")
        assert pytest.approx(wanted) == X
        assert stamp == 5_000_000_000
        assert tree.pose("camera", "map")[0] == pytest.approx(np.linalg.inv(wanted))
        assert tree.pose("map", "odom")[1] == 7_000_000_000
        assert tree.pose("base_link", "camera")[1] is None
        assert tree.pose("odom", "odom")[0] == pytest.approx(np.eye(4))

    def test_what_is_carried_by_what(self, tree):
        assert tree.is_below("camera", "base_link")
        assert tree.is_below("base_link", "base_link")
        assert not tree.is_below("map", "base_link")
        assert not tree.is_below("nowhere", "base_link")

    def test_the_newest_valid_transform_of_a_frame_counts(self, tree):
        broken = transform("map", "odom", self.map_odom, 9)
        broken.transform.rotation.w = math.nan
        messages = [TFMessage(transforms=[transform("map", "odom", np.eye(4), 8)])]
        moved = transform("/map", "/odom", self.odom_base, 8)
        messages.append(TFMessage(transforms=[moved, broken]))
        messages.append(TFMessage(transforms=[transform("a", "c" * k, np.eye(4)) for k in (1, 9)]))
        data = [serialize_message(message) for message in messages]
        frames = [child_frames(each) for each in data]
        assert frames == [{b"odom"}, {b"/odom", b"odom"}, {b"c", b"c" * 9}]
        assert "nan" in tree._read(data, static=False)
        assert tree._read([data[-1][: len(data[-1]) // 2], b"", *data[:1]], static=False)
        tree._read(data, static=False)
        X, stamp = tree.pose("map", "odom")
        assert pytest.approx(self.odom_base) == X
        assert stamp == 8_000_000_000

    def test_unknown_and_unconnected_frames(self, tree):
        with pytest.raises(UnknownFrame):
            tree.pose("map", "camra")
        with pytest.raises(MotionError, match="'box'.*'map'"):
            tree.pose("map", "box")

    def test_newest_counts_and_bad_ones_do_not(self, tree):
        bad = transform("map", "odom", np.eye(4))
        bad.transform.rotation.w = 0.0
        nan = transform("map", "odom", np.eye(4))
        nan.transform.translation.x = math.nan
        moved = from_xyz_quat((9.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        self.send(transform("map", "odom", moved))
        self.send(bad, nan)
        time.sleep(0.2)

        def seen():
            tree.update()
            return tree.pose("map", "odom")[0][0, 3] == 9.0

        wait_until(seen, "the new transform")

    def test_the_number_of_frames_is_bounded(self, tree):
        for first in range(0, OBJECTS, 2000):
            many = [transform("map", f"f{k}", np.eye(4)) for k in range(first, first + 2000)]
            fault = tree._read([serialize_message(TFMessage(transforms=many))], static=False)
        assert "more than" in fault
        assert len(tree.links()) == OBJECTS
        moved = TFMessage(transforms=[transform("map", "odom", np.eye(4), 8)])
        assert not tree._read([serialize_message(moved)], static=False)
        assert tree.pose("map", "odom")[0] == pytest.approx(np.eye(4))

    def test_a_loop_is_no_endless_way(self, tree):
        self.send(transform("base_link", "map", np.eye(4)))
        time.sleep(0.2)
        tree.update()
        assert tree.is_below("camera", "map")
        assert np.isfinite(tree.pose("odom", "camera")[0]).all()
