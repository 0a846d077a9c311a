# SPDX-License-Identifier: Apache-2.0
"""Lula's and cuRobo's files: reading, writing, errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from model import xrdf_samples

from motion_nodes.core.robot.files.curobo import curobo_text, parse_curobo
from motion_nodes.core.robot.files.lula import lula_text, parse_lula
from motion_nodes.core.robot.files.xrdf_file import XrdfSelfCollision
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.errors import InvalidDescription


def lula(text):
    return parse_lula(parse_yaml(text, "crane.yaml"), "crane.yaml")


def curobo(text):
    return parse_curobo(parse_yaml(text, "crane.yml"), Path("crane.yml"))


def test_lula_comes_back_as_it_was():
    xrdf = lula(xrdf_samples.LULA)
    assert xrdf.cspace.joint_names == ("slew", "lift")
    assert xrdf.default_joint_positions == {"slew": 0.5, "lift": -0.7, "grip": 0.02}
    assert xrdf.modifiers[0].set_base_frame == "foot"
    assert lula(lula_text(xrdf, "mount")) == xrdf


def test_a_urdf_with_a_lula_file_is_a_robot(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        robot = load_robot(xrdf_samples.write_pair(tmp_path, "crane.yaml", xrdf_samples.LULA))
    arm = robot.group("arm")
    assert (arm.joints, arm.base, arm.tip) == (("slew", "lift"), "foot", "stick")
    assert robot.home.tolist() == [0.5, -0.7, 0.02]
    assert robot.spheres["stick"] == ((0.2, 0.0, 0.0, 0.07),)
    assert "self_collision" in caplog.text


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("[0.5, -0.7]", "[0.5]", "default_q has 1 numbers for the 2 joints of cspace"),
        ("[10.0, 8.0]", "[10.0]", "acceleration_limits has 1 numbers for the 2 joints"),
        ("rule: fixed", "rule: loose", "cspace_to_urdf_rules[0].rule is 'loose'"),
        ("value: 0.02", "valeu: 0.02", "Did you mean 'value'"),
        ("name: grip,", "name: lift,", "'lift' is fixed, and one of cspace as well"),
        ("[slew, lift]", "[slew, slew]", "'slew' is listed twice"),
        ("default_q:", "default_p:", "is no XRDF, Lula, cuRobo or SRDF file"),
        ("jerk_limits:", "jerk_limit:", "Did you mean 'jerk_limits'"),
        ("root_link: foot", "root_link: feet", "root_link: 'feet' is not a link of the URDF"),
        ("[slew, lift]", "[slew, lifd]", "cspace: 'lifd' is not a joint of the URDF"),
        ("value: 0.02", "value: 2", "cspace_to_urdf_rules: grip is 2; the URDF allows 0 to 0.05"),
        ("  - stick:", "  - stik:", "collision_spheres: 'stik' is not a link of the URDF"),
    ],
)
def test_mistakes_in_lula_files_are_told(tmp_path, right, wrong, words):
    assert right in xrdf_samples.LULA
    text = xrdf_samples.LULA.replace(right, wrong, 1)
    file = xrdf_samples.write_pair(tmp_path, "crane.yaml", text)
    with pytest.raises(InvalidDescription) as caught:
        load_robot(file, tmp_path / "crane.urdf")
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_what_lula_has_no_words_for_is_refused():
    xrdf = curobo(xrdf_samples.CUROBO).xrdf
    with pytest.raises(InvalidDescription):
        lula_text(xrdf, "foot")


def test_curobo_of_version_1_is_read_and_comes_back(caplog):
    with caplog.at_level(logging.WARNING):
        robot = curobo(xrdf_samples.CUROBO)
    xrdf = robot.xrdf
    assert robot.urdf_path == "robot/crane/crane.urdf"
    assert xrdf.cspace.joint_names == ("slew", "lift")
    assert xrdf.cspace.acceleration_limits == (12.0, 12.0)
    assert xrdf.cspace.jerk_limits == (300.0, 400.0)
    # lock_joints takes precedence over retract_config.
    assert xrdf.default_joint_positions == {"slew": 0.5, "lift": -0.7, "grip": 0.03}
    assert xrdf.tool_frames == ("tcp",)
    assert xrdf.world_collision.buffer_distance == {"boom": 0.005, "stick": 0.005}
    assert xrdf.self_collision == XrdfSelfCollision(
        xrdf.self_collision.geometry, {"stick": 0.0}, {"boom": ("stick",)}
    )
    assert "collision_spheres.stick" in caplog.text
    assert len(xrdf.spheres(xrdf.world_collision.geometry)["stick"]) == 1
    again = curobo(curobo_text(xrdf, robot.urdf_path, "mount"))
    assert again == robot


def test_curobo_finds_its_urdf_and_is_a_robot(tmp_path):
    # The layout of cuRobo's own folders.
    configs = tmp_path / "content" / "configs" / "robot"
    assets = tmp_path / "content" / "assets" / "robot" / "crane"
    configs.mkdir(parents=True)
    assets.mkdir(parents=True)
    (assets / "crane.urdf").write_text(xrdf_samples.URDF)
    (configs / "crane.yml").write_text(xrdf_samples.CUROBO)
    robot = load_robot(configs / "crane.yml")
    assert robot.group("arm").tip == "tcp"
    assert robot.description.collision.ignore == (("boom", "stick"),)


def test_curobo_spheres_may_stand_in_a_file_of_their_own(tmp_path):
    head, _, rest = xrdf_samples.CUROBO.partition("    collision_spheres:\n")
    lines = rest.splitlines()
    spheres = "collision_spheres:\n" + "\n".join(line[4:] for line in lines[:2])
    text = head + "    collision_spheres: spheres/crane.yml\n" + "\n".join(lines[2:])
    file = xrdf_samples.write_pair(tmp_path, "crane.yml", text)
    with pytest.raises(InvalidDescription):
        load_robot(file)
    (tmp_path / "spheres").mkdir()
    (tmp_path / "spheres" / "crane.yml").write_text(spheres)
    assert {link: len(s) for link, s in load_robot(file).spheres.items()} == {
        "boom": 1, "stick": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("[0.5, -0.7, 0.0]", "[0.5, -0.7]", "default_joint_position: has 2 numbers for the 3"),
        ("[300.0, 400.0, 500.0]", "[300.0]", "cspace.max_jerk: has 1 numbers for the 3 joints"),
        ("joint_type: FIXED", "joint_type: X_PRISM", "only FIXED ones can be added here"),
        ("max_acceleration: 12.0", "max_acceleration: fast", "kinematics.cspace.max_acceleration"),
        ("urdf_path:", "urdf:", "is missing the field `urdf_path`"),
        ("radius: 0.08", "radius: big", "collision_spheres.boom[0].radius"),
    ],
)
def test_mistakes_in_curobo_files_are_told(right, wrong, words):
    assert right in xrdf_samples.CUROBO
    with pytest.raises(InvalidDescription) as caught:
        curobo(xrdf_samples.CUROBO.replace(right, wrong, 1))
    assert words in str(caught.value)
    assert "crane.yml" in str(caught.value)


def test_words_that_nobody_knows_are_told_but_do_no_harm(caplog):
    text = xrdf_samples.CUROBO.replace("lock_joints:", "lok_joints:")
    with caplog.at_level(logging.WARNING):
        robot = curobo(text)
    assert "lok_joints has no effect: it is not known. Did you mean 'lock_joints'" in caplog.text
    assert robot.xrdf.cspace.joint_names == ("slew", "lift", "grip")
