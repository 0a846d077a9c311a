# SPDX-License-Identifier: Apache-2.0
"""JointState messages to and from arrays, with joints in any order and other joints."""

import math
import random

import numpy as np
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from motion_nodes.core.bases.base import BaseLimits
from motion_nodes.core.bases.controller import BaseController, BaseControllerConfig
from motion_nodes.core.bases.differential import DifferentialBase, DifferentialConfig
from motion_nodes.core.control.state_plausibility import SourceWatch, StatePlausibility
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.ros.joint_topics import (
    MAX_LAYOUTS,
    JointStateReader,
    JointStateWriter,
    set_stamp,
    stamp_ns,
)

JOINTS = ("a", "b", "c")


class Feed:
    """Stands for a polled subscription."""

    topic = "/joint_states"
    number: int | None = None
    """Sequence number of the next messages."""

    def __init__(self, *, serialized: bool = False) -> None:
        self.waiting: list[tuple[JointState | bytes, int | None]] = []
        self.count = 0
        self.serialized = serialized

    def numbered(self) -> list[tuple[JointState | bytes, int | None]]:
        messages, self.waiting = self.waiting, []
        self.count += len(messages)
        return messages

    def send(self, positions: dict[str, float], velocity=None, stamp: float = 0.0) -> None:
        message = JointState(name=list(positions), position=list(positions.values()))
        if velocity is not None:
            message.velocity = velocity
        set_stamp(message, int(stamp * 1e9))
        sent = serialize_message(message) if self.serialized else message
        self.waiting.append((sent, self.number))


@pytest.fixture
def feed():
    return Feed()


@pytest.fixture
def reader(feed):
    return JointStateReader(feed, JOINTS)


def test_nothing_before_the_first_message(reader):
    assert not reader.update()
    assert not reader.received
    assert np.isnan(reader.position).all()
    assert reader.age() == math.inf
    assert reader.missing == ()
    assert reader.fault(1.0) == "waiting for joint_states"


def test_any_order_and_other_joints(feed, reader):
    rng = random.Random(4)
    for _ in range(50):
        values = {name: rng.uniform(-3, 3) for name in (*JOINTS, "x", "y")}
        names = list(values)
        rng.shuffle(names)
        feed.send({n: values[n] for n in names}, [values[n] * 2 for n in names], stamp=1.5)
        assert reader.update()
        expected = np.array([values[n] for n in JOINTS])
        np.testing.assert_array_equal(reader.position, expected)
        np.testing.assert_array_equal(reader.velocity, 2 * expected)
    assert reader.stamp_ns == 1_500_000_000
    assert reader.received
    assert reader.fault(1.0) == ""
    assert len(reader._layouts) <= MAX_LAYOUTS


@pytest.mark.long
def test_repeated_states_are_read_as_others_are():
    """By serialized messages, of which repetitions are recognized, and by messages."""
    rng = random.Random(11)
    feeds = Feed(), Feed(serialized=True)
    watches = SourceWatch(len(JOINTS)), SourceWatch(len(JOINTS))
    readers = [
        JointStateReader(f, JOINTS, plausibility=StatePlausibility(np.ones(3)), sources=w)  # type: ignore[arg-type]
        for f, w in zip(feeds, watches, strict=True)
    ]
    repeated, values = 0, dict.fromkeys(JOINTS, 0.0)
    for k in range(2000):
        changes = rng.random() < 0.2
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            event = rng.random()
            if changes:
                values = {n: q + rng.choice((0.0, 1e-13, 1e-3)) for n, q in values.items()}
            spike = 9.0 if event > 0.99 else 0.0
            names = JOINTS[: rng.randint(1, 3)] if event > 0.95 else JOINTS
            velocity = [math.nan if event < 0.01 else 0.0] * len(names)
            numbers = rng.choice(((k,), (k,), (k, 5), (None,)))
            for feed in feeds:
                feed.number = numbers[-1]
                feed.send({n: values[n] + spike for n in names}, velocity, stamp=k * 0.01)
        if rng.random() < 0.01:
            for reader in readers:
                reader.forget()
        plain, fast = readers
        assert plain.update() == fast.update()
        repeated += fast.unchanged and bool(fast.updated.any())
        for what in ("position", "velocity", "effort", "updated"):
            np.testing.assert_array_equal(getattr(plain, what), getattr(fast, what))
        assert (plain.stamp_ns, plain.received, plain.problem, plain.rejected) == (
            fast.stamp_ns, fast.received, fast.problem, fast.rejected,
        )  # fmt: skip
        assert bool(plain.rival) == bool(fast.rival)
        assert not (plain.unchanged and plain.updated.any())
    assert repeated > 300


