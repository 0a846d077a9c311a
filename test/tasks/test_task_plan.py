# SPDX-License-Identifier: Apache-2.0
"""Plans as data: validation, and the JSON schema."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.robot.tree import Box
from motion_nodes.extras.tasks.served_task import ModelPlanner
from motion_nodes.extras.tasks.task_plan import (
    MAX_TEXT,
    SKILLS,
    InvalidPlan,
    PlanStep,
    TaskOrder,
    check_plan,
    parse_order,
    parse_plan,
    plan_schema,
    steps_for,
)
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState, point_of

CUBE = Box((0.05, 0.05, 0.05))
STATE = WorldState(
    objects={n: ObjectState(n, np.eye(4), CUBE, movable=n != "table") for n in ("cube", "table")}
)
GOOD = [
    {"skill": "pick", "args": {"object": "cube"}},
    {"skill": "place", "args": {"object": "cube", "location": "table"}},
]


def test_plan_of_the_sources() -> None:
    plan = parse_plan(json.dumps(GOOD))
    assert plan == (PlanStep("pick", {"object": "cube"}),
                    PlanStep("place", {"object": "cube", "location": "table"}))  # fmt: skip
    assert check_plan(plan, STATE).held is None


def test_arguments_never_change() -> None:
    given_args = {"object": "cube"}
    step = PlanStep("pick", given_args)
    given_args["pose"] = "somewhere"
    assert dict(step.args) == {"object": "cube"}
    with pytest.raises(TypeError):
        step.args["object"] = "table"  # type: ignore[index]


@pytest.mark.parametrize(
    "data",
    [
        "", "null", "{}", "3", "[]", "[3]", "[null]", "not json", "[" * 50_000, '"pick(cube)"',
        '[{"skill": "pick"}]', '[{"skill": "fly", "args": {}}]', '[{"skill": 3, "args": {}}]',
        '[{"skill": "pick", "args": []}]', '[{"skill": "pick", "args": {"object": 3}}]',
        '[{"skill": "pick", "args": {"object": ""}}]',
        '[{"skill": "pick", "args": {"object": "cube", "force": "9"}}]',
        '[{"skill": "pick", "args": {"object": "cube"}, "code": "x"}]',
        json.dumps([GOOD[0]] * 51), "x" * 200_000,
    ],
)  # fmt: skip
def test_plans_that_are_refused(data: str) -> None:
    with pytest.raises(InvalidPlan):
        parse_plan(data)


@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.floats() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=6), inner),
    )
)
def test_no_data_breaks_the_parser(data: object) -> None:
    try:
        plan = parse_plan(data)  # type: ignore[arg-type]
    except InvalidPlan:
        return
    assert all(step.skill in SKILLS for step in plan)


@pytest.mark.parametrize(
    ("steps", "at"),
    [
        ([GOOD[1]], 0),
        ([GOOD[0], GOOD[0]], 1),
        ([{"skill": "pick", "args": {"object": "table"}}], 0),
        ([{"skill": "pick", "args": {"object": "cbe"}}], 0),
        ([{"skill": "navigate", "args": {"location": "table"}}], 0),
        ([GOOD[0], {"skill": "place", "args": {"object": "cube", "location": "cube"}}], 1),
    ],
)
def test_sequences_whose_preconditions_are_not_met(steps: list[object], at: int) -> None:
    with pytest.raises(InvalidPlan) as error:
        check_plan(parse_plan(steps), STATE)
    assert error.value.step == at


def test_nearest_word_is_named() -> None:
    with pytest.raises(InvalidPlan, match="'pick'"):
        parse_plan([{"skill": "pik", "args": {"object": "cube"}}])


def test_schema_lists_skills_and_names() -> None:
    schema = plan_schema(STATE)
    names = {entry["properties"]["skill"]["const"] for entry in schema["items"]["oneOf"]}
    assert names == set(SKILLS)
    pick = next(e for e in schema["items"]["oneOf"] if e["properties"]["skill"]["const"] == "pick")
    assert pick["properties"]["args"]["properties"]["object"]["enum"] == ["cube", "table"]
    json.dumps(schema)


class _Model:
    """A language model that answers from a list."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.prompts = list(answers), []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]


