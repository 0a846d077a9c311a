# SPDX-License-Identifier: Apache-2.0
"""Cycles at rest as one function, by machine code and by Python, with real publishers."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from patience import wait_until
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from motion_nodes.kernels.cycle_code import compile_apart
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.repeated_cycles import (
    RepeatedCycles,
    RepeatedInput,
    RepeatedOutput,
    control_cycle,
    next_due,
    simulation_cycle,
)
from motion_nodes.ros.joint_topics import JointStateBuffer, JointStateWriter, stamp_ns
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.ros_time import ClockReader

PERIOD = 4_000_000
JOINTS = ("a", "b")


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    compile_apart([each for each in (control_cycle, simulation_cycle) if not each.load()])


@pytest.fixture(params=["machine code", "Python"])
def cell(ros, request, monkeypatch):
    """A node at rest: a state that repeats, a silent input, an output; and their other ends."""
    if request.param == "Python":
        for function in (control_cycle, simulation_cycle):
            monkeypatch.setattr(function, "bind", lambda m, f=function: partial(f.function, m))
    node = Node("repeated_test", use_global_arguments=False)
    deep = qos.COMMANDS
    states = PolledSubscription[bytes](node, JointState, "states", deep, raw=True)
    silent = PolledSubscription(node, Float64MultiArray, "silent", deep, relaxed=True)
    clock = ClockReader(PolledSubscription[bytes](node, Clock, "time", qos.CLOCK, raw=True))
    out = node.create_publisher(JointState, "commands", deep)
    heard = PolledSubscription(node, JointState, "commands", deep)
    made = SimpleNamespace(
        node=node, states=states, silent=silent, clock=clock, out=out, heard=heard,
        state=JointStateWriter(node.create_publisher(JointState, "states", deep), JOINTS),
        speak=node.create_publisher(Float64MultiArray, "silent", deep),
        tell=node.create_publisher(Clock, "time", qos.CLOCK),
        command=JointStateBuffer(JOINTS), cycles=RepeatedCycles(control_cycle),
    )  # fmt: skip
    made.state.position[:], made.state.velocity[:] = (0.25, -1.0), 0.0
    made.command.channel("position")[:] = 0.25, -1.0
    ends = (made.state._publisher, made.speak, made.tell, out)
    wait_until(lambda: all(p.get_subscription_count() for p in ends), "all to meet")
    yield made
    made.cycles.close()
    node.destroy_node()


def report_state(cell, stamp, *, taken=True):
    cell.state.send(stamp)
    wait_until(lambda: waiting(cell.states), "the state")
    return cell.states.newest() if taken else None


def waiting(subscription):
    """Return whether a message is pending, which stays so."""
    pair = subscription._take_one(subscription._kind, True)
    if pair is not None:
        subscription.put_back(*pair)
    return pair is not None


def set_time(cell, nanoseconds):
    cell.tell.publish(MessageTemplate(Clock()).bytes(nanoseconds))
    pending = cell.clock._subscription
    wait_until(lambda: waiting(pending), "the time")
    # Back to the middleware is impossible, so it is noted as the reader does.
    cell.clock.read()


def begin(cell, now, *, cycles=50, last=b"", stamp=0, **more):
    assert cell.cycles.ready
    cell.cycles.begin(
        cycles, [cell.silent], [RepeatedInput(cell.states, last, stamp)],
        [RepeatedOutput(cell.out, cell.command.data, **more)],
    )  # fmt: skip
    cell.cycles.follow(cell.clock, now, (0, now // PERIOD + 1, float(PERIOD)))


def sent(cell, count):
    found = []
    wait_until(lambda: found.extend(cell.heard.all()) or len(found) >= count, "the commands")
    return [stamp_ns(m) for m in found]


def resting(cell, now=40 * PERIOD):
    last = report_state(cell, now)
    set_time(cell, now)
    begin(cell, now, last=last, stamp=now)
    return now


def test_each_deadline_is_served_once_with_its_stamp(cell):
    now, stamps = resting(cell), []
    for advance in (1, 0, 1, 2, 0, 1):
        now += advance * PERIOD
        set_time(cell, now)
        cell.state.send(now)
        assert cell.cycles.run()
        stamps += [now - k * PERIOD for k in reversed(range(advance))]
    done = cell.cycles.end()
    assert done.stamps == stamps
    assert done.total == len(stamps)
    assert sent(cell, len(stamps)) == stamps
    assert done.next_index == now // PERIOD + 1
    assert not cell.cycles.armed


def test_outputs_repeat_their_values(cell):
    now = resting(cell) + PERIOD
    set_time(cell, now)
    assert cell.cycles.run()
    heard = []
    wait_until(lambda: heard.extend(cell.heard.all()) or heard, "the command")
    assert list(heard[0].name) == list(JOINTS)
    assert np.array_equal(heard[0].position, (0.25, -1.0))
    assert np.isnan(heard[0].effort).all()


def test_repetitions_are_counted(cell):
    before = cell.states.count
    now = resting(cell)
    for k in range(3):
        cell.state.send(now + k * PERIOD)
    wait_until(lambda: waiting(cell.states), "the states")
    # A message that was put back is read first, so it is not one of these cycles.
    cell.states.newest()
    for k in range(3, 6):
        cell.state.send(now + k * PERIOD)

    def ran():
        assert cell.cycles.run()
        return cell.cycles.memory.repeated[0, 5] >= 3

    wait_until(ran, "three states")
    done = cell.cycles.end()
    assert done.inputs[0] == (now + 4 * PERIOD, now + 5 * PERIOD)
    assert cell.states.count >= before + 4
    assert cell.states.age() < 1.0


@pytest.mark.parametrize("change", ["value", "names", "silent"])
def test_a_change_is_put_back_and_nothing_is_sent(cell, change):
    now = resting(cell) + PERIOD
    set_time(cell, now)
    if change == "silent":
        cell.speak.publish(Float64MultiArray(data=[1.0, 2.0]))
    elif change == "value":
        cell.state.position[1] = np.nextafter(-1.0, 0.0)
        cell.state.send(now)
    else:
        other = JointStateWriter(cell.state._publisher, ("a", "c"))
        other.position[:], other.velocity[:] = (0.25, -1.0), 0.0
        other.send(now)
    wait_until(lambda: not cell.cycles.run(), "the change")
    done = cell.cycles.end()
    assert done.total <= 1
    if change == "silent":
        assert cell.silent.returned
        begin(cell, now)
        assert not cell.cycles.armed, "the message would wait for the end of the cycles"
        assert [list(m.data) for m in cell.silent.all()] == [[1.0, 2.0]]
    else:
        (message,) = cell.states.all()
        assert message[12:] != done
        assert not cell.states.returned
    assert not cell.silent.returned


@pytest.mark.parametrize("fault", ["short", "big endian", "negative"])
def test_messages_that_cannot_be_read_are_changes(cell, fault):
    now = resting(cell) + PERIOD
    data = bytearray(JointStateBuffer(JOINTS, ("position", "velocity")).bytes(now))
    if fault == "short":
        data = data[:9]
    elif fault == "big endian":
        data[1] = 0
    else:
        data[4:8] = b"\xff\xff\xff\xff"
    cell.state._publisher.publish(bytes(data))
    wait_until(lambda: not cell.cycles.run(), "the message")
    assert cell.states.returned
    cell.states.drop()
    assert not cell.states.returned


def test_another_publisher_of_the_same_values_is_a_change(cell):
    for k in range(5):
        report_state(cell, k * PERIOD)
    now = resting(cell)
    other = cell.node.create_publisher(JointState, "states", qos.COMMANDS)
    wait_until(lambda: other.get_subscription_count() > 0, "the other publisher")
    other.publish(cell.state._buffer.bytes(now))
    wait_until(lambda: not cell.cycles.run(), "its message")


@pytest.mark.parametrize("advance", [-1, -30, 11, 10_000])
def test_time_that_jumps_ends_the_cycles(cell, advance):
    now = resting(cell)
    set_time(cell, now + advance * PERIOD)
    assert not cell.cycles.run()
    assert cell.clock.newest_ns == now + advance * PERIOD
    assert cell.cycles.end().stamps == []


def test_the_number_of_cycles_is_bounded(cell):
    now = 40 * PERIOD
    set_time(cell, now)
    begin(cell, now, cycles=3)
    assert [cell.cycles.run() for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_another_thread_reads_is_left_alone(cell):
    resting(cell)
    with cell.clock.lock:
        assert not cell.cycles.run()
    assert cell.cycles.run()


def test_slow_outputs_keep_their_period(cell):
    now = 40 * PERIOD
    set_time(cell, now)
    begin(cell, now, cycles=1000, period_ns=5 * PERIOD // 2, due_ns=now)
    for _ in range(20):
        now += PERIOD
        set_time(cell, now)
        assert cell.cycles.run()
    assert len(sent(cell, 9)) == 9


def test_a_late_message_does_not_delay_the_next():
    assert next_due(100, 104, 20) == 120
    assert next_due(100, 130, 20) == 150
    assert next_due(500, 130, 20) == 150, "after a jump of time"


def test_a_simulation_waits_for_its_references(cell):
    step, started = 0.002, 0.0
    cell.cycles = RepeatedCycles(simulation_cycle)
    last = report_state(cell, 1_000_000_000)
    assert cell.cycles.ready
    inputs = [RepeatedInput(cell.states, last, 1_000_000_000, 12_000_000)]
    outputs = [RepeatedOutput(cell.out, cell.command.data)]
    cell.cycles.begin(100, [cell.silent], inputs, outputs)
    times = cell.cycles.memory.times
    ran = []
    for _ in range(6):
        # The wall clock is that of the next due time.
        cell.cycles.advance(started, 1.0, step, 1.0 + 0.004 * len(ran), 0.02)
        times[1] = 1.0 + 0.004 * (len(ran) + 1) + 1e-5
        if cell.cycles._call() != 0:
            break
        ran.append(times[5])
    assert np.allclose(ran, [1.004, 1.008, 1.012])
    done = cell.cycles.end()
    assert done.steps == 6
    assert done.stamps == sent(cell, 3) == [1_004_000_000, 1_008_000_000, 1_012_000_000]


@pytest.mark.parametrize("lag", [-0.01, 0.021, 5.0])
def test_a_simulation_that_is_late_leaves_that_to_the_node(cell, lag):
    cell.cycles = RepeatedCycles(simulation_cycle)
    assert cell.cycles.ready
    cell.cycles.begin(100, [], [], [RepeatedOutput(cell.out, cell.command.data)])
    cell.cycles.advance(0.0, 1.0, 0.002, 1.0, 0.02)
    cell.cycles.memory.times[1] = 1.0 + lag
    assert cell.cycles._call() != 0
    assert cell.cycles.end().stamps == []
