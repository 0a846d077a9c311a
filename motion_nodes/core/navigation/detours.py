# SPDX-License-Identifier: Apache-2.0
"""Detours of a blocked base around obstacles, to its route behind them: search, planner, motion.

A detour consists of straight lines with turns on the spot between them (lines at one heading for a
holonomic base). Corners come from a search on a lattice of poses; lines and turns are checked
exactly, and redundant corners are removed. A car drives arcs of the lattice. The base rests during
the search, which may run in another thread; it drives the detour, and then the rest of the route.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.bases.base import Twist2
from motion_nodes.core.bases.odometry import wrap_angle
from motion_nodes.core.navigation.base_motion import (
    BaseKind,
    BaseMotion,
    GoalTolerance,
    MotionLimits,
    MotionOutcome,
)
from motion_nodes.core.navigation.follow_path import FollowPath
from motion_nodes.core.navigation.footprint import Footprint, contact_times, into_base, keeps_clear
from motion_nodes.core.navigation.planar_geometry import Pose2
from motion_nodes.core.navigation.pose_lattice import (
    REVERSE_COST,
    PoseLattice,
    joined,
    motion_primitives,
)
from motion_nodes.core.navigation.pose_motions import GoToPose
from motion_nodes.errors import MotionError
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

MOST_CELLS = 6000
"""Max number of cells."""
MARGIN = 0.03
"""Additional clearance of a detour for path tracking errors [m]."""
CHECKED = 0.02
"""Part of it that is checked exactly for lines and turns; the rest covers grid errors [m]."""
LOOKOUT = 1.0
"""Length of the route behind the obstacles on which a detour may end [m]."""


class NoDetour(MotionError):
    """There is no detour; the text contains the reason."""


@dataclass(frozen=True, kw_only=True)
class DetourConfig:
    """Settings of detours."""

    max_detour: float = setting(
        2.0, doc="Max additional length of detours around obstacles; 0: no detours.",
        unit="m", ge=0.0, le=20.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Detour:
    """A detour around obstacles."""

    backing: float
    """Distance that the base first backs off, along its heading or opposite to its motion [m]."""
    poses: tuple[Pose2, ...]
    """Start of the first line and ends of all lines, each with the heading of the next line; of a
    car: poses along its path, some in reverse."""
    row: int
    """Row of the route at which it ends."""


@dataclass(frozen=True, kw_only=True)
class Manoeuvres:
    """How a base can move on a detour."""

    holonomic: bool = False
    """Whether it moves in all directions."""
    turn_cost: float = 0.1
    """Cost of turns, as a distance [m/rad]."""
    back: float = math.pi
    """Direction in which it may first back off, in its frame [rad]."""
    radius: float | None = None
    """Min turning radius of a car [m]; None: it turns on the spot."""


class DetourSearch:
    """One search, in the base frame of the start."""

    def __init__(
        self,
        footprint: Footprint,
        points: Array,
        route: Array,
        *,
        clearance: float,
        config: DetourConfig,
        moves: Manoeuvres,
    ) -> None:
        """Prepare the search.

        Args:
            footprint: footprint of the base.
            points: obstacles in the base frame [m], shape (n, 2).
            route: remaining route as poses in the base frame, x, y, yaw rows, shape (m, 3).
            clearance: min distance from obstacles [m].
            config: settings.
            moves: of the base.
        """
        self._footprint, self._points, self._route = footprint, points, route
        self._clearance, self._config = clearance, config
        self._moves = moves
        steps = np.hypot(*np.diff(route[:, :2], axis=0).T)
        self._s = np.concatenate(([0.0], np.cumsum(steps)))

    def run(self) -> Detour:
        """Return the shortest detour found.

        Raises:
            NoDetour: there is none, with the reason.
        """
        if self._config.max_detour <= 0.0:
            raise NoDetour("detours are disabled (max_detour is 0)")
        rows = self._ends()
        behind = self._free_length(self._moves.back, self._clearance)
        longest = min(behind, 2.0 * self._footprint.radius + 2.0 * self._clearance, 2.0)
        grid = self._grid(rows, longest)
        backing = np.arange(0.0, longest + 1e-9, grid.cell)
        c, s = math.cos(self._moves.back), math.sin(self._moves.back)
        starts = []
        for b in backing.tolist():
            node = grid.node(Pose2(b * c, b * s))
            if node is not None:
                starts.append((node, 2.0 * b))
        if not starts:
            raise NoDetour(f"there is no room to turn or to back off{self._wide()}")
        limit = float(self._s[rows[-1]]) + self._config.max_detour + 2.0 * longest + 5.0
        nodes = self._nodes_at(grid, rows)
        goals = np.array([n for _, n in nodes], np.int64)
        costs, before, by = grid.search(np.array(starts), goals, limit)
        ends = [(costs[n] - self._s[row], row, n) for row, n in nodes if math.isfinite(costs[n])]
        for excess, row, node in sorted(ends)[:5]:
            found = None
            if self._moves.radius is None:
                found = self._refined(grid, before, row, node)
            elif excess <= REVERSE_COST * self._config.max_detour:
                found = self._driven(grid.path(node, before, by)[1], row)
            if found is not None:
                return found
        raise NoDetour(f"no way around is found within {self._config.max_detour:g} m"
                       f"{self._wide()}")  # fmt: skip

    # ---- route

    def _ends(self) -> NDArray[np.intp]:
        """Return the rows of the route, behind the obstacles on it, at which a detour may end."""
        clear = np.array([
            bool(self._clear(Pose2(*row), self._clearance + CHECKED))
            for row in self._route.tolist()
        ])  # fmt: skip
        blocked = np.flatnonzero(~clear)
        first = int(blocked[0]) if len(blocked) else 0
        ahead = np.flatnonzero(clear[first:]) + first
        ahead = ahead[self._s[ahead] > 0.02]
        if not len(ahead):
            x, y = self._route[-1, :2].tolist()
            raise NoDetour(
                "the rest of the route up to its end is occupied, with the clearance of "
                f"{self._clearance:g} m: the goal is {math.hypot(x, y):.2f} m away"
            )
        return np.asarray(ahead[self._s[ahead] <= self._s[ahead[0]] + LOOKOUT])

    def _nodes_at(self, grid: PoseLattice, rows: NDArray[np.intp]) -> list[tuple[int, int]]:
        """Return the rows at which poses are free, with their nodes."""
        found = [(row, grid.node(Pose2(*self._route[row].tolist()))) for row in rows.tolist()]
        return [(row, node) for row, node in found if node is not None]

    def _grid(self, rows: NDArray[np.intp], longest: float) -> PoseLattice:
        c, s = math.cos(self._moves.back), math.sin(self._moves.back)
        corners = np.concatenate(
            (self._route[: rows[-1] + 1, :2], [(0.0, 0.0), (longest * c, longest * s)])
        )
        side = 0.5 * self._config.max_detour + self._footprint.radius + (self._moves.radius or 0.0)
        low, high = corners.min(axis=0) - side, corners.max(axis=0) + side
        width = float(np.ptp(self._footprint.corners, axis=0).min())
        desired = min(max(0.15 * width, 0.02), 0.1)
        cell = max(desired, math.sqrt(float((high - low).prod()) / MOST_CELLS))
        # The start is at the centre of a cell.
        first = np.floor(low / cell).astype(int)
        nx, ny = (np.ceil(high / cell).astype(int) - first + 1).tolist()
        if self._moves.radius is not None:
            primitives = motion_primitives(
                "ackermann", radius=self._moves.radius / cell, reversing=True
            )
        else:
            primitives = motion_primitives(
                "holonomic" if self._moves.holonomic else "differential",
                turn_cost=self._moves.turn_cost / cell, turning=not self._moves.holonomic,
            )  # fmt: skip
        grid = PoseLattice(primitives, cell, first * cell, (nx, ny))
        grid.block(self._footprint, self._points, self._clearance + MARGIN)
        return grid

    def _wide(self) -> str:
        """Return the required width of a gap, as text."""
        width = float(np.ptp(self._footprint.corners[:, 1])) + 2.0 * (self._clearance + MARGIN)
        return f"; a gap must be at least {width:.2f} m wide, and {self._turning():.2f} m to turn"

    def _turning(self) -> float:
        return 2.0 * (self._footprint.radius + self._clearance + MARGIN)

    # ---- exact checks

    def _clear(self, pose: Pose2, clearance: float) -> bool:
        local = into_base(self._points, pose)
        local = local[np.abs(local).max(axis=1) < self._footprint.radius + clearance]
        return not len(local) or bool(self._footprint.distances(local).min() >= clearance)

    def _free_length(self, direction: float, clearance: float) -> float:
        """Return how far the base can move from its start; it may leave points within clearance."""
        distances = self._footprint.distances(self._points)
        radii = np.where(distances > clearance + 1e-3, clearance, np.maximum(distances - 2e-3, 0.0))
        twist = Twist2(math.cos(direction), math.sin(direction), 0.0)
        times = contact_times(self._footprint, self._points, radii, twist)
        return float(times.min(initial=math.inf)) - 0.01

    def _reached(self, pose: Pose2, twist: Twist2, time: float) -> bool:
        clearance = self._clearance + CHECKED
        return keeps_clear(self._footprint, into_base(self._points, pose), twist, time, clearance)

    def _turns(self, pose: Pose2, heading: float) -> bool:
        turn = wrap_angle(heading - pose.yaw)
        ways = [turn]
        if abs(turn) > 3.0:
            # The base may turn in either direction.
            ways.append(turn - math.copysign(math.tau, turn))
        return all(self._reached(pose, Twist2(0.0, 0.0, math.copysign(1.0, w)), abs(w))
                   for w in ways)  # fmt: skip

    # ---- arcs of a car

    def _driven(self, rows: Array, row: int) -> Detour | None:
        """Return a detour along poses of the lattice that ends exactly at a row of the route."""
        end = Pose2(*self._route[row].tolist())
        assert self._moves.radius is not None

        def clear(poses: Array) -> bool:
            kept = self._clearance + CHECKED
            return all(self._clear(Pose2(*pose), kept) for pose in poses.tolist())

        path = joined(rows, end, self._moves.radius, clear)
        if path is None:
            return None
        # The lattice begins where the base has backed off to, with the heading of the base.
        poses = tuple(Pose2(*pose) for pose in path.tolist())
        return Detour(math.hypot(poses[0].x, poses[0].y), poses, row)

    # ---- corners

    def _refined(
        self, grid: PoseLattice, before: NDArray[np.int32], row: int, node: int
    ) -> Detour | None:
        """Return the path to a node with the min number of corners; None if it is too long."""
        nodes = [node]
        while before[nodes[-1]] >= 0:
            nodes.append(int(before[nodes[-1]]))
        places = [(pose.x, pose.y) for pose in map(grid.pose, reversed(nodes))]
        start = places[0]
        end = Pose2(*self._route[row].tolist())
        corners = [start, *_corners(places), (end.x, end.y)]
        poses = self._connected(corners, end)
        if poses is None:
            return None
        length = math.hypot(*start)
        at = start
        for pose in poses:
            length += math.dist(at, pose[:2])
            at = (pose.x, pose.y)
        if length - self._s[row] > self._config.max_detour:
            return None
        return Detour(math.hypot(*start), tuple(poses), row)

    def _connected(self, corners: list[tuple[float, float]], end: Pose2) -> list[Pose2] | None:
        """Return lines between corners, from the first one at heading 0, to the last one."""
        last = len(corners) - 1
        failed: set[tuple[int, int]] = set()

        def from_corner(i: int, came: int, yaw: float) -> list[Pose2] | None:
            here = Pose2(*corners[i], yaw)
            if i == last:
                return [] if self._turns(here, end.yaw) else None
            if (i, came) in failed:
                return None
            for j in range(last, i, -1):
                length = math.dist(corners[i], corners[j])
                bearing = here.bearing(Pose2(*corners[j])) if length > 1e-3 else yaw
                heading = yaw if self._moves.holonomic else bearing
                if not self._turns(here, heading):
                    continue
                along = bearing - heading
                twist = Twist2(math.cos(along), math.sin(along), 0.0)
                if not self._reached(Pose2(here.x, here.y, heading), twist, length):
                    continue
                rest = from_corner(j, i, heading)
                if rest is not None:
                    return [Pose2(*corners[j], heading), *rest]
            failed.add((i, came))
            return None

        poses = from_corner(0, -1, 0.0)
        if poses is None:
            return None
        if self._moves.holonomic:
            return [*poses, end]
        # The base turns to the heading of a line at its start.
        places = [Pose2(*corners[0], 0.0), *poses]
        headings = [*(pose.yaw for pose in poses), end.yaw]
        return [Pose2(p.x, p.y, yaw) for p, yaw in zip(places, headings, strict=True)]


def _corners(places: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points where the direction changes, without the ends."""
    distinct = [p for k, p in enumerate(places) if k == 0 or math.dist(p, places[k - 1]) > 1e-9]
    found = []
    for a, b, c in zip(distinct, distinct[1:], distinct[2:], strict=False):
        if abs((b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])) > 1e-9:
            found.append(b)
    return found


