# SPDX-License-Identifier: Apache-2.0
"""JointState messages from and to arrays in a fixed joint order.

Serialized joint states are read in place, and written to a preallocated buffer.
"""

from __future__ import annotations

import functools
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from numpy.typing import NDArray
from rclpy.duration import Duration
from sensor_msgs.msg import JointState

from motion_nodes.core.control.joint_command import no_values
from motion_nodes.core.control.state_plausibility import (
    SourceWatch,
    StatePlausibility,
    encoder_turns,
)
from motion_nodes.core.robot.bounds import JOINT_STATE, LATENESS, NAMES, VELOCITY
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.concurrency.repeated_cycles import RepeatedInput, RepeatedOutput
from motion_nodes.ros.messages.cdr import (
    AFTER_STAMP,
    HEADER,
    LITTLE_ENDIAN,
    CdrReader,
    InvalidMessage,
    add_count,
    add_text,
    message_in,
    read_stamp,
    texts_in,
    write_stamp,
)
from motion_nodes.ros.messages.message_bounds import fault_of
from motion_nodes.tolerances import MEASURED_NOISE
from motion_nodes.typing import Array

CHANNELS = ("position", "velocity", "effort")
_NONE: Array = np.empty(0)
_Numbers = tuple[slice, bytes, int, int]
"""Of a channel in a message: place and bytes of its length, its length, offset of its values."""


class JointSample(NamedTuple):
    """State of some joints; arrays may be empty, or of another length than the names."""

    stamp_ns: int
    """Time stamp [ns]."""
    names: bytes | tuple[str, ...]
    """Joint names, or their serialized form, which is equal for equal names."""
    position: Array
    """[rad or m]"""
    velocity: Array
    """[rad/s or m/s]"""
    effort: Array = np.empty(0)
    """[N m or N]; of JointState only."""
    sender: str = ""
    """The frame_id of its header, which names the sender of a command."""

    def joint_names(self) -> tuple[str, ...]:
        """Return the joint names.

        Raises:
            InvalidMessage: a name is not UTF-8.
        """
        return self.names if isinstance(self.names, tuple) else _names_in(self.names)


