# SPDX-License-Identifier: Apache-2.0
"""Shows "walk" and "drawer": their checks, with robots that perform more or less well."""

import numpy as np
import pytest

from motion_nodes.nodes.demo.arm import DemoFindings
from motion_nodes.nodes.demo.learned_policies import SEGMENTS, show_drawer, show_walking


class Walker:
    """A client whose robot walks at ``gain`` times the command; time passes when it spins."""

    def __init__(self, gain: float, tilt: float = 0.1, mode: str = "running") -> None:
        self.gain, self.tilt, self.mode = gain, tilt, mode
        self.now, self.guests, self.velocities = 0.0, set(), []
        self._twist = np.zeros(3)

    def walk(self, twist) -> None:
        self._twist = self.gain * np.array(twist)

    def spin(self, seconds: float) -> bool:
        self.now += seconds
        self.velocities.append((self.now, self._twist))
        return True


@pytest.mark.parametrize(
    ("walker", "failed"),
    [
        (Walker(1.0), 0),
        (Walker(0.8), 0),
        (Walker(0.3), len(SEGMENTS)),
        (Walker(1.0, tilt=1.0), 1),
        (Walker(1.0, mode="damped"), 1),
    ],
)
def test_velocities_tilt_and_mode_are_checked(walker, failed):
    findings = DemoFindings()
    show_walking(walker, findings)
    assert sum(line.startswith("[FAILED]") for line in findings.lines) == failed
    assert findings.ok == (failed == 0)
    assert len(findings.lines) == len(SEGMENTS) + 1


def test_a_robot_that_others_command_is_left_to_them():
    walker, findings = Walker(1.0), DemoFindings()
    walker.guests.add("robot")
    show_walking(walker, findings)
    assert not findings.lines


class Puller:
    """A client whose drawer opens by some distance [m]."""

    mode, now = "running", 0.0

    def __init__(self, opening: float, problem: str = "") -> None:
        self.opening, self.problem, self.guests = opening, problem, set()

    def start(self) -> str:
        return self.problem

    def wait(self, condition, seconds: float) -> bool:
        return condition()


@pytest.mark.parametrize(
    ("puller", "ok"), [(Puller(0.25), True), (Puller(0.1), False), (Puller(0.25, "no"), False)]
)
def test_the_opening_of_the_drawer_is_checked(puller, ok):
    findings = DemoFindings()
    show_drawer(puller, findings)
    assert findings.ok == ok
    assert puller.guests == {"arm"}
