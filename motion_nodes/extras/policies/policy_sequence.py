# SPDX-License-Identifier: Apache-2.0
"""A policy with its transitions: standing up, holding, sitting down, damping after faults.

Modes: damped -> standing up -> holding <-> running, and back by sitting down. Where the policy does
not run, joints are held by the drives' own gains. Faults of the policy or of its inputs
hold the last targets for a moment and then damp the motors; a fall damps them at once.
"""

from __future__ import annotations

import enum
import math
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.policies.network import Actuators, NetworkFault
from motion_nodes.extras.policies.observations import PolicyInputs, gravity_direction
from motion_nodes.extras.policies.runner import PolicyRunner, PolicyTargets
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

CLOSE = 0.5
"""Deviation from the default positions below which the robot stands up directly [rad or m]."""

STANDING = 0.1
"""Deviation below which a robot that the policy balances already stands [rad or m]."""

MAX_ENTERED = 10
"""Max number of modes that are kept until they are reported."""

STOP_TIME = 1.0
"""Time from a stop to holding, for policies that are never idle [s]."""


class PolicyMode(enum.Enum):
    """Mode of the joints."""

    DAMPED = "damped"
    """Damping only, without position control."""
    STANDING_UP = "standing up"
    HOLDING = "holding"
    """The default positions of the policy are held."""
    RUNNING = "running"
    """The policy commands the joints."""
    SITTING_DOWN = "sitting down"
    STOPPED = "stopped"
    """Standing up or sitting down was stopped; the current positions are held."""


