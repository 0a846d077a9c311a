# SPDX-License-Identifier: Apache-2.0
"""Follow targets that may change at any moment, within velocity, acceleration and jerk limits.

Each joint moves by itself, as fast as its limits allow, from its present state to its target.
Computed by Ruckig (Berscheid and Kröger, "Jerk-limited real-time trajectory generation with
arbitrary target states", RSS 2021) from state to state, without intermediate waypoints.
"""

from __future__ import annotations

import numpy as np
import ruckig
from numpy.typing import NDArray

from motion_nodes.errors import MotionError
from motion_nodes.model.limits import JointLimits

Array = NDArray[np.float64]

_UNLIMITED_VELOCITY = 1e6
"""[rad/s or m/s] Ruckig wants a finite velocity limit."""


class OnlineLimiter:
    """The reference of n joints on its way to targets that may change at every step."""

    def __init__(self, limits: JointLimits) -> None:
        """Begin at zero; call :meth:`reset` with where the joints are."""
        self._n = len(limits.names)
        self._limits = limits
        self._input = ruckig.InputParameter(self._n)
        self._output = ruckig.OutputParameter(self._n)
        self._solver = ruckig.Ruckig(self._n, 0.001)
        self._input.synchronization = ruckig.Synchronization.No
        self._velocity_limit = np.minimum(limits.velocity, _UNLIMITED_VELOCITY)
        self._input.max_velocity = self._velocity_limit.tolist()
        self._input.max_acceleration = limits.acceleration.tolist()
        self._input.max_jerk = limits.jerk.tolist()
        self.position: Array = np.zeros(self._n)
        """Reference positions [rad or m]."""
        self.velocity: Array = np.zeros(self._n)
        """Reference velocities [rad/s or m/s]."""

    def reset(self, position: Array) -> None:
        """Stand at ``position`` [rad or m], shape (n,)."""
        zeros = [0.0] * self._n
        self.position[:] = position
        self.velocity[:] = 0.0
        self._input.current_position = self.position.tolist()
        self._input.current_velocity = zeros
        self._input.current_acceleration = zeros
        self._solver.reset()

    def follow(self, joints: NDArray[np.bool_], position: Array) -> None:
        """Put the reference of some joints where they are [rad or m], shape (n,)."""
        np.copyto(self.position, position, where=joints)
        self._input.current_position = self.position.tolist()

    def step(self, by_velocity: NDArray[np.bool_], goal: Array, speed: Array, dt: float) -> None:
        """Advance the reference by one step.

        Args:
            by_velocity: joints that follow ``speed`` alone, shape (n,); the others go to ``goal``.
            goal: target positions [rad or m], shape (n,), finite where used.
            speed: target velocities [rad/s or m/s], shape (n,), finite.
            dt: duration of the step [s]; with 0 nothing moves.

        Raises:
            MotionError: the limits and state contradict each other.
        """
        if dt <= 0.0:
            return
        velocity, position = ruckig.ControlInterface.Velocity, ruckig.ControlInterface.Position
        given = self._input
        given.per_dof_control_interface = [velocity if v else position for v in by_velocity]
        given.target_position = np.where(by_velocity, self.position, goal).tolist()
        given.target_velocity = speed.clip(-self._velocity_limit, self._velocity_limit).tolist()
        self._solver.delta_time = dt
        try:
            self._solver.update(given, self._output)
        except ruckig.RuckigError as error:
            raise MotionError(f"no way to the target within the limits: {error}") from error
        self._output.pass_to_input(given)
        self.position[:] = self._output.new_position
        self.velocity[:] = self._output.new_velocity
