# SPDX-License-Identifier: Apache-2.0
"""Files of a policy that keeps the Go2 standing: zero actions from the usual observations."""

from pathlib import Path

import numpy as np
from policies.descriptors import descriptor, write_descriptor

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.policies.onnx_writer import Perceptron, write_mlp

STANDING = [0.0, 0.8, -1.5] * 4


def write_standing_policy(folder: Path, *, command_gain: float = 0.0) -> Path:
    """Write a policy; return its folder.

    Args:
        folder: to write to.
        command_gain: gain from vx to every action.
    """
    joints = list(load_robot("go2").joint_names)
    terms = [
        {"name": "base_ang_vel", "shape": [3]},
        {"name": "projected_gravity", "shape": [3]},
        {"name": "generated_commands", "shape": [3]},
        {"name": "joint_pos_rel", "shape": [12], "joint_names": joints},
        {"name": "joint_vel_rel", "shape": [12], "joint_names": joints},
        {"name": "last_action", "shape": [12]},
    ]
    data = descriptor(
        joints, terms, default_joint_pos=STANDING, default_joint_stiffness=[100.0] * 12,
        default_joint_damping=[3.0] * 12, motion_nodes={"max_command": [1.0, 0.5, 1.5]},
    )  # fmt: skip
    weights = np.zeros((12, 45))
    weights[:, 6] = command_gain
    write_descriptor(folder, data)
    write_mlp(folder / "policy.onnx", Perceptron([(weights, np.zeros(12))]))
    return folder
