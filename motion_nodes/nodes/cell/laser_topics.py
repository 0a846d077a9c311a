# SPDX-License-Identifier: Apache-2.0
"""Topics of the simulated laser scanners."""

from __future__ import annotations

import array
from typing import Any

from rclpy.time import Time
from sensor_msgs.msg import LaserScan

from motion_nodes.model.placement import Placement
from motion_nodes.ros import qos
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.names import under
from motion_nodes.ros.node import MotionNode
from motion_nodes.ros.transforms import frame_id
from motion_nodes.sim.laser_scanner import SimulatedLaser
from motion_nodes.sim.mujoco_world import MujocoWorld


class LaserTopics:
    """Publishes the scans of all scanners of a cell, each at its rate in simulated time."""

    def __init__(
        self, node: MotionNode[Any], world: MujocoWorld, robots: dict[str, Placement]
    ) -> None:
        """Create the publishers.

        Args:
            node: the simulation.
            world: the cell.
            robots: by name in the cell.
        """
        self._world = world
        self._lasers: list[tuple[SimulatedLaser, Any, LaserScan]] = []
        for placement in world.placements:
            space = robots[placement.name].namespace
            for scanner in placement.robot.description.laser_scanners:
                out = node.advertise(LaserScan, under(space, scanner.topic), qos.STREAM)
                message = LaserScan(
                    angle_min=scanner.angle_min,
                    angle_max=scanner.angle_max,
                    angle_increment=(scanner.angle_max - scanner.angle_min) / (scanner.rays - 1),
                    scan_time=1.0 / scanner.rate,
                    range_min=scanner.range_min,
                    range_max=scanner.range_max,
                )
                message.header.frame_id = frame_id(space, scanner.link)
                laser = SimulatedLaser(world, placement.name, scanner)
                self._lasers.append((laser, out, message))
        self._due = [0.0] * len(self._lasers)
        self._count = 0

    def tick(self, nanoseconds: int) -> None:
        """Publish the scans that are due; in the loop.

        Args:
            nanoseconds: stamp of the state [ns].
        """
        now = self._world.time
        for i, (laser, out, message) in enumerate(self._lasers):
            period = 1.0 / laser.scanner.rate
            # After a reset, time begins again.
            if now < self._due[i] and self._due[i] - now <= period:
                continue
            self._due[i] = now + period
            message.header.stamp = Time(nanoseconds=nanoseconds).to_msg()
            message.ranges = array.array("f", laser.scan().tobytes())
            out.publish(message)
            self._count += 1

    def diagnose(self, report: Report) -> None:
        """Report the number of scans."""
        report.value("laser scans", self._count)
