# SPDX-License-Identifier: Apache-2.0
"""Properties of the Franka and the Jetbot that users rely on."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco_urdf import imported

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, multiply
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.errors import UnknownGroup, UnknownState


@pytest.fixture(scope="module")
def franka() -> Robot:
    return load_robot("franka")


@pytest.fixture(scope="module")
def jetbot() -> Robot:
    return load_robot("jetbot")


def test_the_franka_has_nine_joints_in_the_order_that_clients_use(franka: Robot) -> None:
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


def test_the_flange_follows_the_published_denavit_hartenberg_table(franka: Robot) -> None:
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


def test_a_state_of_the_arm_leaves_the_fingers_as_at_home(franka: Robot) -> None:
    state = franka.named_state("ready")
    np.testing.assert_allclose(state[:7], (0, -0.785, 0, -2.356, 0, 1.571, 0.785))
    np.testing.assert_allclose(state[7:], franka.home[7:])
    np.testing.assert_allclose(franka.named_state("close", "gripper"), 0.0)
    assert franka.named_state("ready", "arm").shape == (7,)
    assert not state.flags.writeable


def test_unknown_states_and_groups_name_the_known_ones(franka: Robot) -> None:
    with pytest.raises(UnknownState):
        franka.named_state("redy")
    with pytest.raises(UnknownState) as caught:
        franka.named_state("open", "panda_arm")
    assert "close" not in caught.value.allowed
    assert "ready" in caught.value.allowed
    with pytest.raises(UnknownGroup):
        franka.group("griper")


def test_gains_depend_on_the_mode(franka: Robot, jetbot: Robot) -> None:
    drive = franka.drive("panda_joint4")
    assert drive.gains() == (drive.stiffness, drive.damping)
    assert drive.gains("velocity") == (0.0, drive.damping)
    assert drive.gains("effort") == (0.0, 0.0)
    assert jetbot.drive("left_wheel_joint").gains()[0] == 0.0
    assert drive.max_effort == 87.0


def test_named_states_of_the_franka_touch_nothing(franka: Robot) -> None:
    model, data = _contact_model(franka)
    near = {frozenset((joint.parent, joint.child)) for joint in franka.tree.joints.values()}
    near |= {frozenset(pair) for pair in franka.description.collision.ignore}
    for name in franka.state_names:
        for joint, value in zip(franka.joint_names, franka.named_state(name), strict=True):
            data.qpos[model.joint(joint).qposadr[0]] = value
        mujoco.mj_forward(model, data)
        for contact in data.contact:
            pair = frozenset(model.body(model.geom_bodyid[g]).name for g in contact.geom)
            # The finger pads meet when the gripper is closed.
            meant = {"panda_leftfinger", "panda_rightfinger"}
            assert pair in near or "world" in pair or (pair == meant and name == "close")


def _contact_model(robot: Robot) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Import the collision shapes into MuJoCo."""
    model = imported(robot)
    return model, mujoco.MjData(model)


def test_collision_spheres_stand_on_links_of_the_franka(franka: Robot) -> None:
    assert set(franka.spheres) <= set(franka.tree.links)


def test_wheels_and_caster_of_the_jetbot_touch_the_floor_exactly(jetbot: Robot) -> None:
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


def test_wheel_joints_of_the_jetbot_agree_with_its_geometry(jetbot: Robot) -> None:
    assert jetbot.base is not None
    left = jetbot.tree.joint("left_wheel_joint").X_PJ[:3, 3]
    right = jetbot.tree.joint("right_wheel_joint").X_PJ[:3, 3]
    assert left[1] - right[1] == pytest.approx(jetbot.base.wheel_separation, abs=1e-12)
    # Positive speed drives forward: the axis points to the left.
    for name in jetbot.base.wheel_names:
        np.testing.assert_array_equal(jetbot.tree.joint(name).axis, (0, 1, 0))


def test_the_jetbot_stands_between_wheels_and_caster(jetbot: Robot) -> None:
    mass, moment = 0.0, np.zeros(3)
    for name, part in jetbot.tree.links.items():
        origin = np.zeros(3)
        if name != jetbot.tree.root:
            origin = jetbot.tree.path(jetbot.tree.root, name)[0].X_PJ[:3, 3]
        if part.inertial is not None:
            mass += part.inertial.mass
            moment += part.inertial.mass * (origin + part.inertial.X_LC[:3, 3])
    centre = moment / mass
    assert jetbot.tree.joint("caster_joint").X_PJ[0, 3] < centre[0] < 0.0
    # It may brake at its limit without lifting the caster: a h < g x.
    assert jetbot.base is not None
    assert jetbot.base.linear.x.max_acceleration * centre[2] < 9.81 * -centre[0]


def test_the_wheels_of_the_jetbot_can_do_what_its_limits_promise(jetbot: Robot) -> None:
    base = jetbot.base
    assert base is not None
    fastest = jetbot.limits.velocity[0] * base.wheel_radius
    assert base.linear.x.max_velocity <= fastest
    assert base.angular.z.max_velocity <= 2.0 * fastest / base.wheel_separation
