# SPDX-License-Identifier: Apache-2.0
"""Conversion of MJCF to URDF: kinematics, masses, drives, closed loops, springs and friction."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from lxml import etree

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.errors import InvalidDescription
from motion_nodes.extras.robot_setup.mjcf_source import MjcfSource, read_mjcf
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.robot_setup.urdf_repair import repair
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.robot_trial import try_robot

ARM = """
<mujoco model="arm">
  <compiler angle="degree"/>
  <default>
    <geom rgba="0.2 0.3 0.4 1"/>
    <default class="seen"><geom contype="0" conaffinity="0" group="2"/></default>
  </default>
  <asset>
    <mesh name="wedge" vertex="0 0 0  0.1 0 0  0 0.1 0  0 0 0.2" scale="1 1 0.5"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0.3 0 0.1">
      <geom type="cylinder" size="0.06 0.05"/>
      <body name="upper" pos="0 0 0.1" euler="0 0 30">
        <joint name="pan" axis="0 0 1" range="-170 170" pos="0.02 0 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.04"/>
        <body name="lower" pos="0 0 0.35" quat="0.9 0.1 0.3 0.2">
          <joint name="lift" axis="1 2 0" range="-90 90" ref="20" armature="0.1" damping="2"/>
          <joint name="slide" type="slide" axis="0 0 1" range="0 0.1"/>
          <geom type="box" size="0.03 0.03 0.1" pos="0 0 0.15"/>
          <geom class="seen" type="mesh" mesh="wedge" pos="0 0 0.2"/>
          <body name="left" pos="0.03 0 0.3">
            <joint name="left_finger" type="slide" axis="1 0 0" range="0 0.04"/>
            <geom type="box" size="0.005 0.01 0.03"/>
          </body>
          <body name="right" pos="-0.03 0 0.3">
            <joint name="right_finger" type="slide" axis="-1 0 0" range="0 0.04"/>
            <geom type="ellipsoid" size="0.005 0.01 0.03"/>
          </body>
        </body>
      </body>
    </body>
    <body name="cup" pos="1 0 0"><freejoint/><geom type="sphere" size="0.03"/></body>
  </worldbody>
  <equality><joint joint1="right_finger" joint2="left_finger"/></equality>
  <actuator>
    <position joint="pan" kp="900" kv="90" forcerange="-50 50"/>
    <general joint="lift" gear="2" biastype="affine" gainprm="100" biasprm="0 -100 -10"/>
    <motor joint="slide" gear="3" ctrlrange="-10 10"/>
    <position joint="left_finger" kp="200"/>
  </actuator>
  <keyframe>
    <key name="rest" qpos="0 0 0 0 0 1 0 0 1 0 0 0"/>
    <key name="home" qpos="0.5 0.6 0.02 0.01 0.01 1 0 0 1 0 0 0"/>
  </keyframe>
