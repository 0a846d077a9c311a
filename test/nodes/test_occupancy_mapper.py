# SPDX-License-Identifier: Apache-2.0
"""The occupancy mapper over DDS: octomaps of depth images and clouds, and refused messages."""

import numpy as np
import pytest
from geometry_msgs.msg import Transform
from moveit_msgs.srv import GetStateValidity
from octomap_msgs.msg import Octomap
from octomap_msgs.srv import GetOctomap
from perception.boxes_seen import camera, depth_of, looking
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import QoSProfile
from ros_client import LATCHED, RELIABLE, values_of
from sensor_msgs.msg import CameraInfo, Image, JointState, PointCloud2
from std_msgs.msg import Empty as EmptyMessage
from std_srvs.srv import Empty
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.messages.camera_messages import (
    cloud_message,
    color_message,
    depth_message,
    info_message,
)
from motion_nodes.ros.scene.scene_update import voxels_of
from motion_nodes.ros.transforms import TransformSender

FRANKA = load_robot("franka")
EYE = looking((1.4, 0.0, 0.9), (0.4, 0.0, 0.3))
BOX = np.array([[(0.5, -0.1, 0.1), (0.7, 0.1, 0.3)]])
PINHOLE = camera()
DEPTH = depth_of(BOX, EYE, PINHOLE)
FAR = np.full_like(DEPTH, np.inf)


class Cameras:
    """A robot at rest and two cameras at the same pose, as their drivers publish them."""

    def __init__(self, client) -> None:
        self.client = client
        node = client.node
        self.states = client.publisher(JointState, "/joint_states")
        self.images = client.publisher(Image, "/left/image")
        self.infos = client.publisher(CameraInfo, "/left/camera_info")
        self.clouds = client.publisher(PointCloud2, "/right/points")
        self.heard = client.listen(Octomap, "/occupancy_mapper/octomap_binary", LATCHED)
        static = node.create_publisher(TFMessage, "/tf_static", LATCHED)
        TransformSender(static, [("panda_link0", "eye")]).send(EYE[None], 0)
        self.colors = node.create_publisher(Image, "/left/color", 10)
        self.lag = 0.0
        moving = node.create_publisher(TFMessage, "/tf", RELIABLE)
        self.transforms = TransformSender(moving, [("panda_link0", "moving_eye")])

    def stamp(self, message) -> None:
        set_stamp(message, self.client.node.get_clock().now().nanoseconds - round(1e9 * self.lag))

    def state(self) -> None:
        message = JointState(name=list(FRANKA.joint_names), position=FRANKA.home.tolist())
        set_stamp(message, self.client.node.get_clock().now().nanoseconds)
        self.states.publish(message)

    def show(self, depth, millimetres=False, frame="eye", info=True, color=None) -> None:
        self.state()
        message = depth_message(depth.astype(np.float32), frame, Image().header.stamp)
        if millimetres:
            whole = np.where(np.isfinite(depth), 1e3 * depth, 0.0).round().astype("<u2")
            message.encoding, message.step = "16UC1", 2 * depth.shape[1]
            message.data = whole.tobytes()
        self.stamp(message)
        if color is not None:
            self.colors.publish(color_message(color, frame, message.header.stamp))
        if info:
            self.infos.publish(info_message(PINHOLE, frame, message.header.stamp))
        self.images.publish(message)

    def show_points(self, points, frame="eye") -> None:
        self.state()
        message = cloud_message(np.asarray(points, np.float32), frame, Image().header.stamp)
        self.stamp(message)
        self.clouds.publish(message)

    def show_from_arm(self, points, late: float) -> None:
        """Publish a cloud of a moving camera whose transform is older by ``late`` [s]."""
        now_ns = self.client.node.get_clock().now().nanoseconds
        self.transforms.send(EYE[None], now_ns - round(1e9 * late))
        self.show_points(points, "moving_eye")

    @property
    def centres(self):
        solid = None if self.heard.newest is None else voxels_of(self.heard.newest)
        return np.empty((0, 3)) if solid is None else (solid.cells + 0.5) * solid.resolution

    @property
    def report(self) -> str:
        status = self.client.diagnostics("/occupancy_mapper")
        return "" if status is None else status.message

    @property
    def warned(self) -> str:
        """The last warning of the mapper's log."""
        return values_of(self.client.diagnostics("/occupancy_mapper")).get("last warning", "")

    def set(self, **values) -> None:
        kinds = {float: (ParameterType.PARAMETER_DOUBLE, "double_value"),
                 str: (ParameterType.PARAMETER_STRING, "string_value")}  # fmt: skip
        request = SetParameters.Request()
        for name, value in values.items():
            kind, field = kinds[type(value)]
            request.parameters.append(
                Parameter(name=name, value=ParameterValue(type=kind, **{field: value}))
            )
        answer = self.client.call(SetParameters, "/occupancy_mapper/set_parameters", request)
        assert all(result.successful for result in answer.results)

    def clear(self) -> None:
        self.client.repeat(
            lambda: self.client.call(Empty, "/occupancy_mapper/clear"),
            lambda: not len(self.centres), "an empty map",
        )  # fmt: skip


