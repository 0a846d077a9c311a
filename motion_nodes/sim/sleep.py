# SPDX-License-Identifier: Apache-2.0
"""Sleep of a simulated world in which nothing moves: its steps are not computed.

MuJoCo can let single bodies sleep, but none that a drive acts on. A cell of robots at rest is
recognized here as a whole: once all velocities have stayed below a tolerance, a step only advances
the time, until the control input, an applied force or the state is changed.
"""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

MAX_SPEED = 1e-7
"""Norm of the generalized velocities [rad/s or m/s] of a world that may fall asleep."""
SETTLING_TIME = 0.5
"""[s] Time for which they must have been lower."""

_STATE = mujoco.mjtState
_SIGNATURE = int(
    _STATE.mjSTATE_QPOS | _STATE.mjSTATE_QVEL | _STATE.mjSTATE_ACT | _STATE.mjSTATE_USER
)
"""What MuJoCo integrates, and its inputs: controls, forces, constraints, poses of fixed bodies."""


class Sleep:
    """Recognizes that the next steps of a world change nothing."""

    def __init__(self) -> None:
        """Create awake."""
        self._rested = 0.0
        self._state = b""
        """State in which the world sleeps; empty while it is awake."""
        self._now: NDArray[np.float64] = np.empty(0)

    def wake(self) -> None:
        """Compute the next steps: the model was changed, which the state does not show."""
        self._rested, self._state = 0.0, b""

    def note(self, model: mujoco.MjModel, data: mujoco.MjData, square: float, time: float) -> None:
        """Note computed steps.

        Args:
            model: of the world.
            data: after the steps.
            square: squared norm of the generalized velocities.
            time: duration of the steps [s].
        """
        self._rested = self._rested + time if square < MAX_SPEED**2 else 0.0
        if self._rested >= SETTLING_TIME:
            self._now = np.empty(mujoco.mj_stateSize(model, _SIGNATURE))
            mujoco.mj_getState(model, data, self._now, _SIGNATURE)
            self._state = self._now.tobytes()

    def lasts(self, model: mujoco.MjModel, data: mujoco.MjData) -> bool:
        """Return whether the world sleeps; a change of its state or inputs wakes it."""
        if not self._state:
            return False
        mujoco.mj_getState(model, data, self._now, _SIGNATURE)
        if self._now.tobytes() == self._state:
            return True
        self.wake()
        return False
