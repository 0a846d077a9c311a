# SPDX-License-Identifier: Apache-2.0
"""A time-parameterized joint path: distance along the path as a function of time; effort limits.

Effort limits are strips in squared speed and acceleration. With x the squared speed along a path
q(s) and u the acceleration along it, the efforts of a motion are linear in both (J. E. Bobrow, S.
Dubowsky, J. S. Gibson, "Time-optimal control of robotic manipulators along specified paths", Int.
J. Robotics Research 4(3), 1985):

    tau = M(q) q' u + (M(q) q'' + C(q, q') q') x + g(q)

so that ``|tau| <= L`` holds if ``|A u + B x| <= L - |g|``, which permits rest everywhere.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.bounds import POINTS
from motion_nodes.core.robot.inverse_dynamics import InverseDynamics, Payload
from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.core.trajectory.joint_path import JointPath
from motion_nodes.core.trajectory.joint_trajectory import (
    JointTrajectory,
    Trajectory,
    TrajectorySample,
    check_samples,
    check_time_step,
)
from motion_nodes.errors import InvalidCommand
from motion_nodes.kernels.timing.path_pieces import TimedPieces, limit_use, path_states, spanned
from motion_nodes.typing import Array, IndexArray

MIN_SPACING = 1e-4
"""Min time between two points of a motion [s]."""
_ON_LINES = 10.0
"""Factor of the time between points on lines."""
_JERK_CHANGE = 0.02
"""Change of the jerk, relative to its max, that one polynomial may bridge."""
_POSITION_ERROR = 3e-7
"""The same change times the cubed duration of the polynomial [s^3], to which its error of the
positions is proportional."""
_JUMP = 0.01
"""Change of the acceleration between two instants that is a jump, relative to the max."""


class LimitUse(NamedTuple):
    """Max utilization of the limits by a motion; 1 is the limit."""

    velocity: float
    acceleration: float
    jerk: float

    @property
    def stretch(self) -> float:
        """Factor of the duration to be within the limits; below 1: shorter."""
        return float(max(self.velocity, np.sqrt(self.acceleration), np.cbrt(self.jerk)))


SLOWEST = 1e12
"""Max factor by which a speed limit slows down a motion; it is too long to be sampled then."""


@dataclass(frozen=True, eq=False, repr=False)
class TimedPath(Trajectory):
    """A time-parameterized path, from :mod:`motion_nodes.core.trajectory.time_parameterization`.

    Positions, velocities, accelerations and jerks are evaluated, not interpolated.
    """

    path: JointPath
    """Geometry of the motion: positions over the distance along it."""
    times: Array
    """Bounds of the clock's intervals, increasing [s], shape (N + 1,)."""
    clock: Array
    """Distance along the path as a polynomial in the time into an interval, lowest power first,
    shape (N, 6)."""
    piece: IndexArray
    """Piece of the path that contains each interval, shape (N,)."""

    @property
    def joint_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the joints, in the order of the samples."""
        return self.path.joint_names

    @property
    def start_time(self) -> float:
        """Time at which it begins [s]."""
        return float(self.times[0])

    @property
    def end_time(self) -> float:
        """Time at which it ends [s]."""
        return float(self.times[-1])

    def _sample(self, time: float) -> TrajectorySample:
        """Return position, velocity and acceleration at a time [s], shape (n,) each."""
        q, v, a, _ = self.states([time])
        return TrajectorySample(q[0], v[0], a[0])

    def states(self, times: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Evaluate the motion at several times.

        Args:
            times: from the start [s], shape (k,).

        Returns:
            Positions [rad or m], velocities, accelerations and jerks (per s, s^2 and s^3), shape
            (k, n) each.
        """
        desired = np.ascontiguousarray(times, dtype=np.float64)
        out = np.empty((4, len(desired), self.path.coefficients.shape[2]))
        path_states(self._pieces, desired, out)
        return out[0], out[1], out[2], out[3]

    def points(self, time_step: float) -> JointTrajectory:
        """Return the motion as points in time, the last one at its end, at rest.

        Points are at changes of the jerk, because polynomials across them would exceed the limits,
        and within longer intervals. On lines, which interpolation does not leave, the spacing may
        be ten times as large. At a jump of the acceleration, a further point has the previous
        acceleration.

        Args:
            time_step: max time between two points on curves [s].

        Raises:
            InvalidCommand: a step that is not finite and positive.
            Infeasible: more than 100 000 points.
        """
        times = spaced(self._divided(time_step))
        before, after = self.states(times - MIN_SPACING), self.states(times)
        jumps = self._jumps(times, before, after[2])
        if len(jumps):
            times = np.union1d(times, jumps - MIN_SPACING)
            q, v, a, _ = self.states(times)
        else:
            kept = self._needed(times, before[3], after[3], time_step)
            times, (q, v, a) = times[kept], (values[kept] for values in after[:3])
        v[0] = v[-1] = a[-1] = 0.0
        return JointTrajectory(self.joint_names, times, q, v, a)

    def _divided(self, time_step: float) -> Array:
        """Return the bounds of the clock's intervals, divided into equal parts where longer."""
        check_time_step(time_step)
        spans = self.times[1:] - self.times[:-1]
        longest = time_step * np.where(self.path.bent[self.piece], 1.0, _ON_LINES)
        counts = np.maximum(np.ceil(spans / longest - 1e-9), 1.0)
        check_samples(counts.sum(), POINTS, self.duration)
        parts = counts.astype(np.intp)
        among = np.repeat(np.arange(len(parts)), parts)
        step = np.arange(len(among)) - (parts.cumsum() - parts)[among]
        inside = self.times[among] + step * (spans / parts)[among]
        return np.append(inside, self.times[-1])

    def _jumps(
        self, times: Array, before: tuple[Array, Array, Array, Array], after: Array
    ) -> Array:
        """Return which of the times have a jump of the acceleration before them.

        Args:
            times: increasing [s], shape (k,).
            before: states just before them.
            after: accelerations at them, shape (k, n).
        """
        alone = times > self.start_time
        alone[1:] &= times[1:] - times[:-1] > 2.0 * MIN_SPACING
        expected = before[2] + before[3] * MIN_SPACING
        apart = np.abs(after - expected)
        over = times >= self.end_time
        apart[over] = np.abs(expected[over])  # at rest
        most = np.abs(before[2][alone]).max(initial=0.0)
        return np.asarray(times[alone & (apart > _JUMP * most).any(axis=1)])

    def _needed(
        self, times: Array, before: Array, after: Array, time_step: float
    ) -> NDArray[np.bool_]:
        """Return which points a jerk-limited motion needs, shape (k,).

        Args:
            times: of all points [s], shape (k,).
            before: jerks just before them, shape (k, n).
            after: jerks at them, shape (k, n).
            time_step: max time between two points on curves [s].
        """
        middles = np.searchsorted(self.times, 0.5 * (times[:-1] + times[1:]), "right") - 1
        factors = np.where(self.path.bent[self.piece[middles]], 1.0, _ON_LINES)
        longest = (1.0 + 1e-9) * time_step * factors
        kept = np.empty(len(times), np.bool_)
        spanned(times, before, after, longest, (_JERK_CHANGE, _POSITION_ERROR), kept)
        return kept

    def limit_use(self, limits: JointLimits) -> LimitUse:
        """Return upper bounds of the limit utilization.

        Args:
            limits: of its joints.
        """
        return LimitUse(*self.interval_use(limits).max(axis=0).tolist())

    def interval_use(self, limits: JointLimits) -> Array:
        """Return the utilization of velocity, acceleration and jerk limits per interval, (N, 3).

        Args:
            limits: of its joints.
        """
        use = np.empty((len(self.piece), 3))
        bounds = np.array([limits.velocity, limits.acceleration, limits.jerk])
        limit_use(self._pieces, bounds, use)
        return use

    @property
    def _pieces(self) -> TimedPieces:
        path = self.path
        return TimedPieces(path.breaks, path.coefficients, self.piece, self.times, self.clock)

    def stretched(self, factor: float) -> TimedPath:
        """Return the same motion with another duration.

        Args:
            factor: of its duration, above 0 and finite.

        Raises:
            InvalidCommand: another factor.
        """
        if not (isinstance(factor, Real) and 0.0 < factor < math.inf):
            raise InvalidCommand(
                f"factor is {factor!r:.60}; it must be above 0 and finite.", field="factor"
            )
        powers = float(factor) ** -np.arange(self.clock.shape[1])
        return TimedPath(self.path, self.times * factor, self.clock * powers, self.piece)


