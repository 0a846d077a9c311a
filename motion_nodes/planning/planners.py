# SPDX-License-Identifier: Apache-2.0
"""Planner registry, with settings and common aliases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.planning.anytime_planner import AnytimeRrtConnect
from motion_nodes.planning.classic.rrt import Rrt, RrtSettings
from motion_nodes.planning.classic.rrt_config import RrtConfig
from motion_nodes.planning.classic.rrt_star import RrtStar, RrtStarSettings
from motion_nodes.planning.classic.task_space_rrt import TaskSpaceRrt, pose_goals
from motion_nodes.planning.constrained.constrained_search import (
    ConstrainedRrt,
    ConstrainedSettings,
)
from motion_nodes.planning.planning_problem import Planner, PlanRequest, PlanResult
from motion_nodes.planning.rrt_connect import RrtConnect
from motion_nodes.planning.search_settings import AnytimeSettings, RrtConnectSettings
from motion_nodes.planning.straight_line_planner import DirectMotion
from motion_nodes.planning.trajopt.planner import TrajOpt
from motion_nodes.planning.trajopt.settings import TrajOptSettings

Maker = Callable[[Any], Planner]

DEFAULT = "RRTConnect"


class PosesOrJoints:
    """The task-space planner for poses of one link; RRT-Connect for all other goals."""

    name = TaskSpaceRrt.name

    def __init__(self, config: RrtConfig | None = None) -> None:
        self.config = config or RrtConfig()
        # The step size is for the tip's tree; edges between joint goals are fully checked.
        joints = replace(connecting(self.config), step_size=0.0)
        self._poses, self._joints = TaskSpaceRrt(self.config), RrtConnect(joints)
        self._last: TaskSpaceRrt | RrtConnect = self._poses

    def plan(self, request: PlanRequest) -> PlanResult:
        """Plan with the planner that suits the goals."""
        self._last = self._joints if pose_goals(request) is None else self._poses
        return self._last.plan(request)

    def tree(self) -> Any:
        """Return the tree of the last search, for visualization."""
        return self._last.tree()


def connecting(config: RrtConfig) -> RrtConnectSettings:
    """Return the settings for joint targets from a configuration file."""
    return RrtConnectSettings(
        step_size=config.step_size,
        max_iterations=config.max_iterations,
        max_sampling=config.max_sampling,
        distance_metric_weights=config.distance_metric_weights,
        exploration_fraction=config.c_space_planning_params.exploration_fraction,
    )


def _direct(settings: None) -> Planner:
    return DirectMotion()


_MAKERS: dict[str, tuple[Maker, Any]] = {
    DEFAULT: (RrtConnect, RrtConnectSettings()),
    Rrt.name: (Rrt, RrtSettings()),
    RrtStar.name: (RrtStar, RrtStarSettings()),
    TaskSpaceRrt.name: (PosesOrJoints, RrtConfig()),
    AnytimeRrtConnect.name: (AnytimeRrtConnect, AnytimeSettings()),
    ConstrainedRrt.name: (ConstrainedRrt, ConstrainedSettings()),
    TrajOpt.name: (TrajOpt, TrajOptSettings()),
    DirectMotion.name: (_direct, None),
}
_OTHER_NAMES = {
    "anytime": AnytimeRrtConnect.name,
    "aorrtc": AnytimeRrtConnect.name,
    "birrt": DEFAULT,
    "jacobiantransposerrt": TaskSpaceRrt.name,
    "jtrrt": TaskSpaceRrt.name,
    "straight": DirectMotion.name,
    "ptp": DirectMotion.name,
}
"""Other names of the same planners; any other planner's name gets a note."""
_SUFFIXES = ("kconfigdefault", "config")
"""Suffixes of planner names in MoveIt configurations."""


def planner_names() -> tuple[str, ...]:
    """Return the names of the registered planners, the default first."""
    return tuple(_MAKERS)


def default_settings() -> dict[str, Any]:
    """Return the default settings of the planners, by name."""
    return {name: settings for name, (_, settings) in _MAKERS.items() if settings is not None}


def find_planner(name: str) -> tuple[str, str]:
    """Return the planner for a name, and a note if the match is not exact.

    Case is ignored, and so are suffixes such as ``kConfigDefault``; an empty name means the
    default.
    """
    word = name.strip().lower().rpartition("::")[2]
    word = word.replace("_", "").replace("-", "").replace("*", "star")
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    if not word:
        return DEFAULT, ""
    for known in _MAKERS:
        if word == known.lower():
            return known, ""
    if word in _OTHER_NAMES:
        return _OTHER_NAMES[word], ""
    hint = did_you_mean(name, planner_names())
    return DEFAULT, f"there is no planner '{name}', {DEFAULT} is used.{hint}"


def make_planner(name: str = "", settings: Any = None) -> Planner:
    """Return a planner; for an unknown name the default one (:func:`find_planner` notes that).

    Args:
        name: name of the planner.
        settings: of the type of its :func:`default_settings`; None: the defaults. Of settings of
            another planner the common fields are used.
    """
    maker, default = _MAKERS[find_planner(name)[0]]
    if settings is None or default is None:
        return maker(default)
    if isinstance(settings, type(default)):
        return maker(settings)
    shared = {
        field: getattr(settings, field)
        for field in default.__dataclass_fields__
        if hasattr(settings, field) and not hasattr(getattr(default, field), "__dataclass_fields__")
    }
    if not shared:
        raise InvalidConfig(f"{type(settings).__name__} has no settings of planner '{name}'.")
    return maker(replace(default, **shared))


def register(name: str, maker: Maker, settings: Any = None) -> None:
    """Register a planner under a name.

    Args:
        name: by which users select it.
        maker: creates one from its settings.
        settings: its defaults, a frozen dataclass.

    Raises:
        InvalidConfig: the name is taken.
    """
    if name in _MAKERS:
        raise InvalidConfig(f"there already is a planner '{name}'.")
    _MAKERS[name] = (maker, settings)
