# SPDX-License-Identifier: Apache-2.0
"""Lines between the suite and the board of a two-wheeled base (docs/real_robots.md).

    W left right*hh      velocities of the wheels [encoder counts/s], integers
    Q*hh                 request of the state, without a command
    E 0|1*hh             motors off or on
    S left right vleft vright flags*hh      answer to each of them: counts, counts/s, flags

``hh`` is the exclusive or of the bytes before ``*``, as two hexadecimal digits. A watchdog of
the board stops the motors 0.2 s after the last ``W``.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import NamedTuple

from motion_nodes.hardware.robot_driver import DriverFault

FLAGS = {2: "a motor driver reports a fault", 4: "the battery is low", 8: "an encoder failed"}
"""Faults by bit; bit 1: the board's watchdog has stopped the motors."""
WATCHDOG = 1
MAX_LINE = 100
"""Max number of bytes in a line; longer ones are invalid."""


class WheelState(NamedTuple):
    """An answer of the board."""

    positions: tuple[int, int]
    """Left and right [counts]."""
    velocities: tuple[int, int]
    """Left and right [counts/s]."""
    flags: int


def line(text: str) -> bytes:
    """Return a line with its checksum."""
    data = text.encode("ascii")
    return data + b"*%02x\n" % reduce(xor, data, 0)


def take_line(buffer: bytearray) -> bytes | None:
    """Remove the first complete line from received bytes; None if there is none."""
    end = buffer.find(b"\n")
    if end < 0:
        del buffer[: max(len(buffer) - MAX_LINE, 0)]
        return None
    found = bytes(buffer[:end])
    del buffer[: end + 1]
    return found


def state_in(data: bytes) -> WheelState:
    """Return the state in a line.

    Raises:
        DriverFault: a damaged line, or one without a state.
    """
    if len(data) > MAX_LINE:
        raise DriverFault(f"the board sent a line of {len(data)} bytes; allowed are {MAX_LINE}")
    text, star, given = data.strip().rpartition(b"*")
    if not star or b"%02x" % reduce(xor, text, 0) != given.lower():
        raise DriverFault("a line of the board has a wrong checksum")
    words = text.split()
    if len(words) != 6 or words[0] != b"S":
        raise DriverFault(f"the board sent {text[:40]!r} instead of its state")
    try:
        left, right, v_left, v_right, flags = (int(word) for word in words[1:])
    except ValueError:
        raise DriverFault(f"the board sent {text[:40]!r} instead of its state") from None
    return WheelState((left, right), (v_left, v_right), flags)


def faults_in(flags: int) -> tuple[str, ...]:
    """Return the faults in the flags, as text."""
    return tuple(text for bit, text in FLAGS.items() if flags & bit)
