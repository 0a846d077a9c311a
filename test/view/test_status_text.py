# SPDX-License-Identifier: Apache-2.0
"""The status lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import motion_nodes.extras.viewer
from motion_nodes.extras.viewer.joint_panel import short_labels
from motion_nodes.extras.viewer.panel_style import (
    MAX_MESSAGE,
    STALE_AFTER,
    Freshness,
    global_line,
    plain,
    robot_line,
)


def test_waiting_connected_stale_connected():
    state = Freshness()
    assert "waiting" in robot_line(state, "", 5.0)
    for step in range(101):
        state.arrived(10.0 + step * 0.02)
        state.update_rate(10.0 + step * 0.02)
    assert "connected" in robot_line(state, "", 12.1)
    assert ", 50 Hz" in robot_line(state, "", 12.1)
    late = 12.0 + STALE_AFTER + 6.0
    assert "stale" in robot_line(state, "", late)
    assert "7 s" in robot_line(state, "", late)
    state.arrived(late)
    assert "connected" in robot_line(state, "", late)


def test_a_message_takes_the_place_of_what_the_line_would_say():
    state = Freshness()
    assert "robot's state" in robot_line(state, "", 0.0)
    told = robot_line(state, "no driver", 0.0)
    assert "waiting" in told
    assert "robot's state" not in told
    state.arrived(0.0)
    told = robot_line(state, "no driver for 9 s", 9.0)
    assert "stale" in told
    assert told.count("9 s") == 1


def test_rate_falls_to_nothing_when_nothing_comes():
    state = Freshness()
    for step in range(101):
        state.arrived(step * 0.01)
        state.update_rate(step * 0.01)
    assert state.rate == pytest.approx(100, rel=0.02)
    state.update_rate(3.0)
    assert state.rate < 1.0


def test_messages_cannot_format_the_page():
    shown = plain("<b>*x*</b> [a](http://b) `c` {d}\n# e")
    for mark in "<>*[]()`{}#":
        assert shown.count(mark) == shown.count("\\" + mark)
    assert "\n" not in shown
    assert len(plain("a" * 5000)) <= MAX_MESSAGE


@pytest.mark.parametrize(("clients", "text"), [(0, "0 pages"), (1, "1 page o"), (3, "3 pages")])
def test_global_line(clients, text):
    assert global_line(clients).startswith(text)
    assert "2 nodes OK" in global_line(clients, "2 nodes OK")


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("panda_joint1", "panda_finger_joint1"), ("joint1", "finger_joint1")),
        (("joint_1", "joint_2"), ("1", "2")),
        (("shoulder", "elbow"), ("shoulder", "elbow")),
        (("one_joint",), ("one_joint",)),
        ((), ()),
        (("a_b", "a_b_c"), ("b", "b_c")),
    ],
)
def test_short_labels(names, labels):
    assert short_labels(names) == labels


def test_the_panel_has_no_symbols_that_need_a_font_of_their_own():
    # Arrows, geometric shapes, dingbats and emoji.
    symbols = re.compile("[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]")
    sources = Path(motion_nodes.extras.viewer.__file__).parent.glob("*.py")
    assert {path.name for path in sources if symbols.search(path.read_text("utf-8"))} == set()
