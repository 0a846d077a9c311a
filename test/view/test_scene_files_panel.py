# SPDX-License-Identifier: Apache-2.0
"""Saving and loading planning scenes by the panel, without a page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from view.toy_robot import pose

from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.moveit_scene_file import scene_text
from motion_nodes.core.scene.scene import AttachedBody, Part, Scene, world_object
from motion_nodes.core.scene.scenery import SCENERY
from motion_nodes.core.scene.shapes import HalfSpace
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.viewer.planning_view import loaded_objects, saved_objects

BOX = world_object("box", Box((0.1, 0.2, 0.3)), pose((0.5, 0.0, 0.2)), rgba=(1.0, 0.0, 0.0, 1.0))
BALL = world_object("ball", Sphere(0.1), pose((0.0, 0.5, 0.2)))
FLOOR = replace(world_object("floor", HalfSpace(), static=True), kind=SCENERY)


def test_what_was_saved_is_loaded_without_the_scenery():
    scene = Scene({item.name: item for item in (FLOOR, BOX, BALL)})
    content = scene_text(saved_objects(scene), "cell").encode()
    items = loaded_objects(content, "cell.scene", Scene())
    assert [item.name for item in items] == ["box", "ball"]
    assert items[0].parts[0].solid == BOX.parts[0].solid
    assert items[0].rgba == BOX.rgba
    np.testing.assert_allclose(items[0].X_WO, BOX.X_WO)


def test_what_the_robot_holds_is_not_loaded_beside_it():
    held = AttachedBody("ball", "hand", np.eye(4), (Part(Sphere(0.1), np.eye(4)),))
    content = scene_text((BOX, BALL)).encode()
    items = loaded_objects(content, "cell.scene", Scene(attached={"ball": held}))
    assert [item.name for item in items] == ["box"]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"cell\n* box\nnot a number\n"])
def test_other_files_are_refused_by_name(content):
    with pytest.raises(InvalidDescription, match=r"notes\.scene, line"):
        loaded_objects(content, "notes.scene", Scene())
