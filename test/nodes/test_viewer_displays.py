# SPDX-License-Identifier: Apache-2.0
"""The viewer node shows frames, a cloud and an image, and subscribes only while they are shown."""

import threading
from pathlib import Path as FilePath
from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, PoseStamped, TransformStamped
from nav_msgs.msg import Odometry, Path
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import serialize_message
from ros_client import LATCHED, RELIABLE
from sensor_msgs.msg import CameraInfo, Image, JointState, LaserScan, PointCloud2
from tf2_msgs.msg import TFMessage
from view.toy_robot import pose
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.meshes import resolve_mesh
from motion_nodes.core.scene.depth_camera import Pinhole
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.displays import OFF
from motion_nodes.nodes.browser_viewer import BrowserViewerNode
from motion_nodes.nodes.viewer.viewer_displays import MarkerStore, marker_drawings
from motion_nodes.ros.messages.camera_messages import (
    cloud_message,
    color_message,
    depth_message,
    info_message,
)
from motion_nodes.ros.messages.moveit_messages import pose_message
from motion_nodes.ros.recording import McapFile, Received

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cell(ros, module_client, monkeypatch):
    """A viewer in this process, of a base at x = 1 m."""
    args = ["--ros-args", "-p", "robots:=['left:=jetbot@1,0,0']", "-p", "port:=0"]
    node = BrowserViewerNode(args)
    node.trigger_configure()
    node.trigger_activate()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin)
    thread.start()
    pages = [1]
    monkeypatch.setattr(BrowserViewer, "client_count", property(lambda _: pages[0]))
    yield SimpleNamespace(node=node, page=node._viewer, client=module_client, pages=pages)
    node.stop()
    executor.shutdown()
    thread.join()
    node.destroy_node()


def transform(parent: str, child: str, x: float) -> TransformStamped:
    """Return a translation along x [m]."""
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.transform.translation.x = x
    message.transform.rotation.w = 1.0
    return message


def test_what_is_selected_is_subscribed_and_shown(cell):
    client, page = cell.client, cell.page
    panel = page.displays._panel
    static = client.publisher(TFMessage, "/tf_static", LATCHED)
    transforms = [
        transform("left/odom", "left/base_link", 0.5), transform("left/base_link", "left/eye", 0.1),
        transform("lost", "lost_camera", 0.0),
    ]  # fmt: skip
    static.publish(TFMessage(transforms=transforms))
    # Not client.publisher, which waits for a subscription: there must be none.
    clouds = client.node.create_publisher(PointCloud2, "/eye/points", RELIABLE)
    images = client.node.create_publisher(Image, "/eye/image", RELIABLE)

    def offered() -> bool:
        page._refresh_panels()
        return "/eye/points" in panel.cloud.options and "/eye/image" in panel.image.options

    client.wait(offered, "the topics")
    assert not clouds.get_subscription_count()
    panel.frames.value, panel.cloud.value, panel.image.value = True, "/eye/points", "/eye/image"
    cloud = cloud_message(
        np.array([(0.0, 0.0, 1.0), (np.nan, 0, 0)], np.float32), "left/eye", Time()
    )
    image = depth_message(np.ones((4, 6), np.float32), "left/eye", Time())

    def shown() -> bool:
        clouds.publish(cloud)
        images.publish(image)
        client.spin(0.1)
        page.flush()
        return page.displays._cloud.drawn == 1 and panel.picture is not None

    client.wait(shown, "cloud and image")
    assert set(page.displays._frames.drawn) == {"left/odom", "left/base_link", "left/eye"}
    assert page.displays._cloud.node.position == pytest.approx((1.6, 0.0, 0.0))
    told = "no transform to a robot from: lost, lost_camera"
    client.wait(lambda: panel._text == told, "the names of lost frames")
    cloud.header.frame_id = "lost_camera"

    def refused() -> bool:
        clouds.publish(cloud)
        client.spin(0.1)
        return "/eye/points: no transform from 'lost_camera' to a robot" in panel._text

    client.wait(refused, "the reason why the cloud is not placed")
    cell.pages[0] = 0
    client.wait(lambda: not clouds.get_subscription_count(), "no page")
    client.wait(lambda: not images.get_subscription_count(), "no page")
    panel.cloud.value = panel.image.value = OFF
    cell.pages[0] = 1
    client.spin(0.3)
    assert not clouds.get_subscription_count()


