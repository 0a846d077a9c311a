# SPDX-License-Identifier: Apache-2.0
"""Modes around a policy: standing up, running, damping; faults, commands, checks."""

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from policies.descriptors import ENV_YAML, descriptor, write_descriptor
from policies.standing_policy import STANDING
from scipy.spatial.transform import Rotation
from std_msgs.msg import Float64MultiArray
from typer.testing import CliRunner

from motion_nodes.cli.app import app
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.policies.isaac_lab_files import breadth_first_joints, read_descriptor
from motion_nodes.extras.policies.network import NetworkFault, PdActuators
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.onnx_writer import Perceptron, write_mlp
from motion_nodes.extras.policies.policy_check import check_policy, replay_divergence
from motion_nodes.extras.policies.policy_files import load_policy
from motion_nodes.extras.policies.policy_sequence import (
    PolicyMode,
    PolicySequence,
    SequenceSettings,
)
from motion_nodes.extras.policies.runner import CommandShaper, PolicyRunner
from motion_nodes.nodes.policy_controller import PolicyCommands

JOINTS = ["hip", "knee"]
Q0 = np.array([0.2, -0.6])
DT = 0.01


class Scripted:
    """A network that returns what the test sets."""

    def __init__(self):
        self.action = np.zeros(2)
        self.calls = 0
        self.metadata = {}

    def __call__(self, observation):
        self.calls += 1
        if isinstance(self.action, Exception):
            raise self.action
        return self.action.copy()

    def reset(self):
        self.resets = getattr(self, "resets", 0) + 1


@pytest.fixture
def network():
    return Scripted()


@pytest.fixture
def sequence(network, tmp_path):
    terms = [{"name": "joint_pos_rel", "shape": [2], "joint_names": JOINTS}]
    data = descriptor(JOINTS, terms, default_joint_pos=Q0.tolist())
    runner = PolicyRunner(read_descriptor(write_descriptor(tmp_path, data)), network, JOINTS)
    network.calls = 0
    sitting = np.array([0.9, -0.9])
    return PolicySequence(runner, DT, (np.full(2, -1.0), np.full(2, 1.0)), sitting=sitting)


def inputs(position=(0.0, 0.0), tilt=0.0):
    """Return measurements at rest."""
    R = Rotation.from_euler("x", tilt).as_matrix()
    return PolicyInputs(np.array(position), np.zeros(2), R_WB=R)


def advance(sequence, seconds, state=None, *, moving=False, **options):
    """Step for a time; return the last reference."""
    reference = None
    for _ in range(round(seconds / DT)):
        reference = sequence.step(state or inputs(), moving=moving, **options)
    return reference


def standing(sequence):
    sequence.stand_up(inputs())
    advance(sequence, 2.1)
    assert sequence.mode is PolicyMode.HOLDING


def test_it_starts_damped_and_commands_no_position(sequence):
    reference = advance(sequence, 0.1, moving=True)
    assert sequence.mode is PolicyMode.DAMPED
    assert np.isnan(reference.targets.position).all()
    np.testing.assert_array_equal(reference.targets.velocity, 0.0)


def test_standing_up_folds_first_and_ends_at_the_defaults(sequence):
    sequence.stand_up(inputs())
    path = []
    for _ in range(210):
        path.append(sequence.step(inputs(), moving=False).targets.position)
    path = np.array(path)
    # Through the sitting posture, without a jump.
    assert np.abs(path - [0.9, -0.9]).max(axis=1).min() < 1e-3
    np.testing.assert_allclose(path[-1], Q0, atol=1e-9)
    assert np.abs(np.diff(path, axis=0)).max() < 0.02
    assert sequence.mode is PolicyMode.HOLDING


