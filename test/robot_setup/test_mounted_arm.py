# SPDX-License-Identifier: Apache-2.0
"""Robots combined of a base and an arm; derived robots are cached until a file changes."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from robot_setup.urdf_samples import arm

import motion_nodes as mn
from motion_nodes.core.robot.loader import ROBOT_FILE, load_description
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup import derived_robot, new_robot
from motion_nodes.extras.robot_setup.derived_robot import derived_folder
from motion_nodes.extras.robot_setup.mounted_arm import ArmMount, mount_arm
from motion_nodes.extras.robot_setup.package_search import PackageSearch

XYZ, RPY = (-0.03, 0.0, 0.2), (0.0, 0.0, 0.4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of an OpenMANIPULATOR-X on a TurtleBot3."""
    made = tmp_path_factory.mktemp("robots") / "both"
    mount_arm("turtlebot3_burger", "open_manipulator_x", ArmMount(XYZ, RPY), output=made)
    return made


@pytest.mark.long
def test_numbers_are_those_of_base_and_arm(folder):
    both, base, arm = map(mn.load_robot, (str(folder), "turtlebot3_burger", "open_manipulator_x"))
    robot, parts = both.description, (base.description, arm.description)
    assert both.name == "turtlebot3_burger_open_manipulator_x"
    assert robot.kind == parts[0].kind
    assert set(both.joint_names) == {*base.joint_names, *arm.joint_names}
    for part in parts:
        names = part.joint_names
        for field in ("lower", "upper", "velocity", "effort", "acceleration", "jerk"):
            ours, theirs = getattr(robot.limits.select(names), field), getattr(part.limits, field)
            np.testing.assert_array_equal(ours, theirs, err_msg=field)
        assert [robot.drive(n) for n in names] == [part.drive(n) for n in names]
        for state in part.state_names:
            columns = [n for n in names if n in part.states[state]]
            assert {n: robot.states[state][n] for n in columns} == {
                n: part.states[state][n] for n in columns
            }
        assert part.spheres.items() <= robot.spheres.items()
    assert both.base.wheels_from_twist(0.1, 0.0, 0.4) == pytest.approx(
        base.base.wheels_from_twist(0.1, 0.0, 0.4)
    )


@pytest.mark.long
def test_poses_of_the_tool_are_in_the_base_frame(folder):
    both, arm = mn.load_robot(str(folder)), mn.load_robot("open_manipulator_x")
    assert both["arm"].base == both.description.base_frame
    rng = np.random.default_rng(0)
    for q in rng.uniform(-0.5, 0.5, (5, len(arm["arm"].joint_names))):
        np.testing.assert_allclose(
            both["arm"].fk(q), from_xyz_rpy(XYZ, RPY) @ arm["arm"].fk(q), atol=1e-9
        )


@pytest.mark.long
def test_the_arm_keeps_clear_of_the_base(folder):
    both = mn.load_robot(str(folder))
    arm = both["arm"]
    assert arm.collision_free(arm.state("home"))
    samples = np.random.default_rng(1).uniform(arm.limits.lower, arm.limits.upper, (300, 4))
    tools = arm.fk_batch(samples)[:, :3, 3]
    inside = (tools[:, 2] < 0.12) & (np.hypot(tools[:, 0], tools[:, 1]) < 0.05)
    down = samples[inside]
    assert len(down), "no sample reaches into the base"
    assert not any(arm.collision_free(q) for q in down)


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "arm", "mount", "field"),
    [
        ("franka", "ur5e", {}, "base"),
        ("jetbot", "kaya", {}, "arm"),
        ("jetbot", "franka", {"link": "deck"}, "link"),
        ("ur5e", "ur10e", {}, "base"),
        ("nova_carter", "ur5e", {}, "link"),
        ("nova_carter", "franka", {"xyz": (-0.3, 0.0, -0.3)}, "at"),
        ("jetbot", "franka", {"xyz": (0.0, np.nan, 0.0)}, "at"),
        ("jetbot", "franka", {"xyz": (0.0, 0.0, 11.0)}, "at"),
    ],
)
def test_what_cannot_be_one_robot(tmp_path, base, arm, mount, field):
    with pytest.raises(InvalidConfig) as error:
        mount_arm(base, arm, ArmMount(**({"xyz": (0.0, 0.0, 0.1)} | mount)), output=tmp_path / "r")
    assert error.value.field == field
    assert not (tmp_path / "r").exists()


MJCF = """<mujoco><compiler meshdir="assets"/><include file="parts.xml"/>
<asset><mesh name="m" file="m.stl"/></asset></mujoco>"""
PARTS = '<mujocoinclude><asset><mesh name="n" file="n.stl"/></asset></mujocoinclude>'


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Return the files from which robots were derived."""
    files: list[Path] = []

    def create(file: Path, output: Path, **_: object) -> SimpleNamespace:
        files.append(file)
        output.mkdir()
        (output / ROBOT_FILE).write_text("")
        return SimpleNamespace(findings=[])

    monkeypatch.setattr(new_robot, "new_robot", create)
    monkeypatch.setenv("MOTION_NODES_CACHE_DIR", str(tmp_path / "cache"))
    return files


@pytest.mark.parametrize(
    ("name", "content", "needed"),
    [
        ("a.urdf", '<mesh filename="package://parts/m.stl"/>', ["parts/m.stl"]),
        ("a.urdf", '<mesh filename="parts/m.stl"/>', ["parts/m.stl"]),
        ("a.xml", MJCF, ["parts.xml", "assets/m.stl", "assets/n.stl"]),
    ],
)
def test_a_changed_file_derives_the_robot_again(made, tmp_path, name, content, needed):
    for file in needed:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(PARTS if file == "parts.xml" else "")
    urdf = tmp_path / name
    urdf.write_text(content)
    first = derived_folder(urdf)
    assert derived_folder(urdf) == first
    assert len(made) == 1
    for count, file in enumerate(needed, start=2):
        os.utime(tmp_path / file, ns=(0, 1_000_000_000 * count))
        derived_folder(urdf)
        assert len(made) == count, file


def test_a_cache_that_cannot_be_written_is_named(made, tmp_path, monkeypatch):
    urdf = tmp_path / "a.urdf"
    urdf.write_text(arm(2))
    key = derived_robot._digest(urdf, (), {})
    (tmp_path / "cache/robots").mkdir(parents=True)
    (tmp_path / f"cache/robots/{key}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidConfig, match="MOTION_NODES_CACHE_DIR"):
        derived_folder(urdf)
    assert made == []


def test_a_file_name_of_any_length_is_not_found(tmp_path):
    with pytest.raises(InvalidDescription, match="not found"):
        PackageSearch(tmp_path).find("x" * 5000)


def test_an_sdf_is_named_as_such(tmp_path):
    file = tmp_path / "arm.sdf"
    file.write_text('<sdf version="1.7"><model name="arm"><link name="a"/></model></sdf>')
    with pytest.raises(InvalidDescription, match=r"arm\.sdf: .*an SDF; convert it to URDF"):
        load_description(file)
