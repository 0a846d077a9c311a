# SPDX-License-Identifier: Apache-2.0
"""A small arm with a gripper whose second finger mimics the first, and files that describe it."""

URDF = """<robot name="crane">
  <link name="mount"/>
  <link name="foot"/>
  <link name="boom"/>
  <link name="stick"/>
  <link name="palm"/>
  <link name="left"/>
  <link name="right"/>
  <joint name="mount_joint" type="fixed"><parent link="mount"/><child link="foot"/></joint>
  <joint name="slew" type="revolute">
    <parent link="foot"/><child link="boom"/><origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" velocity="2" effort="50"/>
  </joint>
  <joint name="lift" type="revolute">
    <parent link="boom"/><child link="stick"/><origin xyz="0.4 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="1" velocity="2" effort="40"/>
  </joint>
  <joint name="palm_joint" type="fixed">
    <parent link="stick"/><child link="palm"/><origin xyz="0.5 0 0"/>
  </joint>
  <joint name="grip" type="prismatic">
    <parent link="palm"/><child link="left"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.05" velocity="0.1" effort="20"/>
  </joint>
  <joint name="grip_other" type="prismatic">
    <parent link="palm"/><child link="right"/><axis xyz="0 -1 0"/>
    <limit lower="0" upper="0.05" velocity="0.1" effort="20"/><mimic joint="grip"/>
  </joint>
</robot>
"""

XRDF = """
format: xrdf
format_version: 2.0
modifiers:
  - set_base_frame: foot
  - add_frame:
      frame_name: tcp
      parent_frame_name: palm
      joint_name: tcp_joint
      joint_type: FIXED
      fixed_transform: {position: [0.1, 0, 0.02], orientation: {w: 1.0, xyz: [0, 1.0, 0]}}
default_joint_positions: {slew: 0.5, lift: -0.7, grip: 0.02}
cspace:
  joint_names: [slew, lift]
  acceleration_limits: [10, 8.0]
  jerk_limits: [100.0, 1e3]
tool_frames: [tcp]
world_collision:
  geometry: outside
  buffer_distance: {stick: 0.01}
self_collision:
  geometry: all
  buffer_distance: {}
  ignore: {foot: [boom], boom: [stick, foot], palm: [left, right]}
geometry:
  outside:
    spheres:
      boom: [{center: [0.1, 0, 0], radius: 0.08}, {center: [0.3, 0, 0], radius: 0.08}]
      stick: [{center: [0.2, 0, 0], radius: 0.06}]
  inside:
    spheres:
      foot: [{center: [0, 0, 0.1], radius: 0.15}]
  all: {clone: [outside, inside]}
"""

LULA = """
api_version: 1.0
cspace: [slew, lift]
root_link: foot
default_q: [0.5, -0.7]
acceleration_limits: [10.0, 8.0]
jerk_limits: [100.0, 1000.0]
cspace_to_urdf_rules:
  - {name: grip, rule: fixed, value: 0.02}
composite_task_spaces: []
collision_spheres:
  - boom:
      - {center: [0.1, 0.0, 0.0], radius: 0.08}
      - {center: [0.3, 0.0, 0.0], radius: 0.08}
  - stick:
      - {center: [0.2, 0.0, 0.0], radius: 0.07}
"""

CUROBO = """
robot_cfg:
  kinematics:
    urdf_path: robot/crane/crane.urdf
    asset_root_path: robot/crane
    base_link: foot
    ee_link: tcp
    link_names: null
    collision_link_names: [boom, stick]
    collision_sphere_buffer: 0.005
    collision_spheres:
      boom: [{center: [0.1, 0, 0], radius: 0.08}]
      stick: [{center: [0.2, 0, 0], radius: 0.06}, {center: [0, 0, 0], radius: -10}]
    self_collision_ignore: {boom: [stick]}
    self_collision_buffer: {stick: 0.0}
    lock_joints: {grip: 0.03}
    extra_links:
      tcp: {parent_link_name: palm, link_name: tcp, joint_name: tcp_joint, joint_type: FIXED,
            fixed_transform: [0.1, 0, 0.02, 0, 0, 1, 0]}
    cspace:
      joint_names: [slew, lift, grip]
      retract_config: [0.5, -0.7, 0.0]
      null_space_weight: [1, 1, 1]
      max_acceleration: 12.0
      max_jerk: [300.0, 400.0, 500.0]
"""

SRDF = """<?xml version="1.0"?>
<robot name="crane">
  <!-- as the setup assistant writes it -->
  <group name="arm"><chain base_link="foot" tip_link="palm"/></group>
  <group name="manipulator"><group name="arm"/></group>
  <group name="hand"><joint name="grip"/><link name="right"/></group>
  <group name="whole"><group name="arm"/><group name="hand"/></group>
  <group_state name="ready" group="arm">
    <joint name="slew" value="0.5"/><joint name="lift" value="-0.7"/>
  </group_state>
  <group_state name="ready" group="hand"><joint name="grip" value="0.02"/></group_state>
  <end_effector name="gripper" parent_link="palm" group="hand" parent_group="arm"/>
  <virtual_joint name="to_world" type="fixed" parent_frame="world" child_link="mount"/>
  <passive_joint name="grip_other"/>
  <link_sphere_approximation link="boom">
    <sphere center="0.1 0 0" radius="0.08"/>
  </link_sphere_approximation>
  <link_sphere_approximation link="mount">
    <sphere center="0 0 0" radius="0"/>
  </link_sphere_approximation>
  <disable_collisions link1="foot" link2="boom" reason="Adjacent"/>
  <disable_collisions link1="boom" link2="stick"/>
</robot>
"""


def write_pair(folder, name, text):
    """Write the URDF and a file that describes it; return the path of the description."""
    (folder / "crane.urdf").write_text(URDF)
    path = folder / name
    path.write_text(text)
    return path