TOLERANCE = GoalTolerance(xy=0.02, yaw=0.04, settle_time=0.5)
"""Tolerance of the ends of the lines of a detour."""
DEPTHS = (0.07, 0.14, 0.2)
"""Assumed depths of obstacles behind their visible points, if a detour exists [m]."""
CAR_ROOM = 1.2
"""Ratio of the radius of a car's detours to its min turning radius, a margin for path tracking."""
STILL = 0.01
"""Max displacement of the base during a search; the result is discarded beyond it [m]."""
Submit = Callable[[Callable[[], Detour]], "Future[Detour]"]
"""Starts a search."""


class DetourMotion:
    """Executes the lines of a detour, with turns on the spot between them, then another motion."""

    def __init__(
        self,
        kind: BaseKind,
        start: Pose2,
        detour: Detour,
        then: BaseMotion,
        limits: MotionLimits,
        *,
        back: float = math.pi,
    ) -> None:
        """Create the motion.

        Args:
            kind: kind of the base, not a car.
            start: pose of the base, the frame of the detour.
            detour: the detour.
            then: motion from its end.
            limits: limits of the motion.
            back: direction in which the base first backs off, in its frame [rad].
        """
        self._kind = kind
        self.then = then
        """The motion after the detour."""
        targets = [(start.compose(pose), False) for pose in detour.poses]
        if detour.backing > 0.0:
            b = detour.backing
            behind = start.compose(Pose2(b * math.cos(back), b * math.sin(back), 0.0))
            targets.insert(0, (behind, True))
        self.poses = tuple(pose for pose, _ in targets)
        """End poses of its lines."""
        self._lines = [
            GoToPose(kind, pose, limits, TOLERANCE, reversing=reverse) for pose, reverse in targets
        ]
        self._lengths = [a.distance(b) for a, b in zip(self.poses, self.poses[1:], strict=False)]
        self._line = 0

    @property
    def done(self) -> bool:
        """True once the base is back on its route."""
        return self._line >= len(self._lines)

    @property
    def outcome(self) -> MotionOutcome:
        """Status of the motion after the detour; see BaseMotion."""
        return self.then.outcome if self.done else MotionOutcome.MOVING

    @property
    def text(self) -> str:
        """Reason of a failure; see BaseMotion."""
        return self.then.text

    @property
    def remaining(self) -> float:
        """Remaining distance [m]; see BaseMotion."""
        if self.done:
            return self.then.remaining
        after = self.then.remaining if math.isfinite(self.then.remaining) else 0.0
        line = self._lines[self._line].remaining
        own = line if math.isfinite(line) else 0.0
        return own + sum(self._lengths[self._line :]) + after

    def is_clear(self, pose: Pose2, footprint: Footprint, points: Array, clearance: float) -> bool:
        """Return whether the remaining lines satisfy a clearance.

        Args:
            pose: pose of the base.
            footprint: footprint of the base.
            points: obstacles in the frame of the pose [m], shape (n, 2).
            clearance: min distance [m].
        """
        for target, line in zip(self.poses[self._line :], self._lines[self._line :], strict=True):
            length, bearing = pose.distance(target), pose.bearing(target)
            if length > TOLERANCE.xy:
                heading = pose.yaw if self._kind == "holonomic" else bearing
                if line.reversing:
                    heading += math.pi
                along = bearing - heading
                twist = Twist2(math.cos(along), math.sin(along), 0.0)
                start = Pose2(pose.x, pose.y, heading)
                local = into_base(points, start)
                if not keeps_clear(footprint, local, twist, length, clearance, lenient=True):
                    return False
            pose = target
        return True

    def still_there(self, pose: Pose2) -> bool:
        """Return whether the base is at the goal; see BaseMotion."""
        return self.then.still_there(pose)

    def route(self, pose: Pose2) -> Array:
        """Return the route after the detour; see BaseMotion."""
        return self.then.route(pose)

    def resumed(self, row: int) -> BaseMotion:
        """Return a motion from a row of that route; see BaseMotion."""
        return self.then.resumed(row)

    def step(self, pose: Pose2, twist: Twist2, dt: float) -> Twist2:
        """Return the commanded twist; see BaseMotion."""
        if not self.done:
            line = self._lines[self._line]
            desired = line.step(pose, twist, dt)
            if line.outcome is MotionOutcome.MOVING:
                return desired
            self._line += 1
            return Twist2()
        return self.then.step(pose, twist, dt)


