# SPDX-License-Identifier: Apache-2.0
"""Viable joint accelerations: the joint can still stop before its limits with bounded jerk.

A state is viable if braking, i.e. jerk -J until the acceleration is -B and then constant -B, stops
the joint before its position limit without exceeding its velocity limit. Of the accelerations
reachable from the last one, those that lead to a viable state form an interval; the desired
acceleration is clamped to it. Braking keeps a viable state viable, so the interval is never empty.

The formulas work on expression graphs and on NumPy arrays, depending on ``ops``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INPUTS = ("q", "qd", "last", "desired", "lower", "upper", "speed", "acceleration", "jerk", "dt")
"""Values per joint [rad or m, s]; ``last`` is the previous acceleration, ``dt`` the time step."""
_HALVINGS = 24
_SLACK = 1e-12


@dataclass(frozen=True)
class _Brake:
    """Limits of a joint on one side, mirrored to the upper side."""

    ops: Any
    room: Any
    """Distance to the limit after the step [rad or m]."""
    qd: Any
    speed: Any
    B: Any
    J: Any
    dt: Any

    def stops(self, a: Any) -> Any:
        """Return 1 if acceleration ``a`` during the step leads to a viable state, else 0."""
        ops = self.ops
        v, J = self.qd + a * self.dt, self.J
        rising = ops.maximum(a, 0.0)
        peak = v + ops.divide(rising * rising, 2.0 * J)
        # The velocity is constant within a step, so a step may exceed the continuous motion.
        reach = self._stop(v, a) + ops.maximum(peak, 0.0) * self.dt
        near = ops.choose(ops.less(self.room + _SLACK, reach), 0.0, 1.0)
        return near * ops.choose(ops.less(self.speed + _SLACK, peak), 0.0, 1.0)

    def _stop(self, v: Any, a: Any) -> Any:
        """Return the stopping distance [rad or m]."""
        ops, B, J = self.ops, self.B, self.J
        t1 = ops.divide(ops.maximum(a + B, 0.0), J)
        v1 = v + t1 * (a - 0.5 * J * t1)
        x1 = t1 * (v + t1 * (0.5 * a - J * t1 * (1.0 / 6.0))) + ops.divide(v1 * v1, 2.0 * B)
        root = ops.root(ops.maximum(a * a + 2.0 * J * v, 0.0))
        t2 = ops.divide(ops.maximum(a + root, 0.0), J)
        x2 = t2 * (v + t2 * (0.5 * a - J * t2 * (1.0 / 6.0)))
        return ops.choose(ops.less(0.0, v1), x1, ops.maximum(x2, 0.0))

    def max_viable(self, low: Any, high: Any) -> Any:
        """Return the max viable acceleration between two values; if there is none, full braking."""
        ops = self.ops
        a, b = low, high
        for _ in range(_HALVINGS):
            middle = 0.5 * (a + b)
            good = ops.less(0.5, self.stops(middle))
            a, b = ops.choose(good, middle, a), ops.choose(good, b, middle)
        some = ops.less(0.5, self.stops(low))
        best = ops.choose(ops.less(0.5, self.stops(high)), high, ops.choose(some, a, -self.B))
        return best


def _reachable(ops: Any, x: dict[str, Any]) -> tuple[Any, Any]:
    """Return the min and max acceleration after a step at the max jerk."""
    B, step = x["acceleration"], x["jerk"] * x["dt"]
    low = ops.maximum(x["last"] - step, -B)
    high = ops.minimum(x["last"] + step, B)
    # An acceleration beyond its limit is reduced at the max jerk.
    return ops.minimum(low, B), ops.maximum(high, -B)


def _brakes(ops: Any, x: dict[str, Any]) -> tuple[_Brake, _Brake]:
    """Return the limits of the upper side, and those of the lower side, mirrored."""
    after, qd = x["q"] + x["qd"] * x["dt"], x["qd"]
    same = (x["speed"], x["acceleration"], x["jerk"], x["dt"])
    return (
        _Brake(ops, x["upper"] - after, qd, *same),
        _Brake(ops, after - x["lower"], -qd, *same),
    )


def affordable(ops: Any, x: dict[str, Any]) -> Any:
    """Return the viable acceleration closest to the desired one; ``x`` as in INPUTS."""
    low, high = _reachable(ops, x)
    upper, lower = _brakes(ops, x)
    up, down = upper.max_viable(low, high), -lower.max_viable(-high, -low)
    return ops.maximum(ops.minimum(x["desired"], up), down)


def within_jerk(ops: Any, x: dict[str, Any]) -> tuple[Any, Any]:
    """Return the desired acceleration within the jerk limit, and 1 if it is surely viable, else 0.

    Surely: with a margin of twice the final interval of the bisection of :func:`affordable`, so
    that both functions return the same number.
    """
    low, high = _reachable(ops, x)
    upper, lower = _brakes(ops, x)
    margin = (high - low) * 2.0 ** (1 - _HALVINGS)

    def clamped(a: Any) -> Any:
        return ops.maximum(ops.minimum(a, high), low)

    up = upper.stops(clamped(x["desired"] + margin))
    down = lower.stops(-clamped(x["desired"] - margin))
    return clamped(x["desired"]), up * down
