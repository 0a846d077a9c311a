# SPDX-License-Identifier: Apache-2.0
"""Recordings on the page: images by their topics and times, beside the motions of the robots."""

from pathlib import Path

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, JointState

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot
from motion_nodes.nodes.viewer import viewer_displays
from motion_nodes.nodes.viewer.viewer_displays import (
    RecordedRobot,
    recorded_images,
    recorded_motions,
)
from motion_nodes.ros.recording import McapFile, Received

FRANKA = load_robot("franka")
TOPIC = "/camera/color/image_raw"
SECOND = 1_000_000_000


def image(level: int, encoding: str = "mono8") -> Image:
    return Image(height=2, width=3, step=3, encoding=encoding, data=bytes([level] * 6))


def recording(folder: Path, *images: Image) -> bytes:
    """Return a file with an image each second, and the joint states before them."""
    path = folder / "made.mcap"
    file = McapFile(path)
    state = JointState(name=list(FRANKA.joint_names), position=FRANKA.home.tolist())
    kinds = [("/joint_states", "sensor_msgs/msg/JointState", state)]
    kinds += [(TOPIC, "sensor_msgs/msg/Image", each) for each in images]
    for k, (topic, kind, message) in enumerate(kinds):
        when = (5 + k) * SECOND
        file.write(Received(topic, kind, serialize_message(message), when, when))
    file.close()
    return path.read_bytes()


def test_images_are_found_by_topic_and_decoded_when_shown(tmp_path):
    content = recording(tmp_path, image(10), image(200), image(30, "odd"))
    (found,) = recorded_images(content).items()
    topic, images = found
    assert topic == TOPIC
    np.testing.assert_allclose(images.times, [1.0, 2.0, 3.0])
    assert [images.index_at(t) for t in (0.0, 1.0, 1.9, 2.0, 9.0)] == [0, 0, 0, 1, 2]
    np.testing.assert_array_equal(images.pixels(1), np.full((2, 3, 3), 200))
    with pytest.raises(MotionError, match="odd"):
        images.pixels(2)
    robots = {"franka": RecordedRobot(FRANKA, "/joint_states", "", np.eye(4))}
    np.testing.assert_allclose(recorded_motions(content, robots)["franka"].positions[0],
                               FRANKA.home)  # fmt: skip


def test_images_beyond_the_memory_are_left_out_and_other_files_named(tmp_path, monkeypatch):
    content = recording(tmp_path, image(1), image(2), image(3))
    size = len(serialize_message(image(1)))
    monkeypatch.setattr(viewer_displays, "MAX_IMAGE_BYTES", 2 * size)
    assert len(recorded_images(content)[TOPIC].times) == 2
    with pytest.raises(InvalidConfig, match="the file"):
        recorded_images(b"no recording")


def test_the_page_shows_the_image_of_the_time_of_the_slider(tmp_path):
    images = recorded_images(recording(tmp_path, image(10), image(200), image(30, "odd")))
    viewed = ViewedRobot.of(FRANKA)
    with BrowserViewer([viewed], page=PageSettings(port=0), displays=True) as viewer:
        viewer.show_recording({}, "file", images)
        panel = viewer._recording
        panel.refresh()
        assert panel.playback.duration == 3.0
        assert panel.image.visible
        assert panel.picture is None
        panel.image.value, panel.playback.play.value = TOPIC, False
        for when, level in ((1.5, 10), (2.5, 200)):
            panel.playback.scrub.value = when
            panel.refresh()
            np.testing.assert_array_equal(panel.picture.image, np.full((2, 3, 3), level))
        panel.playback.scrub.value = 3.0
        panel.refresh()
        panel.refresh()
        assert "odd" in panel._line.content, "why an image is not shown"
        viewer.show_recording({}, "none")
        panel.refresh()
        assert panel.picture is None
        assert not panel.image.visible
