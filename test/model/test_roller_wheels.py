# SPDX-License-Identifier: Apache-2.0
"""Wheels of a holonomic robot from URDF and robot.yaml: the same base as in code (row B08)."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from bases.holonomic_samples import kaya
from model.holonomic_robot import KAYA_YAWS, PLACES, SPIN, TRIANGLE, triangle, wheel_joint
from model.robot_samples import INERTIAL, changed, joint, link, urdf, write_robot
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.bases.holonomic import HolonomicBase, HolonomicQpBase
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot_builder import wheel_place
from motion_nodes.core.robot.tree import Rollers
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownFrame, UnknownJoint


def by_yaml(**wheel: float) -> dict[str, Any]:
    """Return the robot with its wheels in robot.yaml."""
    return changed(TRIANGLE, "base.wheels", [{"joint": f"j{i}", **wheel} for i in range(3)])


def test_an_annotated_urdf_gives_the_base_that_is_built_by_hand(tmp_path: Path) -> None:
    robot = load_robot(write_robot(tmp_path, TRIANGLE, triangle()))
    base = base_of(robot)
    assert type(base) is HolonomicBase
    assert base.wheel_names == robot.base_joints == ("j0", "j1", "j2")
    by_hand = HolonomicBase(kaya(left_handed=False))
    for twist in ((1.0, 1.0, 0.1), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        np.testing.assert_allclose(
            base.wheels_from_twist(Twist2(*twist)),
            by_hand.wheels_from_twist(Twist2(*twist)),
            rtol=0,
            atol=1e-9,
        )


def test_robot_yaml_says_the_same_as_the_urdf(tmp_path: Path) -> None:
    twist = Twist2(0.3, -0.2, 0.5)
    mecanum = '<mecanum radius="0.05" angle_deg="45"/>'
    numbers = {"radius": 0.05, "roller_angle_deg": 45.0}
    robots = [
        load_robot(write_robot(tmp_path / "urdf", TRIANGLE, triangle(mecanum))),
        load_robot(write_robot(tmp_path / "yaml", by_yaml(**numbers), triangle(""))),
        load_robot(write_robot(tmp_path / "both", by_yaml(**numbers), triangle(mecanum))),
        load_robot(write_robot(tmp_path / "half", by_yaml(radius=0.05), triangle(mecanum))),
    ]
    assert len({robot.base.wheels for robot in robots}) == 1
    wheels = [base_of(robot).wheels_from_twist(twist) for robot in robots]
    for other in wheels[1:]:
        np.testing.assert_array_equal(other, wheels[0])


def test_the_solver_is_the_descriptions(tmp_path: Path) -> None:
    description = changed(TRIANGLE, "base.solver", "qp")
    base = base_of(load_robot(write_robot(tmp_path, description, triangle())))
    assert type(base) is HolonomicQpBase
    wheels = base.wheels_from_twist(Twist2(1.0, 1.0, 0.1))
    np.testing.assert_allclose(wheels, (25.111903, -14.321637, 14.545453), atol=1e-6)


def test_places_are_turned_into_the_base_frame_and_each_axis_is_its_own(tmp_path: Path) -> None:
    """The base frame has an offset and a rotation in the URDF's root."""
    links = "".join(link(name, INERTIAL) for name in ("root", "a", "deck", "w0", "w1", "w2"))
    joints = [
        joint("f1", "fixed", "root", "a", '<origin xyz="0.3 -0.2 0.1" rpy="0 0 0.7"/>'),
        joint("f2", "fixed", "root", "deck", '<origin xyz="-1 2 0" rpy="0 0 -1.1"/>'),
        wheel_joint(0, '<mecanum radius="0.04"/>'),
    ]
    # The other two belong to another link, with other axes in their joint frames.
    X_BD = np.linalg.inv(planar(0.3, -0.2, 0.7)) @ planar(-1.0, 2.0, -1.1)
    for i, axis, pitch in ((1, "1 0 0", 0.0), (2, "0 0 1", 0.5 * math.pi)):
        x, y, _ = (np.linalg.inv(X_BD) @ (*PLACES[i], 1.0)).tolist()
        yaw = KAYA_YAWS[i] + 0.7 + 1.1
        joints.append(
            joint(
                f"j{i}", "continuous", "deck", f"w{i}",
                f'<origin xyz="{x} {y} 0" rpy="0 {pitch} {yaw}"/><axis xyz="{axis}"/>{SPIN}'
                '<mecanum radius="0.04"/>',
            )
        )  # fmt: skip
    base = base_of(load_robot(write_robot(tmp_path, TRIANGLE, urdf(links, "".join(joints)))))
    for wheel, place, yaw in zip(base.config.wheels, PLACES, KAYA_YAWS, strict=True):
        assert (wheel.x, wheel.y) == pytest.approx(place, abs=1e-12)
        assert math.remainder(wheel.axis_yaw - yaw, math.tau) == pytest.approx(0.0, abs=1e-12)


