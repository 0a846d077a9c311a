# SPDX-License-Identifier: Apache-2.0
"""Planner registry, with aliases, parameters as text, and the straight-line planner.

Parameters are set for all groups or for one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import math
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np

from motion_nodes.core.planning.anytime_planner import AnytimeRrtConnect, AnytimeSettings
from motion_nodes.core.planning.constrained_search import ConstrainedRrt, ConstrainedSettings
from motion_nodes.core.planning.planning_problem import (
    Planner,
    PlanRequest,
    PlanResult,
    PlanStatus,
    in_words,
)
from motion_nodes.core.planning.rrt import Rrt, RrtSettings, RrtStar, RrtStarSettings
from motion_nodes.core.planning.rrt_connect import RrtConnect, RrtConnectSettings
from motion_nodes.core.planning.task_space_rrt import RrtConfig, TaskSpaceRrt, pose_goals
from motion_nodes.core.planning.trajopt import TrajOpt, TrajOptSettings
from motion_nodes.core.planning.tree_search import find_ends, space_of
from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.kernels.compute_clock import compute_time

_LOG = logging.getLogger(__name__)

Maker = Callable[[Any], Planner]
DEFAULT = "RRTConnect"
GROUP = "motion_nodes.planners"
"""Group of entry points: modules of other packages that register planners."""
_SUFFIXES = ("kconfigdefault", "config")
"""Suffixes of planner names in MoveIt configurations."""


class PlannerSettings:
    """Parameters set by clients, over the planners' defaults; thread-safe."""

    def __init__(self, defaults: Callable[[], Mapping[str, Any]]) -> None:
        """Create without changes.

        Args:
            defaults: returns the settings of each planner, a frozen dataclass, by its name.
        """
        self._defaults = defaults
        self._given: dict[tuple[str, str], dict[str, str]] = {}
        self._lock = threading.Lock()

    @property
    def planners(self) -> tuple[str, ...]:
        """Names of the planners with settings."""
        return tuple(self._defaults())

    def settings(self, planner: str, group: str) -> Any:
        """Return the settings of a planner for a group: its own, else those for all groups."""
        default = self._default(planner)
        with self._lock:
            given = self._given.get((planner, "")), self._given.get((planner, group))
        for values in filter(None, given):
            default = _changed(default, values)
        return default

    def words(self, planner: str, group: str) -> dict[str, str]:
        """Return the settings as text; nested ones have names with "/".

        Raises:
            InvalidConfig: unknown planner.
        """
        return {name: _word(value) for name, value in _leaves(self.settings(planner, group))}

    def set(self, planner: str, group: str, values: Mapping[str, str], replace: bool) -> None:
        """Set parameters, all or none.

        Args:
            planner: name of the planner.
            group: name of the group; empty: all groups without their own parameters.
            values: text by name.
            replace: True to clear the previous parameters of this planner and group.

        Raises:
            InvalidConfig: unknown planner or parameter, or invalid text.
        """
        default = self._default(planner)
        with self._lock:
            before = {} if replace else self._given.get((planner, group), {})
            merged = {**before, **values}
            _changed(default, merged)
            self._given[planner, group] = merged

    def _default(self, planner: str) -> Any:
        defaults = self._defaults()
        if planner not in defaults:
            raise InvalidConfig(
                f"there is no planner '{planner}'.{did_you_mean(planner, defaults)}", field=planner
            )
        return defaults[planner]


def _leaves(settings: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for entry in dataclasses.fields(settings):
        value = getattr(settings, entry.name)
        if dataclasses.is_dataclass(value):
            found += _leaves(value, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, value))
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _changed(settings: Any, words: Mapping[str, str]) -> Any:
    """Return settings with some changed, all at once: bounds of their sums may apply."""
    names = [name for name, _ in _leaves(settings)]
    for name in words:
        if name not in names:
            raise InvalidConfig(
                f"there is no setting '{name}'.{did_you_mean(name, names)}", field=name
            )
    return _replaced(settings, words, "")


def _replaced(settings: Any, words: Mapping[str, str], prefix: str) -> Any:
    """Return settings with those changed whose names begin with a prefix."""
    values = {}
    for entry in dataclasses.fields(settings):
        now, name = getattr(settings, entry.name), prefix + entry.name
        if dataclasses.is_dataclass(now):
            values[entry.name] = _replaced(now, words, f"{name}/")
        elif name in words:
            values[entry.name] = _value(words[name], now, name)
    return dataclasses.replace(settings, **values) if values else settings


