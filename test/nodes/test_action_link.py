# SPDX-License-Identifier: Apache-2.0
"""The link of a policy in another process: collision checks and a stream of actions over DDS."""

import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
from patience import wait_until
from sensor_msgs.msg import JointState

from motion_nodes.core.control.action_filter import ActionFilter
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand
from motion_nodes.nodes.clients import action_link
from motion_nodes.nodes.clients.action_link import ActionLink, LinkFailed

ROBOT = load_robot("franka")
JOINTS = ROBOT.group("arm").joints
WITHOUT = (
    "robot_state", "rmpflow_policy", "trajectory_generator", "controller_manager", "rrt_planner",
)  # fmt: skip
FOLDED = [0.0, -1.7, 0.0, -3.0, 0.0, 0.1, 0.0]
"""The hand in the arm."""


def test_a_chunk_moves_the_arm_and_a_collision_is_named(suite):
    link = ActionLink("", "arm", JOINTS)
    try:
        with pytest.raises(LinkFailed, match="joint_states"):
            link.wait(0.1, checked=True)
        suite.bring_up("franka", backend="mock", without=WITHOUT)
        link.wait(90.0, checked=True)
        begin = np.array(wait_until(lambda: _positions(link), "positions"))
        wait_until(lambda: _free(link, begin), "the kinematics service")
        assert "collision of" in link.problem(np.array([begin, FOLDED]), 30.0)
        goal, actions = begin + 0.1, ActionFilter(ROBOT.limits.select(JOINTS), 30.0)
        actions.start(begin)
        for k in range(30):
            proposed = actions.propose(begin + 0.1 * (k + 1) / 30, 1.0 / 30.0)
            link.send(proposed.position, proposed.velocity)
            actions.accept(proposed)
            time.sleep(1.0 / 30.0)
        wait_until(lambda: _at(link, goal), "there")
        link._latch.stop("test")
        with pytest.raises(InvalidCommand, match="stopped by test"):
            link.send(goal, np.zeros(7))
    finally:
        link.close()


def _positions(link: ActionLink) -> list[float]:
    """Measured positions; empty while they are old, as after a pause of this process."""
    try:
        return list(link.positions().values())
    except LinkFailed:
        return []


def _at(link: ActionLink, goal: np.ndarray) -> bool:
    q = _positions(link)
    return bool(q) and np.allclose(q, goal, atol=5e-3)


def _free(link: ActionLink, q: np.ndarray) -> bool:
    try:
        return not link.problem(q[None], 5.0)
    except LinkFailed:
        return False


def test_positions_of_one_joint_do_not_hide_that_those_of_others_are_old(monkeypatch):
    """Many grippers publish their own joint states."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, sleep=time.sleep, now=100.0)
    monkeypatch.setattr(action_link, "time", clock)
    link = ActionLink("", "arm", ("shoulder", "finger"))
    try:
        link._on_state(JointState(name=["shoulder", "finger"], position=[0.3, 0.01]))
        assert link.positions() == {"shoulder": 0.3, "finger": 0.01}
        for _ in range(10):
            clock.now += 0.1
            link._on_state(JointState(name=["finger"], position=[0.02]))
        with pytest.raises(LinkFailed, match="shoulder for 1.0 s"):
            link.positions()
        link._on_state(JointState(name=["shoulder"], position=[math.nan]))
        with pytest.raises(LinkFailed, match="shoulder"):
            link.positions()
    finally:
        link.close()
