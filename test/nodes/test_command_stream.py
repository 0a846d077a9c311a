# SPDX-License-Identifier: Apache-2.0
"""The command stream over DDS: every message a sample at its deadline, within the limits."""

from typing import Any

import numpy as np
import pytest
from joint_client import ARM, FRANKA, HOME, SUCCEEDED, JointClient, smooth
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.joint_topics import stamp_ns

pytestmark = pytest.mark.long

PERIOD_NS = 4_000_000
DEEP = QoSProfile(depth=5000, reliability=ReliabilityPolicy.RELIABLE)
LIMITS = FRANKA.limits
PLACES = [FRANKA.joint_names.index(name) for name in ARM]


@pytest.fixture(params=[True, False], ids=["simulated", "system"])
def arm(request, suite, client):
    """A Franka without physics, in simulated or in the system's time."""
    suite.node("mock_sim", robots=["franka"], publish_clock=request.param)
    suite.node("articulation_controller", robot="franka", use_sim_time=request.param)
    arm = JointClient(client)
    arm.wait_for()
    yield arm
    arm.close()


def assert_even(messages: list[Any]) -> None:
    """No message repeats or skips a sample, however late it was sent."""
    stamps = np.array([stamp_ns(m) for m in messages])
    q = np.array([m.position for m in messages])[:, PLACES]
    v = np.array([m.velocity for m in messages])[:, PLACES]
    apart = np.diff(stamps)
    assert apart.min() > 0
    # A stall too long to be caught up leaves a gap of whole periods.
    np.testing.assert_allclose(apart / PERIOD_NS, np.round(apart / PERIOD_NS), atol=1e-3)
    T = PERIOD_NS * 1e-9
    velocity, acceleration = LIMITS.velocity[PLACES], LIMITS.acceleration[PLACES]
    first, second = np.diff(q, axis=0) / T, np.diff(q, 2, axis=0) / T**2
    assert (np.abs(first) / velocity).max() <= 1.001
    assert (np.abs(second) / acceleration).max() <= 1.05
    # Each position advances by one period at the mean of both velocities.
    np.testing.assert_allclose(first, 0.5 * (v[1:] + v[:-1]), atol=0.3 * T * acceleration.max())


def test_plans_stops_and_streams_are_even(arm):
    client = arm.client
    heard = PolledSubscription(client.node, JointState, "/joint_command", DEEP)
    arm.commands.clear()
    client.wait(lambda: arm.commands, "the stream")
    heard.drop()
    moves = {name: HOME[name] + (0.5 if i % 2 else -0.5) for i, name in enumerate(ARM)}
    assert arm.follow(smooth(moves, 0.8)).result()[0] == SUCCEEDED
    back = {name: 2.0 * HOME[name] - q for name, q in moves.items()}
    call = arm.follow(smooth(back, 2.4))  # above 0.4 rad/s for 1.4 s
    assert call.accepted()
    arm.client.wait(lambda: arm.speed() > 0.4, "speed")
    call.cancel()
    call.result()
    publisher = arm.publisher(JointState, "reference")
    for k in range(12):
        # A client that sends at uneven times, and whose targets jump.
        position = [HOME[name] + 0.1 * (k % 3) for name in ARM]
        publisher.publish(JointState(name=list(ARM), position=position))
        client.spin(0.01 + 0.02 * (k % 4))
    client.wait(lambda: arm.away({n: HOME[n] + 0.2 for n in ARM}) < 0.02, "the last target")
    assert_even_pieces(heard.numbered(), 100)
    heard.destroy()


def assert_even_pieces(recorded: list[tuple[Any, int | None]], longest: int) -> None:
    """Check the messages of a stream, without those that the middleware lost."""
    # The middleware may lose messages under load: only consecutive ones are compared.
    numbers = np.array([number for _, number in recorded])
    pieces = np.split(np.arange(len(recorded)), np.flatnonzero(np.diff(numbers) != 1) + 1)
    assert max(map(len, pieces)) > longest
    for piece in pieces:
        if len(piece) > 2:
            assert_even([recorded[i][0] for i in piece])
