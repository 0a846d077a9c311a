# SPDX-License-Identifier: Apache-2.0
"""Messages and settings of bases: competing senders, odometry rates, ranges."""

import dataclasses
import math
import random
import sys
import threading
import typing

import msgspec
import numpy as np
import pytest
from geometry_msgs.msg import Twist

from motion_nodes.core.bases.ackermann import AckermannConfig, AckermannGeometry
from motion_nodes.core.bases.base import BaseLimits, BodyAxisLimits
from motion_nodes.core.bases.controller import BaseControllerConfig
from motion_nodes.core.bases.differential import DifferentialConfig
from motion_nodes.core.bases.holonomic import HolonomicWheel
from motion_nodes.core.bases.odometry import OdometryConfig
from motion_nodes.core.bases.twist_limiter import CommandShape
from motion_nodes.core.control.state_plausibility import SenderWatch
from motion_nodes.core.robot.robot_yaml import AckermannSpec, DifferentialSpec, RollerWheel
from motion_nodes.errors import InvalidConfig
from motion_nodes.nodes.ackermann_base import AckermannParams
from motion_nodes.nodes.differential_base import DifferentialParams
from motion_nodes.nodes.holonomic_base import HolonomicParams, MecanumState
from motion_nodes.ros.parameters import core_param, declared
from motion_nodes.ros.wheeled.wheeled_base_node import RegularMoments, TwistInputs
from motion_nodes.settings import KEY, Setting, check_settings, setting, setting_of


def hear(watch: SenderWatch, messages, step: float = 0.05, begin: float = 100.0) -> float:
    """Feed (topic, number) pairs at regular times; return the last time [s]."""
    now = begin
    for i, (topic, number) in enumerate(messages):
        now = begin + i * step
        watch.received(topic, number, now)
    return now


def test_one_sender_is_no_fight():
    watch = SenderWatch()
    now = hear(watch, [("a", 7 + 3 * i) for i in range(100)])  # some are lost
    assert watch.competing(now) == ()


def test_a_handover_and_a_restart_are_no_fight():
    watch = SenderWatch()
    hear(watch, [("a", i) for i in range(20)])
    now = hear(watch, [("a", i) for i in range(20)], begin=102.0)
    assert watch.competing(now) == ()
    now = hear(watch, [("b", i) for i in range(20)], begin=103.0)
    assert watch.competing(now) == ()


@pytest.mark.parametrize("ahead", [0, 1, 500, -500])
def test_two_senders_on_one_topic(ahead):
    """Whatever the offset of their numbers, every second number does not increase."""
    watch = SenderWatch()
    mixed = [pair for i in range(10) for pair in (("a", 1000 + i), ("a", 1000 + i + ahead))]
    assert watch.competing(hear(watch, mixed)) == ("a",)


def test_two_topics():
    watch = SenderWatch()
    now = hear(watch, [("ab"[i % 2], i) for i in range(10)])
    assert watch.competing(now) == ("a", "b")
    assert watch.competing(now + 1.0) == ("a", "b")
    assert watch.competing(now + 3.0) == ()
    assert watch.competing(1.0) == (), "time began anew"


def test_a_middleware_without_numbers_shows_topics_alone():
    watch = SenderWatch()
    assert watch.competing(hear(watch, [("a", None)] * 20)) == ()
    assert watch.competing(hear(watch, [("ab"[i % 2], None) for i in range(9)])) == ("a", "b")


def moments(rate: float, stamps) -> np.ndarray:
    """Return the times [s] out of ``stamps`` at which ``rate`` [Hz] publishes, shape (k,)."""
    regular = RegularMoments(rate)
    return np.array([t for t in stamps if regular.is_due(round(t * 1e9))])


def test_every_moment_without_a_rate():
    stamps = np.cumsum(np.random.default_rng(1).uniform(0.0, 0.1, 50))
    assert len(moments(0.0, stamps)) == 50


@pytest.mark.parametrize("rate", [3.0, 30.0, 50.0, 70.0, 100.0])
def test_the_mean_rate_is_as_asked(rate):
    stamps = 5.0 + np.arange(1000) * 0.01
    assert len(moments(rate, stamps)) == pytest.approx(10.0 * rate, abs=2)