def test_wrong_proposals_are_given_back_to_the_model() -> None:
    model = _Model("sure!", '[{"skill": "fly", "args": {}}]', f"```json\n{json.dumps(GOOD)}\n```")
    plan = ModelPlanner(model).plan("put the cube on the table", STATE)
    assert [step.skill for step in plan] == ["pick", "place"]
    assert "fly" in model.prompts[2]


@pytest.mark.parametrize("answer", [OSError("no network"), "nonsense", None, 3])
def test_rules_serve_when_the_model_fails(answer: object) -> None:
    plan = ModelPlanner(_Model(*[answer] * 3)).plan("put the cube on the table", STATE)
    assert [step.skill for step in plan] == ["pick", "place"]
    with pytest.raises(InvalidPlan):
        ModelPlanner(_Model(*[answer] * 3), fallback=None).plan("put the cube away", STATE)


def test_model_that_never_answers() -> None:
    import threading

    held = threading.Event()
    planner = ModelPlanner(lambda prompt: str(held.wait(20.0)), attempts=1, timeout=0.05)
    others = set(threading.enumerate())
    assert len(planner.plan("pick up the cube", STATE)) == 1
    assert "0.05 s" in planner.rejected[0]
    # A process does not wait for it at its end.
    assert all(thread.daemon for thread in set(threading.enumerate()) - others)
    held.set()


@pytest.mark.parametrize("plan_only", [False, True])
def test_orders_keep_their_task(plan_only: bool) -> None:
    for task in ("put the cup on the shelf", '[{"skill": "home"}]', "把杯子放好"):
        order = TaskOrder(task, plan_only)
        assert parse_order(order.as_text()) == order


@pytest.mark.parametrize(
    "text",
    [
        "{", "{}", '{"task": 3}', '{"task": "x", "plan_only": 1}', '{"task": "x", "now": true}',
        "x" * (MAX_TEXT + 1),
    ],
)  # fmt: skip
def test_orders_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidPlan):
        parse_order(text)


def test_skills_are_preceded_by_what_they_need() -> None:
    args = {"object": "cup", "location": "shelf"}
    assert [s.skill for s in steps_for("place", args, None)] == ["pick", "place"]
    assert [s.skill for s in steps_for("place", args, "cup")] == ["place"]
    assert [s.skill for s in steps_for("home", {}, "cup")] == ["home"]


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("0.4,-0.2", (0.4, -0.2)), ("1,2,0.05", (1.0, 2.0, 0.05)), ("-100,100", (-100.0, 100.0)),
        ("100.5,0", None), ("0.4", None), ("0.4, 0.2", None), ("1e2,0", None), ("nan,0", None),
        ("1,2,3,4", None), ("0.4,0.2\n", None), ("", None), ("x,y", None),
    ],
)  # fmt: skip
def test_locations_that_are_points(text: str, point: tuple[float, ...] | None) -> None:
    assert point_of(text) == point
    plan = parse_plan([GOOD[0], {"skill": "place", "args": {"object": "cube", "location": text}}]
                      if text else [GOOD[0]])  # fmt: skip
    if point is not None:
        assert check_plan(plan, STATE).held is None
    elif text:
        with pytest.raises(InvalidPlan):
            check_plan(plan, STATE)
    if text:
        place = next(e for e in plan_schema(STATE)["items"]["oneOf"]
                     if e["properties"]["skill"]["const"] == "place")  # fmt: skip
        location = place["properties"]["args"]["properties"]["location"]["anyOf"]
        matches = re.search(location[1]["pattern"], text) is not None
        assert matches or point is None
