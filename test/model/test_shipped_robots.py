# SPDX-License-Identifier: Apache-2.0
"""Every shipped robot: complete, valid, equal in other libraries, shapes around meshes."""

import json
import math
import re
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from mujoco_urdf import imported
from scipy.spatial import ConvexHull

from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, KinematicTree, Mesh
from motion_nodes.core.scene.link_geometry import dense_points, triangles_of
from motion_nodes.core.scene.mesh_file import read_mesh
from motion_nodes.tolerances import RESTING_DEPTH
from motion_nodes.typing import Array

SHIPPED = sorted(available_robots())


@pytest.fixture(scope="module", params=SHIPPED)
def robot(request):
    return load_robot(request.param)


def frame_poses(tree: KinematicTree, q: Array) -> dict[str, Array]:
    """Forward kinematics in plain NumPy: X_BF of every frame in the root."""
    packed = tree.packed
    poses = [np.eye(4)]
    for i in range(1, len(packed.frame_names)):
        X_JC = np.eye(4)
        if packed.q_index[i] >= 0:
            value = packed.multiplier[i] * q[packed.q_index[i]] + packed.offset[i]
            axis = packed.axis[i]
            if packed.kind[i] == 2:
                X_JC[:3, 3] = axis * value
            else:
                K = np.cross(np.eye(3), axis)
                X_JC[:3, :3] = np.eye(3) + np.sin(value) * K + (1 - np.cos(value)) * K @ K
        poses.append(poses[packed.parent[i]] @ packed.X_PJ[i] @ X_JC)
    return dict(zip(packed.frame_names, poses, strict=True))


def random_configurations(robot: Robot, count: int) -> Array:
    rng = np.random.default_rng(7)
    lower = np.maximum(robot.limits.lower, -np.pi)
    upper = np.minimum(robot.limits.upper, np.pi)
    return rng.uniform(lower, upper, (count, len(robot.joint_names)))


def all_values(robot: Robot, q: Array) -> dict[str, float]:
    """Return the positions of all joints, mimic joints included."""
    values = dict(zip(robot.joint_names, q.tolist(), strict=True))
    for name, joint in robot.tree.joints.items():
        if joint.mimic is not None:
            follows = joint.mimic
            values[name] = follows.multiplier * values[follows.joint] + follows.offset
    return values


def test_all_promised_robots_are_shipped():
    promised = "franka fr3 ur5e ur10e xarm6 xarm7 so101 jetbot nova_carter turtlebot3_burger kaya"
    assert {*promised.split(), "leatherback", "ur3e", "ur16e", "open_manipulator_x"} <= set(SHIPPED)


def test_name_and_folder_agree(robot):
    assert robot.directory.name == robot.name == robot.tree.name


def test_limits_are_finite_except_positions_of_wheels(robot):
    limits = robot.limits
    driven = [i for i, name in enumerate(robot.joint_names) if name not in robot.passive_joints]
    for values in (limits.velocity, limits.effort, limits.acceleration, limits.jerk):
        assert np.all(np.isfinite(values[driven]))
        assert np.all(values > 0.0)
    wheels = robot.base.wheel_names if robot.base else ()
    bounded = [i for i in driven if robot.joint_names[i] not in wheels]
    assert np.all(np.isfinite(limits.lower[bounded]))
    assert np.all(limits.lower[bounded] < limits.upper[bounded])


def test_every_named_state_lies_inside_the_limits(robot):
    assert "home" in robot.state_names
    for name in robot.state_names:
        assert robot.limits.violations(robot.named_state(name)) == ()


def test_every_moving_part_has_mass(robot):
    """Physics engines need mass in every moving body, fixed links included."""
    carried: dict[str, float] = {}
    for frame in robot.tree.frame_names:
        joint = robot.tree.parent_joint.get(frame)
        top = frame
        while joint is not None and not joint.movable:
            top = joint.parent
            joint = robot.tree.parent_joint.get(top)
        inertial = robot.tree.links[frame].inertial
        carried[top] = carried.get(top, 0.0) + (inertial.mass if inertial else 0.0)
    assert all(mass > 0.0 for mass in carried.values()), carried


def test_mass_matrix_is_positive_definite(robot):
    model = pin.buildModelFromXML(robot.urdf)
    data = model.createData()
    for q in random_configurations(robot, 5):
        M = pin.crba(model, data, _pinocchio_q(model, robot, q))
        assert np.linalg.eigvalsh(np.triu(M) + np.triu(M, 1).T).min() > 0.0