@pytest.mark.parametrize("serialized", [False, True])
def test_a_message_that_names_a_joint_twice_must_not_contradict_itself(serialized):
    feed = Feed(serialized=serialized)
    reader = JointStateReader(feed, JOINTS)  # type: ignore[arg-type]

    def send(*values: tuple[str, float, float]) -> bool:
        names, positions, velocities = zip(*values, strict=True)
        message = JointState(name=names, position=positions, velocity=velocities)
        feed.waiting.append((serialize_message(message) if serialized else message, None))
        return reader.update()

    rest = (("b", 0.2, 0.0), ("c", 0.3, 0.0))
    assert send(("a", 0.1, 0.0), *rest, ("a", 0.1, 0.0), ("x", 1.0, 0.0), ("x", 2.0, 0.0))
    for again in (("a", 0.6, 0.0), ("a", 0.1, 0.5)):
        assert not send(("a", 0.1, 0.0), *rest, again)
        assert "names a twice" in reader.problem
    assert send(("a", 0.1, 0.0), *rest)
    assert reader.position.tolist() == [0.1, 0.2, 0.3]


def test_the_newest_of_several_counts(feed, reader):
    for i in range(5):
        feed.send({"a": i, "b": i, "c": i}, stamp=float(i))
    assert reader.update()
    assert reader.position.tolist() == [4.0] * 3
    assert reader.stamp_ns == 4_000_000_000
    assert not reader.update()


def test_a_state_put_together_from_several_publishers(feed, reader):
    feed.send({"a": 1.0, "b": 2.0})
    assert not reader.update(), "c is not known yet"
    assert reader.missing == ("c",)
    assert reader.fault(1.0) == "waiting for joint_states; not reported: c"
    feed.send({"c": 3.0})
    assert reader.update()
    feed.send({"a": 1.5, "b": 2.5})
    feed.send({"c": 3.5})
    feed.send({"a": 1.6, "b": 2.6})
    assert reader.update()
    assert reader.position.tolist() == [1.6, 2.6, 3.5]


def test_the_joint_silent_for_longest_makes_the_age(feed, reader, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("motion_nodes.ros.joint_topics.time.monotonic", lambda: now[0])
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0})
    reader.update()
    for _ in range(4):
        now[0] += 0.3
        feed.send({"a": 1.0, "b": 2.0})
        assert reader.update()
    assert reader.age() == pytest.approx(1.2)
    assert reader.fault(0.5) == "no joint_states for 1.2 s of c"
    assert reader.fault(2.0) == ""
    now[0] += 1.0
    assert reader.fault(0.5) == "no joint_states for 2.2 s"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_position_that_is_no_number_does_not_count(feed, reader, bad):
    feed.send({"a": 1.0, "b": bad, "c": 3.0})
    assert not reader.update()
    assert reader.missing == ("b",)
    assert f"(the position of b is {bad})" in reader.fault(1.0)
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0})
    assert reader.update()
    feed.send({"a": 5.0, "b": bad, "c": 6.0})
    assert reader.update()
    assert reader.position.tolist() == [5.0, 2.0, 6.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_speed_that_is_no_number_is_zero(feed, reader, bad):
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0}, [0.5, bad, 0.7])
    assert reader.update()
    assert reader.velocity.tolist() == [0.5, 0.0, 0.7]


