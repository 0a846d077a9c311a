# SPDX-License-Identifier: Apache-2.0
"""Checks a real robot without enabling or moving it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from motion_nodes.hardware.robot_driver import CheckResult, DriverFault, LinkLost, RobotDriver
from motion_nodes.model.limits import JointLimits

READS = 50
"""Number of reads for the loop rate."""
MOVED = 0.05
"""Min joint displacement that is shown [rad or m]."""


def check_robot(driver: RobotDriver, limits: JointLimits) -> list[CheckResult]:
    """Connect and check; the driver stays connected if the first check passes.

    Args:
        driver: not connected.
        limits: of the robot's joints.
    """
    try:
        driver.connect()
    except DriverFault as error:
        return [CheckResult("connection", False, str(error))]
    results = [CheckResult("connection", True, f"{len(driver.joint_names)} joints respond")]
    try:
        results += [_read_rate(driver), *_positions(driver, limits), *driver.check()]
    except DriverFault as error:
        results.append(CheckResult("reading", False, str(error)))
    return results


def show_motion(driver: RobotDriver, report: Callable[[str], None]) -> None:
    """Report which joint moves in which direction, for a robot that is moved by hand.

    Args:
        driver: connected.
        report: called with each line; KeyboardInterrupt ends it.

    Raises:
        LinkLost: the robot does not respond any more.
        DriverFault: the first answer is damaged; later ones are left out.
    """
    report("move one joint at a time in its positive direction; Ctrl-C ends")
    try:
        last = driver.read().position.copy()
        while True:
            time.sleep(0.1)
            try:
                now = driver.read().position
            except LinkLost:
                raise
            except DriverFault:
                continue
            for i in np.flatnonzero(np.abs(now - last) > MOVED).tolist():
                sign = "+" if now[i] > last[i] else "-"
                report(f"  {driver.joint_names[i]}: {sign}  {now[i]:.3f}")
                last[i] = now[i]
    except KeyboardInterrupt:
        return


def _read_rate(driver: RobotDriver) -> CheckResult:
    failed, begin = 0, time.monotonic()
    for _ in range(READS):
        try:
            driver.read()
        except DriverFault:
            failed += 1
    rate = READS / (time.monotonic() - begin)
    text = f"{rate:.0f} Hz possible, {driver.rate:g} Hz needed; {failed} of {READS} reads failed"
    return CheckResult("bus", failed == 0 and rate >= driver.rate, text)


def _positions(driver: RobotDriver, limits: JointLimits) -> list[CheckResult]:
    reading, mine = driver.read(), limits.select(driver.joint_names)
    results = []
    for i, name in enumerate(driver.joint_names):
        q, low, high = reading.position[i], mine.lower[i], mine.upper[i]
        inside = bool(low <= q <= high)
        text = f"{q:.3f}, limits {low:.3f} to {high:.3f}"
        hint = "" if inside else "; outside: it may only move inwards. Is the calibration right?"
        results.append(CheckResult(f"{name}: position", inside, text + hint))
    results += [CheckResult("robot", False, text) for text in reading.faults]
    return results
