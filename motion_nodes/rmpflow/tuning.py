# SPDX-License-Identifier: Apache-2.0
"""Tuning of RMPflow for a robot: RMP by RMP, with seeded trials.

A stage enables one more RMP, varies its parameters on tasks that are sensitive to them, and keeps
clear improvements. The order is that of the RMPflow Tuning Guide (Isaac Sim documentation):
posture; target, with an isotropic metric; collision; target again, with its direction and boost;
axes; limits; damping. All random numbers come from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from motion_nodes.model.rmpflow_settings import RmpflowSettings
from motion_nodes.model.robot import Robot
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.policy_trials import TaskDrawer, Trial, TrialTask, run_trial
from motion_nodes.scene.checker import CollisionChecker

CLEARLY = 0.03
"""Min relative reduction of the cost for a change to be kept."""
_COLLISION = ("collision_rmp", "self_collision_rmp")
_ISOTROPIC = {"target_rmp.min_metric_alpha": 1.0, "target_rmp.proximity_metric_boost_scalar": 1.0}

Draw = Callable[[TaskDrawer], TrialTask]


@dataclass(frozen=True)
class Knob:
    """A parameter to vary, and its factors."""

    name: str
    factors: tuple[float, ...] = (0.5, 2.0)


@dataclass(frozen=True)
class TuningStage:
    """One stage of the tuning."""

    title: str
    leaves: tuple[str, ...]
    """RMPs enabled from this stage on."""
    draw: Draw
    knobs: tuple[Knob, ...]
    isotropic: bool = False
    """Whether the target's metric is isotropic and independent of the distance."""


STAGES = (
    TuningStage(
        "posture",
        ("cspace_target_rmp",),
        TaskDrawer.posture,
        (
            Knob("cspace_target_rmp.position_gain"),
            Knob("cspace_target_rmp.damping_gain", (0.7, 1.4)),
        ),
    ),
    TuningStage(
        "target, all directions alike",
        ("target_rmp",),
        TaskDrawer.position,
        (
            Knob("target_rmp.accel_p_gain"),
            Knob("target_rmp.accel_d_gain", (0.7, 1.4)),
            Knob("target_rmp.accel_norm_eps"),
            Knob("target_rmp.max_metric_scalar", (0.3, 3.0)),
        ),
        isotropic=True,
    ),
    TuningStage(
        "obstacles",
        _COLLISION,
        TaskDrawer.around_obstacle,
        (
            Knob("collision_rmp.repulsion_std_dev"),
            Knob("collision_rmp.damping_gain"),
            Knob("collision_rmp.metric_scalar", (0.3, 3.0)),
        ),
        isotropic=True,
    ),
    TuningStage(
        "target, its direction and boost",
        (),
        TaskDrawer.around_obstacle,
        (
            Knob("target_rmp.metric_alpha_length_scale"),
            Knob("target_rmp.min_metric_scalar", (0.3, 3.0)),
            Knob("target_rmp.proximity_metric_boost_scalar"),
        ),
    ),
    TuningStage(
        "axes of the tool",
        ("axis_target_rmp",),
        TaskDrawer.pose,
        (
            Knob("axis_target_rmp.accel_p_gain"),
            Knob("axis_target_rmp.accel_d_gain", (0.7, 1.4)),
            Knob("axis_target_rmp.metric_scalar", (0.3, 3.0)),
        ),
    ),
    TuningStage(
        "joint limits",
        ("joint_limit_rmp", "joint_velocity_cap_rmp"),
        TaskDrawer.near_limits,
        (
            Knob("joint_limit_rmp.metric_scalar", (0.1, 10.0)),
            Knob("joint_limit_rmp.accel_damper_gain"),
        ),
    ),
    TuningStage(
        "damping and inertia",
        ("damping_rmp",),
        lambda drawer: drawer.around_obstacle(oriented=True),
        (Knob("damping_rmp.accel_d_gain"), Knob("damping_rmp.inertia", (0.3, 3.0))),
    ),
)  # fmt: skip
"""Stages in their order."""


@dataclass(frozen=True)
class Summary:
    """Summary of several trials."""

    arrived: float
    """Fraction of the trials that arrived, 0..1."""
    seconds: float
    """Median time of those that arrived [s]; NaN if none did."""
    position_error: float
    """Max final position error [m]; NaN without targets."""
    orientation_error: float
    """Max final orientation error [rad]; NaN without targets."""
    posture_error: float
    """Max final posture error [rad or m]."""
    wobble: float
    """Max increase of a tool's distance from its target [m]."""
    jerk: float
    """RMS jerk [rad/s^3]."""
    clearance: float
    """Min distance to obstacles [m]; inf without any."""
    apart: float
    """Min distance between links [m]."""
    weights: Mapping[str, float]
    """Trace of each RMP's metric, median."""

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Summary:
        """Summarize trials."""
        times = [trial.seconds for trial in trials if trial.seconds is not None]
        names = {name: None for trial in trials for name in trial.weights}
        return cls(
            len(times) / len(trials),
            float(np.median(times)) if times else float("nan"),
            max(trial.position_error for trial in trials),
            max(trial.orientation_error for trial in trials),
            max(trial.posture_error for trial in trials),
            max(trial.wobble for trial in trials),
            float(np.sqrt(np.mean([trial.jerk**2 for trial in trials]))),
            min(trial.clearance for trial in trials),
            min(trial.apart for trial in trials),
            {name: float(np.median([t.weights.get(name, 0.0) for t in trials])) for name in names},
        )


