# SPDX-License-Identifier: Apache-2.0
"""Planning to poses with a tree guided by the transposed Jacobian.

Such a tree is fast if the tip's path is open, but slow if it has to leave a local minimum first. It
therefore searches alone for a bounded number of iterations; then inverse kinematics samples goal
configurations for RRT-Connect. If there are none, or it finds no path, the tree continues. The
switch depends on iterations, not time, so equal seeds give equal paths.

Names and defaults of the settings and of the configuration file are those of NVIDIA's Lula RRT and
cuMotion, for compatibility with their files; older spellings are accepted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.ik.problem import IkRequest, IkSettings, IkTolerance
from motion_nodes.core.planning.cartesian import checker_kinematics
from motion_nodes.core.planning.constraint_set import pose_and_jacobian
from motion_nodes.core.planning.planning_problem import (
    PlanRequest,
    PlanResult,
    PlanStatus,
    PoseGoal,
    check_search_start,
)
from motion_nodes.core.planning.pose_solvers import pose_solver
from motion_nodes.core.planning.rrt_connect import RrtConnectSettings, first_path
from motion_nodes.core.planning.tree_search import (
    MAX_COUNT,
    SOLVED,
    FoundPath,
    Growth,
    SearchOutcome,
    TreePlanner,
    TreeSearch,
    goal_configurations,
    kernel_space,
    new_tree,
    space_of,
)
from motion_nodes.core.robot.poses import rigid_pose
from motion_nodes.core.robot.yaml_schema import read_yaml
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.kernels.bridges import Checker
from motion_nodes.kernels.compute_clock import compute_time
from motion_nodes.kernels.search.task_space_rrt import (
    Targets,
    TaskNodes,
    TaskOptions,
    TaskSearch,
    Tip,
    grow_to_pose,
)
from motion_nodes.typing import Array

_Range = tuple[float, float]
_BLOCKS = ("c_space_planning_params", "task_space_planning_params")
_OTHER_SPELLINGS = {
    "cspace_planning_params": "c_space_planning_params",
    "x_target_zone_tolerance": "translation_target_zone_tolerance",
    "x_target_final_tolerance": "translation_target_final_tolerance",
    "x_zone_target_tolerance": "translation_target_zone_tolerance",
    "x_zone_final_tolerance": "translation_target_final_tolerance",
}
_WITHOUT_EFFECT = ("cuda_tree_params",)
"""GPU settings without effect here."""
_MOST_SUBSTEPS = 10_000
"""Max number of substeps of an extension, which cannot be cancelled."""
_MAY_BE_ZERO = ("unexploited_nodes_culling_scalar", "seed")
_ALONE = 1500
"""Number of iterations before RRT-Connect is tried."""
_ANGLE = 1e-3
"""Tolerance of an unconstrained orientation after it is chosen [rad]."""


@dataclass(frozen=True)
class CSpacePlanning:
    """Settings of the search for joint targets."""

    exploration_fraction: float = 0.5
    """Fraction of the extensions towards random places; the rest connect the trees, 0 to 1."""

    def __post_init__(self) -> None:
        _check_fields(self)


@dataclass(frozen=True)
class TaskSpacePlanning:
    """Settings of the search for poses."""

    translation_target_zone_tolerance: float = 0.05
    """Position error below which inverse kinematics completes the path [m]."""
    orientation_target_zone_tolerance: float = 0.09
    """Orientation error below which inverse kinematics completes the path [rad]."""
    translation_target_final_tolerance: float = 1e-4
    """Final position tolerance [m]."""
    orientation_target_final_tolerance: float = 0.005
    """Final orientation tolerance [rad]."""
    translation_gradient_weight: float = 1.0
    """Weight of the position in the gradient towards a target."""
    orientation_gradient_weight: float = 0.125
    """Weight of the orientation in the gradient."""
    nn_translation_distance_weight: float = 1.0
    """Weight of the position in the distance between tip and target."""
    nn_orientation_distance_weight: float = 0.125
    """Weight of the orientation in the distance."""
    task_space_exploitation_fraction: float = 0.4
    """Fraction of the iterations towards the target."""
    task_space_exploration_fraction: float = 0.1
    """Fraction of the iterations towards a random position of the tip; the rest go to random
    configurations."""
    max_extension_substeps_away_from_target: int = 6
    """Max substeps per iteration, in joint space too."""
    max_extension_substeps_near_target: int = 50
    """Max substeps per iteration near the target."""
    extension_substep_target_region_scale_factor: float = 2.0
    """A target is near within this multiple of its zone tolerance."""
    unexploited_nodes_culling_scalar: float = 1.0
    """Nodes within this multiple of the step size of an exploited node are not exploited again."""
    gradient_substep_size: float = 0.025
    """Length of a gradient step in joint space [rad or m]."""

    def __post_init__(self) -> None:
        """Validate the values and their sum."""
        _check_fields(self)
        share = self.task_space_exploitation_fraction + self.task_space_exploration_fraction
        if share > 1.0 + 1e-9:
            raise InvalidConfig(
                "task_space_exploitation_fraction and task_space_exploration_fraction add up to "
                f"{share:.4g}; allowed is 1 at most.",
                field="task_space_exploitation_fraction",
            )


@dataclass(frozen=True)
class RrtConfig:
    """Contents of a configuration file."""

    seed: int = 123456
    """Random seed."""
    step_size: float = 0.05
    """Step size in joint space, in the weighted metric."""
    max_iterations: int = 50_000
    max_sampling: int = 10_000
    """Max number of tries for a collision-free sample."""
    distance_metric_weights: tuple[float, ...] = ()
    """Joint weights in distances; default: 1 each."""
    task_space_frame_name: str = ""
    """Link of the targets; default: the planner's."""
    task_space_limits: tuple[_Range, _Range, _Range] = ((-1.0, 1.0),) * 3
    """Box in the robot's base in which tip positions are sampled [m]."""
    c_space_planning_params: CSpacePlanning = field(default_factory=CSpacePlanning)
    task_space_planning_params: TaskSpacePlanning = field(default_factory=TaskSpacePlanning)
    enable_self_collision_checking: bool = True
    """False: self-collisions are ignored."""

    def __post_init__(self) -> None:
        _check_fields(self)

    def with_param(self, name: str, value: object) -> RrtConfig:
        """Return a copy with another value.

        Args:
            name: of the setting; nested ones with "/", such as
                ``task_space_planning_params/gradient_substep_size``.
            value: its new value.

        Raises:
            InvalidConfig: unknown setting, or invalid value.
        """
        block, _, leaf = _current_name(name).rpartition("/")
        if block and block not in _BLOCKS:
            raise InvalidConfig(
                f"there is no parameter '{name}'.{did_you_mean(name, param_names())}", field=name
            )
        owner: Any = getattr(self, block) if block else self
        known = {f.name for f in dataclasses.fields(owner)} - set(_BLOCKS)
        if leaf not in known:
            raise InvalidConfig(
                f"there is no parameter '{name}'.{did_you_mean(name, param_names())}", field=name
            )
        changed = replace(owner, **{leaf: value})
        return replace(self, **{block: changed}) if block else changed


