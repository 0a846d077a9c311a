# SPDX-License-Identifier: Apache-2.0
"""Plans as data, from sentences, with drives, and their execution."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.extras.tasks.language import NotUnderstood, example_sentences, parse_sentence
from motion_nodes.extras.tasks.served_task import ModelPlanner, RulePlanner, ServedTask
from motion_nodes.extras.tasks.task_codes import Reason, TaskCode
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
from motion_nodes.extras.tasks.task_runner import (
    SkillFailed,
    TaskLimits,
    TaskRunner,
    TaskStatus,
    repaired,
    with_drives,
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


def test_plan_of_the_sources():
    plan = parse_plan(json.dumps(GOOD))
    assert plan == (PlanStep("pick", {"object": "cube"}),
                    PlanStep("place", {"object": "cube", "location": "table"}))  # fmt: skip
    assert check_plan(plan, STATE).held is None


def test_arguments_never_change():
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
def test_plans_that_are_refused(data):
    with pytest.raises(InvalidPlan):
        parse_plan(data)


@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.floats() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=6), inner),
    )
)
def test_no_data_breaks_the_parser(data):
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
def test_sequences_whose_preconditions_are_not_met(steps, at):
    with pytest.raises(InvalidPlan) as error:
        check_plan(parse_plan(steps), STATE)
    assert error.value.step == at


def test_nearest_word_is_named():
    with pytest.raises(InvalidPlan, match="'pick'"):
        parse_plan([{"skill": "pik", "args": {"object": "cube"}}])


def test_schema_lists_skills_and_names():
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


def test_wrong_proposals_are_given_back_to_the_model():
    model = _Model("sure!", '[{"skill": "fly", "args": {}}]', f"```json\n{json.dumps(GOOD)}\n```")
    plan = ModelPlanner(model).plan("put the cube on the table", STATE)
    assert [step.skill for step in plan] == ["pick", "place"]
    assert "fly" in model.prompts[2]


@pytest.mark.parametrize("answer", [OSError("no network"), "nonsense", None, 3])
def test_rules_serve_when_the_model_fails(answer):
    plan = ModelPlanner(_Model(*[answer] * 3)).plan("put the cube on the table", STATE)
    assert [step.skill for step in plan] == ["pick", "place"]
    with pytest.raises(InvalidPlan):
        ModelPlanner(_Model(*[answer] * 3), fallback=None).plan("put the cube away", STATE)


def test_model_that_never_answers():
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
def test_orders_keep_their_task(plan_only):
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
def test_orders_that_are_refused(text):
    with pytest.raises(InvalidPlan):
        parse_order(text)


def test_skills_are_preceded_by_what_they_need():
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
def test_locations_that_are_points(text, point):
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


NAMES = ("red_cube", "blue_cube", "water_cup", "bowl", "shelf", "table", "sponge", "drawer_handle")
STATE_LANGUAGE = WorldState(
    objects={
        name: ObjectState(name, np.eye(4), Cylinder(0.03, 0.1) if "cup" in name else CUBE,
                          movable=name not in ("shelf", "table"))
        for name in NAMES
    },
    places={"kitchen": (1.0, 0.0, 0.0)},
    has_base=True,
)  # fmt: skip

SENTENCES = {
    "put the red cube on the shelf": "pick(red_cube) place(red_cube, shelf)",
    "Please pick up the blue cube.": "pick(blue_cube)",
    "Pick up the red cube and place it on the table": "pick(red_cube) place(red_cube, table)",
    "take the water cup to the shelf": "pick(water_cup) place(water_cup, shelf)",
    "pick up the water cup on the table": "pick(water_cup)",
    "pour the cup into the bowl": "pick(water_cup) pour(water_cup, bowl)",
    "stack the red cube on the blue cube": "pick(red_cube) place(red_cube, blue_cube)",
    "push the blue cube to the left": "push(blue_cube, left)",
    "go to the kitchen": "navigate(kitchen)",
    "move to the kitchen, then grab the bowl": "navigate(kitchen) pick(bowl)",
    "find the bowl; go home": "locate(bowl) home()",
    "把红色方块放到架子上": "pick(red_cube) place(red_cube, shelf)",
    "请拿起蓝色方块，然后把它放在桌子上": "pick(blue_cube) place(blue_cube, table)",  # noqa: RUF001
    "把水杯里的水倒入碗中": "pick(water_cup) pour(water_cup, bowl)",
    "去厨房": "navigate(kitchen)",
    "把蓝色方块向右推": "push(blue_cube, right)",
    "找到碗": "locate(bowl)",
    "put the red cube at 0.4, -0.2": "pick(red_cube) place(red_cube, 0.4,-0.2)",
    "Put the bowl at (0.4 m, 0.2 m, 0.1 m); go home": "pick(bowl) place(bowl, 0.4,0.2,0.1) home()",
    "wipe the table with the sponge": "pick(sponge) wipe(sponge, table)",
    "pick up the sponge, wipe the table with it, then put it on the shelf": "pick(sponge) "
    "wipe(sponge, table) place(sponge, shelf)",
    "grab the sponge and clean the table": "pick(sponge) wipe(sponge, table)",
    "用海绵擦桌子": "pick(sponge) wipe(sponge, table)",
    "open the drawer": "open_drawer(drawer_handle)",
    "Open the drawer by its handle and go home": "open_drawer(drawer_handle) home()",
    "打开抽屉": "open_drawer(drawer_handle)",
    "hand over the red cube": "pick(red_cube) handover(red_cube)",
    "give me the water cup": "pick(water_cup) handover(water_cup)",
    "pick up the bowl and hand it to me": "pick(bowl) handover(bowl)",
    "把水杯递给我": "pick(water_cup) handover(water_cup)",
    "能不能拿起碗": "pick(bowl)",
    "go home, carefully, please; thank you!": "home()",
    "拿起碗，谢谢": "pick(bowl)",  # noqa: RUF001
    "拿起碗，给我": "pick(bowl) handover(bowl)",  # noqa: RUF001
    "把红色方块放到（0.4，0.2）": "pick(red_cube) place(red_cube, 0.4,0.2)",  # noqa: RUF001
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences(sentence):
    plan = parse_sentence(sentence, STATE_LANGUAGE)
    assert " ".join(map(str, plan)) == SENTENCES[sentence]
    check_plan(plan, STATE_LANGUAGE)


@pytest.mark.parametrize(
    "sentence",
    [
        "", "   ", "the red cube", "dance", "what is the weather like?", "pick up the cube",
        "pick the green cube", "put the red cube", "put it on the table", "push the red cube",
        "place the banana on the shelf", "go to the moon", "put the cup on the spaceship",
        "把香蕉放到架子上", "你好", "\x00\x01", "pick " * 1000, "🤖",
        "__import__('os').system('true')", "do not pick the red cube", "don't go home",
        "never push the red cube to the left", "put the bowl on the table without the red cube",
        "pick everything except the red cube", "别拿红色方块", "不要回家",
        "go home and fly", "pick up the bowl, then dance", "拿起碗，然后跳舞",  # noqa: RUF001
    ],
)  # fmt: skip
def test_sentences_that_are_not_understood(sentence):
    with pytest.raises(NotUnderstood):
        parse_sentence(sentence, STATE_LANGUAGE)


@given(st.text(max_size=200))
def test_no_text_does_harm(text):
    try:
        plan = parse_sentence(text, STATE_LANGUAGE)
    except NotUnderstood:
        return
    for step in plan:
        assert set(step.args.values()) <= {*NAMES, "kitchen", "left", "right", "forward",
                                           "backward"}  # fmt: skip


def test_what_is_held_is_not_picked_again():
    state = STATE_LANGUAGE.holding("red_cube")
    assert str(parse_sentence("put the red cube on the shelf", state)[0]) == (
        "place(red_cube, shelf)"
    )


@given(st.sets(st.sampled_from(NAMES)), st.sampled_from([None, *NAMES, "box_1"]))
def test_examples_are_understood_whatever_is_known_and_held(names, held):
    # Held may be what another client attached, which is no object of the tasks.
    state = replace(
        STATE_LANGUAGE.observed({n: STATE_LANGUAGE.objects[n] for n in names}), held=held
    )
    for sentence in example_sentences(state):
        check_plan(parse_sentence(sentence, state), state)


def test_contradictions_are_found_before_anything_moves():
    plan = parse_sentence("pick up the red cube and pick up the blue cube", STATE_LANGUAGE)
    with pytest.raises(InvalidPlan) as error:
        check_plan(plan, STATE_LANGUAGE)
    assert error.value.step == 1


def test_numbers_that_are_no_point_are_no_place():
    with pytest.raises(NotUnderstood):
        parse_sentence("put the red cube at 0.4", STATE_LANGUAGE)
    plan = parse_sentence("put the red cube at 400, 0.1", STATE_LANGUAGE)
    with pytest.raises(InvalidPlan, match="x,y"):
        check_plan(plan, STATE_LANGUAGE)


@pytest.mark.parametrize("sentence", ["wipe with the sponge", "clean using it"])
def test_wiping_without_a_surface_is_not_understood(sentence):
    with pytest.raises(NotUnderstood, match="no known object in"):
        parse_sentence(sentence, STATE_LANGUAGE)


CUBE_DRIVES, FLAT = Box((0.05, 0.05, 0.05)), Box((0.4, 0.4, 0.5))
STATE_DRIVES = WorldState(
    {
        "red_cube": ObjectState("red_cube", from_xyz_rpy((2.0, 0.0, 0.5)), CUBE_DRIVES),
        "blue_cube": ObjectState("blue_cube", from_xyz_rpy((1.9, 0.1, 0.5)), CUBE_DRIVES),
        "table": ObjectState("table", from_xyz_rpy((-1.0, 1.0, 0.2)), FLAT, movable=False),
        "cup": ObjectState("cup", from_xyz_rpy((0.4, 0.2, 0.5)), CUBE_DRIVES),
    },
    {"kitchen": (3.0, 0.0, 0.0)},
    has_base=True,
)


def told(sentence: str, state: WorldState = STATE_DRIVES) -> list[str]:
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
        ("go to the red cube and pick it", ["navigate(red_cube)", "pick(red_cube)"]),
        # The pose of the base after a drive to a location is unknown.
        ("go to the kitchen and pick the cup", ["navigate(kitchen)", "navigate(cup)", "pick(cup)"]),
        (
            "take the cup and put it on the table",
            ["pick(cup)", "navigate(table)", "place(cup, table)"],
        ),
    ],
)
def test_a_plan_drives_to_what_is_out_of_reach(sentence, plan):
    assert told(sentence) == plan


def test_robots_without_a_base_do_not_drive():
    fixed = dataclasses.replace(STATE_DRIVES, has_base=False)
    assert told("put the red cube on the table", fixed) == [
        "pick(red_cube)", "place(red_cube, table)"
    ]  # fmt: skip


def test_the_stand_off_decides():
    plan = (PlanStep("pick", {"object": "cup"}),)
    assert with_drives(plan, STATE_DRIVES) == plan
    near = dataclasses.replace(STATE_DRIVES, stand_off=0.3)
    assert [step.skill for step in with_drives(plan, near)] == ["navigate", "pick"]


def test_what_was_lost_on_the_way_is_fetched_again():
    rest = (PlanStep("place", {"object": "red_cube", "location": "table"}),)
    assert [step.skill for step in repaired(rest, STATE_DRIVES, "dropped")] == [
        "navigate", "pick", "navigate", "place"
    ]  # fmt: skip
    held = STATE_DRIVES.holding("red_cube")
    assert [step.skill for step in repaired(rest, held, "too far")] == ["navigate", "place"]


PLAN = parse_plan(
    [
        {"skill": "pick", "args": {"object": "cube"}},
        {"skill": "place", "args": {"object": "cube", "location": "table"}},
    ]
)


class ScriptedExecution:
    phase = "approach"

    def __init__(self, robot: ScriptedRobot, step: PlanStep, failure: str) -> None:
        self.robot, self.step, self.failure, self.polls = robot, step, failure, 0

    def poll(self) -> bool:
        self.polls += 1
        if self.failure == "never":
            return False
        if self.failure and self.polls > 1:
            raise SkillFailed(self.failure, TaskCode.MOTION_FAILED)
        if self.polls < 3:
            return False
        self.robot.state = SKILLS[self.step.skill].effect(self.step.args, self.robot.state)
        return True

    def cancel(self) -> None:
        self.robot.canceled += 1


class ScriptedRobot:
    """Executes each step in three polls, with failures from a list."""

    def __init__(self, *failures: str) -> None:
        self.failures, self.canceled, self.time = list(failures), 0, 0.0
        self.started: list[str] = []
        self.observations = 0
        self.state = WorldState(
            objects={n: ObjectState(n, np.eye(4), CUBE, movable=n != "table")
                     for n in ("cube", "table")}
        )  # fmt: skip

    def observe(self) -> WorldState:
        self.observations += 1
        return self.state

    def start(self, step: PlanStep, state: WorldState) -> ScriptedExecution:
        self.started.append(step.skill)
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "lost":
            self.state = self.state.holding(None)
        return ScriptedExecution(self, step, failure)

    def now(self) -> float:
        self.time += 0.1
        return self.time


def run(robot: ScriptedRobot, plan=PLAN, limits: TaskLimits | None = None, ticks: int = 2000):
    runner = TaskRunner(robot, plan, limits=limits)
    for _ in range(ticks):
        if runner.tick() is not TaskStatus.RUNNING:
            break
    return runner


def test_steps_in_order_with_fresh_observations():
    robot = ScriptedRobot()
    runner = run(robot)
    assert runner.state is TaskStatus.SUCCEEDED
    assert robot.started == ["pick", "place"]
    assert robot.observations >= 2


def test_failed_step_is_retried():
    robot = ScriptedRobot("slipped")
    assert run(robot).state is TaskStatus.SUCCEEDED
    assert robot.started == ["pick", "pick", "place"]


def test_dropped_object_is_picked_again():
    robot = ScriptedRobot("", "lost")
    runner = run(robot)
    assert runner.state is TaskStatus.SUCCEEDED
    # At the second attempt to place the precondition fails, so the task is replanned.
    assert robot.started == ["pick", "place", "pick", "place"]


def test_the_reason_is_the_failure_not_what_follows_from_it():
    """A place that has dropped the object cannot begin again: the gripper is empty."""
    runner = run(ScriptedRobot(*3 * ("", "lost")))
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.MOTION_FAILED
    assert "lost" in runner.reason.text
    assert any("cannot begin again: the gripper does not hold" in e.text for e in runner.events)


@pytest.mark.parametrize(("retries", "plans"), [(0, 1), (1, 3), (2, 2)])
def test_failures_are_bounded(retries, plans):
    robot = ScriptedRobot(*["blocked"] * 100)
    runner = run(robot, limits=TaskLimits(retries=retries, plans=plans))
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.MOTION_FAILED
    assert "blocked" in runner.reason.text
    assert len(robot.started) == (retries + 1) * plans


def test_vanished_object_ends_the_task_with_its_reason():
    robot = ScriptedRobot("moved", "moved")
    runner = TaskRunner(robot, PLAN)
    for _ in range(4):
        runner.tick()
    robot.state = WorldState(objects={"table": robot.state.objects["table"]})
    for _ in range(200):
        runner.tick()
    assert runner.state is TaskStatus.FAILED
    assert runner.reason.code is TaskCode.UNKNOWN_OBJECT
    assert "cube" in runner.reason.text


def test_step_that_never_ends_is_canceled_at_its_timeout():
    robot = ScriptedRobot("never", "never")
    runner = run(robot, limits=TaskLimits(retries=0, plans=1))
    assert runner.state is TaskStatus.FAILED
    assert robot.canceled == 1


def test_cancel_stops_the_step():
    robot = ScriptedRobot("never")
    runner = TaskRunner(robot, PLAN)
    runner.tick()
    runner.cancel(Reason(TaskCode.STOPPED_MEANWHILE, "stopped by the page"))
    assert runner.state is TaskStatus.CANCELED
    assert runner.reason == Reason(TaskCode.STOPPED_MEANWHILE, "stopped by the page")
    assert robot.canceled == 1
    assert runner.tick() is TaskStatus.CANCELED


def test_failures_stay_in_the_log():
    runner = run(ScriptedRobot("slipped"))
    texts = [event.text for event in runner.events]
    assert any("slipped" in text for text in texts)
    assert texts[-1] == "succeeded"


def test_states_of_a_served_task():
    world = ScriptedRobot().state
    assert ServedTask().status(world)["state"] == "idle"
    why = Reason(TaskCode.NOT_UNDERSTOOD, "no such skill")
    refused = ServedTask("dance", 1, refusal=why)
    assert (refused.state, refused.ended, refused.reason) == ("refused", True, why)
    assert refused.status(world)["code"] == "not_understood"
    assert ServedTask("x", 1, PLAN, plan_only=True).state == "planned"
    waiting = ServedTask("x", 1, PLAN)
    assert waiting.waits
    assert not waiting.ended
    waiting.cancel()
    assert (waiting.state, waiting.waits, waiting.status(world)["plan"]) == ("canceled", False, [])


def test_progress_of_a_served_task_until_it_is_canceled():
    robot = ScriptedRobot()
    task = ServedTask("x", 1, PLAN)
    task.runner = TaskRunner(robot, PLAN)
    task.runner.tick()
    assert (task.progress, task.running) == ("pick(cube): approach", True)
    task.cancel()
    assert (task.state, task.ended, robot.canceled) == ("canceled", True, 1)
