# SPDX-License-Identifier: Apache-2.0
"""Settings of Cartesian impedance control."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""Names of the axes of stiffness, damping and wrenches."""
FRAMES = ("tool", "base")
_SIX = "x, y, z, rx, ry, rz, or one value each for all translations and rotations"


@dataclass(frozen=True, kw_only=True)
class ImpedanceSettings:
    """Stiffness, damping and limits; lists are in the order of :data:`AXES`."""

    stiffness: tuple[float, ...] = setting(
        (600.0, 40.0),
        doc=f"Stiffness of the tool: {_SIX}. 0: free.",
        unit="N/m and N m/rad",
        ge=0.0,
        le=1e5,
    )
    damping_ratio: tuple[float, ...] = setting(
        (1.0, 1.0),
        doc=f"Damping ratio with the inertia of the arm at the tool: {_SIX}.",
        ge=0.0,
        le=10.0,
    )
    damping: tuple[float, ...] = setting(
        (math.nan, math.nan),
        doc=f"Damping of the tool: {_SIX}. Not set (NaN): by damping_ratio.",
        unit="N s/m and N m s/rad",
        ge=0.0,
        le=1e4,
        nan=True,
    )
    frame: str = setting(
        "tool", doc="Frame of the axes of stiffness, damping and force_axes.", one_of=FRAMES
    )
    force_axes: tuple[str, ...] = setting(
        (),
        doc="Axes along which a force is controlled: the target wrench is the wrench exerted on "
        "the environment; stiffness sets only the damping there.",
    )
    force_gain: float = setting(
        5.0,
        doc="Integral gain of force control; 0: open loop.",
        unit="1/s",
        ge=0.0,
        le=100.0,
    )
    nullspace_stiffness: float = setting(
        20.0, doc="Stiffness of the posture in the nullspace.", unit="N m/rad", ge=0.0, le=1e4
    )
    nullspace_damping_ratio: float = setting(
        1.0, doc="Damping ratio of the posture in the nullspace.", ge=0.0, le=10.0
    )
    max_force: float = setting(
        120.0, doc="Max force of springs and force control.", unit="N", gt=0.0, le=1e4
    )
    max_torque: float = setting(
        40.0, doc="Max torque of springs and force control.", unit="N m", gt=0.0, le=1e4
    )
    max_effort_rate: float = setting(
        1000.0, doc="Max rate of change of joint efforts.", unit="N m/s or N/s", gt=0.0, le=1e6
    )
    max_velocity: float = setting(
        0.5, doc="Max linear velocity of the target.", unit="m/s", gt=0.0, le=10.0
    )
    max_angular_velocity: float = setting(
        1.5, doc="Max angular velocity of the target.", unit="rad/s", gt=0.0, le=30.0
    )
    max_acceleration: float = setting(
        2.0, doc="Max linear acceleration of the target.", unit="m/s^2", gt=0.0, le=100.0
    )
    max_angular_acceleration: float = setting(
        6.0, doc="Max angular acceleration of the target.", unit="rad/s^2", gt=0.0, le=300.0
    )
    gravity_compensation: bool = setting(
        True, doc="Compensate gravity; off for robots that do so themselves."
    )
    payload_mass: float = setting(
        0.0,
        doc="Payload mass at the tool, included in the robot's model in all control modes.",
        unit="kg",
        ge=0.0,
        le=1e3,
    )
    payload_center: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), doc="Center of mass of the payload in the tool frame.", unit="m",
        ge=-10.0, le=10.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            InvalidConfig: a value out of range, or a list of wrong length.
        """
        check_settings(self)
        for name in ("stiffness", "damping_ratio", "damping"):
            count = len(getattr(self, name))
            if count not in (2, 6):
                raise InvalidConfig(
                    f"{name} has {count} values; it must have 6 or 2: {_SIX}", field=name
                )
        for axis in self.force_axes:
            if axis not in (*AXES, ""):  # ROS has no empty lists of strings
                raise InvalidConfig(f"force_axes names '{axis}'; allowed: {', '.join(AXES)}")
        if len(self.payload_center) != 3:
            raise InvalidConfig(
                f"payload_center has {len(self.payload_center)} values; it must have 3: x, y, z",
                field="payload_center",
            )

    def six(self, name: str) -> Array:
        """Return stiffness, damping_ratio or damping over the six axes, shape (6,)."""
        values = np.array(getattr(self, name), dtype=np.float64)
        return values if len(values) == 6 else np.repeat(values, 3)

    @property
    def forced(self) -> NDArray[np.bool_]:
        """Mask of the axes under force control, shape (6,)."""
        return np.array([axis in self.force_axes for axis in AXES])
