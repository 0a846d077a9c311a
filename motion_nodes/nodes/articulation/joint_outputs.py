# SPDX-License-Identifier: Apache-2.0
"""What leaves the articulation controller: commands to the drives, and its state for clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from control_msgs.msg import JointTrajectoryControllerState
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from motion_nodes.control.effort_limiter import EffortLimiter
from motion_nodes.control.joint_controller import JointReference
from motion_nodes.control.joint_drive import DriveLaw, motion_load, one_step_back
from motion_nodes.model.inverse_dynamics import InverseDynamics
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import JointStateReader, JointStateWriter, set_stamp
from motion_nodes.ros.node import MotionNode

Array = NDArray[np.float64]


@dataclass
class MotionLoad:
    """What the motion itself takes, by the robot's model."""

    dynamics: InverseDynamics
    gravity: bool
    """Whether that includes the efforts against gravity."""
    inertia: bool
    """Whether it includes those of the reference's accelerations and speeds."""

    def of(self, reference: JointReference, state: JointStateReader) -> Array:
        """Return the efforts of the joints where they are [N m or N], shape (n,)."""
        return motion_load(
            self.dynamics, reference, state.position, state.velocity,
            gravity=self.gravity, inertia=self.inertia,
        )  # fmt: skip


@dataclass
class EffortDrives:
    """Drives whose efforts the node computes itself."""

    law: DriveLaw
    limits: Array
    """Of efforts [N m or N], shape (n,)."""


class JointOutputs:
    """Writes ``joint_command`` and ``~/controller_state``.

    Without drives of the node's own the reference itself goes out, and the robot's drives follow
    it; with them, the efforts that follow from it.
    """

    def __init__(
        self,
        node: MotionNode[Any],
        joints: Sequence[str],
        drives: EffortDrives | None,
        load: MotionLoad | None,
        limiter: EffortLimiter,
        effort_bounds: Array,
    ) -> None:
        """Create the publishers of ``node``.

        Args:
            node: the controller.
            joints: that it controls.
            drives: turn references into efforts; None: the robot's own drives follow them.
            load: what is added to the efforts of ``drives``, or sent beside positions to the
                robot's own; None: nothing, which only the robot's own drives can do with.
            limiter: of efforts where the robot's own drives follow positions.
            effort_bounds: what joints may push with, read at every message, shape (n,).
        """
        self.drives, self.load = drives, load
        self._limiter, self._bounds = limiter, effort_bounds
        self._stamp_ns = 0
        """Of the last reference."""
        self._writer = JointStateWriter(
            node.advertise(JointState, "joint_command", qos.REFERENCE_STREAM), joints, effort=True
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
        self._limiter.reset()
        if self.drives is not None:
            self.drives.law.reset()

    def send(
        self, reference: JointReference, state: JointStateReader, period: float, stamp_ns: int
    ) -> None:
        """Send what the drives shall do from a deadline on.

        Args:
            reference: where the joints shall be a period after the deadline.
            state: what was measured of them.
            period: between two deadlines [s].
            stamp_ns: the deadline [ns].
        """
        self.led[:], self.speed[:] = reference.positions, reference.velocities
        drives = self.drives
        if drives is None:
            sent = self._limiter.limit(reference, state.position, self._bounds, period)
            efforts = sent.efforts if self.load is None else self._with_load(sent, state)
            self._write(sent.positions, sent.velocities, efforts, stamp_ns)
            return
        limits = np.minimum(drives.limits, self._bounds)
        if not np.array_equal(limits, drives.law.max_efforts):
            drives.law.set_max_efforts(limits)
        due = one_step_back(reference, period)
        load = 0.0 if self.load is None else self.load.of(due, state)
        efforts = drives.law.efforts(due, state.position, state.velocity, period, load=load)
        self._acted_on = state.position.copy()
        self._write(self._nan, self._nan, efforts, stamp_ns)

    def _with_load(self, reference: JointReference, state: JointStateReader) -> Array:
        """Return efforts to go beside positions: what is asked for, and the motion's load.

        Joints without a position follow a speed or an effort and get what is commanded; those that
        may only push so hard are held back by their positions.
        """
        assert self.load is not None
        led = ~np.isnan(reference.positions) & np.isinf(self._bounds)
        load = np.where(led, self.load.of(reference, state), 0.0)
        return np.where(led, np.nan_to_num(reference.efforts) + load, reference.efforts)

    def wait(self, reference: JointReference, state: JointStateReader) -> None:
        """Send what holds while time stands, with the last stamp: no deadline has come.

        With drives of its own: the last efforts again where the robot stands as time does, so that
        both go on as if nothing had been. A robot that moves while time stands goes to its own
        drives.
        """
        if self.drives is not None and np.array_equal(self._acted_on, state.position):
            self._writer.send(self._stamp_ns)
        else:
            self._fill_standing(reference, state)
            self._writer.send(self._stamp_ns)

    def hand_over(self, reference: JointReference, state: JointStateReader, now_ns: int) -> None:
        """Let the robot's own drives hold the reference, with the last message of a node."""
        self._fill_standing(reference, state)
        self._writer.send_last(now_ns)

    def _fill_standing(self, reference: JointReference, state: JointStateReader) -> None:
        """Let the robot's own drives hold the reference: no speed and no effort."""
        self.led[:], self.speed[:] = reference.positions, 0.0
        self._acted_on[:] = np.nan
        sent = self._limiter.limit(reference, state.position, self._bounds, 0.0)
        self._fill(
            sent.positions,
            np.where(np.isnan(reference.velocities), np.nan, 0.0),
            np.where(np.isnan(reference.efforts) & (self.load is None), np.nan, 0.0),
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

    def _write(self, positions: Array, velocities: Array, efforts: Array, stamp_ns: int) -> None:
        self._stamp_ns = stamp_ns
        self._fill(positions, velocities, efforts)
        self._writer.send(stamp_ns)

    def _fill(self, positions: Array, velocities: Array, efforts: Array) -> None:
        self._writer.position[:] = positions
        self._writer.velocity[:] = velocities
        self._writer.effort[:] = efforts
