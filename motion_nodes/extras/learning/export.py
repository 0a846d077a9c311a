# SPDX-License-Identifier: Apache-2.0
"""Export of trained policies: ONNX, with a description as Isaac Lab writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.robot.yaml_schema import yaml_text
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.learning.networks import CLIP, Floats, Policy
from motion_nodes.extras.learning.tasks.robot_cell import (
    ACTION_CLIP,
    OPEN,
    TIME_STEP,
    MujocoTask,
    RobotCell,
)
from motion_nodes.extras.policies.network import PolicyNetwork, check_widths, load_network
from motion_nodes.extras.policies.onnx_writer import Perceptron, write_mlp

DESCRIPTOR = "IO_descriptors.yaml"
"""Name of the description next to the network."""
_TASK = "task"
"""Entry of the file's metadata."""
_ACTIONS = "isaaclab.envs.mdp.actions"


def export_policy(policy: Policy, task: RobotCell, file: Path) -> Path:
    """Write the deterministic policy as ONNX, and its description next to it.

    Args:
        policy: the policy.
        task: the task it was trained for.
        file: output, ending in ``.onnx``.

    Returns:
        The description.

    Raises:
        InvalidConfig: the files cannot be written, or the policy is of other sizes.
    """
    net = policy.net
    sizes = (task.observation_size, task.action_size)
    if (net.observation_size, net.action_size) != sizes:
        raise InvalidConfig(
            f"the policy has {net.observation_size} observations and {net.action_size} actions; "
            f"task '{task.name}' has {sizes[0]} and {sizes[1]}."
        )
    exported = net.exported(policy.flat)
    description = file.with_name(DESCRIPTOR)
    try:
        mlp = Perceptron(
            [(W.T, b) for W, b in exported.layers],
            activation=net.activation,
            output_activation=exported.output_activation,
            output_scale=exported.output_scale,
            mean=policy.norm.mean,
            std=policy.norm.scale,
            input_clip=CLIP,
        )
        write_mlp(file, mlp, metadata={_TASK: task.name})
        description.write_text(
            yaml_text(describe(task), f"Policy of the task '{task.name}'; see docs/learning.md."),
            encoding="utf-8",
        )
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be written: {error.strerror}.") from None
    return description


def describe(task: RobotCell) -> dict[str, Any]:
    """Return the inputs and outputs of a task's policy, in the fields of IO_descriptors.yaml."""
    n = task.moved
    names, moved = list(task.joint_names), list(task.joint_names[:n])
    kind = "RelativeJointPositionAction" if task.relative else "JointPositionAction"
    actions: list[dict[str, Any]] = [
        {
            "full_path": f"{_ACTIONS}.joint_actions.{kind}",
            "joint_names": moved,
            "scale": task.scale.tolist(),
            "offset": [0.0] * n if task.relative else task.default[:n].tolist(),
            "clip": np.stack((task.lower, task.upper), axis=1)[:n].tolist(),
        }
    ]
    if task.action_size > n:
        fingers = names[n:]
        actions.append(
            {
                "full_path": f"{_ACTIONS}.binary_joint_actions.BinaryJointPositionAction",
                "joint_names": fingers,
                "open_command_expr": dict.fromkeys(fingers, OPEN),
                "close_command_expr": dict.fromkeys(fingers, 0.0),
            }
        )
    return {
        "actions": actions,
        "articulations": {
            "robot": {
                "joint_names": names,
                "default_joint_pos": task.default.tolist(),
                "default_joint_stiffness": task.stiffness.tolist(),
                "default_joint_damping": task.damping.tolist(),
            }
        },
        "observations": {"policy": [_term(task, term) for term in task.observation_terms]},
        "scene": {"physics_dt": TIME_STEP, "decimation": task.substeps},
        **task.about_policy,
    }


def _term(task: RobotCell, term: Any) -> dict[str, Any]:
    """Return a part of the observation in the fields of IO_descriptors.yaml."""
    entry: dict[str, Any] = {"name": term.name, "shape": [term.size]}
    if term.name.startswith("joint_"):
        entry["joint_names"] = list(task.joint_names[: term.size])
    if term.name == "joint_pos_rel":
        entry["joint_pos_offsets"] = task.default[: term.size].tolist()
    if term.name == "last_action":
        entry["overloads"] = {"clip": [-ACTION_CLIP, ACTION_CLIP]}
    return {**entry, "extras": {"meaning": term.meaning}}


@dataclass(frozen=True)
class ExportedPolicy:
    """A policy of an ONNX file, run by ONNX Runtime, for many observations at once."""

    network: PolicyNetwork

    def __call__(self, observations: Floats) -> Floats:
        """Return actions, shape (m, action_size), of observations (m, observation_size)."""
        return np.array([self.network(row) for row in observations])


def load_exported(file: Path, task: MujocoTask) -> ExportedPolicy:
    """Return the policy of a file of :func:`export_policy`.

    Args:
        file: an ONNX file.
        task: the task it is used for.

    Raises:
        InvalidConfig: it is of another task.
        InvalidDescription: no such file, no ONNX model, or of other sizes.
    """
    network = load_network(file)
    found = network.metadata.get(_TASK)
    if found is not None and found != task.name:
        raise InvalidConfig(f"{file} is a policy of task '{found}', not of '{task.name}'.")
    check_widths(network, task.observation_size, task.action_size, str(file))
    return ExportedPolicy(network)