def spaced(times: Array) -> Array:
    """Return times [s] without those closer than :data:`MIN_SPACING` to another, shape (k,).

    Of a group of close times the last one is kept, and the first one if it is far enough from that:
    the acceleration may change between them.
    """
    if not (times[1:] - times[:-1] < MIN_SPACING).any():
        return times
    following = np.append(times[1:], np.inf)
    kept = [float(times[0])]
    for time, after in zip(times[1:].tolist(), following[1:].tolist(), strict=True):
        if time - kept[-1] < MIN_SPACING:
            if after - time < MIN_SPACING:
                continue
            if len(kept) > 1:
                kept.pop()
        kept.append(time)
    return np.array(kept)


EFFORT_SHARE = 0.9
"""Fraction of the effort limits that motions may use; the rest is reserved for feedback."""
_LEAST_ROOM = 0.1
"""Min fraction of an effort limit available for motion, in addition to gravity."""


class PathEfforts:
    """Effort limits of some joints of a robot; the others are at rest."""

    def __init__(
        self,
        robot: Robot,
        joints: tuple[str, ...],
        positions: Array,
        share: float = EFFORT_SHARE,
        payload: Payload | None = None,
    ) -> None:
        """Create.

        Args:
            robot: with inertial parameters and effort limits.
            joints: joints of the paths.
            positions: of all joints of the robot [rad or m], in its order, shape (m,).
            share: fraction of the effort limits that motions may use, above 0 to 1. Viscous and dry
                friction are not considered.
            payload: carried by the robot; None: nothing.

        Raises:
            UnknownFrame: the payload is at a frame that the robot does not have.
        """
        self._payload = payload if payload is not None and payload.mass > 0.0 else None
        # Mimic joints carry their own share of the load, within their own limits.
        own = [robot.tree.members[name][1:] for name in joints]
        followers = [j for members in own for j in members if math.isfinite(j.effort)]
        self._members = _members(robot, bool(followers))
        self._kinematics = None
        if self._payload is not None:
            self._kinematics = _kinematics(robot, bool(followers))
            home = self._members.states(np.broadcast_to(robot.home, (1, 3, len(robot.home))))
            self._kinematics.pose(home[0, 0], self._payload.link)  # raises UnknownFrame
        self._dynamics = self._members.dynamics
        self._viscous = any(joint.damping for joint in robot.tree.joints.values())
        self._columns = columns = robot.indices(joints)
        first = int(columns[:1].sum())
        in_turn = bool((np.diff(columns) == 1).all())
        # A slice is several times faster than indices.
        self._places = slice(first, first + len(columns)) if in_turn else columns
        self._positions = np.array(positions, np.float64)
        drives = [robot.drives[k] for k in self._columns]
        limits = np.array([math.inf if d.passive else d.max_effort for d in drives])
        self._limited = np.flatnonzero(np.isfinite(limits) & (limits > 0.0))
        self._driven = self._columns[self._limited]
        self._share = share
        self._limits = np.concatenate((limits[self._limited], [j.effort for j in followers]))
        self._named = (*(joints[k] for k in self._limited), *(j.name for j in followers))
        self._followers = [self._members.tree.joint_names.index(j.name) for j in followers]
        kinds = [robot.tree.joints[name].kind for name in self._named]
        self._units = ["N" if kind is JointKind.PRISMATIC else "N m" for kind in kinds]

    @property
    def count(self) -> int:
        """Number of joints with an effort limit."""
        return len(self._named)

    def strips(self, path: JointPath, distance: Array, piece: IndexArray) -> Array:
        """Return A and B with respect to the distance, divided by the margin of each joint.

        Args:
            path: geometry.
            distance: along it, shape (k,).
            piece: that contains each, shape (k,).

        Returns:
            Shape (k, 2, count).
        """
        q, q1, q2 = (path.evaluate(distance, order, piece) for order in range(3))
        return self.strips_at(q, q1, q2)

    def strips_at(self, q: Array, q1: Array, q2: Array) -> Array:
        """Return the same for positions and their first two derivatives, shape (k, n) each."""
        rest = np.zeros_like(q)
        gravity, inertial, curved = self._inviscid(q, (rest, rest), (rest, q1), (q1, q2))
        strips = np.stack([inertial - gravity, curved - gravity], axis=1)
        return strips / self._room(gravity)[:, None]

    def stretch(self, motion: TimedPath) -> float:
        """Return the factor by which a motion must be slowed down for the limits; 1: none."""
        times = np.repeat(motion.times[:-1], 2)
        times[1::2] += 0.5 * (motion.times[1:] - motion.times[:-1])
        q, v, a, _ = motion.states(times)
        return math.sqrt(max(self.usage(q, v, a), 1.0))

    def usage(self, q: Array, v: Array, a: Array) -> float:
        """Return the max utilization of the effort margin, after gravity, by some states.

        Args:
            q: positions [rad or m], shape (k, n).
            v: velocities [rad/s or m/s], shape (k, n).
            a: accelerations [rad/s^2 or m/s^2], shape (k, n).
        """
        rest = np.zeros_like(q)
        gravity, needed = self._inviscid(q, (rest, rest), (v, a))
        return float(np.max(np.abs(needed - gravity) / self._room(gravity), initial=0.0))

    def overload(self, Q: ArrayLike) -> tuple[int, str]:
        """Return the first configuration that exceeds the effort limits at rest, and how.

        Args:
            Q: positions [rad or m], shape (k, n).

        Returns:
            Its index, and the joint with efforts as text; empty if there is none.
        """
        points = np.atleast_2d(np.asarray(Q, np.float64))
        rest = np.zeros_like(points)
        needed = np.abs(self._inviscid(points, (rest, rest))[0])
        excess = needed / self._limits
        rows = np.flatnonzero((excess > 1.0).any(axis=1))
        if not len(rows):
            return 0, ""
        k = int(rows[0])
        i = int(np.argmax(excess[k]))
        return k, (
            f"{self._named[i]} needs {needed[k, i]:.4g} {self._units[i]} to hold "
            f"against gravity; its limit is {self._limits[i]:.4g}"
        )

    def _room(self, gravity: Array) -> Array:
        left: NDArray[np.float64] = self._share * self._limits - np.abs(gravity)
        return np.maximum(left, _LEAST_ROOM * self._limits)

    def _inviscid(self, Q: Array, *motions: tuple[Array, Array]) -> Array:
        """Return the efforts of the limited joints without viscous friction, (m, k, count).

        Args:
            Q: positions, shape (k, n).
            motions: m times velocities and accelerations there, shape (k, n) each.
        """
        if self._viscous:  # friction is odd in the velocities
            back = self._efforts(Q, [(-V, A) for V, A in motions])
            return 0.5 * (self._efforts(Q, motions) + back)
        return self._efforts(Q, motions)

    def _efforts(self, Q: Array, motions: Sequence[tuple[Array, Array]]) -> Array:
        shape = len(motions), len(Q)
        whole = np.zeros((*shape, 3, len(self._positions)))
        whole[:, :, 0] = self._positions
        for number, (V, A) in enumerate(motions):
            for order, values in enumerate((Q, V, A)):
                whole[number, :, order][:, self._places] = values
        states = self._members.states(whole.reshape(-1, *whole.shape[2:]))
        efforts = self._dynamics.efforts_of_states(states)
        if self._payload is not None and self._kinematics is not None:
            efforts = efforts + self._payload.efforts_batch(
                self._kinematics, states[:, 0], states[:, 1], states[:, 2]
            )
        # By virtual work, the drive of a leader moves all members.
        driven = efforts @ self._members.factors if self._followers else efforts
        chosen = driven[:, self._driven]
        if self._followers:
            chosen = np.concatenate((chosen, efforts[:, self._followers]), axis=1)
        return chosen.reshape(*shape, -1)


