# SPDX-License-Identifier: Apache-2.0
"""Resolution of mesh file names: relative, absolute, file:// and package://."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.meshes import resolve_mesh, with_absolute_meshes
from motion_nodes.errors import InvalidDescription


@pytest.fixture
def mesh(tmp_path: Path) -> Path:
    file = tmp_path / "my_robot" / "meshes" / "arm link.stl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"solid")
    return file


def test_absolute_relative_and_file_names(mesh: Path) -> None:
    folder = mesh.parent.parent
    assert resolve_mesh("meshes/arm link.stl", folder) == mesh
    assert resolve_mesh(str(mesh), Path("/")) == mesh
    assert resolve_mesh(mesh.as_uri(), Path("/")) == mesh
    assert "%20" in mesh.as_uri()


def test_a_package_is_a_folder_above_or_stands_on_the_ament_path(
    mesh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    name = "package://my_robot/meshes/arm link.stl"
    assert resolve_mesh(name, tmp_path / "my_robot" / "urdf") == mesh
    installed = tmp_path / "install" / "share" / "other"
    installed.mkdir(parents=True)
    (installed / "m.dae").touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join(("/gone", str(tmp_path / "install"))))
    assert resolve_mesh("package://other/m.dae", tmp_path) == installed / "m.dae"


def test_a_robot_resolves_names_from_its_own_folder() -> None:
    robot = load_robot("jetbot")
    assert robot.mesh_path("jetbot.urdf") == robot.directory / "jetbot.urdf"
    own = robot.mesh_path("package://motion_nodes/robots/jetbot/jetbot.urdf")
    assert own.samefile(robot.directory / "jetbot.urdf")


def test_a_mesh_that_is_nowhere_lists_the_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/opt/one:/opt/two")
    with pytest.raises(InvalidDescription, check=about("m.stl")) as caught:
        resolve_mesh("m.stl", tmp_path)
    assert str(tmp_path / "m.stl") in str(caught.value)
    with pytest.raises(InvalidDescription):
        resolve_mesh("package://p/m", tmp_path)
    monkeypatch.delenv("AMENT_PREFIX_PATH")
    with pytest.raises(InvalidDescription):
        resolve_mesh("package://p/m", tmp_path)
    with pytest.raises(InvalidDescription):
        resolve_mesh("https://example.org/m.stl", tmp_path)


def test_relative_names_become_addresses_for_programs_that_get_the_text_alone(mesh: Path) -> None:
    folder = mesh.parent.parent
    urdf = (
        '<mesh scale="1 1 1" filename="meshes/arm link.stl"/><mesh filename=\'/abs/b.stl\'/>'
        '<mesh filename="package://p/c.stl"/><link name="meshes/arm link.stl"/>'
    )
    found = with_absolute_meshes(urdf, folder)
    assert found == urdf.replace('filename="meshes/arm link.stl"', f'filename="{mesh.as_uri()}"')
    assert resolve_mesh(mesh.as_uri(), Path("/")) == mesh