</mujoco>
"""


def converted(text: str, folder: Path) -> tuple[MjcfSource, Notes, mujoco.MjModel]:
    file = folder / "model.xml"
    file.write_text(text)
    (folder / "meshes").mkdir(exist_ok=True)
    notes = Notes()
    found = read_mjcf(file, folder / "meshes", notes)
    return found, notes, mujoco.MjModel.from_xml_string(text)


@pytest.fixture
def arm(tmp_path):
    return converted(ARM, tmp_path)


def test_every_frame_is_where_mujoco_has_it(arm):
    found, _, model = arm
    repair(found.root, Path("model.xml"), Notes())
    tree = read_urdf(etree.tostring(found.root, encoding="unicode"), "model")
    kinematics, data = Kinematics(tree, generic=True), mujoco.MjData(model)
    rng = np.random.default_rng(3)
    for _ in range(20):
        q = {n: rng.uniform(tree.joints[n].lower, tree.joints[n].upper) for n in tree.joint_names}
        for name, value in {**q, "right_finger": q["left_finger"]}.items():
            data.joint(name).qpos[0] = value
        mujoco.mj_kinematics(model, data)
        frames = kinematics.frames(np.array([q[n] for n in tree.joint_names]))
        mine = dict(zip(kinematics.frame_names, frames, strict=True))
        base = np.linalg.inv(pose(data, "base"))
        for body in ("upper", "lower", "left", "right"):
            X, wanted = mine[body], base @ pose(data, body)
            np.testing.assert_allclose(X[:3, :3], wanted[:3, :3], atol=1e-8)
            # The link frame is at the joint; the frame of the MuJoCo body need not be.
            joint = {"upper": "pan"}.get(body)
            place = data.joint(joint).xanchor if joint else data.body(body).xpos
            np.testing.assert_allclose(X[:3, 3], (base @ [*place, 1.0])[:3], atol=1e-8)


def pose(data: mujoco.MjData, body: str) -> np.ndarray:
    here = data.body(body)
    return from_xyz_quat(here.xpos, np.roll(here.xquat, -1))


def test_masses_limits_and_shapes_are_mujocos(arm):
    found, notes, model = arm
    links = {link.get("name"): link for link in found.root.iter("link")}
    assert set(links) == {"base", "upper", "lower", "lower_lift", "left", "right"}
    for name in ("upper", "lower", "left"):
        mass = float(links[name].find("inertial/mass").get("value"))
        assert mass == pytest.approx(float(model.body(name).mass[0]))
    limits = {j.get("name"): j.find("limit") for j in found.root.iter("joint")}
    assert float(limits["pan"].get("upper")) == pytest.approx(np.deg2rad(170.0))
    assert float(limits["pan"].get("effort")) == 50.0
    assert float(limits["slide"].get("effort")) == 30.0
    kinds = [g.tag for g in links["upper"].findall("collision/geometry/*")]
    assert kinds == ["cylinder", "sphere", "sphere"]
    seen = links["lower"].find("visual/geometry/mesh")
    assert Path(seen.get("filename")).is_file()
    assert links["lower"].find("collision/geometry/mesh") is None
    assert any("cup" in note.text for note in notes)


def test_drives_mimics_and_home_are_taken(arm):
    found, _, _ = arm
    assert found.drives["pan"].stiffness == 900.0
    assert found.drives["pan"].damping == 90.0
    assert found.drives["lift"].stiffness == 400.0
    assert found.drives["lift"].armature == 0.1
    assert found.drives["slide"].stiffness == 0.0
    follower = next(j for j in found.root.iter("joint") if j.get("name") == "right_finger")
    mimic = follower.find("mimic")
    assert (mimic.get("joint"), float(mimic.get("multiplier"))) == ("left_finger", 1.0)
    assert found.home["pan"] == 0.5
    assert found.passive == ()
    assert not found.floating


@pytest.mark.long
def test_a_robot_made_of_it_passes_its_trial(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    made = new_robot(file, output=tmp_path / "arm", unique_name=False)
    assert made.robot.groups["arm"].joints == ("pan", "lift", "slide")
    assert made.robot.home[0] == pytest.approx(0.5)
    failed = [step for step in try_robot(made.robot) if not step.passed]
    assert failed == []


FLOATING = """
<mujoco model="hopper">
  <worldbody>
    <body name="trunk" pos="0 0 0.3">
      <freejoint/>
      <geom type="box" size="0.15 0.1 0.05" mass="4"/>
      <body name="leg" pos="0 0 -0.05">
        <joint name="hip" type="ball" range="0 0.5" limited="true"/>
        <geom type="box" size="0.1 0.08 0.1" pos="0 0 -0.12" mass="1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_a_free_root_floats_and_a_ball_joint_is_three(tmp_path):
    found, notes, _ = converted(FLOATING, tmp_path)
    assert found.root.get("name") == "hopper"
    assert found.floating
    names = [j.get("name") for j in found.root.iter("joint")]
    assert names == ["hip_x", "hip_y", "hip_z"]
    assert any("ball joint" in note.text for note in notes)
    made = new_robot(tmp_path / "model.xml", output=tmp_path / "robot", unique_name=False)
    assert made.robot.kind == "floating"


@pytest.mark.parametrize(
    "text",
    [
        "<mujoco><worldbody><body><geom size='1'/></body></worldbody></mujoco>",
        "<mujoco><worldbody><body><joint/></body></worldbody></mujoco>",
        "<mujoco><asset><mesh name='m' file='nowhere.stl'/></asset></mujoco>",
    ],
)
def test_what_cannot_be_used_is_refused_with_the_file(tmp_path, text):
    (tmp_path / "model.xml").write_text(text)
    with pytest.raises(InvalidDescription) as refused:
        read_mjcf(tmp_path / "model.xml", tmp_path, Notes())
    assert "model.xml" in str(refused.value)


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


def converted_of_closed_loops(text: str, folder: Path) -> tuple[MjcfSource, list[str]]:
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
def test_a_parallel_mechanism_is_refused_by_name(text, words, tmp_path):
    with pytest.raises(InvalidDescription) as refused:
        converted_of_closed_loops(text, tmp_path)
    said = str(refused.value)
    for word in ("linkage.xml: closed kinematic loop through <equality>", "<mimic>", *words):
        assert word in said


def test_the_delta_is_refused(tmp_path):
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
def test_other_constraints_are_accepted(text, loops, tmp_path):
    found, _ = converted_of_closed_loops(text, tmp_path)
    assert len(found.simulation.get("loops", [])) == loops


def test_loops_of_legs_are_noted(tmp_path):
    text = planar(CONNECT, free='<freejoint name="root"/>')
    found, notes = converted_of_closed_loops(text, tmp_path)
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
def test_equalities_of_joints_are_straight_lines(equality, words, tmp_path):
    with pytest.raises(InvalidDescription) as refused:
        converted_of_closed_loops(planar(equality, "l1 l2 r1 r2"), tmp_path)
    for word in ("linkage.xml: <equality>", *words):
        assert word in str(refused.value)


