# SPDX-License-Identifier: Apache-2.0
"""Wheeled robots: properties users rely on, and rollers in URDF and robot.yaml."""

import copy
import dataclasses
import math
from typing import Any

import mujoco
import numpy as np
import pytest
from bases.holonomic_samples import kaya
from model.holonomic_robot import KAYA_YAWS, PLACES, SPIN, TRIANGLE, triangle, wheel_joint
from model.robot_samples import INERTIAL, changed, joint, link, urdf, write_robot
from raised_errors import about

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.from_robot import base_of
from motion_nodes.core.bases.holonomic import HolonomicBase, HolonomicQpBase
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_builder import Agreement, wheel_place
from motion_nodes.core.robot.robot_yaml import (
    AckermannSpec,
    DifferentialSpec,
    HolonomicSpec,
    RollerDescription,
    SimulationDescription,
)
from motion_nodes.core.robot.tree import Cylinder, Rollers
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidConfig, InvalidDescription, UnknownFrame, UnknownJoint

BASES = ("nova_carter", "kaya", "leatherback", "jetbot")


@pytest.fixture(scope="module", params=BASES)
def robot(request):
    return load_robot(request.param)


def wheels_of(robot: Robot) -> dict[str, float]:
    """Return every link that rolls on the floor and its radius [m]: driven wheels and casters."""
    base = base_of(robot)
    radii = dict(zip(base.wheel_names, base.wheel_radii, strict=True))
    if robot.name == "nova_carter":
        radii |= {"joint_caster_left": 0.0755, "joint_caster_right": 0.0755}
    return {robot.tree.joint(joint).child: float(radius) for joint, radius in radii.items()}


def standing_links(robot: Robot) -> set[str]:
    """Return every link that touches the floor, also a caster that slides."""
    return {*wheels_of(robot), *(("caster_link",) if robot.name == "jetbot" else ())}


def test_all_wheels_stand_on_the_floor_at_home(robot):
    """base_link lies on the floor: each wheel's axle is one radius above it."""
    kinematics = Kinematics(robot.tree)
    for wheel, radius in wheels_of(robot).items():
        X_RW = kinematics.pose(robot.home, wheel)
        assert X_RW[2, 3] == pytest.approx(radius, abs=2e-5), wheel
        (shape,) = robot.tree.link(wheel).collisions
        assert isinstance(shape.geometry, Cylinder)
        assert shape.geometry.radius == pytest.approx(radius)
        # It is the cylinder that the joint turns about.
        axis = robot.tree.parent_joint[wheel].axis
        assert abs(axis @ shape.X_LG[:3, 2]) == pytest.approx(1.0)


def test_nothing_but_wheels_is_near_the_floor(robot):
    kinematics = Kinematics(robot.tree)
    standing = standing_links(robot)
    for name, part in robot.tree.links.items():
        if name in standing:
            continue
        X_RL = kinematics.pose(robot.home, name)
        for shape in part.collisions:
            assert (X_RL @ shape.X_LG)[2, 3] > 0.02, name


def test_a_base_stands_between_its_wheels(robot):
    kinematics = Kinematics(robot.tree)
    mass, moment = 0.0, np.zeros(3)
    for name, part in robot.tree.links.items():
        if part.inertial is not None:
            X_RC = kinematics.pose(robot.home, name) @ part.inertial.X_LC
            mass += part.inertial.mass
            moment += part.inertial.mass * X_RC[:3, 3]
    x, y, height = moment / mass
    places = np.array([kinematics.pose(robot.home, link)[:2, 3] for link in standing_links(robot)])
    assert places[:, 0].min() < x < places[:, 0].max()
    assert places[:, 1].min() < y < places[:, 1].max()
    # Braking at the limit, forward or backward, lifts no wheel: a h < g x.
    assert robot.base is not None
    x_limits = robot.base.linear.x
    braking = x_limits.max_deceleration or x_limits.max_acceleration
    reach = min(places[:, 0].max() - x, x - places[:, 0].min())
    assert braking * height < 9.81 * reach


def test_the_wheels_can_do_what_the_limits_of_the_body_promise(robot):
    base, spec = base_of(robot), robot.base
    assert spec is not None
    fastest = dict(zip(robot.joint_names, robot.limits.velocity, strict=True))
    v, w = spec.linear.x.max_velocity, spec.angular.z.max_velocity
    for twist in (Twist2(v), Twist2(0.5 * v, 0.0, w)):
        speeds = base.wheels_from_twist(base.nearest_twist(twist))
        for name, speed in zip(base.wheel_names, speeds, strict=True):
            assert abs(speed) <= fastest[name]


