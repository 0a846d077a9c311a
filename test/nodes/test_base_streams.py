# SPDX-License-Identifier: Apache-2.0
"""A base node over DDS against the streams of clients and the states of drivers, good and bad."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from control_msgs.msg import SteeringControllerStatus
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from ros_client import RosClient
from ros_processes import PATIENT, Suite
from sample_car import FRONT, REAR, STEERING, write_car
from scripted_wheels import ScriptedWheels

pytestmark = pytest.mark.long

BASE = "/diff_drive_controller"
WHEELS = ("left_wheel_joint", "right_wheel_joint")
USUAL = {"cmd_vel_timeout": 0.5} | PATIENT
WARN, ERROR = DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Jetbot(ScriptedWheels):
    """A JetBot's wheels, its node, and what the node publishes."""

    def __init__(self, suite: Suite, client: RosClient, **parameters: Any) -> None:
        self.process = suite.node("differential_base", robot="jetbot", **parameters)
        super().__init__(client, WHEELS)
        self.odom = client.listen(Odometry, f"{BASE}/odom")
        self.start = (0.0, 0.0)

    def ready(self) -> Jetbot:
        self.until_diagnosed(BASE, "no command yet")
        return self

    def sender(self, topic: str = f"{BASE}/cmd_vel") -> Callable[..., None]:
        """Return a function that sends a TwistStamped; ``ago`` is the age of its stamp [s]."""
        publisher = self.client.publisher(TwistStamped, topic)

        def send(vx: float, wz: float = 0.0, ago: float | None = None) -> None:
            message = TwistStamped()
            if ago is not None:
                now = self.client.node.get_clock().now().nanoseconds
                stamp = now - int(ago * 1e9)
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
            twist = message.twist
            twist.linear.x, twist.angular.z = vx, wz
            publisher.publish(message)

        return send

    def stands(self) -> bool:
        return not any(self.told)

    @property
    def place(self) -> tuple[float, float]:
        """Where odometry says it is [m]."""
        position = self.odom.newest.pose.pose.position
        return position.x, position.y

    @property
    def way(self) -> float:
        """How far odometry says it is from where it was [m]; 0 before it says anything."""
        return math.dist(self.place, self.start) if self.odom else 0.0


@pytest.fixture(scope="module")
def driven(module_suite, module_client):
    """A node that receives wheel states, shared by the tests with default parameters."""
    return Jetbot(module_suite, module_client).ready()


@pytest.fixture
def jetbot(driven):
    """The same at rest."""
    driven.without, driven.also = (), {}
    driven.commands.clear()
    driven.until(lambda: len(driven.commands) > 5 and driven.stands(), "the base to stand")
    driven.until_diagnosed(BASE, "no command")
    for heard in (driven.commands, driven.odom):
        heard.clear()
    driven.until(lambda: driven.commands and driven.odom, "commands and odometry")
    driven.start = driven.place
    return driven


@contextmanager
def patient(jetbot: Jetbot) -> Iterator[None]:
    """Streams and wheel states that pause for less than 5 s, as this process may, stop nothing."""
    timeouts = ("cmd_vel_timeout", "state_timeout")
    assert jetbot.client.set_parameters(BASE, **dict.fromkeys(timeouts, 5.0)).successful
    try:
        yield
    finally:
        assert jetbot.client.set_parameters(BASE, **USUAL).successful


# ---- nodes with parameters of their own; first, because node names are unique


def test_wheels_that_contradict_each_other(suite, client, tmp_path):
    """A car with four driven wheels, one of which spins."""
    suite.node("ackermann_base", robot=str(write_car(tmp_path / "car")))
    car, node = ScriptedWheels(client, FRONT + REAR + STEERING), "/ackermann_steering_controller"
    states = client.listen(SteeringControllerStatus, f"{node}/controller_state")
    car.until_diagnosed(node, "no command yet")
    assert "contradict" not in client.diagnostics(node).message
    car.slip = {FRONT[0]: 20.0}
    status = car.until_diagnosed(node, "wheel slip", level=WARN)
    assert f"({FRONT[0]})" in status.message
    # The report may arrive earlier than the states before it.
    car.until(
        lambda: states and states.newest.traction_wheels_velocity[0] > 1.0, "the slipping wheel"
    )
    state = states.newest
    assert state.traction_wheels_velocity[0] == pytest.approx(20.0, abs=1e-6)
    assert tuple(state.traction_wheels_position[1:]) == (0.0, 0.0, 0.0)
    assert (len(state.steer_positions), len(state.steering_angle_command)) == (2, 2)
    assert tuple(state.linear_velocity_command) == (0.0,) * 4
    assert client.set_parameters(node, slip_threshold=0.0).successful
    car.until(lambda: "contradict" not in client.diagnostics(node).message, "silence")


