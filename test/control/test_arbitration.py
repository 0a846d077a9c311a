# SPDX-License-Identifier: Apache-2.0
"""Every ordered pair of inputs: the newer command gets the joints; controller switches."""

import itertools

import numpy as np
import pytest

from motion_nodes.core.control.active_trajectories import FollowGoal, FollowStatus, Tolerances
from motion_nodes.core.control.controller_switch import plan_switch
from motion_nodes.core.control.joint_arbiter import JointArbiter
from motion_nodes.core.control.joint_command import STREAM_PAUSE, JointCommand, StreamSenders
from motion_nodes.core.control.joint_controller import ArticulationController
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory
from motion_nodes.errors import InvalidCommand

JOINTS = ("a", "b", "c")
SHARED, OWN = 0, 2
DT = 0.01
GOAL = 0.4


def limits() -> JointLimits:
    ones = np.ones(3)
    return JointLimits(JOINTS, -3 * ones, 3 * ones, 2 * ones, 50 * ones, 8 * ones, 1000 * ones)


class Cell:
    """A robot that follows its references exactly, its runner, and the clock of all senders."""

    def __init__(self) -> None:
        self.controller = ArticulationController(limits())
        self.controller.reset(np.zeros(3))
        self.runner = JointArbiter(self.controller)
        self.senders = StreamSenders(self.runner.begin_stream)
        self.now = 0.0
        self.streaming: list[Input] = []

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / DT)):
            self.now += DT
            for sender in self.streaming:
                sender.go_on()
            q, v, _ = self.controller.reference(np.arange(3))
            self.runner.step(DT, q, v)

    @property
    def position(self) -> np.ndarray:
        return self.controller.reference(np.arange(3)).position


class Input:
    """An input that commands joint a, or given joints."""

    label = ""
    count = 1000
    """Of its publisher's messages."""

    def __init__(self, cell: Cell, goal: float, joints: tuple[str, ...] = ("a",)) -> None:
        self.cell, self.goal, self.joints = cell, goal, joints

    def begin(self) -> None:
        raise NotImplementedError

    def go_on(self) -> None:
        """Send the next message of a stream."""

    def stop(self) -> None:
        """End it as its client would: cancel, release, come to rest."""

    def lost(self) -> bool:
        """Whether it has noticed that it was preempted."""
        return True

    def command(self, goal: float) -> JointCommand:
        return JointCommand(names=self.joints, positions=[goal] * len(self.joints))


class Trajectory(Input):
    label = "action goal 1"

    def begin(self) -> None:
        names = self.joints
        start = self.cell.position[[JOINTS.index(name) for name in names]]
        rows = np.array([start, np.full(len(names), self.goal)])
        zero = np.zeros_like(rows)
        path = JointTrajectory(names, np.array([0.0, 0.9]), rows, zero, zero)
        none, near = Tolerances.uniform(len(names), 0.0), Tolerances.uniform(len(names), 1e-6)
        self.run = self.cell.runner.start(FollowGoal(trajectory=path, path=none, goal=near),
                                          self.label)  # fmt: skip

    def stop(self) -> None:
        self.cell.runner.cancel(self.run, "canceled by its client")

    def lost(self) -> bool:
        return self.run.status in (FollowStatus.PREEMPTED, FollowStatus.ABORTED)


class TopicTrajectory(Trajectory):
    label = "~/joint_trajectory"


class PositionStream(Input):
    """~/reference of an anonymous sender."""

    label, topic, name = "~/reference", "~/reference", ""

    def begin(self) -> None:
        self.target = self.goal
        self.dropped = 0
        self.go_on()
        self.cell.streaming.append(self)

    def go_on(self) -> None:
        self.count += 1
        stream = self.cell.senders.stream_of(self.topic, self.name, self.count, self.cell.now)
        self.dropped += len(self.cell.runner.follow_stream(self.command(self.target), stream))

    def stop(self) -> None:
        """Stream until it rests."""
        self.target = 0.5 * self.goal

    def lost(self) -> bool:
        return self.dropped > 0


class ArrayStream(PositionStream):
    label, topic = "~/commands", "~/commands"


class Policy(PositionStream):
    """RMPflow and Servo: each motion has its own name."""

    label = "~/reference of rmpflow_policy"
    _motions = itertools.count()

    def begin(self) -> None:
        self.name = f"rmpflow_policy#{next(self._motions)}"
        super().begin()