def test_wheels_of_the_nova_carter_stand_where_its_description_says():
    robot = load_robot("nova_carter")
    assert isinstance(robot.base, DifferentialSpec)
    left = robot.tree.joint("joint_wheel_left").X_PJ[:3, 3]
    right = robot.tree.joint("joint_wheel_right").X_PJ[:3, 3]
    assert left[1] - right[1] == pytest.approx(robot.base.wheel_separation, abs=1e-12)
    assert left[1] == -right[1] == pytest.approx(0.1726 + 0.034)
    kinematics = Kinematics(robot.tree)
    for side, y in (("left", 0.13225), ("right", -0.13225)):
        swivel = kinematics.pose(robot.home, f"caster_swivel_{side}")
        wheel = kinematics.pose(robot.home, f"caster_wheel_{side}")
        np.testing.assert_allclose(swivel[:2, 3], (-0.47195, y), atol=1e-9)
        # The wheel trails the swivel.
        np.testing.assert_allclose(wheel[:2, 3] - swivel[:2, 3], (-0.04, 0.0), atol=1e-9)


def test_the_kaya_has_the_wheels_of_isaac_sims_example():
    """The example's positions are relative to the centre of mass, ours to the wheels' centre."""
    robot = load_robot("kaya")
    assert isinstance(robot.base, HolonomicSpec)
    example = np.array(((-0.0980432, 0.000636773), (0.0493475, -0.084525), (0.0495291, 0.0856937)))
    ours = np.array([robot.tree.joint(name).X_PJ[:2, 3] for name in robot.base.wheel_names])
    np.testing.assert_allclose(ours, example - example.mean(axis=0), atol=1.5e-4)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 0.0983, atol=1e-9)


@pytest.mark.parametrize(
    ("twist", "speeds"),
    [
        ((1.0, 0.0, 0.0), (0.0, 21.650953, -21.650953)),
        ((0.0, 1.0, 0.0), (-25.0, 12.5, 12.5)),
        ((0.0, 0.0, 1.0), (2.4575, 2.4575, 2.4575)),
    ],
)
def test_wheel_speeds_of_the_kaya_have_the_signs_of_isaac_sims(twist, speeds):
    ours = base_of(load_robot("kaya")).wheels_from_twist(Twist2(*twist))
    np.testing.assert_allclose(ours, speeds, atol=0.002)


def test_the_leatherback_is_as_long_and_wide_as_it_says():
    robot = load_robot("leatherback")
    spec = robot.base
    assert isinstance(spec, AckermannSpec)
    kinematics = Kinematics(robot.tree)
    place = {
        name: kinematics.pose(robot.home, robot.tree.joint(name).child)[:2, 3]
        for name in spec.wheel_names
    }
    for name in spec.front_wheel_names:
        assert place[name][0] == pytest.approx(spec.wheelbase)
    for name in spec.rear_wheel_names:
        assert place[name][0] == pytest.approx(0.0)
    for left, right in (spec.front_wheel_names, spec.rear_wheel_names):
        assert place[left][1] - place[right][1] == pytest.approx(spec.front_track_width)


def test_the_leatherback_keeps_to_the_angles_of_its_joints():
    """The inner wheel turns most, to its joint limit; the README states the radius of this turn."""
    robot = load_robot("leatherback")
    base = base_of(robot)
    limits = robot.limits.select(base.steering_names)
    for sign, inner, outer in ((1.0, 0, 1), (-1.0, 1, 0)):
        twist = Twist2(0.5, 0.0, 5.0 * sign)
        limit = limits.upper[inner] if sign > 0.0 else limits.lower[inner]
        angles = base.steer(twist, np.zeros(2), 10.0)
        assert limit == pytest.approx(0.75 * sign)
        assert angles[inner] == pytest.approx(limit)
        # Both wheels turn about one point on the line of the rear axle.
        radius = 0.32 / math.tan(abs(angles[inner])) + 0.12
        assert 0.32 / math.tan(abs(angles[outer])) - 0.12 == pytest.approx(radius)
        nearest = base.nearest_twist(twist)
        assert nearest.vx / nearest.wz == pytest.approx(sign * radius)
        assert sign * nearest.vx / nearest.wz == pytest.approx(0.46, abs=0.005)


