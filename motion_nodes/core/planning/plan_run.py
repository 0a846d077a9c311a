# SPDX-License-Identifier: Apache-2.0
"""A request on its way through the pipeline: options, ends of the search, attempts, the only clock.

Spheres extend some millimetres beyond the shapes, so planners cannot start or end everywhere that
is collision-free for the exact geometry. From such a configuration a short, verified line leads to
one that they accept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motion_nodes.core.planning.path_verification import PathVerifier, Verification
from motion_nodes.core.planning.planning_problem import (
    JointGoal,
    JointSpace,
    PlanRequest,
    PlanResult,
    PlanStage,
    PlanStatus,
    check_start,
)
from motion_nodes.core.planning.pose_solvers import link_joints
from motion_nodes.core.planning.recovery import Recovery, RecoverySettings
from motion_nodes.core.planning.several_poses import pose_sampler
from motion_nodes.core.planning.shortcut import ShorteningSettings
from motion_nodes.core.planning.tree_search import SearchTree
from motion_nodes.core.robot.inverse_dynamics import Payload
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.trajectory.joint_path import CornerBlending, FreeCheck
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.timed_path import EFFORT_SHARE, TimedPath
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array

Projection = Callable[[Array], tuple[Array, NDArray[np.bool_]]]

_REACHES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Distances at which configurations are sampled, in steps of the checker's default resolution."""
_DRAWS, _TRIES = 128, 4
"""Configurations sampled per distance, and verified lines to them."""
_POSE_DRAWS = 8
"""Configurations sampled for a pose at which the spheres collide."""


@dataclass(frozen=True, eq=False)
class ExcessEnds:
    """A request for planners, and the lines that connect it to the original one."""

    request: PlanRequest
    start: Array | None = None
    """The original start, if the search begins at another one."""
    goals: dict[int, Array] | None = None
    """The original goals, by index, if the search uses others."""

    def joined(self, path: Array, goal_index: int | None) -> Array:
        """Return a path with the lines at its ends.

        Lines between waypoints are motions as they are: one of more than half a turn of a
        continuous joint must not become the shorter one, which may be in collision.

        Args:
            path: of the search, shape (k, n) [rad or m].
            goal_index: index of the reached goal; None: the only one.
        """
        checker = self.request.checker
        turns = checker.limits.turns
        goal = (self.goals or {}).get(-1 if goal_index is None else goal_index)
        if goal is not None:
            path = np.concatenate((path, turns.nearest(goal, path[-1])[np.newaxis]))
        if self.start is not None:
            moved = path + turns.offset(path[0], self.start)
            path = np.concatenate((self.start[np.newaxis], moved))
        if turns.any and (goal is not None or self.start is not None):
            # Spheres may have blocked a shorter way that is free by exact shapes, as its ends are.
            shorter = turns.unwrapped(path)
            if not np.array_equal(shorter, path) and PathVerifier(checker).verify(shorter).free:
                return shorter
        return path

    @property
    def note(self) -> str:
        """Note for the client; empty if the request is unchanged."""
        names = [name for name, x in (("start", self.start is not None), ("goal", self.goals)) if x]
        if not names:
            return ""
        ends = " and the ".join(names)
        return f"only collision spheres collide at the {ends}, not the exact shapes"


def searchable(request: PlanRequest, project: Projection | None = None) -> ExcessEnds:
    """Return a request whose start and joint goals are outside of all spheres, if possible.

    Of a joint goal with tolerances the nominal positions count.

    Args:
        request: the request.
        project: moves configurations, shape (m, n), onto path constraints, and returns which of
            them satisfy these, shape (m,); None without path constraints.

    Raises:
        InvalidCommand: wrong numbers of joint positions.
    """
    begin = check_start(request.checker, request.start)
    start = None
    if begin.status is None and not request.checker.is_free(begin.q):
        request = _without_fixed_contacts(request, begin.q)
    checker = request.checker
    if begin.status is None and not checker.is_free(begin.q):
        near = _nearby(checker, begin.q, request.random_seed, project)
        if near is not None:
            start, request = begin.q, replace(request, start=near)
        else:
            request = _without_self_contacts(request, begin.q)
    goals, asked = list(request.goals), {}
    for number, goal in enumerate(goals):
        if not isinstance(goal, JointGoal):
            continue
        room = goal.range_in(checker)
        q = room.nominal
        if room.fault or checker.is_free(q) or not checker.exact.is_free(q):
            continue
        near = _nearby(checker, q, request.random_seed, project)
        if near is not None:
            goals[number], asked[number] = JointGoal(near), q
        else:
            request = _without_self_contacts(request, q)
    changed = replace(request, goals=tuple(goals)) if asked else request
    return ExcessEnds(changed, start, asked)


