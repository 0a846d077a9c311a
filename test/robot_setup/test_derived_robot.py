# SPDX-License-Identifier: Apache-2.0
"""Derived robots are cached until a file changes that they depend on."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from robot_setup.urdf_samples import arm

from motion_nodes.core.robot.loader import ROBOT_FILE, load_description
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.robot_setup import derived_robot, new_robot
from motion_nodes.extras.robot_setup.derived_robot import derived_folder
from motion_nodes.extras.robot_setup.package_search import PackageSearch

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
