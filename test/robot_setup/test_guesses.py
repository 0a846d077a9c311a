# SPDX-License-Identifier: Apache-2.0
"""Groups, limits, drives and legs guessed from URDFs."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import etree
from robot_setup.urdf_samples import BAR, INERTIAL, LIMIT, arm, joint, link, robot

from motion_nodes.core.robot.inverse_dynamics import InverseDynamics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.tree import KinematicTree
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.scene.link_geometry import LinkGeometry
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.robot_setup.drives import (
    MjcfDrive,
    MovedMasses,
    drive_block,
    joint_inertias,
    masses_of,
    motion_limits,
    moved_masses,
    sufficient_efforts,
)
from motion_nodes.extras.robot_setup.groups import guess_groups, open_and_close
from motion_nodes.extras.robot_setup.legs import (
    BOTH_ARMS,
    GivenBase,
    add_both_arms,
    are_sides,
    find_legs,
    guess_kind,
)
from motion_nodes.extras.robot_setup.link_shapes import (
    add_missing_collisions,
    find_self_collisions,
    link_geometries,
)
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Notes, Question
from motion_nodes.extras.robot_setup.robot_source import search_from
from motion_nodes.extras.robot_setup.wheeled_base import guess_base
from motion_nodes.extras.sim.robot_trial import try_robot


@pytest.mark.parametrize(("name", "group"), [("franka", "arm"), ("ur10e", "ur_manipulator")])
def test_the_shipped_arms_are_found(name, group):
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


def test_two_arms_and_a_neck_are_three_chains():
    parts = [link("torso")]
    for side in ("left", "right"):
        above = "torso"
        for k in range(1, 5):
            parts += [
                link(f"{side}_arm_{k}"),
                joint(f"{side}_arm_joint_{k}", above, f"{side}_arm_{k}"),
            ]
            above = f"{side}_arm_{k}"
    # The neck is listed first, but is not the main group.
    parts[:0] = [link("head"), joint("neck_pan", "torso", "head")]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert groups.groups[0] is groups.main
    assert groups.main.name == "left_arm"
    assert sorted(g.name for g in groups.groups) == ["left_arm", "neck_pan", "right_arm"]
    assert groups.grippers == []
    assert all(g.tip for g in groups.groups)


def test_fingers_that_mimic_are_a_gripper_whatever_their_names():
    limit = '<limit lower="0" upper="0.04" velocity="0.2" effort="70"/>'
    more = [
        link("l"),
        link("r"),
        joint("slide_l", "link_3", "l", kind="prismatic", axis="0 1 0", xyz="0 0.01 0.3",
              inside=limit),
        joint(
            "slide_r", "link_3", "r", kind="prismatic", axis="0 -1 0", xyz="0 -0.01 0.3",
            inside=limit + '<mimic joint="slide_l"/>',
        ),
    ]  # fmt: skip
    tree = read_urdf(arm(3, *more))
    groups = guess_groups(tree, (), Notes())
    assert {g.name: g.joints for g in groups.groups} == {
        "arm": ("joint_1", "joint_2", "joint_3"),
        "gripper": ("slide_l",),
    }
    ends = open_and_close(tree, groups.grippers[0])
    assert ends == ({"slide_l": 0.04}, {"slide_l": 0.0})


def test_guessed_limits_reach_full_speed_in_a_quarter_of_a_second():
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


def test_a_wrist_that_carries_a_link_called_gripper_belongs_to_the_arm():
    names = ["base", "shoulder", "upper", "lower", "wrist", "gripper", "moving_jaw"]
    joints = ["pan", "lift", "flex", "wrist_flex", "wrist_roll", "gripper_joint"]
    parts = [link(name) for name in names]
    parts += [joint(j, names[k], names[k + 1]) for k, j in enumerate(joints)]
    groups = guess_groups(read_urdf(robot(*parts, SENSOR_AND_TOOL)), (), Notes())
    assert groups.main is not None
    assert groups.main.joints == tuple(joints[:5])
    assert groups.main.tip == "gripper_frame_link"
    assert [g.joints for g in groups.grippers] == [("gripper_joint",)]


def test_a_flange_without_a_body_is_the_tip_and_a_sensor_is_not():
    flange = '<link name="link8"/>' + joint("j8", "link_3", "link8", kind="fixed", inside="")
    sensor = '<link name="imu"/>' + joint("ji", "link_3", "imu", kind="fixed", inside="")
    parts = [link(f"link_{k}") for k in range(4)]
    parts += [joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}") for k in range(1, 4)]
    groups = guess_groups(read_urdf(robot(*parts, flange, sensor)), (), Notes())
    assert groups.main is not None
    assert groups.main.tip == "link8"


def chain(names: str, count: int, *ends: str) -> list[str]:
    """Return a chain of joints below the link ``base``, and frames at its end."""
    parts, above = [], "base"
    for k in range(1, count + 1):
        own = names.format(k)
        parts += [link(f"{own}_link"), joint(own, above, f"{own}_link")]
        above = f"{own}_link"
    for end in ends:
        parts += [link(end), joint(f"to_{end}", above, end, kind="fixed", inside="")]
    return parts


@pytest.mark.parametrize("names", ["j2s6s200_joint_{}", "joint{}"])
def test_the_longest_chain_without_words_of_its_own_is_the_arm(names):
    legs = [f"{side}_{k}" for side in ("LF", "RH") for k in ("{}",)]
    parts = [part for leg in legs for part in chain(leg, 3, leg.format("FOOT"))]
    groups = guess_groups(read_urdf(robot(link("base"), *parts, *chain(names, 6))), (), Notes())
    assert [g.name for g in groups.groups] == ["arm", "lf", "rh"]
    assert groups.groups[0].aliases == ("manipulator",)
    assert [g.tip for g in groups.groups[1:]] == ["LF_FOOT", "RH_FOOT"]
    same = guess_groups(
        read_urdf(robot(link("base"), *chain("q{}", 3), *chain("m{}", 3))), (), Notes()
    )
    assert [g.name for g in same.groups] == ["chain_1", "chain_2"]


@pytest.mark.parametrize("names", [("l_", "r_"), ("left_", "right_"), ("L", "R")])
def test_limbs_named_by_their_side_are_arms_and_legs(names):
    limbs = [["ShoulderPitch", "ElbowYaw", "WristRoll"], ["HipPitch", "KneePitch", "AnkleRoll"]]
    parts = [link("base")]
    for side in names:
        for limb in limbs:
            above = "base"
            for own in (side + word for word in limb):
                parts += [link(f"{own}_link"), joint(own, above, f"{own}_link")]
                above = f"{own}_link"
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes()).groups
    sides = [side.lower().rstrip("_") for side in names]
    assert sorted(g.name for g in groups) == sorted(
        f"{s}_{p}" for s in sides for p in ("arm", "leg")
    )


@pytest.mark.parametrize(
    ("leader", "follower", "names"),
    [
        ("{}_gripper_l_finger", "{}_gripper_r_finger", ["r_gripper_finger", "l_gripper_finger"]),
        ("{}_hand", "{}_finger", ["r_gripper", "l_gripper"]),
    ],
)
def test_two_hands_are_named_alike(leader, follower, names):
    parts = [link("base")]
    for side in "rl":
        parts += chain(f"{side}_arm_{{}}", 3)
        follows = f'<mimic joint="{leader.format(side)}"/>'
        for name, more in ((leader.format(side), ""), (follower.format(side), follows)):
            above = f"{side}_arm_3_link"
            inside = LIMIT + more
            parts += [link(f"{name}_link"), joint(name, above, f"{name}_link", inside=inside)]
    grippers = guess_groups(read_urdf(robot(*parts)), (), Notes()).grippers
    assert [g.name for g in grippers] == names


def three_links(*ends: str) -> KinematicTree:
    """Return an arm whose last link carries frames without geometry."""
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
def test_a_tip_is_asked_for_where_names_leave_it_open(ends, tip, confidence, asked):
    questions: list[Question] = []

    def ask(question: Question) -> str:
        questions.append(question)
        return question.choices[0]

    guess = guess_groups(three_links(*ends), (), Notes()).main
    chosen = guess_groups(three_links(*ends), (), Notes(ask)).main
    assert guess is not None
    assert chosen is not None
    assert (guess.tip, guess.confidence) == (tip, confidence)
    assert bool(questions) == asked
    assert chosen.tip == ("link_3" if asked else tip)
    for question in questions:
        assert question.guess == tip
        assert set(question.choices) == {"link_3", *ends}


def test_hands_that_are_named_so_are_not_asked_for():
    parts = [link(f"link_{k}") for k in range(4)] + [link("palm")]
    parts += [joint(f"joint_{k}", f"link_{k - 1}", f"link_{k}") for k in range(1, 4)]
    parts += [joint("hand_turn", "link_3", "palm")]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes(lambda question: "arm"))
    assert [g.joints for g in groups.grippers] == [("hand_turn",)]


def test_sliding_joints_that_are_no_hand_are_chains():
    more = [
        link("l"), link("r"),
        joint("slide_l", "link_3", "l", kind="prismatic", axis="0 1 0", xyz="0 0.01 0.3"),
        joint("slide_r", "link_3", "r", kind="prismatic", axis="0 -1 0", xyz="0 -0.01 0.3"),
    ]  # fmt: skip
    tree = read_urdf(arm(3, *more))
    assert guess_groups(tree, (), Notes()).grippers[0].confidence == "medium"
    groups = guess_groups(tree, (), Notes(lambda question: question.choices[-1]))
    assert not groups.grippers
    assert {joint for group in groups.groups for joint in group.joints} == set(tree.joint_names)


def test_rods_of_a_parallelogram_do_not_part_an_arm():
    rods = [
        link("rod"), link("crank"),
        joint("rod_joint", "link_1", "rod", inside=LIMIT + '<mimic joint="joint_2"/>'),
        joint("crank_joint", "rod", "crank", inside=LIMIT + '<mimic joint="joint_3"/>'),
    ]  # fmt: skip
    groups = guess_groups(read_urdf(arm(6, *rods)), (), Notes())
    assert {g.name: len(g.joints) for g in groups.groups} == {"arm": 6}
    assert groups.main is not None
    assert groups.main.tip == "tool0"


def test_fingers_named_by_ordinary_words_are_one_hand():
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


def test_two_jaws_without_an_arm_are_a_gripper():
    slides = [
        joint(f"slide_{k}", "base", f"part_{k}", kind="prismatic", axis=f"0 {1 - 2 * k} 0")
        for k in range(2)
    ]
    tree = read_urdf(robot(link("base"), link("part_0"), link("part_1"), *slides))
    assert [g.joints for g in guess_groups(tree, (), Notes()).grippers] == [("slide_0", "slide_1")]


def test_fingers_are_the_gripper_beside_something_else_that_slides():
    more = [link("bellows"), joint("bellows_joint", "link_1", "bellows", kind="prismatic")]
    for side, y in (("left", 1), ("right", -1)):
        more += [
            link(f"{side}_finger"),
            joint(f"{side}_slide", "link_6", f"{side}_finger", kind="prismatic", axis=f"0 {y} 0"),
        ]
    groups = guess_groups(read_urdf(arm(6, *more)), (), Notes())
    hands = {group.name: group.joints for group in groups.grippers}
    assert hands == {"bellows": ("bellows_joint",), "gripper": ("left_slide", "right_slide")}


@pytest.mark.parametrize(("count", "name"), [(3, "arm"), (2, "gripper")])
def test_a_robot_that_is_one_long_finger_is_an_arm(count, name):
    parts = [link("base"), *chain("finger_{}", count)]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert [(g.name, len(g.joints), g.tip is None) for g in groups.groups] == [
        (name, count, name == "gripper")
    ]
    hand = [link("palm")]
    for k in (1, 2):
        mount = joint(f"mount_{k}", "palm", f"base_{k}", kind="fixed", inside="")
        finger = [part.replace('"base"', f'"base_{k}"') for part in chain(f"finger_{k}_{{}}", 2)]
        hand += [link(f"base_{k}"), mount, *finger]
    groups = guess_groups(read_urdf(robot(*hand)), (), Notes())
    assert [g.name for g in groups.groups] == ["gripper"]


def test_rotors_are_no_arms():
    parts = [link("body")]
    for k in range(4):
        parts += [link(f"rotor_{k}"), joint(f"rotor_{k}_joint", "body", f"rotor_{k}")]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert [g.name for g in groups.groups] == ["rotor", "rotor_2", "rotor_3", "rotor_4"]


def test_one_joint_that_others_mimic_is_a_gripper():
    parts = [link("base"), link("left"), link("right"), joint("left_driver", "base", "left")]
    parts += [joint("right_driver", "base", "right", inside=LIMIT + '<mimic joint="left_driver"/>')]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert {group.name: group.joints for group in groups.groups} == {"gripper": ("left_driver",)}


def test_a_trunk_that_carries_an_arm_has_no_frame_of_a_head_as_its_tip():
    parts = [link("base"), link("trunk"), link("left"), link("right"), '<link name="d435_link"/>']
    parts += [joint("waist", "base", "trunk"), joint("l", "trunk", "left")]
    parts += [
        joint("r", "trunk", "right"),
        joint("fixed", "trunk", "d435_link", kind="fixed", inside=""),
    ]
    groups = guess_groups(read_urdf(robot(*parts)), (), Notes())
    assert [g.tip for g in groups.groups if g.joints == ("waist",)] == ["trunk"]


def test_a_body_without_collision_geometry_gets_its_visual_geometry():
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


def test_other_answers_than_the_choices_are_refused():
    with pytest.raises(InvalidConfig):
        guess_groups(three_links("a", "b"), (), Notes(lambda question: "c"))


def _palm_and_fingers(side: str, above: str) -> list[str]:
    """Return fixed parts of a gripper: body, frame of the grasp before the fingers."""
    parts = []
    for name in (f"{side}_gripper_body", f"{side}_finger_link", f"{side}_finger_tip"):
        parts += [link(name), joint(f"{name}_fixed", above, name, kind="fixed", inside="")]
    return parts


def _two_arms(*more: str) -> KinematicTree:
    parts = [link("torso")]
    for side in ("left", "right"):
        above = "torso"
        for k in range(1, 6):
            parts += [link(f"{side}_{k}"), joint(f"{side}_j{k}", above, f"{side}_{k}")]
            above = f"{side}_{k}"
        parts += _palm_and_fingers(side, above)
    return read_urdf(robot(*parts, *more))


def _groups(*parts: str) -> dict[str, tuple[str, ...]]:
    found = guess_groups(read_urdf(robot(*parts)), (), Notes())
    return {group.name: group.joints for group in found.groups}


def _chain(names: list[str], above: str, inside: str = LIMIT) -> list[str]:
    """Return joints in a row; the link of each has its name and ``_link``."""
    parts = []
    for name in names:
        parts += [link(f"{name}_link"), joint(name, above, f"{name}_link", inside=inside)]
        above = f"{name}_link"
    return parts


@pytest.mark.parametrize(
    ("numbers", "beside", "lengths"),
    [
        (range(7), ["head_pan"], {7}),
        (range(7), ["head_pan", "head_tilt"], {7}),
        (range(7), ["other_1", "other_2", "other_3"], {1, 6}),  # a trunk with two arms
        ((0, 2, 3, 4, 5, 6), ["head_pan"], {1, 5}),  # not the next number: a trunk with an arm
    ],
)
def test_a_short_chain_beside_the_next_joint_by_number_parts_no_arm(numbers, beside, lengths):
    names = [f"right_j{k}" for k in numbers]
    # The head, listed before the arm, is mounted on its first link.
    parts = [link("base"), *_chain(names[:1], "base"), *_chain(beside, "right_j0_link")]
    parts += _chain(names[1:], "right_j0_link")
    own = [joints for joints in _groups(*parts).values() if joints[0] in names]
    assert {len(joints) for joints in own} == lengths


@pytest.mark.parametrize(("upper", "count"), [("2.5", 6), ("0.5", 5)])
def test_a_flange_called_hand_that_turns_far_belongs_to_the_arm(upper, count):
    turning = f'<limit lower="-{upper}" upper="{upper}" velocity="1" effort="9"/>'
    parts = [link("base"), *_chain([f"joint_{k}" for k in range(1, 6)], "base"), link("hand_link")]
    parts += [joint("joint_6", "joint_5_link", "hand_link", inside=turning)]
    assert len(_groups(*parts)["arm"]) == count


def test_a_joint_that_its_siblings_mimic_belongs_to_their_hand():
    parts = [link("base"), *_chain([f"joint_{k}" for k in range(6)], "base")]
    for name in ("r1", "l1"):
        mimic = LIMIT + '<mimic joint="r1"/>' * (name == "l1")
        parts += _chain([name], "joint_5_link", mimic)
        parts += _chain([f"{name}b"], f"{name}_link", LIMIT + '<mimic joint="r1"/>')
    assert _groups(*parts)["gripper"] == ("r1",)


def test_fingers_without_names_beside_a_thumb_are_one_hand():
    parts = [link("base_body")]
    for finger in range(3):
        above = "base_body"
        for k, child in enumerate((f"mcp_{finger}", f"pip_{finger}", f"fingertip_{finger}")):
            parts += [link(child), joint(f"{3 * finger + k}", above, child)]
            above = child
    parts += [link("thumb_base"), joint("9", "base_body", "thumb_base")]
    parts += [link("thumb_tip"), joint("10", "thumb_base", "thumb_tip")]
    assert {name: len(joints) for name, joints in _groups(*parts).items()} == {"gripper": 11}


def _with_both_arms(*parts: str) -> set[str]:
    tree = read_urdf(robot(*parts))
    groups = guess_groups(tree, (), Notes())
    add_both_arms(tree, groups, (), Notes())
    return {group.name for group in groups.groups}


def test_fingers_are_no_pair_of_arms():
    # Little and ring finger of a hand by their letters; and the fingers of two arms.
    names = ("ffj", "mfj", "rfj", "lfj")
    hand = [part for name in names for part in _chain([f"{name}{k}" for k in range(4)], "palm")]
    assert BOTH_ARMS not in _with_both_arms(link("palm"), *hand)
    parts = [link("torso")]
    for side in ("left", "right"):
        parts += _chain([f"{side}_arm_{k}" for k in range(7)], "torso")
        for digit in "ab":
            parts += _chain([f"{side}_{digit}_{k}" for k in range(3)], f"{side}_arm_6_link")
    assert BOTH_ARMS in _with_both_arms(*parts)


def test_the_tip_is_the_body_of_a_gripper_before_its_fingers():
    tips = {group.name: group.tip for group in guess_groups(_two_arms(), (), Notes()).groups}
    assert set(tips.values()) == {"left_gripper_body", "right_gripper_body"}


def test_both_arms_are_a_group():
    tree, notes = _two_arms(), Notes()
    groups = guess_groups(tree, (), notes)
    add_both_arms(tree, groups, (), notes)
    assert groups.groups[-1].joints == tree.joint_names
    assert groups.groups[-1].tip is None
    # Legs are no arms, and there are no arms among more than two chains alike.
    legs = [group.name for group in guess_groups(tree, (), Notes()).groups]
    alone = guess_groups(tree, (), Notes())
    add_both_arms(tree, alone, legs, Notes())
    assert len(alone.groups) == 2


def test_arms_of_different_lengths_are_named_alike_and_both_arms() -> None:
    parts = [link("torso")]
    for side, count in (("left", 7), ("right", 6)):
        above = "torso"
        for k in range(count):
            parts += [link(f"{side}_{k}"), joint(f"{side}_j{k}", above, f"{side}_{k}")]
            above = f"{side}_{k}"
    tree = read_urdf(robot(*parts))
    groups = guess_groups(tree, (), Notes())
    add_both_arms(tree, groups, (), Notes())
    found = {group.name: group.joints for group in groups.groups}
    assert list(found) == ["left", "right", "both_arms"]
    assert found["both_arms"] == tree.joint_names


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (("left_s0", "left_e1"), ("right_s0", "right_e1"), True),
        (("LShoulderPitch", "LElbow"), ("RShoulderPitch", "RElbow"), True),
        (("RARM_A", "RARM_B"), ("LARM_A", "LARM_B"), True),
        (("j_arm1_1", "j_arm1_2"), ("j_arm2_1", "j_arm2_2"), True),
        (("torso_yaw", "torso_roll"), ("neck_yaw", "neck_roll"), False),
        (("8", "0"), ("9", "2"), False),
        (("l_a",), ("r_a", "r_b"), False),
    ],
)
def test_sides_are_names_that_differ_by_left_and_right(one, other, alike):
    assert are_sides(one, other) == are_sides(other, one) == alike


def test_a_wrist_named_after_its_gripper_belongs_to_the_arm():
    more = [link("grip"), joint("gripper_yaw", "link_4", "grip")]
    tree = read_urdf(arm(4, *more))
    assert [g.joints for g in guess_groups(tree, (), Notes()).groups] == [tree.joint_names]


def moved_by(tree: KinematicTree) -> MovedMasses:
    return moved_masses(tree, {}, Notes(), np.random.default_rng(0))


def test_inertia_and_load_of_one_bar():
    """A bar of 2 kg whose centre is 0.1 m from a horizontal axis."""
    text = robot(link("a"), link("b"), joint("j", "a", "b", axis="0 1 0"))
    tree = read_urdf(text)
    masses = masses_of(tree, {}, Notes())
    Q = np.linspace(-2.5, 2.5, 501)[:, None]
    inertia, load = joint_inertias(tree, masses, Q)
    mean = (0.02 + 0.02 + 0.01) / 3.0
    assert inertia[0] == pytest.approx(2.0 * 0.1**2 + mean)
    assert load[0] == pytest.approx(2.0 * 9.80665 * 0.1, rel=1e-4)


def test_drives_overcome_the_dry_friction_of_light_links():
    text = arm(2).replace(LIMIT, LIMIT + '<dynamics friction="1.5"/>')
    light = INERTIAL.replace("2.0", "0.001").replace("0.02", "1e-6").replace("0.01", "1e-6")
    tree = read_urdf(text.replace(INERTIAL, light))
    base = guess_base((), tree, Notes(), tree.root)
    groups = guess_groups(tree, (), Notes())
    block = drive_block(tree, base, groups, moved_by(tree), {}, Notes())
    assert 1.5 / min(block[0]["stiffness"]) < 2.1e-3


@pytest.mark.parametrize(
    ("losses", "stiffness"),  # of four fingers: a lag of 50 ms, or 2 mrad
    [('damping="0.7"', 4 * 0.7 / 0.0501), ('friction="0.5"', 4 * 0.5 / 0.002)],
)
def test_drives_overcome_the_losses_of_the_fingers_that_mimic_theirs(losses, stiffness):
    parts, above = [link("palm")], "palm"
    for k in range(4):
        mimic = '<mimic joint="finger_0" multiplier="-1"/>' if k else ""
        inside = LIMIT + f"<dynamics {losses}/>" + mimic
        parts += [link(f"finger_{k}"), joint(f"finger_{k}", above, f"finger_{k}", inside=inside)]
        above = "palm" if k % 2 else f"finger_{k}"
    light = INERTIAL.replace("2.0", "0.001").replace("0.02", "1e-6").replace("0.01", "1e-6")
    tree = read_urdf(robot(*parts).replace(INERTIAL, light))
    groups, base = guess_groups(tree, (), Notes()), guess_base((), tree, Notes(), tree.root)
    (drive,) = drive_block(tree, base, groups, moved_by(tree), {}, Notes())
    assert stiffness <= drive["stiffness"][0] < 1.2 * stiffness


def test_guessed_efforts_hold_what_joints_carry_and_stated_drives_that_sag_are_not_taken():
    """Two bars of 2 kg and 0.25 m, outstretched: 2 kg at 0.1 m and 2 kg at 0.35 m."""
    tree = read_urdf(arm(3).replace(' effort="80"', ' effort="5"'))
    load = 2.0 * 9.80665 * (0.1 + 0.35)
    moved = moved_by(tree)
    raised = sufficient_efforts(tree, {}, moved.load, {"joint_2"}, Notes())
    assert set(raised) == {"joint_2"}
    assert 2.0 * load < raised["joint_2"] <= 3.01 * load
    assert not sufficient_efforts(read_urdf(arm(3)), {}, moved.load, {"joint_2"}, Notes())
    base, groups = guess_base((), tree, Notes(), tree.root), guess_groups(tree, (), Notes())
    for stiffness in (80.0, 8000.0):
        stated = {"joint_2": MjcfDrive(stiffness, 500.0, 0.1, None)}
        block = drive_block(tree, base, groups, moved, stated, Notes())
        assert (block[0]["stiffness"][1] == stiffness) == (stiffness > 1000.0)


def test_spheres_that_overlap_at_a_stance_do_not_change_it(tmp_path):
    """A block swings beside a box, 14 mm apart at home, where their spheres overlap."""
    box = '<collision><origin xyz="{}"/><geometry><box size="{}"/></geometry></collision>'
    parts = [
        link("base", box.format("0 0 0", "0.2 0.2 0.2")),
        link("arm", box.format("0 0 0.3", "0.02 0.02 0.02")),
        link("block", box.format("-0.1364 -0.0836 0", "0.04 0.04 0.04")),
        joint("turn", "base", "arm", xyz="0.27 0 0", axis="0 0 1"),
        joint("swing", "arm", "block", xyz="0 0 0", axis="0 0 1"),
    ]
    (tmp_path / "swing.urdf").write_text(robot(*parts, name="swing"))
    fields = "format: 1\nname: swing\nkind: arm\nurdf: swing.urdf\n"
    fields += "frames: {base: base, tool: block}\n"
    fields += "groups: {arm: {joints: [turn, swing], base: base, tip: block}}\n"
    fields += "drives: [{joints: [turn, swing], mode: position, stiffness: 9, damping: 1}]\n"
    fields += "sources: {drives: this test}\n"
    (tmp_path / "robot.yaml").write_text(fields)
    plain = load_robot(tmp_path)
    geometries = {
        name: geometry
        for name in plain.tree.frame_names
        if (geometry := LinkGeometry.of_link(plain, name)) is not None
    }
    kept = find_self_collisions(plain, geometries, keep_home=True, samples=500)
    moved = find_self_collisions(plain, geometries, samples=500)
    assert kept.exact_only == [("base", "block")]
    np.testing.assert_array_equal(kept.home, plain.home)
    assert moved.exact_only == []
    assert np.abs(moved.home - plain.home).max() > 0.01


@pytest.mark.long
def test_a_base_that_falls_through_the_floor_fails_its_trial():
    go2 = load_robot("go2")
    links = {name: replace(each, collisions=()) for name, each in go2.tree.links.items()}
    stands = try_robot(replace(go2, tree=replace(go2.tree, links=links)))[0]
    assert (stands.name, stands.passed) == ("stands", False)


def test_limits_that_cannot_hold_the_masses_of_the_file_are_raised_by_the_load(tmp_path):
    """Outstretched at zero, the arm is too heavy for its shoulder."""
    bar = BAR.replace('xyz="0 0 0.1"', 'xyz="0.1 0 0" rpy="0 1.5708 0"')
    level = INERTIAL.replace('xyz="0 0 0.1"', 'xyz="0.1 0 0"') + bar
    weak = '<limit lower="-2.5" upper="2.5" velocity="2" effort="6"/>'
    parts = [link("base"), *(link(name, level) for name in "abc")]
    parts += [joint("turn", "base", "a", axis="0 0 1", xyz="0 0 0.6")]
    parts += [joint(n, *n, xyz="0.3 0 0", inside=weak) for n in ("ab", "bc")]
    file = tmp_path / "weak.urdf"
    file.write_text(robot(*parts))
    made = new_robot(file, output=tmp_path / "weak", unique_name=False, spheres_accuracy=0.03)
    limits = made.robot.limits
    gravity = InverseDynamics(made.robot.tree, generic=True).gravity
    for q in (np.zeros(3), *np.random.default_rng(0).uniform(-2.5, 2.5, (100, 3))):
        assert (np.abs(gravity(q)) < limits.effort).all()
    joints = dict(zip(made.robot.joint_names, limits.effort, strict=True))
    load = dict(zip(made.robot.joint_names, np.abs(gravity(np.zeros(3))), strict=True))
    assert load["ab"] > 6.0 > load["bc"], load
    assert joints["bc"] == 6.0
    assert joints["ab"] == pytest.approx(6.0 + load["ab"], rel=0.1)
    assert try_robot(made.robot)[0].passed


def quadruped(knee: float = -1.0) -> str:
    """Return a body on four legs of three joints, with spherical feet."""
    limits = '<limit lower="-1" upper="1" velocity="10" effort="40"/>'
    bent = f'<limit lower="-2.5" upper="{knee}" velocity="10" effort="40"/>'
    box = (
        '<inertial><mass value="{m}"/><inertia ixx="{i}" iyy="{i}" izz="{i}" ixy="0" ixz="0" '
        'iyz="0"/></inertial><collision><origin xyz="0 0 {z}"/><geometry><box size="{s}"/>'
        "</geometry></collision>"
    )
    parts = [link("trunk", box.format(m=6, i=0.1, z=0, s="0.4 0.2 0.1"))]
    for name, x, y in (("fl", 0.2, 0.1), ("fr", 0.2, -0.1), ("hl", -0.2, 0.1), ("hr", -0.2, -0.1)):
        side = 0.06 if y > 0 else -0.06
        parts += [
            link(f"{name}_hip", box.format(m=0.5, i=1e-3, z=0, s="0.04 0.04 0.04")),
            link(f"{name}_thigh", box.format(m=0.5, i=2e-3, z=-0.1, s="0.03 0.02 0.18")),
            link(f"{name}_calf", box.format(m=0.2, i=1e-3, z=-0.1, s="0.02 0.02 0.2")),
            joint(f"{name}_hip_joint", "trunk", f"{name}_hip", xyz=f"{x} {y} 0", axis="1 0 0",
                  inside=limits),
            joint(f"{name}_thigh_joint", f"{name}_hip", f"{name}_thigh", xyz=f"0 {side} 0",
                  inside=limits),
            joint(f"{name}_calf_joint", f"{name}_thigh", f"{name}_calf", xyz="0 0 -0.2",
                  inside=bent),
        ]  # fmt: skip
    return robot(*parts, name="quad")


@pytest.mark.long
def test_a_body_on_four_legs_floats_and_stands(tmp_path):
    """The URDF has visual geometry only."""
    file = tmp_path / "quad.urdf"
    file.write_text(quadruped().replace("collision", "visual"))
    made = new_robot(file, output=tmp_path / "quad", unique_name=False, spheres_accuracy=0.03)
    assert made.robot.kind == "floating"
    failed = [step for step in try_robot(made.robot) if not step.passed]
    assert failed == []


def test_an_arm_that_hangs_to_the_floor_is_no_leg_among_others():
    above, parts = "trunk", []
    for k in range(4):
        z = "0" if k == 0 else "-0.1"
        hanging = BAR.replace("0 0 0.1", "0 0 -0.05").replace("0.24", "0.1")
        parts += [link(f"arm_{k}", INERTIAL + hanging)]
        parts += [joint(f"arm_joint_{k}", above, f"arm_{k}", xyz=f"0 0 {z}")]
        above = f"arm_{k}"
    tree, findings = (
        read_urdf(quadruped().replace("</robot>", "".join(parts) + "</robot>")),
        Notes(),
    )
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups = guess_groups(tree, (), findings)
    assert groups.groups[0].name == "arm"
    names = [leg.group.name for leg in find_legs(tree, geometries, groups, "trunk")]
    assert sorted(names) == ["fl", "fr", "hl", "hr"]


@pytest.mark.parametrize(("hands", "count"), [(False, 2), (True, 0)])
def test_chains_that_carry_hands_are_no_legs(hands, count):
    finger = '<limit lower="0" upper="0.04" velocity="0.2" effort="10"/>'
    parts = [link("trunk")]
    for side, y in (("l", 0.2), ("r", -0.2)):
        above = "trunk"
        for k, z in enumerate((0.0, -0.3, -0.3)):
            parts += [link(f"{side}{k}", INERTIAL + BAR.replace("0.1", "-0.1", 1))]
            parts += [joint(f"{side}{k}_joint", above, f"{side}{k}", xyz=f"0 {y * (not k)} {z}")]
            above = f"{side}{k}"
        for n in (1, -1) if hands else ():
            name = f"{side}_finger_{n}"
            parts += [link(name), joint(name, above, name, kind="prismatic", axis=f"0 {n} 0",
                                        xyz="0 0 -0.2", inside=finger)]  # fmt: skip
    tree, findings = read_urdf(robot(*parts)), Notes()
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups = guess_groups(tree, (), findings)
    assert len(find_legs(tree, geometries, groups, "trunk")) == count


def _spider(count: int, names: Callable[[int, int], str]) -> str:
    """Return a body with chains of three joints that lie beside it, as some files have them."""
    parts = [link("body")]
    for n in range(count):
        above = "body"
        for k in range(3):
            child = f"part_{n}_{k}"
            xyz = f"{0.3 * math.cos(n)} {0.3 * math.sin(n)} 0"
            parts += [link(child), joint(names(n, k), above, child, xyz=xyz)]
            above = child
    return robot(*parts)


def test_a_body_with_a_part_called_palm_is_a_hand():
    palm = link("palm") + joint("palm_joint", "body", "palm", kind="fixed")
    text = _spider(4, lambda n, k: str(3 * n + k)).replace("</robot>", palm + "</robot>")
    tree, findings = read_urdf(text), Notes()
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups = guess_groups(tree, (), findings)
    given = GivenBase("arm", floating=False, stated=False, has_wheels=False)
    assert guess_kind(tree, geometries, groups, "body", given, findings)[0] == "arm"


@pytest.mark.parametrize(
    ("count", "names", "kind", "confidence"),
    [
        (4, lambda n, k: str(3 * n + k), "floating", "low"),
        (6, lambda n, k: f"motor_{3 * n + k}", "floating", "low"),
        (4, lambda n, k: f"{('hip', 'thigh', 'knee')[k]}_{n}", "floating", "medium"),
        (2, lambda n, k: f"{('l', 'r')[n]}_{('hip', 'knee', 'ankle')[k]}", "floating", "medium"),
        (2, lambda n, k: f"{('l', 'r')[n]}_{('shoulder', 'elbow', 'wrist')[k]}", "arm", "medium"),
        (1, lambda n, k: f"{('hip', 'knee', 'ankle')[k]}", "arm", "medium"),
    ],
)
def test_the_kind_is_a_guess_with_confidence(count, names, kind, confidence):
    tree, findings = read_urdf(_spider(count, names)), Notes()
    geometries = link_geometries(tree, search_from(Path("x.urdf")), findings)
    groups, asked = guess_groups(tree, (), findings), []
    given = GivenBase("arm", floating=False, stated=False, has_wheels=False)

    def answer(question: Question) -> str:
        asked.append(question)
        return "arm"

    found, legs = guess_kind(tree, geometries, groups, "body", given, findings)
    assert (found, len(legs)) == (kind, count if kind == "floating" else 0)
    noted = [item for item in findings.of("guessed") if item.topic == "kind"]
    assert [item.confidence for item in noted] == [confidence]
    chosen, none = guess_kind(tree, geometries, groups, "body", given, Notes(answer))
    assert (chosen, none) == ("arm", ())
    assert len(asked) == (kind == "floating")


def test_a_trial_that_moves_nothing_fails(tmp_path):
    still = '<limit lower="0" upper="0.0002" velocity="1" effort="80"/>'
    file = tmp_path / "still.urdf"
    file.write_text(robot(link("a"), link("b"), joint("j", "a", "b", inside=still)))
    made = new_robot(file, output=tmp_path / "still", unique_name=False, picture=False)
    steps = {step.name: step.passed for step in try_robot(made.robot)}
    assert not any(passed for name, passed in steps.items() if name.startswith("moves"))
