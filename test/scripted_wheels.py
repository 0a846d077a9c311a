# SPDX-License-Identifier: Apache-2.0
"""Wheels that follow their commands; with slip, missing or wrong values on request."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from ros_client import BEST_EFFORT, RosClient
from sensor_msgs.msg import JointState


class ScriptedWheels:
    """The driver of a base: each :meth:`roll` advances its joints and publishes their state."""

    def __init__(self, client: RosClient, joints: Sequence[str], namespace: str = "") -> None:
        self.client = client
        self.angles = dict.fromkeys(joints, 0.0)
        self.speeds = dict.fromkeys(joints, 0.0)
        self.slip: dict[str, float] = {}
        """Velocity of joints in addition to the command [rad/s]."""
        self.channels: tuple[str, ...] = ("position", "velocity")
        """Fields of its messages."""
        self.also: dict[str, float] = {}
        """Additional or replaced positions [rad]."""
        self.without: tuple[str, ...] = ()
        """Joints that are missing in its messages."""
        self.commands = client.listen(JointState, f"{namespace}/joint_command", BEST_EFFORT)
        self._out = client.publisher(JointState, f"{namespace}/joint_states")
        self._before = time.monotonic()

    @property
    def told(self) -> tuple[float, ...]:
        """Last commanded velocities [rad/s]."""
        return tuple(self.commands.newest.velocity) if self.commands.newest else ()

    def roll(self) -> None:
        """Advance the joints to the present time, and publish their state."""
        now = time.monotonic()
        dt, self._before = now - self._before, now
        newest = self.commands.newest
        if newest is not None:
            told = dict(zip(newest.name, newest.velocity, strict=True))
            self.speeds |= {joint: v for joint, v in told.items() if math.isfinite(v)}
            targets = dict(zip(newest.name, newest.position, strict=False))
            self.angles |= {joint: q for joint, q in targets.items() if math.isfinite(q)}
        for joint in self.angles:
            self.angles[joint] += (self.speeds[joint] + self.slip.get(joint, 0.0)) * dt
        names = [joint for joint in self.angles if joint not in self.without]
        names += [joint for joint in self.also if joint not in self.angles]
        message = JointState(name=names)
        if "position" in self.channels:
            message.position = [self.also.get(n, self.angles.get(n, 0.0)) for n in names]
        if "velocity" in self.channels:
            message.velocity = [self.speeds.get(n, 0.0) + self.slip.get(n, 0.0) for n in names]
        message.header.stamp = self.client.node.get_clock().now().to_msg()
        self._out.publish(message)

    def until(
        self,
        condition: Callable[[], Any],
        what: str,
        *sends: Callable[[], None],
        rate: float = 50.0,
    ) -> Any:
        """Roll and send at a rate [Hz] until a condition is true; return its value."""

        def both() -> None:
            self.roll()
            for send in sends:
                send()

        return self.client.repeat(both, condition, what, rate=rate)

    def keep_on(self, seconds: float, *sends: Callable[[], None], rate: float = 50.0) -> None:
        """Roll and send at a rate [Hz] for a time [s]."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end, "the time", *sends, rate=rate)

    def until_diagnosed(
        self, node: str, text: str, *sends: Callable[[], None], level: bytes | None = None
    ) -> Any:
        """Roll and send until a node's report contains a text; return the report."""

        def found() -> Any:
            status = self.client.diagnostics(node)
            right = status is not None and text in status.message
            return status if right and level in (None, status.level) else None

        return self.until(found, f"{node} diagnoses '{text}'", *sends)
