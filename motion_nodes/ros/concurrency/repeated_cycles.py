# SPDX-License-Identifier: Apache-2.0
"""Cycles of a loop at rest, as one compiled function on serialized messages.

At rest nothing changes between two cycles but time stamps: inputs are silent or repeat their last
message, and the outputs repeat theirs. Such a cycle takes and publishes by rcl, without a Python
object of a message. At 250 Hz, Python between these calls would cost several times as much as they
do, since its memory leaves the processor's caches between two cycles. A message that is no
repetition is put back into its subscription, and the node's own cycle follows at the same deadline;
it also follows after a number of cycles, for what depends on time.

Two functions: :data:`control_cycle` serves deadlines of a clock, as nodes do that control a robot;
:data:`simulation_cycle` advances simulated time, as the simulation does that publishes this clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.kernels.cycle_code import (
    BoundCycle,
    CycleFunction,
    c_call,
    cycle_function,
    cycle_part,
)
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.cdr import AFTER_STAMP, HEADER
from motion_nodes.ros.ros_time import ClockReader
from motion_nodes.typing import Array

RAN, ENDED, CHANGED, TIME = range(4)
"""Results of a cycle: it ran; the number of cycles is reached; a message is no repetition; time did
not advance as in a steady cycle. In all but the first nothing was published."""
MAX_DUE = 3
"""Max number of deadlines served in one cycle; further ones are served in the next."""
MAX_ADVANCE = 10.0
"""Max advance of time in a cycle [periods of the deadlines]."""
MAX_PENDING = 16
"""Max number of messages of one subscription that a cycle takes."""
MAX_SERVED = 256
"""Number of stamps that are kept."""

_NS = 1_000_000_000
_RCL_OK = 0
_PLAIN = 0x0100
"""First two bytes of a little-endian message, as such an integer."""
_TAKE, _PUBLISH, _COMPARE, _COPY = range(4)
_BUFFER, _LENGTH, _CAPACITY = range(3)
"""Words of rcl_serialized_message_t."""
_SENT, _RECEIVED, _NUMBER = range(3)
"""Words of rmw_message_info_t: time stamps of source and reception, sequence number."""
_SUBSCRIPTION, _BODY, _SIZE, _STAMP, _BEFORE_LAST, _COUNT, _LAST_NUMBER, _LAST_SENT, _SLACK = range(
    9
)
"""Of a repeated input: its rcl_subscription_t; bytes after the stamp; their number; last stamps
[ns]; number of messages; sequence number and time [ns] of the last; time after its last stamp that
a simulation may reach, -1 without bound [ns]."""
_PUBLISHER, _MESSAGE, _DATA, _PERIOD, _DUE = range(5)
"""Of an output: its rcl_publisher_t; its message; bytes of the message; period, and earliest stamp
of the next one [ns]."""
(_HEAD_AT, _MESSAGE_AT, _INFO_AT, _LEFT, _FOUND, _SERVED, _STEPS, _NOW, _BEFORE, _MAX_ADVANCE,
 _ORIGIN, _INDEX, _CLOCK) = range(13)  # fmt: skip
"""Addresses of three fields; cycles left; input with a new message: a silent one, or -1 - the index
of a repeated one; number of stamps, of steps; time now, in the last cycle, its max advance [ns];
origin and index of the next deadline; subscription of /clock, 0 without one."""
_DEADLINES, _WALL, _STARTED, _FACTOR, _STEP, _TIME, _MOST = range(7)
"""Period of deadlines [ns]; wall time, its value at simulated time 0 [s]; real-time factor; step,
time and max advance of the simulation in a cycle [s]."""


_LOG = logging.getLogger(__name__)


class CycleMemory(NamedTuple):
    """What a cycle reads and writes; the words of its rows are named above."""

    calls: NDArray[np.int64]
    """Addresses of rcl_take_serialized_message, rcl_publish_serialized_message, memcmp, memcpy."""
    message: NDArray[np.int64]
    """The rcl_serialized_message_t of taken messages."""
    info: NDArray[np.int64]
    """Their rmw_message_info_t."""
    head: NDArray[np.int32]
    """Beginning of a message: encapsulation, seconds, nanoseconds."""
    silent: NDArray[np.int64]
    """Subscriptions in which any message is a change."""
    repeated: NDArray[np.int64]
    """Inputs that repeat their last message."""
    outputs: NDArray[np.int64]
    """Outputs that are published again."""
    served: NDArray[np.int64]
    """Stamps of the outputs [ns], a ring."""
    numbers: NDArray[np.int64]
    """Integers."""
    times: Array
    """Real numbers."""

    @classmethod
    def of(cls, silent: int, repeated: int, outputs: int) -> CycleMemory:
        """Return a memory for numbers of inputs and outputs."""
        return cls(
            calls=np.zeros(4, np.int64), message=np.zeros(8, np.int64),
            info=np.zeros(32, np.int64), head=np.zeros(3, np.int32),
            silent=np.zeros(silent, np.int64), repeated=np.zeros((repeated, 9), np.int64),
            outputs=np.zeros((outputs, 5), np.int64), served=np.zeros(MAX_SERVED, np.int64),
            numbers=np.zeros(13, np.int64), times=np.zeros(7),
        )  # fmt: skip


@cycle_part
def taken(m: CycleMemory, subscription: int) -> bool:
    """Take a message of a subscription; return whether one was pending."""
    n = m.numbers
    return c_call(m.calls[_TAKE], subscription, n[_MESSAGE_AT], n[_INFO_AT], 0) == _RCL_OK


@cycle_part
def stamp_of(m: CycleMemory) -> int:
    """Return the stamp of the taken message [ns]; -1 if it cannot be read here."""
    if m.message[_LENGTH] < AFTER_STAMP:
        return -1
    c_call(m.calls[_COPY], m.numbers[_HEAD_AT], m.message[_BUFFER], AFTER_STAMP, 0)
    if m.head[0] & 0xFFFF != _PLAIN or m.head[1] < 0 or m.head[2] < 0:
        return -1
    return int(m.head[1]) * _NS + int(m.head[2])


@cycle_part
def repeats(m: CycleMemory, row: int) -> bool:
    """Note the taken message of an input; return whether it repeats the last one."""
    r = m.repeated
    stamp = stamp_of(m)
    if stamp < 0 or m.message[_LENGTH] != r[row, _SIZE] + AFTER_STAMP:
        return False
    body = m.message[_BUFFER] + AFTER_STAMP
    if c_call(m.calls[_COMPARE], body, r[row, _BODY], r[row, _SIZE], 0) != 0:
        return False
    if m.info[_NUMBER] >= 0 and m.info[_NUMBER] <= r[row, _LAST_NUMBER]:
        return False  # of another publisher
    r[row, _LAST_NUMBER], r[row, _LAST_SENT] = m.info[_NUMBER], m.info[_SENT]
    r[row, _BEFORE_LAST], r[row, _STAMP] = r[row, _STAMP], stamp
    r[row, _COUNT] += 1
    return True


@cycle_part
def unchanged(m: CycleMemory) -> bool:
    """Take all inputs; return False at the first message that is no repetition."""
    n = m.numbers
    for i in range(len(m.silent)):
        if taken(m, m.silent[i]):
            n[_FOUND] = i
            return False
    for row in range(len(m.repeated)):
        for _ in range(MAX_PENDING):
            if not taken(m, m.repeated[row, _SUBSCRIPTION]):
                break
            if not repeats(m, row):
                n[_FOUND] = -1 - row
                return False
    return True


@cycle_part
def next_due(due: int, stamp: int, period: int) -> int:
    """Return the earliest stamp of the next message of an output [ns].

    Args:
        due: that of this message; late ones do not delay the next.
        stamp: stamp of this message [ns].
        period: of the messages [ns].
    """
    return due + period if due <= stamp < due + period else stamp + period


@cycle_part
def send(m: CycleMemory, stamp: int) -> None:
    """Publish the outputs that are due, with a stamp [ns]."""
    n, out = m.numbers, m.outputs
    seconds = stamp // _NS
    m.head[1], m.head[2] = seconds, stamp - seconds * _NS
    for k in range(len(out)):
        if stamp < out[k, _DUE]:
            continue
        out[k, _DUE] = next_due(out[k, _DUE], stamp, out[k, _PERIOD])
        c_call(
            m.calls[_COPY], out[k, _DATA] + HEADER, n[_HEAD_AT] + HEADER, AFTER_STAMP - HEADER, 0
        )
        c_call(m.calls[_PUBLISH], out[k, _PUBLISHER], out[k, _MESSAGE], 0, 0)
    m.served[n[_SERVED] % MAX_SERVED] = stamp
    n[_SERVED] += 1


@cycle_function(CycleMemory.of(1, 1, 1))
def control_cycle(m: CycleMemory) -> int:
    """Repeat the outputs for each deadline of a clock."""
    n = m.numbers
    if n[_LEFT] <= 0:
        return ENDED
    if n[_CLOCK] != 0 and taken(m, n[_CLOCK]):
        stamp = stamp_of(m)
        if stamp >= 0:
            n[_NOW] = stamp
    if not unchanged(m):
        return CHANGED
    now = n[_NOW]
    if now < n[_BEFORE] or now > n[_BEFORE] + n[_MAX_ADVANCE]:
        return TIME
    n[_BEFORE] = now
    for _ in range(MAX_DUE):
        due = n[_ORIGIN] + round(n[_INDEX] * m.times[_DEADLINES])
        if due > now:
            break
        send(m, due)
        n[_INDEX] += 1
    n[_LEFT] -= 1
    return RAN


@cycle_function(CycleMemory.of(1, 1, 1))
def simulation_cycle(m: CycleMemory) -> int:
    """Advance simulated time, and repeat the outputs at its end."""
    n, t = m.numbers, m.times
    if n[_LEFT] <= 0:
        return ENDED
    if not unchanged(m):
        return CHANGED
    due = (t[_WALL] - t[_STARTED]) * t[_FACTOR] - t[_TIME]
    if not -t[_STEP] < due <= t[_MOST]:
        return TIME
    steps = int(due / t[_STEP] + 1e-6)
    end = round((t[_TIME] + steps * t[_STEP]) * 1e9)
    for row in range(len(m.repeated)):
        if m.repeated[row, _SLACK] >= 0 and end > m.repeated[row, _STAMP] + m.repeated[row, _SLACK]:
            return TIME  # its next reference is late
    n[_LEFT] -= 1
    if steps == 0:
        return RAN
    for _ in range(steps):
        t[_TIME] += t[_STEP]
    n[_STEPS] += steps
    send(m, round(t[_TIME] * 1e9))
    return RAN


class _Allocator(ctypes.Structure):
    """The rcutils_allocator_t."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("allocate", "deallocate", "reallocate", "zero_allocate", "state")
    ]


