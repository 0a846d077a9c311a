# SPDX-License-Identifier: Apache-2.0
"""Curves between two poses: the shortest ones of a car, and smooth ones.

The shortest ones consist of arcs of one radius and straight lines (Dubins); the smooth ones are
polynomials of fifth degree in x and y over time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial import polynomial

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import arc_displacement
from motion_nodes.core.navigation.planar_geometry import MOST_POINTS, SPACING, PlanarPath, Pose2
from motion_nodes.errors import InvalidCommand
from motion_nodes.typing import Array

Word = tuple[float, float, float]
TURN = {"L": 1.0, "S": 0.0, "R": -1.0}
PRECISION = 1e-6
"""Relative accuracy of the shortest feasible duration."""
SHORTEST = 1e-3
"""Min duration [s]."""


class DubinsCurve(NamedTuple):
    """Three consecutive segments, each a turn (L, R) or a straight line (S)."""

    word: str
    """Types of the segments, such as LSR."""
    lengths: Word
    """Lengths of the segments [m]."""
    radius: float
    """[m]"""

    @property
    def length(self) -> float:
        """Length of the curve [m]."""
        return sum(self.lengths)

    def pose_at(self, start: Pose2, s: float) -> Pose2:
        """Return the pose after ``s`` [m], starting at ``start``."""
        pose = start
        for letter, length in zip(self.word, self.lengths, strict=True):
            part = min(max(s, 0.0), length)
            angle = TURN[letter] * part / self.radius
            x, y = arc_displacement(Twist2(part, 0.0, angle))
            pose = pose.compose(Pose2(x, y, angle))
            s -= length
        return pose

    def joints(self) -> tuple[float, ...]:
        """Return the arc lengths of the segment bounds [m]."""
        a, b, _ = self.lengths
        return (0.0, a, a + b, self.length)


def shortest_dubins(start: Pose2, goal: Pose2, radius: float) -> DubinsCurve:
    """Return the shortest forward path with a min turning radius [m].

    Source: Shkel and Lumelsky, "Classification of the Dubins set" (2001), the six words in
    normalised coordinates: unit radius, start at the origin, goal on the x axis.

    Raises:
        InvalidCommand: a radius that is not above 0, or poses that are not finite.
    """
    if not (math.isfinite(radius) and radius > 0.0):
        raise InvalidCommand(f"turning radius is {radius} m; it must be a finite number above 0")
    if not (start.finite and goal.finite):
        raise InvalidCommand(
            f"poses {tuple(start)} and {tuple(goal)} must be finite", field="poses"
        )
    d = start.distance(goal) / radius
    theta = start.bearing(goal)
    a, b = _turn_angle(start.yaw - theta), _turn_angle(goal.yaw - theta)
    found = [(word, parts) for word, parts in _words(d, a, b).items() if parts is not None]
    word, parts = min(found, key=lambda entry: sum(entry[1]))
    return DubinsCurve(word, (parts[0] * radius, parts[1] * radius, parts[2] * radius), radius)


def dubins_path(
    start: Pose2, goal: Pose2, radius: float, *, reversing: bool = False, spacing: float = SPACING
) -> PlanarPath:
    """Return points of the shortest path from pose to pose.

    Args:
        start: current pose.
        goal: target pose.
        radius: min turning radius [m].
        reversing: whether the whole path may be driven in reverse, if shorter.
        spacing: max spacing of the points [m]; wider on paths of more than MOST_POINTS points.

    Raises:
        InvalidCommand: start and goal coincide; see also shortest_dubins.
    """
    curve = shortest_dubins(start, goal, radius)
    turned = Pose2(0.0, 0.0, math.pi)
    backward = shortest_dubins(start.compose(turned), goal.compose(turned), radius)
    reverse = reversing and backward.length < curve.length
    curve = backward if reverse else curve
    begin = start.compose(turned) if reverse else start
    spacing = max(spacing, curve.length / MOST_POINTS)
    knots = curve.joints()
    marks = [
        np.linspace(low, high, max(math.ceil((high - low) / spacing), 1), endpoint=False)
        for low, high in itertools.pairwise(knots)
        if high > low
    ]
    poses = [curve.pose_at(begin, float(s)) for s in np.concatenate([*marks, knots[-1:]])]
    if reverse:
        poses = [pose.compose(turned) for pose in poses]
    return PlanarPath([tuple(pose) for pose in poses])


def _turn_angle(angle: float) -> float:
    """Return the angle in [0, 2 pi); a full turn up to rounding becomes 0."""
    wrapped = angle % math.tau
    return 0.0 if math.tau - wrapped < 1e-9 else wrapped


def _words(d: float, a: float, b: float) -> dict[str, Word | None]:
    """Return the segments of each word [rad or radii], None if it does not reach the goal."""
    sa, ca, sb, cb, cab = math.sin(a), math.cos(a), math.sin(b), math.cos(b), math.cos(a - b)
    outer, inner = 2.0 - 2.0 * cab, 2.0 * cab - 2.0
    return {
        "LSL": _same("L", a, b, d * d + outer + 2.0 * d * (sa - sb), cb - ca, d + sa - sb),
        "RSR": _same("R", a, b, d * d + outer + 2.0 * d * (sb - sa), ca - cb, d - sa + sb),
        "LSR": _crossed("LSR", a, b, d * d + inner + 2.0 * d * (sa + sb), -ca - cb, d + sa + sb),
        "RSL": _crossed("RSL", a, b, d * d + inner - 2.0 * d * (sa + sb), ca + cb, d - sa - sb),
        "RLR": _three_turns("R", a, b, (6.0 - d * d + 2.0 * cab + 2.0 * d * (sa - sb)) / 8.0,
                            ca - cb, d - sa + sb),
        "LRL": _three_turns("L", a, b, (6.0 - d * d + 2.0 * cab + 2.0 * d * (sb - sa)) / 8.0,
                            cb - ca, d + sa - sb),
    }  # fmt: skip


def _same(side: str, a: float, b: float, square: float, y: float, x: float) -> Word | None:
    """Return LSL or RSR."""
    if square < -1e-12:
        return None
    turn, line = math.atan2(y, x), math.sqrt(max(square, 0.0))
    if side == "L":
        return _turn_angle(turn - a), line, _turn_angle(b - turn)
    return _turn_angle(a - turn), line, _turn_angle(turn - b)


def _crossed(word: str, a: float, b: float, square: float, y: float, x: float) -> Word | None:
    """Return LSR or RSL."""
    if square < -1e-12:
        return None
    line = math.sqrt(max(square, 0.0))
    if word == "LSR":
        turn = math.atan2(y, x) - math.atan2(-2.0, line)
        return _turn_angle(turn - a), line, _turn_angle(turn - b)
    turn = math.atan2(y, x) - math.atan2(2.0, line)
    return _turn_angle(a - turn), line, _turn_angle(b - turn)


def _three_turns(side: str, a: float, b: float, cosine: float, y: float, x: float) -> Word | None:
    """Return RLR or LRL."""
    if abs(cosine) > 1.0:
        return None
    middle = _turn_angle(math.tau - math.acos(cosine))
    turn = math.atan2(y, x)
    if side == "R":
        first = _turn_angle(a - turn + 0.5 * middle)
        return first, middle, _turn_angle(a - b - first + middle)
    first = _turn_angle(turn - a + 0.5 * middle)
    return first, middle, _turn_angle(b - a - first + middle)


SOURCE_DURATIONS = tuple(5.0 * i for i in range(1, 20))
"""Durations tested by the source system [s]: 5, 10, ... below 100."""


@dataclass(frozen=True, kw_only=True)
class PathEnd:
    """State of the base at one end of a path; velocity and acceleration are along its heading.

    Raises:
        InvalidCommand: values that are not finite.
    """

    pose: Pose2
    velocity: float = 0.0
    """[m/s]"""
    acceleration: float = 0.0
    """[m/s^2]"""

    def __post_init__(self) -> None:
        if not (self.pose.finite and math.isfinite(self.velocity + self.acceleration)):
            raise InvalidCommand(
                f"pose {tuple(self.pose)}, velocity {self.velocity} and acceleration "
                f"{self.acceleration} of a path's end must be finite"
            )

    def derivatives(self) -> Array:
        """Return position, velocity and acceleration in x and y, shape (3, 2)."""
        along = np.array([math.cos(self.pose.yaw), math.sin(self.pose.yaw)])
        place = np.array([self.pose.x, self.pose.y])
        return np.stack((place, self.velocity * along, self.acceleration * along))


@dataclass(frozen=True, eq=False)
class QuinticSamples:
    """A quintic path at equidistant times, shape (n,) each; the ends are exact."""

    t: Array
    """[s]"""
    x: Array
    """[m]"""
    y: Array
    """[m]"""
    yaw: Array
    """Direction of travel [rad], continuous."""
    v: Array
    """Speed [m/s]."""
    a: Array
    """Magnitude of the acceleration, negative where the speed decreases [m/s^2]."""
    jerk: Array
    """Magnitude of the jerk, negative where the acceleration's magnitude decreases [m/s^3]."""

    def path(self) -> PlanarPath:
        """Return the points as a path."""
        return PlanarPath(np.column_stack((self.x, self.y, self.yaw)))


