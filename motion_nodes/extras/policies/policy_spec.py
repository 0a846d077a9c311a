# SPDX-License-Identifier: Apache-2.0
"""Interface of a learned policy: joints, observations, actions and timing."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidDescription, did_you_mean
from motion_nodes.typing import Array

MAX_PERIOD, MAX_DECIMATION, MAX_HISTORY = 10.0, 10_000, 1000
"""Bounds of a step's length [s], of its number of physics steps, and of a history."""


class ActionKind(enum.Enum):
    """Kind of command of an action term."""

    POSITION = "position"
    """Joint positions: ``offset + scale * action`` [rad or m]."""
    RELATIVE_POSITION = "relative position"
    """Changes of the measured joint positions [rad or m]."""
    VELOCITY = "velocity"
    """Joint velocities [rad/s or m/s]."""
    EFFORT = "effort"
    """Joint efforts [N m or N]."""
    BINARY = "binary"
    """One action; joints open at zero and above, and close below."""


@dataclass(frozen=True, eq=False)
class TrainedJoints:
    """Joints of the training environment, in the policy's order; NaN where a value is unknown."""

    names: tuple[str, ...]
    position: Array
    """Default positions [rad or m], shape (n,)."""
    velocity: Array
    """Default velocities [rad/s or m/s], shape (n,)."""
    stiffness: Array
    """Position gains [N m/rad or N/m], shape (n,)."""
    damping: Array
    """Velocity gains [N m s/rad or N s/m], shape (n,)."""
    armature: Array
    """[kg m^2 or kg], shape (n,)."""
    effort_limit: Array
    """[N m or N], shape (n,); inf: none."""
    velocity_limit: Array
    """[rad/s or m/s], shape (n,); inf: none."""

    def columns(self, joints: tuple[str, ...], where: str) -> NDArray[np.intp]:
        """Return the indices of joints, shape (len(joints),).

        Raises:
            InvalidDescription: a joint that is not among them.
        """
        missing = [name for name in joints if name not in self.names]
        if missing:
            raise InvalidDescription(
                f"{where}: joint '{missing[0]}' is not among the joints of the policy: "
                f"{', '.join(self.names)}."
            )
        return np.array([self.names.index(name) for name in joints], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class ActionTerm:
    """A part of the policy's output."""

    kind: ActionKind
    joints: tuple[str, ...]
    scale: Array
    """Factor of each action, shape (n,)."""
    offset: Array
    """Added to the scaled action, shape (n,); of binary actions the open positions."""
    lower: Array
    """Lower bounds of the result, shape (n,); of binary actions the closed positions."""
    upper: Array
    """Upper bounds of the result, shape (n,)."""

    @property
    def width(self) -> int:
        """Number of actions."""
        return 1 if self.kind is ActionKind.BINARY else len(self.joints)


@dataclass(frozen=True, eq=False)
class ObservationTerm:
    """A part of the policy's input: value, clipped, scaled, and its history, oldest first."""

    name: str
    """Function of the training environment, such as ``joint_pos_rel``."""
    width: int
    """Number of values at one time."""
    joints: tuple[str, ...] = ()
    """Joints whose values it contains; empty: not a term of joints."""
    offset: Array | None = None
    """Subtracted defaults, shape (width,); None: those of the trained joints."""
    scale: Array | None = None
    """Factor, shape () or (width,); None: 1."""
    clip: tuple[float, float] | None = None
    """Bounds before scaling."""
    history: int = 0
    """Number of past values, the newest included; 0 and 1: only the newest."""

    @property
    def full_width(self) -> int:
        """Number of values with the history."""
        return self.width * max(self.history, 1)


@dataclass(frozen=True, eq=False)
class PolicySpec:
    """Description of a policy.

    Raises:
        InvalidDescription: no terms, timing out of range, or undescribed joints.
    """

    source: str
    """File it was read from, for messages."""
    joints: TrainedJoints
    actions: tuple[ActionTerm, ...]
    observations: tuple[ObservationTerm, ...]
    physics_dt: float
    """Time step of the physics in training [s]."""
    decimation: int
    """Physics steps per step of the policy."""
    observation_clip: float = math.inf
    """Bound of the magnitude of every observation."""
    action_clip: float = math.inf
    """Bound of the magnitude of every raw action, before it is stored as the previous one."""
    max_command: Array | None = None
    """Range of the command in training: max magnitudes, shape (width of the command,)."""
    command_gain: Array | None = None
    """Factors of the command before it is observed, shape (width of the command,), for policies
    that undershoot their command; None: 1."""
    gait_period: float | None = None
    """Period of the gait [s], for policies that observe its phase; None: no phase."""
    balances: bool = False
    """Whether the policy is required for balance, so that it is not replaced by holding."""
    notes: tuple[str, ...] = field(default=())
    """Notes on assumed and ignored fields of the file."""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise InvalidDescription(f"{self.source}: {problem}")

    @property
    def period(self) -> float:
        """Time between two steps of the policy [s]."""
        return self.physics_dt * self.decimation

    @property
    def observation_width(self) -> int:
        """Number of inputs of the network."""
        return sum(term.full_width for term in self.observations)

    @property
    def action_width(self) -> int:
        """Number of outputs of the network."""
        return sum(term.width for term in self.actions)

    @property
    def commanded_joints(self) -> tuple[str, ...]:
        """Joints of all actions, in the order of the actions."""
        return tuple(name for term in self.actions for name in term.joints)

    def require_joints(self, joint_names: Sequence[str]) -> None:
        """Check that a robot has the joints that the policy commands and observes.

        Args:
            joint_names: joints of the robot.

        Raises:
            InvalidDescription: names those that are missing.
        """
        used = {*self.commanded_joints, *(j for t in self.observations for j in t.joints)}
        missing = [name for name in self.joints.names if name in used - set(joint_names)]
        if missing:
            raise InvalidDescription(
                f"{self.source}: the robot has no joint {', '.join(missing)}."
                f"{did_you_mean(missing[0], joint_names)}"
            )

    @property
    def command_limit(self) -> Array | None:
        """Max magnitudes of the command, which the gain brings to the range of training."""
        if self.max_command is None or self.command_gain is None:
            return self.max_command
        return self.max_command / self.command_gain

    @property
    def command_width(self) -> int:
        """Number of values of the command; 0: the policy has none."""
        whole = sum(term.width for term in self.observations if term.name in COMMANDS)
        parts = any(term.name in COMMAND_PARTS for term in self.observations)
        return max(whole, TWIST_WIDTH if parts else 0)

    def _problem(self) -> str | None:
        for what in ("actions", "observations"):
            if not getattr(self, what):
                return f"describes no {what}."
        if not (0.0 < self.physics_dt and self.period <= MAX_PERIOD):
            return f"its step takes {self.period:g} s; above 0 to {MAX_PERIOD:g} s are allowed."
        if self.gait_period is None and any(t.name in PHASES for t in self.observations):
            return "the policy observes the gait phase; gait_period is required."
        if self.gait_period is not None and not self.gait_period > 0.0:
            return f"gait_period of {self.gait_period:g} s must be above zero."
        if self.gait_period is not None and self.command_width != TWIST_WIDTH:
            return (
                f"gait_period needs a command of {TWIST_WIDTH} values (vx, vy, wz), not of "
                f"{self.command_width}."
            )
        scales = () if self.command_gain is None else (self.command_gain, self.max_command)
        for values in (values for values in scales if values is not None):
            if values.shape != (self.command_width,) or not (values > 0.0).all():
                return (
                    f"with command_gain, it and max_command must be {self.command_width} "
                    f"values above zero, as many as the command has, not {values.tolist()}."
                )
        names = self.commanded_joints
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            return f"joint '{twice[0]}' is commanded by more than one action."
        for joints in (names, *(term.joints for term in self.observations)):
            self.joints.columns(joints, self.source)
        return None


COMMANDS = ("generated_commands", "velocity_commands", "command")
"""Names of observation terms with the command of the user."""
COMMAND_PARTS = {"command_lin_vel": slice(0, 2), "command_ang_vel": slice(2, 3)}
"""Names of observation terms with a part of a twist, and which."""
PHASES = ("sin_phase", "cos_phase")
"""Names of observation terms with the phases of two feet."""
TWIST_WIDTH = 3
"""Width of a command that is a twist: vx, vy, wz."""