@pytest.mark.parametrize(
    ("name", "rollers", "field"),
    [
        (
            "jetbot",
            RollerDescription(("left_wheel_joint",), 10, 0.01, 0.001),
            "simulation.rollers[0]",
        ),
        (
            "kaya",
            RollerDescription(("axle_0_jont",), 10, 0.01, 0.001),
            "simulation.rollers[0].wheels",
        ),
        (
            "kaya",
            RollerDescription(("axle_0_joint",) * 2, 10, 0.01, 0.001),
            "simulation.rollers[0].wheels",
        ),
        (
            "kaya",
            RollerDescription(("axle_0_joint",), 10, 0.02, 0.001),
            "simulation.rollers[0].radius",
        ),
    ],
)
def test_rollers_that_fit_no_wheel_are_refused(name, rollers, field):
    robot = load_robot(name)
    simulation = SimulationDescription(rollers=(rollers,))
    description = dataclasses.replace(robot.description, simulation=simulation)
    check = Agreement(robot.directory / "robot.yaml", description, robot.tree)
    with pytest.raises(InvalidDescription, check=about(field)):
        check.simulation(robot.base)


def by_yaml(**wheel: float) -> dict[str, Any]:
    """Return the robot with its wheels in robot.yaml."""
    return changed(TRIANGLE, "base.wheels", [{"joint": f"j{i}", **wheel} for i in range(3)])


