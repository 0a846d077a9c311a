# SPDX-License-Identifier: Apache-2.0
"""Where the demo's target and obstacle are, as functions of time. No ROS, no clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.model.tree import Array

DOWN = (1.0, 0.0, 0.0, 0.0)
"""quat_xyzw of a tool that looks down."""


@dataclass(frozen=True)
class Eight:
    """A target on a lying eight, whose speed begins and ends with zero.

    ``duration`` [s] is one round, ``ease`` [s] how long it takes to get to its speed.
    """

    centre: tuple[float, float, float] = (0.48, 0.0, 0.42)
    width: float = 0.2
    """Half of it, along y [m]."""
    height: float = 0.07
    """Half of it, along z [m]."""
    duration: float = 12.0
    ease: float = 1.0
    turns: float = 1.0
    """Half a turn ends in the centre as well."""

    def at(self, t: float) -> Array:
        """Return the position at a time since the beginning [m], shape (3,)."""
        turn = 2.0 * np.pi * self.turns * self.progress(t) / self.duration
        x, y, z = self.centre
        return np.array(
            (x, y + self.width * np.sin(turn), z + self.height * np.sin(2.0 * turn)), np.float64
        )

    def progress(self, t: float) -> float:
        """Return the time on the eight, which begins and ends gently."""
        t = min(max(t, 0.0), self.duration + self.ease)
        late = t - self.duration
        begun = 0.5 * t * t / self.ease if t < self.ease else t - 0.5 * self.ease
        return begun - (0.5 * late * late / self.ease if late > 0.0 else 0.0)

    @property
    def whole(self) -> float:
        """How long a round takes with both its ends [s]."""
        return self.duration + self.ease

    @property
    def speed(self) -> float:
        """The greatest on it [m/s]."""
        t = np.linspace(self.ease, self.duration, 400)
        places = np.array([self.at(x) for x in t])
        return float(np.linalg.norm(np.diff(places, axis=0), axis=1).max() / (t[1] - t[0]))


@dataclass(frozen=True)
class Pass:
    """An obstacle that goes across and stays on the other side."""

    start: tuple[float, float, float] = (0.5, -0.62, 0.42)
    end: tuple[float, float, float] = (0.5, 0.62, 0.42)
    duration: float = 12.0
    """[s]"""

    def at(self, t: float) -> Array:
        """Return the position at a time since the beginning [m], shape (3,)."""
        share = min(max(t / self.duration, 0.0), 1.0)
        a, b = np.array(self.start), np.array(self.end)
        return np.asarray(a + share * (b - a))


class Pace:
    """How far along a path its leader has gone: with the clock, but without leaps.

    A leader that got no processor for a while goes on from where it was.
    """

    STEP = 0.06
    """[s] The most in one step."""

    def __init__(self, begin: float) -> None:
        """Begin at a time [s]."""
        self._clock, self._gone = [begin], [0.0]

    def to(self, now: float) -> float:
        """Go on to a time [s]; return the time gone since the beginning [s]."""
        step = min(max(now - self._clock[-1], 0.0), self.STEP)
        self._clock.append(max(now, self._clock[-1]))
        self._gone.append(self._gone[-1] + step)
        return self._gone[-1]

    def at(self, time: float) -> float:
        """Return how much time was gone at a time [s], so far as it was led."""
        # Between two steps the path was where the step before had led it, on its way to the next.
        return float(np.interp(time, self._clock, self._gone))
