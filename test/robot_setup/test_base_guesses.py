# SPDX-License-Identifier: Apache-2.0
"""Wheels and bases guessed from URDFs, against the files of the shipped robots."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from lxml import etree
from robot_setup.urdf_samples import INERTIAL, joint, link, robot
from scipy.spatial.transform import Rotation

from motion_nodes.core.bases.ackermann import AckermannBase
from motion_nodes.core.bases.from_robot import base_of as base_from_robot
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Ask, Notes, take_guess
from motion_nodes.extras.robot_setup.wheeled_base import BaseGuess, floor_contact, guess_base
from motion_nodes.extras.robot_setup.wheels import (
    Wheel,
    find_wheels,
    mecanum_evidence,
    roller_angle_of_surface,
)
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.robot_trial import effective_separation, try_robot
from motion_nodes.typing import Array


def base_of(name: str) -> BaseGuess:
    """Return the guessed base of a shipped robot's URDF."""
    shipped = load_robot(name)
    geometries = {
        link: geometry
        for link in shipped.tree.frame_names
        if (geometry := LinkGeometry.of_link(shipped, link)) is not None
    }
    wheels = find_wheels(shipped.tree, geometries, shipped.base_frame)
    return guess_base(wheels, shipped.tree, Notes(), shipped.base_frame)


@pytest.mark.parametrize("name", ["jetbot", "nova_carter"])
def test_two_sides_of_wheels_are_measured(name):
    told, found = load_robot(name).base, base_of(name)
    assert isinstance(told, DifferentialSpec)
    assert found.kind == "differential"
    assert found.block["left_wheel_names"] == list(told.left_wheel_names)
    assert found.block["right_wheel_names"] == list(told.right_wheel_names)
    assert found.block["wheel_radius"] == pytest.approx(told.wheel_radius, rel=0.02)
    assert found.block["wheel_separation"] == pytest.approx(told.wheel_separation, rel=0.03)
    assert set(found.passive) == set(load_robot(name).passive_joints)


def test_a_car_is_measured():
    told, found = load_robot("leatherback").base, base_of("leatherback")
    assert isinstance(told, AckermannSpec)
    assert found.kind == "ackermann"
    assert found.block["steering_joint_names"] == list(told.steering_joint_names)
    assert found.block["wheelbase"] == pytest.approx(told.wheelbase, rel=0.02)
    assert found.block["rear_track_width"] == pytest.approx(told.rear_track_width, rel=0.03)
    assert found.block["steered_axle"] == told.steered_axle


def test_a_tractor_steers_both_axles_and_drives(tmp_path):
    """The rear axle against the front one; driven in MuJoCo, where odometry and truth agree."""
    file = Path(__file__).parent.parent / "variety" / "tractor.urdf"
    made = new_robot(file, output=tmp_path / "tractor", spheres_accuracy=0.05, picture=False)
    base = made.robot.base
    assert isinstance(base, AckermannSpec)
    corners = [f"{end}_{side}" for end in ("front", "rear") for side in ("left", "right")]
    assert base.steered_axle == "both"
    assert base.steering_joint_names == tuple(f"{each}_steering_joint" for each in corners)
    assert base.wheel_names == tuple(f"{each}_wheel_joint" for each in corners)
    assert (base.wheelbase, base.front_track_width, base.rear_track_width) == (0.8, 0.66, 0.66)
    assert not made.robot.passive_joints
    steps = {step.name: step for step in try_robot(made.robot)}
    assert {"drives 1 m", "turns 90 degrees"} <= steps.keys()
    assert not [step.text for step in steps.values() if not step.passed]


def test_omni_wheels_are_found():
    told, found = load_robot("kaya").base, base_of("kaya")
    assert isinstance(told, HolonomicSpec)
    assert found.kind == "holonomic"
    assert set(found.driven) == set(told.wheel_names)
    assert {w["roller_angle_deg"] for w in found.block["wheels"]} == {90.0}
    radii = {wheel.joint: wheel.radius for wheel in told.wheels}
    for wheel in found.block["wheels"]:
        assert wheel["radius"] == pytest.approx(radii[wheel["joint"]], rel=0.03)
    # The rollers take only a part of the inertia of a wheel whose stated inertia is small.
    tree = load_robot("kaya").tree
    inertia = 1e-5 * np.eye(3)
    small = {
        name: replace(each, inertial=each.inertial and replace(each.inertial, inertia=inertia))
        for name, each in tree.links.items()
    }
    (rollers,) = floor_contact(found, replace(tree, links=small), {}, tree.root, Notes())["rollers"]
    assert rollers["count"] * rollers["mass"] * min(radii.values()) ** 2 < 0.5e-5


