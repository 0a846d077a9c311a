# SPDX-License-Identifier: Apache-2.0
"""Drives that are inserted into plans of mobile manipulators."""

from __future__ import annotations

import dataclasses

import pytest

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.extras.tasks.served_task import RulePlanner
from motion_nodes.extras.tasks.task_plan import PlanStep
from motion_nodes.extras.tasks.task_runner import repaired, with_drives
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState

CUBE, FLAT = Box((0.05, 0.05, 0.05)), Box((0.4, 0.4, 0.5))
STATE = WorldState(
    {
        "red_cube": ObjectState("red_cube", from_xyz_rpy((2.0, 0.0, 0.5)), CUBE),
        "blue_cube": ObjectState("blue_cube", from_xyz_rpy((1.9, 0.1, 0.5)), CUBE),
        "table": ObjectState("table", from_xyz_rpy((-1.0, 1.0, 0.2)), FLAT, movable=False),
        "cup": ObjectState("cup", from_xyz_rpy((0.4, 0.2, 0.5)), CUBE),
    },
    {"kitchen": (3.0, 0.0, 0.0)},
    has_base=True,
)


def told(sentence: str, state: WorldState = STATE) -> list[str]:
    return [str(step) for step in RulePlanner().plan(sentence, state)]


@pytest.mark.parametrize(
    ("sentence", "plan"),
    [
        (
            "bring the red cube to the table",
            ["navigate(red_cube)", "pick(red_cube)", "navigate(table)", "place(red_cube, table)"],
        ),
        # Objects close to the target of a drive are within reach.
        (
            "put the red cube on the blue cube",
            ["navigate(red_cube)", "pick(red_cube)", "place(red_cube, blue_cube)"],
        ),
        ("pick the cup", ["pick(cup)"]),
        (
            "go to the red cube and pick it",
            ["navigate(red_cube)", "pick(red_cube)"],
        ),
        # The pose of the base after a drive to a location is unknown.
        (
            "go to the kitchen and pick the cup",
            ["navigate(kitchen)", "navigate(cup)", "pick(cup)"],
        ),
        (
            "take the cup and put it on the table",
            ["pick(cup)", "navigate(table)", "place(cup, table)"],
        ),
    ],
)
def test_a_plan_drives_to_what_is_out_of_reach(sentence, plan) -> None:
    assert told(sentence) == plan


def test_robots_without_a_base_do_not_drive() -> None:
    fixed = dataclasses.replace(STATE, has_base=False)
    assert told("put the red cube on the table", fixed) == [
        "pick(red_cube)", "place(red_cube, table)"
    ]  # fmt: skip


def test_the_stand_off_decides() -> None:
    plan = (PlanStep("pick", {"object": "cup"}),)
    assert with_drives(plan, STATE) == plan
    near = dataclasses.replace(STATE, stand_off=0.3)
    assert [step.skill for step in with_drives(plan, near)] == ["navigate", "pick"]


def test_what_was_lost_on_the_way_is_fetched_again() -> None:
    rest = (PlanStep("place", {"object": "red_cube", "location": "table"}),)
    assert [step.skill for step in repaired(rest, STATE, "dropped")] == [
        "navigate", "pick", "navigate", "place"
    ]  # fmt: skip
    held = STATE.holding("red_cube")
    assert [step.skill for step in repaired(rest, held, "too far")] == ["navigate", "place"]
