# SPDX-License-Identifier: Apache-2.0
"""Names of detected objects: those of known models of their size, and numbers for others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from motion_nodes.core.robot.tree import Box, Cylinder, Sphere
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.perception.object_detection import Detection, Shape, extents
from motion_nodes.typing import Array

SIZE_TOLERANCE = 0.015
"""Max difference of each size from that of a model [m]."""
GATE = 0.1
"""Distance by which an object may have moved since it was seen last [m]."""
FORGET_AFTER = 30.0
"""Time without detections after which an object loses its number [s]."""
_OTHER_KIND = 0.5
_IMPOSSIBLE = 1e6
_WORD = re.compile(r"(?P<name>[\w -]+):=(?P<kind>box|cylinder|sphere):(?P<sizes>[^:]+)")
_COUNTS = {"box": 3, "cylinder": 2, "sphere": 1}


@dataclass(frozen=True)
class ObjectModel:
    """An object of known size."""

    name: str
    shape: Shape


def parse_models(words: Sequence[str]) -> tuple[ObjectModel, ...]:
    """Return models of words such as ``red_cube:=box:0.04,0.04,0.04``.

    Args:
        words: ``NAME:=box:X,Y,Z``, ``NAME:=cylinder:RADIUS,LENGTH`` or ``NAME:=sphere:RADIUS`` [m].

    Raises:
        InvalidConfig: names the invalid word.
    """
    models: list[ObjectModel] = []
    for word in filter(None, words):
        found = _WORD.fullmatch(word.strip())
        try:
            sizes = [float(x) for x in found["sizes"].split(",")] if found else []
        except ValueError:
            sizes = []
        good = len(sizes) > 0 and all(np.isfinite(s) and 0.0 < s <= 10.0 for s in sizes)
        if found is None or not good or len(sizes) != _COUNTS[found["kind"]]:
            raise InvalidConfig(
                f"'{word}' is no model; write NAME:=box:X,Y,Z, NAME:=cylinder:RADIUS,LENGTH or "
                "NAME:=sphere:RADIUS in m, such as red_cube:=box:0.04,0.04,0.04",
                field="models",
            )
        name = found["name"].strip()
        if any(model.name == name for model in models):
            raise InvalidConfig(f"two models are named '{name}'", field="models")
        shape: Shape = (
            Box((sizes[0], sizes[1], sizes[2])) if found["kind"] == "box"
            else Cylinder(sizes[0], sizes[1]) if found["kind"] == "cylinder"
            else Sphere(sizes[0])
        )  # fmt: skip
        models.append(ObjectModel(name, shape))
    return tuple(models)


class ObjectNames:
    """Gives the same name to the same object in successive clouds."""

    def __init__(self, models: Sequence[ObjectModel] = ()) -> None:
        """Begin without objects.

        Args:
            models: objects of known size, each of which is there at most once.
        """
        self._models = tuple(models)
        self._last: dict[str, Array] = {}
        self._seen_at: dict[str, float] = {}
        self._count = 0

    def named(
        self,
        detections: Sequence[Detection],
        now: float,
        carried: Mapping[str, Array] | None = None,
        described: Mapping[str, Detection] | None = None,
    ) -> dict[str, Detection]:
        """Return detections by their names.

        Args:
            detections: in one cloud.
            now: its time [s].
            carried: expected poses of objects that the robot holds, shape (4, 4) each.
            described: those of the detections that a description names. They keep that name where
                later images do not show them well enough to be described.
        """
        for name, X_WO in (carried or {}).items():
            if name in self._seen_at:
                self._last[name], self._seen_at[name] = np.array(X_WO), now
        found = self._of_models(detections)
        named = {name: fitted for name, (_, fitted) in found.items()}
        taken = [seen for seen, _ in found.values()]
        for name, each in (described or {}).items():
            if name not in named and all(each is not seen for seen in taken):
                named[name] = each
                taken.append(each)
        rest = [each for each in detections if all(each is not seen for seen in taken)]
        named |= self._of_numbers(rest, frozenset(named))
        for name, each in named.items():
            self._last[name], self._seen_at[name] = np.array(each.X_WO), now
        for name in [n for n, at in self._seen_at.items() if now > at + FORGET_AFTER]:
            del self._last[name], self._seen_at[name]
        return named

    def _of_models(self, detections: Sequence[Detection]) -> dict[str, tuple[Detection, Detection]]:
        """Return by name what fits a model, and the model in its place."""
        costs = np.full((len(self._models), len(detections)), _IMPOSSIBLE)
        fits: dict[tuple[int, int], Detection] = {}
        for i, model in enumerate(self._models):
            for j, each in enumerate(detections):
                fit = fitted_model(model.shape, each)
                if fit is None:
                    continue
                difference, fits[i, j] = fit
                last = self._last.get(model.name)
                away = 0.0 if last is None else float(
                    np.linalg.norm(fits[i, j].X_WO[:3, 3] - last[:3, 3])
                )  # fmt: skip
                costs[i, j] = difference / SIZE_TOLERANCE + min(away, 1.0)
        rows, columns = linear_sum_assignment(costs)
        return {
            self._models[i].name: (detections[j], fits[i, j])
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if costs[i, j] < _IMPOSSIBLE
        }

    def _of_numbers(
        self, detections: Sequence[Detection], taken: frozenset[str]
    ) -> dict[str, Detection]:
        """Return detections by the name of the object that was last there, or a new number."""
        models = {model.name for model in self._models}
        known = [name for name in self._last if name not in models | taken]
        costs = np.full((len(known), len(detections)), _IMPOSSIBLE)
        for i, name in enumerate(known):
            for j, each in enumerate(detections):
                away = float(np.linalg.norm(each.X_WO[:3, 3] - self._last[name][:3, 3]))
                costs[i, j] = away if away <= GATE else _IMPOSSIBLE
        rows, columns = linear_sum_assignment(costs)
        named = {
            known[i]: detections[j]
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
            if costs[i, j] < _IMPOSSIBLE
        }
        known_again = {id(each) for each in named.values()}
        for each in detections:
            if id(each) not in known_again:
                self._count += 1
                named[f"object_{self._count}"] = each
        return named


def fitted_model(shape: Shape, seen: Detection) -> tuple[float, Detection] | None:
    """Return how much the sizes of a model differ [m], and the model in place of a detection.

    It stands where the detected shape does. None if it is not of that size.
    """
    size, own = extents(seen.shape), extents(shape)
    best, order = np.inf, tuple(range(3))
    for each in itertools.permutations(range(3)):
        difference = float(np.abs(own[list(each)] - size).max())
        if difference < best - 1e-9:
            best, order = difference, each
    if best > SIZE_TOLERANCE:
        return None
    # Axis order[i] of the model lies along axis i of the detected shape.
    R = np.zeros((3, 3))
    R[range(3), order] = 1.0
    if np.linalg.det(R) < 0.0:
        R[:, 0] = -R[:, 0]
    X = np.array(seen.X_WO)
    X[:3, 3] += 0.5 * (own[order[2]] - size[2]) * X[:3, 2]
    X[:3, :3] = X[:3, :3] @ R
    cost = best + (0.0 if type(shape) is type(seen.shape) else _OTHER_KIND * SIZE_TOLERANCE)
    return cost, replace(seen, shape=shape, X_WO=X)