@dataclass(frozen=True, kw_only=True)
class SequenceSettings:
    """Times and limits of the sequence.

    Raises:
        InvalidConfig: values out of range.
    """

    stand_up_time: float = setting(
        2.0, doc="Duration of standing up, from a sitting posture.", unit="s", gt=0.0, le=60.0
    )
    sit_down_time: float = setting(2.0, doc="Duration of sitting down.", unit="s", gt=0.0, le=60.0)
    blend_time: float = setting(
        0.4, doc="Duration of the transition from the policy to holding.", unit="s", gt=0.0, le=10.0
    )
    idle_time: float = setting(
        1.0,
        doc="Time with a zero command after which the policy is replaced by holding, unless the "
        "robot needs it to stand; 0: never.", unit="s", ge=0.0, le=3600.0,
    )  # fmt: skip
    fault_hold: float = setting(
        0.2,
        doc="Time for which the last position and velocity targets are held at a fault, before the "
        "motors are damped; efforts are not held.", unit="s", ge=0.0, le=10.0,
    )  # fmt: skip
    max_tilt: float = setting(
        1.0, doc="Inclination of the base above which the robot has fallen.", unit="rad", gt=0.0,
        le=math.pi,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_settings(self)


class SequenceOutput(NamedTuple):
    """Command to the drives of all joints; NaN: none."""

    targets: PolicyTargets
    trained_stiffness: float
    """Interpolation of the stiffness from that of the drives, 0, to that of training, 1."""
    trained_damping: float
    """Interpolation of the damping from that of the drives, 0, to that of training, 1."""


@dataclass(frozen=True, eq=False)
class _Motion:
    """An interpolation of joint positions through waypoints."""

    points: list[Array]
    begin: float
    duration: float
    """Duration of each piece."""

    def at(self, now: float) -> tuple[Array, bool]:
        """Return the positions, and whether the end is reached."""
        s = (now - self.begin) / self.duration
        i = min(int(s), len(self.points) - 2)
        u = min(s - i, 1.0)
        blend = u * u * (3.0 - 2.0 * u)
        return self.points[i] + blend * (self.points[i + 1] - self.points[i]), s >= len(
            self.points
        ) - 1


class PolicySequence:
    """Executes a policy safely; call :meth:`step` at a fixed rate."""

    def __init__(
        self,
        runner: PolicyRunner,
        dt: float,
        limits: tuple[Array, Array],
        *,
        sitting: Array | None = None,
        actuators: Actuators | None = None,
        settings: SequenceSettings | None = None,
    ) -> None:
        """Start damped.

        Args:
            runner: the policy.
            dt: period of the steps [s]; the policy's period is a multiple of it.
            limits: lower and upper position limits [rad or m], both of shape (n,).
            sitting: positions of the sitting posture, shape (n,); None: none, the motors are damped
                in the standing posture.
            actuators: compute efforts from position targets; None: position control of the drives.
            settings: None: defaults.

        Raises:
            InvalidConfig: a period that does not divide that of the policy.
        """
        ratio = runner.period / dt
        self._every = round(ratio)
        if self._every < 1 or abs(ratio - self._every) > 1e-3 * ratio:
            raise InvalidConfig(
                f"a step of {dt:g} s does not divide the policy's period of {runner.period:g} s"
            )
        self.settings = settings or SequenceSettings()
        self._runner, self._dt, self._limits = runner, dt, limits
        self._sitting, self._actuators = sitting, actuators
        self._now = 0.0
        self._mode = PolicyMode.DAMPED
        self._entered: deque[tuple[PolicyMode, str]] = deque(maxlen=MAX_ENTERED)
        self.reason = "not started"
        """Why the motors are damped, or the current fault of the policy; empty if none."""
        self.inference_time = 0.0
        """Duration of the last evaluation of the policy [s]."""
        self.evaluations = 0
        """Number of evaluations of the policy."""
        self._targets = PolicyTargets(*(np.full(limits[0].shape, np.nan) for _ in range(3)))
        self._motion: _Motion | None = None
        self._count = 0
        self._idle = self._faulty = 0.0
        self._stopping = False
        self._stiffness = self._damping = 0.0

    @property
    def mode(self) -> PolicyMode:
        """Mode of the joints."""
        return self._mode

    def take_entered(self) -> list[tuple[PolicyMode, str]]:
        """Return the modes entered since the last call with their reasons, oldest first."""
        entered = list(self._entered)
        self._entered.clear()
        return entered

    # ---- requests

    def stand_up(self, inputs: PolicyInputs) -> None:
        """Move to the default positions and hold them; by the policy if it balances the robot.

        Raises:
            InvalidCommand: joint positions unknown, or the robot has fallen over.
        """
        position = np.asarray(inputs.position, dtype=np.float64)
        if not np.isfinite(position).all():
            raise InvalidCommand("the joint positions are not known")
        if self._fallen(inputs):
            raise InvalidCommand(
                "the inclination of the base is too large to stand up; place the robot on its feet"
            )
        default = self._clipped(self._runner.default_position(position))
        points = [position, default]
        if self._sitting is not None and np.abs(position - default).max() > CLOSE:
            points.insert(1, self._sitting)
        stands = self._runner.spec.balances and np.abs(position - default).max() < STANDING
        duration = self.settings.blend_time if stands else self.settings.stand_up_time
        self._begin(PolicyMode.STANDING_UP, points, duration)

    def sit_down(self, inputs: PolicyInputs) -> None:
        """Move to the sitting posture, if there is one, and damp the motors there.

        Raises:
            InvalidCommand: the motors are damped already.
        """
        if self.mode is PolicyMode.DAMPED:
            raise InvalidCommand("the motors are damped already")
        position = np.asarray(inputs.position, dtype=np.float64)
        if self._sitting is None or not np.isfinite(position).all():
            self.damp("sat down")
            return
        self._begin(PolicyMode.SITTING_DOWN, [position, self._sitting], self.settings.sit_down_time)

    def run(self) -> None:
        """Let the policy command the joints.

        Raises:
            InvalidCommand: the robot does not stand.
        """
        if self.mode is PolicyMode.RUNNING:
            return
        if self.mode is not PolicyMode.HOLDING:
            raise InvalidCommand(f"the robot is {self.mode.value}; it must stand first")
        self._runner.reset()
        if self._actuators is not None:
            self._actuators.reset()
        self._count, self._idle, self._faulty = 0, 0.0, 0.0
        self._enter(PolicyMode.RUNNING)

    def hold(self, inputs: PolicyInputs) -> None:
        """Replace the policy by holding its default positions, with a short transition."""
        if self.mode is not PolicyMode.RUNNING:
            return
        position = np.asarray(inputs.position, dtype=np.float64)
        target = self._clipped(self._runner.default_position(position))
        self._begin(PolicyMode.HOLDING, [position, target], self.settings.blend_time)

    def stop(self) -> None:
        """Bring the robot to rest: the command must be zero from now on.

        The policy is replaced by holding after ``idle_time``, or after a second if that is 0,
        unless the robot needs it to stand.
        """
        self._stopping = True
        if self.mode in (PolicyMode.STANDING_UP, PolicyMode.SITTING_DOWN):
            self._motion = None
            self._enter(PolicyMode.STOPPED)

    @property
    def at_rest(self) -> bool:
        """Whether neither the policy nor a motion moves the joints, except to keep balance."""
        running = self.mode is PolicyMode.RUNNING
        balancing = self._runner.spec.balances and self._idle >= STOP_TIME
        return self._motion is None and (not running or balancing)

    def damp(self, reason: str) -> None:
        """Damp the motors, with the reason as text."""
        self.reason, self._motion = reason, None
        self._enter(PolicyMode.DAMPED)

    # ---- loop

    def step(
        self, inputs: PolicyInputs, *, moving: bool, fault: str = "", evaluate: bool = True
    ) -> SequenceOutput:
        """Advance by one period.

        Args:
            inputs: measurements and command.
            moving: whether the command is not zero; starts the policy, and keeps it running.
            fault: why the measurements are unusable; empty: they are usable.
            evaluate: whether the policy may be evaluated if due; else its last targets are held.

        Returns:
            The reference of the joints.
        """
        self._now += self._dt
        fallen = not fault and self._fallen(inputs)
        if not fault and self.mode not in (PolicyMode.DAMPED, PolicyMode.RUNNING):
            self.reason = ""
        if fallen and self.mode is not PolicyMode.DAMPED:
            self.damp("the robot fell")
        elif fault and self.mode in (PolicyMode.RUNNING, PolicyMode.STANDING_UP):
            self._hold_fault(fault)
        elif self.mode is PolicyMode.RUNNING:
            self._play(inputs, moving, evaluate)
        elif self.mode is PolicyMode.HOLDING and moving and self._motion is None and not fault:
            self.run()
            self._play(inputs, moving, evaluate)
        if self._motion is not None and not (fault and self.mode is PolicyMode.STANDING_UP):
            self._follow(self._motion)
        self._blend_gains()
        targets = self._targets
        if self.mode is PolicyMode.DAMPED:
            nan = np.full(self._limits[0].shape, np.nan)
            targets = PolicyTargets(nan, np.where(self._runner.commanded, 0.0, np.nan), nan)
        return SequenceOutput(targets, self._stiffness, self._damping)

    def _blend_gains(self) -> None:
        """Follow the gains of the mode; they increase gradually.

        Drives receive gains and targets on different channels: stiff gains must not be applied to
        targets for soft gains, which are far from the joints.
        """
        if self.mode is PolicyMode.RUNNING:
            self._stiffness = self._damping = 1.0
        elif self.mode is PolicyMode.DAMPED:
            # The stiffness has no effect, and remains.
            self._damping = 0.0
        else:
            change = self._dt / self.settings.blend_time
            self._stiffness = max(self._stiffness - change, 0.0)
            self._damping = max(self._damping - change, 0.0)

    def _play(self, inputs: PolicyInputs, moving: bool, evaluate: bool) -> None:
        """Evaluate the policy if it is due; hold and damp at its faults."""
        if self._count % self._every == 0 and not evaluate:
            return
        try:
            if self._count % self._every == 0:
                begin = time.perf_counter()
                self._policy = self._runner.step(inputs)
                self.inference_time = time.perf_counter() - begin
                self.evaluations += 1
            self._count += 1
            self._targets = self._actuated(self._policy, inputs)
        except (InvalidCommand, NetworkFault) as error:
            self._hold_fault(str(error))
            return
        self._faulty, self.reason = 0.0, ""
        # A command that decays during a stop is not a new command.
        self._stopping = self._stopping and not (moving and self._idle > 0.0)
        self._idle = 0.0 if moving else self._idle + self._dt
        idle_time = self.settings.idle_time or (STOP_TIME if self._stopping else math.inf)
        if self._idle >= idle_time and not self._runner.spec.balances:
            self.hold(inputs)

    def _actuated(self, policy: PolicyTargets, inputs: PolicyInputs) -> PolicyTargets:
        """Return the drives' targets: positions within limits, or efforts of the actuators."""
        position = self._clipped(policy.position)
        if self._actuators is None:
            return policy._replace(position=position)
        columns = np.flatnonzero(np.isfinite(position))
        error = position - np.asarray(inputs.position)
        speed = np.asarray(inputs.velocity, dtype=np.float64)
        out = PolicyTargets(*(np.full(position.shape, np.nan) for _ in range(3)))
        out.effort[columns] = self._actuators.efforts(error[columns], speed[columns])
        return out

    def _hold_fault(self, fault: str) -> None:
        """Hold the last targets, and damp the motors if the fault lasts; efforts are not held."""
        self.reason = fault
        self._faulty += self._dt
        if self._faulty > self.settings.fault_hold or not np.isfinite(self._targets[:2]).any():
            self.damp(fault)

    def _follow(self, motion: _Motion) -> None:
        position, ended = motion.at(self._now)
        mask = self._runner.commanded
        nan = np.full(position.shape, np.nan)
        self._targets = PolicyTargets(np.where(mask, position, np.nan), nan, nan)
        self._faulty = 0.0
        if not ended:
            return
        self._motion = None
        if self.mode is PolicyMode.STANDING_UP:
            self._enter(PolicyMode.HOLDING)
            if self._runner.spec.balances:
                self.run()
        elif self.mode is PolicyMode.SITTING_DOWN:
            self.damp("sat down")

    def _begin(self, mode: PolicyMode, points: list[Array], duration: float) -> None:
        self.reason, self._faulty = "", 0.0
        self._motion = _Motion(points, self._now, duration / (len(points) - 1))
        self._enter(mode)

    def _enter(self, mode: PolicyMode) -> None:
        if mode is not self._mode:
            self._mode = mode
            self._entered.append((mode, self.reason))

    def _clipped(self, position: Array) -> Array:
        return np.clip(position, *self._limits)

    def _fallen(self, inputs: PolicyInputs) -> bool:
        if inputs.R_WB is None:
            return False
        return bool(-gravity_direction(inputs.R_WB)[2] < math.cos(self.settings.max_tilt))
