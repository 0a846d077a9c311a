# SPDX-License-Identifier: Apache-2.0
"""Conversion of MJCF to URDF: kinematics, limits, masses and drives against MuJoCo."""

from __future__ import annotations

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
def arm(tmp_path: Path) -> tuple[MjcfSource, Notes, mujoco.MjModel]:
    return converted(ARM, tmp_path)


def test_every_frame_is_where_mujoco_has_it(arm) -> None:
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


def test_masses_limits_and_shapes_are_mujocos(arm) -> None:
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


def test_drives_mimics_and_home_are_taken(arm) -> None:
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
def test_a_robot_made_of_it_passes_its_trial(tmp_path: Path) -> None:
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


def test_a_free_root_floats_and_a_ball_joint_is_three(tmp_path: Path) -> None:
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
def test_what_cannot_be_used_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.xml").write_text(text)
    with pytest.raises(InvalidDescription) as refused:
        read_mjcf(tmp_path / "model.xml", tmp_path, Notes())
    assert "model.xml" in str(refused.value)
