# SPDX-License-Identifier: Apache-2.0
"""Arms and bases against published tables, and properties that users rely on."""

import mujoco
import numpy as np
import pytest
from mujoco_urdf import imported

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, multiply
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.errors import UnknownGroup, UnknownState


@pytest.fixture(scope="module")
def franka():
    return load_robot("franka")


@pytest.fixture(scope="module")
def jetbot():
    return load_robot("jetbot")


def test_the_franka_has_nine_joints_in_the_order_that_clients_use(franka):
    arm = tuple(f"panda_joint{i}" for i in range(1, 8))
    assert franka.joint_names == (*arm, "panda_finger_joint1", "panda_finger_joint2")
    assert franka.group("panda_arm").joints == franka.group("manipulator").joints == arm
    assert list(franka.group("hand").indices) == [7, 8]
    assert franka.base is None
    assert (franka.base_frame, franka.tool_frame) == ("panda_link0", "panda_hand_tcp")


def _craig(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    """Return Rx(alpha) Tx(a) Rz(theta) Tz(d), shape (4, 4)."""
    return multiply(
        from_xyz_rpy(rpy=(alpha, 0, 0)),
        from_xyz_rpy((a, 0, 0)),
        from_xyz_rpy(rpy=(0, 0, theta)),
        from_xyz_rpy((0, 0, d)),
    )


def test_the_flange_follows_the_published_denavit_hartenberg_table(franka):
    half = np.pi / 2
    a = (0, 0, 0, 0.0825, -0.0825, 0, 0.088)
    d = (0.333, 0, 0.316, 0, 0.384, 0, 0)
    alpha = (0, -half, half, half, -half, half, half)
    rng = np.random.default_rng(3)
    for q in rng.uniform(-2, 2, (5, 7)):
        X = multiply(*map(_craig, a, d, alpha, q), from_xyz_rpy((0, 0, 0.107)))
        ours = np.eye(4)
        for joint in franka.chain("panda_link0", "panda_link8"):
            turn = from_xyz_rpy()
            if joint.movable:
                turn = from_xyz_rpy(rpy=(0, 0, q[franka.joint_names.index(joint.name)]))
            ours = multiply(ours, joint.X_PJ, turn)
        np.testing.assert_allclose(ours, X, atol=1e-12)


def test_a_state_of_the_arm_leaves_the_fingers_as_at_home(franka):
    state = franka.named_state("ready")
    np.testing.assert_allclose(state[:7], (0, -0.785, 0, -2.356, 0, 1.571, 0.785))
    np.testing.assert_allclose(state[7:], franka.home[7:])
    np.testing.assert_allclose(franka.named_state("close", "gripper"), 0.0)
    assert franka.named_state("ready", "arm").shape == (7,)
    assert not state.flags.writeable


def test_unknown_states_and_groups_name_the_known_ones(franka):
    with pytest.raises(UnknownState):
        franka.named_state("redy")
    with pytest.raises(UnknownState) as caught:
        franka.named_state("open", "panda_arm")
    assert "close" not in caught.value.allowed
    assert "ready" in caught.value.allowed
    with pytest.raises(UnknownGroup):
        franka.group("griper")


def test_gains_depend_on_the_mode(franka, jetbot):
    drive = franka.drive("panda_joint4")
    assert drive.gains() == (drive.stiffness, drive.damping)
    assert drive.gains("velocity") == (0.0, drive.damping)
    assert drive.gains("effort") == (0.0, 0.0)
    assert jetbot.drive("left_wheel_joint").gains()[0] == 0.0
    assert drive.max_effort == 87.0


@pytest.mark.parametrize("robot", ["franka", "ur10e"])
def test_named_states_touch_nothing(robot):
    robot = load_robot(robot)
    model = imported(robot)
    data = mujoco.MjData(model)
    near = {frozenset((joint.parent, joint.child)) for joint in robot.tree.joints.values()}
    near |= {frozenset(pair) for pair in robot.description.collision.ignore}
    # The finger pads meet when the gripper is closed.
    meant = {"panda_leftfinger", "panda_rightfinger"}
    for name in robot.state_names:
        for joint, value in zip(robot.joint_names, robot.named_state(name), strict=True):
            data.qpos[model.joint(joint).qposadr[0]] = value
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            pair = frozenset(model.body(model.geom_bodyid[g]).name for g in contact.geom)
            closed = pair == meant and name == "close"
            assert pair in near or "world" in pair or closed, (name, pair)


def test_collision_spheres_stand_on_links_of_the_franka(franka):
    assert set(franka.spheres) <= set(franka.tree.links)


def test_wheels_and_caster_of_the_jetbot_touch_the_floor_exactly(jetbot):
    """base_link lies on the floor: the lowest point of each part that rolls is at z = 0."""
    assert jetbot.base is not None
    for name in jetbot.base.wheel_names:
        wheel = jetbot.tree.joint(name)
        assert wheel.X_PJ[2, 3] == jetbot.base.wheel_radius
        (collision,) = jetbot.tree.link(wheel.child).collisions
        assert isinstance(collision.geometry, Cylinder)
        assert collision.geometry.radius == jetbot.base.wheel_radius
        np.testing.assert_allclose(np.abs(collision.X_LG[:3, 2]), (0, 1, 0), atol=1e-12)
    caster = jetbot.tree.joint("caster_joint")
    (ball,) = jetbot.tree.link("caster_link").collisions
    assert isinstance(ball.geometry, Sphere)
    assert caster.X_PJ[2, 3] == ball.geometry.radius
    for shape in jetbot.tree.link("base_link").collisions:
        assert isinstance(shape.geometry, Box)
        assert shape.X_LG[2, 3] - shape.geometry.size[2] / 2 > 0.01


def test_wheel_joints_of_the_jetbot_agree_with_its_geometry(jetbot):
    assert jetbot.base is not None
    left = jetbot.tree.joint("left_wheel_joint").X_PJ[:3, 3]
    right = jetbot.tree.joint("right_wheel_joint").X_PJ[:3, 3]
    assert left[1] - right[1] == pytest.approx(jetbot.base.wheel_separation, abs=1e-12)
    # Positive speed drives forward: the axis points to the left.
    for name in jetbot.base.wheel_names:
        np.testing.assert_array_equal(jetbot.tree.joint(name).axis, (0, 1, 0))


PI = np.pi


@pytest.fixture(scope="module")
def ur10e():
    return load_robot("ur10e")


def _classic(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    """Return Rz(theta) Tz(d) Tx(a) Rx(alpha)."""
    return multiply(from_xyz_rpy((0, 0, d), (0, 0, theta)), from_xyz_rpy((a, 0, 0), (alpha, 0, 0)))


def test_base_to_tool_follows_the_published_denavit_hartenberg_table(ur10e):
    """The manufacturer's frames are `base` and `tool0`."""
    a = (0, -0.6127, -0.57155, 0, 0, 0)
    d = (0.1807, 0, 0, 0.17415, 0.11985, 0.11655)
    alpha = (PI / 2, 0, 0, PI / 2, -PI / 2, 0)
    kinematics = Kinematics(ur10e.tree)
    rng = np.random.default_rng(11)
    for q in rng.uniform(-PI, PI, (20, 6)):
        X_base = kinematics.pose(q, "base")
        X_tool = kinematics.pose(q, "tool0")
        ours = np.linalg.inv(X_base) @ X_tool
        np.testing.assert_allclose(ours, multiply(*map(_classic, a, d, alpha, q)), atol=1e-9)


def test_clients_find_group_frames_and_joints_by_their_usual_names(ur10e):
    joints = (
        "shoulder_pan_joint",
        "shoulder_lift_joint",
        "elbow_joint",
        "wrist_1_joint",
        "wrist_2_joint",
        "wrist_3_joint",
    )
    assert ur10e.joint_names == ur10e.group("ur_manipulator").joints == joints
    assert ur10e.group("manipulator") is ur10e.group("arm") is ur10e.group("ur_manipulator")
    assert (ur10e.base_frame, ur10e.tool_frame) == ("base_link", "tool0")
    for frame in ("base_link_inertia", "base", "flange", "ft_frame", "wrist_3_link"):
        assert frame in ur10e.tree.links
    assert {"home", "up", "test_configuration", "ready"} <= set(ur10e.state_names)


def test_the_tool_points_down_in_ready(ur10e):
    X = Kinematics(ur10e.tree).pose(ur10e.named_state("ready"), "tool0")
    np.testing.assert_allclose(X[:3, 2], (0, 0, -1), atol=1e-3)
    assert X[0, 3] > 0.5
    assert X[2, 3] > 0.3


def test_limits_are_those_of_the_manual(ur10e):
    degrees = np.degrees(ur10e.limits.velocity)
    np.testing.assert_allclose(degrees, (120, 120, 180, 180, 180, 180), rtol=1e-12)
    np.testing.assert_allclose(ur10e.limits.effort, (330, 330, 150, 54, 54, 54))
    np.testing.assert_allclose(np.degrees(ur10e.limits.upper), (360, 360, 180, 360, 360, 360))
    np.testing.assert_array_equal(ur10e.limits.lower, -ur10e.limits.upper)


ALPHA = (PI / 2, 0.0, 0.0, PI / 2, -PI / 2, 0.0)
TABLES = {
    "ur3e": (-0.24355, -0.2132, 0.15185, 0.13105, 0.08535, 0.0921),
    "ur5e": (-0.425, -0.3922, 0.1625, 0.1333, 0.0997, 0.0996),
    "ur10e": (-0.6127, -0.57155, 0.1807, 0.17415, 0.11985, 0.11655),
    "ur16e": (-0.4784, -0.36, 0.1807, 0.17415, 0.11985, 0.11655),
}
"""a2, a3, d1, d4, d5, d6 [m]: Universal Robots, article 45257."""
MASSES = {"ur3e": 8.7985, "ur16e": 27.26}
"""Sum of the masses of the links [kg], from the same article."""


@pytest.mark.parametrize("name", TABLES)
def test_base_to_tool_follows_the_published_denavit_hartenberg_table_of_ur_arms(name):
    """The manufacturer's frames are `base` and `tool0`."""
    a2, a3, d1, d4, d5, d6 = TABLES[name]
    robot = load_robot(name)
    kinematics = Kinematics(robot.tree)
    rows = zip((0.0, a2, a3, 0.0, 0.0, 0.0), (d1, 0.0, 0.0, d4, d5, d6), ALPHA, strict=True)
    links = [
        (from_xyz_rpy((0, 0, d), (0, 0, 0)), from_xyz_rpy((a, 0, 0), (alpha, 0, 0)))
        for a, d, alpha in rows
    ]
    for q in np.random.default_rng(11).uniform(-PI, PI, (20, 6)):
        turns = [from_xyz_rpy((0, 0, 0), (0, 0, angle)) for angle in q]
        expected = multiply(
            *(
                multiply(turn, along, across)
                for turn, (along, across) in zip(turns, links, strict=True)
            )
        )
        ours = np.linalg.inv(kinematics.pose(q, "base")) @ kinematics.pose(q, "tool0")
        np.testing.assert_allclose(ours, expected, atol=1e-9)


@pytest.mark.parametrize("name", MASSES)
def test_masses_are_those_that_are_published(name):
    tree = load_robot(name).tree
    moving = [j.child for j in tree.joints.values() if j.movable]
    masses = [tree.links[link].inertial.mass for link in moving]
    assert sum(masses) == pytest.approx(MASSES[name], abs=1e-4)


@pytest.mark.parametrize("name", TABLES)
def test_the_tool_points_down_in_ready_of_ur_arms(name):
    robot = load_robot(name)
    pose = Kinematics(robot.tree).pose(robot.named_state("ready"), "tool0")
    assert pose[2, 2] < -0.999


ROBOT = load_robot("open_manipulator_x")
SHOULDER = np.array([0.012, 0.0595])
"""Position of joint 2 in the base frame: x, z [m]."""
UPPER, FOREARM, HAND = (0.024, 0.128), (0.124, 0.0), (0.126, 0.0)
"""Offsets from joint to joint, and to the tool, at zero: forward, up [m]."""


def test_tool_is_that_of_a_turned_planar_chain():
    kinematics = Kinematics(ROBOT.tree)
    limits = ROBOT.limits
    for q in np.random.default_rng(5).uniform(limits.lower, limits.upper, (20, 5)):
        place, pitch = np.array([0.0, SHOULDER[1]]), 0.0
        for angle, (forward, up) in zip(q[1:4], (UPPER, FOREARM, HAND), strict=True):
            pitch += angle  # Positive angles bend forward.
            place += [
                forward * np.cos(pitch) + up * np.sin(pitch),
                up * np.cos(pitch) - forward * np.sin(pitch),
            ]
        X = kinematics.pose(q, "end_effector_link")
        expected = [SHOULDER[0] + place[0] * np.cos(q[0]), place[0] * np.sin(q[0]), place[1]]
        np.testing.assert_allclose(X[:3, 3], expected, atol=1e-9)
        assert X[2, 0] == pytest.approx(-np.sin(pitch), abs=1e-9)


def test_fingers_move_alike():
    kinematics = Kinematics(ROBOT.tree)
    q = ROBOT.named_state("open")
    left = kinematics.pose(q, "gripper_left_link")[:3, 3]
    right = kinematics.pose(q, "gripper_right_link")[:3, 3]
    assert np.linalg.norm(left - right) == pytest.approx(2.0 * (0.021 + 0.019))