@dataclass(frozen=True)
class Change:
    """A changed parameter."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class StageReport:
    """Result of a stage."""

    title: str
    before: Summary
    after: Summary
    changes: tuple[Change, ...]


def cost(trial: Trial, task: TrialTask) -> float:
    """Return the cost of a trial [s]: duration, final error, overshoot, jerk, collisions.

    Args:
        trial: result of the task.
        task: the task.
    """
    error = 0.0 if np.isnan(trial.position_error) else trial.position_error
    late = 1.5 * task.duration + 10.0 * error if trial.seconds is None else trial.seconds
    touching = 20.0 * (min(trial.clearance, trial.apart) < 0.0)
    close = 5.0 * max(0.0, 0.01 - min(trial.clearance, trial.apart)) / 0.01
    return late + 20.0 * trial.wobble + trial.jerk / 2000.0 + touching + close


class Tuner:
    """Tunes a robot's policy, stage by stage."""

    def __init__(
        self,
        robot: Robot,
        settings: RmpflowSettings,
        *,
        joints: Sequence[str] | str = "arm",
        trials: int = 4,
        seed: int = 0,
    ) -> None:
        """Create the tuner.

        Args:
            robot: with a tool frame, and spheres or collision geometry.
            settings: initial settings.
            joints: names of the active joints, or a group's name.
            trials: number of tasks per value.
            seed: of the tasks.

        Raises:
            MotionError: as raised by :class:`RmpflowPolicy`.
        """
        self.settings = settings
        """The best settings found."""
        self._policy = RmpflowPolicy(robot, settings, joints=joints)
        self._checker = CollisionChecker(robot, self._policy.active_joints)
        self._trials, self._seed = trials, seed

    def walk(self, stages: Sequence[TuningStage] = STAGES) -> Iterator[StageReport]:
        """Run the stages and yield their results; updates :attr:`settings`."""
        on: list[str] = []
        for number, stage in enumerate(stages):
            on += stage.leaves
            drawer = TaskDrawer(self._policy, self._checker, self._seed + 1000 * number)
            tasks = [stage.draw(drawer) for _ in range(self._trials)]
            yield self._stage(stage, {**_off(self.settings, on), **_forced(stage)}, tasks)

    def check(self, settings: RmpflowSettings, count: int = 8) -> Summary:
        """Return the summary of settings on unseen tasks, with all RMPs enabled."""
        drawer = TaskDrawer(self._policy, self._checker, self._seed + 99_000)
        tasks = [
            drawer.pose() if k % 2 else drawer.around_obstacle(oriented=True) for k in range(count)
        ]
        return Summary.of([trial for _, trial in self._run(settings.parameters(), tasks, True)])

    def _stage(
        self, stage: TuningStage, forced: Mapping[str, float], tasks: list[TrialTask]
    ) -> StageReport:
        values = self.settings.parameters()
        first, least = dict(values), self._cost({**values, **forced}, tasks)
        for knob in stage.knobs:
            start = values[knob.name]
            for factor in knob.factors:
                tried = {**values, knob.name: start * factor}
                found = self._cost({**tried, **forced}, tasks)
                if found < (1.0 - CLEARLY) * least:
                    values, least = tried, found
        before = Summary.of([t for _, t in self._run({**first, **forced}, tasks, True)])
        after = Summary.of([t for _, t in self._run({**values, **forced}, tasks, True)])
        changes = tuple(
            Change(name, first[name], value)
            for name, value in values.items()
            if value != first[name]
        )
        self.settings = self.settings.with_parameters({c.name: c.after for c in changes})
        return StageReport(stage.title, before, after, changes)

    def _cost(self, values: Mapping[str, float], tasks: Sequence[TrialTask]) -> float:
        return float(np.mean([cost(trial, task) for task, trial in self._run(values, tasks)]))

    def _run(
        self, values: Mapping[str, float], tasks: Sequence[TrialTask], weigh: bool = False
    ) -> Iterator[tuple[TrialTask, Trial]]:
        self._policy.set_parameters(values)
        for task in tasks:
            yield task, run_trial(self._policy, self._checker, task, weigh=weigh)


def _off(settings: RmpflowSettings, on: Sequence[str]) -> dict[str, float]:
    """Return the parameters that disable all RMPs except some."""
    return {
        name: 0.0
        for name in settings.parameters()
        if name.endswith(("metric_scalar", "metric_weight", ".inertia"))
        and name.partition(".")[0] not in on
    }


def _forced(stage: TuningStage) -> dict[str, float]:
    return _ISOTROPIC if stage.isotropic else {}
