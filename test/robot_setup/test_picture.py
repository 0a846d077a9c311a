# SPDX-License-Identifier: Apache-2.0
"""The picture of a robot and its spheres: areas in closed form, PNG by another library."""

import io

import numpy as np
import pytest
from PIL import Image

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Shape
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.extras.robot_setup.readme import png, robot_picture


def test_spheres_are_seen_around_the_body_with_the_right_areas() -> None:
    edge, radius = 0.2, 0.25
    geometry = LinkGeometry.of_shapes([Shape(Box((edge,) * 3), np.eye(4))], lambda name: None)
    assert geometry is not None
    spheres = np.array([[0.0, 0.0, 0.0, radius]])
    data = robot_picture({"a": geometry}, {"a": spheres}, {"a": from_xyz_rpy((3.0, 2.0, 1.0))})
    image = np.asarray(Image.open(io.BytesIO(data)))
    left, right = image[:, : image.shape[0]], image[:, image.shape[0] :]
    body = float((left != 255).any(axis=2).sum())
    disc = float((right != 255).any(axis=2).sum())
    # Projected area of a cube: the sum of its faces' areas times their cosines to the viewer.
    towards = np.array([1.0, 0.75, 0.6]) / np.linalg.norm([1.0, 0.75, 0.6])
    shadow = edge**2 * towards.sum()
    assert disc / body == pytest.approx(np.pi * radius**2 / shadow, rel=0.03)
    rows = np.flatnonzero((right != 255).any(axis=(1, 2)))
    assert 0.5 * (rows[0] + rows[-1]) == pytest.approx(0.5 * image.shape[0], abs=2.0)


def test_a_png_is_read_back_as_it_was() -> None:
    image = np.random.default_rng(0).integers(0, 256, (7, 11, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(image)))), image)
