# SPDX-License-Identifier: Apache-2.0
"""Collision meshes in MuJoCo: links have the shapes of the exact checks."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene import mesh_file
from motion_nodes.core.scene.convex_decomposition import is_convex
from motion_nodes.core.scene.shapes import triangle_mesh
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

MakeRobot = Callable[..., Robot]
_PROFILE = (
    (-0.1, 0.0), (0.1, 0.0), (0.1, 0.2), (0.06, 0.2), (0.06, 0.04), (-0.06, 0.04), (-0.06, 0.2),
    (-0.1, 0.2),
)  # fmt: skip
_CAP = ((0, 1, 4), (0, 4, 5), (1, 2, 3), (1, 3, 4), (0, 5, 6), (0, 6, 7))
"""Triangles of a U-shaped profile: its floor and two walls, 40 mm thick, 160 mm high."""


def u_corners() -> np.ndarray:
    """Return the triangles of a U, open upwards, 0.2 m long in y; shape (t, 3, 3)."""
    ends = [np.array([(x, y, z) for x, z in _PROFILE]) for y in (-0.1, 0.1)]
    count = len(_PROFILE)
    sides = [(k, (k + 1) % count) for k in range(count)]
    return np.array(
        [ends[0][list(t)] for t in _CAP]
        + [ends[1][list(t[::-1])] for t in _CAP]
        + [(ends[0][i], ends[1][j], ends[0][j]) for i, j in sides]
        + [(ends[0][i], ends[1][i], ends[1][j]) for i, j in sides]
    )


def write_stl(path: Path, corners: np.ndarray) -> None:
    """Write triangles as binary STL."""
    with path.open("wb") as file:
        file.write(b"\0" * 80 + struct.pack("<I", len(corners)))
        for triangle in corners:
            file.write(struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0))


def touched(robot: Robot, *places: tuple[float, float, float]) -> list[bool]:
    """Return whether balls of 20 mm radius touch the rotor, which is 0.6 m above the floor."""
    balls = tuple(
        Obstacle(f"{k}", Sphere(0.02), from_xyz_rpy((x, y, 0.6 + z)))
        for k, (x, y, z) in enumerate(places)
    )
    world = MujocoWorld([RobotPlacement(robot, "r")], WorldConfig(obstacles=balls))
    mujoco.mj_forward(world.model, world.data)
    geoms = {world.model.geom(i).name for c in world.data.contact for i in c.geom}
    return [f"obstacle:{k}" in geoms for k in range(len(places))]


def test_a_notch_is_free_and_walls_are_solid(make_spinner: MakeRobot, tmp_path: Path) -> None:
    write_stl(tmp_path / "u.stl", u_corners())
    robot = make_spinner(shape='<mesh filename="../u.stl"/>')
    notch, floor, walls = (0.0, 0.0, 0.12), (0.0, 0.0, 0.05), ((0.08, 0.0, 0.2), (-0.08, 0, 0.2))
    assert touched(robot, notch, floor, *walls) == [False, True, True, True]


def test_a_scale_applies_to_the_hulls(make_spinner: MakeRobot, tmp_path: Path) -> None:
    write_stl(tmp_path / "u.stl", 1e3 * u_corners())
    robot = make_spinner(shape='<mesh filename="../u.stl" scale="0.001 0.001 -0.001"/>')
    assert touched(robot, (0.0, 0.0, -0.12), (0.0, 0.0, -0.05), (0.08, 0.0, -0.2)) == [
        False,
        True,
        True,
    ]


def test_formats_that_mujoco_does_not_read_collide(make_spinner: MakeRobot, tmp_path: Path) -> None:
    import trimesh

    corners = u_corners()
    mesh = trimesh.Trimesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))
    mesh.export(tmp_path / "u.ply")
    robot = make_spinner(shape='<mesh filename="../u.ply"/>')
    assert touched(robot, (0.0, 0.0, 0.12), (0.08, 0.0, 0.2)) == [False, True]


def test_a_flat_mesh_collides(make_spinner: MakeRobot, tmp_path: Path) -> None:
    square = np.array([(-0.1, -0.1, 0.05), (0.1, -0.1, 0.05), (0.1, 0.1, 0.05), (-0.1, 0.1, 0.05)])
    write_stl(tmp_path / "plate.stl", square[[(0, 1, 2), (0, 2, 3)]])
    robot = make_spinner(shape='<mesh filename="../plate.stl"/>')
    assert touched(robot, (0.0, 0.0, 0.06), (0.0, 0.0, 0.08)) == [True, False]


def test_hulls_are_kept_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_spinner: MakeRobot
) -> None:
    write_stl(tmp_path / "u.stl", 1.01 * u_corners())
    first = mesh_file.mesh_hulls(tmp_path / "u.stl")
    assert len(first) > 1

    def decomposed_again(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(mesh_file, "convex_parts", decomposed_again)
    again = mesh_file.mesh_hulls(tmp_path / "u.stl")
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(AssertionError):
        mesh_file.mesh_hulls(tmp_path / "u.stl", (1.0, 1.0, 2.0))


def test_convex_meshes_are_closed_and_have_no_notch() -> None:
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    u = u_corners()
    box = trimesh.creation.box((0.1, 0.2, 0.3))
    open_box = box.faces[2:]
    assert is_convex(triangle_mesh(ball.vertices, ball.faces))
    assert is_convex(triangle_mesh(box.vertices, box.faces[:, ::-1]))
    assert not is_convex(triangle_mesh(u.reshape(-1, 3), np.arange(3 * len(u))))
    assert not is_convex(triangle_mesh(box.vertices, open_box))