class IkFollowing(PositionStream):
    label, name = "~/reference of ik_service", "ik_service"


class Jog(PositionStream):
    """Targets that move at a velocity."""

    def command(self, goal: float) -> JointCommand:
        return JointCommand(
            names=self.joints, positions=[goal] * len(self.joints),
            velocities=[0.0] * len(self.joints),
        )  # fmt: skip


class Grip(Input):
    label = "a gripper goal"

    def begin(self) -> None:
        self.claim = self.cell.runner.claim(self.command(self.goal), self.label, 20.0)

    def stop(self) -> None:
        self.cell.runner.release(self.claim, stop=True)

    def lost(self) -> bool:
        return bool(self.claim.lost)


class Reset(Input):
    """A reset, or a stop by a service: the joints come to rest where they are."""

    label = "a reset of the controller"

    def begin(self) -> None:
        self.cell.runner.abort_all("reset")
        self.cell.runner.take(JOINTS, self.label)
        self.goal = np.nan


INPUTS = (
    Trajectory, TopicTrajectory, PositionStream, ArrayStream, Policy, IkFollowing, Jog, Grip, Reset,
)  # fmt: skip


@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "stops"])
@pytest.mark.parametrize(("older", "newer"), list(itertools.product(INPUTS, INPUTS)))
def test_the_newer_command_has_the_joint_and_keeps_it(older, newer, stops):
    cell = Cell()
    first, second = older(cell, 0.9), newer(cell, -GOAL)
    first.begin()
    cell.run(0.3)
    # Another publisher, whose message count is unrelated to that of the first.
    second.count = 50_000
    second.begin()
    cell.run(0.1)
    if stops:
        first.stop()
    before = cell.position[SHARED]
    cell.run(1.4)
    assert cell.runner.holders[SHARED] == second.label
    expected = -GOAL if not isinstance(second, Reset) else before
    away = abs(cell.position[SHARED] - expected)
    assert away < (1e-6 if not isinstance(second, Reset) else 0.1)
    if isinstance(second, Trajectory):
        assert second.run.status is FollowStatus.SUCCEEDED
    assert first.lost()


@pytest.mark.parametrize("older", [Trajectory, PositionStream, Policy, Grip])
def test_a_newcomer_takes_only_what_it_needs(older):
    """A stream continues with its remaining joints; a trajectory ends."""
    cell = Cell()
    first, second = older(cell, 0.9, ("a", "c")), Grip(cell, -GOAL)
    first.begin()
    cell.run(0.3)
    second.begin()
    cell.run(1.4)
    assert cell.position[SHARED] == pytest.approx(-GOAL, abs=1e-6)
    rest = cell.position[OWN]
    assert rest < 0.85 if older is Trajectory else rest == pytest.approx(0.9, abs=1e-6)


def test_a_stream_counts_again_after_a_pause_and_then_takes_the_joint():
    cell = Cell()
    stream, other = PositionStream(cell, 0.9), Trajectory(cell, -GOAL)
    stream.begin()
    cell.run(0.2)
    other.begin()
    cell.run(0.2)
    cell.streaming.clear()
    cell.run(STREAM_PAUSE + 2 * DT)
    stream.dropped = 0
    stream.go_on()
    assert stream.dropped == 0
    assert other.run.text == "preempted by ~/reference"


def test_a_named_motion_never_counts_again_but_the_next_one_does():
    cell = Cell()
    policy, other = Policy(cell, 0.9), Grip(cell, -GOAL)
    policy.begin()
    cell.run(0.2)
    other.begin()
    cell.streaming.clear()
    cell.run(1.0)
    policy.go_on()
    assert policy.dropped == 1, "a message of a motion that was preempted before"
    policy.begin()
    assert cell.runner.holders[SHARED] == Policy.label
    assert other.lost()


def test_a_stream_may_not_add_a_joint_that_a_newer_command_took():
    cell = Cell()
    stream = PositionStream(cell, 0.9)
    stream.begin()
    cell.run(0.1)
    Grip(cell, -GOAL, ("b",)).begin()
    stream.joints = ("a", "b")
    cell.run(1.4)
    assert cell.position[:2] == pytest.approx([0.9, -GOAL], abs=1e-6)


