# SPDX-License-Identifier: Apache-2.0
"""Session between a stream of references and a driver, with rules common to all real robots.

- Drives are enabled only if the references agree with the measured positions.
- References are resampled by their stamps at the period of the bus, within limits of position,
  velocity, acceleration and jerk.
- After a timeout of the references the robot brakes; it resumes with references that begin at its
  position.
- After a jump of the references, a fault or a lost link it stops until
  :meth:`DriverSession.reset`.

During a late cycle a robot holds its last command while the references advance. A robot at its
limits could not catch up before it has to brake, and would overshoot. So the reference time
advances by at most a few periods per cycle; the rest is a delay along the path. The delay is
reduced where the references are below the limits of velocity and acceleration, and at rest.
References that a robot cannot follow within its velocity limits are detected.
"""

from __future__ import annotations

import contextlib
import enum
import math
from dataclasses import dataclass, replace

import numpy as np

from motion_nodes.core.control.reference_tracks import ReferenceTracks
from motion_nodes.core.control.stream_resampler import ResamplerSettings, StreamSample
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import TrajectorySample
from motion_nodes.core.trajectory.online_trajectory import OnlineLimiter
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.hardware.robot_driver import (
    DriverFault,
    LinkLost,
    RobotDriver,
    RobotReading,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array, Mask

CATCH_UP = 0.15
"""Max excess of the rate of the references' time above 1."""
RAMP_SHARE = 0.3
"""Fraction of the acceleration limits that changes of that rate may use."""
CATCH_UP_LIMITS = 0.4
"""Max velocities and accelerations of references during a catch-up, as a fraction of the limits."""
_SHORTEST = 1e-6
"""Min duration of a cycle [s]."""
MAX_AGE = 0.5
"""Max difference of the stamp of a reference and its reception [s]."""
RECONNECT_PERIOD = 1.0
"""Time between two attempts to connect [s]."""
MAX_PERIODS = 3.0
"""Max time by which the references advance in one cycle [periods]; longer for robots that
extrapolate."""


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """Rules for the motion of a real robot.

    Raises:
        InvalidConfig: a value out of its range.
    """

    auto_enable: bool = setting(
        True,
        doc="Enable the drives as soon as the references agree with the measured positions; false: "
        "only on request.",
    )
    dry_run: bool = setting(False, doc="Read and report, but never enable or move the robot.")
    speed: float = setting(
        1.0,
        doc="Fraction of the velocity limits that the robot may use; below 1 for first motions.",
        gt=0.0,
        le=1.0,
    )
    command_latency: float = setting(
        0.02,
        doc="Delay between the stamp of a reference and its effect. Two periods of the stream "
        "tolerate a message that is one period late.", unit="s", ge=0.0, le=0.5,
    )  # fmt: skip
    command_timeout: float = setting(
        0.1, doc="Time without joint_command after which the robot is braked.", unit="s", gt=0.0,
        le=10.0,
    )  # fmt: skip
    max_delay: float = setting(
        0.5,
        doc="Max delay of the references by late cycles of the driver; a longer one is a fault.",
        unit="s", gt=0.0, le=10.0,
    )  # fmt: skip
    enable_tolerance: float = setting(
        0.05, doc="Max deviation of the references from the measured positions when the drives are "
        "enabled.", unit="rad or m", gt=0.0, le=1.0,
    )  # fmt: skip
    max_jump: float = setting(
        0.1,
        doc="Max step of a reference in excess of the velocity limits; a larger one is a fault.",
        unit="rad or m", gt=0.0, le=10.0,
    )  # fmt: skip
    max_missed_reads: int = setting(5, doc="Max number of consecutive failed reads.", ge=0, le=100)

    def __post_init__(self) -> None:
        check_settings(self)


class JumpCheck:
    """Compares each reference with the one before, and with the position that was sent."""

    def __init__(self, limits: JointLimits, max_jump: float, longest: float) -> None:
        """Create without a reference.

        Args:
            limits: limits of the joints, of which those of velocity are used.
            max_jump: max step in excess of the velocity limits [rad or m].
            longest: max time between two references in which joints may move on [s].
        """
        self._names, self._max_jump, self._longest = limits.names, max_jump, longest
        self._velocity = np.where(np.isfinite(limits.velocity), limits.velocity, 0.0)
        self.reset()

    def reset(self) -> None:
        """Forget the reference before: the next one is compared with the sent position."""
        self._last: tuple[int, Array] | None = None

    def check(self, reference: Array, sent: Array, now_ns: int, dt: float) -> str:
        """Return a description of a jump; empty if there is none.

        In a late cycle the references advance further, which is not a jump.

        Args:
            reference: positions [rad or m], shape (n,), NaN for joints without one.
            sent: last sent positions [rad or m], shape (n,).
            now_ns: time of the cycle [ns].
            dt: time by which the robot's reference advances in it [s].
        """
        before, elapsed = sent, dt
        if self._last is not None:
            before = self._last[1]
            elapsed = min(max((now_ns - self._last[0]) * 1e-9, dt), self._longest)
        self._last = (now_ns, reference)
        return self._beyond("jumped", before, reference, elapsed) or self._beyond(
            "ran away", sent, reference, max(self._longest, dt)
        )

    def _beyond(self, verb: str, before: Array, after: Array, duration: float) -> str:
        """Return the reference that is farther than reachable within a duration [s], as text."""
        apart = np.abs(np.nan_to_num(after - before))
        allowed = self._max_jump + self._velocity * duration
        i = int(np.argmax(apart - allowed))
        if apart[i] <= allowed[i]:
            return ""
        return (
            f"the reference of {self._names[i]} {verb} from {before[i]:.4f} to {after[i]:.4f} "
            f"({apart[i]:.3f}; allowed are {allowed[i]:.3f})"
        )


class LateCycles:
    """Delay of the references of one robot."""

    def __init__(
        self, limits: JointLimits, period: float, longest: float, max_delay: float
    ) -> None:
        """Create without a delay.

        Args:
            limits: of the joints; of velocity and acceleration.
            period: nominal period of the cycles [s].
            longest: max time by which the references advance in one cycle [s].
            max_delay: delay above which the robot is held [s].
        """
        self._max_delay = max_delay
        self._velocity, self._acceleration = limits.velocity, limits.acceleration
        self._period, self._longest = period, longest
        self.reset()

    def reset(self) -> None:
        """Restart without a delay."""
        self._last: int | None = None
        self._moved = 0
        self.delay, self.rate = 0.0, 1.0

    def note(self, now_ns: int, *, moves: bool) -> None:
        """Process a message; the delay is reset after the references were at rest long enough.

        Args:
            now_ns: time of arrival [ns].
            moves: whether a reference has a velocity.
        """
        self._moved = now_ns if moves else self._moved
        if now_ns - self._moved > 1.2e9 * self._max_delay:
            self.delay, self.rate = 0.0, 1.0

    def advance(self, now_ns: int, velocity: Array, acceleration: Array) -> tuple[float, int]:
        """Begin a cycle.

        Args:
            now_ns: its time [ns].
            velocity: of the references in the last cycle [rad/s or m/s], shape (n,).
            acceleration: the same [rad/s^2 or m/s^2], shape (n,).

        Returns:
            Time by which the robot's reference advances [s], and the time of the references [ns].

        Raises:
            DriverFault: the delay has become too long.
        """
        last, self._last = self._last, now_ns
        elapsed = self._period if last is None else max((now_ns - last) * 1e-9, _SHORTEST)
        dt = min(elapsed, self._longest)
        self.delay += elapsed - dt
        if self.delay > self._max_delay:
            self.reset()
            raise DriverFault(
                f"the accumulated delay of the driver's cycles exceeds {self._max_delay:g} s "
                "(max_delay); the computer is too busy for the rate of this robot"
            )
        if self.delay > 0.0:
            self._catch_up(min(dt, self._period), velocity, acceleration)
        return dt, now_ns - round(self.delay * 1e9)

    def _catch_up(self, dt: float, velocity: Array, acceleration: Array) -> None:
        moving = np.abs(velocity) > 0.0
        steepest = np.min(self._acceleration[moving] / np.abs(velocity[moving]), initial=math.inf)
        ramp = RAMP_SHARE * float(steepest)  # of the rate [1/s]
        room = (np.abs(velocity) <= CATCH_UP_LIMITS * self._velocity) & (
            np.abs(acceleration) <= CATCH_UP_LIMITS * self._acceleration
        )
        desired = 1.0
        if room.all():
            desired += min(CATCH_UP, math.sqrt(2.0 * ramp * self.delay))
        self.rate += min(max(desired - self.rate, -ramp * dt), ramp * dt)
        self.delay -= min((self.rate - 1.0) * dt, self.delay)
        if self.delay <= 0.0:
            self.rate = 1.0


class SessionState(enum.Enum):
    """State of the session."""

    DISCONNECTED = "disconnected"
    MONITORING = "monitoring"
    """Connected and read; the state of the drives is unchanged."""
    ENABLED = "enabled"
    """The robot follows the references."""
    HOLDING = "holding"
    """At rest, or braking, after a fault."""


class DriverSession:
    """One robot; all methods are called from one thread."""

    def __init__(
        self, driver: RobotDriver, limits: JointLimits, config: SessionConfig | None = None
    ) -> None:
        """Create the session; :meth:`step` connects.

        Args:
            driver: not connected yet.
            limits: of the robot's joints.
            config: settings.

        Raises:
            UnknownJoint: the driver moves a joint without limits.
        """
        self.driver = driver
        self.config = config = config or SessionConfig()
        limits = limits.select(driver.joint_names)
        self.limits = replace(limits, velocity=limits.velocity * config.speed)
        self._limiter = OnlineLimiter(self.limits)
        self._n = len(driver.joint_names)
        resampling = ResamplerSettings(latency=config.command_latency)
        position_limits = self.limits.lower, self.limits.upper
        self._tracks = ReferenceTracks(self.limits.velocity, resampling, position_limits)
        self._desired = config.auto_enable
        self._command_ns: int | None = None
        self._tried_ns: int | None = None
        period = 1.0 / driver.rate
        longest = max(MAX_PERIODS * period, driver.extrapolation)
        self._cycles = LateCycles(self.limits, period, longest, config.max_delay)
        self._speed, self._acceleration = np.zeros(self._n), np.zeros(self._n)
        """Velocities and accelerations of the references in the last cycle."""
        self._jumps = JumpCheck(self.limits, config.max_jump, config.command_timeout)
        self._missed = 0
        self.state = SessionState.DISCONNECTED
        self.fault = ""
        """Why the robot is held until a reset; empty if it is not."""
        self.waiting = "not connected yet"
        """Condition for motion that is not met; empty while the robot follows the references."""
        self.reading: RobotReading | None = None
        """Newest measured state; None before the first."""
        self.failed_reads = 0
        """Number of failed reads since the start."""
        self.max_deviation = 0.0
        """Max distance of references and measured positions since the last report [rad or m]."""

    def command(self, now_ns: int, stamp_ns: int, sample: StreamSample) -> None:
        """Add a reference.

        Args:
            now_ns: reception time [ns], on the clock of the stamps.
            stamp_ns: its stamp [ns].
            sample: NaN where it does not command a channel; shape (n,) each.

        Raises:
            InvalidCommand: a channel that the driver does not have, or an implausible stamp.
        """
        named = np.isfinite(sample.position) | np.isfinite(sample.velocity)
        by_effort = np.isfinite(sample.effort) & ~named
        if by_effort.any():
            joint = self.driver.joint_names[int(np.argmax(by_effort))]
            raise InvalidCommand(
                f"effort command without a position or velocity of {joint}: drivers use efforts as "
                "feed-forward only"
            )
        by_velocity = named & ~np.isfinite(sample.position)
        if by_velocity.any() and "velocity" not in self.driver.modes:
            joint = self.driver.joint_names[int(np.argmax(by_velocity))]
            raise InvalidCommand(
                f"velocity command without a position of {joint}: the driver has no velocity mode"
            )
        age = (now_ns - stamp_ns) * 1e-9
        if not abs(age) <= MAX_AGE:
            side = "old" if age > 0.0 else "ahead"
            raise InvalidCommand(
                f"the stamp of a reference is {abs(age):.1f} s {side}; the clocks of controller "
                "and driver must agree (is use_sim_time set?)"
            )
        if named.any():
            self._command_ns = now_ns
            self._cycles.note(now_ns, moves=bool(np.nan_to_num(sample.velocity).any()))
            self._tracks.push(stamp_ns, sample, named)

    def step(self, now_ns: int) -> RobotReading | None:
        """Run one cycle at the driver's rate: read, update the state, write.

        Args:
            now_ns: time on the clock of the stamps [ns].

        Returns:
            The measured state of this cycle; None if it could not be read.
        """
        connected = self.state is not SessionState.DISCONNECTED or self._connect(now_ns)
        reading = self._read() if connected else None
        try:
            if self.state in (SessionState.ENABLED, SessionState.HOLDING):
                self._advance(now_ns)
            elif reading is not None:
                self._try_enable(now_ns, reading)
            else:
                self._tracks.sample(now_ns)  # discards older references
        except DriverFault as error:
            self._fail(error)
        return reading

    def clock_jumped(self) -> None:
        """Forget all references: their stamps are of another time. The robot brakes until the next.

        Call it when the clock of the stamps was set.
        """
        self._tracks.clear()
        self._cycles.reset()
        self._jumps.reset()
        self._command_ns = self._tried_ns = None

    def enable(self) -> None:
        """Enable the drives as soon as the references agree with the measured positions.

        Raises:
            InvalidCommand: dry run, or a fault that must be reset first.
        """
        if self.config.dry_run:
            raise InvalidCommand("this is a dry run: the drives are never enabled")
        if self.fault:
            raise InvalidCommand(f"reset the fault first: {self.fault}")
        self._desired = True

    def disable(self) -> None:
        """Disable the drives. An arm without brakes sinks.

        Raises:
            DriverFault: the robot rejects the request; it is held until a reset.
        """
        self._desired = False
        if self.state is SessionState.DISCONNECTED or self.config.dry_run:
            return
        try:
            self.driver.disable()
        except DriverFault as error:
            self._fail(error)
            raise
        self.state, self.waiting = SessionState.MONITORING, "disabled"

    def reset(self) -> str:
        """Acknowledge a fault; the robot is enabled again at its current position.

        Without a fault, the motion of an enabled robot continues.

        Returns:
            The next step, as text.

        Raises:
            DriverFault: the fault is still present.
        """
        if self.state is SessionState.ENABLED:
            return "there is no fault; the robot is enabled"
        if self.state is not SessionState.DISCONNECTED:
            if not self.config.dry_run:
                self.driver.clear_faults()
            reading = self.driver.read()
            if reading.faults:
                raise DriverFault(f"the fault is still present: {', '.join(reading.faults)}")
            self.state = SessionState.MONITORING
        self.fault, self._missed, self._tried_ns = "", 0, None
        self._desired = self._desired or self.config.auto_enable
        self._tracks.clear()
        self._command_ns = None
        return "reset; motion resumes when the references agree with the measured positions"

    def close(self, *, release: bool = False) -> None:
        """Stop the robot and close the connection.

        Args:
            release: disable the drives; else they hold the last position.
        """
        if self.state is SessionState.DISCONNECTED:
            return
        # An unresponsive robot cannot be stopped by software.
        with contextlib.suppress(DriverFault):
            if self.state is SessionState.ENABLED:
                self.driver.hold()
        with contextlib.suppress(DriverFault):
            if release and not self.config.dry_run:
                self.driver.disable()
        self._end_connection("closed")

    # ---- internal

    def _connect(self, now_ns: int) -> bool:
        if self._tried_ns is not None and now_ns - self._tried_ns < RECONNECT_PERIOD * 1e9:
            return False
        self._tried_ns = now_ns
        try:
            self.driver.connect()
        except DriverFault as error:
            self.driver.close()
            self.waiting = str(error)
            return False
        self.state, self._missed = SessionState.MONITORING, 0
        self.waiting = "references"
        return True

    def _read(self) -> RobotReading | None:
        try:
            reading = self.driver.read()
        except DriverFault as error:
            self._missed += 1
            self.failed_reads += 1
            if self._missed > self.config.max_missed_reads:
                self.reading = None
                self._fail(error)
            return None
        self._missed, self.reading = 0, reading
        if reading.faults and self.state is SessionState.ENABLED:
            self._hold(", ".join(reading.faults))
        if self.state is SessionState.ENABLED:
            deviation = np.abs(reading.position - self._limiter.position)
            self.max_deviation = max(self.max_deviation, float(np.nanmax(deviation, initial=0.0)))
        return reading

    def _try_enable(self, now_ns: int, reading: RobotReading) -> None:
        sample = self._tracks.sample(now_ns)
        reason = self._not_enabled_because(now_ns, reading, sample)
        if reason:
            self.waiting = reason
            return
        self._limiter.reset(reading.position)
        self._cycles.reset()
        self._jumps.reset()
        self._speed, self._acceleration = np.zeros(self._n), np.zeros(self._n)
        self.driver.enable(reading.position)
        self.state, self.waiting = SessionState.ENABLED, ""

    def _not_enabled_because(
        self, now_ns: int, reading: RobotReading, sample: StreamSample | None
    ) -> str:
        if self.fault:
            return f"a reset, after: {self.fault}"
        if reading.faults:
            return f"the robot: {', '.join(reading.faults)}"
        if sample is None or not self._fresh(now_ns):
            return "references"
        apart = np.abs(np.nan_to_num(sample.position - reading.position))
        i = int(np.argmax(apart))
        if apart[i] > self.config.enable_tolerance:
            return (
                f"references at the measured positions: {self.driver.joint_names[i]} is at "
                f"{reading.position[i]:.4f}, its reference at {sample.position[i]:.4f}"
            )
        if self.config.dry_run:
            return "nothing: dry run, read only"
        return "" if self._desired else "a request to enable the drives"

    def _fresh(self, now_ns: int) -> bool:
        received = self._command_ns
        return received is not None and now_ns - received <= self.config.command_timeout * 1e9

    def _advance(self, now_ns: int) -> None:
        """Compute and send the reference of this cycle."""
        limiter, cycles = self._limiter, self._cycles
        dt, time_ns = cycles.advance(now_ns, self._speed, self._acceleration)
        sample = self._tracks.sample(time_ns)
        by_velocity = np.ones(self._n, dtype=np.bool_)
        goal, speed = limiter.position.copy(), np.zeros(self._n)
        effort = np.full(self._n, math.nan)
        if self.state is not SessionState.ENABLED or sample is None or not self._fresh(now_ns):
            self._jumps.reset()
            if self.state is SessionState.ENABLED:
                self.waiting = f"references: none for {self.config.command_timeout:g} s; braked"
        elif jump := self._jumps.check(sample.position, limiter.position, now_ns, dt):
            self._hold(jump)
        else:
            self.waiting = ""
            positioned = np.isfinite(sample.position)
            by_velocity = ~positioned
            goal = np.where(positioned, sample.position, goal)
            speed = cycles.rate * np.nan_to_num(sample.velocity)
            effort = sample.effort
        self._move(by_velocity, goal, speed, dt)
        # Joints that are driven by velocity have no position reference.
        driven = by_velocity & ("velocity" in self.driver.modes) & self._wheels(sample)
        position = np.where(driven, math.nan, limiter.position)
        self.driver.write(StreamSample(position, limiter.velocity.copy(), effort))

    def _wheels(self, sample: StreamSample | None) -> Mask:
        """Return the joints without position limits whose reference is a velocity."""
        free = np.isinf(self.limits.lower) & np.isinf(self.limits.upper)
        return free if sample is None else free & ~np.isfinite(sample.position)

    def _move(self, by_velocity: Mask, goal: Array, speed: Array, dt: float) -> None:
        limiter = self._limiter
        self._acceleration, self._speed = (speed - self._speed) / dt, speed
        sample = TrajectorySample(goal, speed, (speed - limiter.velocity) / dt)
        on_stream = limiter.reachable(~by_velocity, sample, dt)
        if not (on_stream | limiter.resting(by_velocity, goal, speed)).all():
            limiter.step(by_velocity, goal, speed, dt, self._acceleration)
        if on_stream.any():
            limiter.set_state(on_stream, sample)

    def _hold(self, why: str) -> None:
        """Stop the robot until a reset; if it is not enabled, only set the waiting condition."""
        if self.state is not SessionState.ENABLED:
            self.waiting = self.waiting if self.fault else why
            return
        self.fault = why
        self.waiting = f"a reset, after: {why}"
        self.state = SessionState.HOLDING
        try:
            self.driver.hold()
        except LinkLost as error:
            self._disconnect(str(error))
        except DriverFault as error:
            self.fault = f"{why}; the command to hold failed: {error}"

    def _fail(self, error: DriverFault) -> None:
        """Hold the robot, or close a lost connection."""
        if isinstance(error, LinkLost):
            self._disconnect(str(error))
        else:
            self._hold(str(error))

    def _disconnect(self, why: str) -> None:
        if self.state is not SessionState.MONITORING:
            self.fault = self.fault or why
        self._end_connection(why)

    def _end_connection(self, why: str) -> None:
        """Close the connection; measured state and references are not valid any more."""
        self.driver.close()
        self._tracks.clear()
        self.reading = self._command_ns = None
        self.state, self.waiting = SessionState.DISCONNECTED, why
