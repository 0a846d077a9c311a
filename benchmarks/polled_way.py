# SPDX-License-Identifier: Apache-2.0
"""The suite's loops with a note of when each tick began.

``python benchmarks/polled_way.py controller|relay --rate HZ --ticks FILE``: the articulation
controller as it is, or a node that only hands the newest reference on, both on
:class:`motion_nodes.ros.node.MotionNode`. The same as ``usual_way.py``, in the suite's way.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from child_processes import ros_args
from sensor_msgs.msg import JointState

from motion_nodes.nodes.articulation_controller import ArticulationControllerNode
from motion_nodes.ros.joint_topics import JointStateWriter
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.ros.run import run_nodes

TICKS: list[int] = []
"""When the ticks of this process began [ns]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelayParams(NodeParams):
    """Parameters of the relay."""

    joints: tuple[str, ...] = param(doc="Joints of the messages.", read_only=True)


class RelayNode(MotionNode[RelayParams]):
    """Hands the newest reference on: a control loop without a controller."""

    params_type = RelayParams

    def __init__(self, ros_args: list[str] | None = None) -> None:
        """Create the node, unconfigured."""
        super().__init__("joint_trajectory_controller", ros_args=ros_args)

    def configure(self) -> None:
        """Create the endpoints."""
        self._reference = self.poll(JointState, "~/reference")
        self._command = JointStateWriter(
            self.advertise(JointState, "joint_command"), self.params.joints, velocity=False
        )

    def tick(self, dt: float) -> None:
        """Send on what came."""
        TICKS.append(time.monotonic_ns())
        message = self._reference.newest()
        if message is not None:
            self._command.position[:] = message.position
        self._command.send(self.now_ns())


class TimedController(ArticulationControllerNode):
    """The articulation controller."""

    def tick(self, dt: float) -> None:
        """Note the time, and do what the controller does."""
        TICKS.append(time.monotonic_ns())
        super().tick(dt)


def main() -> None:
    """Run one node until interrupted; then write when its ticks began."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("node", choices=("controller", "relay"))
    parser.add_argument("--rate", type=float, required=True, help="[Hz]")
    parser.add_argument("--ticks", type=Path, help="file for the beginnings of the ticks [ns]")
    options = parser.parse_args()
    settings: dict[str, Any] = {"update_rate": options.rate}
    if options.node == "relay":
        kind: Any = RelayNode
        settings["joints"] = [f"panda_joint{i}" for i in range(1, 10)]
    else:
        kind, settings["robot"] = TimedController, "franka"
    run_nodes([lambda: kind(ros_args=ros_args(**settings))], args=[])
    if options.ticks is not None:
        options.ticks.write_text(json.dumps(TICKS))


if __name__ == "__main__":
    main()
