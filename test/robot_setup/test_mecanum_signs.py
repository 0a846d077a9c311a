# SPDX-License-Identifier: Apache-2.0
"""Mecanum wheels are recognized by rollers on their surface, friction directions and names."""

import math

import numpy as np
import pytest
from lxml import etree
from robot_setup.test_base_guesses import mecanum_base, wheels_in
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.extras.robot_setup.wheels import mecanum_evidence, roller_angle_of_surface
from motion_nodes.typing import Array


def cylinder(radius: float, length: float, count: int = 24) -> Array:
    """Return the lateral surface of a cylinder about z as triangles, shape (t, 3, 3)."""
    corners = []
    for k in range(count):
        a, b = (2.0 * math.pi * (k + j) / count for j in (0, 1))
        p, q = (radius * np.array([math.cos(x), math.sin(x), 0.0]) for x in (a, b))
        low, high = (np.array([0.0, 0.0, s * length]) for s in (-0.5, 0.5))
        corners += [[p + low, q + low, q + high], [p + low, q + high, p + high]]
    return np.array(corners)


def rollers(angle_deg: float, *, inside_out: bool = False) -> Array:
    """Return the surface of a wheel about y whose lowest roller's axis is at an angle to y."""
    pieces = []
    for k in range(12):
        a = 2.0 * math.pi * k / 12
        R = Rotation.from_euler("y", a) * Rotation.from_euler("z", math.radians(angle_deg))
        R = R * Rotation.from_euler("x", -math.pi / 2.0)
        middle = 0.08 * np.array([-math.sin(a), 0.0, -math.cos(a)])
        pieces.append(cylinder(0.015, 0.03) @ R.as_matrix().T + middle)
    corners = np.concatenate(pieces)
    return corners[:, ::-1] if inside_out else corners


@pytest.mark.parametrize("angle", [45.0, 135.0])
@pytest.mark.parametrize("inside_out", [False, True])
def test_oblique_rollers_are_measured_on_the_surface(angle, inside_out):
    found = roller_angle_of_surface(
        rollers(angle, inside_out=inside_out), np.array([0.0, 1.0, 0.0])
    )
    assert found == pytest.approx(angle, abs=5.0)


def test_tyres_and_straight_rollers_are_not_oblique():
    axis = np.array([0.0, 0.0, 1.0])
    assert roller_angle_of_surface(cylinder(0.1, 0.04), axis) is None
    assert roller_angle_of_surface(rollers(90.0), np.array([0.0, 1.0, 0.0])) is None


def evidence(extra: str, file: str = "", base: str = "wheel_") -> str:
    text = mecanum_base(1.0, 0, base).replace("</robot>", extra + "</robot>")
    wheels = wheels_in(text)
    return mecanum_evidence(
        etree.fromstring(text), read_urdf(text), wheels, lambda name: None, file
    )


@pytest.mark.long
def test_diagonal_friction_and_names_of_plugins_and_files_are_evidence():
    friction = "".join(
        f'<gazebo reference="wheel_wheel_{k}"><fdir1>1 {s} 0</fdir1></gazebo>'
        for k, s in ((1, -1), (3, 1), (5, 1), (7, -1))
    )
    assert "friction" in evidence(friction)
    assert evidence(friction.replace("1 1 0", "1 0 0")) == ""
    assert evidence('<gazebo><plugin filename="libmecanum_drive.so"/></gazebo>')
    assert evidence("", "my_mecanum.urdf.xacro")
    assert evidence("", "my_robot.urdf") == ""