def test_policy_runs_at_its_period_while_commanded_and_then_holds(sequence, network):
    standing(sequence)
    network.action = np.array([1.0, 2.0])
    reference = advance(sequence, 0.4, moving=True)
    assert sequence.mode is PolicyMode.RUNNING
    assert network.calls == 20  # The policy's period is 0.02 s.
    assert (reference.trained_stiffness, reference.trained_damping) == (1.0, 1.0)
    np.testing.assert_allclose(reference.targets.position, Q0 + 0.2 * network.action)
    # A velocity would be fed forward at each step of the target.
    assert np.isnan(reference.targets.velocity).all()
    advance(sequence, 0.9)
    assert sequence.mode is PolicyMode.RUNNING
    reference = advance(sequence, 0.6)
    assert sequence.mode is PolicyMode.HOLDING
    assert (reference.trained_stiffness, reference.trained_damping) == (0.0, 0.0)
    np.testing.assert_allclose(reference.targets.position, Q0, atol=1e-9)


def test_targets_stay_within_the_position_limits(sequence, network):
    standing(sequence)
    network.action = np.array([1e6, -1e6])
    reference = advance(sequence, 0.1, moving=True)
    np.testing.assert_array_equal(reference.targets.position, [1.0, -1.0])


@pytest.mark.parametrize("action", [np.array([np.nan, 0.0]), NetworkFault("broken")])
def test_faulty_networks_hold_and_then_damp(sequence, network, action):
    standing(sequence)
    network.action = np.ones(2)
    held = advance(sequence, 0.1, moving=True).targets.position
    network.action = action
    reference = advance(sequence, 0.1, moving=True)
    assert sequence.mode is PolicyMode.RUNNING
    assert sequence.reason
    np.testing.assert_array_equal(reference.targets.position, held)
    reference = advance(sequence, 0.2, moving=True)
    assert sequence.mode is PolicyMode.DAMPED
    assert np.isnan(reference.targets.position).all()
    network.action = np.ones(2)
    advance(sequence, 1.0, moving=True)
    assert sequence.mode is PolicyMode.DAMPED  # Until the next request to stand up.
    standing(sequence)


def test_a_short_fault_of_the_inputs_is_bridged(sequence, network):
    standing(sequence)
    advance(sequence, 0.1, moving=True)
    advance(sequence, 0.1, moving=True, fault="no IMU")
    assert sequence.reason == "no IMU"
    advance(sequence, 0.1, moving=True)
    assert (sequence.mode, sequence.reason) == (PolicyMode.RUNNING, "")
    advance(sequence, 0.3, moving=True, fault="no IMU")
    assert (sequence.mode, sequence.reason) == (PolicyMode.DAMPED, "no IMU")


def test_a_fault_that_ended_is_no_longer_reported(sequence):
    sequence.stand_up(inputs())
    advance(sequence, 0.5)
    advance(sequence, 0.1, fault="no IMU")
    assert sequence.reason == "no IMU"
    advance(sequence, 2.5)
    assert (sequence.mode, sequence.reason) == (PolicyMode.HOLDING, "")


def test_a_fall_damps_at_once_and_must_be_righted_before_standing_up(sequence):
    standing(sequence)
    advance(sequence, 0.1, moving=True)
    sequence.step(inputs(tilt=1.2), moving=True)
    assert sequence.mode is PolicyMode.DAMPED
    with pytest.raises(InvalidCommand):
        sequence.stand_up(inputs(tilt=1.2))
    sequence.stand_up(inputs(tilt=0.5))


@pytest.mark.parametrize("idle_time", [0.0, 0.5])
def test_a_stop_ends_motions_and_leads_the_policy_to_holding(sequence, idle_time):
    sequence.settings = SequenceSettings(idle_time=idle_time)
    sequence.stand_up(inputs())
    before = advance(sequence, 0.5).targets.position
    sequence.stop()
    np.testing.assert_array_equal(advance(sequence, 1.0).targets.position, before)
    assert sequence.mode is PolicyMode.STOPPED
    with pytest.raises(InvalidCommand):
        sequence.run()
    standing(sequence)
    advance(sequence, 1.0, moving=True)
    sequence.stop()
    assert not sequence.at_rest
    advance(sequence, 1.6)
    assert sequence.mode is PolicyMode.HOLDING
    assert sequence.at_rest


def test_a_command_that_decays_at_a_stop_does_not_end_it(sequence):
    sequence.settings = SequenceSettings(idle_time=0.0)
    standing(sequence)
    advance(sequence, 0.5, moving=True)
    sequence.stop()
    advance(sequence, 0.5, moving=True)
    advance(sequence, 1.5)
    assert sequence.mode is PolicyMode.HOLDING


