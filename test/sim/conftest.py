# SPDX-License-Identifier: Apache-2.0
"""Small robots for the tests of the simulation, written to files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.robot import Robot

MakeRobot = Callable[..., Robot]

_SPINNER_URDF = """<?xml version="1.0"?>
<robot name="spinner">
  <link name="stand"/>
  <link name="rotor">
    <inertial>
      <origin xyz="0 0 0.1" rpy="0 0 0"/>
      <mass value="2.0"/>
      <inertia ixx="0.02" iyy="0.03" izz="0.04" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision><origin xyz="0 0 0.1"/><geometry>{shape}</geometry></collision>
  </link>
  <joint name="spin" type="{kind}">
    <origin xyz="0 0 0.5"/>
    <parent link="stand"/><child link="rotor"/>
    <axis xyz="0 0 1"/>
    <limit lower="-1.0" upper="2.0" effort="{effort}" velocity="{velocity}"/>
    <dynamics damping="{loss}" friction="0.0"/>
  </joint>
</robot>
"""

_SPINNER_YAML = """format: 1
name: spinner
kind: arm
urdf: spinner.urdf
frames: {{base: stand}}
drives:
  - joints: [spin]
    mode: {mode}
    stiffness: {stiffness}
    damping: {damping}
    armature: {armature}
sources: {{drives: made up for a test}}
"""

_THING_YAML = """format: 1
name: {name}
kind: arm
urdf: {name}.urdf
frames: {{base: base}}
drives:
  - {{joints: [{joints}], mode: position, stiffness: 200.0, damping: 20.0, armature: 0.01}}
sources: {{drives: made up for a test}}
"""

_ROVER_URDF = """<?xml version="1.0"?>
<robot name="rover">
  <link name="base_footprint"/>
  <link name="base_link">
    <inertial>
      <origin xyz="-0.01 0 0.02"/>
      <mass value="1.2"/>
      <inertia ixx="0.002" iyy="0.003" izz="0.004" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision>
      <origin xyz="-0.01 0 0.02"/><geometry><box size="0.12 0.08 0.04"/></geometry>
    </collision>
  </link>
  <joint name="body" type="fixed">
    <origin xyz="{ahead} 0 {height}"/><parent link="base_footprint"/><child link="base_link"/>
  </joint>
  {wheels}
  <link name="caster">
    <collision><geometry><sphere radius="0.01"/></geometry></collision>
  </link>
  <joint name="caster_joint" type="fixed">
    <origin xyz="-0.06 0 -0.02"/><parent link="base_link"/><child link="caster"/>
  </joint>
</robot>
"""

_WHEEL_URDF = """
  <link name="{side}_wheel">
    <inertial>
      <mass value="0.05"/>
      <inertia ixx="2e-5" iyy="3e-5" izz="2e-5" ixy="0" ixz="0" iyz="0"/>
    </inertial>
    <collision>
      <origin rpy="1.5707963267948966 0 0"/>
      <geometry><cylinder radius="0.03" length="0.02"/></geometry>
    </collision>
  </link>
  <joint name="{side}_wheel_joint" type="continuous">
    <origin xyz="0 {y} 0"/><parent link="base_link"/><child link="{side}_wheel"/>
    <axis xyz="0 1 0"/>
    <limit effort="1.0" velocity="20.0"/>
  </joint>
"""

_ROVER_YAML = """format: 1
name: rover
kind: differential
urdf: rover.urdf
frames: {base: base_link}
base:
  left_wheel_names: [left_wheel_joint]
  right_wheel_names: [right_wheel_joint]
  wheel_radius: 0.03
  wheel_separation: 0.12
  linear: {x: {max_velocity: 0.5, max_acceleration: 1.0}}
  angular: {z: {max_velocity: 4.0, max_acceleration: 8.0}}
drives:
  - joints: [left_wheel_joint, right_wheel_joint]
    mode: velocity
    damping: 0.05
    armature: 1.0e-4
simulation:
  contact:
    caster: {friction: 0.0}
    left_wheel: {friction: 1.0}
    right_wheel: {friction: 1.0}
sources: {base: made up for a test, drives: made up for a test}
"""


def _write(folder: Path, name: str, urdf: str, yaml: str) -> Robot:
    """Write a robot's two files; return the loaded robot."""
    folder.mkdir()
    (folder / f"{name}.urdf").write_text(urdf)
    (folder / "robot.yaml").write_text(yaml)
    return load_robot(folder)


@pytest.fixture
def make_spinner(tmp_path):
    """Return a maker of a robot with one joint about the vertical axis (izz 0.04 kg m^2)."""
    count = 0

    def make(
        *,
        kind: str = "continuous",
        mode: str = "position",
        stiffness: float = 40.0,
        damping: float = 4.0,
        armature: float = 0.06,
        effort: float = 5.0,
        velocity: float = 3.0,
        loss: float = 0.0,
        shape: str = '<sphere radius="0.05"/>',
    ) -> Robot:
        nonlocal count
        count += 1
        return _write(
            tmp_path / f"spinner{count}",
            "spinner",
            _SPINNER_URDF.format(
                kind=kind, effort=effort, velocity=velocity, loss=loss, shape=shape
            ),
            _SPINNER_YAML.format(
                mode=mode, stiffness=stiffness, damping=damping, armature=armature
            ),
        )

    return make


@pytest.fixture
def spinner(make_spinner):
    """Return the one-joint robot with its default drive."""
    return make_spinner()


@pytest.fixture
def make_rover(tmp_path):
    """Return a maker of a small differential base: root, body above it, two wheels, a caster."""

    def make(*, height: float = 0.03, ahead: float = 0.0) -> Robot:
        wheels = "".join(
            _WHEEL_URDF.format(side=side, y=y) for side, y in (("left", 0.06), ("right", -0.06))
        )
        urdf = _ROVER_URDF.format(wheels=wheels, height=height, ahead=ahead)
        return _write(tmp_path / f"rover{height}{ahead}", "rover", urdf, _ROVER_YAML)

    return make


@pytest.fixture
def rover(make_rover):
    """Return the base whose root lies on the floor."""
    return make_rover()


@pytest.fixture
def write_robot(tmp_path):
    """Return a maker of an arm from the content of its URDF; ``joints`` share one drive."""

    def make(inside: str, joints: str, name: str = "thing") -> Robot:
        urdf = f'<?xml version="1.0"?>\n<robot name="{name}">{inside}</robot>'
        return _write(tmp_path / name, name, urdf, _THING_YAML.format(name=name, joints=joints))

    return make


@pytest.fixture(scope="session")
def franka():
    """Return the shipped Franka."""
    return load_robot("franka")


@pytest.fixture(scope="session")
def jetbot():
    """Return the shipped Jetbot."""
    return load_robot("jetbot")
