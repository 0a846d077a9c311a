# SPDX-License-Identifier: Apache-2.0
"""Closed loops, springs and friction of an MJCF in the suite's simulation, against MuJoCo."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from motion_nodes.extras.robot_setup.mjcf_source import read_mjcf
from motion_nodes.extras.robot_setup.new_robot import new_robot
from motion_nodes.extras.robot_setup.notes import Notes
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.mujoco_world import MujocoWorld

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
def test_a_four_bar_linkage_rests_where_mujoco_has_it(tmp_path: Path) -> None:
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


def test_friction_is_kept_and_what_is_lost_is_named(tmp_path: Path) -> None:
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
