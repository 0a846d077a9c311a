# SPDX-License-Identifier: Apache-2.0
"""The plugin in LeRobot itself; skipped where it is not installed (``make test-lerobot``)."""

from __future__ import annotations

import importlib

import lerobot_standin as standin
import pytest

pytest.importorskip("torch")
robots = pytest.importorskip("lerobot.robots")


def test_lerobot_makes_the_robot_from_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(standin.PLUGIN))
    plugin = importlib.import_module("lerobot_robot_motion_nodes")
    config = plugin.MotionNodesArmConfig(robot="so101", id="test")
    assert config.type == "motion_nodes_arm"
    made = importlib.import_module("lerobot.robots.utils").make_robot_from_config(config)
    assert isinstance(made, plugin.MotionNodesArm)
    assert isinstance(made, robots.Robot)
    assert "shoulder_pan.pos" in made.action_features
