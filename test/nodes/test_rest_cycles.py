# SPDX-License-Identifier: Apache-2.0
"""Cycles of the joint controller at rest: commands are repeated until something changes."""

from types import SimpleNamespace

import pytest

from motion_nodes.nodes.articulation.joint_outputs import COMPLETE_PERIOD, REST_TIME, RestCycles

PERIOD = 0.004


class Outputs:
    """The last command, and the stamps it was sent with."""

    def __init__(self) -> None:
        self.last: object = object()
        self.stamps: list[int] = []

    def sent_last(self, reference: object) -> bool:
        return reference is self.last

    def send_again(self, stamp: int) -> None:
        self.stamps.append(stamp)


class Arm:
    """A controller at rest."""

    def __init__(self) -> None:
        self.outputs = Outputs()
        self.state = SimpleNamespace(unchanged=True)
        self.runner = SimpleNamespace(
            controller=SimpleNamespace(still=self.outputs.last),
            runs=[], claims=[], fault="", compliance=SimpleNamespace(law=None),
        )  # fmt: skip
        self.cycles = RestCycles(self.state, self.runner, self.outputs, PERIOD)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Rest until the next cycle repeats."""
        for _ in range(2 * round(REST_TIME / PERIOD)):
            if self.cycles.begin():
                return
        raise AssertionError("no cycle was repeated")


@pytest.fixture
def arm():
    return Arm()


def test_commands_are_repeated_after_the_rest_time_between_complete_cycles(arm):
    cycles = [arm.cycles.begin() for _ in range(1000)]
    settled = round(REST_TIME / PERIOD)
    assert not any(cycles[:settled])
    assert cycles[settled:].count(False) == pytest.approx(
        (1000 - settled) * PERIOD / COMPLETE_PERIOD, abs=1
    )


def moves(arm: Arm) -> None:
    arm.state.unchanged = False


def is_commanded(arm: Arm) -> None:
    arm.runner.controller.still = None


def has_other_settings(arm: Arm) -> None:
    arm.outputs.last = None


def follows_a_trajectory(arm: Arm) -> None:
    arm.runner.runs = [object()]


def grips(arm: Arm) -> None:
    arm.runner.claims = [object()]


def is_blocked(arm: Arm) -> None:
    arm.runner.fault = "blocked"


def complies(arm: Arm) -> None:
    arm.runner.compliance.law = object()


@pytest.mark.parametrize(
    "change",
    [
        moves,
        is_commanded,
        has_other_settings,
        follows_a_trajectory,
        grips,
        is_blocked,
        complies,
    ],
)
def test_any_change_makes_the_next_cycles_complete(arm, change):
    arm.settle()
    change(arm)
    assert not any(arm.cycles.begin() for _ in range(1000))


def test_one_change_makes_the_cycles_of_the_rest_time_complete(arm):
    arm.settle()
    arm.state.unchanged = False
    assert not arm.cycles.begin()
    arm.state.unchanged = True
    assert not any(arm.cycles.begin() for _ in range(round(REST_TIME / PERIOD)))
    arm.settle()


def test_each_deadline_is_served_unless_a_message_changed_the_command(arm):
    arm.settle()
    assert arm.cycles.repeat((4, 8))
    assert arm.cycles.repeat(())
    assert arm.outputs.stamps == [4, 8]
    arm.runner.controller.still = None
    assert not arm.cycles.repeat((12,))
    assert arm.outputs.stamps == [4, 8]
