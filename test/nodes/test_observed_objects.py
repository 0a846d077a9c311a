# SPDX-License-Identifier: Apache-2.0
"""Detections in the task server, without DDS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.world import World
from motion_nodes.extras.tasks.skill_poses import grasps_of
from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.nodes.task.observed_objects import SHOWN_WITHIN, ObservedObjects
from motion_nodes.nodes.task.skill_parts import not_detected


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


def test_two_detections_of_one_name_are_both_refused_and_named() -> None:
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


def test_a_detection_without_a_name_is_no_object() -> None:
    """In planning scenes an empty name stands for all objects."""
    observer = Observer()
    assert observer.see(marker("", 0.3), marker("bowl", 0.5)) == {"bowl"}
    assert "namespace" in observer.warnings["marker "]
    assert [item.id for item in observer.shown] == ["bowl"]


def test_why_an_object_is_not_observed_is_said() -> None:
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


def test_a_mesh_keeps_its_shape_in_the_scene_and_is_grasped_by_its_surface(tmp_path: Path) -> None:
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


def test_objects_stay_where_they_are_while_the_base_moves() -> None:
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
def test_a_shown_object_is_known_until_it_is_in_the_scene(begin: float) -> None:
    """In wall time and in simulated time, with any time since the start of the machine."""
    observer = Observer()
    observer.see(marker("cube", 0.3))
    state = observer.objects.detected("cube")
    assert state is not None
    observer.now = begin
    observer.objects.show(replace(state, name="tray"))
    assert "tray" in observer.objects.states(begin + 1.0)
    assert "tray" not in observer.objects.states(begin + SHOWN_WITHIN + 1.0)


def test_detections_are_written_to_the_scene_after_a_reset_of_simulated_time() -> None:
    observer = Observer()
    observer.time = 1000.0
    observer.see(marker("cube", 0.3))
    observer.time = 0.0
    observer.see(marker("cube", 0.4))
    assert len(observer.shown) == 2


def test_markers_that_are_deleted_or_name_no_file_are_no_objects() -> None:
    observer = Observer()
    gone = marker("cube", 0.3)
    gone.action = Marker.DELETE
    unnamed = Marker(action=Marker.DELETEALL)
    long = marker("cup", 0.3)
    long.type, long.mesh_resource = Marker.MESH_RESOURCE, f"file:///{'a' * 300}.stl"
    assert observer.see(unnamed, gone, long) == set()
    assert list(observer.warnings) == ["marker cup"]
