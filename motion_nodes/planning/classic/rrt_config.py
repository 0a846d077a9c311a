# SPDX-License-Identifier: Apache-2.0
"""Settings of the planner for task-space targets, and its configuration file.

Names and defaults are those of NVIDIA's Lula RRT and cuMotion, for compatibility with their files;
older spellings are accepted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.model.files.yaml_file import read_yaml
from motion_nodes.planning.tree_search import MAX_COUNT

_Range = tuple[float, float]


@dataclass(frozen=True)
class CSpacePlanning:
    """Settings of the search for joint targets."""

    exploration_fraction: float = 0.5
    """Fraction of the extensions towards random places; the rest connect the trees, 0 to 1."""

    def __post_init__(self) -> None:
        """Validate the values."""
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
        """Validate the values."""
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


_MOST_SUBSTEPS = 10_000
"""Max number of substeps of an extension, which cannot be cancelled."""
_MAY_BE_ZERO = ("unexploited_nodes_culling_scalar", "seed")


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