def test_jitter_loses_nothing_at_the_sources_own_rate():
    rng = random.Random(2)
    stamps = [5.0 + i * 0.02 + rng.uniform(-0.004, 0.004) for i in range(500)]
    assert len(moments(50.0, stamps)) >= 490


def test_faster_than_the_source_is_every_moment():
    assert len(moments(500.0, 5.0 + np.arange(100) * 0.02)) == 100


def test_time_that_jumps_does_not_silence_it():
    stamps = [*np.arange(100.0, 101.0, 0.1), *np.arange(3.0, 4.0, 0.1), *np.arange(900, 901, 0.1)]
    seen = moments(5.0, stamps)
    for begin, end in ((100.0, 101.0), (3.0, 4.0), (900.0, 901.0)):
        assert np.sum((seen >= begin) & (seen < end)) == pytest.approx(5, abs=1)


def test_four_corners_are_found_in_any_order():
    assert MecanumState.corners((-1, 1, 1, -1), (1, -1, 1, -1)) == (2, 1, 0, 3)
    assert MecanumState.corners((1, 1, -1, -1), (1, 2, 1, -1)) is None
    assert MecanumState.corners((1, 0, -1), (0, 1, 0)) is None


def test_conflicts_are_read_while_messages_arrive():
    watch, end = SenderWatch(), threading.Event()

    def receive() -> None:
        while not end.is_set():
            watch.received("a", 1, 0.0)
            watch.received("b", 1, 0.0)

    receiving = threading.Thread(target=receive)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    receiving.start()
    try:
        for _ in range(20_000):
            assert set(watch.competing(0.0)) <= {"a", "b"}
    finally:
        end.set()
        receiving.join()
        sys.setswitchinterval(interval)


class Stream:
    """Stands for a polled topic of twists."""

    def __init__(self, topic: str) -> None:
        self.topic, self.polled = topic, 0.0
        self.waiting: list[tuple[Twist, int, float]] = []

    def traced(self) -> list[tuple[Twist, int, float]]:
        waiting, self.waiting = self.waiting, []
        return waiting


class Commands:
    """The command topics of a base; messages are sent on the unstamped one."""

    def __init__(self) -> None:
        self.topics: dict[str, Stream] = {}
        self.inputs = TwistInputs(self, stamped_cmd_vel=True)

    def poll(self, _kind, topic: str, _profile) -> Stream:
        return self.topics.setdefault(topic, Stream(topic))

    def warn(self, _kind: str, _text: str) -> None:
        pass

    def accepted(self, now: float, sent: float) -> bool:
        """Whether a message is accepted that arrives now and was sent at a source time [s]."""
        for topic in self.topics.values():
            topic.polled = now
        self.topics["~/cmd_vel_unstamped"].waiting.append((Twist(), 1, sent))
        return bool(self.inputs.take(now, 0.5, ""))


def test_a_stream_from_before_a_resume_must_pause():
    base = Commands()
    assert base.accepted(10.0, 10.0)
    base.inputs.pauses.suspend()
    assert not base.accepted(10.1, 10.1)
    assert not base.accepted(12.0, 10.2), "this node has stalled, the stream has not paused"
    assert base.accepted(13.0, 13.0)
    assert base.accepted(13.1, 13.1)


@pytest.mark.parametrize("skew", [2.0, -2.0])
def test_publishers_with_different_clocks_do_not_look_like_a_pause(skew):
    base = Commands()
    base.accepted(10.0, 10.0)
    base.inputs.pauses.suspend()
    for k in range(1, 20):
        now = 10.0 + 0.05 * k
        assert not base.accepted(now, now + (skew if k % 2 else 0.0))
    assert base.accepted(12.0, 15.0)


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
    fields = dataclasses.fields(kind)
    return [f.name for f in fields if KEY in f.metadata and f.type in ("float", "float | None")]


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
                parameter = by_field[name].rules.setting
                assert allowed == (parameter.problem(name, value) is None), (name, value)


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
        linear, angular = (
            entries[f"{axis}.{name}"].rules.setting for axis in ("linear.y", "angular.z")
        )
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