def marker(kind: int, *points: tuple[float, float, float], number: int = 0, **fields) -> Marker:
    """Return a marker at (1, 2, 3) in the frame of the eye, turned by 90 degrees about z."""
    made = Marker(type=kind, id=number, points=[Point(x=x, y=y, z=z) for x, y, z in points])
    made.header.frame_id = "left/eye"
    made.pose = pose_message(pose((1.0, 2.0, 3.0), (0.0, 0.0, np.pi / 2)))
    made.scale.x, made.scale.y, made.scale.z = 0.2, 0.4, 0.6
    made.color.g = made.color.a = 1.0
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize("kind", [Marker.CUBE, Marker.SPHERE, Marker.CYLINDER, Marker.ARROW])
def test_solids_have_the_size_and_place_of_their_marker(kind):
    X_WF = pose((10.0, 0.0, 0.0))
    (drawing,) = marker_drawings(marker(kind), X_WF)
    low, high = drawing.points.min(axis=0), drawing.points.max(axis=0)
    # x of the marker is y of the world; arrows begin at the pose.
    np.testing.assert_allclose(high - low, (0.4, 0.2, 0.6), rtol=0.03)
    ahead = 0.1 if kind == Marker.ARROW else 0.0
    np.testing.assert_allclose(0.5 * (low + high), (11.0, 2.0 + ahead, 3.0), atol=0.01)
    assert drawing.faces.max() == len(drawing.points) - 1
    corners = drawing.points[drawing.faces] - 0.5 * (low + high)
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    volume = np.einsum("ti,ti->", outward, corners[:, 0]) / 6.0
    share = {Marker.CUBE: 1.0, Marker.SPHERE: np.pi / 6, Marker.CYLINDER: np.pi / 4,
             Marker.ARROW: np.pi / 4 * (0.77 / 4 + 0.23 / 3)}[kind]  # fmt: skip
    assert volume == pytest.approx(0.2 * 0.4 * 0.6 * share, rel=0.06)


def test_lists_lines_texts_and_bad_numbers():
    X, ends = np.eye(4), ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    (strip,) = marker_drawings(marker(Marker.LINE_STRIP, *ends), X)
    np.testing.assert_allclose(
        strip.points, [(1, 2, 3), (1, 3, 3), (1, 3, 3), (0, 3, 3)], atol=1e-9
    )
    (lines,) = marker_drawings(marker(Marker.LINE_LIST, *ends), X)
    assert len(lines.points) == 2
    (cubes,) = marker_drawings(marker(Marker.CUBE_LIST, *ends), X)
    np.testing.assert_allclose(cubes.points.reshape(3, 8, 3).mean(axis=1)[2], (0, 3, 3), atol=1e-9)
    (arrow,) = marker_drawings(marker(Marker.ARROW, *ends[1:]), X)
    np.testing.assert_allclose(arrow.points.min(axis=0)[0], 0.0, atol=1e-9)  # its head
    (text,) = marker_drawings(marker(Marker.TEXT_VIEW_FACING, text="here"), X)
    assert (text.text, tuple(text.points[0])) == ("here", (1.0, 2.0, 3.0))
    for bad in (marker(Marker.LINE_LIST, (np.nan, 0.0, 0.0)), marker(Marker.CUBE)):
        bad.scale.x = np.inf
        with pytest.raises(InvalidCommand):
            marker_drawings(bad, X)