def mecanum_base(sign: float, rollers: int, word: str = "") -> str:
    """Return a base of four wheels; the axis of the roller on the floor is at +-45 degrees."""
    box = '<collision><geometry><box size="0.5 0.24 0.1"/></geometry></collision>'
    parts = [link("base_link", box)]
    hub = '<collision><origin rpy="1.5708 0 0"/><geometry><cylinder radius="{}" length="0.05"/>'
    barrel = '<collision><geometry><cylinder radius="0.015" length="0.05"/></geometry></collision>'
    for x, y in ((0.2, 0.18), (0.2, -0.18), (-0.2, 0.18), (-0.2, -0.18)):
        wheel = f"{word}wheel_{len(parts)}"
        radius = 0.05 if rollers else 0.08
        parts += [
            link(wheel, hub.format(radius) + "</geometry></collision>"),
            joint(f"{wheel}_joint", "base_link", wheel, kind="continuous", xyz=f"{x} {y} 0"),
        ]
        angle = sign * np.sign(x * y) * np.pi / 4.0
        for k in range(rollers):
            a = 2.0 * np.pi * (k + 0.3) / rollers
            to_rim = Rotation.from_euler("y", a) * Rotation.from_euler("z", angle)
            rpy = (to_rim * Rotation.from_euler("x", -np.pi / 2.0)).as_euler("xyz")
            place = f'{-0.065 * np.sin(a)} 0 {-0.065 * np.cos(a)}" rpy="{rpy[0]} {rpy[1]} {rpy[2]}'
            name = f"{wheel}_roller_{k}"
            parts += [
                link(name, barrel),
                joint(name, wheel, name, kind="continuous", xyz=place, axis="0 0 1"),
            ]
    return robot(*parts)


def single_track(rear: int, *, turns: bool, most: float = 0.5) -> str:
    """Return a base with one steered front wheel, and one or two rear wheels.

    Args:
        rear: number of rear wheels.
        turns: whether the front wheel also turns; else it only steers, as in models of cars.
        most: max steering angle [rad].
    """
    box = '<collision><geometry><box size="0.6 0.2 0.1"/></geometry></collision>'
    tyre = (
        '<collision><origin rpy="1.5708 0 0"/><geometry><cylinder radius="0.08" length="0.04"/>'
        "</geometry></collision>"
    )
    limit = f'<limit lower="{-most}" upper="{most}" velocity="5" effort="9"/>'
    fork = "" if turns else tyre
    parts = [link("base_link", box), link("fork", fork), link("front", tyre if turns else "")]
    parts += [
        joint("steer", "base_link", "fork", xyz="0.3 0 0", axis="0 0 1", inside=limit),
        joint("front", "fork", "front", kind="continuous" if turns else "fixed", xyz="0 0 0"),
    ]
    for k, y in enumerate((0.0,) if rear == 1 else (0.15, -0.15)):
        parts += [link(f"rear_{k}", tyre), joint(f"rear_{k}", "base_link", f"rear_{k}",
                  kind="continuous", xyz=f"-0.2 {y} 0")]  # fmt: skip
    return robot(*parts)


def wheels_in(text: str) -> tuple[Wheel, ...]:
    """Return the wheels of a URDF without meshes."""
    tree = read_urdf(text)
    geometries = {
        name: geometry
        for name, part in tree.links.items()
        if (geometry := LinkGeometry.of_shapes(part.collisions, Path)) is not None
    }
    return find_wheels(tree, geometries, "base_link")


def guessed(text: str, ask: Ask = take_guess) -> BaseGuess:
    """Return the base that is guessed from a URDF without meshes."""
    return guess_base(wheels_in(text), read_urdf(text), Notes(ask), "base_link")


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("rear", [1, 2])
def test_tricycles_and_bicycles_are_measured(rear, turns):
    found = guessed(single_track(rear, turns=turns))
    assert found.kind == "ackermann"
    assert found.driven == tuple(f"rear_{k}" for k in range(rear))
    assert (found.steering, found.passive) == (("steer",), ("front",) if turns else ())
    assert found.block["wheelbase"] == pytest.approx(0.5)
    assert found.block["front_wheel_radius"] == pytest.approx(0.08, abs=1e-3)
    assert "front_track_width" not in found.block
    assert found.block.get("rear_track_width") == (pytest.approx(0.3) if rear == 2 else None)