def param_names() -> tuple[str, ...]:
    """Return the names of all settings, nested ones with "/"."""
    config = RrtConfig()
    names = [f.name for f in dataclasses.fields(config) if f.name not in _BLOCKS]
    for block in _BLOCKS:
        names += [f"{block}/{f.name}" for f in dataclasses.fields(getattr(config, block))]
    return tuple(names)


def read_rrt_config(file: str | Path) -> tuple[RrtConfig, tuple[str, ...]]:
    """Return the settings in a file, and notes on entries without effect.

    Raises:
        InvalidDescription: the file cannot be read, or is not YAML.
        InvalidConfig: an invalid value; names file and setting.
    """
    return rrt_config(read_yaml(Path(file)), str(file))


def rrt_config(data: Mapping[str, Any], where: str) -> tuple[RrtConfig, tuple[str, ...]]:
    """Return settings from plain data, and notes on entries without effect.

    Raises:
        InvalidConfig: an invalid value; names ``where`` and the setting.
    """
    config, notes = RrtConfig(), []
    leaves = []
    for name, value in data.items():
        if str(name) in _WITHOUT_EFFECT:
            notes.append(f"{where}: {name} has no effect: the search runs on the processor.")
        elif isinstance(value, Mapping):
            leaves += [(f"{name}/{inner}", x) for inner, x in value.items()]
        else:
            leaves.append((str(name), value))
    names = param_names()
    # The sum of the two fractions is bounded, so they are set together.
    shares = {}
    for name, value in leaves:
        current = _current_name(name)
        if current not in names:
            notes.append(f"{where}: {name} is not known and ignored.{did_you_mean(name, names)}")
        elif current.endswith("_fraction") and current.startswith("task_space"):
            shares[current.rpartition("/")[2]] = value
        else:
            config = _set(config, name, value, where)
    if shares:
        try:
            task = replace(config.task_space_planning_params, **shares)
            config = replace(config, task_space_planning_params=task)
        except InvalidConfig as error:
            raise InvalidConfig(f"{where}: {error}", field=error.field) from None
    return config, tuple(notes)