class QuinticPath:
    """One quintic between two ends with a given duration.

    Attributes:
        duration: duration [s].
        coefficients: coefficients of x and y over normalised time ``t / duration``, lowest first,
            shape (6, 2).
    """

    def __init__(self, start: PathEnd, goal: PathEnd, duration: float) -> None:
        """Create from position, velocity and acceleration at both ends.

        Source: Takahashi, Hongo, Ninomiya, Sugimoto, "Local path planning and motion control for
        AGV in positioning" (IROS 1989): fifth-degree polynomials in x and y; the coefficients are
        the solution of their six boundary conditions in normalised time.
        """
        self.start, self.goal, self.duration = start, goal, duration
        scale = np.array([[1.0], [duration], [duration**2]])
        self.coefficients = _BOUNDARY @ np.concatenate(
            (start.derivatives() * scale, goal.derivatives() * scale)
        )

    def derivative(self, order: int, t: Array | float) -> Array:
        """Return the derivative of (x, y) at times [s], shape (2,) or (2, n)."""
        rows = polynomial.polyder(self.coefficients, order) / self.duration**order
        return np.asarray(polynomial.polyval(np.asarray(t) / self.duration, rows))

    def max_derivative(self, order: int) -> float:
        """Return the max magnitude of a derivative of (x, y) on the path [m/s^k, k its order]."""
        rows = polynomial.polyder(self.coefficients, order) / self.duration**order
        return _max_length(rows)

    def sample(self, step: float) -> QuinticSamples:
        """Return the path at times at most ``step`` [s] apart.

        Raises:
            InvalidCommand: a step that is not above 0.
        """
        if not (math.isfinite(step) and step > 0.0):
            raise InvalidCommand(f"time step is {step} s; it must be a finite number above 0")
        t = np.linspace(0.0, self.duration, max(math.ceil(self.duration / step - 1e-9), 1) + 1)
        p, v, a, j = (self.derivative(order, t) for order in range(4))
        along, growing = (v * a).sum(axis=0), (a * j).sum(axis=0)
        return QuinticSamples(
            t=t,
            x=p[0],
            y=p[1],
            yaw=self._yaw(v, a, j),
            v=np.hypot(*v),
            a=np.copysign(np.hypot(*a), along),
            jerk=np.copysign(np.hypot(*j), growing),
        )

    def _yaw(self, v: Array, a: Array, j: Array) -> Array:
        """Return the direction of travel; at rest, that of departure or arrival.

        Shortly after rest the velocity has the direction of the first non-zero derivative, and
        shortly before rest that of v, -a, j.
        """
        yaw = np.arctan2(v[1], v[0])
        still = np.hypot(*v) <= 1e-9
        for i in np.flatnonzero(still):
            sign = -1.0 if i == len(yaw) - 1 else 1.0
            for way in (sign * a[:, i], j[:, i]):
                if math.hypot(*way) > 1e-9:
                    yaw[i] = math.atan2(way[1], way[0])
                    break
        return np.unwrap(yaw)


