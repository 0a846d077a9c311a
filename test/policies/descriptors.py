# SPDX-License-Identifier: Apache-2.0
"""IO descriptors of small policies for tests."""

from motion_nodes.core.robot.yaml_schema import yaml_text

ENV_YAML = """
sim:
  dt: 0.005
  render_interval: 4
  physx: !!python/object:isaaclab.sim.PhysxCfg {solver: 1}
decimation: 4
scene:
  robot:
    init_state:
      pos: !!python/tuple [0.0, 0.0, 0.4]
      joint_pos: {'.*hip': 0.1, 'F[LR]_thigh': 0.8, 'R[LR]_thigh': 1.0, '.*_calf': -1.5}
      joint_vel: {'.*': 0.0}
    actuators:
      legs:
        class_type: isaaclab.actuators:DCMotor
        joint_names_expr: ['.*_hip', '.*_thigh', '.*_calf']
        effort_limit: 23.5
        velocity_limit: null
        stiffness: {'.*': 25.0}
        damping: 0.5
        armature: null
        friction: .inf
observations:
  policy:
    concatenate_terms: true
    enable_corruption: false
    base_lin_vel: {func: 'isaaclab.envs.mdp.observations:base_lin_vel', noise: !!python/name:a.b ''}
    velocity_commands:
      func: isaaclab.envs.mdp.observations:generated_commands
      params: {command_name: base_velocity}
    joint_pos:
      func: !!python/name:isaaclab.envs.mdp.observations.joint_pos_rel ''
      scale: 2.0
      clip: !!python/tuple [-10.0, 10.0]
      history_length: 2
    actions: {func: 'isaaclab.envs.mdp.observations:last_action'}
  critic: null
actions:
  joint_pos:
    class_type: isaaclab.envs.mdp.actions.joint_actions:JointPositionAction
    joint_names: ['.*']
    scale: 0.2
    offset: 0.0
    use_default_offset: true
    clip: null
rewards: {anything: !<tag:x> [1, 2]}
"""
"""An env.yaml of Isaac Lab, of a quadruped."""


def descriptor(joints, observations=None, *, actions=None, **fields):
    """Return an IO_descriptors.yaml as data: position actions and the usual terms."""
    n = len(joints)
    if observations is None:
        observations = [
            {"name": "base_lin_vel", "shape": [3]},
            {"name": "base_ang_vel", "shape": [3]},
            {"name": "projected_gravity", "shape": [3]},
            {"name": "generated_commands", "shape": [3]},
            {"name": "joint_pos_rel", "shape": [n], "joint_names": list(joints)},
            {"name": "joint_vel_rel", "shape": [n], "joint_names": list(joints)},
            {"name": "last_action", "shape": [n]},
        ]
    if actions is None:
        path = "isaaclab.envs.mdp.actions.joint_actions.JointPositionAction"
        q0 = fields.get("default_joint_pos", [0.0] * n)
        actions = [
            {"full_path": path, "joint_names": list(joints), "scale": 0.2, "offset": list(q0)}
        ]
    own = fields.pop("motion_nodes", None)
    return {
        "actions": actions,
        "articulations": {"robot": {"joint_names": list(joints), **fields}},
        "observations": {"policy": observations},
        "scene": {"physics_dt": 0.005, "decimation": 4, "dt": 0.02},
        **({"motion_nodes": own} if own else {}),
    }


def write_descriptor(folder, data, name="IO_descriptors.yaml"):
    """Write a description to a folder; return the file."""
    file = folder / name
    file.write_text(yaml_text(data), encoding="utf-8")
    return file
