# SPDX-License-Identifier: Apache-2.0
"""Free objects in physics: meshes with the inertia of their solid, and forces on objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.free_bodies import mass_properties
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.surface_gripper import UnknownObject


def world_of(*words: str) -> MujocoWorld:
    objects = tuple(parse_free_body(word) for word in words)
    return MujocoWorld([RobotPlacement(load_robot("jetbot"), "r")], WorldConfig(objects=objects))


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Return a mesh file of a ring in millimetres, off the origin."""
    made = trimesh.creation.torus(30.0, 10.0, major_sections=32, minor_sections=16)
    made.apply_transform(from_xyz_rpy((50.0, 20.0, 10.0), (0.3, 0.0, 0.0)))
    made.export(tmp_path / "ring.stl")
    return tmp_path / "ring.stl"


def test_mass_properties_are_those_of_trimesh(ring: Path) -> None:
    mesh = trimesh.load(ring, force="mesh")
    mesh.density = 0.2 / mesh.volume
    centre, inertia = mass_properties(np.asarray(mesh.triangles), 0.2)
    np.testing.assert_allclose(centre, mesh.center_mass, rtol=1e-6)
    np.testing.assert_allclose(inertia, mesh.moment_inertia, rtol=1e-6, atol=1e-6)


def test_a_mesh_rests_on_its_lower_side_and_has_a_hole(ring: Path) -> None:
    """The ring falls flat; a ball falls through its hole."""
    at = "1.5,0,0.02"
    world = world_of(f"ring:=mesh:{ring},0.001:0.2@{at}", "ball:=sphere:0.012:0.05@3,0,0.012")
    body, mesh = world.model.body("object:ring"), trimesh.load(ring, force="mesh")
    np.testing.assert_allclose(body.ipos, 1e-3 * mesh.center_mass, atol=1e-6)
    world.step(1000)
    X = world.object_pose("ring")
    centre = X[:3, :3] @ (1e-3 * mesh.center_mass) + X[:3, 3]
    assert centre[2] == pytest.approx(0.01, abs=1e-3)
    world.place_object("ball", from_xyz_rpy((centre[0], centre[1], 0.1)))
    world.step(1000)
    ball = world.object_pose("ball")[:3, 3]
    assert ball[2] == pytest.approx(0.012, abs=1e-3)
    assert np.hypot(*(ball - centre)[:2]) < 0.012
    assert world.free_body("ring").solid is world.free_body("ring").solid


def test_a_force_accelerates_an_object_for_its_time(ring: Path) -> None:
    world = world_of("puck:=box:0.1,0.1,0.02:0.5@1.5,0,5")
    gravity = world.model.opt.gravity
    world.push_object("puck", np.array((2.0, 0.0, 0.5 * 9.81, 0.0, 0.0, 0.0)), 0.1)
    for _ in range(200):
        world.step()
    # Number of physics steps that begin before the end.
    time = world.time_step * np.ceil(0.1 / world.time_step - 1e-9)
    speed = world.data.joint("object:puck").qvel[:3]
    np.testing.assert_allclose(speed[0], 2.0 / 0.5 * time, rtol=1e-6)
    np.testing.assert_allclose(speed[2], gravity[2] * (world.time - time), rtol=1e-2)


def test_forces_and_meshes_that_are_refused(tmp_path: Path) -> None:
    world = world_of("puck:=box:0.1,0.1,0.02:0.5@1.5,0,0.01")
    with pytest.raises(UnknownObject, match="'puk'"):
        world.push_object("puk", np.zeros(6), 0.1)
    for bad in (np.full(6, np.nan), np.full(6, 1e6), np.zeros(3)):
        with pytest.raises(InvalidCommand):
            world.push_object("puck", bad, 0.1)
    with pytest.raises(InvalidConfig):
        parse_free_body(f"cup:=mesh:{tmp_path}/cup.stl:0.1@0,0,0")
    sheet = tmp_path / "sheet.stl"
    trimesh.Trimesh(np.eye(3), [(0, 1, 2)]).export(sheet)
    with pytest.raises(InvalidConfig):
        world_of(f"sheet:=mesh:{sheet}:0.1@1,0,0")
