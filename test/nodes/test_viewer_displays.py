# SPDX-License-Identifier: Apache-2.0
"""The viewer node shows frames, a cloud and an image, and subscribes only while they are shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from rclpy.executors import SingleThreadedExecutor
from ros_client import LATCHED, RELIABLE, RosClient
from sensor_msgs.msg import Image, PointCloud2
from tf2_msgs.msg import TFMessage

from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.displays import OFF
from motion_nodes.nodes.browser_viewer import BrowserViewerNode
from motion_nodes.ros.messages.camera_messages import cloud_message, depth_message

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cell(
    ros: None, module_client: RosClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimpleNamespace]:
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


def test_what_is_selected_is_subscribed_and_shown(cell: SimpleNamespace) -> None:
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
    assert page.displays._cloud._node.position == pytest.approx((1.6, 0.0, 0.0))
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