def _set(config: RrtConfig, name: str, value: object, where: str) -> RrtConfig:
    try:
        return config.with_param(name, value)
    except InvalidConfig as error:
        raise InvalidConfig(f"{where}: {error}", field=error.field) from None


def _current_name(name: str) -> str:
    return "/".join(_OTHER_SPELLINGS.get(part, part) for part in str(name).split("/"))


def _check_fields(settings: Any) -> None:
    """Validate the values of a block, and convert them to the types of their settings."""
    for entry in dataclasses.fields(settings):
        if entry.name not in _BLOCKS:
            value = _checked(entry.name, getattr(settings, entry.name))
            object.__setattr__(settings, entry.name, value)


def _checked(name: str, value: Any) -> Any:
    """Return a value converted to its setting's type.

    Raises:
        InvalidConfig: with the allowed values.
    """
    if name == "enable_self_collision_checking":
        if not isinstance(value, bool | np.bool_):
            raise InvalidConfig(f"{name} is {value!r}; allowed are true and false.", field=name)
        return bool(value)
    if name == "task_space_frame_name":
        if not isinstance(value, str):
            raise InvalidConfig(f"{name} is {value!r}; it must be the name of a link.", field=name)
        return value
    if name == "distance_metric_weights":
        return tuple(_numbers(name, value, None, above=0.0))
    if name == "task_space_limits":
        rows = _numbers(name, value, 6)
        low, high = rows[0::2], rows[1::2]
        if any(a > b for a, b in zip(low, high, strict=True)):
            raise InvalidConfig(
                f"{name} is {value!r}; the lower bound of each axis comes first.", field=name
            )
        return tuple(zip(low, high, strict=True))
    number = _number(name, value)
    if name in ("seed", "max_iterations", "max_sampling") or name.startswith("max_extension"):
        least = 1 if name in ("max_iterations", "max_sampling") else 0
        most = 2**63 if name == "seed" else MAX_COUNT
        most = _MOST_SUBSTEPS if name.startswith("max_extension") else most
        if number != int(number) or not least <= number <= most:
            raise InvalidConfig(
                f"{name} is {value!r}; it must be a whole number from {least} to {most}.",
                field=name,
            )
        return int(number)
    if name.endswith("_fraction") and not 0.0 <= number <= 1.0:
        raise InvalidConfig(f"{name} is {value!r}; it must be from 0 to 1.", field=name)
    if name == "extension_substep_target_region_scale_factor" and number < 1.0:
        raise InvalidConfig(f"{name} is {value!r}; it must be at least 1.", field=name)
    zero = name in _MAY_BE_ZERO or name.endswith("_fraction")
    if number < 0.0 or (number == 0.0 and not zero):
        raise InvalidConfig(
            f"{name} is {value!r}; it must be {'at least' if zero else 'above'} 0.", field=name
        )
    return number


def _number(name: str, value: Any) -> float:
    # YAML 1.1 reads 1e-4 (without a point) as text, and such files exist.
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidConfig(f"{name} is {value!r}; it must be a finite number.", field=name)
    return number


def _numbers(name: str, value: Any, count: int | None, above: float = -math.inf) -> list[float]:
    try:
        numbers = np.asarray(value, np.float64).ravel()
    except (TypeError, ValueError):
        numbers = np.array([math.nan])
    right = count is None or numbers.size == count
    if not (right and np.isfinite(numbers).all() and (numbers > above).all()):
        required = "finite numbers" if count is None else f"{count} finite numbers (three pairs)"
        more = f" above {above:g}" if math.isfinite(above) else ""
        raise InvalidConfig(f"{name} is {value!r}; it must hold {required}{more}.", field=name)
    return [float(x) for x in numbers]


