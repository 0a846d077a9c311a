# SPDX-License-Identifier: Apache-2.0
"""Topics of forward_command_controllers: their entries, and commands from their messages."""

from __future__ import annotations

import numpy as np
import pytest

from motion_nodes.core.control.joint_command import ControlMode
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.nodes.articulation.stream_inputs import ForwardTopic, forward_topics

JOINTS = ("a", "b", "c")
MODES = {"a": ControlMode.POSITION, "b": ControlMode.VELOCITY, "c": ControlMode.EFFORT}


def test_entries():
    made = forward_topics(("p=position:c,a", "v=velocity:b"), JOINTS)
    assert made == (
        ForwardTopic("p", ("position",), ("c", "a")),
        ForwardTopic("v", ("velocity",), ("b",)),
    )
    assert made[0].topic == "p/commands"


@pytest.mark.parametrize(
    "entry", ["p", "p=", "p=position", "p=position:", "=position:a", "p=speed:a", "p=position:a,a",
              "p=position:d", "p=position,effort:a", "p=position,velocity:a,b", "p=,:a"],
)  # fmt: skip
def test_invalid_entries_are_refused(entry):
    with pytest.raises(InvalidConfig) as caught:
        forward_topics((entry,), JOINTS)
    assert caught.value.field == "forward_commands"


@pytest.mark.parametrize(
    ("interface", "joint", "channel"),
    [("position", "a", "positions"), ("velocity", "b", "velocities"), ("effort", "c", "efforts")],
)
def test_values_are_of_the_interface(interface, joint, channel):
    topic = ForwardTopic("t", (interface,), (joint,))
    command = topic.command(np.array([0.5]), MODES)
    assert list(command.names) == [joint]
    for each in ("positions", "velocities", "efforts"):
        given = getattr(command, each)
        assert (given is not None) == (each == channel)
    np.testing.assert_array_equal(getattr(command, channel), [0.5])
    for other, mode in MODES.items():
        if mode.value != interface:
            with pytest.raises(InvalidCommand) as caught:
                ForwardTopic("t", (interface,), (other,)).command(np.array([0.5]), MODES)
            assert caught.value.field == other
    with pytest.raises(InvalidCommand):
        topic.command(np.array([0.5, 0.5]), MODES)
    for wrong in (np.nan, np.inf):
        with pytest.raises(InvalidCommand, match="not finite"):
            topic.command(np.array([wrong]), MODES)


def test_position_and_velocity_of_one_joint():
    (topic,) = forward_topics(("t=velocity,position:a",), JOINTS)
    command = topic.command(np.array([0.5, 0.25]), MODES)
    np.testing.assert_array_equal(command.velocities, [0.5])
    np.testing.assert_array_equal(command.positions, [0.25])
    assert command.efforts is None
    with pytest.raises(InvalidCommand, match="interfaces velocity, position of a"):
        topic.command(np.array([0.5]), MODES)
    with pytest.raises(InvalidCommand):
        ForwardTopic("t", ("position", "velocity"), ("b",)).command(np.zeros(2), MODES)