def _value(word: str, like: Any, name: str) -> Any:
    """Return text as a value of the parameter's type."""
    if isinstance(like, str):
        return word
    value = _parsed(word.strip())
    if isinstance(like, bool):
        fits = isinstance(value, bool) or value in (0, 1)
        value = bool(value)
    elif isinstance(value, bool):
        fits = False
    elif isinstance(like, int):
        fits = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        value = int(value) if fits else value
    elif isinstance(like, float):
        fits = isinstance(value, float) or _is_moderate(value)
        value = float(value) if fits else value
    elif like is None:  # an optional number
        fits = word.strip().lower() == "null" or isinstance(value, float) or _is_moderate(value)
        value = float(value) if fits and value is not None else value
    else:
        fits = isinstance(value, list)
        value = _frozen(value)
    if not fits:
        raise InvalidConfig(f"{name} is '{word}'; it must be like {_word(like)}", field=name)
    return value


def _parsed(word: str) -> Any:
    """Return JSON text as a value; None for null and for other text.

    The case is ignored except in ``Infinity``, as which unlimited values are reported.
    """
    try:
        return json.loads(word if word.endswith("Infinity") else word.lower())
    except (ValueError, RecursionError):
        return None


def _is_moderate(value: Any) -> bool:
    """Return whether a value is an integer that a float can hold."""
    return isinstance(value, int) and abs(value) <= sys.float_info.max


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class DirectMotion:
    """Returns the straight line to the nearest reachable goal."""

    name = "Direct"

    def plan(self, request: PlanRequest) -> PlanResult:
        """Try the straight line to each goal, nearest first."""
        began = compute_time()
        space = space_of(request, None)
        ends = find_ends(request)
        if isinstance(ends, PlanResult):
            return replace(ends, planner=self.name)
        started = compute_time()
        goals, checker = ends.goals.Q, request.checker
        order = np.argsort(space.distance(goals, ends.start), kind="stable")
        for i in order:
            path = space.unwrapped([ends.start, goals[i]])
            if checker.edge_free(path[0], path[1]):
                now = compute_time()
                cost, index = space.length(path), ends.goals.index[i]
                status, times = PlanStatus.SOLVED, (now - started, now - began)
                return PlanResult(
                    status, path, "", self.name, 1, (1, 1), cost, *times, goal_index=index
                )
        path = space.unwrapped([ends.start, goals[order[0]]])
        now = compute_time()
        return PlanResult(
            PlanStatus.BLOCKED,
            None,
            f"the straight line is blocked: {self._where(request, path[0], path[1])}",
            self.name,
            len(goals),
            search_time=now - started,
            time=now - began,
        )

    def _where(self, request: PlanRequest, a: np.ndarray, b: np.ndarray) -> str:  # type: ignore[type-arg]
        """Return where on the line the first collision is, and with what."""
        steps = max(2, math.ceil(float(np.linalg.norm((b - a) / request.checker.resolution))))
        shares = np.linspace(0.0, 1.0, steps + 1)[:, np.newaxis]
        free = request.checker.are_free(a + shares * (b - a))
        first = int(np.argmin(free))
        words = in_words(request.checker, a + shares[first] * (b - a))
        return f"at {100.0 * float(shares[first, 0]):.0f} % of it {words}"


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
SHIPPED = tuple(_MAKERS)
"""Names of this package's planners."""
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


@functools.cache
def load_others() -> None:
    """Import the modules of other packages that register planners, see :data:`GROUP`.

    A module that cannot be imported, or registers a name that is taken, is left out with a warning.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            _LOG.warning("planner '%s' (%s) cannot be loaded: %s", entry.name, entry.value, error)


def planner_names() -> tuple[str, ...]:
    """Return the names of the registered planners, the default first."""
    load_others()
    return tuple(_MAKERS)


def default_settings() -> dict[str, Any]:
    """Return the default settings of the planners, by name."""
    load_others()
    return {name: settings for name, (_, settings) in _MAKERS.items() if settings is not None}


def find_planner(name: str) -> tuple[str, str]:
    """Return the planner for a name, and a note if the match is not exact.

    A name as it was registered comes first. Else case is ignored, and so are suffixes such as
    ``kConfigDefault``; an empty name means the default.
    """
    if name.strip() in _MAKERS:
        return name.strip(), ""
    word = name.strip().lower().rpartition("::")[2]
    word = word.replace("_", "").replace("-", "").replace("*", "star")
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    if not word:
        return DEFAULT, ""
    for known in SHIPPED:
        if word == known.lower():
            return known, ""
    if word in _OTHER_NAMES:
        return _OTHER_NAMES[word], ""
    load_others()
    for known in _MAKERS:
        if name.strip() == known or word == known.lower():
            return known, ""
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
        name: by which users select it, in this process.
        maker: creates one from its settings.
        settings: its defaults, a frozen dataclass; None: it has none, and the maker receives None.

    Raises:
        InvalidConfig: the name is taken.
    """
    if name in _MAKERS:
        raise InvalidConfig(f"there already is a planner '{name}'.")
    _MAKERS[name] = (maker, settings)
