# SPDX-License-Identifier: Apache-2.0
"""JointState messages to and from arrays in a fixed joint order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from sensor_msgs.msg import JointState

from motion_nodes.control.state_plausibility import StatePlausibility
from motion_nodes.model.bounds import JOINT_STATE, NAMES, VELOCITY
from motion_nodes.ros.concurrency.polled_subscription import PolledSubscription
from motion_nodes.ros.messages.cdr import InvalidMessage
from motion_nodes.ros.messages.joint_samples import JointSample, JointSampleReader, JointStateBuffer

Array = NDArray[np.float64]


def set_stamp(message: object, nanoseconds: int) -> None:
    """Write a time [ns] into a stamped message's header."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    stamp.sec, stamp.nanosec = divmod(nanoseconds, 1_000_000_000)


def stamp_ns(message: object) -> int:
    """Return the time [ns] in a stamped message's header."""
    stamp = message.header.stamp  # type: ignore[attr-defined]
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


_NONE: Array = np.empty(0)

LAST_WORD = 0.2
"""[s] How long a stopping node waits until its last command has arrived."""

MAX_STEP_TIME = 0.2
"""[s] By stamps alone no longer motion than this is plausible."""

MOST_LAYOUTS = 16
"""Orders of names that a reader remembers; publishers hardly ever change theirs."""


@dataclass(frozen=True)
class _Layout:
    """Which joints of a reader a message speaks of, and where."""

    count: int
    """How many joints the message speaks of."""
    places: NDArray[np.intp]
    """Indices into the reader's joints."""
    columns: NDArray[np.intp]
    """Indices into the message."""
    by_velocity: NDArray[np.bool_] | None
    """Of which of them the velocity is needed, None where of none."""


class JointStateReader:
    """The newest measured state of some joints, whatever else the messages carry.

    Several publishers may share the topic, each with its own joints (an arm and its gripper). What
    a message says of a joint counts when its position is a finite number; a message whose lengths
    do not fit together is not used at all.
    """

    def __init__(
        self,
        subscription: PolledSubscription[JointState] | PolledSubscription[bytes],
        joints: Sequence[str],
        by_velocity: Sequence[str] = (),
        plausibility: StatePlausibility | None = None,
    ) -> None:
        """Read ``joints`` from the messages of a polled subscription.

        Args:
            subscription: where the messages come, or their bytes, which is several times cheaper.
            joints: names, in the order of the arrays.
            by_velocity: those of them whose velocity is needed instead of their position.
            plausibility: which steps of positions are used; None: all.
        """
        self._plausibility = plausibility
        self.rejected = 0
        """Number of messages with implausible positions."""
        self._subscription = subscription
        self.joint_names = tuple(joints)
        n = len(self.joint_names)
        self.position: Array = np.full(n, np.nan)
        """Measured positions [rad or m], NaN before the first message."""
        self.velocity: Array = np.zeros(n)
        """Measured velocities [rad/s or m/s], 0 where the message has none."""
        self.effort: Array = np.full(n, np.nan)
        """Measured efforts [N m or N], NaN where the message has none."""
        self.stamp_ns = 0
        """Time of the newest measurement [ns]."""
        self.problem = ""
        """What was wrong with the newest message that could not be used."""
        self._heard: Array = np.full(n, -np.inf)
        self._oldest = -float("inf")
        self._messages = JointSampleReader()
        self._layouts: dict[bytes | tuple[str, ...], _Layout] = {}
        self._by_velocity = np.array([name in by_velocity for name in joints], dtype=np.bool_)
        self._some_by_velocity = bool(self._by_velocity.any())

    @property
    def received(self) -> bool:
        """True once the position of every joint is known."""
        return self._oldest > -float("inf")

    @property
    def missing(self) -> tuple[str, ...]:
        """Joints of which nothing was heard, once messages came."""
        if self.received or not self._subscription.count:
            return ()
        return self._unheard_since(-float("inf"))

    def update(self) -> bool:
        """Take what came; True when it was news, and every joint's position is known."""
        messages = self._subscription.all()
        if not messages:
            return False
        fresh = np.zeros(len(self.joint_names), dtype=bool)
        for message in reversed(messages):
            try:
                self._take(self._messages.read(message), fresh)
            except InvalidMessage as error:
                self.problem = str(error)
            if fresh.all():
                break
        if not fresh.any():
            return False
        self._heard[fresh] = time.monotonic()
        self._oldest = float(self._heard.min())
        return self.received

    def age(self) -> float:
        """Seconds of wall time since the joint heard of longest ago; infinite before the first."""
        return time.monotonic() - self._oldest

    def trouble(self, timeout: float) -> str:
        """Say in words what is missing, or nothing when all joints are younger than ``timeout``."""
        if not self.received:
            text = "waiting for joint_states"
            lacking = self.missing
            if lacking:
                text += f"; the messages lack {', '.join(lacking)}"
        elif self.age() > timeout:
            text = f"no joint_states for {self.age():.1f} s"
            silent = self._unheard_since(time.monotonic() - timeout)
            if len(silent) < len(self.joint_names):
                text += f" of {', '.join(silent)}"
        else:
            return ""
        return f"{text} ({self.problem})" if self.problem else text

    def _unheard_since(self, moment: float) -> tuple[str, ...]:
        return tuple(n for n, t in zip(self.joint_names, self._heard, strict=True) if t <= moment)

    def _take(self, sample: JointSample, fresh: NDArray[np.bool_]) -> None:
        """Use what a message says of joints that no newer message spoke of."""
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
        position, velocity = _values(sample.position, layout), _values(sample.velocity, layout)
        effort = _values(sample.effort if len(sample.effort) == count else _NONE, layout)
        by_velocity = layout.by_velocity
        needed = position if by_velocity is None else np.where(by_velocity, velocity, position)
        good = np.abs(needed) <= JOINT_STATE.max
        all_good = bool(good.all())
        if not all_good:
            first = int(np.argmin(good))
            what = "position" if by_velocity is None or not by_velocity[first] else "velocity"
            joint = self.joint_names[layout.places[first]]
            self.problem = f"the {what} of {joint} is {needed[first]}"
        first_of_all = not fresh.any()
        places = layout.places
        if self._plausibility is not None:
            possible = self._possible(places, position, sample.stamp_ns)
            if not possible.all():
                good, all_good = good & possible, False
        velocity = np.where(np.abs(velocity) <= VELOCITY.max, velocity, 0.0)
        if not (all_good and first_of_all):
            usable = good & ~fresh[places]
            places, position, velocity = places[usable], position[usable], velocity[usable]
            effort = effort[usable]
            if not len(places):
                return
        if first_of_all:
            self.stamp_ns = sample.stamp_ns
            self.problem = self.problem if not all_good else ""
        self.position[places], self.velocity[places] = position, velocity
        self.effort[places] = effort
        fresh[places] = True

    def _possible(
        self, places: NDArray[np.intp], position: Array, stamp_ns: int
    ) -> NDArray[np.bool_]:
        """Return which joints can have moved to where a message says they are."""
        assert self._plausibility is not None
        # Simulated time may run faster than the wall's.
        passed = min(max((stamp_ns - self.stamp_ns) * 1e-9, 0.0), MAX_STEP_TIME)
        dt = np.maximum(time.monotonic() - self._heard[places], passed)
        possible = self._plausibility.possible(places, self.position[places], position, dt)
        if not possible.all():
            self.rejected += 1
            i = int(np.argmin(possible))
            joint = self.joint_names[places[i]]
            self.problem = (
                f"{joint} is reported at {position[i]:.4g} after {self.position[places[i]]:.4g}, "
                "further than it can have moved; another publisher, or its encoder?"
            )
        return possible

    def forget(self) -> None:
        """Accept any position next, as after a jump of time."""
        self._heard[:] = -np.inf

    def _layout(self, sample: JointSample) -> _Layout | None:
        """Return where a message's joints are; None for one that names too many."""
        layout = self._layouts.get(sample.names)
        if layout is None:
            if len(self._layouts) >= MOST_LAYOUTS:
                self._layouts.clear()
            names = sample.joint_names()
            if len(names) > NAMES:
                self.problem = f"a message names {len(names)} joints; allowed are {NAMES}"
                return None
            where = {name: i for i, name in enumerate(names)}
            pairs = [(i, where[n]) for i, n in enumerate(self.joint_names) if n in where]
            places = np.array([place for place, _ in pairs], dtype=np.intp)
            columns = np.array([column for _, column in pairs], dtype=np.intp)
            by_velocity = self._by_velocity[places]
            layout = _Layout(
                len(names), places, columns, by_velocity if by_velocity.any() else None
            )
            self._layouts[sample.names] = layout
        return layout


