# SPDX-License-Identifier: Apache-2.0
"""Cycles of controllers and simulations at rest: outputs are repeated until something changes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from control_msgs.msg import JointTrajectoryControllerState
from joint_client import ARM, CONTROLLER, EVERY, HOME, SUCCEEDED, JointClient, smooth
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from motion_nodes.kernels.cycle_code import compile_apart
from motion_nodes.nodes.articulation.joint_outputs import REST_TIME, RestCycles
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.repeated_cycles import control_cycle, simulation_cycle
from motion_nodes.ros.joint_topics import stamp_ns

PERIOD = 0.004
PERIOD_NS = 4_000_000
DEEP = QoSProfile(depth=5000, reliability=ReliabilityPolicy.RELIABLE)


class Outputs:
    """The last command."""

    def __init__(self) -> None:
        self.last: object = object()

    def sent_last(self, reference: object) -> bool:
        return reference is self.last


class Arm:
    """A controller at rest."""

    def __init__(self) -> None:
        self.outputs = Outputs()
        self.state = SimpleNamespace(unchanged=True)
        self.runner = SimpleNamespace(
            controller=SimpleNamespace(still=self.outputs.last),
            runs=[], claims=[], fault="", compliance=SimpleNamespace(law=None),
        )  # fmt: skip
        self.cycles = RestCycles(self.state, self.runner, self.outputs, PERIOD)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Rest until the next cycle repeats."""
        for _ in range(2 * round(REST_TIME / PERIOD)):
            if self.cycles.begin():
                return
        raise AssertionError("no cycle was repeated")


@pytest.fixture
def arm():
    return Arm()


def test_commands_are_repeated_after_the_rest_time(arm):
    cycles = [arm.cycles.begin() for _ in range(1000)]
    settled = round(REST_TIME / PERIOD)
    assert not any(cycles[:settled])
    assert all(cycles[settled:])


def moves(arm: Arm) -> None:
    arm.state.unchanged = False


def is_commanded(arm: Arm) -> None:
    arm.runner.controller.still = None


def has_other_settings(arm: Arm) -> None:
    arm.outputs.last = None


def follows_a_trajectory(arm: Arm) -> None:
    arm.runner.runs = [object()]


def grips(arm: Arm) -> None:
    arm.runner.claims = [object()]


def is_blocked(arm: Arm) -> None:
    arm.runner.fault = "blocked"


def complies(arm: Arm) -> None:
    arm.runner.compliance.law = object()


@pytest.mark.parametrize(
    "change",
    [
        moves,
        is_commanded,
        has_other_settings,
        follows_a_trajectory,
        grips,
        is_blocked,
        complies,
    ],
)
def test_any_change_makes_the_next_cycles_complete(arm, change):
    arm.settle()
    change(arm)
    assert not any(arm.cycles.begin() for _ in range(1000))


def test_one_change_makes_the_cycles_of_the_rest_time_complete(arm):
    arm.settle()
    arm.state.unchanged = False
    assert not arm.cycles.begin()
    arm.state.unchanged = True
    assert not any(arm.cycles.begin() for _ in range(round(REST_TIME / PERIOD)))
    arm.settle()


@pytest.fixture(params=["mock_sim", "mujoco_sim", "system"])
def resting(request, suite, client):
    """An arm at rest, with and without physics, in simulated or in the system's time."""
    compile_apart([each for each in (control_cycle, simulation_cycle) if not each.load()])
    simulated = request.param != "system"
    simulator = request.param if simulated else "mock_sim"
    suite.node(simulator, robots=["franka"], publish_clock=simulated)
    suite.node("articulation_controller", robot="franka", use_sim_time=simulated)
    arm = JointClient(client)
    arm.wait_for()
    client.spin(4.0 * REST_TIME)
    arm.simulator = f"/{simulator}"
    arm.simulated = simulated
    yield arm
    arm.close()


def listen(arm: JointClient, kind: Any, topic: str) -> PolledSubscription[Any]:
    profile = EVERY if kind is Clock else DEEP
    heard = PolledSubscription(arm.client.node, kind, topic, profile)
    arm.client.wait(lambda: heard.all(), topic)
    return heard