def test_two_followers_share_a_leader_in_any_order(tmp_path):
    both = '<joint joint1="r1" joint2="l1"/><joint joint1="r1" joint2="r2" polycoef="0 2 0 0 0"/>'
    found, _ = converted_of_closed_loops(planar(both, "l1"), tmp_path)
    mimics = {
        j.get("name"): (m.get("joint"), float(m.get("multiplier")))
        for j in found.root.iter("joint")
        if (m := j.find("mimic")) is not None
    }
    assert mimics == {"r1": ("l1", 1.0), "r2": ("r1", 0.5)}


def test_a_joint_without_a_leader_is_fixed_where_mujoco_holds_it(tmp_path):
    text = planar('<joint joint1="l1" polycoef="0.4 0 0 0 0"/>', "l2 r1 r2")
    found, notes = converted_of_closed_loops(text, tmp_path)
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


def test_actuators_without_a_joint_are_noted(tmp_path):
    tendon = '<tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>'
    text = planar("", "l1").replace("</mujoco>", f"{tendon}</mujoco>")
    text = text.replace(BOX, f'{BOX}<site name="a"/>', 1)
    text = text.replace(ROD, f'{ROD}<site name="b"/>', 1)
    text = text.replace("</actuator>", '<motor tendon="t"/></actuator>')
    _, notes = converted_of_closed_loops(text, tmp_path)
    assert any("1 actuators of spatial tendons" in note for note in notes)


def test_an_actuator_of_a_ball_joint_drives_its_axis(tmp_path):
    ball = (
        '<body name="ball" pos="0 0 0.2"><joint name="b" type="ball" range="0 1"/>'
        + ROD
        + "</body>"
    )
    text = planar("", "l1 l2 r1 r2", more=ball)
    motors = '<motor joint="b" gear="0 3 0" ctrlrange="-2 2"/>'
    found, _ = converted_of_closed_loops(
        text.replace("</actuator>", f"{motors}</actuator>"), tmp_path
    )
    assert found.drives["b_y"].max_effort == pytest.approx(6.0)
    assert set(found.passive) == {"b_x", "b_z"}


FOUR_BAR = """
<mujoco>
  <compiler angle="radian"/>
  <default><geom contype="0" conaffinity="0" density="800"/></default>
  <worldbody>
    <body name="frame">
      <geom type="box" size="0.2 0.02 0.02"/>
      <body name="crank" pos="-0.1 0 0">
        <joint name="crank" axis="0 1 0" range="-0.6 0.6" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.01"/>
        <body name="coupler" pos="0 0 0.2">
          <joint name="coupler" axis="0 1 0" pos="0 0 0.01" damping="0.05"/>
          <geom type="capsule" fromto="0 0 0 0.2 0 0" size="0.01"/>
          <geom type="sphere" size="0.03" pos="0.1 0 0.05" contype="1" friction="1.7 0.01 0.002"/>
        </body>
      </body>
      <body name="rocker" pos="0.1 0 0">
        <joint name="rocker" axis="0 1 0" stiffness="3" springref="0.5" damping="0.05"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.01"/>
      </body>
    </body>
  </worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor="0.2 0 0"/></equality>
  <actuator><position joint="crank" kp="20" kv="1" forcerange="-10 10"/></actuator>
</mujoco>
"""


@pytest.mark.long
def test_a_four_bar_linkage_rests_where_mujoco_has_it(tmp_path):
    file = tmp_path / "four_bar.xml"
    file.write_text(FOUR_BAR)
    robot = new_robot(file, name="four_bar", output=tmp_path / "made", spheres_accuracy=0.05).robot
    assert set(robot.passive_joints) == {"coupler", "rocker"}

    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    q = robot.home.copy()
    data.ctrl[0] = q[robot.joint_names.index("crank")]
    for _ in range(2000):
        mujoco.mj_step(model, data)

    world = MujocoWorld([RobotPlacement(robot, "robot")])
    world.reset()
    world.step(2000)
    found = dict(zip(robot.joint_names, world.state("robot").position, strict=True))
    for joint in ("crank", "coupler", "rocker"):
        assert abs(found[joint] - float(data.joint(joint).qpos[0])) < 5e-3
    # The spring deflects the linkage from its commanded position.
    assert abs(found["rocker"]) > 0.02


def test_friction_is_kept_and_what_is_lost_is_named(tmp_path):
    file = tmp_path / "four_bar.xml"
    tendon = (
        '<tendon><fixed limited="true" range="-1 1"><joint joint="crank" coef="1"/></fixed>'
        "</tendon>"
    )
    file.write_text(FOUR_BAR.replace("</mujoco>", tendon + "</mujoco>"))
    folder = tmp_path / "meshes"
    folder.mkdir()
    findings = Notes()
    block = read_mjcf(file, folder, findings).simulation
    assert np.allclose(list(block["contact"]["coupler"].values()), [1.7, 0.01, 0.002])
    assert block["springs"] == {"rocker": {"stiffness": 3.0, "rest": 0.5}}
    lost = [note.text for note in findings if note.kind == "missing"]
    assert "limits of tendons" in lost[0]
