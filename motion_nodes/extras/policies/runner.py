# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a policy: joint targets from measurements, once per period.

Walking policies may observe sines and cosines of the phases of two feet. Commands are limited to
their range in training, and in their rate of change.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from motion_nodes.core.robot.bounds import finite_numbers
from motion_nodes.core.robot.limits import joint_indices
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.extras.policies.network import NetworkFault, PolicyNetwork, check_widths
from motion_nodes.extras.policies.observations import BoundTerm, PolicyInputs, source_of
from motion_nodes.extras.policies.policy_spec import ActionKind, ActionTerm, PolicySpec
from motion_nodes.typing import Array

STANDING = 0.01
"""Command below which the robot stands on both feet [m/s, rad/s]."""


class GaitPhase:
    """Phases of two feet, half a period apart; both are pi while the command is zero."""

    def __init__(self, step: float) -> None:
        """Start with the left foot.

        Args:
            step: change of the phases in one step of the policy [rad].
        """
        self._step = step
        self.reset()

    def reset(self) -> None:
        """Restart with the left foot's step."""
        self._phase = np.array([0.0, math.pi])
        self._standing = False

    def advance(self, command: ArrayLike) -> Array:
        """Return the phases of left and right foot [rad] for the next step, shape (2,).

        Args:
            command: vx, vy [m/s] and wz [rad/s], shape (3,).
        """
        vx, vy, wz = np.asarray(command, dtype=np.float64)
        if math.hypot(vx, vy) < STANDING and abs(wz) < STANDING:
            self._standing = True
            return np.full(2, math.pi)
        if self._standing:
            self.reset()
        else:
            self._phase = (self._phase + self._step + math.pi) % (2.0 * math.pi) - math.pi
        return self._phase.copy()


class PolicyTargets(NamedTuple):
    """Targets of all joints, in the order of the runner's joints; NaN: none."""

    position: Array
    """[rad or m], shape (n,)."""
    velocity: Array
    """[rad/s or m/s], shape (n,)."""
    effort: Array
    """[N m or N], shape (n,)."""


class _BoundAction(NamedTuple):
    term: ActionTerm
    columns: NDArray[np.intp]
    begin: int
    """Index of its first value in the raw action."""


class PolicyRunner:
    """A learned policy of one robot: observation, network and action, with their state."""

    def __init__(
        self, spec: PolicySpec, network: PolicyNetwork, joint_names: Sequence[str]
    ) -> None:
        """Bind a policy to the joints of a robot.

        Args:
            spec: description of the policy.
            network: its network; its state is reset.
            joint_names: joints of the inputs and targets, in their order: those of the policy and
                any others, in any order.

        Raises:
            InvalidDescription: joints of the policy are missing in the robot, or the network has
                other widths than its description.
        """
        self.spec = spec
        self.network = network
        self.joint_names = tuple(joint_names)
        spec.require_joints(self.joint_names)
        check_widths(network, spec.observation_width, spec.action_width, spec.source)
        self._terms = [BoundTerm(term, spec.joints, self.joint_names) for term in spec.observations]
        self._actions: list[_BoundAction] = []
        begin = 0
        for term in spec.actions:
            self._actions.append(_BoundAction(term, self.columns(term.joints), begin))
            begin += term.width
        self._gait = (
            GaitPhase(2.0 * math.pi * spec.period / spec.gait_period) if spec.gait_period else None
        )
        self.reset()

    @property
    def period(self) -> float:
        """Time between two steps [s]."""
        return self.spec.period

    @property
    def sources(self) -> frozenset[str]:
        """Sources of the observation; see :class:`~.observations.TermKind`."""
        return frozenset(source_of(term.name) for term in self.spec.observations)

    @property
    def commanded(self) -> NDArray[np.bool_]:
        """Which joints the policy commands, shape (n,)."""
        mask = np.zeros(len(self.joint_names), dtype=bool)
        mask[self.columns(self.spec.commanded_joints)] = True
        return mask

    @property
    def previous_action(self) -> Array:
        """The last raw action, shape (m,), zero after a reset."""
        return self._previous.copy()

    def columns(self, joints: Sequence[str]) -> NDArray[np.intp]:
        """Return the indices of joints in the arrays of inputs and targets.

        Args:
            joints: names.

        Returns:
            Indices, shape (len(joints),).

        Raises:
            UnknownJoint: lists the joints.
        """
        return joint_indices(joints, self.joint_names, self.spec.source)

    def reset(self) -> None:
        """Reset histories, the previous action and the network's state."""
        self._previous = np.zeros(self.spec.action_width)
        self.network.reset()
        if self._gait is not None:
            self._gait.reset()
        for term in self._terms:
            term.reset()

    def observe(self, inputs: PolicyInputs) -> Array:
        """Return the network's input; extend the histories and advance the gait.

        Args:
            inputs: measurements and command.

        Returns:
            The observation, shape (observation_width,).

        Raises:
            InvalidCommand: an observed value is missing, has another width or is not finite;
                histories and gait are unchanged.
        """
        self._check_inputs(inputs)
        if self.spec.command_gain is not None:
            command = self.spec.command_gain * np.asarray(inputs.command, dtype=np.float64)
            inputs = dataclasses.replace(inputs, command=command)
        gait = copy.copy(self._gait)
        if gait is not None:
            inputs = dataclasses.replace(inputs, phase=gait.advance(inputs.command))
        values = [term.current(inputs, self._previous) for term in self._terms]
        self._gait = gait
        parts = [term.extended(now) for term, now in zip(self._terms, values, strict=True)]
        bound = self.spec.observation_clip
        return np.concatenate(parts).clip(-bound, bound)

    def step(self, inputs: PolicyInputs) -> PolicyTargets:
        """Evaluate the policy once.

        Args:
            inputs: measurements and command, see :class:`PolicyInputs`.

        Returns:
            Targets for one period.

        Raises:
            InvalidCommand: see :meth:`observe`.
            NetworkFault: the network failed or returned values that are not finite; the previous
                action is kept.
        """
        action = self.network(self.observe(inputs))
        if action.shape != self._previous.shape:
            raise NetworkFault(
                f"the network returned {action.size} actions instead of {self._previous.size}"
            )
        if not np.isfinite(action).all():
            raise NetworkFault("the network returned values that are not finite")
        bound = self.spec.action_clip
        self._previous = action.clip(-bound, bound)
        return self.targets(self._previous, inputs.position)

    def targets(self, action: ArrayLike, position: ArrayLike) -> PolicyTargets:
        """Return the joint targets of a raw action.

        Args:
            action: raw action, shape (m,).
            position: measured joint positions [rad or m], shape (n,), for relative targets.

        Returns:
            Targets; NaN for joints and quantities that the policy does not command.
        """
        raw = np.asarray(action, dtype=np.float64)
        out = PolicyTargets(*(np.full(len(self.joint_names), np.nan) for _ in range(3)))
        for term, columns, begin in self._actions:
            a = raw[begin : begin + term.width]
            if term.kind is ActionKind.BINARY:
                out.position[columns] = term.upper if a[0] >= 0.0 else term.lower
                continue
            value = term.offset + term.scale * a
            if term.kind is ActionKind.RELATIVE_POSITION:
                value = value + np.asarray(position, dtype=np.float64)[columns]
            value = value.clip(term.lower, term.upper)
            if term.kind is ActionKind.VELOCITY:
                out.velocity[columns] = value
            elif term.kind is ActionKind.EFFORT:
                out.effort[columns] = value
            else:
                out.position[columns] = value
        return out

    def default_position(self, position: ArrayLike) -> Array:
        """Return the default positions of training; for other joints the given ones.

        Args:
            position: joint positions [rad or m], shape (n,).

        Returns:
            Positions [rad or m], shape (n,).
        """
        out = np.array(position, dtype=np.float64)
        names = [name for name in self.spec.joints.names if name in self.joint_names]
        out[self.columns(names)] = self.spec.joints.position[
            self.spec.joints.columns(tuple(names), self.spec.source)
        ]
        return out

    def gains(self) -> tuple[Array, Array]:
        """Return stiffness and damping of the drives in training.

        Returns:
            kp [N m/rad or N/m] and kd [N m s/rad or N s/m], shape (n,) each; NaN: unknown.
        """
        out = np.full((2, len(self.joint_names)), np.nan)
        names = [name for name in self.spec.joints.names if name in self.joint_names]
        rows = self.spec.joints.columns(tuple(names), self.spec.source)
        out[:, self.columns(names)] = (
            self.spec.joints.stiffness[rows],
            self.spec.joints.damping[rows],
        )
        return out[0], out[1]

    def _check_inputs(self, inputs: PolicyInputs) -> None:
        for name in ("position", "velocity"):
            shape = np.shape(getattr(inputs, name))
            if shape != (len(self.joint_names),):
                raise InvalidCommand(
                    f"joint {name} has shape {shape}; it must be ({len(self.joint_names)},)"
                )
        width = self.spec.command_width
        if width and np.size(inputs.command) != width:
            raise InvalidCommand(f"the command has {np.size(inputs.command)} values, not {width}")


