# SPDX-License-Identifier: Apache-2.0
"""xacro files: packages that are not installed, arguments, faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.package_search import PackageSearch
from motion_nodes.extras.robot_setup.robot_source import read_source
from motion_nodes.extras.robot_setup.xacro_expansion import (
    declared_arguments,
    parse_arguments,
    split_arguments,
)

XMLNS = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
MACRO = f"""<robot {XMLNS}>
  <xacro:macro name="arm" params="prefix length">
    <link name="${{prefix}}base"/>
    <link name="${{prefix}}tip"/>
    <joint name="${{prefix}}joint" type="revolute">
      <parent link="${{prefix}}base"/><child link="${{prefix}}tip"/>
      <origin xyz="0 0 ${{length}}"/><axis xyz="0 0 1"/>
      <limit lower="-1" upper="1" effort="1" velocity="1"/>
    </joint>
  </xacro:macro>
</robot>"""
TOP = f"""<?xml version="1.0"?>
<robot name="made" {XMLNS}>
  <!-- length of the arm in metres -->
  <xacro:arg name="length" default="0.5"/>
  <xacro:arg name="prefix" default=""/>
  <xacro:include filename="$(find arm_parts)/urdf/arm.xacro"/>
  <xacro:arm prefix="$(arg prefix)" length="${{2 * $(arg length)}}"/>
</robot>"""


def package(folder: Path, name: str) -> Path:
    """Create the folder of a package, under any folder name."""
    (folder / "urdf").mkdir(parents=True)
    (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return a workspace with two packages that are not installed."""
    parts = package(tmp_path / "src" / "vendor" / "arm_parts", "arm_parts")
    (parts / "urdf" / "arm.xacro").write_text(MACRO)
    robot = package(tmp_path / "src" / "robot_description", "robot_description")
    (robot / "urdf" / "made.urdf.xacro").write_text(TOP)
    return tmp_path


def file_of(workspace: Path) -> Path:
    return workspace / "src" / "robot_description" / "urdf" / "made.urdf.xacro"


def test_packages_are_found_in_a_workspace_and_arguments_given(workspace: Path) -> None:
    found = read_source(file_of(workspace), [workspace], {"prefix": "left_", "length": "0.25"})
    joint = found.root.find("joint")
    assert joint.get("name") == "left_joint"
    assert joint.find("origin").get("xyz").split()[2] == "0.5"


def test_a_package_next_to_the_robots_is_found_without_being_told(workspace: Path) -> None:
    (workspace / "src" / "vendor" / "arm_parts").rename(workspace / "src" / "arm_parts")
    assert read_source(file_of(workspace)).root.find("joint").get("name") == "joint"


def test_a_missing_package_is_named_with_places_and_remedy(tmp_path: Path, workspace: Path) -> None:
    (workspace / "src" / "vendor").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidDescription) as refused:
        read_source(file_of(workspace))
    for words in ("arm_parts", str(workspace / "src"), "--package-path"):
        assert words in str(refused.value)


def test_macros_of_missing_equipment_that_is_not_used_are_left_out(workspace: Path) -> None:
    include = '<xacro:include filename="$(find camera)/c.xacro"/>'
    file_of(workspace).write_text(TOP.replace("<xacro:arg", f"{include}<xacro:arg", 1))
    notes = Notes()
    found = read_source(file_of(workspace), [workspace], findings=notes)
    assert found.root.find("joint") is not None
    assert [(n.kind, n.topic) for n in notes] == [("missing", "xacro")]
    assert "camera" in next(iter(notes)).text


def test_undefined_arguments_are_listed_with_what_the_file_says(workspace: Path) -> None:
    file = file_of(workspace)
    file.write_text(TOP.replace('"$(arg prefix)"', '"$(arg prefix)$(arg side)"'))
    with pytest.raises(InvalidDescription) as refused:
        read_source(file, [workspace])
    assert "side" in str(refused.value)
    assert "length (default '0.5'; length of the arm in metres)" in str(refused.value)
    found = read_source(file, [workspace], {"side": "left_"})
    assert found.root.find("joint").get("name") == "left_joint"
    with pytest.raises(InvalidDescription, match="lenght"):
        read_source(file, [workspace], {"side": "", "lenght": "2"})
    first = declared_arguments(file)[0]
    assert (first.name, first.default, first.comment) == (
        "length",
        "0.5",
        "length of the arm in metres",
    )


def test_arguments_are_refused_where_there_is_no_xacro(tmp_path: Path) -> None:
    file = tmp_path / "r.urdf"
    file.write_text('<robot name="r"><link name="a"/></robot>')
    with pytest.raises(InvalidDescription):
        read_source(file, arguments={"name": "x"})


@pytest.mark.parametrize("word", ["name=ur", ":=ur", "a-b:=1", "name"])
def test_words_that_are_no_arguments_are_refused(word: str) -> None:
    with pytest.raises(InvalidDescription):
        parse_arguments([word])


def test_a_robot_named_with_its_arguments_is_split() -> None:
    assert split_arguments("my robot.urdf") == ("my robot.urdf", {})
    assert split_arguments("'my ur.xacro' name:=ur limit:='a b'") == (
        "my ur.xacro",
        {"name": "ur", "limit": "a b"},
    )
    with pytest.raises(InvalidDescription):
        split_arguments("r.xacro a:=1 a:=2")


def test_an_endless_file_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motion_nodes.extras.robot_setup.xacro_expansion._TIMEOUT", 2.0)
    file = tmp_path / "r.urdf.xacro"
    file.write_text(
        f'<robot name="r" {XMLNS}><xacro:property name="n" value="${{10**10**10}}"/>'
        '<link name="a${n}"/></robot>'
    )
    with pytest.raises(InvalidDescription):
        read_source(file)


def test_files_are_found_whatever_case_and_slashes_they_are_named_with(tmp_path: Path) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "Arm.STL").touch()
    search = PackageSearch(tmp_path)
    assert search.find("meshes\\arm.stl").name == "Arm.STL"
    with pytest.raises(InvalidDescription):
        search.find("meshes/leg.stl")


def test_a_file_of_macros_only_names_them(tmp_path: Path) -> None:
    file = tmp_path / "base.urdf.xacro"
    file.write_text(
        f'<robot {XMLNS}><xacro:macro name="my_base" params="x"><link name="a"/>'
        "</xacro:macro></robot>"
    )
    with pytest.raises(InvalidDescription, match="my_base"):
        read_source(file)
