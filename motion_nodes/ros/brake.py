# SPDX-License-Identifier: Apache-2.0
"""Braking a robot within its limits before the loop of the node that drives it ends.

Without it, deactivation and process exit would command zero velocity at once: a velocity step,
which drives track with their max effort.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motion_nodes.ros.node import MotionNode

BRAKE_TIMEOUT = 2.0
"""[s] Max wall time of braking."""
LOOP_TIMEOUT = 0.3
"""[s] Max wall time until the loop begins to brake; a blocked loop cannot."""
POLL_PERIOD = 0.005
"""[s] Interval at which the motion is checked."""
REASON = "the controller was deactivated"
"""Reason with which goals end and commands are refused."""


def brake(node: MotionNode[Any]) -> None:
    """Bring a node's robot to rest, as a stop does (docs/stopping.md).

    Returns when the references are at rest, or at once where braking is impossible: the loop is
    blocked, ROS time does not advance, or the node fails to brake. It never raises: the halt that
    follows must not be omitted.

    Args:
        node: the node; commands to it are refused from now on.
    """
    if not (node.active and node.in_motion()):
        return
    node.ending = REASON
    try:
        node.in_loop(lambda: node.stopped(REASON), timeout=LOOP_TIMEOUT)
    except Exception as error:
        node.get_logger().error(f"braking failed: {error}")
        return
    deadline = time.monotonic() + BRAKE_TIMEOUT
    while node.active and node.in_motion() and not node.time_stands:
        if time.monotonic() > deadline:
            node.get_logger().warning(f"not at rest after {BRAKE_TIMEOUT:g} s")
            return
        time.sleep(POLL_PERIOD)
