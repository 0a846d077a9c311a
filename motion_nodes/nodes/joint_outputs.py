# SPDX-License-Identifier: Apache-2.0
"""What leaves the articulation controller: commands to the drives, and its state for clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from motion_nodes.control.articulation import JointReference
from motion_nodes.control.drive_law import DriveLaw
from motion_nodes.model.gravity import GravityLoad
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp
from motion_nodes.ros.node import MotionNode

Array = NDArray[np.float64]


class JointOutputs:
    """Writes ``joint_command`` and ``~/controller_state``.

    Without a drive law the reference itself goes out, and the robot's drives follow it; with one,
    the efforts that follow from it.
    """

    def __init__(
        self,
        node: MotionNode[Any],
        joints: Sequence[str],
        law: DriveLaw | None,
        gravity: GravityLoad | None,
    ) -> None:
        """Create the publishers of ``node`` for ``joints``."""
        self.law = law
        self.gravity = gravity
        self.compensate = True
        """Whether the law's efforts include those against gravity."""
        self._writer = JointStateWriter(
            node, node.advertise(JointState, "joint_command"), joints, effort=True
        )
        self._out = node.advertise(JointTrajectoryControllerState, "~/controller_state")
        self._report = JointTrajectoryControllerState(joint_names=list(joints))
        self._nan = np.full(len(joints), np.nan)
        self._acted_on: Array = self._nan.copy()
        """Positions that the last efforts belong to, NaN where none were sent."""
        self.led: Array = self._nan.copy()
        """Where the joints were last led [rad or m], NaN where they were not."""
        self.speed: Array = self._nan.copy()
        """At which speed [rad/s or m/s]."""

    def forget(self) -> None:
        """Forget where the joints were led."""
        self.led[:] = np.nan
        self._acted_on[:] = np.nan
        if self.law is not None:
            self.law.reset()

    def send(
        self, reference: JointReference, state: JointStateReader, dt: float, now_ns: int
    ) -> None:
        """Send what the drives shall do now."""
        self.led[:], self.speed[:] = reference.positions, reference.velocities
        if self.law is None:
            self._write(reference.positions, reference.velocities, reference.efforts, now_ns)
            return
        if dt <= 0.0:
            # The law needs time to have passed; until then what was sent holds. A reference in its
            # place would hand the robot to its own drives for a tick, with a blow.
            return
        efforts = self.law.efforts(reference, state.position, state.velocity, dt)
        if self.gravity is not None and self.compensate:
            held = np.isnan(reference.efforts)
            efforts = efforts + np.where(held, self.gravity.efforts(state.position), 0.0)
            limit = self.law.max_efforts
            efforts = efforts.clip(-limit, limit)
        self._acted_on = state.position.copy()
        self._write(self._nan, self._nan, efforts, now_ns)

    def wait(self, reference: JointReference, state: JointStateReader, now_ns: int) -> None:
        """Send what holds while time stands.

        With a drive law: the last efforts again where the robot stands as time does, so that both
        go on as if nothing had been. A robot that moves while time stands goes to its own drives.
        """
        if self.law is not None and np.array_equal(self._acted_on, state.position):
            self._writer.send(now_ns)
        else:
            self.stand(reference, now_ns)

    def stand(self, reference: JointReference, now_ns: int) -> None:
        """Let the robot's own drives hold the reference: no speed and no effort."""
        self._fill_standing(reference)
        self._writer.send(now_ns)

    def hand_over(self, reference: JointReference, now_ns: int) -> None:
        """Do so with the last message of a node that stops."""
        self._fill_standing(reference)
        self._writer.send_last(now_ns)

    def _fill_standing(self, reference: JointReference) -> None:
        self.led[:], self.speed[:] = reference.positions, 0.0
        self._acted_on[:] = np.nan
        self._fill(
            reference.positions,
            np.where(np.isnan(reference.velocities), np.nan, 0.0),
            np.where(np.isnan(reference.efforts), np.nan, 0.0),
        )

    def report(self, state: JointStateReader, scaling: float, now_ns: int) -> None:
        """Publish reference, measurement, error and output."""
        report = self._report
        report.reference.positions = self.led.tolist()
        report.reference.velocities = self.speed.tolist()
        report.feedback.positions = state.position.tolist()
        report.feedback.velocities = state.velocity.tolist()
        report.error.positions = (self.led - state.position).tolist()
        report.error.velocities = (self.speed - state.velocity).tolist()
        report.output.positions = self._writer.position.tolist()
        report.output.velocities = self._writer.velocity.tolist()
        report.output.effort = self._writer.effort.tolist()
        report.speed_scaling_factor = scaling
        set_stamp(report, now_ns)
        self._out.publish(report)

    def _write(self, positions: Array, velocities: Array, efforts: Array, now_ns: int) -> None:
        self._fill(positions, velocities, efforts)
        self._writer.send(now_ns)

    def _fill(self, positions: Array, velocities: Array, efforts: Array) -> None:
        self._writer.position[:] = positions
        self._writer.velocity[:] = velocities
        self._writer.effort[:] = efforts
