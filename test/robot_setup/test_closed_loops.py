# SPDX-License-Identifier: Apache-2.0
"""Constraints of an MJCF: parallel mechanisms are refused, linkages of one drive are kept."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from lxml import etree

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.mjcf_source import MjcfSource, read_mjcf
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.urdf_repair import repair

VARIETY = Path(__file__).parent.parent / "variety"
ROD = '<geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.01"/>'
BOX = '<geom type="box" size="0.1 0.1 0.02" pos="0 0 -0.1"/>'
HINGE = '<joint name="{}" axis="0 1 0" range="-1 1"/>'
CONNECT = '<connect body1="left2" body2="right2" anchor="0.05 0 0.2"/>'
WELD = '<weld body1="left2" body2="right2"/>'


def planar(equality: str, driven: str = "l1 r1", free: str = "", more: str = "") -> str:
    """Return two branches of two hinges each on a base, and constraints."""
    branches = "".join(
        f"""
        <body name="{side}1" pos="{x} 0 0">{HINGE.format(side[0] + "1")}{ROD}
          <body name="{side}2" pos="0 0 0.2">{HINGE.format(side[0] + "2")}{ROD}
            {more if side == "left" else ""}
          </body>
        </body>"""
        for side, x in (("left", -0.05), ("right", 0.05))
    )
    drives = "".join(f'<position joint="{name}" kp="10"/>' for name in driven.split())
    return f"""<mujoco><compiler angle="radian"/><worldbody>
      <body name="base">{free}{BOX}{branches}</body>
      <body name="cube" pos="1 0 0"><freejoint name="cube"/>{BOX}</body>
      <body name="hand" mocap="true"/>
    </worldbody><equality>{equality}</equality><actuator>{drives}</actuator></mujoco>"""


def converted(text: str, folder: Path) -> tuple[MjcfSource, list[str]]:
    file, notes = folder / "linkage.xml", Notes()
    file.write_text(text)
    return read_mjcf(file, folder, notes), [note.text for note in notes]


WRIST = (
    f'<body name="tip" pos="0 0 0.2"><joint name="wrist" axis="1 0 0" range="-1 1"/>{ROD}</body>'
)
REFUSED = {
    "two drives": (planar(CONNECT), ("<connect> of left2 and right2", "l1, r1")),
    "welded": (planar(WELD), ("<weld> of left2 and right2", "l1, r1")),
    "all joints count without actuators": (planar(CONNECT, ""), ("l1, l2, r1, r2",)),
    "a wrist behind a push rod": (
        planar(CONNECT, "r1 wrist", more=WRIST),
        ("r1 moves the passive joints that carry wrist",),
    ),
    "a drive that is welded to the base": (
        planar('<weld body1="left1" body2="base"/>', "l1 l2 r1 r2"),
        ("<weld> of left1 and base: holds l1",),
    ),
    "a drive that is held by the world": (
        planar('<connect body1="left2" anchor="0 0 0.2"/>', "l1"),
        ("left2 and world: holds l1",),
    ),
    "a platform that floats between two drives": (
        planar(
            '<connect body1="left2" body2="cube" anchor="0 0 0.2"/>'
            '<connect body1="right2" body2="cube" anchor="0 0 0.2"/>'
        ),
        ("left2 and cube", "right2 and cube", "l1, r1"),
    ),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_parallel_mechanism_is_refused_by_name(
    text: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InvalidDescription) as refused:
        converted(text, tmp_path)
    said = str(refused.value)
    for word in ("linkage.xml: closed kinematic loop through <equality>", "<mimic>", *words):
        assert word in said


def test_the_delta_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDescription, match="motor0, motor1, motor2"):
        read_mjcf(VARIETY / "delta.xml", tmp_path, Notes())


FOLLOWS = '<joint joint1="r1" joint2="l1" polycoef="0 1 0 0 0"/>'
ACCEPTED = {
    "one drive": (planar(CONNECT, "l1"), 1),
    "drives that follow each other": (planar(CONNECT + FOLLOWS, "l1 r1"), 1),
    "inactive": (planar(CONNECT.replace("/>", ' active="false"/>')), 0),
    "a device of teleoperation": (planar('<weld body1="left2" body2="hand"/>'), 0),
    "an object in the hand": (planar('<weld body1="left2" body2="cube"/>'), 0),
    "a foot on the floor": (
        planar('<connect body1="left2" anchor="0 0 0.2"/>', free='<freejoint name="root"/>'), 0
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "loops"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_other_constraints_are_accepted(text: str, loops: int, tmp_path: Path) -> None:
    found, _ = converted(text, tmp_path)
    assert len(found.simulation.get("loops", [])) == loops


def test_loops_of_legs_are_noted(tmp_path: Path) -> None:
    text = planar(CONNECT, free='<freejoint name="root"/>')
    found, notes = converted(text, tmp_path)
    assert found.floating
    assert any("end at closed loops" in note and "l1, r1" in note for note in notes)


@pytest.mark.parametrize(
    ("equality", "words"),
    [
        ('<joint joint1="r1" joint2="l1" polycoef="0 1 0.5 0 0"/>', ("'r1'", "'l1'", "0 1 0.5")),
        ('<joint joint1="r1" joint2="l1" polycoef="0.2 0 0 0 0"/>', ("ratio", "joint2")),
        (
            '<joint joint1="r1" joint2="l1"/><joint joint1="r1" joint2="l2"/>'
            '<joint joint1="l1" joint2="l2"/>',
            ("'l1'", "'l2'", "more than once"),
        ),
    ],
)
def test_equalities_of_joints_are_straight_lines(
    equality: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(InvalidDescription) as refused:
        converted(planar(equality, "l1 l2 r1 r2"), tmp_path)
    for word in ("linkage.xml: <equality>", *words):
        assert word in str(refused.value)


def test_two_followers_share_a_leader_in_any_order(tmp_path: Path) -> None:
    both = '<joint joint1="r1" joint2="l1"/><joint joint1="r1" joint2="r2" polycoef="0 2 0 0 0"/>'
    found, _ = converted(planar(both, "l1"), tmp_path)
    mimics = {
        j.get("name"): (m.get("joint"), float(m.get("multiplier")))
        for j in found.root.iter("joint")
        if (m := j.find("mimic")) is not None
    }
    assert mimics == {"r1": ("l1", 1.0), "r2": ("r1", 0.5)}


def test_a_joint_without_a_leader_is_fixed_where_mujoco_holds_it(tmp_path: Path) -> None:
    text = planar('<joint joint1="l1" polycoef="0.4 0 0 0 0"/>', "l2 r1 r2")
    found, notes = converted(text, tmp_path)
    assert any("l1 becomes fixed" in note for note in notes)
    repair(found.root, Path("linkage.xml"), Notes())
    tree = read_urdf(etree.tostring(found.root, encoding="unicode"), "linkage")
    assert "l1" not in tree.joint_names
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.joint("l1").qpos[0] = 0.4
    mujoco.mj_kinematics(model, data)
    kinematics = Kinematics(tree, generic=True)
    for link in ("left1", "left2", "right2"):
        X = kinematics.pose(np.zeros(len(tree.joint_names)), link)
        np.testing.assert_allclose(X[:3, 3], data.body(link).xpos, atol=1e-9)
        np.testing.assert_allclose(X[:3, :3].ravel(), data.body(link).xmat, atol=1e-9)


def test_actuators_without_a_joint_are_noted(tmp_path: Path) -> None:
    tendon = '<tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>'
    text = planar("", "l1").replace("</mujoco>", f"{tendon}</mujoco>")
    text = text.replace(BOX, f'{BOX}<site name="a"/>', 1)
    text = text.replace(ROD, f'{ROD}<site name="b"/>', 1)
    text = text.replace("</actuator>", '<motor tendon="t"/></actuator>')
    _, notes = converted(text, tmp_path)
    assert any("1 actuators of spatial tendons" in note for note in notes)


def test_an_actuator_of_a_ball_joint_drives_its_axis(tmp_path: Path) -> None:
    ball = (
        '<body name="ball" pos="0 0 0.2"><joint name="b" type="ball" range="0 1"/>'
        + ROD
        + "</body>"
    )
    text = planar("", "l1 l2 r1 r2", more=ball)
    motors = '<motor joint="b" gear="0 3 0" ctrlrange="-2 2"/>'
    found, _ = converted(text.replace("</actuator>", f"{motors}</actuator>"), tmp_path)
    assert found.drives["b_y"].max_effort == pytest.approx(6.0)
    assert set(found.passive) == {"b_x", "b_z"}