def planar(x: float, y: float, yaw: float) -> np.ndarray:
    """Return a pose in the plane, shape (3, 3)."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array(((c, -s, x), (s, c, y), (0.0, 0.0, 1.0)))


def test_a_wheel_on_a_moving_part_is_refused(tmp_path: Path) -> None:
    links = "".join(link(name, INERTIAL) for name in ("a", "fork", "w0", "w1", "w2"))
    joints = joint("swivel", "continuous", "a", "fork", '<axis xyz="0 0 1"/>' + SPIN)
    joints += wheel_joint(0, "") + wheel_joint(1, "") + wheel_joint(2, "", "fork")
    description = copy.deepcopy(by_yaml(radius=0.04))
    description["drives"][0]["joints"].append("swivel")
    robot = load_robot(write_robot(tmp_path, description, urdf(links, joints)))
    with pytest.raises(InvalidDescription):
        base_of(robot)
    with pytest.raises(UnknownJoint, check=about("j9")):
        wheel_place(robot.tree, "j9", "a")
    with pytest.raises(UnknownFrame, check=about("nowhere")):
        wheel_place(robot.tree, "j0", "nowhere")


def test_wheels_that_cannot_be_are_named(tmp_path: Path) -> None:
    upright = triangle().replace('<axis xyz="0 1 0"/>', '<axis xyz="0 0 1"/>')
    with pytest.raises(InvalidConfig):
        base_of(load_robot(write_robot(tmp_path, TRIANGLE, upright)))
    along = triangle('<mecanum radius="0.04" angle_deg="180"/>')
    with pytest.raises(InvalidConfig):
        base_of(load_robot(write_robot(tmp_path, TRIANGLE, along)))


@pytest.mark.parametrize(
    ("description", "mecanum", "words"),
    [
        (TRIANGLE, "", "base.wheels"),
        (by_yaml(), "", "base.wheels: 'j0'"),
        (
            by_yaml(radius=0.05),
            '<mecanum radius="0.04"/>',
            "base.wheels: 'j0'",
        ),
        (
            by_yaml(roller_angle_deg=45.0),
            '<mecanum radius="0.04"/>',
            "base.wheels: 'j0'",
        ),
        (changed(by_yaml(radius=0.04), "base.wheels.1.joint", "j7"), "", "base.wheels"),
        (changed(by_yaml(radius=0.04), "base.wheels.1.joint", "j0"), "", "base.wheels"),
        (by_yaml(radius=0.0), "", "base.wheels[0].radius"),
        (changed(TRIANGLE, "base.solver", "osqp"), "", "base.solver"),
    ],
)
def test_descriptions_that_cannot_be_used(
    tmp_path: Path, description: dict[str, Any], mecanum: str, words: str
) -> None:
    with pytest.raises(InvalidDescription, check=about(words)):
        load_robot(write_robot(tmp_path, description, triangle(mecanum)))


def test_rollers_are_read_from_the_urdf() -> None:
    tree = read_urdf(triangle('<mecanum radius="0.12" angle_deg="10.3"/>'))
    assert tree.joint("j0").rollers == Rollers(0.12, 10.3)
    assert read_urdf(triangle()).joint("j0").rollers == Rollers(0.04, 90.0)
    assert read_urdf(triangle("")).joint("j0").rollers is None


def test_elements_that_we_do_not_know_are_passed_over() -> None:
    tree = read_urdf(triangle('<mecanum radius="0.04"/><sensor_noise level="3"/>'))
    assert tree.joint("j2").rollers == Rollers(0.04, 90.0)


def test_other_readers_of_urdf_pass_over_the_rollers() -> None:
    assert mujoco.MjModel.from_xml_string(triangle()).njnt == 3


@pytest.mark.parametrize(
    ("mecanum", "words"),
    [
        ("<mecanum/>", "'j0'.*mecanum.*radius"),
        ('<mecanum radius="wide"/>', "radius.*'wide'"),
        ('<mecanum radius="nan"/>', "radius.*'nan'"),
        ('<mecanum radius="0"/>', r"radius.*\b0\b"),
        ('<mecanum radius="1" angle_deg="inf"/>', "angle_deg is 'inf'"),
        ('<mecanum radius="1" angle="45"/>', "'angle'.*attribute.*angle_"),
        ('<mecanum radius="1"/><mecanum radius="1"/>', "mecanum.*twice"),
    ],
)
def test_rollers_that_cannot_be_read(mecanum: str, words: str) -> None:
    with pytest.raises(InvalidDescription, match=words):
        read_urdf(triangle(mecanum))


def test_rollers_belong_to_a_wheel() -> None:
    text = triangle().replace('type="continuous"', 'type="fixed"')
    with pytest.raises(InvalidDescription):
        read_urdf(text)
