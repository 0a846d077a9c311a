# SPDX-License-Identifier: Apache-2.0
"""The object detector over DDS: detections in images and clouds, and refused messages.

The node is in the process of the test, which steps it.
"""

from __future__ import annotations

import numpy as np
import pytest
from moveit_msgs.msg import AttachedCollisionObject, PlanningScene
from moveit_msgs.srv import GetPlanningScene
from nodes.test_occupancy_mapper import EYE, FRANKA, PINHOLE, Cameras
from perception.boxes_seen import depth_of
from rclpy.parameter import Parameter
from ros_client import RELIABLE
from scene_requests import box, detached, diff
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.nodes.object_detector import ObjectDetectorNode
from motion_nodes.ros.diagnostics import Report

FLOOR = [(-2.0, -2.0, -0.1), (2.0, 2.0, 0.0)]
CUBE = [(0.6, 0.2, 0.0), (0.68, 0.28, 0.08)]
CRATE = [(0.6, -0.3, 0.0), (0.75, -0.1, 0.06)]


def seen(*boxes: list) -> np.ndarray:
    return depth_of(np.array([FLOOR, *boxes]), EYE, PINHOLE)


class Detector:
    """The node and what it publishes."""

    def __init__(self, client) -> None:
        args = ["--ros-args", "-r", "__node:=object_detector", "-p", "robot:=franka"]
        for name, value in (
            ("depth_images", "['/left/image']"), ("point_clouds", "['/right/points']"),
            ("models", "['red_cube:=box:0.08,0.08,0.08']"), ("max_age", "30.0"),
            ("color_images", "['/left/color']"),
        ):  # fmt: skip
            args += ["-p", f"{name}:={value}"]
        self.node = ObjectDetectorNode(ros_args=args)
        self.node.trigger_configure()
        assert self.node.failure is None
        self.cameras = Cameras(client)
        self.client = client
        self.heard = client.listen(MarkerArray, "/object_detector/objects")
        self.scenes = client.publisher(PlanningScene, "/monitored_planning_scene", RELIABLE)
        client.node.create_service(GetPlanningScene, "/get_planning_scene", lambda _, empty: empty)

    @property
    def report(self) -> Report:
        made = Report()
        self.node.diagnose(made)
        return made

    def in_hand(self, *bodies: AttachedCollisionObject) -> None:
        """Publish objects attached to the robot, and an image without objects."""
        self.scenes.publish(diff(attached=bodies))
        self.cameras.show(seen())

    def until(self, publish, condition) -> None:
        def cycle() -> bool:
            self.node.tick(0.1)
            return condition()

        self.client.repeat(publish, cycle, "the detector", within=60.0)

    @property
    def found(self) -> dict[str, Marker]:
        return {m.ns: m for m in self.heard.newest.markers} if self.heard else {}


@pytest.fixture(scope="module")
def detector(ros, module_client):
    made = Detector(module_client)
    made.until(made.cameras.state, lambda: not made.node.waiting_for())
    yield made
    made.node.destroy_node()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_objects_in_images_and_clouds_have_poses_names_and_stamps(detector) -> None:
    cameras = detector.cameras
    detector.until(lambda: cameras.show(seen(CUBE, CRATE)), lambda: len(detector.found) == 2)
    cube, crate = detector.found["red_cube"], detector.found["object_1"]
    assert cube.header.frame_id == "panda_link0"
    assert cube.header.stamp.sec > 0
    assert (cube.type, crate.type) == (Marker.CUBE, Marker.CUBE)
    at = cube.pose.position
    assert (at.x, at.y, at.z) == pytest.approx((0.64, 0.24, 0.04), abs=0.01)
    assert cube.scale.x == pytest.approx(0.08)
    at = crate.pose.position
    assert (at.x, at.y, at.z) == pytest.approx((0.675, -0.2, 0.03), abs=0.012)
    assert sorted((crate.scale.x, crate.scale.y)) == pytest.approx((0.15, 0.2), abs=0.02)
    points = DepthProjection(PINHOLE).points(seen(CUBE))
    points[::7], points[3::7] = np.nan, np.inf
    detector.node.activate()
    detector.until(lambda: cameras.show_points(points), lambda: set(detector.found) == {"red_cube"})


