# SPDX-License-Identifier: Apache-2.0
"""Binary files of OctoMap: as OctoMap reads and writes them, back and forth."""

import math

import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.octomap_file import octomap_bytes, read_octomap
from motion_nodes.core.scene.voxels import moved, voxels
from motion_nodes.errors import MotionError

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("count", [1, 2, 500])
def test_maps_are_read_back_and_nodes_are_counted(count):
    """OctoMap refuses a file whose number of nodes is not that of its tree."""
    made = voxels(0.04, RNG.integers(-200, 200, (count, 3)))
    content = octomap_bytes(made)
    back = read_octomap(content, "a.bt")
    assert back is not None
    assert back.resolution == made.resolution
    assert np.array_equal(back.cells, made.cells)
    keys = made.cells.astype(np.int64) + (1 << 15)
    nodes = sum(len(np.unique(keys >> level, axis=0)) for level in range(17))
    assert f"\nsize {nodes}\n".encode() in content


def test_an_empty_map():
    content = octomap_bytes(None, 0.1)
    assert content.endswith(b"\nsize 0\nres 0.1\ndata\n")
    assert read_octomap(content, "a.bt") is None


def test_comments_and_coloured_trees_are_read():
    made = voxels(0.5, [[1, 2, 3]])
    head, _, data = octomap_bytes(made).partition(b"#\nid OcTree\n")
    more = head + b"# (feel free to add comments)\n#\nid ColorOcTree\n" + data
    back = read_octomap(more, "a.bt")
    assert back is not None
    assert back.cells.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(("old", "new"), [
    (b"binary file", b"file"), (b"\ndata\n", b"\n"), (b"res 0.5", b"res x"),
    (b"res 0.5", b"rest"), (b"id OcTree", b"id Tree"), (b"res 0.5", b"res nan"),
])  # fmt: skip
def test_other_files_are_refused(old, new):
    content = octomap_bytes(voxels(0.5, [[1, 2, 3]]))
    with pytest.raises(MotionError):
        read_octomap(content.replace(old, new), "a.bt")
    with pytest.raises(MotionError):
        read_octomap(content[:-1], "a.bt")


def test_voxels_in_another_frame():
    made = voxels(0.1, RNG.integers(-20, 20, (50, 3)))
    assert moved(made, np.eye(4)) is made
    shifted = moved(made, from_xyz_rpy((0.3, -0.2, 0.1), (0.0, 0.0, 0.0)))
    offset = np.array([3, -2, 1])
    expected = set(map(tuple, (made.cells + offset).tolist()))
    assert expected == set(map(tuple, shifted.cells.tolist()))
    turned = moved(made, from_xyz_rpy((0.0, 0.0, 0.0), (0.0, 0.0, 0.5 * math.pi)))
    x, y, z = made.cells.T
    expected = np.column_stack([-y - 1, x, z])
    assert set(map(tuple, expected.tolist())) == set(map(tuple, turned.cells.tolist()))
