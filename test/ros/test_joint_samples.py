# SPDX-License-Identifier: Apache-2.0
"""Serialized joint states equal the messages of rclpy, in both directions."""

import math
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from control_msgs.msg import JointTrajectoryControllerState
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.errors import InvalidCommand, UnknownJoint
from motion_nodes.ros.current_state import ControllerReferences
from motion_nodes.ros.joint_topics import (
    JointSampleReader,
    JointStateBuffer,
    JointStateReader,
    set_stamp,
    stamp_ns,
)
from motion_nodes.ros.messages.cdr import InvalidMessage, MessageTemplate
from motion_nodes.ros.messages.joint_channels import JointChannels
from motion_nodes.ros.transforms import TransformSender

few = settings(max_examples=30, derandomize=True, deadline=None)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
channels = st.lists(st.floats(), max_size=12)
stamps = st.integers(-(2**31) * 10**9, 2**31 * 10**9 - 1)


class Feed:
    """Stands for a polled subscription to bytes."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.count = 0

    def numbered(self) -> list[tuple[bytes, int | None]]:
        messages, self.waiting = self.waiting, []
        self.count += len(messages)
        return [(message, None) for message in messages]

    def newest(self) -> bytes | None:
        return next((message for message, _ in self.numbered()[-1:]), None)


def big_endian(joints: dict[str, float], stamp_ns: int) -> bytes:
    """Return a serialized big-endian JointState."""
    data = struct.pack(">HHiI", 0, 0, *divmod(stamp_ns, 10**9)) + struct.pack(">I", 1) + b"\0"
    data += bytes(-len(data) % 4) + struct.pack(">I", len(joints))
    for name in joints:
        data += bytes(-len(data) % 4) + struct.pack(">I", len(name) + 1) + name.encode() + b"\0"
    data += bytes(-len(data) % 4) + struct.pack(">I", len(joints))
    data += bytes(-(len(data) - 4) % 8)
    return data + struct.pack(f">{len(joints)}d", *joints.values()) + struct.pack(">II", 0, 0)


@few
@given(stamps, texts, st.lists(texts, max_size=9), channels, channels, channels)
def test_bytes_say_what_the_message_says(stamp, frame, names, position, velocity, effort):
    message = JointState(name=names, position=position, velocity=velocity, effort=effort)
    message.header.frame_id = frame
    set_stamp(message, stamp)
    reader = JointSampleReader()
    for _ in range(2):  # the second time the names are known
        sample = reader.read(serialize_message(message))
        assert isinstance(sample.names, bytes)
        assert sample.joint_names() == tuple(names)
        assert sample.stamp_ns == stamp
        np.testing.assert_array_equal(sample.position, position)
        np.testing.assert_array_equal(sample.velocity, velocity)


@few
@given(st.lists(st.lists(texts, max_size=4), min_size=2, max_size=5))
def test_other_names_are_never_taken_for_those_before(all_names):
    reader = JointSampleReader()
    for names in all_names:
        data = serialize_message(JointState(name=names, position=[1.0] * len(names)))
        assert reader.read(data).joint_names() == tuple(names)


@few
@given(stamps, st.lists(texts, max_size=9), st.randoms(use_true_random=False), st.data())
def test_the_buffer_is_what_rclpy_would_send(stamp, names, random, data):
    wanted = data.draw(st.sets(st.sampled_from(["position", "velocity", "effort"])))
    buffer = JointStateBuffer(names, sorted(wanted))
    message = JointState(name=names)
    for channel in wanted:
        values = [random.uniform(-9.0, 9.0) for _ in names]
        buffer.channel(channel)[:] = values
        setattr(message, channel, values)
    set_stamp(message, stamp)
    assert deserialize_message(buffer.bytes(stamp), JointState) == message


def test_what_was_not_written_is_no_command():
    message = deserialize_message(JointStateBuffer(["a", "b"]).bytes(0), JointState)
    for channel in (message.position, message.velocity, message.effort):
        assert len(channel) == 2
        assert np.isnan(channel).all()


@pytest.fixture
def feed():
    return Feed()


def state(joints: dict[str, float]) -> JointState:
    return JointState(name=list(joints), position=list(joints.values()))


def test_a_reader_takes_permuted_lacking_and_other_joints(feed):
    reader = JointStateReader(feed, ("a", "b", "c"))
    feed.waiting = [
        serialize_message(state({"c": 3.0, "x": 9.0, "a": 1.0})),
        serialize_message(state({"b": 2.0})),
        serialize_message(state({"y": 8.0})),
    ]
    assert reader.update()
    assert reader.position.tolist() == [1.0, 2.0, 3.0]


def test_a_computer_of_the_other_order_of_bytes(feed):
    reader = JointStateReader(feed, ("a", "b"))
    feed.waiting = [big_endian({"b": 2.5, "a": -1.0}, 1_500_000_000)]
    assert reader.update()
    assert reader.position.tolist() == [-1.0, 2.5]
    assert reader.stamp_ns == 1_500_000_000


@pytest.mark.parametrize("length", [0, 3, 4, 11, 20, 40, 52, 63])
def test_a_message_that_ends_too_early_changes_nothing(feed, length):
    reader = JointStateReader(feed, ("a", "b"))
    whole = serialize_message(state({"a": 1.0, "b": 2.0}))
    assert length < len(whole)
    feed.waiting = [whole]
    assert reader.update()
    feed.waiting = [serialize_message(state({"a": 5.0, "b": 6.0}))[:length]]
    assert not reader.update()
    assert reader.position.tolist() == [1.0, 2.0]
    assert f"a message of {length} bytes cannot be read as JointState" in reader.fault(-1.0)


def test_names_that_are_no_text(feed):
    reader = JointStateReader(feed, ("a",))
    feed.waiting = [serialize_message(state({"abcd": 1.0})).replace(b"abcd", b"\xff\xfe\xfd\xfc")]
    assert not reader.update()
    assert "not UTF-8" in reader.fault(1.0)


def test_lengths_that_lie():
    data = bytearray(serialize_message(state({"a": 1.0})))
    data[20:24] = struct.pack("<I", 2**32 - 1)  # the number of names
    with pytest.raises(InvalidMessage):
        JointSampleReader().read(bytes(data))


def test_where_a_controller_leads_its_joints(feed):
    report = JointTrajectoryControllerState(joint_names=["c", "b", "a"])
    report.reference.positions = [3.0, 2.0, 1.0]
    report.reference.velocities = [0.3, float("nan"), 0.1]
    set_stamp(report, 10**9)
    led = ControllerReferences(feed, ("a", "b"))
    assert led.newest(10**9) is None
    feed.waiting = [serialize_message(report)]
    q, qd = led.newest(1_100_000_000)
    np.testing.assert_allclose(q, [1.01, 2.0])
    np.testing.assert_allclose(qd, [0.1, 0.0])
    assert led.newest(2 * 10**9) is None, "too old"
    for wrong in (
        {"joint_names": ["a"], "positions": [1.0]},
        {"joint_names": ["a", "b"], "positions": [1.0]},
        {"joint_names": ["a", "b"], "positions": [1.0, float("inf")]},
    ):
        report.joint_names, report.reference.positions = wrong["joint_names"], wrong["positions"]
        feed.waiting = [serialize_message(report)]
        assert led.newest(10**9) is None
    feed.waiting = [b"\0\1\0\0"]
    assert led.newest(10**9) is None


def test_commands_as_bytes_say_what_the_message_says():
    channels, joints = JointChannels(("a", "b", "c"), "arm"), ("a", "b", "c")
    message = JointState(name=["c", "a"], position=[3.0, 1.0], velocity=[0.3, float("nan")])
    for number, change in enumerate(
        ({}, {}, {"position": [2.0, 0.5]}, {"effort": [7.0, 8.0]}, {"name": ["b", "a"]},
         {"velocity": []})
    ):  # fmt: skip
        for field, values in change.items():
            setattr(message, field, values)
        set_stamp(message, 10**9 + number)
        data = serialize_message(message)
        stamp, sample = channels.read_serialized(data)
        assert stamp == 10**9 + number
        for got, expected in zip(sample, JointChannels(joints, "arm").read(message), strict=True):
            np.testing.assert_array_equal(got, expected)
        # Reserialized, padding between fields may differ.
        again = channels.read_serialized(data[:4] + b"\x07\0\0\0\x01\0\0\0" + data[12:])[1]
        assert again is sample, "only the stamp may differ"
    set_stamp(message, 5)
    stamp, again = channels.read_serialized(serialize_message(message))
    assert stamp == 5
    np.testing.assert_array_equal(again, sample)
    data = serialize_message(message)
    for wrong in (data[:-9], data[:60], b"\0\1\0\0", data[:12] + b"\xff" * 40):
        with pytest.raises((InvalidMessage, InvalidCommand)):
            channels.read_serialized(wrong)
    message.position = [1.0]
    with pytest.raises(InvalidCommand):
        channels.read_serialized(serialize_message(message))
    message.name, message.position = ["b", "x"], []
    with pytest.raises(UnknownJoint):
        channels.read_serialized(serialize_message(message))
    message.name, message.header.frame_id = ["a", "b"], "x" * 100_000
    with pytest.raises(InvalidMessage, match="frame_id"):
        channels.read_serialized(serialize_message(message))


@few
@given(st.lists(st.tuples(texts, texts), max_size=4), st.integers(-(10**9), 2 * 10**18))
def test_transforms_as_bytes_say_what_the_message_says(pairs, stamp):
    sent: list[bytes] = []
    X = np.array([from_xyz_rpy((0.1 * i, -2.0, 3.0), (0.3, 0.1 * i, -1.0)) for i in range(4)])
    sender = TransformSender(SimpleNamespace(publish=sent.append), pairs)
    sender.send(X[: len(pairs)], stamp)
    assert len(sent) == bool(pairs)
    for data in sent:
        transforms = deserialize_message(data, TFMessage).transforms
        for transform, (parent, child), X_PC in zip(transforms, pairs, X, strict=False):
            assert (transform.header.frame_id, transform.child_frame_id) == (parent, child)
            assert stamp_ns(transform) == stamp
            t, q = transform.transform.translation, transform.transform.rotation
            np.testing.assert_array_equal((t.x, t.y, t.z), X_PC[:3, 3])
            np.testing.assert_allclose((q.x, q.y, q.z, q.w), to_quat_xyzw(X_PC), atol=1e-15)
        assert len(transforms) == len(pairs)


def test_a_template_is_the_message_with_its_numbers():
    names = ["a", "b"]
    template = MessageTemplate(
        JointTrajectoryControllerState(joint_names=names),
        {"reference.positions": 2, "output.effort": 2, "speed_scaling_factor": 0},
    )
    expected = JointTrajectoryControllerState(joint_names=names)
    for number in range(2):
        values = np.array([1.5 + number, -2.0])
        template.arrays["reference.positions"][:] = expected.reference.positions = values
        template.arrays["output.effort"][:] = expected.output.effort = 3.0 * values
        template.arrays["speed_scaling_factor"][:] = expected.speed_scaling_factor = 0.25 * number
        set_stamp(expected, 10**9 + number)
        data = template.bytes(10**9 + number)
        assert deserialize_message(data, JointTrajectoryControllerState) == expected


def references_of(positions: list[float], velocities: list[float]) -> ControllerReferences:
    """Return the references of one state of a controller at 1 s."""
    state, feed = JointTrajectoryControllerState(joint_names=["a", "b"]), Feed()
    state.reference.positions, state.reference.velocities = positions, velocities
    set_stamp(state, 1_000_000_000)
    feed.waiting = [serialize_message(state)]
    return ControllerReferences(feed, ("a", "b"))


@pytest.mark.parametrize("position", [math.nan, math.inf, 1e300])
def test_references_of_a_controller_are_bounded_positions(position):
    references = references_of([0.5, position], [0.0, 0.0])
    assert references.newest(1_000_000_000) is None


@pytest.mark.parametrize("velocity", [math.nan, math.inf, -math.inf, 1e300])
def test_references_of_a_controller_are_not_extrapolated_by_an_impossible_velocity(velocity):
    found = references_of([0.5, -0.5], [velocity, 1.0]).newest(1_100_000_000)
    assert found is not None
    np.testing.assert_allclose(found[0], (0.5, -0.4))
    np.testing.assert_allclose(found[1], (0.0, 1.0))
