# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo model against the tree it was built from, with its meshes."""

import struct
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh
from raised_errors import about
from scipy.spatial.transform import Rotation

from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, JointKind, KinematicTree, Mesh, Sphere
from motion_nodes.core.scene import mesh_file
from motion_nodes.core.scene.convex_decomposition import is_convex
from motion_nodes.core.scene.shapes import triangle_mesh
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.sim import mjcf_shapes
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_free_body
from motion_nodes.extras.sim.drive_targets import JointTargets
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mjcf_shapes import Obstacle
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

MakeRobot = Callable[..., Robot]


def slow_poses(tree: KinematicTree, values: dict[str, float]) -> dict[str, np.ndarray]:
    """Return X_RL of every link, joint by joint: an oracle that is independent of the build."""
    poses = {tree.root: np.eye(4)}
    for link in tree.frame_names[1:]:
        joint = tree.parent_joint[link]
        X_JL = np.eye(4)
        if joint.kind is JointKind.PRISMATIC:
            X_JL[:3, 3] = values[joint.name] * joint.axis
        elif joint.movable:
            X_JL[:3, :3] = Rotation.from_rotvec(values[joint.name] * joint.axis).as_matrix()
        poses[link] = poses[joint.parent] @ joint.X_PJ @ X_JL
    return poses


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_body_poses_are_those_of_the_tree(name):
    robot = load_robot(name)
    rng = np.random.default_rng(7)
    world = MujocoWorld([RobotPlacement(robot, "r", from_xyz_rpy((0.3, -0.2, 0.1), (0, 0, 0.8)))])
    model, data = world.model, world.data
    lower = np.maximum(robot.limits.lower, -7.0)
    upper = np.minimum(robot.limits.upper, 7.0)
    for _ in range(20):
        q = rng.uniform(lower, upper)
        values = dict(zip(robot.joint_names, q, strict=True))
        for joint in robot.tree.joints.values():
            if joint.mimic is not None:
                values[joint.name] = (
                    joint.mimic.multiplier * values[joint.mimic.joint] + joint.mimic.offset
                )
            if joint.movable:
                data.joint(f"r/{joint.name}").qpos[0] = values[joint.name]
        mujoco.mj_kinematics(model, data)
        X_WR = np.eye(4)
        X_WR[:3, :3] = data.body(f"r/{robot.tree.root}").xmat.reshape(3, 3)
        X_WR[:3, 3] = data.body(f"r/{robot.tree.root}").xpos
        for link, X_RL in slow_poses(robot.tree, values).items():
            X_WL = X_WR @ X_RL
            body = data.body(f"r/{link}")
            np.testing.assert_allclose(body.xpos, X_WL[:3, 3], atol=1e-9, err_msg=link)
            np.testing.assert_allclose(body.xmat.reshape(3, 3), X_WL[:3, :3], atol=1e-9)


def square(p: np.ndarray) -> np.ndarray:
    """Return the inertia of a unit mass at ``p`` about the origin."""
    return p @ p * np.eye(3) - np.outer(p, p)


