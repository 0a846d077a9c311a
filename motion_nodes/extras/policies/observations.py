# SPDX-License-Identifier: Apache-2.0
"""Observation terms: their values from measurements, and a registry for others.

Names and conventions are those of Isaac Lab's ``isaaclab.envs.mdp.observations``; vectors of the
base are expressed in its own frame, unless the name ends with ``_w``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.policies.policy_spec import (
    COMMAND_PARTS,
    COMMANDS,
    ObservationTerm,
    TrainedJoints,
)
from motion_nodes.typing import Array

GRAVITY_W = np.array([0.0, 0.0, -1.0])
"""Direction of gravity in the world."""


@dataclass(eq=False)
class PolicyInputs:
    """Measurements and command at one time; only observed ones are required."""

    position: ArrayLike
    """Joint positions [rad or m], shape (n,), in the order of the runner's joints."""
    velocity: ArrayLike
    """Joint velocities [rad/s or m/s], shape (n,)."""
    command: ArrayLike = ()
    """Command, such as vx, vy [m/s] and wz [rad/s] in the base frame, shape (m,)."""
    R_WB: ArrayLike | None = None
    """Orientation of the base in the world, shape (3, 3)."""
    angular_velocity: ArrayLike | None = None
    """Of the base, in the base [rad/s], shape (3,)."""
    linear_velocity: ArrayLike | None = None
    """Of the base, in the base [m/s], shape (3,)."""
    height: float | None = None
    """Height of the base in the world [m]."""
    phase: ArrayLike | None = None
    """Phases of left and right foot [rad], shape (2,); set by the runner."""
    terms: Mapping[str, ArrayLike] = field(default_factory=dict)
    """Values of other terms by name, such as ``height_scan``."""


@dataclass(frozen=True)
class TermContext:
    """Context in which a term is created."""

    term: ObservationTerm
    columns: NDArray[np.intp]
    """Its joints in the arrays of :class:`PolicyInputs`; all trained joints if it names none."""
    position: Array
    """Default positions of these joints."""
    velocity: Array
    """Default velocities of these joints."""


Reader = Callable[[PolicyInputs, Array], ArrayLike | None]
"""Returns the values of a term from the inputs and the previous raw action; None: not given."""
TermFactory = Callable[[TermContext], Reader]


@dataclass(frozen=True)
class TermKind:
    """A registered kind of observation term."""

    source: str
    """Source of its values: ``joints``, ``imu``, ``odometry``, ``command``, ``action`` or
    ``terms``.
    """
    make: TermFactory


TERMS: dict[str, TermKind] = {}
"""Registered kinds by the names of their terms."""

SOURCES = ("joints", "imu", "odometry", "command", "action", "terms")


def register_term(name: str, source: str, make: TermFactory) -> None:
    """Register a kind of observation term.

    Args:
        name: name of the term in descriptions.
        source: of its values, see :class:`TermKind`.
        make: returns its reader for a context.

    Raises:
        InvalidConfig: the name is registered, or the source is unknown.
    """
    if name in TERMS:
        raise InvalidConfig(f"observation term '{name}' is registered already")
    if source not in SOURCES:
        raise InvalidConfig(f"source '{source}' is none of {', '.join(SOURCES)}")
    TERMS[name] = TermKind(source, make)


def source_of(name: str) -> str:
    """Return the source of a term's values: ``terms`` (given by name) for unregistered ones."""
    return TERMS[name].source if name in TERMS else "terms"