def test_a_round_link_that_turns_far_is_no_steered_wheel():
    assert guessed(single_track(2, turns=False, most=2.5)).kind == "differential"


def test_wheels_with_boxes_for_collisions_roll_on_their_visual_geometry(tmp_path):
    """As in the files of Stretch: drums without an effort limit and with high friction."""
    shape = "<{}><geometry>{}</geometry></{}>"
    box, drum = '<box size="0.1 0.1 0.03"/>', '<cylinder radius="0.05" length="0.03"/>'
    hub = '<origin xyz="0 0 {}"/><geometry><cylinder radius="0.01" length="0.06"/></geometry>'
    wheel = INERTIAL + shape.format("collision", box, "collision")
    wheel += shape.format("visual", drum, "visual")
    stiff = '<dynamics damping="20" friction="10"/>'
    body = INERTIAL + shape.format("collision", '<box size="0.4 0.3 0.04"/>', "collision")
    ball = shape.format("collision", '<sphere radius="0.04"/>', "collision")
    parts = [link("base_link", body), link("ball", INERTIAL + ball)]
    parts.append(joint("ball_joint", "base_link", "ball", kind="fixed", xyz="-0.15 0 -0.01"))
    for side, y in (("left", 0.17), ("right", -0.17)):
        parts.append(
            link(side, f"{wheel}<visual>{hub.format(-0.04 if y > 0.0 else 0.04)}</visual>")
        )
        place = f'0.05 {y} 0" rpy="-1.5708 0 0'
        parts.append(joint(f"{side}_joint", "base_link", side, kind="continuous", xyz=place,
                           axis="0 0 1", inside=stiff))  # fmt: skip
    file = tmp_path / "boxes.urdf"
    file.write_text(robot(*parts))
    made = new_robot(file, output=tmp_path / "made", spheres_accuracy=0.05).robot
    assert isinstance(made.base, DifferentialSpec)
    assert made.base.wheel_radius == pytest.approx(0.05, rel=0.02)
    assert made.base.wheel_separation == pytest.approx(0.34, rel=0.02)
    steps = {step.name: step for step in try_robot(made)}
    assert all(step.passed for step in steps.values()), steps


@pytest.mark.long
@pytest.mark.parametrize(
    ("sign", "angles"), [(1.0, [45, 135, 135, 45]), (-1.0, [135, 45, 45, 135])]
)
def test_rollers_of_a_mecanum_base_are_measured(sign, angles):
    found = guessed(mecanum_base(sign, 6))
    assert found.kind == "holonomic"
    told = [wheel["roller_angle_deg"] for wheel in found.block["wheels"]]
    assert told == pytest.approx(angles, abs=0.2)
    for wheel in found.block["wheels"]:
        assert wheel["radius"] == pytest.approx(0.08, abs=0.004)
    assert len(found.passive) == 4 * 6


def test_mecanum_wheels_known_by_name_turn_the_base_and_slide_it_as_usual():
    """docs/holonomic_bases.md: 45 degrees front left and rear right, 135 degrees the others."""
    found = guessed(mecanum_base(1.0, 0, "mecanum_"))
    assert [wheel["roller_angle_deg"] for wheel in found.block["wheels"]] == [45, 135, 135, 45]


def test_an_arm_has_no_wheels():
    assert base_of("ur10e").kind == "arm"
    assert base_of("ur10e").wheels == ()


def test_four_parallel_wheels_can_be_mecanum_wheels():
    assert guessed(mecanum_base(1.0, 0, "wheel_")).kind == "differential"
    found = guessed(mecanum_base(1.0, 0, "wheel_"), ask=lambda question: question.choices[-1])
    assert found.kind == "holonomic"