def about_origin(model: mujoco.MjModel, body: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass, moment and inertia of a body about its origin, its rollers included."""
    parts = [(body, np.zeros(3), np.eye(3))]
    for child in np.flatnonzero(model.body_parentid == body):
        if "roller" in model.body(int(child)).name:
            turn = Rotation.from_quat(np.roll(model.body_quat[child], -1)).as_matrix()
            parts.append((int(child), model.body_pos[child], turn))
    mass, moment, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
    for i, place, turn in parts:
        m = float(model.body_mass[i])
        com = place + turn @ model.body_ipos[i]
        R = turn @ Rotation.from_quat(np.roll(model.body_iquat[i], -1)).as_matrix()
        mass, moment = mass + m, moment + m * com
        inertia = inertia + R @ np.diag(model.body_inertia[i]) @ R.T + m * square(com)
    return mass, moment, inertia


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_mass_and_inertia_are_those_of_the_tree(name):
    robot = load_robot(name)
    world = MujocoWorld([RobotPlacement(robot, "r")])
    total = 0.0
    for link in robot.tree.links.values():
        body = world.model.body(f"r/{link.name}")
        if link.inertial is None:
            assert body.mass[0] == 0.0
            continue
        total += link.inertial.mass
        mass, moment, inertia = about_origin(world.model, body.id)
        np.testing.assert_allclose(mass, link.inertial.mass, rtol=1e-12)
        com, R_LC = link.inertial.X_LC[:3, 3], link.inertial.X_LC[:3, :3]
        np.testing.assert_allclose(moment, mass * com, atol=1e-12)
        np.testing.assert_allclose(
            inertia, R_LC @ link.inertial.inertia @ R_LC.T + mass * square(com), atol=1e-9
        )
    np.testing.assert_allclose(world.model.body(f"r/{robot.tree.root}").subtreemass[0], total)


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_nothing_but_the_floor_is_touched_at_home(name):
    robot = load_robot(name)
    world = MujocoWorld([RobotPlacement(robot, "r")])
    for contact in world.data.contact:
        bodies = [int(world.model.geom_bodyid[geom]) for geom in contact.geom]
        assert 0 in bodies


def test_limits_losses_and_drives_are_carried_over(make_spinner):
    robot = make_spinner(kind="revolute", loss=0.3, armature=0.07, effort=4.5)
    model = MujocoWorld([RobotPlacement(robot, "r")]).model
    joint, actuator = model.joint("r/spin"), model.actuator("r/spin")
    np.testing.assert_array_equal(joint.range, [-1.0, 2.0])
    assert joint.limited[0] == 1
    assert model.dof_armature[joint.dofadr[0]] == 0.07
    assert np.ravel(model.dof_damping[joint.dofadr[0]])[0] == 0.3
    np.testing.assert_array_equal(actuator.forcerange, [-4.5, 4.5])
    np.testing.assert_array_equal(actuator.gainprm[:3], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(actuator.biasprm[:3], [0.0, -40.0, -4.0])


_SIBLINGS = """
  <link name="base"/>
  {arms}
"""
_SIBLING = """
  <link name="{name}">
    <inertial><mass value="0.3"/>
      <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><origin xyz="{reach} 0 0"/><geometry><sphere radius="0.05"/></geometry></collision>
  </link>
  <joint name="{name}_joint" type="revolute">
    <origin xyz="0 {y} 0.5"/><parent link="base"/><child link="{name}"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="20" velocity="5"/>
    {mimic}
  </joint>
"""


def siblings(write_robot: MakeRobot, gap: float, mimic: str = "", reach: float = 0.2) -> Robot:
    """Return an arm with two links side by side, ``gap`` between their spheres at home."""
    y = 0.05 + gap / 2
    arms = _SIBLING.format(name="left", y=y, reach=reach, mimic="") + _SIBLING.format(
        name="right", y=-y, reach=reach, mimic=mimic
    )
    joints = "left_joint" if mimic else "left_joint, right_joint"
    return write_robot(_SIBLINGS.format(arms=arms), joints)


def test_links_that_touch_at_home_never_collide(write_robot):
    world = MujocoWorld([RobotPlacement(siblings(write_robot, gap=-0.01), "r")])
    world.command("r", JointTargets([-0.3, 0.3]))
    world.step(1000)
    np.testing.assert_allclose(world.state("r").position, [-0.3, 0.3], atol=1e-3)


def test_links_that_are_apart_at_home_do_collide(write_robot):
    world = MujocoWorld([RobotPlacement(siblings(write_robot, gap=0.02), "r")])
    world.command("r", JointTargets([-0.3, 0.3]))
    world.step(1000)
    left, right = world.state("r").position
    # The spheres meet when 0.06 - 0.2 sin(q) = 0.05.
    np.testing.assert_allclose([left, right], [-0.05, 0.05], atol=0.01)


def test_links_on_the_two_sides_of_a_joint_never_collide(write_robot):
    # Apart at home; MuJoCo's own filter excludes the fixed base.
    arm = _SIBLING.format(name="left", y=0.06, reach=0.2, mimic="")
    bump = '<collision><origin xyz="0.2 -0.06 0.5"/><geometry><sphere radius="0.05"/></geometry>'
    inside = f'<link name="base">{bump}</collision></link>{arm}'
    world = MujocoWorld([RobotPlacement(write_robot(inside, "left_joint"), "r")])
    world.command("r", JointTargets([-0.6]))
    world.step(1000)
    np.testing.assert_allclose(world.state("r").position, -0.6, atol=1e-3)


def test_a_mimicking_joint_follows_its_leader(write_robot):
    mimic = '<mimic joint="left_joint" multiplier="-0.5" offset="0.1"/>'
    robot = siblings(write_robot, gap=0.5, mimic=mimic)
    world = MujocoWorld([RobotPlacement(robot, "r")])
    assert world.joint_names("r") == ("left_joint",)
    follower = world.data.joint("r/right_joint").qpos
    np.testing.assert_allclose(follower, 0.1)
    world.command("r", JointTargets([0.8]))
    world.step(1000)
    np.testing.assert_allclose(world.state("r").position, 0.8, atol=1e-3)
    np.testing.assert_allclose(follower, 0.1 - 0.5 * 0.8, atol=2e-3)


def write_cube(path: Path, half: float) -> None:
    """Write a cube as binary STL."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
    with path.open("wb") as file:
        file.write(b"\0" * 80 + struct.pack("<I", len(triangles)))
        for triangle in triangles:
            file.write(struct.pack("<3f", 0, 0, 0))
            for corner in triangle:
                file.write(struct.pack("<3f", *corners[corner]))
            file.write(struct.pack("<H", 0))


def mesh_robot(make_spinner: MakeRobot, file: str) -> Robot:
    """Return the spinner with a mesh for its rotor."""
    return make_spinner(shape=f'<mesh filename="{file}" scale="1 2 1"/>')


def test_a_mesh_is_loaded_scaled_and_collides(make_spinner, tmp_path):
    write_cube(tmp_path / "cube.stl", 0.1)
    robot = mesh_robot(make_spinner, "../cube.stl")
    ball = Obstacle("ball", Sphere(0.1), from_xyz_rpy((0.0, 0.28, 0.6)))
    world = MujocoWorld([RobotPlacement(robot, "r")], WorldConfig(obstacles=(ball,)))
    geom = world.model.geom("r/rotor/collision0")
    assert geom.type[0] == mujoco.mjtGeom.mjGEOM_MESH
    vertices = world.model.mesh_vert @ Rotation.from_quat(np.roll(geom.quat, -1)).as_matrix().T
    np.testing.assert_allclose(np.ptp(vertices, axis=0), [0.2, 0.4, 0.2], atol=1e-6)
    mujoco.mj_forward(world.model, world.data)
    assert any(geom.id in contact.geom for contact in world.data.contact)


def test_a_missing_mesh_names_the_file(make_spinner):
    robot = mesh_robot(make_spinner, "nowhere.stl")
    with pytest.raises(InvalidDescription, check=about("nowhere.stl")):
        MujocoWorld([RobotPlacement(robot, "r")])


def test_a_mesh_that_cannot_be_read_is_refused_for_contact(make_spinner, tmp_path):
    (tmp_path / "cube.dae").write_text("<COLLADA/>")
    robot = mesh_robot(make_spinner, "../cube.dae")
    with pytest.raises(InvalidDescription):
        MujocoWorld([RobotPlacement(robot, "r")])


def text_stl(mesh: trimesh.Trimesh) -> bytes:
    return str(trimesh.exchange.stl.export_stl_ascii(mesh)).encode()


def padded_stl(mesh: trimesh.Trimesh) -> bytes:
    return bytes(trimesh.exchange.stl.export_stl(mesh)) + bytes(10)


def too_many_triangles(mesh: trimesh.Trimesh) -> bytes:
    return bytes(trimesh.exchange.stl.export_stl(mesh))


@pytest.mark.parametrize("content", [text_stl, padded_stl, too_many_triangles])
def test_stl_files_that_mujoco_refuses_do_not_stop_the_world(
    content, make_spinner, tmp_path, monkeypatch
):
    if content is too_many_triangles:
        monkeypatch.setattr(mjcf_shapes, "_MOST_TRIANGLES", 100)
    ball = trimesh.creation.icosphere(subdivisions=3, radius=0.1)
    (tmp_path / "ball.stl").write_bytes(content(ball))
    shown = '<visual><geometry><mesh filename="../ball.stl"/></geometry></visual>'
    shape = f'<mesh filename="../ball.stl"/></geometry></collision>{shown}<collision><geometry>'
    robot = make_spinner(shape=f'{shape}<sphere radius="0.01"/>')
    model = MujocoWorld([RobotPlacement(robot, "r")]).model
    geom = model.geom("r/rotor/collision0")
    assert geom.type[0] == mujoco.mjtGeom.mjGEOM_MESH
    size = np.ptp(model.mesh_vert, axis=0)
    assert not any("visual" in model.geom(i).name for i in range(model.ngeom))
    np.testing.assert_allclose(size, np.ptp(ball.vertices, axis=0), atol=1e-3)


def test_a_visual_mesh_that_cannot_be_read_is_left_out_with_a_warning(write_robot, caplog):
    arms = _SIBLING.format(name="left", y=0.1, reach=0.2, mimic="").replace(
        "<collision>",
        '<visual><geometry><mesh filename="pretty.dae"/></geometry></visual><collision>',
    )
    robot = write_robot(_SIBLINGS.format(arms=arms), "left_joint")
    world = MujocoWorld([RobotPlacement(robot, "r")])
    assert "pretty.dae" in caplog.text
    assert not any("visual" in world.model.geom(i).name for i in range(world.model.ngeom))


def test_a_moving_link_without_mass_gets_a_negligible_one(write_robot):
    arms = _SIBLING.format(name="left", y=0.1, reach=0.2, mimic="")
    start, end = arms.index("<inertial>"), arms.index("</inertial>") + len("</inertial>")
    robot = write_robot(_SIBLINGS.format(arms=arms[:start] + arms[end:]), "left_joint")
    world = MujocoWorld([RobotPlacement(robot, "r")])
    world.step(100)
    link = robot.tree.joints["left_joint"].child
    assert 0.0 < world.model.body(f"r/{link}").mass[0] < 1e-5
    assert np.abs(world.state("r").position - robot.home).max() < 0.05


def test_obstacles_stand_where_they_were_put():
    robot = load_robot("jetbot")
    obstacles = (
        Obstacle("box", Box((0.2, 0.4, 0.6)), from_xyz_rpy((2, 0, 0.3), (0, 0, 0.5))),
        Obstacle("ball", Sphere(0.25), from_xyz_rpy((3, 0, 0.25))),
        Obstacle("post", Cylinder(0.1, 0.8), from_xyz_rpy((4, 0, 0.4)), (1, 0, 0, 1)),
    )
    world = MujocoWorld([RobotPlacement(robot, "r")], WorldConfig(obstacles=obstacles))
    box, ball, post = (world.model.geom(f"obstacle:{o.name}") for o in obstacles)
    np.testing.assert_allclose(box.size, [0.1, 0.2, 0.3])
    assert ball.size[0] == 0.25
    np.testing.assert_allclose(post.size[:2], [0.1, 0.4])
    R = np.empty(9)
    mujoco.mju_quat2Mat(R, box.quat)
    np.testing.assert_allclose(R.reshape(3, 3), obstacles[0].X_WO[:3, :3], atol=1e-12)
    np.testing.assert_allclose(post.rgba, [1, 0, 0, 1])


@pytest.mark.parametrize("name", available_robots())
def test_a_world_without_visual_shapes_moves_the_same(name):
    rng = np.random.default_rng(3)
    boxes = tuple(
        parse_free_body(f"box{i}:=box:0.06,0.06,0.06:0.3@{x},{y},{0.7 + 0.3 * i}")
        for i, (x, y) in enumerate(rng.uniform(-0.3, 0.3, (4, 2)))
    )
    worlds = [
        MujocoWorld([RobotPlacement(load_robot(name), "r")], WorldConfig(objects=boxes, **shapes))
        for shapes in ({}, {"visual_shapes": False})
    ]
    shown, bare = worlds
    assert bare.model.ngeom < shown.model.ngeom
    touched = 0
    for _ in range(10):
        speed = rng.uniform(-1.0, 1.0, len(shown.joint_names("r")))
        for world in worlds:
            world.data.qvel[world.model.nv - len(speed) - 6 * len(boxes) :][: len(speed)] += speed
            world.step(40)
        touched += shown.data.ncon
        np.testing.assert_array_equal(bare.data.qpos, shown.data.qpos)
        np.testing.assert_array_equal(bare.data.qvel, shown.data.qvel)
    assert touched


def test_bad_obstacles_are_refused():
    with pytest.raises(InvalidConfig):
        Obstacle("o", Box((0.1, -0.1, 0.1)))
    with pytest.raises(InvalidConfig):
        Obstacle("o", Sphere(np.nan))
    with pytest.raises(InvalidConfig):
        Obstacle("o", Mesh("a.stl"))  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig):
        Obstacle("o", Sphere(0.1), np.diag([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(InvalidConfig):
        WorldConfig(obstacles=(Obstacle("twin", Sphere(0.1)), Obstacle("twin", Sphere(0.2))))


def test_the_step_comes_from_the_description_unless_given(rover):
    assert MujocoWorld([RobotPlacement(rover, "r")]).time_step == 0.002
    world = MujocoWorld([RobotPlacement(rover, "r")], WorldConfig(time_step=0.001))
    assert world.time_step == 0.001
    for bad in (0.0, -0.001, 0.5, np.nan):
        with pytest.raises(InvalidConfig, check=about("time_step")):
            WorldConfig(time_step=bad)
    with pytest.raises(InvalidConfig, check=about("gravity")):
        WorldConfig(gravity=(0.0, 0.0, np.inf))


def test_the_specification_can_be_exported(rover):
    world = MujocoWorld([RobotPlacement(rover, "r")])
    again = mujoco.MjModel.from_xml_string(world.spec.to_xml())
    assert again.nq == world.model.nq
    np.testing.assert_allclose(again.body_mass, world.model.body_mass)


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


def test_a_notch_is_free_and_walls_are_solid(make_spinner, tmp_path):
    write_stl(tmp_path / "u.stl", u_corners())
    robot = make_spinner(shape='<mesh filename="../u.stl"/>')
    notch, floor, walls = (0.0, 0.0, 0.12), (0.0, 0.0, 0.05), ((0.08, 0.0, 0.2), (-0.08, 0, 0.2))
    assert touched(robot, notch, floor, *walls) == [False, True, True, True]


def test_a_scale_applies_to_the_hulls(make_spinner, tmp_path):
    write_stl(tmp_path / "u.stl", 1e3 * u_corners())
    robot = make_spinner(shape='<mesh filename="../u.stl" scale="0.001 0.001 -0.001"/>')
    assert touched(robot, (0.0, 0.0, -0.12), (0.0, 0.0, -0.05), (0.08, 0.0, -0.2)) == [
        False,
        True,
        True,
    ]


def test_formats_that_mujoco_does_not_read_collide(make_spinner, tmp_path):
    import trimesh

    corners = u_corners()
    mesh = trimesh.Trimesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))
    mesh.export(tmp_path / "u.ply")
    robot = make_spinner(shape='<mesh filename="../u.ply"/>')
    assert touched(robot, (0.0, 0.0, 0.12), (0.08, 0.0, 0.2)) == [False, True]


def test_a_flat_mesh_collides(make_spinner, tmp_path):
    square = np.array([(-0.1, -0.1, 0.05), (0.1, -0.1, 0.05), (0.1, 0.1, 0.05), (-0.1, 0.1, 0.05)])
    write_stl(tmp_path / "plate.stl", square[[(0, 1, 2), (0, 2, 3)]])
    robot = make_spinner(shape='<mesh filename="../plate.stl"/>')
    assert touched(robot, (0.0, 0.0, 0.06), (0.0, 0.0, 0.08)) == [True, False]


def test_hulls_are_kept_on_disk(tmp_path, monkeypatch, make_spinner):
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


def test_convex_meshes_are_closed_and_have_no_notch():
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    u = u_corners()
    box = trimesh.creation.box((0.1, 0.2, 0.3))
    open_box = box.faces[2:]
    assert is_convex(triangle_mesh(ball.vertices, ball.faces))
    assert is_convex(triangle_mesh(box.vertices, box.faces[:, ::-1]))
    assert not is_convex(triangle_mesh(u.reshape(-1, 3), np.arange(3 * len(u))))
    assert not is_convex(triangle_mesh(box.vertices, open_box))
