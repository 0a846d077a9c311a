# SPDX-License-Identifier: Apache-2.0
"""``motion policy check``: planted mistakes are found; recordings are replayed."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from policies.descriptors import ENV_YAML, descriptor, write_descriptor
from policies.standing_policy import STANDING
from typer.testing import CliRunner

from motion_nodes.cli.app import app
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.policies.isaac_lab_files import breadth_first_joints
from motion_nodes.extras.policies.onnx_writer import Perceptron, write_mlp
from motion_nodes.extras.policies.policy_check import check_policy, replay_divergence
from motion_nodes.extras.policies.policy_files import load_policy

GO2 = load_robot("go2")


def policy_in(folder, *, dead=(), joints=None, extra=(), **fields):
    """Write a policy with a random network, some inputs of which have no effect."""
    joints = list(joints or GO2.joint_names)
    terms = [
        {"name": "base_ang_vel", "shape": [3]},
        {"name": "generated_commands", "shape": [3]},
        {"name": "joint_pos_rel", "shape": [12], "joint_names": joints},
        *extra,
    ]
    width = sum(term["shape"][0] for term in terms)
    weights = np.random.default_rng(0).normal(size=(12, width))
    weights[:, list(dead)] = 0.0
    fields.setdefault("default_joint_pos", STANDING)
    write_descriptor(folder, descriptor(joints, terms, **fields))
    write_mlp(folder / "policy.onnx", Perceptron([(weights, np.zeros(12))]))
    return folder


def topics(folder, level):
    runner = load_policy(folder, GO2)
    return [f"{f.topic}: {f.text}" for f in check_policy(runner, GO2) if f.level == level]


def test_a_fitting_policy_has_no_errors(tmp_path):
    gains = {"default_joint_stiffness": [300.0] * 12, "default_joint_damping": [8.0] * 12}
    folder = policy_in(tmp_path, **gains)
    assert not topics(folder, "error")
    assert not topics(folder, "warning")


def test_planted_mistakes_are_found(tmp_path):
    degrees = list(STANDING)
    degrees[1] = 45.8
    folder = policy_in(
        tmp_path, dead=[0, 1, 2, 4], joints=GO2.joint_names[::-1], default_joint_pos=degrees[::-1],
        extra=[{"name": "root_lin_vel_w", "shape": [3]}, {"name": "height_scan", "shape": [5]}],
    )  # fmt: skip
    assert any("FL_thigh_joint" in text and "degrees" in text for text in topics(folder, "error"))
    warnings = " ".join(topics(folder, "warning"))
    assert "base_ang_vel has no effect" in warnings
    assert "generated_commands: values [1] have no effect" in warnings
    assert "root_lin_vel_w" in warnings
    notes = " ".join(topics(folder, "note"))
    assert "matched by name" in notes
    assert "height_scan" in notes


def test_a_gain_of_the_command_is_noted(tmp_path):
    own = {"max_command": [1.0, 0.6, 1.0], "command_gain": [1.25, 2.0, 1.0]}
    (note,) = (n for n in topics(policy_in(tmp_path, motion_nodes=own), "note") if "command:" in n)
    assert "[1.25, 2.0, 1.0]" in note
    assert "[0.8, 0.3, 1.0]" in note


def test_the_order_of_joints_of_an_env_yaml_is_named_and_can_be_given(tmp_path):
    (tmp_path / "env.yaml").write_text(re.sub(r"(hip|thigh|calf)'", r"\1_joint'", ENV_YAML))
    write_mlp(tmp_path / "policy.onnx", Perceptron([(np.ones((12, 42)), np.zeros(12))]))
    for order in ((), tuple(reversed(GO2.joint_names))):
        command = ["policy", "check", str(tmp_path), "go2", "--json", "--joint-order"]
        done = CliRunner().invoke(app, [*command, ", ".join(order)])
        assert done.exit_code == 0, done.output
        first = json.loads(done.stdout)["findings"][0]
        expected = order or breadth_first_joints(GO2.tree)
        assert f"joints in the order {', '.join(expected)}, " in first["text"]


def test_recordings_replay_to_a_millionth_and_divergence_is_found(tmp_path):
    runner = load_policy(policy_in(tmp_path), GO2)
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(30, 18)).astype(np.float32)
    actions = np.array([runner.network(row) for row in observations])
    assert np.abs(replay_divergence(runner, observations, actions)).max() < 1e-6
    changed = actions.copy()
    changed[20, 3] += 0.01
    assert np.argmax(np.abs(replay_divergence(runner, observations, changed)).max(axis=1)) == 20
    for bad in ((observations[:, :-1], actions), (observations, actions[:-1])):
        with pytest.raises(InvalidCommand):
            replay_divergence(runner, *bad)
    np.savez(tmp_path / "walk.npz", observations=observations, actions=changed)
    command = ["policy", "check", str(tmp_path), "go2", "--json", "--replay",
               str(tmp_path / "walk.npz"), "--plot", str(tmp_path / "walk.svg")]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    result = json.loads(done.stdout)
    assert (result["diverges"], result["first step that differs"]) == (True, 20)
    assert len(ET.parse(tmp_path / "walk.svg").getroot()) > 0