def test_a_base_is_driven_under_another_name_too(suite, client):
    jetbot = Jetbot(suite, client, aliases=["platform"], cmd_vel_timeout=5.0).ready()
    other = client.listen(Odometry, "/platform/odom")
    send = jetbot.sender("/platform/cmd_vel")
    jetbot.start = 0.0, 0.0

    def drives() -> bool:
        send(0.2)
        return bool(other) and jetbot.way > 0.05

    jetbot.until(drives, "the base to drive")
    assert other.newest.header.frame_id == jetbot.odom.newest.header.frame_id
    assert other.newest.twist.twist.linear.x > 0.05


EXECUTABLES = {"jetbot": "differential_base", "kaya": "holonomic_base",
               "leatherback": "ackermann_base"}  # fmt: skip
ONLY_OWN = {"transition_event", "ackermann_cmd"}
"""Topics that no controller of ros2_controllers has."""


@pytest.mark.parametrize(("robot", "name"), [
    ("jetbot", ""), ("kaya", ""), ("leatherback", ""), ("leatherback", "tricycle_controller"),
])  # fmt: skip
def test_every_topic_of_a_base_is_there_under_another_name(suite, client, robot, name):
    named = {"name": name} if name else {}
    suite.node(EXECUTABLES[robot], robot=robot, aliases=["platform"], **named)

    def below(node: str, listed: Any) -> dict[str, list[str]]:
        start = f"/{node}/"
        return {n.removeprefix(start): k for n, k in listed if n.startswith(start)}

    def node() -> str:
        topics = client.node.get_topic_names_and_types()
        own = {topic.split("/")[1] for topic, _ in topics if topic.endswith("/transition_event")}
        return next(iter(own), "")

    own = client.wait(node, "the node")
    assert not name or own == name
    client.wait(lambda: client.state(f"/{own}") == "active", "an active node")
    topics = client.node.get_topic_names_and_types()
    expected = below(own, topics)
    assert {"odom", "cmd_vel", "cmd_vel_out"} <= expected.keys()
    for each in ONLY_OWN:
        expected.pop(each, None)
    assert below("platform", topics) == expected
    services = below("platform", client.node.get_service_names_and_types())
    assert services.keys() == {"set_odometry"} | ({"reset_odometry"} if name else set())


# ---- one node for all


def test_two_senders_fight(jetbot):
    """Both on one topic; the newer stamps drive, and the conflict is reported."""
    one, other = jetbot.sender(), jetbot.sender()

    def both() -> None:
        one(0.2, ago=0.0)
        other(-0.2, ago=0.1)

    turns = iter(range(10**9))

    def by_turns() -> None:
        (one if next(turns) % 2 else other)(0.2, ago=0.0)

    with patient(jetbot):
        jetbot.until(lambda: jetbot.way > 0.02, "motion", both)
        jetbot.commands.clear()
        jetbot.keep_on(0.5, both)
        assert all(min(message.velocity) > 0.0 for message in jetbot.commands.messages)
    status = jetbot.until_diagnosed(BASE, "conflicting publishers", by_turns, level=WARN)
    assert f"{BASE}/cmd_vel" in status.message
    jetbot.until_diagnosed(BASE, "no command for")
    jetbot.until_diagnosed(BASE, "driving", lambda: one(0.1))
    jetbot.until(
        lambda: "conflicting publishers" not in jetbot.client.diagnostics(BASE).message,
        "peace",
        lambda: one(0.1),
    )


def test_a_wheel_lost_under_way(jetbot):
    send = jetbot.sender()
    assert jetbot.client.set_parameters(BASE, state_timeout=1.0).successful
    jetbot.until(lambda: jetbot.way > 0.02, "motion", lambda: send(0.2))
    jetbot.without = (WHEELS[0],)
    jetbot.until_diagnosed(BASE, f"of {WHEELS[0]}; wheels stopped", lambda: send(0.2), level=ERROR)
    jetbot.until(jetbot.stands, "the stop", lambda: send(0.2))
    jetbot.without = ()
    jetbot.until(lambda: any(jetbot.told), "motion again", lambda: send(0.2))
    assert jetbot.client.set_parameters(BASE, **USUAL).successful