def test_what_the_robot_hides_or_carries_is_reported_as_it_was(detector) -> None:
    cameras, node = detector.cameras, detector.node
    node.activate()
    detector.until(lambda: cameras.show(seen(CUBE)), lambda: "red_cube" in detector.found)
    detector.until(lambda: cameras.show(seen()), lambda: not detector.found)
    detector.until(lambda: cameras.show(seen(CUBE)), lambda: "red_cube" in detector.found)
    # Attached to the hand: its pose follows the hand, its stamp is that of the last detection.
    link, q = "panda_hand", FRANKA.home
    X_BL = Kinematics(FRANKA.tree, FRANKA.joint_names, base="panda_link0").pose(q, link)
    X_LO = from_xyz_rpy((0.0, 0.0, 0.1))
    cube = box("red_cube", (0.08,) * 3, X_LO[:3, 3], frame=link)
    body = AttachedCollisionObject(object=cube, link_name=link)

    def moved() -> bool:
        found = detector.found.get("red_cube")
        if found is None:
            return False
        at = found.pose.position
        return bool(np.abs((X_BL @ X_LO)[:3, 3] - (at.x, at.y, at.z)).max() < 1e-3)

    detector.until(lambda: detector.in_hand(body), moved)
    carried = detector.found["red_cube"]
    detector.heard.clear()
    detector.until(lambda: cameras.show(seen()), moved)
    assert detector.found["red_cube"].header.stamp == carried.header.stamp
    # Released, still between the fingers.
    detector.heard.clear()
    detector.until(lambda: detector.in_hand(detached()), lambda: len(detector.heard) > 4)
    assert detector.found["red_cube"].pose == carried.pose


def test_colors_and_descriptions_name_objects(detector) -> None:
    cameras, depth = detector.cameras, seen(CUBE, CRATE)
    points = DepthProjection(PINHOLE).points(depth) @ EYE[:3, :3].T + EYE[:3, 3]
    color = np.full((*depth.shape, 3), 200, np.uint8)
    for (low, high), value in ((CUBE, (0.15, 0.62, 0.22)), (CRATE, (0.13, 0.33, 0.80))):
        inside = ((points >= np.array(low) - 1e-3) & (points <= np.array(high) + 1e-3)).all(axis=1)
        color[inside.reshape(depth.shape)] = np.round(255 * np.array(value))
    show = lambda: cameras.show(depth, color=color)  # noqa: E731
    detector.until(show, lambda: {m.text for m in detector.found.values()} == {"green", "blue"})
    assert detector.found["red_cube"].text == "green"  # named by its size
    texts = Parameter("descriptions", value=["blue box", "yellow ball"])
    assert detector.node.set_parameters([texts])[0].successful
    detector.until(show, lambda: "blue_box" in detector.found)
    assert detector.found["blue_box"].text == "blue"
    assert "yellow_ball" not in detector.found
    # Images of another time or size are not used.
    detector.until(
        lambda: cameras.show(depth, color=color[::2].copy()),
        lambda: {m.text for m in detector.found.values()} == {""},
    )


def test_images_without_a_known_frame_or_time_are_refused(detector) -> None:
    cameras, node = detector.cameras, detector.node
    node.activate()

    def dropped(camera: str, why: str) -> bool:
        return any(camera in text and why in text for text in detector.report.texts)

    left, right = "/left/image", "/right/points"
    detector.until(lambda: cameras.show(seen(CUBE), frame="moon"), lambda: dropped(left, "moon"))
    cameras.lag = -5.0
    detector.until(lambda: cameras.show(seen(CUBE)), lambda: dropped(left, "future"))
    cameras.lag = 0.0
    detector.until(
        lambda: cameras.show_points(np.full((50, 3), np.nan, np.float32)),
        lambda: "0 points" in detector.report.values["objects"],
    )
    assert not dropped(right, "")
    assert node.check(node.params) is None


def test_models_that_cannot_be_are_refused_at_the_start(ros) -> None:
    node = ObjectDetectorNode(
        ros_args=[
            "--ros-args",
            "-r",
            "__node:=of_no_models",
            "-p",
            "robot:=franka",
            "-p",
            "models:=['cube:=box:1']",
        ]
    )
    try:
        node.trigger_configure()
        assert "cube:=box:1" in str(node.failure)
    finally:
        node.destroy_node()