class TaskSpaceRrt(TreePlanner):
    """Plans to alternative poses of one link: position, orientation, or both.

    Once a node is in the zone of a target, inverse kinematics completes the path; if the straight
    line to its solution is in collision, the search continues. After 1500 iterations RRT-Connect is
    tried as well.
    """

    name = "TaskSpaceRRT"

    def __init__(self, config: RrtConfig | None = None) -> None:
        super().__init__()
        self.config = config or RrtConfig()

    def plan(self, request: PlanRequest) -> PlanResult:
        """Search a path to a pose.

        Returns:
            The result; a request with other goals than poses of one link is rejected with a reason.
        """
        began, config = compute_time(), self.config
        start = check_search_start(request.checker, request.start)
        if start.status is not None:
            spent = compute_time() - began
            return PlanResult(start.status, None, start.reason, self.name, time=spent)
        goals = pose_goals(request)
        if goals is None:
            words = "no goal was given" if not request.goals else "needs poses of one link alone"
            return PlanResult(PlanStatus.NO_GOAL, None, f"{self.name}: {words}", self.name)
        space = space_of(request, config.distance_metric_weights)
        started = compute_time()
        kernel = request.checker.kernel()
        search = TreeSearch(
            request,
            space,
            start.q,
            np.empty((0, len(start.q))),
            new_tree(start.q, config.max_iterations + 1, request.random_seed),
            kernel_space(space, start.q),
            Checker(kernel.state, kernel.edge, kernel.memory),
            Growth(request, began, config.max_iterations, config.max_sampling),
        )
        found = _Targets(search, goals, config).search()
        del kernel
        return self.result(search, found, range(len(goals)), began, started)

    def search(self, search: TreeSearch) -> FoundPath:
        """Not used: this planner has no goal configurations."""
        raise NotImplementedError


def pose_goals(request: PlanRequest) -> tuple[PoseGoal, ...] | None:
    """Return the goals of a request if all are poses of the same frame of one link."""
    poses = tuple(goal for goal in request.goals if isinstance(goal, PoseGoal))
    if not poses or len(poses) != len(request.goals) or any(goal.joints for goal in poses):
        return None
    frames = {(goal.link, np.asarray(_frame(goal)).tobytes()) for goal in poses}
    return poses if len(frames) == 1 else None


def _frame(goal: PoseGoal) -> Array:
    return np.eye(4) if goal.X_LT is None else rigid_pose(goal.X_LT, "X_LT", 1e-3)


