# SPDX-License-Identifier: Apache-2.0
"""Options of the planning pipeline, and what its adapters and strategies read and change."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motion_nodes.core.planning.joint_space import JointSpace
from motion_nodes.core.planning.path_verification import PathVerifier
from motion_nodes.core.planning.planning_problem import (
    MotionPlan,
    PlanRequest,
    PlanResult,
    PlanStage,
)
from motion_nodes.core.planning.recovery import Recovery, RecoverySettings
from motion_nodes.core.planning.search_settings import ShorteningSettings
from motion_nodes.core.planning.sphere_excess import ExcessEnds
from motion_nodes.core.planning.tree_search import SearchTree
from motion_nodes.core.robot.inverse_dynamics import Payload
from motion_nodes.core.trajectory.joint_path import CornerBlending, FreeCheck
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.core.trajectory.path_efforts import EFFORT_SHARE
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.settings import check_settings, setting
from motion_nodes.tolerances import EQUAL_POSITIONS
from motion_nodes.typing import Array


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

    def __post_init__(self) -> None:
        """Validate the numbers."""
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

    def __init__(
        self, request: PlanRequest, options: PlanOptions, recovery: RecoverySettings | None = None
    ) -> None:
        """Start the clock."""
        self._began = compute_time()
        self.request = request
        """As adapters have changed it."""
        self.options, self.recovery = options, recovery
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

    def refusal(self, driven: Array) -> str:
        """Return why exact geometry rejects a motion, shape (k, n); empty if it is valid."""
        looked = PathVerifier(self.request.checker).verify(driven)
        share = f"{100.0 * looked.certain:.3g} % proven between them"
        self.words = looked.reason or (
            f"collision-free, {looked.configurations} configurations, {share}"
        )
        return looked.reason

    def answer(self, attempt: PlanAttempt | None, result: PlanResult) -> MotionPlan:
        """Return the plan, with the motion of an attempt."""
        motion, points = (None, None) if attempt is None else (attempt.motion, attempt.points)
        spent = self.spent
        return MotionPlan(
            replace(result, time=spent), points, motion, tuple(self.stages), tuple(self.notes),
            spent, self.tree,
        )  # fmt: skip