def at_once(job: Callable[[], Detour]) -> Future[Detour]:
    """Run a search synchronously."""
    future: Future[Detour] = Future()
    try:
        future.set_result(job())
    except Exception as error:
        future.set_exception(error)
    return future


class _Pending(NamedTuple):
    future: Future[Detour]
    motion: BaseMotion
    pose: Pose2
    back: float


class DetourPlanner:
    """Runs one search at a time."""

    def __init__(
        self,
        kind: BaseKind,
        footprint: Footprint,
        limits: MotionLimits,
        clearance: float,
        config: DetourConfig,
        submit: Submit = at_once,
    ) -> None:
        """Create the planner.

        Args:
            kind: kind of the base.
            footprint: footprint of the base.
            limits: limits of its motions.
            clearance: min distance from obstacles [m].
            config: settings of detours.
            submit: starts a search, for example in a thread.
        """
        self._kind, self._footprint, self._limits = kind, footprint, limits
        self._clearance, self._config, self._submit = clearance, config, submit
        self._pending: _Pending | None = None

    @property
    def searching(self) -> bool:
        """Whether a search is active, or its result has not been read."""
        return self._pending is not None

    def forget(self) -> None:
        """Discard the result of the active search."""
        self._pending = None

    def begin(self, motion: BaseMotion, pose: Pose2, desired: Twist2, points: Array) -> None:
        """Start a search.

        Args:
            motion: the blocked motion.
            pose: pose of the base, at rest.
            desired: twist of the motion; the base backs off in the opposite direction.
            points: obstacles in the base frame [m], shape (n, 2).

        Raises:
            NoDetour: the kind of base has no detours, or it is at its goal.
        """
        if isinstance(motion, DetourMotion):
            motion = motion.then
        if self._kind == "ackermann" and not isinstance(motion, FollowPath):
            raise NoDetour("a car leaves paths only")
        if motion.outcome is not MotionOutcome.MOVING:
            raise NoDetour("the base is at its goal")
        rows = motion.route(pose)
        route = np.column_stack((into_base(rows[:, :2], pose), rows[:, 2] - pose.yaw))
        back = math.pi
        if self._kind == "holonomic" and math.hypot(desired.vx, desired.vy) > 0.0:
            back = math.atan2(-desired.vy, -desired.vx)
        elif desired.vx < 0.0:
            back = 0.0
        radius = None
        if self._kind == "ackermann" and isinstance(motion, FollowPath):
            radius = CAR_ROOM * motion.min_radius
        moves = Manoeuvres(
            holonomic=self._kind == "holonomic",
            turn_cost=self._limits.max_velocity / self._limits.max_yaw_velocity,
            back=back,
            radius=radius,
        )
        future = self._submit(lambda: self._search(points, route, moves))
        self._pending = _Pending(future, motion, pose, back)

    def take(self, pose: Pose2) -> BaseMotion | None:
        """Return the motion along the detour; None while the search is active.

        Args:
            pose: pose of the base; if it has moved during the search, the result is discarded.

        Raises:
            NoDetour: no detour was found.
        """
        pending = self._pending
        if pending is None or not pending.future.done():
            return None
        self._pending = None
        found = pending.future.result()
        if pending.pose.distance(pose) > STILL:
            return None
        if self._kind == "ackermann" and isinstance(pending.motion, FollowPath):
            there = [pending.pose.compose(pose) for pose in (Pose2(), *found.poses)]
            return pending.motion.redirected(np.array(there), found.row)
        then = pending.motion.resumed(found.row)
        return DetourMotion(self._kind, pending.pose, found, then, self._limits, back=pending.back)

    def _search(self, points: Array, route: Array, moves: Manoeuvres) -> Detour:
        away = points / np.maximum(np.hypot(points[:, 0], points[:, 1]), 1e-6)[:, None]
        behind = np.concatenate([points, *(points + depth * away for depth in DEPTHS)])
        try:
            return self._among(behind, route, moves)
        except NoDetour:
            return self._among(points, route, moves)

    def _among(self, points: Array, route: Array, moves: Manoeuvres) -> Detour:
        search = DetourSearch(
            self._footprint,
            points,
            route,
            clearance=self._clearance,
            config=self._config,
            moves=moves,
        )
        return search.run()