def stamps_of(messages: list[Any]) -> np.ndarray:
    return np.array([stamp_ns(m) if hasattr(m, "header") else
                     m.clock.sec * 10**9 + m.clock.nanosec for m in messages])  # fmt: skip


@pytest.mark.long
def test_streams_at_rest_are_complete(resting):
    report = f"{CONTROLLER}/controller_state"
    commands = listen(resting, JointState, "/joint_command")
    states = listen(resting, JointState, "/joint_states")
    reports = listen(resting, JointTrajectoryControllerState, report)
    clock = listen(resting, Clock, "/clock") if resting.simulated else None
    heard: list[Any] = []
    enough = 500
    resting.client.wait(
        lambda: heard.extend(commands.numbered()) or len(heard) > enough, "commands"
    )
    numbers, messages = np.array([number for _, number in heard]), [m for m, _ in heard]
    # The middleware may lose messages under load: only consecutive ones are compared. A stall too
    # long to be caught up leaves a gap of whole periods.
    apart = np.diff(stamps_of(messages))[np.diff(numbers) == 1] / PERIOD_NS
    np.testing.assert_allclose(apart, np.round(apart), atol=1e-3)
    assert apart.min() >= 1.0
    assert np.median(apart) == 1.0
    assert {m.position.tobytes() for m in messages} == {messages[0].position.tobytes()}
    found = states.all()
    assert {m.position.tobytes() for m in found} == {found[0].position.tobytes()}
    # Stamps repeat while simulated time waits for references.
    assert np.diff(stamps_of(found)).min() >= 0
    if clock is not None:
        times = stamps_of(clock.all())
        assert np.diff(times).min() >= 0
        assert set(stamps_of(found)) & set(times), "states have the stamps of the clock"
    periods = np.diff(stamps_of(reports.all())) * 1e-9
    assert np.median(periods) == pytest.approx(0.02, rel=0.1)


@pytest.mark.long
def test_what_changes_takes_effect_at_once(resting):
    client, commands = resting.client, listen(resting, JointState, "/joint_command")
    publisher = resting.publisher(JointState, "reference")
    client.spin(2.0 * REST_TIME)
    for sign in (1.0, -1.0):
        commands.drop()
        goal = {name: HOME[name] + 0.05 * sign for name in ARM}
        publisher.publish(JointState(name=list(ARM), position=list(goal.values())))
        before = client.node.get_clock().now()
        client.wait(lambda goal=goal: resting.away(goal) < 0.02, "the target")
        assert (client.node.get_clock().now() - before).nanoseconds < 20e9
        assert np.diff(stamps_of(commands.all())).min() > 0, "each deadline once"
        client.spin(2.0 * REST_TIME)
    assert resting.follow(smooth(dict.fromkeys(ARM, 0.0) | HOME, 0.5)).result()[0] == SUCCEEDED


@pytest.mark.long
def test_a_simulation_at_rest_pauses_and_restarts(resting):
    if not resting.simulated:
        pytest.skip("the simulation publishes no /clock")
    client, clock = resting.client, listen(resting, Clock, "/clock")
    assert client.call(SetBool, f"{resting.simulator}/pause", SetBool.Request(data=True)).success
    client.spin(0.3)
    clock.drop()
    client.spin(1.0)
    assert len(set(stamps_of(clock.all()))) <= 1
    assert client.call(SetBool, f"{resting.simulator}/pause", SetBool.Request(data=False)).success
    client.wait(lambda: len(set(stamps_of(clock.all()))) > 1, "time to go on")
    assert client.call(Trigger, f"{resting.simulator}/reset").success
    clock.drop()
    client.wait(lambda: any(t < 5e8 for t in stamps_of(clock.all())), "time from 0")
    resting.wait_for()
    moved = {name: HOME[name] + 0.05 for name in ARM}
    assert resting.follow(smooth(moved, 0.5)).result()[0] == SUCCEEDED