class _Targets:
    """One search for poses."""

    def __init__(self, search: TreeSearch, goals: tuple[PoseGoal, ...], config: RrtConfig) -> None:
        self._search, self._goals, self._config = search, goals, config
        checker = search.request.checker
        self._link, self._X_LT = goals[0].link, _frame(goals[0])
        self._solver, self._columns = pose_solver(checker, self._link)
        self._kinematics = checker_kinematics(checker)
        self._tip = Tip(pose_and_jacobian(checker, self._link), np.ascontiguousarray(self._X_LT))
        self._tolerances = [_final(goal.tolerance, config) for goal in goals]
        poses = [rigid_pose(goal.X_BT, f"the goal of {goal.link}", 1e-3) for goal in goals]
        self._targets = Targets(
            np.array(poses),
            np.array([_slack(t) for t in self._tolerances]),
            np.array([np.where(np.isfinite(t.lengths), t.lengths, 0.0) for t in self._tolerances]),
        )
        self._pause = _ALONE
        room = len(search.tree.nodes)
        self._nodes = TaskNodes(
            np.empty((room, 3)), np.empty((room, len(goals))), np.zeros(room, np.uint8)
        )

    def search(self) -> FoundPath:
        """Grow the tree, and trees from both ends, until a pose is reached."""
        found, search = np.zeros(2, np.int64), self._search
        state = TaskSearch(
            search.tree, self._nodes, search.kernel_space, search.checker, self._tip,
            self._targets, _options(self._config),
        )  # fmt: skip

        def batch(iterations: int) -> int:
            iterations = min(iterations, max(0, self._pause - int(search.tree.count[1])))
            return grow_to_pose(state, iterations, found)

        in_zone = 0
        while True:
            found[0] = -1
            outcome = search.growth.run(batch, search.tree, self._pausing)
            if not outcome.found:
                return FoundPath(replace(outcome, reason=self._in_words(outcome, in_zone)))
            if found[0] < 0:
                self._pause = self._config.max_iterations + 1
                connected = self._connected()
                if connected is not None:
                    return connected
                continue
            in_zone += 1
            node, goal = int(found[0]), int(found[1])
            self._nodes.used[node] = 1
            end = self._polished(search.tree.nodes[node], goal)
            if end is not None:
                return FoundPath(SOLVED, search.path_to(node, end), goal)
            # A search that begins in the zone must not find its root again.
            search.tree.count[1] = max(1, int(search.tree.count[1]))

    def _pausing(self) -> bool:
        return int(self._search.tree.count[1]) >= self._pause

    def _connected(self) -> FoundPath | None:
        """Return a path of RRT-Connect to configurations that satisfy the goals, or None."""
        search, config = self._search, self._config
        request = search.request
        finals = tuple(
            replace(goal, tolerance=tolerance)
            for goal, tolerance in zip(self._goals, self._tolerances, strict=True)
        )
        left = max(request.timeout - search.growth.spent, 1e-3)
        goals = goal_configurations(replace(request, goals=finals, timeout=left), search.start)
        if goals.status is not None:
            return None
        settings = RrtConnectSettings(
            max_iterations=config.max_iterations,
            max_sampling=config.max_sampling,
            distance_metric_weights=config.distance_metric_weights,
            exploration_fraction=config.c_space_planning_params.exploration_fraction,
        )
        path, goal = first_path(search, goals.Q, settings)
        return None if path is None else FoundPath(SOLVED, path, goals.index[goal])

    def _polished(self, q: Array, goal: int) -> Array | None:
        """Return a configuration exactly at a goal, reachable by a straight line; or None."""
        checker, tolerance = self._search.request.checker, self._tolerances[goal]
        X_BT = self._targets.poses[goal].copy()
        if not self._X_LT[:3, 3].any():
            target = X_BT.copy()
            target[:3, :3] = X_BT[:3, :3] @ self._X_LT[:3, :3].T
        else:
            # With a free orientation, the node's is used to place the link's origin.
            if tolerance.free[3:].any():
                X_BT[:3, :3] = self._tip_pose(q)[:3, :3]
            target = X_BT @ np.linalg.inv(self._X_LT)
            least = float(np.minimum(tolerance.axes[:3], tolerance.lengths[0]).min())
            reach = float(np.linalg.norm(self._X_LT[:3, 3]))
            tolerance = IkTolerance(0.5 * least, min(_ANGLE, 0.5 * least / reach))
        settings = IkSettings(tolerance=tolerance, attempts=1, timeout=1.0)
        result = self._solver.solve(IkRequest(target, seed=q[self._columns], settings=settings))
        if not result.success:
            return None
        end = q.copy()
        end[self._columns] = result.q
        end = q + self._search.space.difference(q, checker.limits.clip(end))
        return end if checker.edge_free(q, end) else None

    def _tip_pose(self, q: Array) -> Array:
        return np.asarray(self._kinematics.pose(q, self._link) @ self._X_LT)

    def _in_words(self, outcome: SearchOutcome, in_zone: int) -> str:
        if outcome.status is PlanStatus.CANCELLED:
            return outcome.reason
        best = self._nodes.away[: int(self._search.tree.count[0])]
        near = f"; came to {float(best.min()):.3g} (weighted) of it" if best.size else ""
        tried = f"; {in_zone} times in its zone without an IK solution" if in_zone else ""
        return f"{outcome.reason}{near}{tried}"


def _final(tolerance: IkTolerance, config: RrtConfig) -> IkTolerance:
    """Return the final tolerance: the minimum of the goal's and the settings'."""
    task = config.task_space_planning_params
    finals = (task.translation_target_final_tolerance, task.orientation_target_final_tolerance)
    position, turn = (
        min(given, final) if isinstance(given, float) and np.isfinite(given) else given
        for given, final in zip((tolerance.position, tolerance.orientation), finals, strict=True)
    )
    return IkTolerance(position, turn)


def _slack(tolerance: IkTolerance) -> Array:
    """Return the unconstrained range of each error component, shape (6,)."""
    return np.where(np.isfinite(tolerance.axes), tolerance.axes, 0.0) + np.where(
        tolerance.free, np.inf, 0.0
    )


def _options(config: RrtConfig) -> TaskOptions:
    task = config.task_space_planning_params
    low, high = np.array(config.task_space_limits).T.copy()
    return TaskOptions(
        config.step_size,
        config.max_sampling,
        task.task_space_exploitation_fraction,
        task.task_space_exploration_fraction,
        low,
        high,
        np.array([task.translation_target_zone_tolerance, task.orientation_target_zone_tolerance]),
        np.array([task.translation_gradient_weight, task.orientation_gradient_weight]),
        np.array([task.nn_translation_distance_weight, task.nn_orientation_distance_weight]),
        task.max_extension_substeps_away_from_target,
        task.max_extension_substeps_near_target,
        task.extension_substep_target_region_scale_factor,
        task.unexploited_nodes_culling_scalar,
        task.gradient_substep_size,
    )
