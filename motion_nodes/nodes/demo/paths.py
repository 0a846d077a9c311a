# SPDX-License-Identifier: Apache-2.0
"""Paths of the demo's target and obstacle as functions of time; without ROS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motion_nodes.typing import Array

DOWN = (1.0, 0.0, 0.0, 0.0)
"""Quaternion (x, y, z, w) of a tool that points down."""


@dataclass(frozen=True)
class Eight:
    """A target on a figure eight, which starts and ends at rest."""

    centre: tuple[float, float, float] = (0.48, 0.0, 0.42)
    """[m]"""
    width: float = 0.2
    """Half width, along y [m]."""
    height: float = 0.07
    """Half height, along z [m]."""
    duration: float = 12.0
    """Duration at full speed [s]."""
    ease: float = 1.0
    """Duration of the acceleration, and of the deceleration [s]."""
    turns: float = 1.0
    """Number of turns; multiples of 0.5 end in the centre."""

    def at(self, t: float) -> Array:
        """Return the position at a time since the start [m], shape (3,)."""
        turn = 2.0 * np.pi * self.turns * self.progress(t) / self.duration
        x, y, z = self.centre
        return np.array(
            (x, y + self.width * np.sin(turn), z + self.height * np.sin(2.0 * turn)), np.float64
        )

    def progress(self, t: float) -> float:
        """Return the scaled time, with constant acceleration at the start and end [s]."""
        t = min(max(t, 0.0), self.duration + self.ease)
        braking = max(t - self.duration, 0.0)
        started = 0.5 * t * t / self.ease if t < self.ease else t - 0.5 * self.ease
        return started - 0.5 * braking * braking / self.ease

    @property
    def whole(self) -> float:
        """Total duration [s]."""
        return self.duration + self.ease

    @property
    def speed(self) -> float:
        """Max speed [m/s]."""
        t = np.linspace(self.ease, self.duration, 400)
        points = np.array([self.at(x) for x in t])
        return float(np.linalg.norm(np.diff(points, axis=0), axis=1).max() / (t[1] - t[0]))


@dataclass(frozen=True)
class Pass:
    """An obstacle on a straight line."""

    start: tuple[float, float, float] = (0.5, -0.62, 0.42)
    end: tuple[float, float, float] = (0.5, 0.62, 0.42)
    duration: float = 12.0
    """[s]"""

    def at(self, t: float) -> Array:
        """Return the position at a time since the start [m], shape (3,)."""
        share = min(max(t / self.duration, 0.0), 1.0)
        a, b = np.array(self.start), np.array(self.end)
        return np.asarray(a + share * (b - a))


class Pace:
    """Time along a path: that of the clock, without jumps when the client was delayed."""

    STEP = 0.06
    """Max time step [s]."""

    def __init__(self, begin: float) -> None:
        """Start at a clock time [s]."""
        self._clock, self._elapsed = [begin], [0.0]

    def to(self, now: float) -> float:
        """Advance to a clock time [s]; return the time along the path [s]."""
        step = min(max(now - self._clock[-1], 0.0), self.STEP)
        self._clock.append(max(now, self._clock[-1]))
        self._elapsed.append(self._elapsed[-1] + step)
        return self._elapsed[-1]

    def at(self, time: float) -> float:
        """Return the time along the path at an earlier clock time [s], interpolated."""
        return float(np.interp(time, self._clock, self._elapsed))
