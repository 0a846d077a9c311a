# SPDX-License-Identifier: Apache-2.0
"""Settings refuse values outside of their ranges; tolerances stand in one table."""

import ast
import dataclasses
import importlib
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from motion_nodes.core.bases.ackermann import AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits
from motion_nodes.core.navigation.base_motion import MotionLimits
from motion_nodes.core.navigation.follow_path import SteeringConfig
from motion_nodes.errors import MotionError
from motion_nodes.settings import KEY, Setting

PACKAGE = Path(__file__).parents[2] / "motion_nodes"
REQUIRED: dict[str, Any] = {
    "geometry": AckermannGeometry(**dict.fromkeys(
        ("wheelbase", "front_track_width", "rear_track_width", "front_wheel_radius",
         "rear_wheel_radius"), 0.5)),
    "limits": BaseLimits(),
    "steering": SteeringConfig(wheelbase=1.0),
    "steering_joint_names": ("a", "b"),
    "left_wheel_names": ("a",),
    "right_wheel_names": ("b",),
    "ids": {"a": 1},
    "name": "a",
    "left": "a",
    "right": "b",
    "lower": 0.0,
}  # fmt: skip
"""Values of fields without a default; 1 for all others."""

OWN: dict[str, dict[str, Any]] = {
    "AckermannConfig": {"rear_wheel_names": ("c", "d")},
    "FollowConfig": {
        "limits": MotionLimits(**{f.name: 1.0 for f in dataclasses.fields(MotionLimits)})
    },
}
"""Values that differ from these in a class."""


def classes() -> Iterator[type[Any]]:
    """Yield the dataclasses that have settings."""
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "check_settings" not in text or "import" not in text or file.name == "settings.py":
            continue
        names = [n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]
        name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        for kind in (getattr(importlib.import_module(name), each, None) for each in names):
            if dataclasses.is_dataclass(kind) and any(settings_of(kind)):
                yield kind


def settings_of(kind: Any) -> Iterator[tuple[dataclasses.Field[Any], Setting]]:
    """Yield the fields with a setting."""
    return ((f, f.metadata[KEY]) for f in dataclasses.fields(kind) if KEY in f.metadata)


def sample(kind: type[Any]) -> Any:
    """Return an instance with valid values."""
    missing = dataclasses.MISSING
    required = (
        f.name
        for f in dataclasses.fields(kind)
        if f.default is missing and f.default_factory is missing
    )
    values = {name: REQUIRED.get(name, 1.0) for name in required}
    return kind(**(values | OWN.get(kind.__name__, {})))


def outside(entry: Setting) -> Iterator[Any]:
    """Yield numbers just outside of the range of a setting, and those that are not finite."""
    yield from () if entry.gt is None else (entry.gt,)
    yield from () if entry.ge is None else (math.nextafter(entry.ge, -math.inf),)
    yield from () if entry.le is None else (math.nextafter(entry.le, math.inf),)
    yield from () if entry.nan else (math.nan,)
    yield from () if entry.inf else (math.inf, -math.inf)


@pytest.mark.parametrize("kind", list(classes()), ids=lambda kind: kind.__name__)
def test_values_outside_of_their_range_are_refused_by_name(kind):
    valid = sample(kind)
    for field, entry in settings_of(kind):
        given = getattr(valid, field.name)
        one = next(iter(given), 1.0) if isinstance(given, (tuple, list)) else given
        if isinstance(given, bool) or isinstance(one, bool):
            continue
        values = ["no such word"] if isinstance(one, str) and entry.one_of else []
        values += [] if isinstance(one, str) or entry.one_of else list(outside(entry))
        for value in values:
            bad = (value, *given[1:]) if isinstance(given, (tuple, list)) else value
            with pytest.raises(MotionError) as caught:
                dataclasses.replace(valid, **{field.name: bad})
            assert field.name in str(caught.value), (field.name, bad)


VAGUE = re.compile(r"^_?(SAME|SLACK|ROUNDING|ROUNDED|TINY|EPS|EPSILON|EXACT|SMALL)\b", re.M)
"""Names of constants that state no quantity."""
ELSEWHERE = {
    "core/ik/redundancy.py:_EPSILON",  # a step of differences
    "core/navigation/obstacle_avoidance.py:SLACK",  # margins in which something else happens
    "core/planning/recovery.py:_SLACK",
    "extras/compat/dual_quaternion.py:_SMALL",  # the range of a series
    "extras/learning/networks.py:_EPS",  # published with the algorithm (Adam)
}
"""Constants with such names that are no tolerances; this list only shrinks."""


@cache
def constants(file):
    """Return {name: (value, docstring)} of the constants of a module."""
    body = ast.parse(file.read_text("utf-8")).body
    found = {}
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            doc = getattr(getattr(following, "value", None), "value", "")
            found[node.targets[0].id] = (node.value, doc if isinstance(doc, str) else "")
    return found


def test_each_tolerance_has_its_unit_and_origin():
    table = constants(PACKAGE / "tolerances.py")
    assert len(table) > 30
    for name, (value, doc) in table.items():
        assert ast.literal_eval(value) > 0.0, name
        assert re.match(r"\[[^]]+\] \w.{20,}", doc, re.DOTALL), name


def test_each_tolerance_is_used():
    text = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*/*.py"))
    times = Counter(re.findall(r"\b[A-Z][A-Z0-9_]*\b", text))
    assert [name for name in constants(PACKAGE / "tolerances.py") if times[name] < 2] == []


def test_no_module_has_a_tolerance_without_a_quantity():
    # Kernels state theirs next to the algorithm whose convergence they are part of.
    found = {
        f"{file.relative_to(PACKAGE)}:{name}"
        for file in PACKAGE.rglob("*.py")
        if "kernels" not in file.parts and VAGUE.search(file.read_text("utf-8"))
        for name, (value, _) in constants(file).items()
        if VAGUE.match(name) and isinstance(value, ast.Constant)
    }
    assert found == ELSEWHERE
