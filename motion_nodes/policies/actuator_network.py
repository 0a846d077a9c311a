# SPDX-License-Identifier: Apache-2.0
"""Actuator networks: joint efforts from position errors and velocities, learned from hardware.

The LSTM of ANYmal C has the inputs (position error, velocity) of each joint and a state; the MLP
has the last values of both, scaled. Source: Isaac Lab's ActuatorNetLSTM and ActuatorNetMLP;
J. Hwangbo et al., Learning agile and dynamic motor skills for legged robots, 2019.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidDescription
from motion_nodes.model.setting import check_settings, setting
from motion_nodes.policies.network import NetworkFault, OnnxModel
from motion_nodes.typing import Array


@dataclass(frozen=True, kw_only=True)
class ActuatorNetworkSettings:
    """Inputs, scales and limits of an actuator network.

    Raises:
        InvalidConfig: values out of range.
    """

    effort_limit: float = setting(80.0, doc="Bound of efforts.", unit="N m or N", gt=0.0, le=1e6)
    velocity_limit: float = setting(
        20.0, doc="Bound of the velocity input.", unit="rad/s or m/s", gt=0.0, le=1e4
    )
    history: int = setting(
        0, doc="Past values of an MLP's inputs, the newest included; 0: an LSTM.", ge=0, le=100
    )
    position_scale: float = setting(1.0, doc="Factor of position errors.", gt=0.0, le=1e6)
    velocity_scale: float = setting(1.0, doc="Factor of velocities.", gt=0.0, le=1e6)
    effort_scale: float = setting(1.0, doc="Factor of the output.", gt=0.0, le=1e6)

    def __post_init__(self) -> None:
        """Check the values."""
        check_settings(self)


class Actuators(Protocol):
    """Computes efforts from position errors and velocities, at each physics step."""

    def reset(self) -> None:
        """Reset the state."""

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts [N m or N], shape (n,).

        Args:
            error: target minus measured positions [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).
        """


@dataclass(frozen=True, eq=False)
class PdActuators:
    """PD drives, saturated: ``clip(kp error - kd velocity)``, as Isaac Lab's IdealPDActuator."""

    stiffness: Array
    """[N m/rad or N/m], shape (n,)."""
    damping: Array
    """[N m s/rad or N s/m], shape (n,)."""
    limit: Array
    """Effort limits [N m or N], shape (n,), may be inf."""

    def reset(self) -> None:
        """No effect: stateless."""

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts; see :class:`Actuators`."""
        effort = self.stiffness * np.asarray(error) - self.damping * np.asarray(velocity)
        return np.asarray(effort.clip(-self.limit, self.limit))


class ActuatorNetwork:
    """The network of all joints, one row each."""

    def __init__(
        self, file: str | Path, joints: int, settings: ActuatorNetworkSettings | None = None
    ) -> None:
        """Load a network.

        Args:
            file: ONNX file; input (n, 2) or (n, 1, 2) of an LSTM, or (n, 2 history) of an MLP,
                position errors first, newest first.
            joints: number of joints n.
            settings: None: those of ANYmal C's LSTM.

        Raises:
            InvalidDescription: no such network, or other widths.
        """
        self.settings = settings or ActuatorNetworkSettings()
        self._n = joints
        self._model = OnnxModel(Path(file), batch=joints)
        self._width = 2 * max(self.settings.history, 1)
        self._past: deque[Array] = deque(maxlen=max(self.settings.history, 1))
        if self._model.input_width not in (None, self._width):
            raise InvalidDescription(
                f"{file}: the actuator network has {self._model.input_width} inputs for each "
                f"joint, {self._width} are expected.",
                field="inputs",
            )
        try:
            out = self._run(np.zeros((joints, self._width)))
        except NetworkFault as error:
            raise InvalidDescription(f"{file}: not an actuator network: {error}") from None
        if out.shape != (joints,):
            raise InvalidDescription(
                f"{file}: the actuator network returns {out.size} efforts for {joints} joints.",
                field="efforts",
            )
        self.reset()

    def reset(self) -> None:
        """Reset the state and the history."""
        self._model.reset()
        self._past.clear()

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts of the joints for one step of the physics.

        Args:
            error: target minus measured positions [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).

        Returns:
            Efforts within the limit [N m or N], shape (n,).

        Raises:
            InvalidCommand: wrong lengths, or values that are not finite; nothing changes.
            NetworkFault: the network failed or returned values that are not finite.
        """
        settings = self.settings
        pair = np.array([error, velocity], dtype=np.float64)
        if pair.shape != (2, self._n) or not np.isfinite(pair).all():
            raise InvalidCommand(
                f"errors and velocities must be {self._n} finite numbers each, got shape "
                f"{pair.shape}"
            )
        limit = settings.velocity_limit
        pair[1] = pair[1].clip(-limit, limit)
        pair *= np.array([[settings.position_scale], [settings.velocity_scale]])
        missing = self._past.maxlen or 1
        self._past.extendleft([pair] * (1 if self._past else missing))
        inputs = np.concatenate(
            [np.array([past[row] for past in self._past]).T for row in (0, 1)], axis=1
        )
        out = settings.effort_scale * self._run(inputs)
        if not np.isfinite(out).all():
            raise NetworkFault("the actuator network returned values that are not finite")
        return np.asarray(out.clip(-settings.effort_limit, settings.effort_limit))

    def _run(self, inputs: Array) -> Array:
        rows = inputs[:, None, :] if self._model.input_rank == 3 else inputs
        return self._model.run(rows).reshape(-1)