def plan_quintic(
    start: PathEnd,
    goal: PathEnd,
    *,
    max_acceleration: float,
    max_jerk: float,
    max_duration: float = 100.0,
    durations: Sequence[float] | None = None,
) -> QuinticPath:
    """Return the quintic with the shortest duration within the limits.

    Feasibility of a duration is decided by the exact extrema of the polynomials. Acceleration and
    jerk need not decrease with the duration, so the feasible durations may have gaps; the first one
    is found with steps that cannot skip any (a bound on the rate of change of the extrema).

    Args:
        start: state at the start.
        goal: state at the end.
        max_acceleration: limit of its magnitude [m/s^2].
        max_jerk: limit of its magnitude [m/s^3].
        max_duration: max duration [s].
        durations: test only these, in order (:data:`SOURCE_DURATIONS`) [s].

    Raises:
        InvalidCommand: no duration is within the limits, or the path has no length.
    """
    for name, value in (
        ("max_acceleration", max_acceleration),
        ("max_jerk", max_jerk),
        ("max_duration", max_duration),
    ):
        if not (math.isfinite(value) and value > 0.0):
            raise InvalidCommand(
                f"{name} is {value}; it must be a finite number above 0", field=name
            )
    if start.pose.distance(goal.pose) == 0.0 and start.velocity == goal.velocity == 0.0:
        raise InvalidCommand(
            "start and goal are at one place and at rest; there is no path to plan"
        )
    search = _DurationSearch(start, goal, max_acceleration, max_jerk)
    if durations is None:
        found = search.first(max_duration)
    else:
        found = next((T for T in durations if search.excess(1.0 / T) <= 0.0), None)
    if found is None:
        raise InvalidCommand(search.why_none(max_duration if durations is None else max(durations)))
    return QuinticPath(start, goal, found)


