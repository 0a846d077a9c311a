# SPDX-License-Identifier: Apache-2.0
"""The delay between the stamp of a reference and its effect in a simulation."""

from __future__ import annotations

import pytest

from motion_nodes.extras.sim.backend import RobotBackend
from motion_nodes.nodes.mock_sim import MockSimNode


@pytest.mark.parametrize(
    ("rate", "given", "expected"),
    [
        (50.0, "", 0.04),
        (250.0, "", 0.008),
        (1000.0, "", 0.008),
        (50.0, "0.1", 0.1),
        (50.0, "0.0", 0),
    ],
)
def test_it_is_two_periods_unless_given(ros, monkeypatch, rate, given, expected):
    used, apply = [], RobotBackend.set_resampling
    monkeypatch.setattr(
        RobotBackend,
        "set_resampling",
        lambda cell, settings: (used.append(settings), apply(cell, settings)),
    )
    words = [f"update_rate:={rate}", "robots:=[franka]", "publish_clock:=false"]
    words += [f"command_latency:={given}"] if given else []
    args = ["--ros-args"] + [arg for word in words for arg in ("-p", word)]
    node = MockSimNode(ros_args=args)
    try:
        node.trigger_configure()
        node.trigger_activate()
        assert node.active, node.failure
        assert used[-1].latency == pytest.approx(expected)
    finally:
        node.destroy_node()