@functools.cache
def _library(name: str) -> Any:
    """Return a library that rclpy has loaded."""
    return ctypes.CDLL(name)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@functools.cache
def c_functions() -> tuple[int, ...]:
    """Return the addresses of :attr:`CycleMemory.calls`.

    Raises:
        OSError: rclpy's libraries are not found by their names.
        AttributeError: they do not have the functions.
    """
    rcl, libc = _library("librcl.so"), ctypes.CDLL(None)
    return tuple(
        _address(function) for function in
        (rcl.rcl_take_serialized_message, rcl.rcl_publish_serialized_message, libc.memcmp,
         libc.memcpy)
    )  # fmt: skip


class _TakenMessage:
    """Memory of taken messages, which rcl enlarges where necessary."""

    def __init__(self) -> None:
        library = _library("librcutils.so")
        library.rcutils_get_default_allocator.restype = _Allocator
        self._allocator = library.rcutils_get_default_allocator()
        self._end = library.rcutils_uint8_array_fini
        self.words: NDArray[np.int64] = np.zeros(8, np.int64)
        self._pointer = ctypes.c_void_p(self.words.ctypes.data)
        begin, size = library.rcutils_uint8_array_init, ctypes.c_size_t(1024)
        if begin(self._pointer, size, ctypes.byref(self._allocator)) != 0:
            raise MemoryError("no memory for messages")

    def bytes(self) -> bytes:
        """Return the last message."""
        return ctypes.string_at(int(self.words[_BUFFER]), int(self.words[_LENGTH]))

    def __del__(self) -> None:
        self._end(self._pointer)


