# SPDX-License-Identifier: Apache-2.0
"""Scene files of the planner: written, replaced, refused."""

import os

import pytest

from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.nodes.planner.planning_scene import load_scene_file, save_scene

BALL = world_object("ball", Sphere(0.1))


def test_a_scene_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "cell.scene"
    save_scene(str(path), (BALL,), "cell")
    save_scene(str(path), (), "cell")
    assert load_scene_file(str(path)) == ()
    assert os.listdir(tmp_path) == ["cell.scene"], "no temporary file remains"


@pytest.mark.parametrize(
    "name", ["", "cell.scene", "{}/cell.txt", "{}/none/cell.scene", "{}/link.scene", "{}/a\0.scene"]
)
def test_other_paths_are_not_written(tmp_path, name):
    (tmp_path / "link.scene").symlink_to(tmp_path / "else")
    with pytest.raises(InvalidCommand):
        save_scene(name.format(tmp_path), (BALL,), "cell")
    assert os.listdir(tmp_path) == ["link.scene"]


def test_a_file_that_is_no_scene_is_kept(tmp_path):
    path = tmp_path / "notes.scene"
    path.write_bytes(b"\xff\xfe my notes")
    with pytest.raises(InvalidDescription):
        save_scene(str(path), (BALL,), "cell")
    assert path.read_bytes() == b"\xff\xfe my notes"


def test_folders_and_devices_are_not_read(tmp_path):
    for name in (str(tmp_path), "/dev/zero", str(tmp_path / "none.scene"), "relative.scene"):
        with pytest.raises(InvalidCommand):
            load_scene_file(name)
