# SPDX-License-Identifier: Apache-2.0
"""Base of the simulation nodes: paces a simulated cell and provides the topics of its robots.

Each robot subscribes to ``joint_command`` and publishes ``joint_states`` and ``ground_truth`` in
its namespace, like a driver; the cell publishes ``/clock``.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, TypeVar

from rosgraph_msgs.msg import Clock
from std_srvs.srv import SetBool, Trigger

from motion_nodes.control.stream_resampler import ResamplerSettings
from motion_nodes.model.placement import parse_placements
from motion_nodes.nodes.cell.simulated_robot import SimulatedRobot
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros import qos
from motion_nodes.ros.concurrency.services import respond_from_loop
from motion_nodes.ros.diagnostics import Report
from motion_nodes.ros.instance_lock import InstanceLock
from motion_nodes.ros.messages.cdr import MessageTemplate
from motion_nodes.ros.node import MotionNode, NodeParams
from motion_nodes.ros.parameters import param
from motion_nodes.sim.backend import RobotBackend, RobotPlacement, SimulationDiverged

MAX_CATCH_UP = 0.1
"""Delay beyond which a simulation does not catch up with real time [s]."""

CATCH_UP_PERIODS = 5.0
"""Max number of periods by which a delayed simulation advances at once, so that controllers keep up
with it."""

MAX_REFERENCE_WAIT, MAX_RESTING_WAIT = 1.0, 0.1
"""Max real time for which simulated time waits for the next reference of a stream [s], if it moves
and if it rests."""

RESET_TIME = 0.5
"""Time after a reset in which commands from before it may still arrive [s]."""

STAMP_TOLERANCE_NS = 100_000_000
"""Max time by which the stamp of a command may be ahead of simulated time [ns]."""

LATENCY_PERIODS, MIN_LATENCY, MAX_LATENCY = 2.0, 0.008, 0.5
"""Default command latency [periods of update_rate], the min of this default, and max [s]."""

STANDING_PERIOD = 0.02
"""Real time between messages while simulated time stands still [s]."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulationParams(NodeParams):
    """Parameters of a simulation."""

    update_rate: float = param(
        250.0, doc="Publish rate of joint_states.", unit="Hz", gt=0.0, le=1000.0, read_only=True
    )
    robots: tuple[str, ...] = param(
        doc="Robots to simulate, each as [NAMESPACE:=]ROBOT[@X,Y,YAW], in m and rad.",
        read_only=True,
    )
    real_time_factor: float = param(
        1.0, doc="Ratio of simulated time to real time.", gt=0.0, le=10.0
    )
    publish_clock: bool = param(
        True,
        doc="Publish /clock and stamp messages with simulated time; false: stamp with the "
        "node's clock.",
        read_only=True,
    )
    command_latency: float = param(
        math.nan,
        doc="Delay between the stamp of a reference and its effect; references are interpolated "
        "by cubics at each physics step. Not set (NaN): two periods of update_rate, which tolerate "
        "a reference that is one period late, but at least 8 ms. Multiplied by real_time_factor if "
        "that is above 1. 0: messages take effect at once, like those without a stamp.",
        unit="s",
        ge=0.0,
        le=MAX_LATENCY,
        nan=True,
    )
    command_timeout: float = param(
        0.5,
        doc="Timeout of velocity and effort commands; when it expires the joints are stopped.",
        unit="s",
        gt=0.0,
        le=60.0,
    )


S = TypeVar("S", bound=SimulationParams)

_SECOND_CLOCK = (
    "another simulation already publishes /clock in ROS domain {domain} (process {owner}). Stop "
    "it, run this one in another domain (ROS_DOMAIN_ID), or set publish_clock of one to false."
)