def test_wheels_without_a_speed_get_one_that_suits_their_size():
    shipped = load_robot("jetbot")
    geometries = {
        link: geometry
        for link in shipped.tree.frame_names
        if (geometry := LinkGeometry.of_link(shipped, link)) is not None
    }
    wheels = find_wheels(shipped.tree, geometries, shipped.base_frame)
    names = [wheel.joint for wheel in wheels]
    unstated = guess_base(wheels, shipped.tree, Notes(), shipped.base_frame, names)
    radius = unstated.block["wheel_radius"]
    assert unstated.wheel_velocity == pytest.approx(10.0)
    assert unstated.block["linear"]["x"]["max_velocity"] < unstated.wheel_velocity * radius
    stated = guess_base(wheels, shipped.tree, Notes(), shipped.base_frame)
    assert stated.wheel_velocity is None
    speed = min(shipped.tree.joints[name].velocity for name in stated.driven)
    assert stated.block["linear"]["x"]["max_velocity"] <= speed * radius + 1e-9


def four_wheels(folder: Path, x: float, y: float) -> Robot:
    """Return a robot with driven wheels at (+-x, +-y) [m], none of which is steered."""
    shape = "<collision>{}<geometry>{}</geometry></collision>"
    across, drum = '<origin rpy="1.5708 0 0"/>', '<cylinder radius="0.08" length="0.02"/>'
    wheel, limit = INERTIAL + shape.format(across, drum), '<limit velocity="30" effort="20"/>'
    parts = [link("base_link", INERTIAL + shape.format("", '<box size="0.3 0.2 0.1"/>'))]
    sides: dict[str, list[str]] = {"left": [], "right": []}
    for side, to_left in (("left", y), ("right", -y)):
        for end, ahead in (("front", x), ("rear", -x)):
            name = f"{end}_{side}"
            parts += [link(name, wheel), joint(f"{name}_joint", "base_link", name, inside=limit,
                           kind="continuous", xyz=f"{ahead} {to_left} 0")]  # fmt: skip
            sides[side].append(f"{name}_joint")
    joints = sides["left"] + sides["right"]
    description = {
        "format": 1, "name": folder.name, "kind": "differential", "urdf": "four.urdf",
        "frames": {"base": "base_link", "odom": "odom"},
        "base": {
            "left_wheel_names": sides["left"], "right_wheel_names": sides["right"],
            "wheel_radius": 0.08, "wheel_separation": 2.0 * y,
            "linear": {"x": {"max_velocity": 0.5, "max_acceleration": 2.0}},
            "angular": {"z": {"max_velocity": 4.0, "max_acceleration": 6.0}},
        },
        "drives": [{"joints": joints, "mode": "velocity", "damping": 5.0}],
        "limits": {"acceleration": dict.fromkeys(joints, 50.0)},
        "simulation": {"timestep": 0.005},
        "sources": dict.fromkeys(("base", "drives", "limits", "simulation"), "chosen"),
    }  # fmt: skip
    folder.mkdir()
    (folder / "four.urdf").write_text(robot(*parts))
    (folder / "robot.yaml").write_text(yaml.safe_dump(description))
    return load_robot(folder)


@pytest.mark.parametrize(("x", "y"), [(0.2, 0.18), (0.12, 0.2)])
def test_skidding_wheels_are_measured(tmp_path, x, y):
    """With equal loads and isotropic friction, the ratio of separations is 1 + (x / y)^2.

    In a steady turn the moments of friction cancel: x s_y + y s_x = 0, where a wheel slips across
    by s_y = w x and along by s_x = w y - w y_effective, at a yaw rate w.
    """
    measured = effective_separation(four_wheels(tmp_path / "rover", x, y))
    assert measured == pytest.approx(2.0 * y * (1.0 + (x / y) ** 2), rel=0.05)


def test_wheels_that_do_not_skid_are_not_measured():
    assert effective_separation(load_robot("jetbot")) is None
    assert effective_separation(load_robot("franka")) is None