def with_joint_goals(request: PlanRequest, timeout: float) -> PlanRequest | None:
    """Return a request with joint goals for its poses, by exact geometry; None if there are none.

    Used for poses at which the spheres are always in collision.

    Args:
        request: with poses among its goals.
        timeout: max duration [s].

    Raises:
        InvalidCommand, InvalidConfig, UnknownFrame: as ``goal_configurations``.
    """
    start = check_start(request.checker, request.start)
    found = []
    for number, goal in enumerate(request.goals):
        if not isinstance(goal, JointGoal):
            rng = np.random.default_rng([request.random_seed, number])
            sampler = pose_sampler(request.checker, goal, start.q, rng, spheres=False)
            drawn = (
                sampler.draw(first=k == 0, timeout=timeout / _POSE_DRAWS)
                for k in range(_POSE_DRAWS)
            )
            found += [JointGoal(q) for q in drawn if q is not None]
    return replace(request, goals=tuple(found)) if found else None


def beside_spheres(run: PlanRun, request: PlanRequest, result: PlanResult) -> PlanRequest | None:
    """Return a request with joint goals for its poses, if the spheres collide at all of these.

    Args:
        run: its time is used.
        request: the request.
        result: of a search by spheres.
    """
    poses = any(not isinstance(goal, JointGoal) for goal in request.goals)
    if result.status is not PlanStatus.GOAL_IN_COLLISION or not poses or run.left <= 0.0:
        return None
    return with_joint_goals(request, run.left)


def _without_fixed_contacts(request: PlanRequest, q: Array) -> PlanRequest:
    """Return a request whose checker ignores contacts of spheres that no motion could end.

    The base of a robot beside a wall is an example. Both bodies are still checked against all
    others, and the exact geometry of both is collision-free.

    Args:
        request: the request.
        q: start, collision-free for the exact geometry, shape (n,).
    """
    checker = request.checker
    # Names of contacts that are not of bodies are those of objects in the world.
    moving = {
        body.name
        for body in checker.bodies
        if not link_joints(checker.robot, body.link).isdisjoint(checker.joint_names)
    }
    contacts = [contact.pair for contact in checker.explain(q) if contact.kind != "limit"]
    fixed = [pair for pair in contacts if moving.isdisjoint(pair)]
    return _without_pairs(request, fixed)


def _without_self_contacts(request: PlanRequest, q: Array) -> PlanRequest:
    """Return a request whose checker ignores contacts of links that no small motion ends.

    Links that overlap by their spheres at a tight end must not make it unreachable; the motion is
    verified by exact geometry with all pairs.

    Args:
        request: the request.
        q: start or goal, collision-free for the exact geometry, shape (n,).
    """
    return _without_pairs(request, [x.pair for x in request.checker.explain(q) if x.kind == "self"])


def _without_pairs(request: PlanRequest, pairs: list[tuple[str, str]]) -> PlanRequest:
    """Return a request whose checker ignores contacts of some pairs."""
    if not pairs:
        return request
    scene, changed = request.checker.scene, request.checker.snapshot()
    changed.set_scene(replace(scene, allowed=scene.allowed.with_pairs(pairs)))
    return replace(request, checker=changed)