def test_without_speeds_they_are_zero(feed, reader):
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0}, [1.0, 1.0, 1.0])
    reader.update()
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0})
    reader.update()
    assert not reader.velocity.any()


@pytest.mark.parametrize(
    ("names", "positions", "velocities"),
    [
        (["a", "b", "c"], [1.0, 2.0], []),
        (["a", "b", "c"], [], []),
        (["a", "b", "c"], [1.0] * 4, []),
        (["a", "b", "c"], [1.0] * 3, [1.0]),
        ([], [1.0] * 3, []),
    ],
)
def test_lengths_that_do_not_fit_are_not_used(feed, reader, names, positions, velocities):
    feed.waiting.append((JointState(name=names, position=positions, velocity=velocities), None))
    assert not reader.update()
    assert not reader.received
    assert f"a message has {len(names)} names, {len(positions)} positions" in reader.fault(1.0)


def test_an_empty_message_says_nothing(feed, reader):
    feed.waiting.append((JointState(), None))
    assert not reader.update()
    feed.send({"a": 1.0, "b": 2.0, "c": 3.0})
    feed.waiting.append((JointState(), None))
    assert reader.update()


class Wire:
    def __init__(self) -> None:
        self.sent: list[JointState] = []

    def publish(self, message: bytes) -> None:
        self.sent.append(deserialize_message(message, JointState))


def test_writer_publishes_what_its_views_hold():
    wire = Wire()
    writer = JointStateWriter(wire, JOINTS, effort=True)
    writer.position[:] = (1.0, 2.0, 3.0)
    writer.velocity[1] = 5.0
    writer.send(12_345_678_901)
    (message,) = wire.sent
    assert message.name == list(JOINTS)
    assert message.position.tolist() == [1.0, 2.0, 3.0]
    assert math.isnan(message.velocity[0])
    assert message.velocity[1] == 5.0
    assert all(map(math.isnan, message.effort))
    assert stamp_ns(message) == 12_345_678_901


def test_writer_leaves_out_channels_that_are_not_wanted():
    wire = Wire()
    writer = JointStateWriter(wire, JOINTS, position=False)
    writer.velocity[:] = 0.0
    writer.send(0)
    assert len(wire.sent[0].position) == len(wire.sent[0].effort) == 0
    assert wire.sent[0].velocity.tolist() == [0.0] * 3


@pytest.mark.parametrize("nanoseconds", [0, 1, 999_999_999, 10**9, 1_795_246_000_123_456_789])
def test_stamps_survive(nanoseconds):
    message = JointState()
    set_stamp(message, nanoseconds)
    assert stamp_ns(message) == nanoseconds


def test_joints_whose_velocity_is_needed(feed):
    """A driver that measures velocities only; one of the joints is read by its position."""
    reader = JointStateReader(feed, JOINTS, by_velocity=("a", "c"))
    message = JointState(name=["c", "a"], velocity=[3.0, 1.0])
    feed.waiting.append((message, None))
    assert not reader.update()
    assert reader.missing == ("b",)
    feed.send({"b": 0.5})
    assert reader.update()
    assert reader.position[1] == 0.5
    np.testing.assert_array_equal(reader.velocity, [1.0, 0.0, 3.0])
    feed.send({"a": 7.0, "b": 0.6, "c": 8.0}, [math.nan, 5.0, 4.0])
    assert reader.update()
    np.testing.assert_array_equal(reader.velocity, [1.0, 5.0, 4.0])
    assert "the velocity of a is nan" in reader.fault(-1.0)


def test_positions_are_needed_unless_said_otherwise(feed, reader):
    feed.waiting.append((JointState(name=list(JOINTS), velocity=[1.0, 2.0, 3.0]), None))
    assert not reader.update()
    assert "3 names, 0 positions" in reader.fault(1.0)


@pytest.fixture
def careful(feed):
    """A reader that checks steps by velocity limits."""
    limits = np.array([2.0, 2.0, np.inf])
    return JointStateReader(feed, JOINTS, plausibility=StatePlausibility(limits))