class _DurationSearch:
    """Search for the shortest duration, in terms of its inverse ``u = 1/T``.

    Over normalised time acceleration is ``A d u^2 + (B v0 + C v1) u + (E a0 + F a1)``, with fixed
    polynomials A to F; jerk is likewise a polynomial of third degree in u.
    """

    def __init__(self, start: PathEnd, goal: PathEnd, acceleration: float, jerk: float) -> None:
        self._start, self._goal = start, goal
        self._acceleration, self._jerk = acceleration, jerk
        self._ends = np.concatenate((start.derivatives(), goal.derivatives()))
        distance = start.pose.distance(goal.pose)
        v0, v1 = abs(start.velocity), abs(goal.velocity)
        a0, a1 = abs(start.acceleration), abs(goal.acceleration)
        peak = _PEAKS
        self._square = distance * peak[2][3], distance * peak[3][3]
        self._linear = tuple(v0 * peak[k][1] + v1 * peak[k][4] for k in (2, 3))
        self._constant = a0 * peak[3][2] + a1 * peak[3][5]

    def excess(self, u: float) -> float:
        """Return the max relative excess of acceleration and jerk over their limits."""
        path = QuinticPath(self._start, self._goal, 1.0 / u)
        acceleration = path.max_derivative(2) / self._acceleration
        jerk = path.max_derivative(3) / self._jerk
        # Equality satisfies a limit, for example at the given acceleration of an end.
        return max(acceleration, jerk) - 1.0 - 1e-9

    def first(self, longest: float) -> float | None:
        """Return the first duration within the limits, or None."""
        ends = max(abs(self._start.acceleration), abs(self._goal.acceleration))
        if ends > self._acceleration * (1.0 + 1e-9):
            return None
        u, least = 1.0 / SHORTEST, 1.0 / longest
        while u > least:
            excess = self._least_excess(u)
            if excess <= 0.0:
                excess = self.excess(u)
            if excess <= 0.0:
                return 1.0 / u
            u -= max(excess / self._steepness(u), PRECISION * u)
        return longest if self.excess(least) <= 0.0 else None

    def _least_excess(self, u: float) -> float:
        """Return a fast lower bound of the excess, from samples of the path."""
        ends = self._ends * np.array([1.0, 1.0 / u, 1.0 / (u * u)] * 2)[:, None]
        acceleration = u * u * float(np.hypot(*(_AT_PLACES[2] @ ends).T).max())
        jerk = u * u * u * float(np.hypot(*(_AT_PLACES[3] @ ends).T).max())
        return max(acceleration / self._acceleration, jerk / self._jerk) - 1.0 - 1e-9

    def _steepness(self, u: float) -> float:
        """Return a bound of the derivative of the excess with respect to u, between 0 and u."""
        acceleration = 2.0 * self._square[0] * u + self._linear[0]
        jerk = 3.0 * self._square[1] * u * u + 2.0 * self._linear[1] * u + self._constant
        return max(acceleration / self._acceleration, jerk / self._jerk)

    def why_none(self, longest: float) -> str:
        path = QuinticPath(self._start, self._goal, longest)
        text = (
            f"no quintic path of up to {longest:g} s keeps to max_acceleration "
            f"{self._acceleration:g} m/s^2 and max_jerk {self._jerk:g} m/s^3; the longest has "
            f"{path.max_derivative(2):.3g} m/s^2 and {path.max_derivative(3):.3g} m/s^3"
        )
        for name, end in (("start", self._start), ("goal", self._goal)):
            if abs(end.acceleration) > self._acceleration:
                text += f"; the acceleration at the {name} is {end.acceleration:g} m/s^2 already"
        return text