def test_frames_equal_those_of_pinocchio(robot):
    model = pin.buildModelFromXML(robot.urdf)
    data = model.createData()
    for q in random_configurations(robot, 10):
        pin.framesForwardKinematics(model, data, _pinocchio_q(model, robot, q))
        for name, X in frame_poses(robot.tree, q).items():
            oracle = data.oMf[model.getFrameId(name)].homogeneous
            np.testing.assert_allclose(X, oracle, atol=1e-9, err_msg=name)


def test_frames_equal_those_of_mujocos_urdf_importer(robot):
    # Without this element MuJoCo merges links that are fixed to each other.
    model = imported(robot)
    data = mujoco.MjData(model)
    for q in random_configurations(robot, 10):
        for name, value in all_values(robot, q).items():
            data.qpos[model.joint(name).qposadr[0]] = value
        mujoco.mj_kinematics(model, data)
        poses = frame_poses(robot.tree, q)
        # The importer may merge the root into its world, which has another name.
        for name in robot.tree.frame_names[1:]:
            body = data.body(name)
            np.testing.assert_allclose(poses[name][:3, 3], body.xpos, atol=1e-9, err_msg=name)
            np.testing.assert_allclose(
                poses[name][:3, :3], body.xmat.reshape(3, 3), atol=1e-9, err_msg=name
            )


def test_limits_and_masses_equal_those_of_pinocchio(robot):
    model = pin.buildModelFromXML(robot.urdf)
    for i, name in enumerate(robot.joint_names):
        joint = model.joints[model.getJointId(name)]
        assert model.velocityLimit[joint.idx_v] == robot.limits.velocity[i]
        assert model.effortLimit[joint.idx_v] == robot.limits.effort[i]
        if joint.nq == 1:
            assert model.lowerPositionLimit[joint.idx_q] == robot.limits.lower[i]
            assert model.upperPositionLimit[joint.idx_q] == robot.limits.upper[i]
    ours = sum(part.inertial.mass for part in robot.tree.links.values() if part.inertial)
    theirs = sum(inertia.mass for inertia in model.inertias)
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_each_source_points_at_a_heading_of_the_readme(robot):
    readme = (robot.directory / "README.md").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in readme.splitlines()
        if line.startswith("#")
    }
    assert robot.description.sources
    for source in robot.description.sources.values():
        file, _, anchor = source.partition("#")
        assert file == "README.md"
        assert anchor in headings


def test_each_moving_link_can_be_seen_and_touched(robot):
    for joint in robot.tree.joints.values():
        if joint.movable:
            part = robot.tree.links[joint.child]
            assert part.visuals, part.name
            assert part.collisions, part.name


def test_shapes_need_no_files_but_the_robots_own_and_have_colours(robot):
    for part in robot.tree.links.values():
        for shape in (*part.visuals, *part.collisions):
            if isinstance(shape.geometry, Mesh):
                file = robot.mesh_path(shape.geometry.filename)
                assert file.parent == robot.directory / "meshes"
        assert all(shape.rgba is not None for shape in part.visuals)


def test_a_group_finds_its_joints_in_all_joints(robot):
    for group in robot.groups.values():
        assert tuple(robot.joint_names[i] for i in group.indices) == group.joints
        for alias in group.aliases:
            assert robot.group(alias) is group


def test_package_holds_readme_and_licence_line(robot):
    for name in ("robot.yaml", robot.description.urdf):
        assert "SPDX-License-Identifier: Apache-2.0" in (robot.directory / name).read_text()
    assert Path(robot.directory / "README.md").stat().st_size > 500


def _pinocchio_q(model: pin.Model, robot: Robot, q: Array) -> Array:
    """Return positions in Pinocchio's order; a continuous joint is stored as cosine and sine."""
    result = pin.neutral(model)
    for name, value in all_values(robot, q).items():
        joint = model.joints[model.getJointId(name)]
        both = (np.cos(value), np.sin(value))
        result[joint.idx_q : joint.idx_q + joint.nq] = both if joint.nq == 2 else value
    return result