def test_a_robot_that_balances_by_its_policy_keeps_it(sequence):
    runner = sequence._runner
    runner.spec = dataclasses.replace(runner.spec, balances=True)
    sequence.stand_up(inputs())
    advance(sequence, 1.9)
    assert sequence.mode is PolicyMode.STANDING_UP
    advance(sequence, 0.2)
    assert sequence.mode is PolicyMode.RUNNING
    advance(sequence, 0.5, moving=True)
    assert not sequence.at_rest
    sequence.stop()
    advance(sequence, 3.0)
    assert sequence.mode is PolicyMode.RUNNING
    assert sequence.at_rest


def test_a_robot_that_stands_already_is_balanced_at_once(sequence):
    runner = sequence._runner
    runner.spec = dataclasses.replace(runner.spec, balances=True)
    sequence.stand_up(inputs(Q0 + 0.05))
    advance(sequence, 0.45, inputs(Q0 + 0.05))
    assert sequence.mode is PolicyMode.RUNNING


def test_a_network_that_is_not_ready_keeps_its_targets(sequence, network):
    standing(sequence)
    network.action = np.ones(2)
    advance(sequence, 0.02, moving=True)
    calls = network.calls
    reference = advance(sequence, 0.1, moving=True, evaluate=False)
    assert network.calls == calls
    np.testing.assert_allclose(reference.targets.position, Q0 + 0.2)
    advance(sequence, 0.02, moving=True)
    assert network.calls == calls + 1


def test_gains_become_stiffer_gradually_and_never_in_damping(sequence):
    standing(sequence)
    advance(sequence, 1.2, moving=True)
    advance(sequence, 0.99)
    shares = [sequence.step(inputs(), moving=False).trained_stiffness for _ in range(50)]
    assert shares[-1] == 0.0
    assert np.abs(np.diff([1.0, *shares])).max() < 0.03
    advance(sequence, 0.1, moving=True)
    reference = sequence.step(inputs(tilt=1.5), moving=True)
    assert (reference.trained_stiffness, reference.trained_damping) == (1.0, 0.0)


def test_requests_in_the_wrong_mode_are_refused(sequence):
    with pytest.raises(InvalidCommand):
        sequence.run()
    with pytest.raises(InvalidCommand):
        sequence.sit_down(inputs())
    with pytest.raises(InvalidCommand):
        sequence.stand_up(inputs((np.nan, 0.0)))
    standing(sequence)
    sequence.sit_down(inputs())
    advance(sequence, 2.1)
    assert sequence.mode is PolicyMode.DAMPED


def test_efforts_of_pd_actuators_at_each_step(sequence, network):
    sequence._actuators = PdActuators(np.full(2, 20.0), np.full(2, 0.5), np.full(2, 5.0))
    standing(sequence)
    network.action = np.array([0.5, -5.0])
    state = inputs((0.2, -0.6))
    state.velocity = np.array([1.0, 0.0])
    targets = advance(sequence, 0.05, state, moving=True).targets
    assert np.isnan(targets.position).all()
    # 20 (0.2 + 0.1 - 0.2) - 0.5; the second target is limited to -1, its effort to -5.
    np.testing.assert_allclose(targets.effort, [1.5, -5.0], atol=1e-9)


def test_periods_must_divide_that_of_the_policy(sequence):
    with pytest.raises(InvalidConfig):
        PolicySequence(sequence._runner, 0.03, (np.zeros(2), np.ones(2)))
    with pytest.raises(InvalidConfig):
        PolicySequence(sequence._runner, 0.015, (np.zeros(2), np.ones(2)))
    with pytest.raises(InvalidConfig):
        SequenceSettings(max_tilt=float("nan"))