def test_meshes_come_from_packages_or_the_message_and_from_nowhere_else():
    name = "robots/so101/meshes/wrist_link.obj"
    mesh = marker(Marker.MESH_RESOURCE, mesh_resource=f"package://motion_nodes/{name}")
    mesh.scale.x = mesh.scale.y = mesh.scale.z = 2.0
    (drawing,) = marker_drawings(mesh, np.eye(4))
    file = resolve_mesh(mesh.mesh_resource, FilePath("/"))
    own = read_mesh(file).vertices
    np.testing.assert_allclose(drawing.points[:, 2], 3.0 + 2.0 * own[:, 2], atol=1e-9)
    sent = marker(Marker.MESH_RESOURCE, mesh_resource="x.obj")
    sent.mesh_file.data = file.read_bytes()
    assert len(marker_drawings(sent, np.eye(4))[0].faces) == len(drawing.faces)
    for bad in ("", "/etc/passwd", "file:///etc/passwd", "http://host/a.stl", "package://no/a.stl"):
        with pytest.raises(InvalidDescription):
            marker_drawings(marker(Marker.MESH_RESOURCE, mesh_resource=bad), np.eye(4))


def test_an_image_stands_before_its_camera(cell):
    client, page = cell.client, cell.page
    panel, view = page.displays._panel, page.displays._camera
    client.publisher(TFMessage, "/tf_static", LATCHED).publish(
        TFMessage(transforms=[transform("left/odom", "left/eye", 0.5)])
    )
    images = client.node.create_publisher(Image, "/eye/image", RELIABLE)
    infos = client.node.create_publisher(CameraInfo, "/eye/camera_info", RELIABLE)
    image = color_message(np.full((40, 60, 3), 90, np.uint8), "left/eye", Time())
    panel.image.value, panel.overlay.value = "/eye/image", True

    def said() -> bool:
        images.publish(image)
        client.spin(0.1)
        return "no message on /eye/camera_info" in panel._text

    client.wait(said, "the missing camera_info")

    def shown() -> bool:
        infos.publish(info_message(Pinhole(60, 40, 50.0, 20.0, 30.0, 20.0), "left/eye", Time()))
        images.publish(image)
        client.spin(0.1)
        page.flush()
        return view.node is not None

    client.wait(shown, "the image")
    assert (view.node.fov, view.node.aspect) == pytest.approx((np.pi / 2, (60 / 50) / (40 / 20)))
    np.testing.assert_allclose(view.node.position, (1.5, 0.0, 0.0))
    panel.overlay.value = False
    page.flush()
    assert view.node is None


def test_markers_are_replaced_deleted_and_live_as_long_as_they_say():
    store = MarkerStore()
    short = marker(Marker.CUBE, number=2, lifetime=Duration(sec=1))
    store.update([marker(Marker.CUBE), marker(Marker.SPHERE, number=1), short], 10.0)
    assert len(store.drawings(lambda _: np.eye(4))[0]) == 3
    store.update([], 10.5)
    assert not store.changed
    store.update([marker(Marker.TEXT_VIEW_FACING, text="x")], 11.5)
    assert [d.text == "" for d in store.drawings(lambda _: np.eye(4))[0]] == [False, True]
    store.update([marker(Marker.CUBE, number=1, action=Marker.DELETE)], 12.0)
    assert len(store.drawings(lambda _: np.eye(4))[0]) == 1
    assert "left/eye" in store.drawings(lambda _: None)[1]
    store.update([marker(Marker.CUBE, action=Marker.DELETEALL)], 12.0)
    assert store.drawings(lambda _: np.eye(4)) == ([], "")