def effort_limits(
    robot: Robot,
    joints: tuple[str, ...],
    positions: Array,
    share: float = EFFORT_SHARE,
    payload: Payload | None = None,
) -> PathEfforts | None:
    """Return the effort limits of joints, see :class:`PathEfforts`; None for a share of 0."""
    if share <= 0.0:
        return None
    if payload is None:
        return _unloaded(robot, tuple(joints), np.asarray(positions, np.float64).tobytes(), share)
    return PathEfforts(robot, joints, positions, share, payload)


@functools.lru_cache(maxsize=16)
def _unloaded(robot: Robot, joints: tuple[str, ...], positions: bytes, share: float) -> PathEfforts:
    return PathEfforts(robot, joints, np.frombuffer(positions), share)


@functools.lru_cache(maxsize=16)
def _kinematics(robot: Robot, free: bool) -> Kinematics:
    tree = _members(robot, free).tree
    return Kinematics(tree, tree.joint_names)


class _Members(NamedTuple):
    """Dynamics of a robot's joints, which are ``factors @ q + shift``."""

    tree: KinematicTree
    dynamics: InverseDynamics
    factors: Array
    shift: Array

    def states(self, states: Array) -> Array:
        """Return positions, velocities and accelerations of these joints for those of the robot.

        Args:
            states: shape (k, 3, n).
        """
        if self.factors.shape[0] == states.shape[2]:  # no mimic joints
            return states
        own = states @ self.factors.T
        own[:, 0] += self.shift
        return own


@functools.lru_cache(maxsize=16)
def _members(robot: Robot, free: bool) -> _Members:
    """Return the dynamics of the robot, with independent mimic joints if ``free``."""
    tree, count = robot.tree, len(robot.joint_names)
    armature = dict(zip(robot.joint_names, (d.armature for d in robot.drives), strict=True))
    if not free:
        dynamics = InverseDynamics(tree, robot.joint_names, armature=list(armature.values()))
        return _Members(tree, dynamics, np.eye(count), np.zeros(count))
    laws = {joint.name: joint.law for joint in tree.joints.values()}
    loose = {name: dataclasses.replace(joint, mimic=None) for name, joint in tree.joints.items()}
    tree = KinematicTree(tree.name, tree.links, loose)
    factors, shift = np.zeros((len(tree.joint_names), count)), np.zeros(len(tree.joint_names))
    for row, name in enumerate(tree.joint_names):
        factors[row, robot.joint_names.index(laws[name].joint)] = laws[name].multiplier
        shift[row] = laws[name].offset
    rotors = [armature.get(name, 0.0) for name in tree.joint_names]
    dynamics = InverseDynamics(tree, tree.joint_names, armature=rotors)
    return _Members(tree, dynamics, factors, shift)
