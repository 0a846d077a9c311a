# SPDX-License-Identifier: Apache-2.0
"""Gripper: motion until arrival or stall, and grip force with detection of slip and loss.

Fingers close with a low force. Once they are in contact with an object, the force increases if the
object slips or its load requires more friction:

    force >= load / (fingers * friction)

A slip is a motion of the closed fingers; a slip under a known load also updates the coefficient of
friction. The object is lost when the fingers continue to close, or no longer push.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.core.robot.tree import JointKind, KinematicTree
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

CONTACT_TIME = 0.1
"""Time at rest after which pushing fingers are in contact [s]."""
RAISE = 1.5
"""Factor of the force after a slip."""
MARGIN = 1.2
"""Safety factor of the force required by a load."""
SETTLING = 0.15
"""Time after a contact or a slip in which fingers may move [s]: objects and drives are compliant.
"""
LOAD_TIME = 0.1
"""Time constant of the filter of the load [s]."""
PUSHING = 0.5
"""Fraction of the force limit above which resting fingers are in contact."""
LOOSE = 0.3
"""Fraction of the force limit below which fingers no longer push."""
CENTRING = 1e4
"""Stiffness that centres two fingers [N/m or N m/rad]."""
MAX_CENTRING = 0.5
"""Max share of the effort by which it is reduced for this."""
PATIENCE = 0.2
"""Min duration of the loss of an object, or of an excessive load [s]."""


class GripStatus(enum.Enum):
    """Status of a gripper motion."""

    MOVING = "moving"
    REACHED = "reached"
    STALLED = "stalled"
    """At rest short of its goal: it holds an object, or is blocked."""
    TIMED_OUT = "timed out"


@dataclass(frozen=True, kw_only=True)
class GripperConfig:
    """Criteria for arrival and stall; names as in ros2_controllers' gripper controllers."""

    lower: float
    """Lower position limit [m or rad]."""
    upper: float
    """Upper position limit [m or rad]."""
    goal_tolerance: float = setting(
        0.002, doc="Position tolerance of gripper goals.", unit="m or rad", gt=0.0, le=1.0
    )
    stall_velocity_threshold: float = setting(
        0.001, doc="Velocity below which a gripper is at rest.", unit="m/s or rad/s", gt=0.0, le=1.0
    )
    stall_timeout: float = setting(
        0.3,
        doc="Time at rest away from the goal after which the gripper is stalled.",
        unit="s",
        gt=0.0,
        le=60.0,
    )
    timeout: float = setting(10.0, doc="Timeout of a motion.", unit="s", gt=0.0)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)) or self.lower > self.upper:
            raise InvalidConfig(f"gripper limits {self.lower} to {self.upper} are not a range")
        check_settings(self)


class FingerGap:
    """Distance between the fingers of a gripper, from its joint positions.

    It is 0 in the closed state, whichever way the joints close. Each driven joint moves its own
    finger and those of the joints that mimic it: a hand whose second finger follows the first opens
    by twice the travel of its joint. The distance of fingers that turn is an angle.
    """

    def __init__(self, tree: KinematicTree, joints: Sequence[str], closed: Array) -> None:
        """Find what moves the fingers.

        Args:
            tree: the robot.
            joints: driven joints of the gripper.
            closed: their positions where it is closed [m or rad], shape (n,).
        """
        self._closed = np.asarray(closed)
        self._travel = np.zeros(len(joints))
        # Of hands with more driven joints, only the first one tells how far they are open.
        for k, name in enumerate(joints if len(joints) <= 2 else joints[:1]):
            fingers = [
                joint
                for joint in tree.members[name]
                if joint.name == name or joint.kind is JointKind.PRISMATIC
            ]
            self._travel[k] = sum(abs(joint.law.multiplier) for joint in fingers)

    def at(self, q: ArrayLike) -> float:
        """Return the distance of the fingers [m or rad].

        Args:
            q: positions of the driven joints [m or rad], shape (n,), or the same for all.
        """
        return abs(float(self._travel @ (np.asarray(q) - self._closed)))