class CommandShaper:
    """Follows a target command within its limits."""

    def __init__(self, max_command: ArrayLike, max_rate: ArrayLike) -> None:
        """Start at zero.

        Args:
            max_command: max magnitudes, such as of vx, vy [m/s] and wz [rad/s], shape (m,).
            max_rate: max rates of change [1/s of these], shape (m,).

        Raises:
            InvalidConfig: different lengths, or limits that are not above zero.
        """
        self.set_limits(max_command, max_rate)
        self.reset()

    def set_limits(self, max_command: ArrayLike, max_rate: ArrayLike) -> None:
        """Change the limits; the command continues, and returns into its range at the new rate.

        Args:
            max_command: see the constructor.
            max_rate: see the constructor.

        Raises:
            InvalidConfig: different lengths, or limits that are not above zero.
        """
        most = np.asarray(max_command, dtype=np.float64)
        rate = np.asarray(max_rate, dtype=np.float64)
        if most.ndim != 1 or most.shape != rate.shape:
            raise InvalidConfig(
                f"max_command has {most.size} values, max_command_rate {rate.size}; "
                "both must have the size of the command",
                field="max_command",
            )
        if not (most > 0.0).all() or not (rate > 0.0).all():
            raise InvalidConfig("max_command and max_command_rate must be above zero")
        self._max, self._rate = most, rate

    @property
    def value(self) -> Array:
        """The current command, shape (m,)."""
        return self._value.copy()

    @property
    def moving(self) -> bool:
        """Whether target or current command is not zero."""
        return bool(self._target.any() or self._value.any())

    def reset(self) -> None:
        """Return to zero at once."""
        self._target = np.zeros_like(self._max)
        self._value = np.zeros_like(self._max)

    def set_target(self, command: ArrayLike) -> None:
        """Set the target, which is clipped to the range.

        Raises:
            InvalidCommand: another length, or values that are not finite; nothing changes.
        """
        self._target = finite_numbers(command, self._max.size, "a command")

    def step(self, dt: float) -> Array:
        """Return the command after a time [s], shape (m,)."""
        change, target = dt * self._rate, self._target.clip(-self._max, self._max)
        self._value = self._value + (target - self._value).clip(-change, change)
        return self.value