@pytest.fixture(scope="module")
def cameras(module_suite, module_client):
    module_suite.node(
        "occupancy_mapper", robot="franka", depth_images=["/left/image"],
        point_clouds=["/right/points"], camera_timeout=1.0,
    )  # fmt: skip
    made = Cameras(module_client)
    module_client.repeat(made.state, lambda: made.report, "the mapper", within=60.0)
    return made


def occupied(cameras, publish, what):
    """Publish until the box is mapped, and check its position."""
    cameras.client.repeat(publish, lambda: len(cameras.centres) > 50, what, within=20.0)
    low, high = BOX[0]
    assert np.all((cameras.centres > low - 0.03) & (cameras.centres < high + 0.03))


def test_depth_images_and_clouds_are_mapped_and_cleared(cameras):
    cameras.show(DEPTH, info=False)
    cameras.client.wait(lambda: "camera_info" in cameras.report, "the report of the first image")
    assert not cameras.warned, "the camera has just started"
    occupied(cameras, lambda: cameras.show(DEPTH), "metres")
    client = cameras.client

    def served() -> bool:
        got = client.call(GetOctomap, "/occupancy_mapper/get_octomap").map
        return voxels_of(got).equals(voxels_of(cameras.heard.newest))

    client.wait(served, "the published map from the service")  # an image may be under way
    client.repeat(
        lambda: cameras.show(FAR), lambda: not len(cameras.centres), "seen through", within=20.0
    )
    occupied(cameras, lambda: cameras.show(DEPTH, millimetres=True), "millimetres")
    cameras.clear()
    points = DepthProjection(PINHOLE).points(DEPTH)
    occupied(cameras, lambda: cameras.show_points(points), "clouds")
    cameras.clear()
    many = np.repeat(points, 16, axis=0)  # 3.7 MB, of which best effort loses parts
    occupied(cameras, lambda: cameras.show_points(many), "large clouds")
    cleared = client.publisher(EmptyMessage, "/octomap_cleared", QoSProfile(depth=10))
    client.repeat(
        lambda: cleared.publish(EmptyMessage()), lambda: not len(cameras.centres), "the clearing"
    )


def test_bad_images_are_dropped_with_their_reasons(cameras):
    cameras.clear()
    nothing = np.full((1000, 3), np.nan)
    points = DepthProjection(PINHOLE).points(DEPTH)
    for publish, reason in (
        (lambda: cameras.show_points(points, "moon"), "moon"),
        (lambda: cameras.show_points(points, ""), "frame_id"),
        (lambda: cameras.show(DEPTH[:50]), "pixels"),
        (lambda: cameras.show(DEPTH[:0]), "pixels"),
        (lambda: cameras.show_from_arm(points, 2.0), "s older"),
    ):
        cameras.client.repeat(publish, lambda r=reason: r in cameras.report, reason, within=20.0)
        assert reason in cameras.warned
    for lag, reason in ((7200.0, "s old"), (-3600.0, "in the future")):
        cameras.lag = lag
        cameras.client.repeat(
            lambda: cameras.show_points(points),
            lambda r=reason: r in cameras.report, reason, within=20.0,
        )  # fmt: skip
    cameras.lag = 0.0
    assert not len(cameras.centres)
    cameras.show_points(nothing)
    cameras.show_points(np.empty((0, 3)))
    occupied(cameras, lambda: cameras.show_from_arm(points, 0.0), "transforms in time")
    cameras.clear()
    many = np.tile(points, (2, 1))
    occupied(cameras, lambda: cameras.show_points(many), "clouds again")


def test_a_camera_that_stops(cameras):
    client = cameras.client
    stops = client.listen(EmptyMessage, "/stop", RELIABLE)  # discovered before the only message
    occupied(cameras, lambda: cameras.show(DEPTH), "the box")
    client.repeat(cameras.state, lambda: "no image mapped for" in cameras.report, "the age")
    assert len(cameras.centres)
    cameras.set(camera_stopped="decay")
    client.repeat(cameras.state, lambda: not len(cameras.centres), "the decay")
    assert not stops
    cameras.set(camera_stopped="block")
    client.repeat(cameras.state, lambda: stops.newest is not None, "the stop")
    client.repeat(cameras.state, lambda: "blocked" in cameras.report, "the report")