class GripperMove:
    """One motion of a gripper to a position."""

    def __init__(self, goal: float, config: GripperConfig) -> None:
        """Begin a motion to ``goal`` [m or rad].

        Args:
            goal: target position [m or rad].
            config: limits and criteria.

        Raises:
            InvalidCommand: not finite, or outside the limits by more than the goal tolerance.
        """
        if not math.isfinite(goal):
            raise InvalidCommand(
                f"gripper position is {goal}; give a finite number", field="position"
            )
        slack = config.goal_tolerance
        if not config.lower - slack <= goal <= config.upper + slack:
            raise InvalidCommand(
                f"gripper position {goal:g} is outside its limits {config.lower:g} to "
                f"{config.upper:g}",
                field="position",
            )
        self.goal = min(max(goal, config.lower), config.upper)
        self.status = GripStatus.MOVING
        self._config = config
        self._standing = 0.0
        """Time at rest [s]."""
        self._rest = math.nan
        """Position at its beginning [m or rad]."""
        self._elapsed = 0.0

    def wait(self, dt: float) -> None:
        """Count a time without measurements [s] towards the timeout."""
        self._elapsed += dt

    def evaluate(
        self,
        position: float,
        velocity: float,
        dt: float,
        *,
        pushing: bool = False,
        reference: float = math.nan,
    ) -> GripStatus:
        """Process a measurement and return the status.

        Args:
            position: position of the fingers [m or rad].
            velocity: velocity of the fingers [m/s or rad/s].
            dt: time since the last measurement [s].
            pushing: whether all fingers push towards the goal, which shortens the stall timeout.
            reference: commanded position of the fingers [rad or m]. Until it has passed them they
                cannot stall: after a grasp it returns from behind the surface of the object.
        """
        if self.status is not GripStatus.MOVING:
            return self.status
        config = self._config
        self._elapsed += dt
        behind = math.copysign(1.0, self.goal - position) * (position - reference)
        waiting = behind > config.goal_tolerance
        # Fingers whose references are late pause again and again: their velocity is often zero.
        moved = abs(position - self._rest) > config.goal_tolerance
        standing = not (waiting or moved) and abs(velocity) < config.stall_velocity_threshold
        if not standing or math.isnan(self._rest):
            self._rest = position
        self._standing = self._standing + dt if standing else 0.0
        if abs(position - self.goal) <= config.goal_tolerance:
            self.status = GripStatus.REACHED
        elif self._standing >= (CONTACT_TIME if pushing else config.stall_timeout):
            self.status = GripStatus.STALLED
        elif self._elapsed > config.timeout:
            self.status = GripStatus.TIMED_OUT
        return self.status


