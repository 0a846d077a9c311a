# SPDX-License-Identifier: Apache-2.0
"""Bounds of external input: numbers, nested files, limits of joints."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motion_nodes.core.planning.task_space_generator import parse_path_spec
from motion_nodes.core.robot import bounds, yaml_schema
from motion_nodes.core.robot.limits import JointLimits, joint_indices
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_quat
from motion_nodes.core.robot.urdf import read_urdf
from motion_nodes.core.robot.yaml_schema import parse_yaml
from motion_nodes.errors import InvalidCommand, InvalidDescription, MotionError, UnknownJoint
from motion_nodes.extras.formats.kinematic_file import read_kinematic_text


@pytest.mark.parametrize("scale", [1e-11, 1e-3, 1.0, 1e3, 1e154, 1e155, 1e300, 1.7e308])
def test_the_norm_of_a_quaternion_does_not_overflow(scale):
    unit = np.array([0.5, -0.5, 0.5, 0.5])
    assert np.allclose(from_xyz_quat((0, 0, 0), unit * scale), from_xyz_quat((0, 0, 0), unit))


@pytest.mark.parametrize("quaternion", [(0, 0, 0, 0), (1e-13,) * 4, (math.inf, 0, 0, 0),
                                        (math.nan, 0, 0, 1), (1.0, 0.0, 0.0)])  # fmt: skip
def test_no_rotation_is_refused(quaternion):
    with pytest.raises(ValueError):
        from_xyz_quat((0, 0, 0), quaternion)


def test_numbers_beyond_a_bound_are_named():
    values = np.array([[0.0, math.nan], [math.inf, -2e4]])
    with pytest.raises(InvalidCommand):
        bounds.VELOCITY.check(values, "velocities", ["a", "b"])
    values[1, 1] = 1e4
    bounds.VELOCITY.check(values, "velocities")
    bounds.VELOCITY.check([], "velocities")


class Counting(str):
    """A name that counts how often names are hashed or compared."""

    calls = 0

    def __hash__(self) -> int:
        Counting.calls += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Counting.calls += 1
        return super().__eq__(other)


def test_looking_for_repeated_names_is_linear():
    def calls(count: int) -> int:
        names = [Counting(f"joint{i}") for i in range(count)]
        Counting.calls = 0
        assert bounds.repeated(names) == []
        return Counting.calls

    assert calls(20_000) <= 12 * calls(2000)
    assert bounds.repeated(["a", "b", "a", "c", "a", "b"]) == ["a", "b"]


LAUGHS = "a0: &a0 [x, x, x]\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)
)
ENTITIES = (
    "<!DOCTYPE r [<!ENTITY a '"
    + "x" * 100
    + "'>"
    + "".join(f"<!ENTITY {chr(97 + i)} '{('&' + chr(96 + i) + ';') * 20}'>" for i in range(1, 9))
    + "]>"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: " + "[" * 500 + "]" * 500, "nested"),
        ("a: " + "{a: " * 500 + "1" + "}" * 500, "nested"),
        ("\n".join(" " * i + "a:" for i in range(500)), "nested"),
        ("a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 99)), "nested"),
        ("- " * 400 + "1", "nested"),
        (LAUGHS, "aliases counted"),
        ("a: &a [*a]", "contains itself"),
        ("a: &a {b: *a}", "contains itself"),
        ("a: *b", "undefined alias"),
        ("a: " + "9" * 400, "out of range"),
    ],
)
def test_yaml_that_would_not_end(text, reason):
    with pytest.raises(InvalidDescription, match=reason) as refusal:
        parse_yaml(text, "x.yaml")
    assert str(refusal.value).startswith("x.yaml, line ")
    assert len(str(refusal.value)) < 300
    with pytest.raises(InvalidDescription):
        parse_path_spec(text, "path_spec")


def test_yaml_within_the_bounds_is_read():
    deep = "a: " + "[" * 60 + "1" + "]" * 60
    assert str(parse_yaml(deep, "x")).count("[") == 60
    assert parse_yaml("a: &a [1, 2]\nb: [*a, *a]", "x") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}


def test_yaml_that_is_too_long(monkeypatch):
    monkeypatch.setattr(yaml_schema, "MAX_CHARACTERS", 100)
    with pytest.raises(InvalidDescription):
        parse_yaml("a: " + "x" * 100, "x.yaml")


def test_json_that_is_nested_deeply():
    with pytest.raises(InvalidDescription):
        read_kinematic_text("[" * 100_000 + "]" * 100_000, "robot", "x.kinematic.json")


@pytest.mark.parametrize(
    "text",
    [
        '<robot name="r">' + "<a>" * 2000 + "</a>" * 2000 + "</robot>",
        ENTITIES + '<robot name="&i;"><link name="l"/></robot>',
    ],
)
def test_xml_that_would_not_end(text):
    with pytest.raises(InvalidDescription, match="XML"):
        read_urdf(text)


LIMITS = JointLimits(
    ("a", "b", "c"),
    lower=np.array([-1.0, 0.0, -np.inf]),
    upper=np.array([1.0, 0.5, np.inf]),
    velocity=np.array([1.0, 2.0, 3.0]),
    effort=np.array([4.0, 5.0, 6.0]),
    acceleration=np.array([7.0, 8.0, 9.0]),
    jerk=np.array([10.0, 11.0, 12.0]),
)
POSITIONS = st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3)


@given(POSITIONS)
def test_clipping_ends_inside_and_is_idempotent(q):
    clipped = LIMITS.clip(q)
    assert LIMITS.within(clipped)
    assert LIMITS.violations(clipped) == ()
    np.testing.assert_array_equal(LIMITS.clip(clipped), clipped)
    assert LIMITS.within(q) == (LIMITS.violations(q) == ()) == bool(np.all(clipped == q))


def test_violations_say_which_joint_and_what_is_allowed():
    assert LIMITS.violations([2.0, 0.25, 1e9]) == ("a is 2, allowed is -1 to 1",)
    assert LIMITS.violations([-90.0, 0.25, 0.0])[0].endswith("(in degrees? Angles are in rad)")
    assert len(LIMITS.violations([-2.0, 1.0, 0.0])) == 2
    assert LIMITS.violations([1.0 + 1e-9, 0.0, 0.0], tolerance=1e-8) == ()


def test_nan_is_outside_and_stays_nan():
    q = [np.nan, 0.0, np.nan]
    assert not LIMITS.within(q)
    assert LIMITS.violations(q) == (
        "a is nan, allowed is -1 to 1",
        "c is nan, allowed is -inf to inf",
    )
    np.testing.assert_array_equal(LIMITS.clip(q), q)


def test_many_positions_are_clipped_at_once():
    q = np.array([[5.0, 5.0, 5.0], [-5.0, -5.0, -5.0]])
    np.testing.assert_array_equal(LIMITS.clip(q), [[1.0, 0.5, 5.0], [-1.0, 0.0, -5.0]])


@pytest.mark.parametrize("q", [[], [1.0], [0.0] * 4, 3.0])
def test_a_wrong_count_is_named(q):
    for call in (LIMITS.clip, LIMITS.within, LIMITS.violations):
        with pytest.raises(InvalidCommand):
            call(q)  # type: ignore[arg-type]


def test_selecting_keeps_the_order_asked_for():
    chosen = LIMITS.select(["c", "a"])
    assert chosen.names == ("c", "a")
    np.testing.assert_array_equal(chosen.effort, (6.0, 4.0))
    np.testing.assert_array_equal(chosen.jerk, (12.0, 10.0))
    with pytest.raises(UnknownJoint):
        LIMITS.select(["a", "d"])


def test_limits_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.lower[0] = -9.0
    with pytest.raises(ValueError, match="read-only"):
        LIMITS.select(["a"]).upper[0] = 9.0


def test_indices_of_a_permutation():
    np.testing.assert_array_equal(joint_indices(("c", "b", "a"), LIMITS.names), (2, 1, 0))
    assert joint_indices((), LIMITS.names).shape == (0,)


def test_limits_are_lowered_and_never_raised():
    limits = load_robot("franka").limits
    joint, k = limits.names[2], 2
    low = 0.5 * float(limits.velocity[k])
    given = [f"{joint}.max_velocity={low}", f"{joint}.max_jerk=inf", f"{joint}.max_jerk=1e9"]
    lowered = limits.lowered(given)
    assert lowered.velocity[k] == low
    for name in ("velocity", "acceleration", "jerk", "lower", "upper"):
        rest = np.arange(len(limits.names)) != k
        before, after = getattr(limits, name), getattr(lowered, name)
        assert np.array_equal(before[rest], after[rest])
    assert lowered.jerk[k] == limits.jerk[k]
    assert lowered.lowered(given).velocity[k] == low


@pytest.mark.parametrize("entry", ["panda_joint1", "panda_joint1.max_velocity=x", "a=b",
                                   "panda_joint1.max_velocity=-1", "panda_joint1.max_speed=1",
                                   "panda_joint1.max_velocity=nan",
                                   "elbow.max_velocity=1"])  # fmt: skip
def test_wrong_lower_limits_are_named(entry):
    with pytest.raises(MotionError, match="elbow" if "elbow" in entry else "JOINT.NAME=VALUE"):
        load_robot("franka").limits.lowered([entry])
