# SPDX-License-Identifier: Apache-2.0
"""Simulated time and reference streams: delays, and late streams."""

import time

import pytest
from joint_client import ARM, FRANKA, HOME
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import RosClient
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.errors import MotionError
from motion_nodes.extras.sim.backend import RobotBackend
from motion_nodes.nodes.mock_sim import MockSimNode
from motion_nodes.nodes.simulation import STANDING_PERIOD, begun_at
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import set_stamp

T, COVERED, SPEED = 0.004, 0.028, 0.2  # [s], [s], [rad/s]
BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class Streamer:
    """Streams a motion at constant velocity, one reference per period of simulated time."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self._clock = client.listen(Clock, "/clock", BEST_EFFORT)
        self._publisher = client.publisher(JointState, "joint_command", qos.REFERENCES)
        client.wait(lambda: self._clock, "the clock")
        client.wait(self._publisher.get_subscription_count, "the simulation's subscription")
        self._first = self._next = self.ticks() + 1

    def time(self) -> float:
        stamp = self._clock.newest.clock
        return stamp.sec + 1e-9 * stamp.nanosec

    def ticks(self) -> int:
        return int(self.time() / T + 1e-6)

    def stream(self, seconds: float) -> float:
        """Stream for ``seconds`` of real time; return the last stamp [s]."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.client.spin(0.002)
            while self._next <= self.ticks():
                way = SPEED * T * (self._next - self._first)
                message = JointState(name=list(ARM), position=[HOME[n] + way for n in ARM])
                message.velocity = [SPEED] * len(ARM)
                set_stamp(message, round(1e9 * T * self._next))
                self._publisher.publish(message)
                self._next += 1
        return (self._next - 1) * T


@pytest.mark.long
def test_simulated_time_waits_for_late_references(suite, client):
    suite.node("mock_sim", robots=["franka"])
    streamer = Streamer(client)
    trials = judged = 0
    while trials < 8 or (not judged and trials < 40):
        trials += 1
        begin = time.monotonic()
        last = streamer.stream(0.3)
        client.spin(0.12)
        # Without a pause of this process, in the stream too.
        if time.monotonic() - begin < 0.5:
            assert streamer.time() <= last + COVERED + 1e-6
            judged += 1
    assert judged
    client.wait(lambda: streamer.time() > last + 0.1, "time without the stream")


def test_messages_are_rare_while_time_stands(suite, client):
    suite.node("mock_sim", robots=["franka"])
    clock = client.listen(Clock, "/clock", BEST_EFFORT)
    states = client.listen(JointState, "joint_states", BEST_EFFORT)
    client.wait(lambda: clock and states, "the simulation")
    assert client.call(SetBool, "/mock_sim/pause", SetBool.Request(data=True)).success
    client.spin(0.5)  # what was sent before
    clock.clear()
    states.clear()
    begin = time.monotonic()
    client.wait(lambda: len(clock) >= 10 and len(states) >= 10, "repeated messages")
    client.spin(1.0)
    most = (time.monotonic() - begin) / STANDING_PERIOD + 2
    assert len({message.clock.nanosec for message in clock.messages}) == 1
    assert len(clock) <= most
    assert len(states) <= most


@pytest.mark.parametrize(
    ("rate", "given", "expected"),
    [
        (50.0, "", 0.04),
        (250.0, "", 0.008),
        (1000.0, "", 0.008),
        (50.0, "0.1", 0.1),
        (50.0, "0.0", 0),
    ],
)
def test_it_is_two_periods_unless_given(ros, monkeypatch, rate, given, expected):
    used, apply = [], RobotBackend.set_resampling
    monkeypatch.setattr(
        RobotBackend,
        "set_resampling",
        lambda cell, settings: (used.append(settings), apply(cell, settings)),
    )
    words = [f"update_rate:={rate}", "robots:=[franka]", "publish_clock:=false"]
    words += [f"command_latency:={given}"] if given else []
    args = ["--ros-args"] + [arg for word in words for arg in ("-p", word)]
    node = MockSimNode(ros_args=args)
    try:
        node.trigger_configure()
        node.trigger_activate()
        assert node.active, node.failure
        assert used[-1].latency == pytest.approx(expected)
    finally:
        node.destroy_node()


@pytest.mark.parametrize("executable", ["mock_sim", "mujoco_sim"])
def test_a_simulation_starts_and_restarts_at_initial_positions(suite, client, executable):
    begin = {"panda_joint1": 0.5, "panda_joint4": -2.0}
    entries = [f"left/{joint}={value}" for joint, value in begin.items()]
    suite.node(executable, robots=["left:=franka", "right:=franka@2,0,0"],
               initial_positions=entries)  # fmt: skip
    names = ("left", "right")
    heard = {n: client.listen(JointState, f"/{n}/joint_states", BEST_EFFORT) for n in names}

    def positions(name: str) -> dict[str, float]:
        message = heard[name].newest
        return dict(zip(message.name, message.position, strict=True))

    home = dict(zip(FRANKA.joint_names, FRANKA.home.tolist(), strict=True))
    for _ in range(2):
        client.wait(lambda: all(heard.values()), "states")
        for name, expected in (("left", home | begin), ("right", home)):
            found = positions(name)
            for joint in begin:
                assert found[joint] == pytest.approx(expected[joint], abs=0.02)
        assert client.call(Trigger, f"/{executable}/reset").success
        for each in heard.values():
            each.clear()


@pytest.mark.parametrize("entry", ["elbow=1.0", "panda_joint1=9.0", "panda_joint1",
                                   "panda_joint1=x"])  # fmt: skip
def test_wrong_initial_positions_are_named(entry):
    with pytest.raises(MotionError, match="elbow" if "elbow" in entry else "JOINT=VALUE"):
        begun_at(FRANKA, "", [entry])
    assert begun_at(FRANKA, "other", [entry]).home.tolist() == FRANKA.home.tolist()