def two_wheels(
    left: float, right: float, gap: float = 0.0, load: float = 0.0, ahead: float = 0.0
) -> str:
    """Return a base on two wheels of some radii, and two balls on which it rests.

    Args:
        left: radius of the left wheel [m].
        right: radius of the right wheel [m].
        gap: height of the balls above the floor [m].
        load: offset of the centre of mass from the base frame [m].
        ahead: position of the axle [m].
    """
    mass = f'<inertial><origin xyz="{load} 0 0.1"/><mass value="8"/>'
    mass += '<inertia ixx="0.1" iyy="0.1" izz="0.2" ixy="0" ixz="0" iyz="0"/></inertial>'
    shape = '<collision><origin xyz="{}" rpy="{} 0 0"/><geometry>{}</geometry></collision>'
    base = mass + shape.format("0 0 0.12", 0, '<box size="0.4 0.3 0.1"/>')
    parts = [link("base_link", base)]
    limit = '<limit effort="20" velocity="20"/>'
    for name, r, y in (("left", left, 0.2), ("right", right, -0.2)):
        drum = shape.format("0 0 0", 1.5708, f'<cylinder radius="{r}" length="0.03"/>')
        parts += [link(name, INERTIAL + drum), joint(f"{name}_joint", "base_link", name,
                  kind="continuous", xyz=f"{ahead} {y} {r}", inside=limit)]  # fmt: skip
    for name, x in (("front_ball", 0.18), ("rear_ball", -0.18)):
        ball = shape.format("0 0 0", 0, '<sphere radius="0.02"/>')
        place = f'<origin xyz="{x} 0 {0.02 + gap}"/>'
        parts += [link(name, ball), f'<joint name="{name}_joint" type="fixed">{place}'
                  f'<parent link="base_link"/><child link="{name}"/></joint>']  # fmt: skip
    return robot(*parts, name="two_wheels")


def made_from(text: str, folder: Path) -> Robot:
    """Return the robot that is made from a URDF."""
    (folder / "sample.urdf").write_text(text)
    return new_robot(folder / "sample.urdf", output=folder / "made", picture=False).robot


@pytest.mark.parametrize(("left", "right"), [(0.1, 0.08), (0.06, 0.075), (0.1, 0.1)])
def test_wheels_of_both_sides_may_have_different_radii(tmp_path, left, right):
    """It drives straight, and its odometry is that of MuJoCo."""
    made = made_from(two_wheels(left, right), tmp_path)
    assert base_from_robot(made).wheel_radii == pytest.approx([left, right], rel=1e-3)
    assert not [step.text for step in try_robot(made) if not step.passed]
    # With equal radii instead, it drives a curve.
    spec = replace(made.base, left_wheel_radius_multiplier=1.0, right_wheel_radius_multiplier=1.0)
    failed = [step.text for step in try_robot(replace(made, base=spec)) if not step.passed]
    assert any("straight ahead" in text for text in failed) == (left != right)


def test_wheels_that_cannot_turn_a_base_fail_the_trial_in_words(tmp_path):
    """The rollers' axes of four equal corners meet in the middle."""
    text, limit = two_wheels(0.1, 0.1), '<limit effort="9" velocity="9"/>'
    for k, (x, y) in enumerate(((0.2, 0.2), (0.2, -0.2), (-0.2, 0.2), (-0.2, -0.2))):
        angle = 135 if x * y > 0 else 45
        name, extra = f"corner_{k}", f'<mecanum radius="0.1" angle_deg="{angle}"/>{limit}'
        drum = '<collision><origin rpy="1.5708 0 0"/><geometry><cylinder radius="0.1" '
        wheel = link(name, INERTIAL + drum + 'length="0.03"/></geometry></collision>')
        wheel += joint(
            f"{name}_joint", "base_link", name, kind="continuous", xyz=f"{x} {y} 0.1", inside=extra
        )
        text = text.replace("</robot>", wheel + "</robot>")
    for name in ("left", "right"):
        text = text.replace(f'"{name}_joint" type="continuous"', f'"{name}_joint" type="fixed"')
    steps = {step.name: step for step in try_robot(made_from(text, tmp_path))}
    assert "cannot turn it" in steps["turns 90 degrees"].text


@pytest.mark.parametrize("gap", [0.0, 0.003, 0.008])
@pytest.mark.parametrize("load", [0.06, -0.06])
def test_resting_on_another_caster_is_no_contact(tmp_path, gap, load):
    """Which ball carries a base depends on its load: both belong to what it stands on."""
    made = made_from(two_wheels(0.1, 0.1, gap, load), tmp_path)
    physics = MujocoWorld([RobotPlacement(made, "r")])
    touched = set()
    for _ in range(100):
        physics.step(3)
        touched |= {contact.pair for contact in physics.contacts()}
    assert not touched


def test_a_rocker_that_carries_wheels_is_passive():
    text = mecanum_base(1.0, 0, "wheel_")
    rocker = link("rocker") + joint(
        "rocker_joint", "base_link", "rocker", axis="1 0 0", xyz="0 0 0"
    )
    for k in (1, 3):
        name = f"wheel_wheel_{k}"
        text = text.replace(
            f'<parent link="base_link"/><child link="{name}"/>',
            f'<parent link="rocker"/><child link="{name}"/>',
        )
    found = guessed(text.replace("</robot>", rocker + "</robot>"))
    assert found.kind == "differential"
    assert "rocker_joint" in found.passive


