# SPDX-License-Identifier: Apache-2.0
"""Tuning of RMPflow for a robot: RMP by RMP, with seeded trials.

A stage enables one more RMP, varies its parameters on tasks that are sensitive to them, and keeps
clear improvements. The order is that of the RMPflow Tuning Guide (Isaac Sim documentation):
posture; target, with an isotropic metric; collision; target again, with its direction and boost;
axes; limits; damping. All random numbers come from a seed.

A robot without settings gets the Panda's, in proportion to its size. All parameters with a length
in their unit are scaled, gains and metrics, too. So the joints of a robot with the Panda's
proportions move as the Panda's do, whatever its size. Otherwise the target of a small arm is weaker
than its posture, and its attraction is not damped.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.poses import from_xyz_rpy, to_quat_xyzw
from motion_nodes.core.robot.rmpflow_settings import RmpflowSettings
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.tree import Box, JointKind, Sphere
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.errors import MotionError
from motion_nodes.typing import Array

FRAME = 0.02  # [s]
NEAR, LEVEL, SETTLED = 0.005, float(np.radians(1.0)), 0.01
"""Tolerances at the target: position [m], orientation [rad]; posture [rad]."""
_LOOKS = 3  # evaluations of the RMP weights per trial
# [m] min distances of links, and of obstacles, where a task begins and ends
_APART, _CLEAR = 0.03, 0.04
_TRIES = 2000
_NOTHING = "no {} were found for {}: its posture is too close to self-collision or to its limits."
_APART_EVERY = 5  # frames between checks of link distances
CLEARLY = 0.03
"""Min relative reduction of the cost for a change to be kept."""
_COLLISION = ("collision_rmp", "self_collision_rmp")
_ISOTROPIC = {"target_rmp.min_metric_alpha": 1.0, "target_rmp.proximity_metric_boost_scalar": 1.0}
_PANDA_LENGTH = 1.0897
"""Length of the Panda from its first joint to its tool, by :func:`chain_length` [m]."""
_SCALES = (0.1, 2.0)
"""Min and max scale."""
_BUFFER, _BUFFER_SHARE = 0.01, 0.002
"""Reduction of a joint's range at each end: max [rad or m], and as a fraction of the range."""
_DISTANCE_POWERS = {
    "damping_std_dev": 1,
    "damping_velocity_gate_length_scale": 1,
    "repulsion_gain": 1,
    "repulsion_std_dev": 1,
    "metric_modulation_radius": 1,
    "metric_exploder_std_dev": 1,
    "metric_scalar": -2,
}
_POWERS = {
    "target_rmp": {
        "accel_p_gain": 1,
        "accel_norm_eps": 1,
        "metric_alpha_length_scale": 1,
        "proximity_metric_boost_length_scale": 1,
        "max_metric_scalar": -2,
        "min_metric_scalar": -2,
    },
    "axis_target_rmp": {"proximity_metric_boost_length_scale": 1},
    "collision_rmp": _DISTANCE_POWERS,
    "self_collision_rmp": _DISTANCE_POWERS,
    "damping_rmp": {"accel_d_gain": -1, "metric_scalar": -3, "inertia": -2},
}
"""Power of the scale by which parameters are multiplied. Metrics weigh squares of accelerations."""
_PANDA = RmpflowSettings().with_parameters(
    {
        "cspace_target_rmp.damping_gain": 25.0,
        "cspace_target_rmp.inertia": 200.0,
        "target_rmp.accel_p_gain": 60.0,
        "target_rmp.accel_d_gain": 60.0,
        "target_rmp.accel_norm_eps": 0.0375,
        "axis_target_rmp.metric_scalar": 200.0,
        "axis_target_rmp.proximity_metric_boost_scalar": 150.0,
        "self_collision_rmp.metric_scalar": 1000.0,
    }
)
"""The source's, with the changes that the shipped Panda and UR10e share, and the UR10e's inertia.

See docs/rmpflow.md. With the source's inertia of 1, joints of low max acceleration swing about
targets that only a singular configuration reaches.
"""


@dataclass(frozen=True, eq=False)
class TrialTask:
    """Task of a policy."""

    start: Array
    """Positions of the active joints [rad or m], shape (n,)."""
    posture: Array | None = None
    """Target posture; None: the robot's own."""
    X_WT: Array | None = None
    """Target pose of the tool in the world, shape (4, 4); None: the posture alone."""
    oriented: bool = True
    scene: Scene = field(default_factory=Scene)
    duration: float = 3.0
    """Duration [s]."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Result of a task."""

    seconds: float | None
    """Time of final arrival; None if not reached [s]."""
    position_error: float
    """Final position error [m]; NaN without a target."""
    orientation_error: float
    """Final orientation error [rad]; NaN without a target."""
    posture_error: float
    """Final max joint error [rad or m]."""
    wobble: float
    """Max increase of the tool's distance after it had been close to its target [m]."""
    jerk: float
    """RMS jerk of all joints [rad/s^3]."""
    clearance: float
    """Min distance to obstacles [m]; inf without any."""
    apart: float
    """Min distance between links [m]."""
    weights: dict[str, float]
    """Trace of each RMP's metric, median over the trial; empty unless requested."""