def _nearby(
    checker: CollisionChecker, q: Array, seed: int, project: Projection | None
) -> Array | None:
    """Return a configuration close to one that the spheres and the line to it permit, or None."""
    rng, verifier = np.random.default_rng(seed), PathVerifier(checker)
    for reach in _REACHES:
        directions = rng.normal(size=(_DRAWS, len(q)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = reach * rng.uniform(0.2, 1.0, (_DRAWS, 1))
        drawn = checker.limits.clip(q + lengths * directions * checker.resolution)
        if project is not None:
            drawn, permitted = project(drawn)
            drawn = drawn[permitted]
            lengths = np.linalg.norm((drawn - q) / checker.resolution, axis=1, keepdims=True)
        order = np.argsort(lengths[:, 0])
        free = order[checker.are_free(drawn[order])]
        for k in free[:_TRIES]:
            if verifier.verify(np.stack([q, drawn[k]])).free:
                return np.asarray(drawn[k])
    return None


@dataclass(frozen=True)
class PlanOptions:
    """Options of the planning pipeline."""

    planner: str = ""
    """Name of the planner; empty: the default one."""
    settings: Any = None
    """Settings of the planner; None: defaults."""
    attempts: int = 1
    """Number of searches with different seeds, of which the shortest path is used."""
    shorten: bool = True
    """Whether the path is shortened."""
    shortening: ShorteningSettings | None = None
    """Settings of shortening; None: fast ones, well under a millisecond."""
    shorten_time: float = 0.5
    """Timeout of shortening [s]."""
    retime: bool = True
    """Whether the path is time-parameterized."""
    velocity_scaling: float = 1.0
    """Velocity scaling factor; 0 means 1."""
    acceleration_scaling: float = 1.0
    """Acceleration scaling factor; 0 means 1."""
    effort_share: float = setting(
        EFFORT_SHARE,
        doc="Fraction of the effort limits that planned motions may use, by the inertial "
        "parameters of the robot; 0: effort limits are not considered.",
        ge=0.0,
        le=1.0,
    )
    payload: Payload | None = None
    """Payload for the effort limits; motions with overloaded drives are rejected."""
    blend: float = 0.01
    """Max deviation of the motion at the corners of the path [rad or m]."""
    time_step: float = 0.01
    """Time between two points of the trajectory [s]."""
    verify: bool = True
    """Whether the result is verified with exact geometry."""
    preferred_clearance: float = setting(
        0.005,
        doc="Clearance of planned paths from obstacles and between links, by collision spheres. "
        "Start and goal may be closer; what of a path cannot be moved to it is closer, too.",
        unit="m",
        ge=0.0,
        le=0.1,
    )

    recovery: RecoverySettings | None = None
    """Settings of the slow motion out of an invalid start, which then precedes the plan; None: an
    invalid start is rejected."""

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or self.attempts < 1:
            raise InvalidConfig(
                f"attempts is {self.attempts!r}; it must be a whole number from 1 on.",
                field="attempts",
            )
        for name in ("velocity_scaling", "acceleration_scaling"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidConfig(
                    f"{name} is {getattr(self, name)}; it must be from 0 to 1.", field=name
                )
        if not (math.isfinite(self.time_step) and self.time_step > 0.0):
            raise InvalidConfig(
                f"time_step is {self.time_step} s; it must be above 0.", field="time_step"
            )
        check_settings(self)


@dataclass(eq=False)
class PlanAttempt:
    """What one strategy has found so far: its search, then adapters, fill it in their order."""

    ends: ExcessEnds
    """The request that was searched, and the lines that connect it to the original one."""
    result: PlanResult
    """Of the search; its path is None if there is none."""
    corner_step: float = CornerBlending.resolution
    """Step at which blended corners are checked."""
    is_free: FreeCheck | None = None
    """Check that blended corners have to pass."""
    motion: TimedPath | None = None
    points: JointTrajectory | None = None
    """The motion, sampled."""
    refused: str = ""
    """Why verification rejects the motion; empty: it is valid."""
    beyond_spheres: bool = False
    """Whether it does because of links that no sphere checks consider."""
    exact: bool = False
    """Whether it was searched, and shortened, by the exact geometry."""

    @property
    def path(self) -> Array:
        """Waypoints of a successful search, shape (k, n)."""
        assert self.result.path is not None
        return self.result.path

    @property
    def still(self) -> bool:
        """Whether the path moves no joint."""
        return bool(np.abs(self.path - self.path[0]).max() < EQUAL_POSITIONS)

    def move_along(self, path: Array) -> None:
        """Replace the path, shape (k, n)."""
        checker = self.ends.request.checker
        space = JointSpace.of_robot(checker.robot, checker.joint_names)
        self.result = replace(self.result, path=path, cost=space.length(path))


class PlanRun:
    """One request on its way through the pipeline, with the only clock."""

    def __init__(self, request: PlanRequest, options: PlanOptions) -> None:
        self._began = compute_time()
        self.request = request
        """As adapters have changed it."""
        self.options = options
        self.constraints: Any = None
        """Compiled path constraints; None without any."""
        self.recovered: tuple[Recovery, JointTrajectory] | None = None
        """Way out of an invalid start, and the slow motion along it."""
        self.notes: list[str] = []
        """For the client."""
        self.stages: list[PlanStage] = []
        self.words = ""
        """Result of the present stage."""
        self.tree: SearchTree | None = None
        """Of the last successful search, for visualization."""

    @property
    def spent(self) -> float:
        """Time since the start [s]."""
        return compute_time() - self._began

    @property
    def left(self) -> float:
        """Time until the timeout of the request [s]; may be negative."""
        return self.request.timeout - self.spent

    def note(self, text: str) -> None:
        """Add a note for the client, once; empty: none."""
        if text and text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; :attr:`words` becomes its result."""
        began = compute_time()
        self.words = ""
        try:
            yield
        except MotionError as error:
            self.words = str(error)
            raise
        finally:
            self.stages.append(PlanStage(name, compute_time() - began, self.words))

    def verified(self, driven: Array) -> Verification:
        """Return whether a motion, shape (k, n), is valid by exact geometry, and why not."""
        looked = PathVerifier(self.request.checker).verify(driven)
        share = f"{100.0 * looked.certain:.3g} % proven between them"
        self.words = looked.reason or (
            f"collision-free, {looked.configurations} configurations, {share}"
        )
        return looked