class BoundTerm:
    """One term of a policy's observation, with its history."""

    def __init__(
        self, term: ObservationTerm, trained: TrainedJoints, joints: Sequence[str]
    ) -> None:
        """Bind a term to the joints of a robot.

        Args:
            term: the term.
            trained: joints in training.
            joints: joints of the inputs' arrays; must contain those of the term.
        """
        self.term = term
        names = term.joints or trained.names
        rows = trained.columns(names, term.name)
        columns = np.array([list(joints).index(name) for name in names], dtype=np.intp)
        context = TermContext(term, columns, trained.position[rows], trained.velocity[rows])
        kind = TERMS.get(term.name)
        self._read: Reader = lambda inputs, _: inputs.terms.get(term.name)
        if kind is not None:
            self._read = kind.make(context)
        self._past: deque[Array] = deque(maxlen=max(term.history, 1))

    def reset(self) -> None:
        """Clear the history; it is filled with the next value."""
        self._past.clear()

    def extended(self, now: Array) -> Array:
        """Extend the history by the values of :meth:`current`; return it, shape (full_width,)."""
        missing = self._past.maxlen or 1
        self._past.extend([now] * (1 if self._past else missing))
        return now if missing == 1 else np.concatenate(self._past)

    def current(self, inputs: PolicyInputs, previous: Array) -> Array:
        """Return the current values, clipped and scaled, shape (width,).

        Raises:
            InvalidCommand: the value is not given, has another width, or is not finite.
        """
        term = self.term
        raw = self._read(inputs, previous)
        if raw is None:
            raise InvalidCommand(
                f"missing observation {term.name} ({source_of(term.name)})", field=term.name
            )
        values = np.asarray(raw, dtype=np.float64).reshape(-1)
        if values.shape != (term.width,):
            raise InvalidCommand(f"{term.name} has {values.size} values; it must have {term.width}")
        if not np.isfinite(values).all():
            raise InvalidCommand(f"{term.name} has values that are not finite")
        if term.clip is not None:
            values = values.clip(*term.clip)
        return values if term.scale is None else values * term.scale


def _joint_position(context: TermContext) -> Reader:
    columns = context.columns
    return lambda inputs, _: np.asarray(inputs.position)[columns]


def _joint_velocity(context: TermContext) -> Reader:
    columns = context.columns
    return lambda inputs, _: np.asarray(inputs.velocity)[columns]


def _relative_position(context: TermContext) -> Reader:
    columns = context.columns
    given = context.term.offset
    offset = context.position if given is None else given
    return lambda inputs, _: np.asarray(inputs.position)[columns] - offset


def _relative_velocity(context: TermContext) -> Reader:
    columns = context.columns
    given = context.term.offset
    offset = context.velocity if given is None else given
    return lambda inputs, _: np.asarray(inputs.velocity)[columns] - offset


def gravity_direction(R_WB: ArrayLike) -> Array:
    """Return the direction of gravity in the base, ``R_WB^T [0, 0, -1]``, shape (3,)."""
    return np.asarray(np.asarray(R_WB, dtype=np.float64).T @ GRAVITY_W)


def _gravity(_: TermContext) -> Reader:
    return lambda inputs, _: None if inputs.R_WB is None else gravity_direction(inputs.R_WB)


def _in_world(field_name: str) -> TermFactory:
    def make(_: TermContext) -> Reader:
        def read(inputs: PolicyInputs, _: Array) -> ArrayLike | None:
            value = getattr(inputs, field_name)
            if value is None or inputs.R_WB is None:
                return None
            return np.asarray(inputs.R_WB) @ np.asarray(value, dtype=np.float64)

        return read

    return make


def _field(name: str) -> TermFactory:
    return lambda context: lambda inputs, _: getattr(inputs, name)


def _part(values: slice) -> TermFactory:
    return lambda context: lambda inputs, _: np.asarray(inputs.command)[values]


def _of_phase(function: Callable[[ArrayLike], Array]) -> TermFactory:
    return lambda context: (
        lambda inputs, _: None if inputs.phase is None else function(inputs.phase)
    )


def _previous_action(_: TermContext) -> Reader:
    return lambda _, previous: previous


register_term("base_lin_vel", "odometry", _field("linear_velocity"))
register_term("root_lin_vel_w", "odometry", _in_world("linear_velocity"))
register_term("base_pos_z", "odometry", _field("height"))
for _name in ("base_ang_vel", "imu_ang_vel"):
    register_term(_name, "imu", _field("angular_velocity"))
register_term("root_ang_vel_w", "imu", _in_world("angular_velocity"))
for _name in ("projected_gravity", "imu_projected_gravity"):
    register_term(_name, "imu", _gravity)
for _name in COMMANDS:
    register_term(_name, "command", _field("command"))
for _name, _values in COMMAND_PARTS.items():
    register_term(_name, "command", _part(_values))
register_term("sin_phase", "command", _of_phase(np.sin))
register_term("cos_phase", "command", _of_phase(np.cos))
register_term("joint_pos", "joints", _joint_position)
register_term("joint_vel", "joints", _joint_velocity)
register_term("joint_pos_rel", "joints", _relative_position)
register_term("joint_vel_rel", "joints", _relative_velocity)
for _name in ("last_action", "actions"):
    register_term(_name, "action", _previous_action)
