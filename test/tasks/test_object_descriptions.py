# SPDX-License-Identifier: Apache-2.0
"""Objects by color, size and relation; each refusal has its code."""

import pytest

from motion_nodes.core.robot.colors import NAMES
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box, Cylinder
from motion_nodes.extras.tasks.language import WORDS, NotUnderstood, parse_sentence
from motion_nodes.extras.tasks.task_codes import TaskCode
from motion_nodes.extras.tasks.world_state import ObjectState, WorldState


def at(name: str, x: float, y: float, shape=None, z: float | None = None, color: str = ""):
    shape = shape or Box((0.05, 0.05, 0.05))
    half = 0.5 * (shape.size[2] if isinstance(shape, Box) else shape.length)
    return ObjectState(
        name, from_xyz_rpy((x, y, half if z is None else z + half)), shape, color=color
    )


def world(*items: ObjectState, held: str | None = None) -> WorldState:
    return WorldState(objects={item.name: item for item in items}, held=held)


CUP, CAN = Cylinder(0.03, 0.1), Cylinder(0.03, 0.12)
TABLE = world(
    at("cup_1", 0.4, 0.2, CUP), at("cup_2", 0.5, -0.2, Cylinder(0.035, 0.14)),
    at("can", 0.45, 0.0, CAN), at("box_1", 0.6, 0.0), at("box_2", 0.3, 0.02, Box((0.08,) * 3)),
    at("ball", 0.3, 0.02, Box((0.04,) * 3), z=0.08),
)  # fmt: skip
CUBES = world(at("red_cube", 0.4, 0.1), at("blue_cube", 0.4, -0.1))
MEASURED = world(
    at("object_1", 0.4, 0.1, color="green"), at("object_2", 0.5, 0.0, color="red"),
    at("object_3", 0.6, 0.0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "state", "expected"),
    [
        ("pick the left cup", TABLE, "pick(cup_1)"),
        ("grab the rightmost cup", TABLE, "pick(cup_2)"),
        ("pick up the near cup", TABLE, "pick(cup_1)"),
        ("pick up the farthest cup", TABLE, "pick(cup_2)"),
        ("take the front box", TABLE, "pick(box_2)"),
        ("take the tall cup", TABLE, "pick(cup_2)"),
        ("take the smaller cup", TABLE, "pick(cup_1)"),
        ("pick the biggest box", TABLE, "pick(box_2)"),
        ("pick the box behind the can", TABLE, "pick(box_1)"),
        ("pick the box in front of the can", TABLE, "pick(box_2)"),
        ("pick the cup to the left of the can", TABLE, "pick(cup_1)"),
        ("pick the cup right of the can", TABLE, "pick(cup_2)"),
        ("pick the box under the ball", TABLE, "pick(box_2)"),
        ("put the left cup on the big box", TABLE, "pick(cup_1) place(cup_1, box_2)"),
        ("put the ball on the box behind the can", TABLE, "pick(ball) place(ball, box_1)"),
        ("push the left cup to the right", TABLE, "push(cup_1, right)"),
        ("push the cup in front of the can to the left", world(
            at("cup_1", 0.3, 0.0, CUP), at("cup_2", 0.6, 0.0, CUP), at("can", 0.45, 0.0, CAN),
        ), "push(cup_1, left)"),
        ("拿起左边的杯子", TABLE, "pick(cup_1)"),
        ("拿最大的盒子", TABLE, "pick(box_2)"),
        ("pick the red object", MEASURED, "pick(object_2)"),
        ("pick the green object", MEASURED, "pick(object_1)"),
        ("pick the red box", MEASURED, "pick(object_2)"),
        ("put the red cube on the green box", MEASURED,
         "pick(object_2) place(object_2, object_1)"),
    ],
)  # fmt: skip
def test_descriptions_name_one_object(sentence, state, expected):
    assert " ".join(map(str, parse_sentence(sentence, state))) == expected


@pytest.mark.parametrize(
    ("sentence", "state", "code"),
    [
        ("pick the green cube", CUBES, TaskCode.UNKNOWN_OBJECT),
        ("pick the blue cube", world(at("red_cube", 0.4, 0.1)), TaskCode.UNKNOWN_OBJECT),
        ("pick the cube", CUBES, TaskCode.AMBIGUOUS_OBJECT),
        ("pick the banana", CUBES, TaskCode.UNKNOWN_OBJECT),
        ("pick the cup behind the box", TABLE, TaskCode.AMBIGUOUS_OBJECT),
        ("pick the can behind the cup", TABLE, TaskCode.AMBIGUOUS_OBJECT),
        ("pick the can in front of the ball", TABLE, TaskCode.UNKNOWN_OBJECT),
        ("pick the left cube", world(at("cube_1", 0.4, 0.0), at("cube_2", 0.5, 0.001)),
         TaskCode.AMBIGUOUS_OBJECT),
        ("pick the big cube", CUBES, TaskCode.AMBIGUOUS_OBJECT),
        ("put the red cube on the moon", CUBES, TaskCode.NOT_UNDERSTOOD),
        ("put the red cube in front of the blue cube", CUBES, TaskCode.NOT_UNDERSTOOD),
        ("dance", CUBES, TaskCode.NOT_UNDERSTOOD),
        ("pick the red cube", world(at("red_cube", 0.4, 0.1), held="red_cube"),
         TaskCode.ALREADY_HELD),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_code(sentence, state, code):
    with pytest.raises(NotUnderstood) as error:
        parse_sentence(sentence, state)
    assert error.value.code is code, error.value


def test_a_refused_color_names_what_is_there():
    with pytest.raises(NotUnderstood, match="is green: red_cube, blue_cube"):
        parse_sentence("pick the green cube", CUBES)


def test_what_is_held_may_be_picked_and_placed_in_one_sentence():
    state = world(at("red_cube", 0.4, 0.1), at("shelf", 0.5, 0.3), held="red_cube")
    plan = parse_sentence("pick up the red cube and put it on the shelf", state)
    assert " ".join(map(str, plan)) == "place(red_cube, shelf)"


@pytest.mark.parametrize("turn", [0.0, 0.7, 3.0])
def test_an_equal_object_of_unknown_color_is_accepted(turn):
    item = ObjectState("cube", from_xyz_rpy((0.4, 0.1, 0.025), (0.0, 0.0, turn)), Box((0.05,) * 3))
    assert str(parse_sentence("pick the green cube", world(item))[0]) == "pick(cube)"


@pytest.mark.parametrize("color", NAMES)
def test_each_color_that_is_measured_has_words(color):
    state = world(at("object_1", 0.4, 0.1, color=color), at("object_2", 0.5, 0.0, color="none"))
    for word in (color, *WORDS[color]):
        (step,) = parse_sentence(f"pick the {word} object", state)
        assert step.args["object"] == "object_1", word