class SimulationNode(MotionNode[S]):
    """Runs a cell of simulated robots, paced by real time."""

    _clock_lock: InstanceLock | None = None
    truth_rate = 50.0
    """Rate of ground_truth [Hz]."""

    def make_cell(self, placements: list[RobotPlacement]) -> RobotBackend:
        """Return the simulated cell."""
        raise NotImplementedError

    def configure(self) -> None:
        """Create the cell and the topics of its robots."""
        if self.params.publish_clock:
            self._clock_lock = InstanceLock("/clock", _SECOND_CLOCK)
        places = parse_placements(self.params.robots)
        names = [p.namespace.replace("/", "_") or f"robot_{i}" for i, p in enumerate(places)]
        self.cell = self.make_cell(
            [
                RobotPlacement(load_description(p.robot), name, p.X_WR)
                for p, name in zip(places, names, strict=True)
            ]
        )
        self._robots = [
            SimulatedRobot(self, self.cell, p, n) for p, n in zip(places, names, strict=True)
        ]
        self._clock_out = (
            self.advertise(Clock, "/clock", qos.CLOCK) if self.params.publish_clock else None
        )
        self._clock_message = MessageTemplate(Clock())
        self._paused = False
        self._reset_at = -float("inf")
        self._problem: str | None = None
        self._resampling: ResamplerSettings | None = None
        self.serve(Trigger, "~/reset", self._on_reset)
        self.serve(SetBool, "~/pause", self._on_pause)

    def activate(self) -> None:
        """Start the simulation."""
        self._pace()
        self._resample()
        self._truth_at = -1.0
        self._sent_ns, self._sent_at = -1, 0.0
        self._factor = (time.monotonic(), self.cell.time)

    def tick(self, dt: float) -> None:
        """Apply commands, advance to the current time, publish states.

        While simulated time stands still, messages that repeat are rare: they would delay the
        controllers that it waits for.
        """
        begin_ns = self._stamp()
        oldest = self.params.command_timeout if self._latency > 0.0 else 0.0
        latest_ns = self._latest_stamp(begin_ns)
        for robot in self._robots:
            robot.take_commands(begin_ns, oldest, latest_ns)
        if not self._paused and self._problem is None:
            self._advance(begin_ns)
        nanoseconds, now = self._stamp(), time.monotonic()
        if nanoseconds == self._sent_ns and now < self._sent_at + STANDING_PERIOD:
            return
        self._sent_ns, self._sent_at = nanoseconds, now
        self._publish(nanoseconds)

    def _publish(self, nanoseconds: int) -> None:
        """Publish states, poses and ``/clock`` at a time [ns]."""
        for robot in self._robots:
            robot.publish(nanoseconds)
        now = self.cell.time
        if now >= self._truth_at or now < self._truth_at - 1.0:
            self._truth_at = now + 0.999 / self.truth_rate
            for robot in self._robots:
                robot.publish_truth(nanoseconds)
        if self._clock_out is not None:
            self._clock_out.publish(self._clock_message.bytes(nanoseconds))

    def release(self) -> None:
        """Release the lock of ``/clock``."""
        if self._clock_lock is not None:
            self._clock_lock.release()
            self._clock_lock = None

    def parameters_changed(self, params: S) -> None:
        """Apply real-time factor and latency."""
        self._pace()
        self._resample()

    def diagnose(self, report: Report) -> None:
        """Report simulated time and the real-time factor."""
        if self._problem is not None:
            report.note("ERROR", f"{self._problem} (call ~/reset to restart)")
        elif self._paused:
            report.note("OK", "paused")
        (wall, simulated), now = self._factor, (time.monotonic(), self.cell.time)
        self._factor = now
        factor = (now[1] - simulated) / max(now[0] - wall, 1e-9)
        report.value("real-time factor", factor)
        report.value("simulated time [s]", self.cell.time)
        report.value("references extrapolated", self.cell.extrapolated)
        nominal = self.params.real_time_factor
        if not self._paused and self._problem is None and 0.0 <= factor < 0.9 * nominal:
            report.note("WARN", f"real-time factor is {factor:.2f} instead of {nominal:g}")

    def _pace(self) -> None:
        self._progress_at = time.monotonic()
        self._started = time.monotonic() - self.cell.time / self.params.real_time_factor

    def _resample(self) -> None:
        given = self.params.command_latency
        default = min(max(LATENCY_PERIODS * self.period, MIN_LATENCY), MAX_LATENCY)
        self._latency = default if math.isnan(given) else given
        factor = max(self.params.real_time_factor, 1.0) if self._clock_out is not None else 1.0
        settings = ResamplerSettings(latency=self._latency * factor)
        if settings != self._resampling:
            self._resampling = settings
            self.cell.set_resampling(settings)

    def _advance(self, begin_ns: int) -> None:
        """Advance to the current time; commands of this cycle take effect from ``begin_ns`` on."""
        factor, step, simulated = self.params.real_time_factor, self.cell.time_step, self.cell.time
        due = (time.monotonic() - self._started) * factor - simulated
        if self._clock_out is None:
            # The end of the last cycle, by the node's clock.
            begin_ns = self.now_ns() - round(1e9 * due / factor)
        if due > MAX_CATCH_UP * max(factor, 1.0):
            due = step
            self._started = time.monotonic() - (simulated + due) / factor
        steps = int(min(due, CATCH_UP_PERIODS * self.period * factor) / step + 1e-6)
        if self._clock_out is not None:
            steps = self._steps_with_references(steps, begin_ns)
        try:
            self.cell.advance(steps, begin_ns, 1.0 if self._clock_out is not None else factor)
        except SimulationDiverged as error:
            self._problem = str(error)
            self.get_logger().error(f"simulation stopped: {error}; call ~/reset to restart")
        for robot in self._robots:
            self.cell.release_stale(robot.name, self.params.command_timeout)

    def _steps_with_references(self, due: int, begin_ns: int) -> int:
        """Return how many of the due steps the reference streams cover.

        Simulated time waits for late references, for a limited real time: a busy machine slows the
        simulation, and its robots follow the same motion.
        """
        now, step = time.monotonic(), self.cell.time_step
        waited = now - self._progress_at
        if waited > MAX_RESTING_WAIT:
            end_ns = begin_ns + round(1e9 * step) - 1
            self.cell.end_late_streams(end_ns, resting=waited <= MAX_REFERENCE_WAIT)
        covered_ns, steps = self.cell.covered_ns(), due
        if covered_ns is not None:
            steps = min(due, max(int((covered_ns - begin_ns) * 1e-9 / step + 1e-6), 0))
        if steps > 0 or due == 0:
            self._progress_at = now
        return steps

    def _stamp(self) -> int:
        return round(self.cell.time * 1e9) if self._clock_out is not None else self.now_ns()

    def _on_reset(self, _request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, self._reset)

    def _on_pause(self, request: Any, response: Any) -> Any:
        return respond_from_loop(self, response, lambda: self._set_paused(request.data))

    def _latest_stamp(self, now_ns: int) -> int | None:
        """Return the max stamp of valid commands shortly after a reset [ns]; None otherwise."""
        if self._clock_out is None or time.monotonic() - self._reset_at > RESET_TIME:
            return None
        return now_ns + STAMP_TOLERANCE_NS

    def _reset(self) -> str:
        self.cell.reset()
        self._reset_at = time.monotonic()
        self._problem = None
        self._truth_at = -1.0
        self._pace()
        return "the simulation was reset"

    def _set_paused(self, paused: bool) -> str:
        self._paused = paused
        self._pace()
        return "paused" if paused else "running"
