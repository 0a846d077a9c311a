# SPDX-License-Identifier: Apache-2.0
"""Descriptions of small policies for tests."""

from __future__ import annotations

from motion_nodes.model.files.yaml_file import yaml_text


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