def _boundary() -> Array:
    """Return the map from (p0, v0, a0, p1, v1, a1) over unit time to the six coefficients."""
    rows = []
    for t in (0.0, 1.0):
        for order in range(3):
            rows.append(
                [math.perm(k, order) * t ** (k - order) if k >= order else 0.0 for k in range(6)]
            )
    return np.linalg.inv(np.array(rows))


def _max_length(rows: Array) -> float:
    """Return the max length over [0, 1] of a vector of polynomials, shape (degree + 1, n)."""
    square = np.zeros(2 * len(rows) - 1)
    for column in rows.T:
        square = square + np.convolve(column, column)
    slope = np.trim_zeros(polynomial.polyder(square), "b")
    roots = polynomial.polyroots(slope if len(slope) else [0.0])
    inside = roots.real[(np.abs(roots.imag) < 1e-6) & (roots.real > 0.0) & (roots.real < 1.0)]
    values = polynomial.polyval(np.concatenate((inside, [0.0, 1.0])), square)
    return math.sqrt(max(float(values.max()), 0.0))


_BOUNDARY = _boundary()
_AT_PLACES = {
    order: polynomial.polyval(np.linspace(0.0, 1.0, 65), polynomial.polyder(_BOUNDARY, order)).T
    for order in (2, 3)
}
"""A derivative at samples of the path due to each boundary value alone, over unit time, (65, 6)."""
_PEAKS = {
    order: [_max_length(polynomial.polyder(column, order)[:, None]) for column in _BOUNDARY.T]
    for order in (2, 3)
}
"""Max magnitude of a derivative due to each boundary value alone, over unit time."""
