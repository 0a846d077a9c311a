# SPDX-License-Identifier: Apache-2.0
"""One source per setting: robot.yaml, the core and the nodes of wheeled bases agree on ranges."""

import dataclasses
import math
import typing

import msgspec
import numpy as np
import pytest

from motion_nodes.core.bases.ackermann import AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits
from motion_nodes.core.bases.controller import BaseControllerConfig
from motion_nodes.core.bases.differential import DifferentialConfig
from motion_nodes.core.bases.holonomic import HolonomicWheel
from motion_nodes.core.bases.odometry import OdometryConfig
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.robot.base_description import AckermannSpec, DifferentialSpec, RollerWheel
from motion_nodes.errors import InvalidConfig
from motion_nodes.nodes.ackermann_base import AckermannParams
from motion_nodes.nodes.differential_base import DifferentialParams
from motion_nodes.nodes.holonomic_base import HolonomicParams
from motion_nodes.ros.parameters import core_param, declared
from motion_nodes.settings import KEY, Setting, check_settings, setting, setting_of

GEOMETRY = {
    "wheelbase": 0.5, "front_track_width": 0.4, "rear_track_width": 0.4, "front_wheel_radius": 0.1,
    "rear_wheel_radius": 0.1,
}  # fmt: skip
DIFFERENTIAL = {
    "left_wheel_names": ("l",), "right_wheel_names": ("r",), "wheel_radius": 0.1,
    "wheel_separation": 0.3,
}  # fmt: skip
ACKERMANN = {
    "geometry": AckermannGeometry(**GEOMETRY), "steering_joint_names": ("a", "b"),
    "rear_wheel_names": ("c", "d"),
}  # fmt: skip
WHEEL = {"name": "w", "radius": 0.1, "x": 0.2, "y": 0.1, "axis_yaw": 0.0}

CORE = [
    (DifferentialConfig, DIFFERENTIAL, DifferentialParams),
    (AckermannGeometry, GEOMETRY, AckermannParams),
    (AckermannConfig, ACKERMANN, AckermannParams),
    (OdometryConfig, {}, HolonomicParams),
    (CommandShape, {}, HolonomicParams),
    (BaseLimits, {}, HolonomicParams),
    (BaseControllerConfig, {"limits": BaseLimits()}, HolonomicParams),
]


def edges(entry: Setting) -> list[float]:
    """Return values at and next to the bounds of a setting, and special values."""
    bounds = [bound for bound in (entry.ge, entry.gt, entry.le) if bound is not None]
    near = [math.nextafter(bound, to) for bound in bounds for to in (-math.inf, math.inf)]
    return [*bounds, *near, math.nan, math.inf, -math.inf]


def numeric(kind: type) -> list[str]:
    return [f.name for f in dataclasses.fields(kind) if KEY in f.metadata and "float" in f.type]


def accepted(make) -> bool:
    try:
        make()
    except InvalidConfig:
        return False
    return True


@pytest.mark.parametrize(("kind", "valid", "params"), CORE)
def test_core_and_parameters_allow_the_same_values(kind, valid, params):
    by_field = {entry.field: entry for entry in declared(params)}
    names = numeric(kind)
    assert names
    for name in names:
        entry, _ = setting_of(kind, name)
        for value in edges(entry):
            allowed = accepted(lambda n=name, v=value: kind(**valid | {n: v}))
            assert allowed == (entry.problem(name, value) is None), (name, value)
            if name in by_field:
                rules = by_field[name].rules
                assert allowed == (rules.problem(name, value) is None), (name, value)


@pytest.mark.parametrize(
    ("kind", "core"),
    [
        (DifferentialSpec, DifferentialConfig),
        (AckermannSpec, AckermannGeometry),
        (RollerWheel, HolonomicWheel),
    ],
)
def test_robot_yaml_allows_what_the_core_allows(kind, core):
    hints = typing.get_type_hints(kind, include_extras=True)
    shared = [name for name in numeric(core) if name in hints]
    assert shared
    for name in shared:
        entry, _ = setting_of(core, name)
        for value in filter(math.isfinite, edges(entry)):
            try:
                msgspec.convert(value, hints[name])
                allowed = True
            except msgspec.ValidationError:
                allowed = False
            assert allowed == (entry.problem(name, value) is None), (name, value)


def test_axis_limits_have_the_unit_of_their_axis():
    entries = {entry.name: entry for entry in declared(HolonomicParams)}
    for name in numeric(BodyAxisLimits):
        linear, angular = (entries[f"{axis}.{name}"].rules for axis in ("linear.y", "angular.z"))
        assert linear.unit.replace("m", "rad") == angular.unit
        assert linear.doc == angular.doc == setting_of(BodyAxisLimits, name)[0].doc


def test_a_parameter_may_replace_what_the_setting_says():
    @dataclasses.dataclass(frozen=True)
    class Core:
        length: float = setting(2.0, doc="Length.", unit="m", gt=0.0, le=5.0)
        plain: float = 1.0

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Params:
        length: float = core_param(Core, "length", name="arm.length", read_only=True)

    (entry,) = declared(Params)
    descriptor = entry.descriptor()
    assert (entry.name, entry.default, descriptor.read_only) == ("arm.length", 2.0, True)
    assert descriptor.description == "Length. [m]"
    assert descriptor.floating_point_range[0].to_value == 5.0
    with pytest.raises(KeyError):
        core_param(Core, "plain")
    with pytest.raises(KeyError):
        core_param(Core, "width")
    with pytest.raises(InvalidConfig):
        check_settings(Core(6.0), "box: ")


def test_numbers_of_numpy_are_checked_like_others():
    @dataclasses.dataclass(frozen=True)
    class Core:
        length: float = setting(2.0, doc="Length.", gt=0.0, le=5.0)
        count: int = setting(1, doc="Count.", ge=1)
        flag: bool = setting(False, doc="Flag.")

    check_settings(Core(np.float32(0.5), np.int64(2), np.bool_(True)))
    for wrong in (Core(np.float32(6.0)), Core(np.float32("nan")), Core(count=np.int64(0))):
        with pytest.raises(InvalidConfig):
            check_settings(wrong)
