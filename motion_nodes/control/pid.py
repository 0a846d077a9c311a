# SPDX-License-Identifier: Apache-2.0
"""A discrete PID controller for any number of joints.

    u = kp e + I + D,                       e = r - y
    I <- I + ki e dt + (u_sat - u) dt / Tt  (back-calculation, where ki > 0)
    D <- (D - kd N (y - y_before)) / (1 + N dt)

The derivative acts on the measurement, which avoids a kick at steps of the reference, with a
first-order filter of corner frequency N (backward Euler); the integral is a rectangle sum.
Source: Åström and Murray, "Feedback Systems", sections 10.4 and 10.5; the derivative is
``kd s / (1 + s / N)`` with ``alpha = N dt / (1 + N dt)``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.model.tree import frozen
from motion_nodes.typing import Array


@dataclass(frozen=True, eq=False)
class PidConfig:
    """Gains of n joints; each field is a scalar for all of them or one number per joint.

    Raises:
        InvalidConfig: inconsistent lengths, values that are not finite (except ``limit``, which may
            be infinite), negative gains, or times and corner frequencies that are not positive.
    """

    kp: ArrayLike
    """Proportional gain [N m/rad]."""
    ki: ArrayLike = 0.0
    """Integral gain [N m/(rad s)]."""
    kd: ArrayLike = 0.0
    """Derivative gain [N m s/rad]."""
    limit: ArrayLike = np.inf
    """Output limit [N m]; the output is clamped to +- limit."""
    derivative_corner: ArrayLike = 100.0
    """Corner frequency N of the derivative's filter [rad/s]."""
    tracking_time: ArrayLike = 0.0
    """Time constant Tt of the anti-windup [s]; 0 selects sqrt(Ti Td), or Ti/2 if kd is 0, with Ti =
    kp/ki and Td = kd/kp, or 1 s if kp is 0."""

    def __post_init__(self) -> None:
        """Validate the values and broadcast all fields to one length."""
        arrays = {}
        for field in fields(self):
            try:
                arrays[field.name] = np.atleast_1d(np.asarray(getattr(self, field.name), float))
            except (TypeError, ValueError):
                raise InvalidConfig(f"PID {field.name} must be numbers", field=field.name) from None
        lengths = {name: len(a) for name, a in arrays.items() if a.ndim == 1 and len(a) > 1}
        if any(a.ndim != 1 or len(a) == 0 for a in arrays.values()) or len({*lengths.values()}) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InvalidConfig(
                f"PID fields must be of one length, one number per joint; got {shown}",
                field="gains",
            )
        n = max(lengths.values(), default=1)
        for name, array in arrays.items():
            strictly = name in ("limit", "derivative_corner")
            good = (array > 0.0) if strictly else (array >= 0.0)
            if name != "limit":
                good &= np.isfinite(array)
            if not good.all():
                i = int(np.argmin(good))
                bound = "above 0" if strictly else "0 or above"
                raise InvalidConfig(
                    f"PID {name} of joint {i} is {array[i]}; it must be {bound}", field=name
                )
            object.__setattr__(self, name, frozen(np.broadcast_to(array, (n,)).copy()))

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(np.asarray(self.kp))

    def anti_windup_time(self) -> Array:
        """Return Tt of every joint [s], with the default inserted."""
        kp, ki, kd, given = (
            np.asarray(v, float) for v in (self.kp, self.ki, self.kd, self.tracking_time)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ti = np.where(ki > 0.0, kp / ki, np.inf)
            td = np.where(kp > 0.0, kd / kp, 0.0)
            usual = np.where(kd > 0.0, np.sqrt(ti * td), 0.5 * ti)
        usual = np.where(kp > 0.0, usual, 1.0)
        return np.where(given > 0.0, given, usual)


class Pid:
    """PID control of n joints."""

    def __init__(self, config: PidConfig) -> None:
        """Create a controller in its reset state."""
        self.config = config
        self._tt = config.anti_windup_time()
        self.reset()

    def reset(self) -> None:
        """Reset integral, derivative and the last measurement."""
        n = self.config.size
        self._integral = np.zeros(n)
        self._derivative = np.zeros(n)
        self._measured: Array | None = None

    @property
    def integral(self) -> Array:
        """The integral term of the output [N m], a copy."""
        return self._integral.copy()

    def set_config(self, config: PidConfig) -> None:
        """Replace the gains without a jump of the integral term.

        Raises:
            InvalidConfig: for another number of joints; nothing changes.
        """
        if config.size != self.config.size:
            raise InvalidConfig(f"{config.size} gains given for {self.config.size} joints")
        self.config, self._tt = config, config.anti_windup_time()
        self._integral = np.where(np.asarray(config.ki) > 0.0, self._integral, 0.0)

    def step(
        self,
        reference: ArrayLike,
        measured: ArrayLike,
        dt: float,
        feed_forward: ArrayLike = 0.0,
        velocity: ArrayLike | None = None,
    ) -> Array:
        """Return the output for one sample.

        The first sample after a reset has no derivative term, because the velocity is unknown. The
        saturation of a sample affects the integral of the next.

        Args:
            reference: reference positions [rad], shape (n,).
            measured: measured positions [rad], shape (n,).
            dt: time since the last sample [s], above 0.
            feed_forward: added to the output, e.g. gravity compensation [N m], shape (n,) or a
                scalar.
            velocity: measured velocities [rad/s], shape (n,); if given, the derivative term uses
                them instead of filtered differences.

        Returns:
            Outputs within the limits [N m], shape (n,).

        Raises:
            InvalidCommand: wrong lengths, values that are not finite, or dt not above 0; the
                controller's state is unchanged.
        """
        n = self.config.size
        r, y = np.asarray(reference, dtype=np.float64), np.asarray(measured, dtype=np.float64)
        ff = np.asarray(feed_forward, dtype=np.float64)
        if r.shape != (n,) or y.shape != (n,) or ff.shape not in ((), (n,)):
            raise InvalidCommand(
                f"PID of {n} joints was given shapes {r.shape}, {y.shape} and {ff.shape}",
                field="reference",
            )
        v = None if velocity is None else np.asarray(velocity, dtype=np.float64)
        if v is not None and v.shape != (n,):
            raise InvalidCommand(
                f"PID of {n} joints was given velocities of shape {v.shape}", field="velocity"
            )
        if not all(np.isfinite(a).all() for a in (r, y, ff, 0.0 if v is None else v)):
            raise InvalidCommand("PID was given a number that is not finite", field="samples")
        if not (np.isfinite(dt) and dt > 0.0):
            raise InvalidCommand(
                f"PID was given dt = {dt} s; it must be finite and above 0", field="dt"
            )
        gains = self.config
        kd, corner = np.asarray(gains.kd), np.asarray(gains.derivative_corner)
        before = y if self._measured is None else self._measured
        if v is None:
            self._derivative = (self._derivative - kd * corner * (y - before)) / (1.0 + corner * dt)
        else:
            self._derivative = -kd * v
        self._measured = y.copy()
        error = r - y
        desired = np.asarray(gains.kp) * error + self._integral + self._derivative + ff
        limit = np.asarray(gains.limit)
        output = desired.clip(-limit, limit)
        ki = np.asarray(gains.ki)
        back = np.where(ki > 0.0, (output - desired) / self._tt, 0.0)
        self._integral = self._integral + (ki * error + back) * dt
        return np.asarray(output)