def test_a_message_that_is_refused_takes_and_changes_nothing():
    cell = Cell()
    grip = Grip(cell, -GOAL)
    grip.begin()
    stream = cell.runner.begin_stream("~/reference")
    with pytest.raises(InvalidCommand):
        cell.runner.follow_stream(JointCommand(names=["a"], positions=[9.0]), stream)
    assert not grip.lost()
    assert cell.runner.holders[SHARED] == Grip.label


def test_publishers_without_a_name_are_told_apart_by_their_counts():
    cell = Cell()
    stream_of = cell.senders.stream_of
    first = stream_of("~/reference", "", 10, 0.00)
    assert stream_of("~/reference", "", 11, 0.01) is first
    other = stream_of("~/reference", "", 1, 0.02)
    assert other is not first
    assert stream_of("~/reference", "", 12, 0.03) is first
    assert stream_of("~/reference", "", 2, 0.04) is other
    assert stream_of("~/commands", "", 13, 0.05) is not first
    assert stream_of("~/reference", "", 14, 0.5) is not first, "it paused"


STATES = {"arm": "active", "grip": "inactive", "base": "active", "raw": "unconfigured"}
CLAIMS = {"arm": ["a/position"], "grip": ["a/position", "b/effort"], "base": ["w/velocity"],
          "raw": []}  # fmt: skip


def plan(deactivate=(), activate=(), *, strict=False):
    return plan_switch(STATES, CLAIMS, deactivate, activate, strict=strict)


def test_one_takes_over_the_interfaces_of_another():
    found = plan(["arm"], ["grip"], strict=True)
    assert (found.deactivate, found.activate, found.skipped) == (("arm",), ("grip",), ())


def test_nobody_takes_an_interface_that_is_in_use():
    with pytest.raises(InvalidCommand):
        plan(activate=["grip"], strict=True)
    found = plan(["base"], ["grip"])
    assert (found.deactivate, found.activate) == (("base",), ())
    assert "which arm has" in found.skipped[0]


def test_two_newcomers_do_not_share_an_interface():
    states = {"one": "inactive", "two": "inactive"}
    claims = {"one": ["x/position"], "two": ["x/position"]}
    found = plan_switch(states, claims, [], ["one", "two"], strict=False)
    assert found.activate == ("one",)
    assert "which one has" in found.skipped[0]


def test_a_controller_in_both_lists_starts_anew():
    found = plan(["arm"], ["arm"], strict=True)
    assert (found.deactivate, found.activate) == (("arm",), ("arm",))


@pytest.mark.parametrize(
    ("deactivate", "activate", "text"),
    [(["grip"], [], "'?grip"), ([], ["arm"], "arm"),
     ([], ["raw"], "raw"), (["bass"], [], "'base'"),
     (["base", "nobody"], [], "'nobody'")],
)  # fmt: skip
def test_a_strict_request_is_refused_whole(deactivate, activate, text):
    with pytest.raises(InvalidCommand, match=text):
        plan(deactivate, activate, strict=True)


def test_best_effort_does_what_it_can_and_says_what_not():
    found = plan(["grip", "base", "base"], ["arm", "nobody"])
    assert (found.deactivate, found.activate) == (("base",), ())
    assert len(found.skipped) == 3


def test_a_list_of_unknown_names_alone_fails_with_best_effort_too():
    with pytest.raises(InvalidCommand):
        plan(["base"], ["nobody"])


def test_nothing_asked_nothing_done():
    for strict in (False, True):
        found = plan(strict=strict)
        assert (found.deactivate, found.activate, found.skipped) == ((), (), ())


def test_a_mode_follows_its_controller():
    modes = {"mode": "arm"}
    claims = {"arm": ["a/position"], "mode": ["a/effort"]}

    def plan_modes(states, deactivate, activate, *, strict=True):
        given = dict(zip(("arm", "mode"), states, strict=True))
        return plan_switch(given, claims, deactivate, activate, strict=strict, modes=modes)

    on, off = "active", "inactive"
    assert plan_modes((on, off), [], ["mode"]).activate == ("mode",)
    assert plan_modes((off, off), [], ["mode", "arm"]).activate == ("arm", "mode")
    assert plan_modes((on, on), ["arm", "mode"], []).deactivate == ("mode", "arm")
    with pytest.raises(InvalidCommand, match="arm"):
        plan_modes((off, off), [], ["mode"])
    # The arm would be left without a controller.
    for strict in (False, True):
        with pytest.raises(InvalidCommand, match="arm"):
            plan_modes((on, off), ["arm"], ["mode"], strict=strict)