EXTREMES = json.loads(Path(__file__).with_name("published_extremes.json").read_text())
EXCESS = 0.002
"""Max excess of shapes over the meshes [m]."""
STICK_OUT = 0.003
"""Max excess of shapes over the collision spheres [m]."""
FINGER = (
    ((0.0, 0.0185, 0.011), (0.022, 0.015, 0.02), 0.0),
    ((0.0, 0.0068, 0.0022), (0.022, 0.0088, 0.0038), 0.0),
    ((0.0, 0.0159, 0.02835), (0.0175, 0.007, 0.0235), math.pi / 6.0),
    ((0.0, 0.00758, 0.04525), (0.0175, 0.0152, 0.0185), 0.0),
)
"""Left finger in ``franka_hand.xacro`` of franka_ros: centre, size [m], rotation about x [rad]."""


@pytest.fixture(scope="module", params=sorted(EXTREMES))
def robot_of_published_shapes(request):
    return load_robot(request.param)


def hull_of(robot: Robot, link: str) -> ConvexHull:
    """Return the one mesh that is a link's collision geometry."""
    (shape,) = robot.tree.links[link].collisions
    assert isinstance(shape.geometry, Mesh)
    np.testing.assert_array_equal(shape.X_LG, np.eye(4))
    return ConvexHull(read_mesh(robot.mesh_path(shape.geometry.filename)).vertices)


def test_each_published_mesh_has_a_shape(robot_of_published_shapes):
    links = set(EXTREMES[robot_of_published_shapes.name]["links"])
    solid = {name for name, link in robot_of_published_shapes.tree.links.items() if link.collisions}
    fingers = {f"{arm}_{side}finger" for arm in ("panda", "fr3") for side in ("left", "right")}
    assert solid - fingers == links


def test_extreme_points_of_the_meshes_are_inside(robot_of_published_shapes):
    """By more than half of RESTING_DEPTH, by which verification moves surfaces inwards."""
    for link, points in EXTREMES[robot_of_published_shapes.name]["links"].items():
        planes = hull_of(robot_of_published_shapes, link).equations
        height = np.array(points) @ planes[:, :3].T + planes[:, 3]
        assert height.max() < -0.5 * RESTING_DEPTH, link


def test_a_shape_ends_close_to_the_mesh(robot_of_published_shapes):
    """In each direction the shape extends hardly farther than the mesh's extreme point."""
    lattice = directions(48)
    for link, points in EXTREMES[robot_of_published_shapes.name]["links"].items():
        vertices = hull_of(robot_of_published_shapes, link).points
        mesh = np.einsum("di,di->d", np.array(points), lattice)
        beyond = (vertices @ lattice.T).max(axis=0) - mesh
        assert beyond.min() > 0.0, link
        assert beyond.max() < EXCESS + 1e-5, link


def directions(count: int) -> Array:
    """Return the directions of the file's points, a Fibonacci lattice, shape (d, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (3.0 - np.sqrt(5.0)) * np.arange(count)
    width = np.sqrt(1.0 - z**2)
    return np.column_stack((width * np.cos(angle), width * np.sin(angle), z))


@pytest.mark.long
def test_shapes_stick_out_of_the_spheres_by_no_more_than_stated(robot_of_published_shapes):
    for name, link in robot_of_published_shapes.tree.links.items():
        if not link.collisions:
            continue
        corners = np.concatenate(
            [triangles_of(s, robot_of_published_shapes.mesh_path) for s in link.collisions]
        )
        points, spheres = (
            dense_points(corners, 0.004),
            np.array(robot_of_published_shapes.spheres[name]),
        )
        beyond = np.full(len(points), np.inf)
        for sphere in spheres:
            away = np.linalg.norm(points - sphere[:3], axis=1) - sphere[3]
            np.minimum(beyond, away, out=beyond)
        assert beyond.max() < STICK_OUT + 1e-4, name


@pytest.mark.parametrize(("link", "side"), [("panda_leftfinger", 1.0), ("panda_rightfinger", -1.0)])
def test_the_fingers_contain_the_published_boxes(link, side):
    shapes = load_robot("franka").tree.links[link].collisions
    corners = 0.5 * np.stack(np.meshgrid(*3 * [(-1.0, 1.0)]), axis=-1).reshape(-1, 3)
    for (x, y, z), size, turn in FINGER:
        X = from_xyz_rpy((x, side * y, z), (side * turn, 0.0, 0.0))
        points = (corners * size) @ X[:3, :3].T + X[:3, 3]
        margins = []
        for shape in shapes:
            assert isinstance(shape.geometry, Box)
            local = (points - shape.X_LG[:3, 3]) @ shape.X_LG[:3, :3]
            margins.append((0.5 * np.array(shape.geometry.size) - np.abs(local)).min())
        assert max(margins) > 0.5 * RESTING_DEPTH
