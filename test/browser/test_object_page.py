# SPDX-License-Identifier: Apache-2.0
"""Objects of the planning scene, edited in a real browser."""

import numpy as np
import pytest
from browser.franka_cell import arrow
from browser.pictures import keep_picture

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Sphere
from motion_nodes.core.scene.scene import world_object

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_an_object_is_added_dragged_and_removed(cell, tmp_path):
    page, editor = cell.page, cell.live.planning.editor
    page.tab("Scene")
    page.click("Add object")
    name, item = cell.wait(lambda: cell.objects[-1:], "the object is asked for")[0]
    assert name == "box_1"
    assert item.parts[0].solid == Box((0.1, 0.1, 0.1))
    cell.wait(lambda: editor.handles.visible and editor.choice.value == name, "it is chosen")
    page.wait_until_drawn()
    keep_picture(page, "object", tmp_path)
    before = editor.handles.pose

    def dragged() -> bool:
        page.drag(arrow(cell, editor.handles, 2, 0.7), arrow(cell, editor.handles, 2, 1.6))
        return len(cell.objects) > 1

    cell.wait(dragged, "the object is dragged")
    cell.wait(lambda: cell.objects[-1][1].X_WO[2, 3] > before[2, 3] + 0.02, "it moves up")
    name, moved = cell.objects[-1]
    assert name == "box_1"
    assert moved.parts is item.parts, "moved, not made anew"
    np.testing.assert_allclose(moved.X_WO[:2, 3], before[:2, 3], atol=1e-4)
    cell.wait(lambda: not editor.animated, "the owner's pose is shown again")
    node = cell.live.planning.objects._nodes["object", "box_1"]

    def shown() -> bool:
        place = cell.world.scene.objects["box_1"].X_WO[:3, 3]
        return bool(np.allclose(node.position, place, rtol=1e-7, atol=0.0))

    cell.wait(shown, "it is drawn where it is")
    page.click("Remove object")
    cell.wait(lambda: cell.objects[-1] == ("box_1", None), "the object is to go")
    cell.wait(lambda: not editor.handles.visible, "the handles are gone")
    cell.wait(lambda: editor.choice.value == "(none)", "nothing is chosen")


def test_a_click_on_an_object_chooses_it(cell):
    editor = cell.live.planning.editor
    place = from_xyz_rpy((0.3, 0.45, 0.4))
    cell.world.add(world_object("ball", Sphere(0.12), place))
    cell.viewer.robot("franka").update_scene(cell.world.scene)
    cell.wait(lambda: "ball" in editor.choice.options, "the ball is known")
    cell.page.wait_until_drawn()

    def chosen() -> bool:
        cell.page.click_at(cell.pixel(place[:3, 3]))
        return editor.choice.value == "ball"

    cell.wait(chosen, "the ball is chosen")
    cell.wait(lambda: editor.handles.visible, "it can be dragged")
    cell.world.clear()
    cell.viewer.robot("franka").update_scene(cell.world.scene)
    cell.wait(lambda: editor.choice.value == "(none)", "nothing is chosen")