def test_a_jump_beyond_the_velocity_limit_is_not_used(feed, careful):
    feed.send({"a": 0.1, "b": 0.2, "c": 0.3}, stamp=1.0)
    assert careful.update()
    # b by a faulty encoder, c without a limit: the other joints are used.
    feed.send({"a": 0.11, "b": 1.2, "c": 5.0}, stamp=1.004)
    assert careful.update()
    assert careful.position.tolist() == [0.11, 0.2, 5.0]
    assert careful.rejected == 1
    assert "b is reported at 1.2" in careful.problem
    feed.send({"a": 0.12, "b": 0.22, "c": 5.0}, stamp=1.008)
    assert careful.update()
    assert careful.position.tolist() == [0.12, 0.22, 5.0]
    assert careful.problem == ""


def later(reader, seconds):
    """Let time pass without reports."""
    reader._received_at -= seconds
    reader._reported_at -= seconds


def test_after_a_gap_of_the_reports_a_joint_may_be_elsewhere(feed, careful):
    feed.send({"a": 0.0, "b": 0.0, "c": 0.0}, stamp=1.0)
    careful.update()
    later(careful, 1.0)
    feed.send({"a": 0.0, "b": 3.0, "c": 0.0}, stamp=2.0)
    careful.update()
    assert careful.position[1] == 3.0
    assert careful.jumped() == ()


def test_a_joint_that_jumps_between_reports_is_lost_until_it_is_back_or_acknowledged(feed, careful):
    feed.send({"a": 0.0, "b": 0.0, "c": 0.0}, stamp=1.0)
    careful.update()
    for k in range(300):
        later(careful, 0.01)
        feed.send({"a": 0.0, "b": 2.0, "c": 0.0}, stamp=1.0 + 0.01 * k)
        careful.update()
        assert careful.position[1] == 0.0
    assert careful.age() > 2.9
    assert careful.jumped() == ("b",)
    assert "b is reported at 2 after 0" in careful.fault(0.25)
    feed.send({"a": 0.0, "b": 0.01, "c": 0.0}, stamp=4.01)
    careful.update()
    assert careful.position[1] == 0.01
    assert careful.jumped() == ()
    feed.send({"a": 0.0, "b": 2.0, "c": 0.0}, stamp=4.02)
    careful.update()
    careful.forget()
    feed.send({"a": 3.0, "b": 2.0, "c": 0.0}, stamp=0.0)
    careful.update()
    assert careful.position.tolist() == [3.0, 2.0, 0.0]


def test_fast_motion_in_fast_simulated_time_is_plausible(feed, careful):
    for k in range(200):
        q = 0.1 * 2.0 * k
        feed.send({"a": q, "b": -q, "c": 0.0}, stamp=1.0 + 0.1 * k)
        careful.update()
        assert careful.position.tolist() == [q, -q, 0.0]


# ---- continuous joints that a driver reports within one turn

TURN = 2.0 * math.pi
WRAPS = {
    "[-pi, pi)": lambda q: (q + math.pi) % TURN - math.pi,
    "[0, 2 pi)": lambda q: q % TURN,
    "[-2 pi, 2 pi)": lambda q: (q + TURN) % (2.0 * TURN) - TURN,
    "(-2 pi, 2 pi)": lambda q: math.fmod(q, TURN),
}


def turning(fastest: float = 20.0) -> JointLimits:
    """Return the limits of two wheels and a joint with limits."""
    three = np.ones(3)
    ends = np.array([np.inf, np.inf, 4.0])
    speeds = np.array([fastest, fastest, 2.0])
    wheels = np.array([True, True, False])
    return JointLimits(JOINTS, -ends, ends, speeds, three, three, three, wheels)