def test_an_annotated_urdf_gives_the_base_that_is_built_by_hand(tmp_path):
    robot = load_robot(write_robot(tmp_path, TRIANGLE, triangle()))
    base = base_of(robot)
    assert type(base) is HolonomicBase
    assert base.wheel_names == robot.base_joints == ("j0", "j1", "j2")
    by_hand = HolonomicBase(kaya(left_handed=False))
    for twist in ((1.0, 1.0, 0.1), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        np.testing.assert_allclose(
            base.wheels_from_twist(Twist2(*twist)),
            by_hand.wheels_from_twist(Twist2(*twist)),
            rtol=0,
            atol=1e-9,
        )


def test_robot_yaml_says_the_same_as_the_urdf(tmp_path):
    twist = Twist2(0.3, -0.2, 0.5)
    mecanum = '<mecanum radius="0.05" angle_deg="45"/>'
    numbers = {"radius": 0.05, "roller_angle_deg": 45.0}
    robots = [
        load_robot(write_robot(tmp_path / "urdf", TRIANGLE, triangle(mecanum))),
        load_robot(write_robot(tmp_path / "yaml", by_yaml(**numbers), triangle(""))),
        load_robot(write_robot(tmp_path / "both", by_yaml(**numbers), triangle(mecanum))),
        load_robot(write_robot(tmp_path / "half", by_yaml(radius=0.05), triangle(mecanum))),
    ]
    assert len({robot.base.wheels for robot in robots}) == 1
    wheels = [base_of(robot).wheels_from_twist(twist) for robot in robots]
    for other in wheels[1:]:
        np.testing.assert_array_equal(other, wheels[0])


def test_the_solver_is_the_descriptions(tmp_path):
    description = changed(TRIANGLE, "base.solver", "qp")
    base = base_of(load_robot(write_robot(tmp_path, description, triangle())))
    assert type(base) is HolonomicQpBase
    wheels = base.wheels_from_twist(Twist2(1.0, 1.0, 0.1))
    np.testing.assert_allclose(wheels, (25.111903, -14.321637, 14.545453), atol=1e-6)


def test_places_are_turned_into_the_base_frame_and_each_axis_is_its_own(tmp_path):
    """The base frame has an offset and a rotation in the URDF's root."""
    links = "".join(link(name, INERTIAL) for name in ("root", "a", "deck", "w0", "w1", "w2"))
    joints = [
        joint("f1", "fixed", "root", "a", '<origin xyz="0.3 -0.2 0.1" rpy="0 0 0.7"/>'),
        joint("f2", "fixed", "root", "deck", '<origin xyz="-1 2 0" rpy="0 0 -1.1"/>'),
        wheel_joint(0, '<mecanum radius="0.04"/>'),
    ]
    # The other two belong to another link, with other axes in their joint frames.
    X_BD = np.linalg.inv(planar(0.3, -0.2, 0.7)) @ planar(-1.0, 2.0, -1.1)
    for i, axis, pitch in ((1, "1 0 0", 0.0), (2, "0 0 1", 0.5 * math.pi)):
        x, y, _ = (np.linalg.inv(X_BD) @ (*PLACES[i], 1.0)).tolist()
        yaw = KAYA_YAWS[i] + 0.7 + 1.1
        joints.append(
            joint(
                f"j{i}", "continuous", "deck", f"w{i}",
                f'<origin xyz="{x} {y} 0" rpy="0 {pitch} {yaw}"/><axis xyz="{axis}"/>{SPIN}'
                '<mecanum radius="0.04"/>',
            )
        )  # fmt: skip
    base = base_of(load_robot(write_robot(tmp_path, TRIANGLE, urdf(links, "".join(joints)))))
    for wheel, place, yaw in zip(base.config.wheels, PLACES, KAYA_YAWS, strict=True):
        assert (wheel.x, wheel.y) == pytest.approx(place, abs=1e-12)
        assert math.remainder(wheel.axis_yaw - yaw, math.tau) == pytest.approx(0.0, abs=1e-12)


def planar(x: float, y: float, yaw: float) -> np.ndarray:
    """Return a pose in the plane, shape (3, 3)."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array(((c, -s, x), (s, c, y), (0.0, 0.0, 1.0)))


def test_a_wheel_on_a_moving_part_is_refused(tmp_path):
    links = "".join(link(name, INERTIAL) for name in ("a", "fork", "w0", "w1", "w2"))
    joints = joint("swivel", "continuous", "a", "fork", '<axis xyz="0 0 1"/>' + SPIN)
    joints += wheel_joint(0, "") + wheel_joint(1, "") + wheel_joint(2, "", "fork")
    description = copy.deepcopy(by_yaml(radius=0.04))
    description["drives"][0]["joints"].append("swivel")
    robot = load_robot(write_robot(tmp_path, description, urdf(links, joints)))
    with pytest.raises(InvalidDescription):
        base_of(robot)
    with pytest.raises(UnknownJoint, check=about("j9")):
        wheel_place(robot.tree, "j9", "a")
    with pytest.raises(UnknownFrame, check=about("nowhere")):
        wheel_place(robot.tree, "j0", "nowhere")


def test_wheels_that_cannot_be_are_named(tmp_path):
    upright = triangle().replace('<axis xyz="0 1 0"/>', '<axis xyz="0 0 1"/>')
    with pytest.raises(InvalidConfig):
        base_of(load_robot(write_robot(tmp_path, TRIANGLE, upright)))
    along = triangle('<mecanum radius="0.04" angle_deg="180"/>')
    with pytest.raises(InvalidConfig):
        base_of(load_robot(write_robot(tmp_path, TRIANGLE, along)))


@pytest.mark.parametrize(
    ("description", "mecanum", "words"),
    [
        (TRIANGLE, "", "base.wheels"),
        (by_yaml(), "", "base.wheels: 'j0'"),
        (by_yaml(radius=0.05), '<mecanum radius="0.04"/>', "base.wheels: 'j0'"),
        (by_yaml(roller_angle_deg=45.0), '<mecanum radius="0.04"/>', "base.wheels: 'j0'"),
        (changed(by_yaml(radius=0.04), "base.wheels.1.joint", "j7"), "", "base.wheels"),
        (changed(by_yaml(radius=0.04), "base.wheels.1.joint", "j0"), "", "base.wheels"),
        (by_yaml(radius=0.0), "", "base.wheels[0].radius"),
        (changed(TRIANGLE, "base.solver", "osqp"), "", "base.solver"),
    ],
)
def test_descriptions_that_cannot_be_used(tmp_path, description, mecanum, words):
    with pytest.raises(InvalidDescription, check=about(words)):
        load_robot(write_robot(tmp_path, description, triangle(mecanum)))


def test_rollers_are_read_from_the_urdf():
    tree = read_urdf(triangle('<mecanum radius="0.12" angle_deg="10.3"/>'))
    assert tree.joint("j0").rollers == Rollers(0.12, 10.3)
    assert read_urdf(triangle()).joint("j0").rollers == Rollers(0.04, 90.0)
    assert read_urdf(triangle("")).joint("j0").rollers is None


def test_elements_that_we_do_not_know_are_passed_over():
    tree = read_urdf(triangle('<mecanum radius="0.04"/><sensor_noise level="3"/>'))
    assert tree.joint("j2").rollers == Rollers(0.04, 90.0)


def test_other_readers_of_urdf_pass_over_the_rollers():
    assert mujoco.MjModel.from_xml_string(triangle()).njnt == 3


@pytest.mark.parametrize(
    ("mecanum", "words"),
    [
        ("<mecanum/>", "'j0'.*mecanum.*radius"),
        ('<mecanum radius="wide"/>', "radius.*'wide'"),
        ('<mecanum radius="nan"/>', "radius.*'nan'"),
        ('<mecanum radius="0"/>', r"radius.*\b0\b"),
        ('<mecanum radius="1" angle_deg="inf"/>', "angle_deg is 'inf'"),
        ('<mecanum radius="1" angle="45"/>', "'angle'.*attribute.*angle_"),
        ('<mecanum radius="1"/><mecanum radius="1"/>', "mecanum.*twice"),
    ],
)
def test_rollers_that_cannot_be_read(mecanum, words):
    with pytest.raises(InvalidDescription, match=words):
        read_urdf(triangle(mecanum))


def test_rollers_belong_to_a_wheel():
    text = triangle().replace('type="continuous"', 'type="fixed"')
    with pytest.raises(InvalidDescription):
        read_urdf(text)
