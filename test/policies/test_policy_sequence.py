# SPDX-License-Identifier: Apache-2.0
"""Modes around a policy: standing up, holding, running, damping; faults, falls, late networks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from policies.descriptors import descriptor, write_descriptor
from scipy.spatial.transform import Rotation

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.policies.isaac_lab_files import read_descriptor
from motion_nodes.extras.policies.network import NetworkFault, PdActuators
from motion_nodes.extras.policies.observations import PolicyInputs
from motion_nodes.extras.policies.policy_sequence import (
    PolicyMode,
    PolicySequence,
    SequenceSettings,
)
from motion_nodes.extras.policies.runner import CommandShaper, PolicyRunner

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