def run_trial(
    policy: RmpflowPolicy, checker: CollisionChecker, task: TrialTask, *, weigh: bool = False
) -> Trial:
    """Run a task with the policy's own state, and return the result.

    Args:
        policy: the policy under test.
        checker: of the same joints; its scene is ignored.
        task: the task.
        weigh: whether the weights of the RMPs are recorded, which takes longer.
    """
    policy.reset()
    policy.set_ignore_state_updates(True)
    rest = np.zeros(len(task.start))
    policy.set_internal_robot_joint_states(task.start, rest)
    policy.set_scene(task.scene)
    if task.posture is not None:
        policy.set_cspace_target(task.posture)
    if task.X_WT is not None:
        orientation = to_quat_xyzw(task.X_WT) if task.oriented else None
        policy.set_end_effector_target(task.X_WT[:3, 3], orientation)
    frames = round(task.duration / FRAME)
    looks = {frames * (2 * k + 1) // (2 * _LOOKS) for k in range(_LOOKS)} if weigh else set()
    speeds, errors, arrived, found = [rest], [], [], []
    clearance = apart = np.inf
    for k in range(frames):
        q, qd = policy.compute_joint_targets(task.start, rest, frame_duration=FRAME)
        status = policy.status
        speeds.append(qd)
        errors.append(status.position_error)
        arrived.append(
            not status.position_error >= NEAR
            and not status.orientation_error >= LEVEL
            and (task.X_WT is not None or status.posture_error < SETTLED)
        )
        clearance = min(clearance, policy.clearance())
        if k % _APART_EVERY == 0:
            apart = min(apart, checker.distance(q).value)
        report = policy.report() if k in looks else None
        if report is not None:
            found.append({leaf.name: leaf.weight for leaf in report.leaves})
    names = found[0] if found else ()
    return Trial(
        _first_for_good(arrived),
        status.position_error,
        status.orientation_error,
        status.posture_error,
        _wobble(errors),
        float(np.sqrt((np.diff(np.array(speeds), 2, axis=0) ** 2).mean()) / FRAME**2),
        clearance,
        apart,
        {name: statistics.median(look[name] for look in found) for name in names},
    )


def _first_for_good(arrived: Sequence[bool]) -> float | None:
    """Return the time since which it is continuously true [s]."""
    count = 0
    for there in reversed(arrived):
        if not there:
            break
        count += 1
    return (len(arrived) - count + 1) * FRAME if count else None


def _wobble(errors: Sequence[float]) -> float:
    """Return the max increase of the error after it had been below 5 cm [m]."""
    values = np.array(errors)
    near = np.flatnonzero(values < 0.05)
    return float(np.maximum(np.diff(values[near[0] :]), 0.0).sum()) if len(near) else 0.0


class TaskDrawer:
    """Samples feasible tasks: starts and goals are collision-free and reachable."""

    def __init__(self, policy: RmpflowPolicy, checker: CollisionChecker, seed: int) -> None:
        self._policy, self._checker = policy, checker
        self._rng = np.random.default_rng(seed)
        self._limits = policy.robot.limits.select(policy.active_joints)
        self._home = policy.default_cspace_target
        # Some robots have links that are always closer than that.
        self._apart = min(_APART, 0.5 * checker.distance(self._home).value)

    def posture(self) -> TrialTask:
        """Return the task to move from one posture to another."""
        return TrialTask(self._free(0.8), posture=self._free(0.8))

    def position(self) -> TrialTask:
        """Return the task to move the tool to a position."""
        return TrialTask(self._free(0.6), X_WT=self._pose(0.6), oriented=False)

    def pose(self) -> TrialTask:
        """Return the task to move the tool to a pose."""
        return TrialTask(self._free(0.6), X_WT=self._pose(0.6))

    def near_limits(self) -> TrialTask:
        """Return the task to reach a position with some joints close to their limits."""
        limits, home = self._limits, self._home
        span = np.where(np.isfinite(limits.upper - limits.lower), limits.upper - limits.lower, 6.0)
        low, high = np.maximum(limits.lower, home - 3.0), np.minimum(limits.upper, home + 3.0)

        def drawn() -> Array:
            q = home + self._rng.uniform(-0.6, 0.6, len(home))
            joint = self._rng.integers(len(home))
            side = low if self._rng.random() < 0.5 else high
            q[joint] = side[joint] + np.sign(home[joint] - side[joint]) * 0.03 * span[joint]
            return limits.clip(q)

        goal = self._until_free(drawn)
        return TrialTask(self._free(0.6), X_WT=self._policy.tool_pose(goal), oriented=False)

    def around_obstacle(self, oriented: bool = False) -> TrialTask:
        """Return the task to move the tool around a ball and a box that block the direct path."""
        for _ in range(_TRIES):
            start, goal = self._free(0.7), self._free(0.7)
            a, X = self._policy.tool_pose(start)[:3, 3], self._policy.tool_pose(goal)
            way = float(np.linalg.norm(X[:3, 3] - a))
            radius = 0.2 * way
            middle = 0.5 * (a + X[:3, 3]) + self._rng.normal(size=3) * 0.3 * radius
            ball = world_object("ball", Sphere(radius), from_xyz_rpy(middle))
            low = from_xyz_rpy((X[0, 3], X[1, 3], X[2, 3] - 0.2))
            box = world_object("box", Box((0.15, 0.15, 0.1)), low)
            scene = Scene(objects={"ball": ball, "box": box})
            if way > 0.15 and all(self._clearance(q, scene) > _CLEAR for q in (start, goal)):
                return TrialTask(start, X_WT=X, oriented=oriented, scene=scene, duration=5.0)
        raise MotionError(_NOTHING.format("targets beyond an obstacle", self._policy.robot.name))

    def _clearance(self, q: Array, scene: Scene) -> float:
        self._policy.reset()
        self._policy.set_internal_robot_joint_states(q, np.zeros(len(q)))
        self._policy.set_scene(scene)
        return self._policy.clearance()

    def _pose(self, spread: float) -> Array:
        return self._policy.tool_pose(self._free(spread))

    def _free(self, spread: float) -> Array:
        """Return a configuration with sufficient distance between links."""
        home = self._home
        return self._until_free(
            lambda: self._limits.clip(home + self._rng.uniform(-spread, spread, len(home)))
        )

    def _until_free(self, draw: Callable[[], Array]) -> Array:
        for _ in range(_TRIES):
            q = draw()
            if self._checker.distance(q).value > self._apart:
                return q
        raise MotionError(_NOTHING.format("free configurations", self._policy.robot.name))


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


def starting_settings(robot: Robot, joints: Sequence[str] | str = "arm") -> RmpflowSettings:
    """Return initial settings for a robot without any.

    Velocities are limited by the robot's. The posture is its state ``ready`` if there is one: home
    is often stretched, or at joint limits.

    Args:
        robot: the robot.
        joints: names of the active joints, or a group's name.
    """
    names = robot.group(joints).joints if isinstance(joints, str) else tuple(joints)
    scale = settings_scale(robot, names)
    limits = robot.limits.select(names)
    known = _PANDA.parameters()
    values = {
        f"{group}.{name}": known[f"{group}.{name}"] * scale**power
        for group, powers in _POWERS.items()
        for name, power in powers.items()
    }
    cap = known["joint_velocity_cap_rmp.max_velocity"]
    cap = min(cap, float(limits.velocity.max(initial=0.0, where=limits.velocity < np.inf)) or cap)
    values["joint_velocity_cap_rmp.max_velocity"] = cap
    values["joint_velocity_cap_rmp.velocity_damping_region"] = 0.375 * cap
    return dataclasses.replace(
        _PANDA.with_parameters(values),
        joint_limit_buffers=tuple(
            min(_BUFFER, _BUFFER_SHARE * float(span)) for span in limits.upper - limits.lower
        ),
        default_posture="ready" if set(names) <= set(robot.states.get("ready", ())) else "home",
    )


def settings_scale(robot: Robot, joints: Sequence[str]) -> float:
    """Return the size of an arm relative to the Panda's, within the range of the settings.

    Args:
        robot: the robot.
        joints: its active joints.
    """
    return float(np.clip(chain_length(robot, joints) / _PANDA_LENGTH, *_SCALES))


def chain_length(robot: Robot, joints: Sequence[str]) -> float:
    """Return the length of an arm [m], from its first active joint to the tool.

    It is the sum of the distances between joints, and of the ranges of joints that slide.

    Args:
        robot: the robot.
        joints: its active joints.
    """
    tip = robot.tool_frame or robot.tree.joints[joints[-1]].child
    chain = robot.chain(robot.base_frame, tip)
    moved = next((k for k, joint in enumerate(chain) if joint.name in joints), 0)
    slides = [j.upper - j.lower for j in chain[moved:] if j.kind is JointKind.PRISMATIC]
    lengths = [float(np.linalg.norm(joint.X_PJ[:3, 3])) for joint in chain[moved + 1 :]]
    return sum(lengths) + sum(span for span in slides if np.isfinite(span))