@pytest.mark.parametrize("raised", [False, True])
def test_two_wheels_turn_about_the_base_frame(tmp_path, raised):
    """The odometry is that of MuJoCo where the file's base frame is not on the axle."""
    text = two_wheels(0.1, 0.1, ahead=0.12)
    if raised:
        place = (
            '<origin xyz="0.05 0 0.03"/><parent link="base_footprint"/><child link="base_link"/>'
        )
        place = f'<joint name="mount" type="fixed">{place}</joint><link name="base_footprint"/>'
        text = text.replace("</robot>", f"{place}</robot>")
    made = made_from(text, tmp_path)
    assert made.base_frame == made.tree.root == "base_axle"
    assert not [step.text for step in try_robot(made) if not step.passed]
    # The file's own frame does not.
    frames = replace(made.description.frames, base="base_link")
    other = replace(made, description=replace(made.description, frames=frames))
    failed = [step.text for step in try_robot(other) if not step.passed]
    assert any("beside its odometry" in text for text in failed)


def test_the_base_frame_of_a_car_is_on_its_fixed_axle(tmp_path):
    made = made_from(car(dict.fromkeys(("left", "right"), ("0 0 0", "0 0 1"))), tmp_path)
    base = base_from_robot(made)
    assert isinstance(base, AckermannBase)
    assert base.config.fixed_axle_x == pytest.approx(0.0, abs=1e-4)
    assert made.base_frame == "base_axle"


@pytest.mark.parametrize("mount", [False, True])
def test_a_base_without_masses_gets_some_and_drives(tmp_path, mount):
    """By volume; the masses of some other links in the file are kept."""
    text = re.sub("<inertial>.*?</inertial>", "", two_wheels(0.1, 0.1))
    if mount:
        text = text.replace('<link name="left">', f'<link name="left">{INERTIAL}')
    made = made_from(text, tmp_path)
    masses = {name: link.inertial and link.inertial.mass for name, link in made.tree.links.items()}
    assert masses["base_link"] == pytest.approx(1000.0 * 0.4 * 0.3 * 0.1, rel=0.1)
    assert masses["right"] == (None if mount else pytest.approx(0.94, rel=0.1))
    assert not [step.text for step in try_robot(made) if not step.passed and not mount]


def car(steering: dict[str, tuple[str, str]]) -> str:
    """Return a car; ``steering``: rpy of each steering joint's frame, and its axis in it."""
    limit = '<limit lower="-0.5" upper="0.3" velocity="3" effort="10"/>'
    wheel = (
        '<collision><origin rpy="{rpy}"/><geometry><cylinder radius="0.08" length="0.04"/>'
        "</geometry></collision>"
    )
    parts = [link("base_link", '<collision><geometry><box size="0.5 0.25 0.1"/></geometry>'
                  "</collision>")]  # fmt: skip
    for side, y in (("left", 0.15), ("right", -0.15)):
        rpy, axis = steering[side]
        turned = Rotation.from_euler("xyz", [float(word) for word in rpy.split()])
        back = turned.inv().as_euler("xyz")
        level = " ".join(f"{number:.6f}" for number in back)
        parts += [
            link(f"{side}_knuckle", ""),
            joint(f"{side}_steering", "base_link", f"{side}_knuckle", axis=axis, inside=limit,
                  xyz=f"0.2 {y} -0.02").replace("<origin", f'<origin rpy="{rpy}"'),
            link(f"front_{side}", wheel.format(rpy="1.5708 0 0")),
            joint(f"front_{side}_wheel", f"{side}_knuckle", f"front_{side}", kind="continuous",
                  xyz="0 0 0", inside="").replace("<origin", f'<origin rpy="{level}"'),
            link(f"rear_{side}", wheel.format(rpy="1.5708 0 0")),
            joint(f"rear_{side}_wheel", "base_link", f"rear_{side}", kind="continuous",
                  xyz=f"-0.2 {y} -0.02", inside=""),
        ]  # fmt: skip
    return robot(*parts, name="car")


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "right", "turned"),
    [
        (("0 0 0", "0 0 1"), ("0 0 0", "0 0 1"), set()),
        (("0 0 0", "0 0 -1"), ("0 0 0", "0 0 1"), {"left_steering"}),
        # The frames of the joints are turned: only the axis in the base frame counts.
        (("-1.5708 0 0", "0 1 0"), ("-1.5708 0 0", "0 1 0"), {"left_steering", "right_steering"}),
        (("1.5708 0 0", "0 1 0"), ("3.14159 0 0", "0 0 1"), {"right_steering"}),
        (("3.14159 0 0", "0 0 -1"), ("1.5708 0 0", "0 -1 0"), {"right_steering"}),
    ],
)
def test_steering_axes_that_point_down_are_inverted(tmp_path, left, right, turned):
    file = tmp_path / "car.urdf"
    file.write_text(car({"left": left, "right": right}))
    made = new_robot(file, output=tmp_path / "car", unique_name=False, spheres_accuracy=0.05,
                     picture=False)  # fmt: skip
    assert made.robot.kind == "ackermann"
    changed = " ".join(item.text for item in made.findings.of("changed"))
    for name in ("left_steering", "right_steering"):
        assert (name in changed) == (name in turned)
        found = made.robot.tree.joints[name]
        assert (found.lower, found.upper) == ((-0.3, 0.5) if name in turned else (-0.5, 0.3))
    base_from_robot(made.robot)


