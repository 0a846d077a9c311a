# SPDX-License-Identifier: Apache-2.0
"""Passive joints: validation in a robot.yaml, and absence from all controllers."""

from __future__ import annotations

from pathlib import Path

import pytest
from model.robot_samples import ARM, BASE, INERTIAL, changed, joint, link, urdf, write_robot
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidDescription

WHEEL = '<limit velocity="9" effort="1"/>'
CART = urdf(
    "".join(link(name, INERTIAL) for name in "alrsc"),
    joint("j1", "continuous", "a", "l", WHEEL)
    + joint("j2", "continuous", "a", "r", WHEEL)
    + joint("swivel", "continuous", "a", "s", '<axis xyz="0 0 1"/>')
    + joint("caster", "continuous", "s", "c", '<axis xyz="0 1 0"/>'),
)
PASSIVE = {**BASE, "passive_joints": ["swivel", "caster"]}


def load(folder: Path, description: dict[str, object] = PASSIVE, text: str = CART) -> Robot:
    write_robot(folder, description, text)
    return load_robot(folder)


def test_passive_joints_are_joints_with_a_drive_that_does_nothing(tmp_path: Path) -> None:
    robot = load(tmp_path)
    assert robot.joint_names == ("j1", "j2", "swivel", "caster")
    assert robot.passive_joints == ("swivel", "caster")
    for name in robot.passive_joints:
        drive = robot.drive(name)
        assert drive.passive
        assert drive.gains() == drive.gains("position") == drive.gains("velocity") == (0.0, 0.0)
    assert not any(robot.drive(name).passive for name in ("j1", "j2"))


def test_no_controller_leads_them(tmp_path: Path) -> None:
    robot = load(tmp_path)
    assert robot.arm_joints == ()
    assert robot.base_joints == ("j1", "j2")
    arm = changed(ARM, "drives.0.joints", ["j1"])
    arm = changed(arm, "drives.0.stiffness", 10.0)
    arm = {**changed(arm, "groups", {}), "passive_joints": ["j2"]}
    write_robot(tmp_path / "arm", arm)
    assert load_robot(tmp_path / "arm").arm_joints == ("j1",)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("passive_joints", ["swivel"], "drives"),
        ("passive_joints", ["swivel", "castor"], "passive_joints"),
        ("passive_joints", ["swivel", "caster", "caster"], "passive_joints"),
        ("passive_joints", ["swivel", "caster", "j2"], "base"),
        ("drives.0.joints", ["j1", "j2", "swivel"], "drives[0].joints"),
        ("groups", {"all": {"joints": ["j1", "caster"]}}, "groups.all.joints"),
    ],
)
def test_each_fault_is_named(path: str, value: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDescription, check=about(message)):
        load(tmp_path, changed(PASSIVE, path, value))