class GraspState(enum.Enum):
    """State of a grasp."""

    EMPTY = "empty"
    """No object is held."""
    HOLDING = "holding"
    OVERLOADED = "overloaded"
    """The object slips, or its load requires more than the max force."""
    LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class GraspSettings:
    """Forces and thresholds; distances are per finger."""

    grasp_force: float = setting(
        0.0,
        doc="Initial grip effort of each finger; increased up to max_effort of the goal if the "
        "object slips or is heavy. 0: max_effort from the start.",
        unit="N or N m", ge=0.0, le=1e4,
    )  # fmt: skip
    friction: float = setting(
        0.25,
        doc="Assumed coefficient of friction between fingers and objects, which determines the min "
        "effort of the fingers for a load. An object with less than five sixths of it slips before "
        "its load is measured.",
        gt=0.0, le=10.0,
    )  # fmt: skip
    slip_distance: float = setting(
        0.0005,
        doc="Closing motion of fingers in contact that counts as a slip of the object.",
        unit="m or rad", gt=0.0, le=1.0,
    )  # fmt: skip
    loss_distance: float = setting(
        0.004,
        doc="Closing motion of fingers in contact that counts as the loss of the object.",
        unit="m or rad", gt=0.0, le=1.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check all values; raises InvalidConfig."""
        check_settings(self)


class GraspForce:
    """Force limit of the fingers of one grasp."""

    def __init__(self, settings: GraspSettings, max_force: float, fingers: int) -> None:
        """Start closing.

        Args:
            settings: forces and thresholds.
            max_force: max effort of each finger [N or N m]; may be infinite.
            fingers: number of fingers.
        """
        self._settings, self._fingers = settings, fingers
        self._max = max_force
        self.force = min(settings.grasp_force or max_force, max_force)
        """Effort limit of each finger [N or N m]."""
        self.friction = settings.friction
        """Coefficient of friction, updated by slips."""
        self.state = GraspState.EMPTY
        self.reason = ""
        """Reason of an overload or a loss."""
        self.slips = 0
        self.load = math.nan
        """Filtered load [N]; NaN: not measured."""
        self._direction = -1.0
        self._contact = self._held = self._apart = math.nan
        self._settle = self._loose = self._excess = 0.0
        self._pushed = 0.0
        """Grip effort after the contact."""

    @property
    def holding(self) -> bool:
        """Whether an object is held."""
        return self.state in (GraspState.HOLDING, GraspState.OVERLOADED)

    @property
    def settling(self) -> bool:
        """Whether the fingers have just come into contact, or the object has just slipped."""
        return self.holding and self._settle > 0.0

    def pushing(self, effort: float) -> bool:
        """Return whether an effort of resting fingers [N or N m], without sign, is a contact."""
        return effort >= PUSHING * self.force

    def hold(self, opening: float, direction: float) -> None:
        """Start holding: the fingers are at rest in contact.

        Args:
            opening: mean position of the fingers [m or rad].
            direction: sign of the closing motion.
        """
        self.state, self._direction = GraspState.HOLDING, math.copysign(1.0, direction)
        self._contact = self._held = opening
        self._apart = math.nan
        self._settle, self._pushed = SETTLING, 0.0

    def step(
        self, opening: float, effort: float, load: float, dt: float, certain: float = math.nan
    ) -> None:
        """Process a measurement.

        Args:
            opening: mean position of the fingers [m or rad].
            effort: min magnitude of their efforts [N or N m]; NaN: not measured.
            load: force on the tool without its own weight [N]; NaN: not measured.
            dt: time since the last measurement [s].
            certain: lower bound of the load [N], used to detect an overload; NaN: unknown.
        """
        if not self.holding or dt <= 0.0:
            return
        known = 0.0 if math.isnan(self.load) else self.load
        self.load = known + (load - known) * -math.expm1(-dt / LOAD_TIME)
        if self._settle > 0.0:
            self._settle -= dt
            self._held, self._pushed = opening, max(self._pushed, effort)
            if not self._lost(opening, effort, dt):
                self._follow_load(certain, dt)
            return
        if self._lost(opening, effort, dt):
            return
        if self._direction * (opening - self._held) > self._settings.slip_distance:
            self._slip(opening)
        self._follow_load(certain, dt)

    def efforts(self, positions: Array) -> Array:
        """Return the effort limits of the fingers [N or N m], shape (n,).

        Two fingers that push with the same force give way to any load along their motion. Like
        fingers that one drive moves, they are centred: the one that follows pushes less, as by a
        spring between both.

        Args:
            positions: of the fingers [m or rad], shape (n,).
        """
        limits = np.full(len(positions), self.force)
        if len(positions) != 2 or not self.holding or not math.isfinite(self.force):
            return limits
        apart = float(positions[0] - positions[1])
        if self.settling or math.isnan(self._apart):
            self._apart = apart
        follows = 0.5 * self._direction * (apart - self._apart)
        less = min(2.0 * CENTRING * abs(follows), MAX_CENTRING * self.force)
        limits[0 if follows > 0.0 else 1] -= less
        return limits

    # ---- internals

    def _lost(self, opening: float, effort: float, dt: float) -> bool:
        closed = self._direction * (opening - self._contact)
        bound = min(self.force, self._pushed)
        self._loose = self._loose + dt if effort < LOOSE * bound else 0.0
        if closed <= self._settings.loss_distance and self._loose < PATIENCE:
            return False
        self.state = GraspState.LOST
        self.reason = (
            f"the held object was lost: the fingers closed by {closed:.3g} m or rad and push with "
            f"{effort:.3g} N or N m"
        )
        return True

    def _slip(self, opening: float) -> None:
        self.slips += 1
        carried = self._fingers * self.force
        if self.load > 0.0 and math.isfinite(carried):
            self.friction = min(self.friction, max(self.load / carried, 0.05))
        if self.force >= self._max:
            self.state = GraspState.OVERLOADED
            self.reason = f"the held object slips at the max effort of {self._max:g} N or N m"
        self.force = min(RAISE * self.force, self._max)
        self._held, self._settle = opening, SETTLING

    def _follow_load(self, certain: float, dt: float) -> None:
        share = 1.0 / (self._fingers * self.friction)
        needed = MARGIN * self.load * share
        if needed > self.force < self._max:  # NaN: unknown
            self.force = min(needed, self._max)
            self._settle = SETTLING
        self._excess = self._excess + dt if certain * share > self._max else 0.0
        if self._excess > PATIENCE:
            self.state = GraspState.OVERLOADED
            self.reason = (
                f"a load of {certain:.3g} N requires an effort of {certain * share:.3g} N or N m "
                f"of each finger; max_effort is {self._max:g}"
            )