@pytest.mark.parametrize("channels", ["positions", "velocities"])
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(("rate", "burst"), [(30.0, 1), (100.0, 1), (100.0, 7)])
def test_odometry_of_wrapped_wheels_is_that_of_the_unwrapped(feed, wrap, rate, burst, channels):
    """Bursts: several messages between two updates."""
    base = DifferentialBase(
        DifferentialConfig(
            left_wheel_names=("a",),
            right_wheel_names=("b",),
            wheel_separation=0.26,
            wheel_radius=0.05,
        )
    )
    two = [
        BaseController(base, BaseControllerConfig(limits=BaseLimits(max_wheel_velocity=20.0)))
        for _ in range(2)
    ]
    reader = JointStateReader(feed, JOINTS[:2], limits=turning())
    rng, q, v = np.random.default_rng(1), np.array([0.3, -1.2]), np.zeros(2)
    dt = 1.0 / rate
    for k in range(int(8.0 * rate)):
        v = np.clip(v + rng.normal(0.4, 1.5, 2), -20.0, 20.0)
        q = q + v * dt
        speeds = v.tolist() if channels == "velocities" else None
        wrapped = {name: WRAPS[wrap](x) for name, x in zip("ab", q, strict=True)}
        feed.send(wrapped, speeds, stamp=1.0 + k * dt)
        if k % burst:
            continue
        assert reader.update()
        for each, angles in zip(two, (q, reader.position), strict=True):
            each.measure(angles, 0.0 if k == 0 else burst * dt, np.zeros(0))
    assert two[1].wheel_jumps == two[0].wheel_jumps == 0
    true, read = two[0].odometry, two[1].odometry
    assert (read.x, read.y, read.yaw) == pytest.approx((true.x, true.y, true.yaw), abs=1e-9)
    assert math.hypot(true.x, true.y) > 0.5


def test_a_wrap_of_a_joint_with_limits_is_a_jump(feed):
    reader = JointStateReader(
        feed, JOINTS, plausibility=StatePlausibility(turning().velocity), limits=turning()
    )
    feed.send({"a": 3.1, "b": 0.0, "c": 3.1}, stamp=1.0)
    assert reader.update()
    feed.send({"a": -3.1, "b": 0.0, "c": -3.1}, stamp=1.01)
    assert reader.update()
    assert reader.position == pytest.approx([TURN - 3.1, 0.0, 3.1])
    assert reader.rejected == 1
    assert "c is reported at -3.1" in reader.problem


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e12])
def test_nan_among_wrapped_joints_loses_no_turn(feed, bad):
    reader = JointStateReader(feed, JOINTS, limits=turning())
    for k in range(100):
        q = 0.5 * k
        wrapped = WRAPS["[-pi, pi)"](q)
        feed.send({"a": wrapped, "b": bad if k % 3 else wrapped, "c": bad if k % 5 else 0.0})
        reader.update()
        assert reader.position[0] == pytest.approx(q, abs=1e-9)
    assert reader.position[1] == pytest.approx(q, abs=1e-9)


def test_a_reader_that_begins_later_differs_by_whole_turns(feed):
    first = JointStateReader(feed, JOINTS, limits=turning())
    positions = []
    for k in range(30):
        feed.send({"a": WRAPS["[-pi, pi)"](0.3 * k), "b": 0.0, "c": 0.0})
        if k == 20:
            second = JointStateReader(feed, JOINTS, limits=turning())
        waiting = list(feed.waiting)
        first.update()
        if k >= 20:
            feed.waiting = waiting
            second.update()
            positions.append(first.position[0] - second.position[0])
    assert positions == pytest.approx([TURN] * len(positions), abs=1e-9)


def test_after_a_jump_of_time_positions_are_taken_as_reported(feed):
    reader = JointStateReader(feed, JOINTS, limits=turning())
    for q in (3.0, -3.0):
        feed.send({"a": q, "b": 0.0, "c": 0.0})
        reader.update()
    assert reader.position[0] == pytest.approx(TURN - 3.0)
    reader.forget()
    feed.send({"a": -3.0, "b": 0.0, "c": 0.0})
    reader.update()
    assert reader.position[0] == -3.0