@pytest.mark.long
def test_the_region_follows_a_base_that_moves_in_the_map(module_suite, cameras):
    """A wall 0.6 m ahead of the base is mapped 3 m from the region of the start."""
    module_suite.node(
        "occupancy_mapper", name="moving_mapper", robot="franka", map_frame="odom",
        point_clouds=["/front/points"],
    )  # fmt: skip
    client = cameras.client
    clouds = client.publisher(PointCloud2, "/front/points")
    heard = client.listen(Octomap, "/moving_mapper/octomap_binary", LATCHED)
    moving = client.node.create_publisher(TFMessage, "/tf", RELIABLE)
    sender = TransformSender(moving, [("odom", "panda_link0")])
    wall = np.column_stack((np.full(400, 0.9), *np.random.default_rng(1).uniform(
        (-0.3, 0.3), (0.3, 0.6), (400, 2)).T))  # fmt: skip
    place = 0.0

    def show() -> None:
        now = client.node.get_clock().now().nanoseconds
        X = np.eye(4)
        X[0, 3] = place
        sender.send(X[None], now)
        cameras.state()
        message = cloud_message(wall.astype(np.float32), "panda_link0", Image().header.stamp)
        set_stamp(message, now)
        clouds.publish(message)

    def seen_at() -> float:
        solid = None if heard.newest is None else voxels_of(heard.newest)
        return -1.0 if solid is None else float(solid.cells[:, 0].max() * solid.resolution)

    client.repeat(show, lambda: abs(seen_at() - 0.9) < 0.03, "the wall", within=20.0)
    # The region begins where the base is first known to be, which is some time after its transform.
    client.repeat_for(show, 1.0)
    place = 3.0
    client.repeat(show, lambda: abs(seen_at() - 3.9) < 0.03, "the wall after the way", within=20.0)


def distances(cameras, points, frame="panda_link0"):
    request = GetStateValidity.Request()
    given = request.robot_state.multi_dof_joint_state
    given.header.frame_id = frame
    for k, (x, y, z) in enumerate(points):
        transform = Transform()
        transform.translation.x, transform.translation.y, transform.translation.z = x, y, z
        given.transforms.append(transform)
        given.joint_names.append(f"point {k}")
    return cameras.client.call(GetStateValidity, "/occupancy_mapper/get_distances", request)


def test_distances_are_served_and_shown_as_slices(cameras):
    client = cameras.client
    image = client.listen(Image, "/occupancy_mapper/distance_slice")
    cloud = client.listen(PointCloud2, "/occupancy_mapper/distance_slice_points")
    occupied(cameras, lambda: cameras.show(DEPTH), "the box")
    above = np.array([(0.6, 0.0, BOX[0, 1, 2] + d) for d in (0.1, 0.2)])
    found = distances(cameras, above.tolist())
    assert found.valid
    assert [c.contact_body_1 for c in found.contacts] == ["point 0", "point 1"]
    for contact, true in zip(found.contacts, (0.1, 0.2), strict=True):
        assert contact.depth == pytest.approx(-true, abs=0.03)
        normal = np.array([contact.normal.x, contact.normal.y, contact.normal.z])
        assert normal[2] / np.linalg.norm(normal) > 0.95
        assert contact.header.frame_id == "panda_link0"
    # The same points in the frame of the camera.
    X = np.linalg.inv(EYE)
    moved = distances(cameras, (above @ X[:3, :3].T + X[:3, 3]).tolist(), "eye")
    for a, b in zip(found.contacts, moved.contacts, strict=True):
        assert a.depth == pytest.approx(b.depth, abs=0.01)
    inside = distances(cameras, [tuple(cameras.centres[0])])
    assert not inside.valid
    assert inside.contacts[0].depth > 0.0
    for bad, frame in (((np.nan, 0.0, 0.0), ""), ((1e300, 0.0, 0.0), ""), ((0.0,) * 3, "moon")):
        refused = distances(cameras, [bad], frame)
        assert not refused.valid
        assert not refused.contacts
    client.wait(lambda: image.newest and cloud.newest, "slices")
    client.wait(lambda: slice_of(image.newest).min() < 0.0, "a slice with the box")
    assert slice_of(image.newest).shape == (100, 100)
    fields = [field.name for field in cloud.newest.fields]
    assert fields == ["x", "y", "z", "intensity"]

    def touched() -> np.ndarray:
        rows = np.frombuffer(cloud.newest.data, np.float32).reshape(-1, 4)
        return rows[rows[:, 3] < 0.0]

    client.wait(lambda: len(touched()), "points of the box")
    assert (np.abs(touched()[:, :2] - (0.6, 0.0)).max(axis=1) < 0.14).all()


def slice_of(message):
    return np.frombuffer(message.data, np.float32).reshape(message.height, message.width)
