# SPDX-License-Identifier: Apache-2.0
"""Groups, wheels and drives guessed from URDFs, against what the shipped robots' files say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from robot_setup.urdf_samples import BAR, INERTIAL, LIMIT, arm, joint, link, robot
from scipy.spatial.transform import Rotation

from motion_nodes.errors import InvalidConfig
from motion_nodes.model.base_description import AckermannSpec, DifferentialSpec, HolonomicSpec
from motion_nodes.model.loader import load_robot
from motion_nodes.model.tree import KinematicTree
from motion_nodes.model.urdf.urdf import read_urdf
from motion_nodes.robot_setup.drives import motion_limits
from motion_nodes.robot_setup.floor_contact import floor_contact
from motion_nodes.robot_setup.geometry_fit import add_missing_collisions, link_geometries
from motion_nodes.robot_setup.groups import guess_groups, open_and_close
from motion_nodes.robot_setup.link_geometry import LinkGeometry
from motion_nodes.robot_setup.new_robot import new_robot
from motion_nodes.robot_setup.notes import Notes
from motion_nodes.robot_setup.questions import Ask, Question, take_guess
from motion_nodes.robot_setup.robot_source import search_from
from motion_nodes.robot_setup.wheeled_base import BaseGuess, guess_base
from motion_nodes.robot_setup.wheels import Wheel, find_wheels
from motion_nodes.sim.robot_trial import effective_separation, try_robot


def base_of(name: str) -> BaseGuess:
    """Return the base that is guessed from the URDF of a shipped robot."""
    shipped = load_robot(name)
    geometries = {
        link: geometry
        for link in shipped.tree.frame_names
        if (geometry := LinkGeometry.of_link(shipped, link)) is not None
    }
    wheels = find_wheels(shipped.tree, geometries, shipped.base_frame)
    return guess_base(wheels, shipped.tree, Notes(), shipped.base_frame)


@pytest.mark.parametrize("name", ["jetbot", "nova_carter"])
def test_two_sides_of_wheels_are_measured(name: str) -> None:
    told, found = load_robot(name).base, base_of(name)
    assert isinstance(told, DifferentialSpec)
    assert found.kind == "differential"
    assert found.block["left_wheel_names"] == list(told.left_wheel_names)
    assert found.block["right_wheel_names"] == list(told.right_wheel_names)
    assert found.block["wheel_radius"] == pytest.approx(told.wheel_radius, rel=0.02)
    assert found.block["wheel_separation"] == pytest.approx(told.wheel_separation, rel=0.03)
    assert set(found.passive) == set(load_robot(name).passive_joints)


def test_a_car_is_measured() -> None:
    told, found = load_robot("leatherback").base, base_of("leatherback")
    assert isinstance(told, AckermannSpec)
    assert found.kind == "ackermann"
    assert found.block["steering_joint_names"] == list(told.steering_joint_names)
    assert found.block["wheelbase"] == pytest.approx(told.wheelbase, rel=0.02)
    assert found.block["rear_track_width"] == pytest.approx(told.rear_track_width, rel=0.03)
    assert found.block["steered_axle"] == told.steered_axle


def test_omni_wheels_are_found() -> None:
    told, found = load_robot("kaya").base, base_of("kaya")
    assert isinstance(told, HolonomicSpec)
    assert found.kind == "holonomic"
    assert set(found.driven) == set(told.wheel_names)
    assert {w["roller_angle_deg"] for w in found.block["wheels"]} == {90.0}
    radii = {wheel.joint: wheel.radius for wheel in told.wheels}
    for wheel in found.block["wheels"]:
        assert wheel["radius"] == pytest.approx(radii[wheel["joint"]], rel=0.03)
    # The rollers leave something of a wheel whose stated inertia is small.
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
    return guess_base(wheels_in(text), read_urdf(text), Notes(), "base_link", ask=ask)


def test_wheels_with_boxes_for_collisions_roll_on_their_visual_geometry(tmp_path: Path) -> None:
    """As in the files of Stretch; a drum of an unstated effort limit and much friction."""
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


@pytest.mark.parametrize(
    ("sign", "angles"), [(1.0, [45, 135, 135, 45]), (-1.0, [135, 45, 45, 135])]
)
def test_rollers_of_a_mecanum_base_are_measured(sign: float, angles: list[float]) -> None:
    found = guessed(mecanum_base(sign, 6))
    assert found.kind == "holonomic"
    told = [wheel["roller_angle_deg"] for wheel in found.block["wheels"]]
    assert told == pytest.approx(angles, abs=0.2)
    for wheel in found.block["wheels"]:
        assert wheel["radius"] == pytest.approx(0.08, abs=0.004)
    assert len(found.passive) == 4 * 6


def test_mecanum_wheels_known_by_name_turn_the_base_and_slide_it_as_usual() -> None:
    """docs/holonomic_bases.md: front left and rear right 45 degrees, the others 135."""
    found = guessed(mecanum_base(1.0, 0, "mecanum_"))
    assert [wheel["roller_angle_deg"] for wheel in found.block["wheels"]] == [45, 135, 135, 45]


def test_an_arm_has_no_wheels() -> None:
    assert base_of("ur10e").kind == "arm"
    assert base_of("ur10e").wheels == ()


@pytest.mark.parametrize(("name", "group"), [("franka", "arm"), ("ur10e", "ur_manipulator")])
def test_the_shipped_arms_are_found(name: str, group: str) -> None:
    shipped = load_robot(name)
    groups = guess_groups(shipped.tree, (), Notes(), shipped.base_frame)
    assert groups.main is not None
    told = shipped.group(group)
    assert (groups.main.joints, groups.main.tip) == (told.joints, told.tip)
    assert groups.main.base == told.base
    if name == "franka":
        assert [g.joints for g in groups.grippers] == [shipped.group("gripper").joints]
        ends = open_and_close(shipped.tree, groups.grippers[0])
        assert ends is not None
        assert set(ends[0].values()) == {0.04}
        assert set(ends[1].values()) == {0.0}


def test_two_arms_and_a_neck_are_three_chains() -> None:
    parts = [link("torso")]
    for side in ("left", "right"):
        above = "torso"
        for k in range(1, 5):
            parts += [
                link(f"{side}_arm_{k}"),
                joint(f"{side}_arm_joint_{k}", above, f"{side}_arm_{k}"),
            ]
            above = f"{side}_arm_{k}"
    # Listed first, but not the robot's main group.
    parts[:0] = [link("head"), joint("neck_pan", "torso", "head")]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert groups.groups[0] is groups.main
    assert groups.main.name == "left_arm"
    assert sorted(g.name for g in groups.groups) == ["left_arm", "neck_pan", "right_arm"]
    assert groups.grippers == []
    assert all(g.tip for g in groups.groups)


def test_fingers_that_mimic_are_a_gripper_whatever_their_names() -> None:
    more = [
        link("l"),
        link("r"),
        joint("slide_l", "link_3", "l", kind="prismatic", axis="0 1 0", xyz="0 0.01 0.3"),
        joint(
            "slide_r", "link_3", "r", kind="prismatic", axis="0 -1 0", xyz="0 -0.01 0.3",
            inside=LIMIT + '<mimic joint="slide_l"/>',
        ),
    ]  # fmt: skip
    tree = read_urdf(arm(3, *more))
    groups = guess_groups(tree, (), Notes())
    assert {g.name: g.joints for g in groups.groups} == {
        "arm": ("joint_1", "joint_2", "joint_3"),
        "gripper": ("slide_l",),
    }
    ends = open_and_close(tree, groups.grippers[0])
    assert ends is None or ends[0]["slide_l"] != ends[1]["slide_l"]


def test_guessed_limits_reach_full_speed_in_a_quarter_of_a_second() -> None:
    findings = Notes()
    limits = motion_limits(read_urdf(arm(3)), findings)
    assert limits["acceleration"]["joint_1"] == 2.0 / 0.25
    assert limits["jerk"]["joint_1"] == 2.0 / 0.25 / 0.025
    assert [f.kind for f in findings] == ["guessed"]


SENSOR_AND_TOOL = (
    '<link name="camera_frame"/><link name="gripper_frame_link"/>'
    + joint("camera_joint", "gripper", "camera_frame", kind="fixed", inside="")
    + joint("frame_joint", "gripper", "gripper_frame_link", kind="fixed", inside="")
)


def test_a_wrist_that_carries_a_link_called_gripper_belongs_to_the_arm() -> None:
    names = ["base", "shoulder", "upper", "lower", "wrist", "gripper", "moving_jaw"]
    joints = ["pan", "lift", "flex", "wrist_flex", "wrist_roll", "gripper_joint"]
    parts = [link(name) for name in names]
    parts += [joint(j, names[k], names[k + 1]) for k, j in enumerate(joints)]
    groups = guess_groups(read_urdf(robot(*parts, SENSOR_AND_TOOL)), (), Notes())
    assert groups.main is not None
    assert groups.main.joints == tuple(joints[:5])
    assert groups.main.tip == "gripper_frame_link"
    assert [g.joints for g in groups.grippers] == [("gripper_joint",)]


def test_a_flange_without_a_body_is_the_tip_and_a_sensor_is_not() -> None:
    flange = '<link name="link8"/>' + joint("j8", "link_3", "link8", kind="fixed", inside="")
    sensor = '<link name="imu"/>' + joint("ji", "link_3", "imu", kind="fixed", inside="")
    parts = [link(f"link_{k}") for k in range(4)]
    parts += [joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}") for k in range(1, 4)]
    groups = guess_groups(read_urdf(robot(*parts, flange, sensor)), (), Notes())
    assert groups.main is not None
    assert groups.main.tip == "link8"


def three_links(*ends: str) -> KinematicTree:
    """An arm whose last link carries frames without bodies."""
    parts = [link(f"link_{k}") for k in range(4)]
    parts += [joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}") for k in range(1, 4)]
    for end in ends:
        parts += [
            f'<link name="{end}"/>',
            joint(f"to_{end}", "link_3", end, kind="fixed", inside=""),
        ]
    return read_urdf(robot(*parts))


@pytest.mark.parametrize(
    ("ends", "tip", "confidence", "asked"),
    [
        (("tcp", "plate"), "tcp", "high", False),
        (("flange", "tool_mount"), "tool_mount", "medium", True),
        (("a", "b"), "b", "low", True),
        ((), "link_3", "high", False),
    ],
)
def test_a_tip_is_asked_for_where_names_leave_it_open(ends, tip, confidence, asked) -> None:
    questions: list[Question] = []

    def ask(question: Question) -> str:
        questions.append(question)
        return question.choices[0]

    guess = guess_groups(three_links(*ends), (), Notes()).main
    chosen = guess_groups(three_links(*ends), (), Notes(), ask=ask).main
    assert guess is not None
    assert chosen is not None
    assert (guess.tip, guess.confidence) == (tip, confidence)
    assert bool(questions) == asked
    assert chosen.tip == ("link_3" if asked else tip)
    for question in questions:
        assert question.guess == tip
        assert set(question.choices) == {"link_3", *ends}


def test_hands_that_are_named_so_are_not_asked_for() -> None:
    parts = [link(f"link_{k}") for k in range(4)] + [link("palm")]
    parts += [joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}") for k in range(1, 4)]
    parts += [joint("hand_turn", "link_3", "palm")]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes(), ask=lambda question: "arm")
    assert [g.joints for g in groups.grippers] == [("hand_turn",)]


def test_sliding_joints_that_are_no_hand_are_chains() -> None:
    more = [
        link("l"), link("r"),
        joint("slide_l", "link_3", "l", kind="prismatic", axis="0 1 0", xyz="0 0.01 0.3"),
        joint("slide_r", "link_3", "r", kind="prismatic", axis="0 -1 0", xyz="0 -0.01 0.3"),
    ]  # fmt: skip
    tree = read_urdf(arm(3, *more))
    assert guess_groups(tree, (), Notes()).grippers[0].confidence == "medium"
    groups = guess_groups(tree, (), Notes(), ask=lambda question: question.choices[-1])
    assert not groups.grippers
    assert {joint for group in groups.groups for joint in group.joints} == set(tree.joint_names)


def test_four_parallel_wheels_can_be_mecanum_wheels() -> None:
    assert guessed(mecanum_base(1.0, 0, "wheel_")).kind == "differential"
    found = guessed(mecanum_base(1.0, 0, "wheel_"), ask=lambda question: question.choices[-1])
    assert found.kind == "holonomic"


def test_other_answers_than_the_choices_are_refused() -> None:
    with pytest.raises(InvalidConfig):
        guess_groups(three_links("a", "b"), (), Notes(), ask=lambda question: "c")


def test_wheels_without_a_speed_get_one_that_suits_their_size() -> None:
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


def test_skidding_wheels_are_measured() -> None:
    assert effective_separation(load_robot("jetbot")) is None
    assert effective_separation(load_robot("franka")) is None


def test_rods_of_a_parallelogram_do_not_part_an_arm() -> None:
    rods = [
        link("rod"), link("crank"),
        joint("rod_joint", "link_1", "rod", inside=LIMIT + '<mimic joint="joint_2"/>'),
        joint("crank_joint", "rod", "crank", inside=LIMIT + '<mimic joint="joint_3"/>'),
    ]  # fmt: skip
    groups = guess_groups(read_urdf(arm(6, *rods)), (), Notes())
    assert {g.name: len(g.joints) for g in groups.groups} == {"arm": 6}
    assert groups.main is not None
    assert groups.main.tip == "tool0"


def test_fingers_named_by_ordinary_words_are_one_hand() -> None:
    fingers = []
    for name in ("index", "middle", "thumb"):
        fingers += [link(f"l_{name}_1"), link(f"l_{name}_2")]
        fingers += [
            joint(f"l_{name}_proximal", "link_6", f"l_{name}_1"),
            joint(f"l_{name}_distal", f"l_{name}_1", f"l_{name}_2"),
        ]
    groups = guess_groups(read_urdf(arm(6, *fingers)), (), Notes())
    assert {g.name: len(g.joints) for g in groups.groups} == {"arm": 6, "gripper": 6}
    assert groups.grippers[0].confidence == "high"


def test_two_jaws_without_an_arm_are_a_gripper() -> None:
    slides = [
        joint(f"slide_{k}", "base", f"part_{k}", kind="prismatic", axis=f"0 {1 - 2 * k} 0")
        for k in range(2)
    ]
    tree = read_urdf(robot(link("base"), link("part_0"), link("part_1"), *slides))
    assert [g.joints for g in guess_groups(tree, (), Notes()).grippers] == [("slide_0", "slide_1")]


def test_fingers_are_the_gripper_beside_something_else_that_slides() -> None:
    more = [link("bellows"), joint("bellows_joint", "link_1", "bellows", kind="prismatic")]
    for side, y in (("left", 1), ("right", -1)):
        more += [
            link(f"{side}_finger"),
            joint(f"{side}_slide", "link_6", f"{side}_finger", kind="prismatic", axis=f"0 {y} 0"),
        ]
    groups = guess_groups(read_urdf(arm(6, *more)), (), Notes())
    hands = {group.name: group.joints for group in groups.grippers}
    assert hands == {"bellows": ("bellows_joint",), "gripper": ("left_slide", "right_slide")}


def test_one_joint_that_others_mimic_is_a_gripper() -> None:
    parts = [link("base"), link("left"), link("right"), joint("left_driver", "base", "left")]
    parts += [joint("right_driver", "base", "right", inside=LIMIT + '<mimic joint="left_driver"/>')]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert {group.name: group.joints for group in groups.groups} == {"gripper": ("left_driver",)}


def test_a_trunk_that_carries_an_arm_has_no_frame_of_a_head_as_its_tip() -> None:
    parts = [link("base"), link("trunk"), link("left"), link("right"), '<link name="d435_link"/>']
    parts += [joint("waist", "base", "trunk"), joint("l", "trunk", "left")]
    parts += [
        joint("r", "trunk", "right"),
        joint("fixed", "trunk", "d435_link", kind="fixed", inside=""),
    ]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert [g.tip for g in groups.groups if g.joints == ("waist",)] == ["trunk"]


def test_a_rocker_that_carries_wheels_is_passive() -> None:
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


def test_a_body_without_collision_geometry_gets_its_visual_geometry() -> None:
    seen = BAR.replace("collision", "visual")
    parts = [link("a"), link("b", INERTIAL + seen), link("c"), link("cover", seen)]
    parts += [joint("ab", "a", "b"), joint("bc", "b", "c")]
    parts += [joint("on", "c", "cover", kind="fixed", inside="")]
    root, findings = etree.fromstring(robot(*parts)), Notes()
    tree = read_urdf(robot(*parts))
    found = link_geometries(tree, search_from(Path("x.urdf")), findings)
    # The cover moves with c, which has collision geometry.
    assert set(found) == {"a", "b", "c"}
    assert add_missing_collisions(root, tree, found, findings)
    changed = read_urdf(etree.tostring(root, encoding="unicode"))
    assert repr(changed.links["b"].collisions) == repr(changed.links["b"].visuals)
    assert not changed.links["cover"].collisions
    assert [note.text[:2] for note in findings] == ["b:"]