def cylinder(radius: float, length: float, count: int = 24) -> Array:
    """Return the lateral surface of a cylinder about z as triangles, shape (t, 3, 3)."""
    corners = []
    for k in range(count):
        a, b = (2.0 * math.pi * (k + j) / count for j in (0, 1))
        p, q = (radius * np.array([math.cos(x), math.sin(x), 0.0]) for x in (a, b))
        low, high = (np.array([0.0, 0.0, s * length]) for s in (-0.5, 0.5))
        corners += [[p + low, q + low, q + high], [p + low, q + high, p + high]]
    return np.array(corners)


def rollers(angle_deg: float, *, inside_out: bool = False) -> Array:
    """Return the surface of a wheel about y whose lowest roller's axis is at an angle to y."""
    pieces = []
    for k in range(12):
        a = 2.0 * math.pi * k / 12
        R = Rotation.from_euler("y", a) * Rotation.from_euler("z", math.radians(angle_deg))
        R = R * Rotation.from_euler("x", -math.pi / 2.0)
        middle = 0.08 * np.array([-math.sin(a), 0.0, -math.cos(a)])
        pieces.append(cylinder(0.015, 0.03) @ R.as_matrix().T + middle)
    corners = np.concatenate(pieces)
    return corners[:, ::-1] if inside_out else corners


@pytest.mark.parametrize("angle", [45.0, 135.0])
@pytest.mark.parametrize("inside_out", [False, True])
def test_oblique_rollers_are_measured_on_the_surface(angle, inside_out):
    found = roller_angle_of_surface(
        rollers(angle, inside_out=inside_out), np.array([0.0, 1.0, 0.0])
    )
    assert found == pytest.approx(angle, abs=5.0)


def test_tyres_and_straight_rollers_are_not_oblique():
    axis = np.array([0.0, 0.0, 1.0])
    assert roller_angle_of_surface(cylinder(0.1, 0.04), axis) is None
    assert roller_angle_of_surface(rollers(90.0), np.array([0.0, 1.0, 0.0])) is None


def evidence(extra: str, file: str = "", base: str = "wheel_") -> str:
    text = mecanum_base(1.0, 0, base).replace("</robot>", extra + "</robot>")
    wheels = wheels_in(text)
    return mecanum_evidence(
        etree.fromstring(text), read_urdf(text), wheels, lambda name: None, file
    )


@pytest.mark.long
def test_diagonal_friction_and_names_of_plugins_and_files_are_evidence():
    friction = "".join(
        f'<gazebo reference="wheel_wheel_{k}"><fdir1>1 {s} 0</fdir1></gazebo>'
        for k, s in ((1, -1), (3, 1), (5, 1), (7, -1))
    )
    assert "friction" in evidence(friction)
    assert evidence(friction.replace("1 1 0", "1 0 0")) == ""
    assert evidence('<gazebo><plugin filename="libmecanum_drive.so"/></gazebo>')
    assert evidence("", "my_mecanum.urdf.xacro")
    assert evidence("", "my_robot.urdf") == ""
