# SPDX-License-Identifier: Apache-2.0
"""Objects that are observed, and their detector."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh
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
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.skill_poses import grasps_of
from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.nodes.object_detector import ObjectDetectorNode
from motion_nodes.nodes.task.observed_objects import SHOWN_WITHIN, ObservedObjects
from motion_nodes.nodes.task.skill_parts import not_detected
from motion_nodes.ros.diagnostics import Report


def marker(name: str, x: float, number: int = 0) -> Marker:
    found = Marker(ns=name, id=number, type=Marker.CUBE)
    found.pose.position.x, found.pose.orientation.w = x, 1.0
    found.scale.x = found.scale.y = found.scale.z = 0.04
    found.header.stamp.sec = 100
    return found


class Observer:
    """Objects of a detector with messages of the test; ``shown``: published collision objects."""

    def __init__(self) -> None:
        self.warnings: dict[str, str] = {}
        self.base: np.ndarray | None = np.eye(4)
        self.message: MarkerArray | None = None
        self.now = 100.0
        self.shown: list[Any] = []
        ignored = SimpleNamespace(publish=self.shown.append)
        node: Any = SimpleNamespace(
            poll=lambda *args: SimpleNamespace(newest=lambda: self.message),
            advertise=lambda *args: ignored,
            now=lambda: self.now,
            warn=self.warnings.__setitem__,
        )
        follower: Any = SimpleNamespace(world=World())
        robot: Any = SimpleNamespace(base_frame="base")
        self.objects = ObservedObjects(node, follower, robot, lambda: self.base, "/objects")
        self.time = 0.0

    def see(self, *markers: Marker) -> set[str]:
        self.message, self.time = MarkerArray(markers=list(markers)), self.time + 1.0
        self.warnings.clear()
        self.objects.update(self.time)
        return set(self.objects.states(self.time))


def test_two_detections_of_one_name_are_both_refused_and_named():
    observer = Observer()
    assert observer.see(marker("cube", 0.3), marker("bowl", 0.5)) == {"cube", "bowl"}
    assert not observer.warnings
    seen = observer.see(marker("cube", 0.3), marker("bowl", 0.5), marker("cube", 0.4, 1))
    assert seen == {"bowl"}
    assert observer.objects.detected("cube") is None
    assert observer.objects.ambiguous == ("cube",)
    assert "'cube'" in observer.warnings["marker cube"]
    # New ambiguous names are refused too; a name that is unique again is used.
    assert observer.see(marker("cube", 0.4), marker("cup", 0.3), marker("cup", 0.3, 1)) == {"cube"}
    assert observer.objects.ambiguous == ("cup",)


def test_a_detection_without_a_name_is_no_object():
    """In planning scenes an empty name stands for all objects."""
    observer = Observer()
    assert observer.see(marker("", 0.3), marker("bowl", 0.5)) == {"bowl"}
    assert "namespace" in observer.warnings["marker "]
    assert [item.id for item in observer.shown] == ["bowl"]


def test_why_an_object_is_not_observed_is_said():
    observer = Observer()
    observer.see(marker("cube", 0.3))
    observer.now += 7.0
    silent = not_detected(observer.objects, "cube", since=101.0)
    assert (silent.code, "nothing for 7 s" in str(silent)) == (TaskCode.NOT_DETECTED, True)
    observer.see(marker("cube", 0.3), marker("cube", 0.4, 1))
    twice = not_detected(observer.objects, "cube", since=101.0)
    assert (twice.code, "several" in str(twice)) == (TaskCode.AMBIGUOUS_OBJECT, True)
    observer.see(marker("bowl", 0.3))
    gone = not_detected(observer.objects, "cube", since=101.0)
    assert (gone.code, "no longer" in str(gone)) == (TaskCode.NOT_DETECTED, True)


def test_a_mesh_keeps_its_shape_in_the_scene_and_is_grasped_by_its_surface(tmp_path):
    """An L: opposite surfaces are nearer than those of its box, and its origin is a corner."""
    outline = np.array(((0, 0), (0.12, 0), (0.12, 0.03), (0.03, 0.03), (0.03, 0.12), (0, 0.12)))
    path = tmp_path / "ell.stl"
    solid = trimesh.creation.extrude_triangulation(
        outline, np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]), 0.04
    )
    solid.apply_scale(1000.0)
    solid.export(path)
    seen = marker("ell", 0.4)
    seen.type, seen.mesh_resource = Marker.MESH_RESOURCE, f"file://{path}"
    seen.scale.x = seen.scale.y = seen.scale.z = 0.001
    observer = Observer()
    assert observer.see(seen) == {"ell"}
    state = observer.objects.detected("ell")
    assert state is not None
    np.testing.assert_allclose(state.shape.size, (0.12, 0.12, 0.04), atol=1e-6)
    np.testing.assert_allclose(state.X_WO[:3, 3], (0.46, 0.06, 0.02), atol=1e-6)
    widths = {round(grasp.width, 3) for grasp in grasps_of(state, 0.08)}
    assert widths == {0.03}
    (shown,) = observer.shown
    assert len(shown.meshes[0].triangles) == len(solid.faces)
    assert shown.pose.position.x == pytest.approx(0.4)
    # A missing file is named, and the object is left out.
    gone = marker("cup", 0.3)
    gone.type, gone.mesh_resource = Marker.MESH_RESOURCE, "file:///nowhere/cup.stl"
    assert observer.see(gone) == set()
    assert "/nowhere/cup.stl" in observer.warnings["marker cup"]


def test_objects_stay_where_they_are_while_the_base_moves():
    observer = Observer()
    observer.see(marker("cube", 2.0))
    observer.base = from_xyz_rpy((1.0, 0.0, 0.0), (0.0, 0.0, 0.5 * np.pi))
    observer.see(marker("cube", 2.0))
    seen = observer.objects.detected("cube")
    assert seen is not None
    np.testing.assert_allclose(seen.X_WO[:2, 3], (0.0, -1.0), atol=1e-9)
    assert len(observer.shown) == 2  # the planning scene is that of the base
    # Without odometry, detections are ignored.
    observer.base = None
    observer.see(marker("cup", 1.0))
    assert observer.objects.detected("cup") is None


@pytest.mark.parametrize("begin", [1.7e9, 0.5])
def test_a_shown_object_is_known_until_it_is_in_the_scene(begin):
    """In wall time and in simulated time, with any time since the start of the machine."""
    observer = Observer()
    observer.see(marker("cube", 0.3))
    state = observer.objects.detected("cube")
    assert state is not None
    observer.now = begin
    observer.objects.show(replace(state, name="tray"))
    assert "tray" in observer.objects.states(begin + 1.0)
    assert "tray" not in observer.objects.states(begin + SHOWN_WITHIN + 1.0)


def test_detections_are_written_to_the_scene_after_a_reset_of_simulated_time():
    observer = Observer()
    observer.time = 1000.0
    observer.see(marker("cube", 0.3))
    observer.time = 0.0
    observer.see(marker("cube", 0.4))
    assert len(observer.shown) == 2


def test_markers_that_are_deleted_or_name_no_file_are_no_objects():
    observer = Observer()
    gone = marker("cube", 0.3)
    gone.action = Marker.DELETE
    unnamed = Marker(action=Marker.DELETEALL)
    long = marker("cup", 0.3)
    long.type, long.mesh_resource = Marker.MESH_RESOURCE, f"file:///{'a' * 300}.stl"
    assert observer.see(unnamed, gone, long) == set()
    assert list(observer.warnings) == ["marker cup"]


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
def test_objects_in_images_and_clouds_have_poses_names_and_stamps(detector):
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


def test_what_the_robot_hides_or_carries_is_reported_as_it_was(detector):
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


def test_colors_and_descriptions_name_objects(detector):
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


def test_images_without_a_known_frame_or_time_are_refused(detector):
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


def test_models_that_cannot_be_are_refused_at_the_start(ros):
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
