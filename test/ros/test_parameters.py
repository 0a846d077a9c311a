# SPDX-License-Identifier: Apache-2.0
"""Parameters: declared with descriptors, checked and replaced as a whole."""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import pytest
from raised_errors import about
from rcl_interfaces.msg import ParameterType
from rclpy.node import Node
from rclpy.parameter import Parameter

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.parameters import ParameterSet, declared, param


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """One parameter of each kind."""

    radius: float = param(0.5, doc="Radius.", unit="m", gt=0.0, le=2.0)
    count: int = param(3, doc="How many.", ge=1, le=9)
    mode: str = param("slow", doc="Mode.", one_of=("slow", "fast"))
    on: bool = param(True, doc="Switch.")
    names: tuple[str, ...] = param(("a", "b"), doc="Names.")
    gains: tuple[float, ...] = param((1.0, 2.0), doc="Gains.", ge=0.0)
    limit: float = param(math.nan, doc="NaN: none.", nan=True, name="x.limit")
    low: float = param(0.0, doc="Lower end.")
    high: float = param(1.0, doc="Upper end.")
    fixed: str = param("wood", doc="Cannot change.", read_only=True)


def ordered(params: Sample) -> str | None:
    return None if params.low <= params.high else f"low {params.low} is above high {params.high}"


@pytest.fixture
def make_node(ros):
    nodes: list[Node] = []

    def make(*overrides: str) -> Node:
        args = ["--ros-args"] + [w for o in overrides for w in ("-p", o)] if overrides else None
        nodes.append(Node("parameters_test", cli_args=args, use_global_arguments=False))
        return nodes[-1]

    yield make
    for node in nodes:
        node.destroy_node()


