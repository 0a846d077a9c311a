# SPDX-License-Identifier: Apache-2.0
"""The driver of Franka arms with franky and a simulated FR3 that speaks libfranka's protocol."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from patience import LIMIT, Patience

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.hardware import franka_arm
from motion_nodes.extras.hardware.driver_session import DriverSession, SessionConfig, SessionState
from motion_nodes.extras.hardware.franka import FrankaDriver
from motion_nodes.extras.hardware.robot_driver import check_robot

pytest.importorskip("franky_sim")
franky = pytest.importorskip("franky")
pytestmark = pytest.mark.real_time

ROBOT = load_robot("fr3")
READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
NONE = np.full(9, np.nan)
SIMULATOR = Path(__file__).parent / "franky_simulator.py"
MAX_SILENCE = 0.05
"""Max fraction of cycles without a new torque; beyond it a real robot stops."""


class LinkGone(Exception):
    """The driver has lost the simulator."""


class Simulator:
    """franky-sim in a process of its own."""

    def __init__(self) -> None:
        # A loopback address of this process, because the ports are fixed.
        self.host = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        command = [sys.executable, str(SIMULATOR), self.host, *map(str, READY)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        assert self._line() == "ready\n"

    def torque_steps(self) -> tuple[float, int]:
        """Return the largest change of a torque in one cycle [N m], and the number of cycles.

        The test is skipped if the machine is too busy for a loop of 1 kHz: a real robot would
        stop, the simulated one applies old torques.
        """
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        largest, count, silent = self._line().split()
        if int(silent) > MAX_SILENCE * int(count):
            pytest.skip(f"too busy for a loop of 1 kHz: {silent} of {count} cycles were late")
        return float(largest), int(count)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def simulator():
    made = Simulator()
    yield made
    made.close()


class Rig:
    """A session that follows a stream of references at 250 Hz."""

    def __init__(self, driver: FrankaDriver) -> None:
        config = SessionConfig(command_timeout=0.2, command_latency=0.05, speed=0.3)
        self.session = DriverSession(driver, ROBOT.limits, config)
        self.q = np.array([*READY, 0.02, 0.02])

    def run(
        self, done: Callable[[], bool], what: str, *, command: bool = True, within: float = LIMIT
    ) -> None:
        patience = Patience(within)
        while not done():
            session, now = self.session, time.monotonic_ns()
            if command:
                session.command(now, now, StreamSample(self.q, np.zeros(9), NONE))
            session.step(now)
            if any(word in session.fault for word in ("not answer", "no state", "Timeout")):
                raise LinkGone
            apart = np.round(self.position() - self.q, 4)
            patience.require(f"{what}: {session.state}, {session.waiting}, {apart}")
            time.sleep(0.003)

    def for_cycles(self, count: int, *, command: bool = True) -> None:
        left = iter(range(count))
        self.run(lambda: next(left, None) is None, "cycles", command=command)

    def position(self) -> np.ndarray:
        return np.zeros(9) if self.session.reading is None else self.session.reading.position


def disturb(rig: Rig) -> None:
    """Stream steps within max_jump, with gaps; then go to a goal."""
    random = np.random.default_rng(1)
    begin = rig.q.copy()
    for i in range(40):
        rig.q[:7] = begin[:7] + random.choice([-0.04, 0.04], 7)
        rig.for_cycles(6, command=i % 10 != 9)
    rig.for_cycles(80, command=False)
    assert rig.session.state is SessionState.ENABLED, rig.session.fault
    rig.q[:7] = begin[:7] + 0.04
    rig.q[7:] = 0.005
    near = np.full(9, 3e-3)
    rig.run(lambda: bool((np.abs(rig.position() - rig.q) < near).all()), "arm and hand at the goal")
    rig.for_cycles(250)
    assert rig.session.state is SessionState.ENABLED, rig.session.fault
    assert (np.abs(rig.position() - rig.q) < near).all()


@pytest.fixture
def rig(simulator, monkeypatch):
    settings = franka_arm.FrankaSettings(link_timeout=1.0)
    driver = FrankaDriver(ROBOT, simulator.host, settings, franky)
    made = Rig(driver)
    yield made
    made.session.close()


def test_nothing_that_is_streamed_steps_the_torques(rig, simulator):
    try:
        rig.run(lambda: rig.session.state is SessionState.ENABLED, "enabled")
        rig.for_cycles(100)
        simulator.torque_steps()
        disturb(rig)
    except LinkGone:
        pytest.skip("too busy for a loop of 1 kHz: the simulator was silent")
    finally:
        largest, cycles = simulator.torque_steps()
    assert cycles > 100
    assert 0.0 < largest <= 1.0  # Above it a robot stops.

    simulator.close()
    with pytest.raises(LinkGone):
        rig.for_cycles(10000)
    assert rig.session.state is SessionState.DISCONNECTED
    assert "check cable" in rig.session.fault


def test_check_finds_arm_and_hand(simulator):
    settings = franka_arm.FrankaSettings(link_timeout=5.0)
    driver = FrankaDriver(ROBOT, simulator.host, settings, franky)
    results = {result.what: result for result in check_robot(driver, ROBOT.limits)}
    driver.close()
    assert results["connection"].text == "9 joints respond"
    assert results["model"].text == "FR3"
    assert results["robot mode"].text == "Idle"
    assert results["hand"].ok
