# SPDX-License-Identifier: Apache-2.0
"""Drives, efforts and home configurations guessed from URDFs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robot_setup.urdf_samples import BAR, INERTIAL, LIMIT, arm, joint, link, robot

from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.extras.robot_setup.drives import (
    MjcfDrive,
    MovedMasses,
    drive_block,
    joint_inertias,
    masses_of,
    moved_masses,
    sufficient_efforts,
)
from motion_nodes.extras.robot_setup.groups import guess_groups
from motion_nodes.extras.robot_setup.link_shapes import find_self_collisions
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.wheeled_base import guess_base
from motion_nodes.extras.sim.robot_trial import try_robot


def moved_by(tree: KinematicTree) -> MovedMasses:
    return moved_masses(tree, {}, Notes(), np.random.default_rng(0))


def test_inertia_and_load_of_one_bar() -> None:
    """A bar of 2 kg whose centre is 0.1 m from a horizontal axis."""
    text = robot(link("a"), link("b"), joint("j", "a", "b", axis="0 1 0"))
    tree = read_urdf(text)
    masses = masses_of(tree, {}, Notes())
    Q = np.linspace(-2.5, 2.5, 501)[:, None]
    inertia, load = joint_inertias(tree, masses, Q)
    mean = (0.02 + 0.02 + 0.01) / 3.0
    assert inertia[0] == pytest.approx(2.0 * 0.1**2 + mean)
    assert load[0] == pytest.approx(2.0 * 9.80665 * 0.1, rel=1e-4)


def test_drives_overcome_the_dry_friction_of_light_links() -> None:
    text = arm(2).replace(LIMIT, LIMIT + '<dynamics friction="1.5"/>')
    light = INERTIAL.replace("2.0", "0.001").replace("0.02", "1e-6").replace("0.01", "1e-6")
    tree = read_urdf(text.replace(INERTIAL, light))
    base = guess_base((), tree, Notes(), tree.root)
    groups = guess_groups(tree, (), Notes())
    block = drive_block(tree, base, groups, moved_by(tree), {}, Notes())
    assert 1.5 / min(block[0]["stiffness"]) < 2.1e-3


def test_guessed_efforts_hold_what_joints_carry_and_stated_drives_that_sag_are_not_taken() -> None:
    """Two bars of 2 kg and 0.25 m, outstretched: 2 kg at 0.1 m and 2 kg at 0.35 m."""
    tree = read_urdf(arm(3).replace(' effort="80"', ' effort="5"'))
    load = 2.0 * 9.80665 * (0.1 + 0.35)
    moved = moved_by(tree)
    raised = sufficient_efforts(tree, {}, moved.load, {"joint_2"}, Notes())
    assert set(raised) == {"joint_2"}
    assert 2.0 * load < raised["joint_2"] <= 3.01 * load
    assert not sufficient_efforts(read_urdf(arm(3)), {}, moved.load, {"joint_2"}, Notes())
    base, groups = guess_base((), tree, Notes(), tree.root), guess_groups(tree, (), Notes())
    for stiffness in (80.0, 8000.0):
        stated = {"joint_2": MjcfDrive(stiffness, 500.0, 0.1, None)}
        block = drive_block(tree, base, groups, moved, stated, Notes())
        assert (block[0]["stiffness"][1] == stiffness) == (stiffness > 1000.0)


def test_spheres_that_overlap_at_a_stance_do_not_change_it(tmp_path: Path) -> None:
    """A block swings beside a box, 14 mm apart at home, where their spheres overlap."""
    box = '<collision><origin xyz="{}"/><geometry><box size="{}"/></geometry></collision>'
    parts = [
        link("base", box.format("0 0 0", "0.2 0.2 0.2")),
        link("arm", box.format("0 0 0.3", "0.02 0.02 0.02")),
        link("block", box.format("-0.1364 -0.0836 0", "0.04 0.04 0.04")),
        joint("turn", "base", "arm", xyz="0.27 0 0", axis="0 0 1"),
        joint("swing", "arm", "block", xyz="0 0 0", axis="0 0 1"),
    ]
    (tmp_path / "swing.urdf").write_text(robot(*parts, name="swing"))
    fields = "format: 1\nname: swing\nkind: arm\nurdf: swing.urdf\n"
    fields += "frames: {base: base, tool: block}\n"
    fields += "groups: {arm: {joints: [turn, swing], base: base, tip: block}}\n"
    fields += "drives: [{joints: [turn, swing], mode: position, stiffness: 9, damping: 1}]\n"
    fields += "sources: {drives: this test}\n"
    (tmp_path / "robot.yaml").write_text(fields)
    plain = load_robot(tmp_path)
    geometries = {
        name: geometry
        for name in plain.tree.frame_names
        if (geometry := LinkGeometry.of_link(plain, name)) is not None
    }
    kept = find_self_collisions(plain, geometries, keep_home=True, samples=500)
    moved = find_self_collisions(plain, geometries, samples=500)
    assert kept.exact_only == [("base", "block")]
    np.testing.assert_array_equal(kept.home, plain.home)
    assert moved.exact_only == []
    assert np.abs(moved.home - plain.home).max() > 0.01


@pytest.mark.long
def test_a_base_that_falls_through_the_floor_fails_its_trial() -> None:
    go2 = load_robot("go2")
    links = {name: replace(each, collisions=()) for name, each in go2.tree.links.items()}
    stands = try_robot(replace(go2, tree=replace(go2.tree, links=links)))[0]
    assert (stands.name, stands.passed) == ("stands", False)


def test_limits_that_cannot_hold_the_masses_of_the_file_are_raised_by_the_load(
    tmp_path: Path,
) -> None:
    """Outstretched at zero, the arm is too heavy for its shoulder."""
    bar = BAR.replace('xyz="0 0 0.1"', 'xyz="0.1 0 0" rpy="0 1.5708 0"')
    level = INERTIAL.replace('xyz="0 0 0.1"', 'xyz="0.1 0 0"') + bar
    weak = '<limit lower="-2.5" upper="2.5" velocity="2" effort="6"/>'
    parts = [link("base"), *(link(name, level) for name in "abc")]
    parts += [joint("turn", "base", "a", axis="0 0 1", xyz="0 0 0.6")]
    parts += [joint(n, *n, xyz="0.3 0 0", inside=weak) for n in ("ab", "bc")]
    file = tmp_path / "weak.urdf"
    file.write_text(robot(*parts))
    made = new_robot(file, output=tmp_path / "weak", unique_name=False, spheres_accuracy=0.03)
    limits = made.robot.limits
    gravity = InverseDynamics(made.robot.tree, generic=True).gravity
    for q in (np.zeros(3), *np.random.default_rng(0).uniform(-2.5, 2.5, (100, 3))):
        assert (np.abs(gravity(q)) < limits.effort).all()
    joints = dict(zip(made.robot.joint_names, limits.effort, strict=True))
    load = dict(zip(made.robot.joint_names, np.abs(gravity(np.zeros(3))), strict=True))
    assert load["ab"] > 6.0 > load["bc"], load
    assert joints["bc"] == 6.0
    assert joints["ab"] == pytest.approx(6.0 + load["ab"], rel=0.1)
    assert try_robot(made.robot)[0].passed
