# SPDX-License-Identifier: Apache-2.0
"""Drives that a plan of a mobile manipulator needs: to what is out of reach before it is used."""

from __future__ import annotations

import math
from collections.abc import Iterator

from motion_nodes.tasks.task_plan import Plan, PlanStep
from motion_nodes.tasks.world_state import WorldState

USED = {
    "pick": "object", "place": "location", "pour": "target", "push": "object", "wipe": "surface",
    "open_drawer": "object",
}  # fmt: skip
"""Skills that need an object within reach, and the argument that names it."""
TOLERANCE = 0.05
"""Distance beyond ``stand_off`` up to which an object counts as within reach [m]."""


def with_drives(plan: Plan, state: WorldState) -> Plan:
    """Return a plan with a drive before each step whose object is out of reach.

    Args:
        plan: of any robot; those of robots without a base are returned as they are.
        state: with the objects in the base frame.
    """
    return tuple(_with_drives(plan, state)) if state.has_base else plan


def _with_drives(plan: Plan, state: WorldState) -> Iterator[PlanStep]:
    at: tuple[float, float] | None = (0.0, 0.0)  # of the base; None: not known
    for step in plan:
        if step.skill == "navigate":
            at = _beside(step.args["location"], at, state)
        name = step.args.get(USED.get(step.skill, ""), "")
        if name in state.objects and name != state.held and not _reaches(name, at, state):
            yield PlanStep("navigate", {"location": name})
            at = _beside(name, at, state)
        yield step


def _reaches(name: str, at: tuple[float, float] | None, state: WorldState) -> bool:
    if at is None:
        return False
    x, y = state.objects[name].X_WO[:2, 3].tolist()
    return math.hypot(x - at[0], y - at[1]) <= state.stand_off + TOLERANCE


def _beside(
    name: str, at: tuple[float, float] | None, state: WorldState
) -> tuple[float, float] | None:
    """Return where the base is after a drive to an object; None: a place, or not known."""
    if name not in state.objects or at is None:
        return None
    x, y = state.objects[name].X_WO[:2, 3].tolist()
    away = math.hypot(x - at[0], y - at[1])
    share = max(0.0, away - state.stand_off) / away if away > 0.0 else 0.0
    return at[0] + share * (x - at[0]), at[1] + share * (y - at[1])