class RepeatedInput(NamedTuple):
    """An input that repeats its last message."""

    subscription: PolledSubscription[bytes]
    """Of serialized messages."""
    last: bytes
    """Its last message; empty: any message is a change."""
    stamp_ns: int = 0
    """Stamp of the last message [ns]."""
    slack_ns: int = -1
    """Max advance of a simulation after its last stamp [ns]; -1 for no bound."""


class RepeatedOutput(NamedTuple):
    """An output that is published again, with other stamps."""

    publisher: Any
    """Of rclpy."""
    message: bytearray
    """Its serialized message, which begins with a stamp; it is written in place."""
    period_ns: int = 0
    """Its period [ns]; 0: with each deadline."""
    due_ns: int = 0
    """Earliest stamp [ns]."""


class RepeatedCycles:
    """Runs the cycles of one loop at rest."""

    def __init__(self, function: CycleFunction[CycleMemory]) -> None:
        """Create without inputs and outputs.

        Args:
            function: :data:`control_cycle` or :data:`simulation_cycle`.
        """
        self._function = function
        self._taken: _TakenMessage | None = None
        self._possible = True
        """Whether rclpy's libraries have what is needed."""
        self._handles = contextlib.ExitStack()
        self._held: list[Any] = []
        """Handles of rcl that are protected from destruction."""
        self._silent: Sequence[PolledSubscription[Any]] = ()
        self._inputs: Sequence[RepeatedInput] = ()
        self._outputs: Sequence[RepeatedOutput] = ()
        self._kept: list[Any] = []
        self._numbers: memoryview[Any]
        self._times: memoryview[Any]
        self._clock: ClockReader | None = None
        self._call: BoundCycle[CycleMemory] | None = None
        self.memory = CycleMemory.of(0, 0, 0)
        """Of the cycles; read it between :meth:`end` and the next :meth:`begin`."""
        self.armed = False
        """Whether the next cycle may be a repeated one."""

    @property
    def ready(self) -> bool:
        """Whether the compiled function is loaded, which happens some time after the start."""
        if self._call is None and self._possible:
            try:
                self._bind((), (), ())
            except (OSError, AttributeError) as error:
                self._possible = False
                _LOG.warning("cycles at rest run in Python, which takes longer: %s", error)
        return self._possible and self._function.run is not None

    def begin(
        self,
        cycles: int,
        silent: Sequence[PolledSubscription[Any]],
        inputs: Sequence[RepeatedInput],
        outputs: Sequence[RepeatedOutput],
    ) -> None:
        """Let the next cycles be repeated ones, unless a message that was put back is unread.

        Args:
            cycles: max number of cycles.
            silent: subscriptions in which any message is a change.
            inputs: that repeat their last message.
            outputs: that are published.
        """
        handles = [each.handle for each in (*silent, *(i.subscription for i in inputs))]
        handles += [output.publisher.handle for output in outputs]
        same = len(handles) == len(self._held) and all(map(_is, handles, self._held))
        if not same or self._call is None:
            self._bind(silent, inputs, outputs)
            self._hold(handles)
        self._inputs, self._outputs, m = inputs, outputs, self.memory
        self._kept = [(np.frombuffer(i.last, np.uint8), i) for i in inputs]
        for row, (body, given) in enumerate(self._kept):
            number = given.subscription.number
            m.repeated[row, 1:] = (
                body.ctypes.data + AFTER_STAMP, len(body) - AFTER_STAMP, given.stamp_ns,
                given.stamp_ns, 0, -1 if number is None else number, 0, given.slack_ns,
            )  # fmt: skip
        for k, output in enumerate(outputs):
            message = self._messages[k]
            data = np.frombuffer(output.message, np.uint8)
            message[_BUFFER] = data.ctypes.data
            message[_LENGTH] = message[_CAPACITY] = len(data)
            m.outputs[k, _DATA:] = data.ctypes.data, output.period_ns, output.due_ns
        n = m.numbers
        n[_LEFT], n[_FOUND], n[_SERVED], n[_STEPS] = cycles, 0, 0, 0
        self.armed = not any(each.returned for each in silent)

    def follow(
        self, clock: ClockReader | None, now_ns: int, deadlines: tuple[int, int, float]
    ) -> None:
        """Set the time of :data:`control_cycle`; before the first cycle after :meth:`begin`.

        Args:
            clock: reader of /clock; None: the wall clock.
            now_ns: time of this cycle [ns].
            deadlines: origin [ns], index of the next one, period [ns].
        """
        n, self._clock = self.memory.numbers, clock
        n[_CLOCK] = 0 if clock is None else clock.handle.pointer
        n[_NOW], n[_BEFORE], n[_MAX_ADVANCE] = now_ns, now_ns, round(MAX_ADVANCE * deadlines[2])
        n[_ORIGIN], n[_INDEX], self.memory.times[_DEADLINES] = deadlines

    def advance(self, started: float, factor: float, step: float, now: float, most: float) -> None:
        """Set the time of :data:`simulation_cycle`; before the first cycle after :meth:`begin`.

        Args:
            started: ``time.monotonic()`` at simulated time 0 [s].
            factor: real-time factor.
            step: length of a step [s].
            now: simulated time [s].
            most: max advance in a cycle [s].
        """
        self.memory.times[_STARTED:] = started, factor, step, now, most

    def run(self) -> bool:
        """Run a cycle; return whether it ran, otherwise the node's own one is due."""
        assert self._call is not None
        clock = self._clock
        if clock is None:
            self._numbers[_NOW], self._times[_WALL] = time.time_ns(), time.monotonic()
            result = self._call()
        elif clock.lock.acquire(blocking=False):
            try:
                self._numbers[_NOW] = clock.newest_ns
                result = self._call()
                clock.note(self._numbers[_NOW])
            finally:
                clock.lock.release()
        else:  # another thread reads it
            return False
        if result == CHANGED:
            self._put_back()
        return result == RAN

    @property
    def now_ns(self) -> int:
        """Time of the last cycle of :data:`control_cycle` [ns]."""
        return int(self._numbers[_NOW])

    def end(self) -> Repetitions:
        """End the repeated cycles; the inputs' subscriptions know their messages."""
        self.armed, n, moment = False, self.memory.numbers, time.monotonic()
        stamps = []
        for row, given in enumerate(self._inputs):
            words = self.memory.repeated[row].tolist()
            stamps.append((words[_BEFORE_LAST], words[_STAMP])[-min(words[_COUNT], 2) :]
                          if words[_COUNT] else ())  # fmt: skip
            if words[_COUNT]:
                number = words[_LAST_NUMBER]
                given.subscription.note(
                    words[_COUNT], None if number < 0 else number, words[_LAST_SENT], moment
                )
        count = int(n[_SERVED])
        served = [int(self.memory.served[k % MAX_SERVED])
                  for k in range(max(count - MAX_SERVED, 0), count)]  # fmt: skip
        self._kept = []
        return Repetitions(served, count, stamps, int(n[_STEPS]), int(n[_INDEX]),
                           [int(row[_DUE]) for row in self.memory.outputs])  # fmt: skip

    def close(self) -> None:
        """Allow the destruction of publishers and subscriptions."""
        self.armed = False
        self._handles.close()
        self._held = []
        self._call = None

    # ---- inside

    def _bind(
        self,
        silent: Sequence[PolledSubscription[Any]],
        inputs: Sequence[RepeatedInput],
        outputs: Sequence[RepeatedOutput],
    ) -> None:
        self._silent = silent
        if self._taken is None:
            self._taken = _TakenMessage()
        m = CycleMemory.of(len(silent), len(inputs), len(outputs))
        m = self.memory = m._replace(message=self._taken.words)
        m.calls[:] = c_functions()
        m.silent[:] = [each.handle.pointer for each in silent]
        m.repeated[:, _SUBSCRIPTION] = [each.subscription.handle.pointer for each in inputs]
        self._messages: NDArray[np.int64] = np.zeros((len(outputs), 8), np.int64)
        m.outputs[:, _PUBLISHER] = [each.publisher.handle.pointer for each in outputs]
        m.outputs[:, _MESSAGE] = [message.ctypes.data for message in self._messages]
        m.numbers[[_HEAD_AT, _MESSAGE_AT, _INFO_AT]] = (
            m.head.ctypes.data, m.message.ctypes.data, m.info.ctypes.data
        )  # fmt: skip
        # Elements of memory views are set in half the time.
        self._numbers, self._times = m.numbers.data, m.times.data
        self._call = self._function.bind(m)

    def _hold(self, handles: Sequence[Any]) -> None:
        self._handles.close()
        for handle in handles:
            self._handles.enter_context(handle)
        self._held = list(handles)

    def _put_back(self) -> None:
        """Return the message that is no repetition to its subscription."""
        assert self._taken is not None
        found, info = int(self.memory.numbers[_FOUND]), self.memory.info.tolist()
        number = info[_NUMBER]
        subscription = self._silent[found] if found >= 0 else self._inputs[-1 - found].subscription
        subscription.put_back(
            self._taken.bytes(),
            {
                "source_timestamp": info[_SENT],
                "received_timestamp": info[_RECEIVED],
                "publication_sequence_number": None if number < 0 else number,
                "reception_sequence_number": None,
            },
        )


class Repetitions(NamedTuple):
    """What happened in repeated cycles."""

    stamps: list[int]
    """Stamps of the outputs [ns], of the last :data:`MAX_SERVED` ones."""
    total: int
    """Number of stamps."""
    inputs: list[tuple[int, ...]]
    """Per input: stamps of its last messages [ns], at most two."""
    steps: int
    """Number of steps of a simulation."""
    next_index: int
    """Index of the next deadline."""
    due: list[int]
    """Per output: earliest stamp of the next message [ns]."""


def _is(a: object, b: object) -> bool:
    return a is b