def test_markers_paths_and_scans_are_placed_by_their_frames(cell):
    client, page = cell.client, cell.page
    panel, displays = page.displays._panel, page.displays
    client.publisher(TFMessage, "/tf_static", LATCHED).publish(
        TFMessage(transforms=[transform("left/odom", "left/eye", 0.5)])
    )
    single = client.node.create_publisher(Marker, "/marks", RELIABLE)
    arrays = client.node.create_publisher(MarkerArray, "/arrays", LATCHED)
    paths = client.node.create_publisher(Path, "/plan", LATCHED)
    scans = client.node.create_publisher(LaserScan, "/scan", RELIABLE)
    arrays.publish(MarkerArray(markers=[marker(Marker.CUBE, number=k) for k in range(3)]))
    path = Path(poses=[PoseStamped(), PoseStamped()])
    path.header.frame_id, path.poses[1].pose.position.x = "left/eye", 2.0
    paths.publish(path)
    scan = LaserScan(angle_min=0.0, angle_increment=0.1, range_min=0.1, range_max=5.0)
    scan.header.frame_id, scan.ranges = "left/eye", [1.0, 9.0, float("nan"), 2.0]

    def offered() -> bool:
        page._refresh_panels()
        boxes = (panel.markers, panel.path, panel.scan)
        return all(len(box.options) > 1 for box in boxes) and len(panel.markers.options) > 2

    client.wait(offered, "the topics")
    panel.markers.value, panel.path.value, panel.scan.value = "/arrays", "/plan", "/scan"

    def shown() -> bool:
        scans.publish(scan)
        client.spin(0.1)
        page.flush()
        views = displays._drawn
        return (len(views["markers"].nodes), len(views["path"].nodes), displays._scan.drawn) == (
            3, 1, 2)  # fmt: skip

    client.wait(shown, "what was latched, and the scan")
    np.testing.assert_allclose(
        displays._drawn["path"].nodes[0].points, [[(1.5, 0, 0), (3.5, 0, 0)]]
    )
    panel.markers.value = "/marks"

    def single_ones() -> bool:
        for k in range(2):
            single.publish(marker(Marker.TEXT_VIEW_FACING, number=k, text=f"{k}"))
        client.spin(0.1)
        page.flush()
        nodes = displays._drawn["markers"].nodes
        return [getattr(node, "text", "") for node in nodes] == ["0", "1"]

    client.wait(single_ones, "the markers of the other topic alone")


def test_an_uploaded_recording_moves_ghosts_and_no_robot(cell, tmp_path):
    page, panel = cell.page, cell.page._recording
    watched = cell.node._watched["left"]
    _, odometry = watched.recorded_topics()
    file = McapFile(tmp_path / "run.mcap")
    for k in range(5):
        state = JointState(name=["left_wheel_joint"], position=[0.5 * k])
        base = Odometry()
        base.pose.pose = pose_message(pose((0.2 * k, 0.0, 0.0), (0.0, 0.0, 0.3 * k)))
        for topic, kind, message in (
            ("/other/joint_states", "sensor_msgs/msg/JointState", state),  # of another namespace
            (odometry, "nav_msgs/msg/Odometry", base),
        ):
            now = 10**18 + k * 10**9
            file.write(Received(topic, kind, serialize_message(message), now, now))
    file.close()
    page.on_recording("run.mcap", (tmp_path / "run.mcap").read_bytes())
    cell.client.wait(lambda: panel._motions, "the recording")
    panel.playback.play.value = False
    panel.playback.scrub.value = 1.5
    page.flush()
    ghost = panel.ghosts["left"]
    assert ghost.q[watched.robot.joint_names.index("left_wheel_joint")] == pytest.approx(0.75)
    np.testing.assert_allclose(ghost.base.position, [1.3, 0.0, 0.0], atol=1e-6)  # placed at x = 1
    assert ghost.base.wxyz[3] == pytest.approx(np.sin(0.225), abs=1e-6)
    page.on_recording("notes.mcap", b"no recording")
    cell.client.wait(lambda: not panel._motions and "notes.mcap" in panel._text, "the refusal")
    page.flush()
    assert not ghost.base.visible
