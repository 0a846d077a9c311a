# SPDX-License-Identifier: Apache-2.0
"""Checks of robot states while they are compiled for the first time on a machine."""

from __future__ import annotations

import threading

import pytest

from motion_nodes.model.loader import load_robot
from motion_nodes.nodes.kinematics import state_checks
from motion_nodes.nodes.kinematics.state_checks import StateChecks
from motion_nodes.scene.scene import Scene


def test_requests_wait_for_the_compilation_and_the_start_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, robot = threading.Event(), load_robot("franka")
    monkeypatch.setattr(state_checks, "needs_compilation", lambda: True)
    monkeypatch.setattr(state_checks, "compile_exact_checks", compiled.wait)
    checks, answers = StateChecks(robot), list[bool]()
    checks.warm_up()
    assert not checks.compiled

    def ask() -> None:
        checker = checks.checker((), robot.home, Scene())
        answers.append(checker.exact.is_free(robot.home))

    request = threading.Thread(target=ask)
    request.start()
    request.join(0.2)
    assert request.is_alive()
    compiled.set()
    request.join(30.0)
    assert checks.compiled
    assert answers == [True]


def test_nothing_waits_where_the_checks_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_checks, "needs_compilation", lambda: False)
    checks = StateChecks(load_robot("franka"))
    checks.warm_up()
    assert checks.compiled
