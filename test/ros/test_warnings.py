# SPDX-License-Identifier: Apache-2.0
"""Warnings of a node: every problem is logged, none floods the log."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from motion_nodes.ros import diagnostics
from motion_nodes.ros.diagnostics import Warnings


class Log:
    """A node's logger and clock, both set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.now = 100.0
        monkeypatch.setattr(diagnostics.time, "monotonic", lambda: self.now)
        logger = SimpleNamespace(warning=self.lines.append)
        self.warn = Warnings(SimpleNamespace(get_logger=lambda: logger), pause=10.0)  # type: ignore[arg-type]


@pytest.fixture
def log(monkeypatch):
    return Log(monkeypatch)


BAD = [
    "2 positions given for 3 joints",
    "joint 'panda_jiont2' is not known",
    "joint 'panda_jiont3' is not known",
    "position 9 of joint panda_joint2 is outside -1.76..1.76",
    "position 9 of joint panda_joint3 is outside -1.76..1.76",
    "position of joint panda_joint2 is nan",
    "velocity of joint panda_joint2 is inf",
]


def test_different_problems_of_one_kind_are_each_logged(log):
    for text in BAD:
        log.warn("command", text)
    assert log.lines == BAD


def test_the_same_problem_with_other_numbers_is_a_repeat(log):
    for number in (9.0, -9.5, 1e300, 12, 0.25):
        log.warn("command", f"position {number} of joint panda_joint2 is outside")
    for length in range(1, 5):
        log.warn("command", f"values {[0.5] * length} do not fit")
    assert len(log.lines) == 2
    log.now += 10.1
    log.warn("command", "position 7 of joint panda_joint2 is outside")
    assert log.lines[-1] == "position 7 of joint panda_joint2 is outside (4 more like this)"
    assert (log.warn.total, log.warn.last) == (10, "position 7 of joint panda_joint2 is outside")


def test_problems_of_one_kind_leave_room_for_those_of_another(log):
    log.warn("command", "no state")
    log.warn("reference", "no state")
    assert log.lines == ["no state", "no state"]


def test_a_stream_of_new_names_is_limited_in_log_and_memory(log):
    words = [f"joint '{chr(97 + i % 26) * (1 + i // 26)}' is not known" for i in range(5000)]
    for i, text in enumerate(words):
        log.now = 100.0 + i * 0.004  # 20 s
        log.warn("command", text)
    pauses = 3
    assert len(log.lines) <= pauses * (Warnings.MAX_PROBLEMS + 1)
    assert len(log.lines) > Warnings.MAX_PROBLEMS
    assert log.warn.total == 5000
    log.now += 20.0
    for i in range(2000):
        log.now += 20.0
        log.warn(f"kind {i % 400} {'x' * (i % 400)}", "text")
    assert len(log.warn._logged) <= Warnings.MAX_REMEMBERED