def test_commands_are_limited_in_range_and_rate():
    shaper = CommandShaper([1.0, 0.5, 1.5], [2.0, 2.0, 4.0])
    shaper.set_target([5.0, -0.2, 0.0])
    np.testing.assert_allclose(shaper.step(0.1), [0.2, -0.2, 0.0])
    for _ in range(20):
        shaper.step(0.1)
    np.testing.assert_allclose(shaper.value, [1.0, -0.2, 0.0])
    for bad in ([np.nan, 0, 0], [0, 0], [np.inf, 0, 0], 3.0):
        with pytest.raises(InvalidCommand):
            shaper.set_target(bad)
    assert shaper.moving
    shaper.set_limits([0.5, 0.5, 1.5], [1.0, 2.0, 4.0])
    np.testing.assert_allclose(shaper.step(0.1), [0.9, -0.2, 0.0])
    with pytest.raises(InvalidConfig):
        shaper.set_limits([0.5, -0.5, 1.5], [1.0, 2.0, 4.0])
    np.testing.assert_allclose(shaper.step(1.0), [0.5, -0.2, 0.0])
    shaper.reset()
    assert not shaper.moving
    with pytest.raises(InvalidConfig):
        CommandShaper([1.0], [1.0, 2.0])
    with pytest.raises(InvalidConfig):
        CommandShaper([0.0], [1.0])


def test_every_mode_is_reported_also_one_of_no_duration(sequence):
    """A late cycle takes several steps, and two requests may be served before one."""
    sequence.stand_up(inputs())
    sequence.damp("requested")
    sequence.stand_up(inputs())
    advance(sequence, 2.5, moving=True)
    assert sequence.take_entered() == [
        (PolicyMode.STANDING_UP, ""),
        (PolicyMode.DAMPED, "requested"),
        (PolicyMode.STANDING_UP, ""),
        (PolicyMode.HOLDING, ""),
        (PolicyMode.RUNNING, ""),
    ]
    assert sequence.take_entered() == []


TIMEOUT = 0.5


class Arrays:
    """A polled topic with at most one message."""

    topic = "~/command"

    def __init__(self) -> None:
        self.message: Any = None
        self.sent = self.polled = 0.0

    def send(self, values: list[float], now: float) -> None:
        self.message = Float64MultiArray(data=values)
        self.sent = self.polled = now

    def newest(self) -> Any:
        message, self.message = self.message, None
        return message


def made(*, balances: bool) -> tuple[PolicyCommands, Arrays]:
    """Return the commands of a policy with four values, and their topic."""
    topic = Arrays()
    params = SimpleNamespace(
        cmd_vel_timeout=TIMEOUT, max_command=(1.0, 1.0, 1.0), max_command_rate=(1.0, 1.0, 1.0)
    )
    node: Any = SimpleNamespace(
        params=params, poll=lambda *_: topic, warn=lambda *_: None,
    )  # fmt: skip
    runner: Any = SimpleNamespace(spec=SimpleNamespace(command_width=4, balances=balances))
    return PolicyCommands(node, runner), topic


@pytest.mark.parametrize("balances", [False, True])
def test_an_array_that_is_not_renewed_ends_the_run(balances):
    commands, topic = made(balances=balances)
    assert "cmd_vel_timeout" in commands.missing(0.0)
    topic.send([0.1, 0.2, 0.3, 0.4], 1.0)
    commands.take(1.0, "")
    commands.run_requested = True
    commands.take(1.0 + 0.9 * TIMEOUT, "")
    assert commands.moving
    assert commands.missing(1.0 + 0.9 * TIMEOUT) == ""
    commands.take(1.0 + 1.1 * TIMEOUT, "")
    assert not commands.moving
    assert commands.missing(1.0 + 1.1 * TIMEOUT)
    # A robot that the policy balances gets a command of zero; else zeros may be another place.
    last = [0.0] * 4 if balances else [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_array_equal(commands.step(0.01), last)


def test_arrays_from_before_a_stop_are_refused_until_they_pause():
    commands, topic = made(balances=True)
    now = 1.0
    topic.send([1.0] * 4, now)
    commands.take(now, "")
    commands.suspend()
    np.testing.assert_array_equal(commands.step(0.01), 0.0)
    for _ in range(20):
        now += 0.1
        topic.send([1.0] * 4, now)
        commands.take(now, "")
        np.testing.assert_array_equal(commands.step(0.01), 0.0)
    now += 1.0
    topic.send([1.0] * 4, now)
    commands.take(now, "")
    np.testing.assert_array_equal(commands.step(0.01), 1.0)


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