def set_batch(node: Node, **values: object):
    return node.set_parameters_atomically(
        [Parameter(name.replace("__", "."), value=value) for name, value in values.items()]
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Peered:
    """Parameters of which a peer has others of the same names."""

    WITHOUT_EFFECT: ClassVar[Mapping[str, str]] = {"rate": "it is idle", "efforts": "goals do"}

    rate: float = param(1.0, doc="Rate.", gt=0.0, le=10.0)
    efforts: tuple[float, ...] = param((5.0,), doc="Efforts.", gt=0.0)
    size: float = param(1.0, doc="Not of the peer.", le=10.0)


@pytest.mark.parametrize(
    ("rate", "efforts", "expected"),
    [("500", "20.0", Peered()), ("4", "[2.0]", Peered(rate=4.0, efforts=(2.0,)))],
)
def test_values_that_only_the_peer_can_have_are_not_ours(make_node, rate, efforts, expected):
    node = make_node(f"rate:={rate}", f"efforts:={efforts}")
    assert ParameterSet(node, Peered).current == expected
    with pytest.raises(InvalidConfig):
        ParameterSet(make_node("size:=20.0"), Peered)


def test_defaults(make_node):
    params = ParameterSet(make_node(), Sample, check=ordered).current
    assert params == dataclasses.replace(Sample(), limit=params.limit)
    assert math.isnan(params.limit)


def test_descriptors_tell_clients_what_is_allowed(make_node):
    node = make_node()
    ParameterSet(node, Sample)
    radius = node.describe_parameter("radius")
    assert radius.description == "Radius. [m]"
    assert radius.type == ParameterType.PARAMETER_DOUBLE
    assert not radius.read_only
    (span,) = radius.floating_point_range
    assert (span.from_value, span.to_value) == (0.0, 2.0)
    (span,) = node.describe_parameter("count").integer_range
    assert (span.from_value, span.to_value, span.step) == (1, 9, 1)
    assert node.describe_parameter("mode").additional_constraints == "one of: slow, fast"
    assert node.describe_parameter("fixed").read_only
    assert node.describe_parameter("x.limit").type == ParameterType.PARAMETER_DOUBLE
    assert node.describe_parameter("names").type == ParameterType.PARAMETER_STRING_ARRAY


def test_every_declared_entry_has_a_description():
    assert [entry.name for entry in declared(Sample)][-4:] == ["x.limit", "low", "high", "fixed"]
    assert all(entry.rules.setting.doc for entry in declared(Sample))


def test_values_from_the_command_line(make_node):
    node = make_node(
        "radius:=1.5", "count:=4", "mode:=fast", "on:=false", "names:=[x]", "x.limit:=2.0"
    )
    params = ParameterSet(node, Sample).current
    assert params == Sample(radius=1.5, count=4, mode="fast", on=False, names=("x",), limit=2.0)


def test_an_integer_is_taken_where_a_float_is_meant(make_node):
    node = make_node("radius:=1", "gains:=[3, 4]", "x.limit:=5")
    params = ParameterSet(node, Sample)
    assert params.current == Sample(radius=1.0, gains=(3.0, 4.0), limit=5.0)
    assert set_batch(node, radius=2, gains=[5, 6]).successful
    assert params.current == Sample(radius=2.0, gains=(5.0, 6.0), limit=5.0)
    assert isinstance(params.current.radius, float)
    assert node.get_parameter("radius").type_ is Parameter.Type.DOUBLE


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("radius:=fast", "'radius' is 'fast'; it must be of type double"),
        ("count:=2.5", "'count' is 2.5; it must be of type integer"),
        ("on:=3", "'on' is 3; it must be of type bool"),
        ("names:=[1, 2]", "'names' is .*; it must be of type string_array"),
        ("radius:=3.0", "radius"),
        ("radius:=-1.0", "radius"),
        ("radius:=0.0", "radius is 0.0; it must be above 0.0"),
        ("radius:=.nan", "radius"),
        ("radius:=.inf", "radius"),
        ("low:=.nan", "low is nan; it must be a finite number"),
        ("x.limit:=.inf", "x.limit is inf; it must be a finite number"),
        ("gains:=[1.0, -1.0]", "gains is -1.0; it must be at least 0"),
        ("mode:=medium", "mode is 'medium'; allowed: slow, fast"),
        ("low:=4.0", "low 4.0 is above high 1.0"),
    ],
)
def test_bad_values_at_start_are_one_clear_error(make_node, override, text):
    node = make_node(override)
    with pytest.raises(InvalidConfig, match=text) as caught:
        ParameterSet(node, Sample, check=ordered)
    assert "/parameters_test" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ({"radius": -1.0}, "radius"),
        ({"radius": 0.0}, "radius is 0.0; it must be above 0.0"),
        ({"radius": math.nan}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"radius": "big"}, "DOUBLE"),
        ({"mode": "medium"}, "allowed: slow, fast"),
        ({"low": 2.0}, "low 2.0 is above high 1.0"),
        ({"low": 3.0, "high": 2.0}, "low 3.0 is above high 2.0"),
        ({"fixed": "iron"}, "read-only"),
        ({"radius": 1.0, "count": 99}, "count"),
        ({"radius": 1.0, "count": 4, "low": 5.0}, "low 5.0 is above"),
        ({"gains": [1.0, math.nan]}, "gains is nan"),
        ({"count": True}, "INTEGER"),
    ],
)
def test_a_rejected_batch_changes_nothing(make_node, batch, reason):
    node = make_node()
    params = ParameterSet(node, Sample, check=ordered)
    seen: list[Sample] = []
    params.on_change(seen.append)
    before = params.current
    result = set_batch(node, **batch)
    assert not result.successful
    assert reason in result.reason
    assert params.current is before
    assert seen == []
    for name in batch:
        default = getattr(Sample(), name)
        value = node.get_parameter(name).value
        assert (tuple(value) if isinstance(default, tuple) else value) == default


def test_an_accepted_batch_is_swapped_whole_and_told_once(make_node):
    node = make_node()
    params = ParameterSet(node, Sample, check=ordered)
    seen: list[Sample] = []
    params.on_change(seen.append)
    before = params.current
    # Neither alone is valid, only both together.
    assert set_batch(node, low=5.0, high=6.0, mode="fast").successful
    assert seen == [params.current]
    assert (params.current.low, params.current.high, params.current.mode) == (5.0, 6.0, "fast")
    assert (before.low, before.high) == (0.0, 1.0)