def _values(channel: Array, layout: _Layout) -> Array:
    """Return a message's values of a reader's joints; NaN where the channel is empty."""
    if not len(channel):
        return np.full(len(layout.columns), np.nan)
    return channel[layout.columns]


class JointStateWriter:
    """Publishes JointState messages as bytes, from one buffer that is laid out once.

    Attributes of the same names are views into the message's arrays: write, then :meth:`send`.
    """

    def __init__(
        self,
        publisher: object,
        joints: Sequence[str],
        *,
        position: bool = True,
        velocity: bool = True,
        effort: bool = False,
    ) -> None:
        """Prepare a message over ``joints`` with the channels that are wanted."""
        wanted = {"position": position, "velocity": velocity, "effort": effort}
        self._publisher = publisher
        self._joints, self._channels = joints, [name for name, has in wanted.items() if has]
        self.name_sender("")

    def name_sender(self, sender: str) -> None:
        """Have the messages bear a name; their numbers are NaN until they are written."""
        self._buffer = JointStateBuffer(self._joints, self._channels, sender)
        self.position: Array = self._buffer.channel("position")
        self.velocity: Array = self._buffer.channel("velocity")
        self.effort: Array = self._buffer.channel("effort")

    def send(self, nanoseconds: int) -> None:
        """Publish with a time stamp [ns]."""
        self._publisher.publish(self._buffer.bytes(nanoseconds))  # type: ignore[attr-defined]

    def send_last(self, nanoseconds: int) -> None:
        """Publish what must not be lost, for the process may end at once.

        Said twice, for some readers are best-effort; reliable ones have :data:`LAST_WORD` to
        acknowledge it.
        """
        for _ in range(2):
            self.send(nanoseconds)
        self._publisher.wait_for_all_acked(Duration(seconds=LAST_WORD))  # type: ignore[attr-defined]