@dataclass(frozen=True)
class JointLayout:
    """Position of a reader's joints in messages with the same names."""

    count: int
    """Number of joints in the message."""
    places: NDArray[np.intp]
    """Indices into the reader's joints, shape (k,)."""
    columns: NDArray[np.intp]
    """Indices into the message, shape (k,)."""
    by_velocity: NDArray[np.bool_] | None
    """Which of them are read by velocity, shape (k,); None for none."""
    repeated: tuple[tuple[int, int], ...]
    """Indices of the reader's joints that occur again: the last one, and an earlier one."""

    @classmethod
    def of(
        cls, names: Sequence[str], joints: Sequence[str], by_velocity: NDArray[np.bool_]
    ) -> JointLayout:
        """Return the layout of messages with some names.

        Args:
            names: of the messages.
            joints: of the reader.
            by_velocity: which of the reader's joints are read by velocity, shape (n,).
        """
        where = {name: i for i, name in enumerate(names)}
        pairs = [(i, where[name]) for i, name in enumerate(joints) if name in where]
        places = np.array([place for place, _ in pairs], dtype=np.intp)
        columns = np.array([column for _, column in pairs], dtype=np.intp)
        chosen = by_velocity[places]
        known = frozenset(joints)
        again = tuple(
            (where[name], i) for i, name in enumerate(names) if name in known and where[name] != i
        )
        return cls(len(names), places, columns, chosen if chosen.any() else None, again)

    def contradiction(self, *channels: NDArray[np.float64]) -> int | None:
        """Return the index of a name that occurs again with another value; None without one.

        Args:
            channels: the message's, each empty or of the length of its names.
        """
        pairs = ((i, j, values) for i, j in self.repeated for values in channels if len(values))
        return next((i for i, j, values in pairs if values[i] != values[j]), None)

    def values(self, channel: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a channel's values of the reader's joints, shape (k,); NaN if it is empty."""
        return channel[self.columns] if len(channel) else no_values(len(self.columns))


@functools.lru_cache(64)
def _names_in(block: bytes) -> tuple[str, ...]:
    """Decode names; kept, since the names of a stream do not change."""
    try:
        return tuple(texts_in(block))
    except UnicodeDecodeError as error:
        raise InvalidMessage("names of joints are not UTF-8") from error


class JointSampleReader:
    """Reader of the messages of one topic, serialized or not.

    Types are JointState, and JointTrajectoryControllerState, of which the reference is read: both
    begin with a header, names, positions and velocities.
    """

    def __init__(self) -> None:
        self._names = b""
        self._last: tuple[bytes, JointSample, tuple[_Numbers, ...], int] | None = None
        """Last message that was read in place: from its stamp to its numbers; its contents; where
        they are; its length."""

    def read(self, message: Any, kind: type[Any] = JointState) -> JointSample:
        """Read a message.

        Args:
            message: the message, or its serialized form.
            kind: its type.

        Raises:
            InvalidMessage: it cannot be read as that type, or exceeds its bounds.
        """
        if isinstance(message, bytes):
            same = self._like_the_last(message)
            if same is not None:
                return same
            plain = message.startswith(LITTLE_ENDIAN)
            sample = self._in_place(message, kind is JointState) if plain else None
            if sample is not None:
                return sample
            message = message_in(message, kind)
            fault = fault_of(message)
            if fault:
                raise InvalidMessage(fault)
        if isinstance(message, JointTrajectoryControllerState):
            names, point = message.joint_names, message.reference
            position, velocity, effort = point.positions, point.velocities, ()
        else:
            names, position, velocity = message.name, message.position, message.velocity
            effort = message.effort
        stamp = message.header.stamp
        at = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        q, v, tau = (np.asarray(values) for values in (position, velocity, effort))
        return JointSample(at, tuple(names), q, v, tau, message.header.frame_id)

    def _in_place(self, data: bytes, efforts: bool) -> JointSample | None:
        """Read a serialized message; None if it is truncated."""
        reader = CdrReader(data)
        try:
            stamp = reader.stamp_ns()
            sender = reader.text()
            self._names = reader.texts(self._names)
            head = reader.at
            position, velocity = reader.doubles(), reader.doubles()
            effort = reader.doubles() if efforts else np.empty(0)
        except (struct.error, ValueError):
            return None
        sample = JointSample(stamp, self._names, position, velocity, effort, sender)
        if efforts:
            self._keep(data, head, sample)
        return sample

    def _keep(self, data: bytes, head: int, sample: JointSample) -> None:
        """Let later messages be compared with this one, whose numbers begin after ``head``."""
        at, numbers = head, []
        for values in (sample.position, sample.velocity, sample.effort):
            at = (at + 3) & ~3
            start = ((at + 4 - HEADER + 7) & ~7) + HEADER
            numbers.append((slice(at, at + 4), data[at : at + 4], len(values), start))
            at = start + 8 * len(values) if len(values) else at + 4
        self._last = data[AFTER_STAMP:head], sample, tuple(numbers), len(data)

    def _like_the_last(self, data: bytes) -> JointSample | None:
        """Read a message that is the last one but for stamp and numbers; None for another one."""
        if self._last is None or len(data) != self._last[3]:
            return None
        head, last, numbers, _ = self._last
        if not data.startswith(head, AFTER_STAMP) or not data.startswith(LITTLE_ENDIAN):
            return None
        values = []
        for where, count, length, start in numbers:
            if data[where] != count:
                return None
            values.append(np.frombuffer(data, np.float64, length, start) if length else _NONE)
        position, velocity, effort = values
        return JointSample(read_stamp(data), last.names, position, velocity, effort, last.sender)


class RepeatedValues:
    """Recognizes serialized messages that differ from an earlier one only by their stamps.

    Joints at rest are reported by such messages; they are not read again.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.last = b""
        """The message that others are compared with; empty if there is none."""

    def keep(self, message: Any) -> None:
        """Compare later messages with this one; one that is not serialized is never repeated."""
        plain = isinstance(message, bytes) and message.startswith(LITTLE_ENDIAN)
        self.last = message if plain else b""
        self._rest = self.last[AFTER_STAMP:]

    def forget(self) -> None:
        """Let no message be a repetition until the next one is kept."""
        self._rest = self.last = b""

    def stamp_ns(self, message: Any) -> int | None:
        """Return the stamp of a message that repeats the kept one [ns]; None if it does not."""
        rest = self._rest
        if not rest or not message.endswith(rest) or len(message) != len(rest) + AFTER_STAMP:
            return None
        if not message.startswith(LITTLE_ENDIAN):
            return None
        return read_stamp(message)


class JointStateBuffer:
    """A serialized JointState of fixed joints, whose stamp and values are written in place."""

    def __init__(
        self, joints: Sequence[str], channels: Sequence[str] = CHANNELS, sender: str = ""
    ) -> None:
        """Create the message, with NaN in its channels.

        Args:
            joints: joint names.
            channels: channels with values; the others are empty.
            sender: frame_id of the header, by which a stream of commands is identified.

        Raises:
            ValueError: an unknown channel.
        """
        if not set(channels) <= set(CHANNELS):
            raise ValueError(f"channels are {list(channels)}; allowed are {', '.join(CHANNELS)}")
        data = bytearray(LITTLE_ENDIAN + b"\x00\x00")
        data += bytes(AFTER_STAMP - HEADER)
        add_text(data, sender)
        add_count(data, len(joints))
        for name in joints:
            add_text(data, name)
        starts: dict[str, int] = {}
        for channel in CHANNELS:
            count = len(joints) if channel in channels else 0
            add_count(data, count)
            if count:
                data += bytes(-(len(data) - HEADER) % 8)
                starts[channel] = len(data)
                data += bytes(8 * count)
        self._data = data
        self._views = {
            name: np.frombuffer(data, np.float64, len(joints), start)
            for name, start in starts.items()
        }
        for view in self._views.values():
            view[:] = np.nan

    def channel(self, name: str) -> Array:
        """Return a writable view of a channel, shape (n,); empty if the channel is."""
        return self._views.get(name, np.empty(0))

    @property
    def data(self) -> bytearray:
        """The serialized message itself."""
        return self._data

    def bytes(self, nanoseconds: int) -> bytes:
        """Return the serialized message with a stamp [ns]."""
        write_stamp(self._data, nanoseconds)
        return bytes(self._data)


_Messages = Sequence[tuple[Any, int | None]]
"""Messages, serialized or not, with their publication sequence numbers."""


def set_stamp(message: object, nanoseconds: int) -> None:
    """Set the stamp of a message's header [ns]."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    stamp.sec, stamp.nanosec = divmod(nanoseconds, 1_000_000_000)


def stamp_ns(message: object) -> int:
    """Return the stamp of a message's header [ns]."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


ACK_TIMEOUT = 0.2
"""[s] Max time to wait until a node's last command is acknowledged."""

MAX_STEP_TIME = 0.2
"""[s] Max duration of a motion that is plausible by the stamps of messages alone."""

OTHER_CLOCK = 10.0
"""[s] Age of a state by its stamp from which the stamp is that of another clock."""

MAX_LAYOUTS = 16
"""Max number of cached orders of joint names."""


class JointStateReader:
    """The newest measured state of some joints.

    Several publishers may share the topic, each for its own joints (an arm and its gripper). The
    state of a joint is used if its position is finite; messages with arrays of inconsistent lengths
    are ignored. Continuous joints that a driver reports within one turn are unwrapped here, and
    nowhere else; readers that began at different times may differ by whole turns.
    """

    def __init__(
        self,
        subscription: PolledSubscription[JointState] | PolledSubscription[bytes],
        joints: Sequence[str],
        by_velocity: Sequence[str] = (),
        plausibility: StatePlausibility | None = None,
        sources: SourceWatch | None = None,
        limits: JointLimits | None = None,
    ) -> None:
        """Create the reader.

        Args:
            subscription: messages, or serialized messages, which is several times faster.
            joints: names of the joints, in the order of the arrays.
            by_velocity: joints of which the velocity is required instead of the position.
            plausibility: check of changes of position; None to accept all.
            sources: detects several publishers of the same joints; None to accept them.
            limits: of the robot, whose continuous joints are unwrapped; None for none.
        """
        self._sources = sources
        self._plausibility = plausibility
        self.rejected = 0
        """Number of messages rejected as implausible."""
        self._subscription = subscription
        self.joint_names = tuple(joints)
        n = len(self.joint_names)
        self.position: Array = np.full(n, np.nan)
        """Measured positions [rad or m], shape (n,); NaN before the first message."""
        self.velocity: Array = np.zeros(n)
        """Measured velocities [rad/s or m/s], shape (n,); 0 if not reported."""
        self.effort: Array = np.full(n, np.nan)
        """Measured efforts [N m or N], shape (n,); NaN if not reported."""
        self.stamp_ns = 0
        """Stamp of the newest measurement [ns]."""
        self.problem = ""
        """Why the newest rejected message was rejected."""
        self._no_joints, self._all_joints = np.zeros(n, np.bool_), np.ones(n, np.bool_)
        self.updated = self._no_joints
        """Joints of which the last update read a state, shape (n,); read-only."""
        self.unchanged = False
        """Whether the last update read no message, or only repetitions of the state before it."""
        self._received_at: Array = np.full(n, -np.inf)
        """Time of each joint's newest state on ``time.monotonic()`` [s], shape (n,)."""
        self._reported_at: Array = np.full(n, -np.inf)
        """The same of its newest report, whether it was used or not."""
        self._oldest = -float("inf")
        self._messages, self._repeated = JointSampleReader(), RepeatedValues()
        self._places: NDArray[np.intp] = np.empty(0, np.intp)
        self._layouts: dict[bytes | tuple[str, ...], JointLayout] = {}
        self.encoders = encoder_turns(self.joint_names, limits)
        """Turns of the continuous joints."""
        self._by_velocity = np.array([name in by_velocity for name in joints], dtype=np.bool_)
        self._some_by_velocity = bool(self._by_velocity.any())

    @property
    def received(self) -> bool:
        """True once the state of every joint was received."""
        return self._oldest > -float("inf")

    @property
    def missing(self) -> tuple[str, ...]:
        """Joints that no received message contains; empty before the first message."""
        if self.received or not self._subscription.count:
            return ()
        return self._older_than(-float("inf"))

    def update(self) -> bool:
        """Read pending messages; return whether they updated a state that is complete."""
        messages = self._subscription.numbered()
        self.unchanged = self._repeat(messages)
        if self.unchanged:
            self.updated = self._all_joints if messages else self._no_joints
            return bool(messages)
        self._repeated.forget()
        self.updated = fresh = np.zeros(len(self.joint_names), dtype=bool)
        if self.encoders.used and len(messages) > 1:
            # No turn may be lost between two messages.
            for _, sample in reversed(list(self._samples(messages))):
                self._read(sample, newer := np.zeros(len(fresh), dtype=bool))
                fresh |= newer
        else:
            self._read_newest(messages, fresh)
        if not np.count_nonzero(fresh):
            return False
        self._received_at[fresh] = time.monotonic()
        self._oldest = float(self._received_at.min())
        return self.received

    def _read_newest(self, messages: _Messages, fresh: NDArray[np.bool_]) -> None:
        """Read messages, newest first, until all joints have a state; marks them in ``fresh``."""
        for message, sample in self._samples(messages):
            alone = not np.count_nonzero(fresh)
            self._read(sample, fresh)
            if np.count_nonzero(fresh) == len(fresh):
                if alone:
                    self._repeated.keep(message)
                break

    def _repeat(self, messages: _Messages) -> bool:
        """Use messages that all repeat the last state of all joints; return whether they do."""
        stamps = [self._repeated.stamp_ns(message) for message, _ in messages]
        if None in stamps:
            return False
        for (_, number), stamp in zip(messages, stamps, strict=True):
            self._note_repetition(stamp or 0, number)
        return True

    def _note_repetition(self, stamp: int, number: int | None) -> None:
        self._oldest, self.stamp_ns = time.monotonic(), stamp
        self._received_at.fill(self._oldest)
        self._reported_at.fill(self._oldest)
        if self.encoders.used:
            self.encoders.rest(stamp)
        if self._sources is not None:
            self._sources.note(self._places, number, self._oldest)

    def repeated_input(self) -> RepeatedInput:
        """Return the subscription with its last message, for cycles at rest."""
        return RepeatedInput(self._subscription, self._repeated.last, self.stamp_ns)

    def repeated(self, stamps: Sequence[int]) -> bool:
        """Note the messages of cycles at rest by their stamps [ns]; return whether there were any.

        Args:
            stamps: of the last messages, oldest first.
        """
        for stamp in stamps[-1:]:
            self._note_repetition(stamp, self._subscription.number)
        return bool(stamps)

    def measured_at(self, joints: NDArray[np.intp]) -> float:
        """Return when the states of joints were received, on ``time.monotonic()`` [s].

        Args:
            joints: indices, shape (k,).

        Returns:
            The time of the oldest of their newest states; minus infinity before the first.
        """
        return float(self._received_at[joints].min())

    def jumped(self) -> tuple[str, ...]:
        """Return the joints of which only implausible positions are reported."""
        jumped = self._reported_at > self._received_at + LATENESS
        return tuple(name for name, at in zip(self.joint_names, jumped, strict=True) if at)

    def age(self) -> float:
        """Return the wall time since the oldest joint state [s]; infinite before the first."""
        return time.monotonic() - self._oldest

    def fault(self, timeout: float) -> str:
        """Return why the state is not available, as text; empty if it is.

        Args:
            timeout: max age of each joint's state [s].
        """
        if not self.received:
            text = "waiting for joint_states"
            missing = self.missing
            if missing:
                text += f"; not reported: {', '.join(missing)}"
        elif self.age() > timeout:
            text = f"no joint_states for {self.age():.1f} s"
            late = self._older_than(time.monotonic() - timeout)
            if len(late) < len(self.joint_names):
                text += f" of {', '.join(late)}"
        else:
            return self.rival
        return f"{text} ({self.problem})" if self.problem else text

    def late(self, now_ns: int, lag: float) -> str:
        """Return that the states are late, as text; empty if they are not, or by another clock.

        Args:
            now_ns: ROS time [ns].
            lag: max age by the stamps, ``tracking_lag`` [s].
        """
        age = (now_ns - self.stamp_ns) * 1e-9
        if not lag < age < OTHER_CLOCK:
            return ""
        return f"joint_states are {age:.2f} s late, tracking_lag is {lag:g} s"

    @property
    def rival(self) -> str:
        """Description of several publishers of the same joint, empty if there are none."""
        joint = None if self._sources is None else self._sources.rival(time.monotonic())
        if joint is None:
            return ""
        topic = self._subscription.topic
        return f"several publishers on {topic} report {self.joint_names[joint]}"

    def _samples(self, messages: _Messages) -> Iterable[tuple[Any, JointSample]]:
        """Return the valid messages and their contents, newest first.

        Records which publisher reports which joints, if publishers are checked; otherwise messages
        are read only as far as needed.
        """
        if self._sources is None:
            newest_first = (message for message, _ in reversed(messages))
            return ((m, sample) for m in newest_first if (sample := self._sample(m)) is not None)
        samples, now = [], time.monotonic()
        for message, number in messages:
            sample = self._sample(message)
            if sample is not None and (layout := self._layout(sample)) is not None:
                samples.append((message, sample))
                self._places = layout.places
                self._sources.note(layout.places, number, now)
        return reversed(samples)

    def _sample(self, message: Any) -> JointSample | None:
        """Read a message; None if that is impossible."""
        try:
            return self._messages.read(message)
        except InvalidMessage as error:
            self.problem = str(error)
            return None

    def _older_than(self, moment: float) -> tuple[str, ...]:
        older = self._received_at <= moment
        return tuple(name for name, old in zip(self.joint_names, older, strict=True) if old)

    def _read(self, sample: JointSample, fresh: NDArray[np.bool_]) -> None:
        """Use the states of joints that no newer message contained; marks them in ``fresh``."""
        layout = self._layout(sample)
        if layout is None:
            return
        count, positions, velocities = layout.count, len(sample.position), len(sample.velocity)
        without = 0 if self._some_by_velocity else count
        if positions not in (count, without) or velocities not in (0, count):
            self.problem = (
                f"a message has {count} names, {positions} positions and {velocities} velocities"
            )
            return
        if not len(layout.places):
            return
        twice = layout.contradiction(sample.position, sample.velocity) if layout.repeated else None
        if twice is not None:
            name = sample.joint_names()[twice]
            self.problem = f"a message names {name} twice, with different values"
            return
        position, velocity = layout.values(sample.position), layout.values(sample.velocity)
        effort = layout.values(sample.effort if len(sample.effort) == count else sample.effort[:0])
        by_velocity = layout.by_velocity
        needed = position if by_velocity is None else np.where(by_velocity, velocity, position)
        good = np.abs(needed) <= JOINT_STATE.max
        all_good = np.count_nonzero(good) == len(good)
        if not all_good:
            first = int(np.argmin(good))
            what = "position" if by_velocity is None or not by_velocity[first] else "velocity"
            joint = self.joint_names[layout.places[first]]
            self.problem = f"the {what} of {joint} is {needed[first]}"
        first_of_all = not np.count_nonzero(fresh)
        places, raw, shift = layout.places, position, position
        if self.encoders.used:
            since = time.monotonic() - self._received_at[places]
            position, shift = self.encoders.unwrap(places, sample.stamp_ns, raw, velocity, since)
        if self._plausibility is not None:
            possible = self._possible(places, position, sample.stamp_ns)
            self._reported_at[places[good]] = time.monotonic()
            if possible is not None:
                good, all_good = good & possible, False
        reported = velocity
        slow = np.abs(velocity) <= VELOCITY.max
        if np.count_nonzero(slow) < len(slow):
            velocity = np.where(slow, velocity, 0.0)
        if not (all_good and first_of_all):
            usable = good & ~fresh[places]
            places, position, velocity = places[usable], position[usable], velocity[usable]
            effort, raw, reported, shift = (x[usable] for x in (effort, raw, reported, shift))
            if not len(places):
                return
        if first_of_all:
            self.stamp_ns = sample.stamp_ns
            self.problem = self.problem if not all_good else ""
        self.position[places], self.velocity[places] = position, velocity
        self.effort[places] = effort
        fresh[places] = True
        if self.encoders.used:
            self.encoders.keep(places, sample.stamp_ns, raw, reported, shift)

    def _possible(
        self, places: NDArray[np.intp], position: Array, stamp_ns: int
    ) -> NDArray[np.bool_] | None:
        """Return which joints can have moved to the reported positions; None: all of them."""
        assert self._plausibility is not None
        if not np.count_nonzero(np.abs(position - self.position[places]) > MEASURED_NOISE):
            return None
        # Simulated time may run faster than real time. A joint that was reported meanwhile has not
        # moved there in the time since its last plausible state: its encoder has jumped.
        passed = min(max((stamp_ns - self.stamp_ns) * 1e-9, 0.0), MAX_STEP_TIME)
        dt = np.maximum(time.monotonic() - self._reported_at[places], passed)
        possible = self._plausibility.possible(places, self.position[places], position, dt)
        if possible.all():
            return None
        self.rejected += 1
        i = int(np.argmin(possible))
        joint = self.joint_names[places[i]]
        self.problem = (
            f"{joint} is reported at {position[i]:.4g} after {self.position[places[i]]:.4g}, "
            "more than its velocity limit allows; check for a second publisher and the encoder, "
            "then call ~/reset of the joint controller"
        )
        return possible

    def forget(self) -> None:
        """Accept any next position, as after a jump of time."""
        self._received_at[:] = self._reported_at[:] = -np.inf
        if self.encoders.used:
            self.encoders.forget()
        self._repeated.forget()

    def _layout(self, sample: JointSample) -> JointLayout | None:
        """Return the layout of a message; None if its names cannot be used."""
        layout = self._layouts.get(sample.names)
        if layout is None:
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            try:
                names = sample.joint_names()
            except InvalidMessage as error:
                self.problem = str(error)
                return None
            if len(names) > NAMES:
                self.problem = f"a message has {len(names)} joints; allowed are {NAMES}"
                return None
            layout = JointLayout.of(names, self.joint_names, self._by_velocity)
            self._layouts[sample.names] = layout
        return layout


class JointStateWriter:
    """Publisher of serialized JointState messages, from one preallocated buffer.

    ``position``, ``velocity`` and ``effort`` are views of the message's arrays: write to them, then
    :meth:`send`.
    """

    def __init__(
        self,
        publisher: Any,
        joints: Sequence[str],
        *,
        position: bool = True,
        velocity: bool = True,
        effort: bool = False,
    ) -> None:
        """Create the message.

        Args:
            publisher: publisher of JointState.
            joints: names of the joints.
            position: whether messages have positions.
            velocity: whether messages have velocities.
            effort: whether messages have efforts.
        """
        channels = {"position": position, "velocity": velocity, "effort": effort}
        self._publisher = publisher
        self._joints, self._channels = joints, [name for name, used in channels.items() if used]
        self.name_sender("")

    def name_sender(self, sender: str) -> None:
        """Set the sender's name in the messages, and all values to NaN."""
        self._buffer = JointStateBuffer(self._joints, self._channels, sender)
        self.position: Array = self._buffer.channel("position")
        self.velocity: Array = self._buffer.channel("velocity")
        self.effort: Array = self._buffer.channel("effort")

    def repeated_output(self) -> RepeatedOutput:
        """Return the message as it is, for cycles at rest."""
        return RepeatedOutput(self._publisher, self._buffer.data)

    def send(self, nanoseconds: int) -> None:
        """Publish with a stamp [ns]."""
        self._publisher.publish(self._buffer.bytes(nanoseconds))

    def send_last(self, nanoseconds: int) -> None:
        """Publish the last message before the process exits, with a stamp [ns].

        It is published twice for best-effort subscriptions; reliable ones have
        :data:`ACK_TIMEOUT` to acknowledge it.
        """
        for _ in range(2):
            self.send(nanoseconds)
        self._publisher.wait_for_all_acked(Duration(seconds=ACK_TIMEOUT))