def test_nan_unsets_a_limit_again(make_node):
    node = make_node("x.limit:=2.0")
    params = ParameterSet(node, Sample)
    assert set_batch(node, x__limit=math.nan).successful
    assert math.isnan(params.current.limit)


def test_a_parameter_cannot_be_deleted(make_node):
    node = make_node()
    params = ParameterSet(node, Sample)
    result = node.set_parameters([Parameter("radius", Parameter.Type.NOT_SET)])[0]
    assert not result.successful
    assert params.current.radius == 0.5


def test_a_robots_value_is_the_default_and_the_user_wins(make_node):
    assert ParameterSet(make_node(), Sample, {"radius": 0.25}).current.radius == 0.25
    assert ParameterSet(make_node("radius:=1.0"), Sample, {"radius": 0.25}).current.radius == 1.0


def test_a_required_parameter_that_is_missing(make_node):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Needs:
        width: float = param(doc="Width of the thing.")

    with pytest.raises(InvalidConfig, match="'width'"):
        ParameterSet(make_node(), Needs)
    assert ParameterSet(make_node("width:=2"), Needs).current.width == 2.0


def test_an_empty_list_is_a_value(make_node):
    node = make_node()
    params = ParameterSet(node, Sample)
    assert ParameterSet(make_node(), Sample, {"names": ()}).current.names == ()
    result = node.set_parameters([Parameter("names", Parameter.Type.STRING_ARRAY, [])])[0]
    assert result.successful
    assert params.current.names == ()


def test_an_unknown_parameter_is_named_with_the_nearest_word(make_node, capfd):
    ParameterSet(make_node("radios:=1.0"), Sample)
    said = capfd.readouterr().err
    assert "'radios' is unknown to this node and has no effect" in said
    assert "Did you mean 'radius'?" in said


def test_declared_again_after_undeclare(make_node):
    node = make_node("radius:=1.5")
    first = ParameterSet(node, Sample)
    set_batch(node, radius=1.0)
    first.undeclare()
    assert not node.has_parameter("radius")
    assert ParameterSet(node, Sample).current.radius == 1.5
    assert set_batch(node, radius=2.0).successful
    assert first.current.radius == 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerJoint:
    """A parameter for each joint of a list."""

    joints: tuple[str, ...] = param(("a", "b"), doc="Joints.", read_only=True)
    goal: float = param(0.01, name="constraints.goal", doc="Of all.", ge=0.0)
    joint_goal: Mapping[str, float] = param(
        math.nan, name="constraints.<joint>.goal", doc="Of one.", ge=0.0, nan=True, per="joints"
    )


def test_one_parameter_for_each_of_some_names(make_node):
    node = make_node("constraints.b.goal:=0.5")
    parameters = ParameterSet(node, PerJoint)
    assert parameters.current.joint_goal["b"] == 0.5
    assert math.isnan(parameters.current.joint_goal["a"])
    assert node.get_parameter("constraints.a.goal").type_ is Parameter.Type.DOUBLE
    good = [Parameter("constraints.a.goal", value=0.2), Parameter("constraints.goal", value=0.3)]
    assert node.set_parameters_atomically(good).successful
    assert parameters.current.joint_goal == {"a": 0.2, "b": 0.5}
    assert parameters.current.goal == 0.3
    bad = [Parameter("constraints.a.goal", value=0.1), Parameter("constraints.b.goal", value=-1.0)]
    answer = node.set_parameters_atomically(bad)
    assert not answer.successful
    assert "constraints.b.goal is -1.0" in answer.reason
    assert parameters.current.joint_goal == {"a": 0.2, "b": 0.5}
    assert node.set_parameters_atomically([Parameter("constraints.a.goal", value=1)]).successful
    parameters.undeclare()
    assert not node.has_parameter("constraints.a.goal")


def test_names_that_only_the_user_knows(make_node):
    node = make_node("joints:=[hip, knee, toe]", "constraints.knee.goal:=1")
    assert ParameterSet(node, PerJoint).current.joint_goal["knee"] == 1.0
    with pytest.raises(InvalidConfig, check=about("constraints.knee.goal")):
        ParameterSet(make_node("joints:=[knee]", "constraints.knee.goal:=high"), PerJoint)
