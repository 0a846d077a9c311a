# SPDX-License-Identifier: Apache-2.0
"""Tolerances stand in one table, named by quantity, each with its unit and its origin."""

import ast
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "motion_nodes"
VAGUE = re.compile(r"^_?(SAME|SLACK|ROUNDING|ROUNDED|TINY|EPS|EPSILON|EXACT|SMALL)$")
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
    table = constants(PACKAGE / "tolerances.py")
    assert [name for name in table if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_no_module_has_a_tolerance_without_a_quantity():
    # Kernels state theirs next to the algorithm whose convergence they are part of.
    found = {
        f"{file.relative_to(PACKAGE)}:{name}"
        for file in PACKAGE.rglob("*.py")
        if "kernels" not in file.parts
        for name, (value, _) in constants(file).items()
        if VAGUE.match(name) and isinstance(value, ast.Constant)
    }
    assert found == ELSEWHERE
