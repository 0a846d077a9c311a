# SPDX-License-Identifier: Apache-2.0
"""Rule-based parsing of English and Chinese sentences to plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.extras.tasks.language import NotUnderstood, example_sentences, parse_sentence
from motion_nodes.extras.tasks.task_plan import InvalidPlan, check_plan
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState

CUBE = Box((0.05, 0.05, 0.05))
NAMES = ("red_cube", "blue_cube", "water_cup", "bowl", "shelf", "table", "sponge", "drawer_handle")
STATE = WorldState(
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
def test_sentences(sentence: str) -> None:
    plan = parse_sentence(sentence, STATE)
    assert " ".join(map(str, plan)) == SENTENCES[sentence]
    check_plan(plan, STATE)


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
def test_sentences_that_are_not_understood(sentence: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_sentence(sentence, STATE)


@given(st.text(max_size=200))
def test_no_text_does_harm(text: str) -> None:
    try:
        plan = parse_sentence(text, STATE)
    except NotUnderstood:
        return
    for step in plan:
        assert set(step.args.values()) <= {*NAMES, "kitchen", "left", "right", "forward",
                                           "backward"}  # fmt: skip


def test_what_is_held_is_not_picked_again() -> None:
    state = STATE.holding("red_cube")
    assert str(parse_sentence("put the red cube on the shelf", state)[0]) == (
        "place(red_cube, shelf)"
    )


@given(st.sets(st.sampled_from(NAMES)), st.sampled_from([None, *NAMES, "box_1"]))
def test_examples_are_understood_whatever_is_known_and_held(names: set[str], held: str) -> None:
    # Held may be what another client attached, which is no object of the tasks.
    state = replace(STATE.observed({n: STATE.objects[n] for n in names}), held=held)
    for sentence in example_sentences(state):
        check_plan(parse_sentence(sentence, state), state)


def test_contradictions_are_found_before_anything_moves() -> None:
    plan = parse_sentence("pick up the red cube and pick up the blue cube", STATE)
    with pytest.raises(InvalidPlan) as error:
        check_plan(plan, STATE)
    assert error.value.step == 1


def test_numbers_that_are_no_point_are_no_place() -> None:
    with pytest.raises(NotUnderstood):
        parse_sentence("put the red cube at 0.4", STATE)
    plan = parse_sentence("put the red cube at 400, 0.1", STATE)
    with pytest.raises(InvalidPlan, match="x,y"):
        check_plan(plan, STATE)


@pytest.mark.parametrize("sentence", ["wipe with the sponge", "clean using it"])
def test_wiping_without_a_surface_is_not_understood(sentence: str) -> None:
    with pytest.raises(NotUnderstood, match="no known object in"):
        parse_sentence(sentence, STATE)
