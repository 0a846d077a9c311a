# SPDX-License-Identifier: Apache-2.0
"""Interface of drivers of real robots.

A driver converts between SI units by joint name and its bus, without rules of motion. Enabling,
references and holding are managed by
:class:`~motion_nodes.hardware.driver_session.DriverSession`, the same for all drivers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from motion_nodes.control.stream_pieces import StreamSample
from motion_nodes.errors import InvalidConfig, MotionError
from motion_nodes.model.robot import Robot
from motion_nodes.model.robot_yaml import DriveMode
from motion_nodes.model.yaml_schema import decode
from motion_nodes.typing import Array

T = TypeVar("T")


class DriverFault(MotionError):
    """The robot or its bus reports a fault; the text is the vendor's."""


class LinkLost(DriverFault):
    """The robot no longer responds, or its connection was closed."""


@dataclass(frozen=True, eq=False)
class RobotReading:
    """Measured state of a driver's joints, in the order of its ``joint_names``.

    Raises:
        DriverFault: arrays of different shapes, or a position or velocity that is not finite.
    """

    position: Array
    """[rad or m], shape (n,)."""
    velocity: Array
    """[rad/s or m/s], shape (n,)."""
    effort: Array
    """[N m or N], shape (n,); NaN if not measured."""
    faults: tuple[str, ...] = ()
    """Faults reported by the robot, in the vendor's text; empty if there are none."""

    def __post_init__(self) -> None:
        """Validate the numbers."""
        if not self.position.shape == self.velocity.shape == self.effort.shape:
            raise DriverFault(
                f"the driver returned positions of shape {self.position.shape}, velocities of "
                f"{self.velocity.shape} and efforts of {self.effort.shape}; shapes must be equal"
            )
        if not (np.isfinite(self.position).all() and np.isfinite(self.velocity).all()):
            raise DriverFault("the robot sent positions or velocities that are not finite")


@dataclass(frozen=True)
class CheckResult:
    """One line of ``motion hardware check``."""

    what: str
    """Subject of the check."""
    ok: bool
    """Whether the check passed."""
    text: str
    """Result, with a remedy if the check failed."""


@dataclass(frozen=True, kw_only=True)
class DriverOptions:
    """Connection of a robot; options not supported by a driver must be empty."""

    device: str = ""
    """Serial port, or host name or address."""
    calibration: str = ""
    """Calibration file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The block ``hardware.settings`` of robot.yaml; each driver has its own fields."""

    def decoded(self, kind: type[T], robot: Robot, *, calibrated: bool = False) -> T:
        """Return the settings as a dataclass of the driver.

        Args:
            kind: the dataclass.
            robot: the robot, for errors.
            calibrated: whether the driver reads a calibration file.

        Raises:
            InvalidDescription: unusable settings.
            InvalidConfig: a calibration file for a driver without one.
        """
        if self.calibration and not calibrated:
            raise InvalidConfig(
                f"calibration file '{self.calibration}' is given, but the driver of {robot.name} "
                "reads none",
                field="calibration",
            )
        return decode(dict(self.settings), kind, f"{robot.name}, hardware.settings")


class RobotDriver(ABC):
    """Connection to one robot; all methods are called from one thread.

    Subclasses are found by the entry point group ``motion_nodes.drivers``.
    """

    modes: ClassVar[frozenset[DriveMode]] = frozenset({"position"})
    """Channels that :meth:`write` uses."""
    device_example: ClassVar[str] = ""
    """Example of the device, which must be given; empty: the driver needs none."""
    joint_names: tuple[str, ...]
    """Joints of the robot that the driver moves, in the order of all its arrays."""
    rate: float
    """Rate of :meth:`read` and :meth:`write` [Hz]."""
    extrapolation: float = 0.0
    """Time for which the robot itself continues with the last velocity if a reference is late
    [s]."""

    @classmethod
    @abstractmethod
    def create(cls, robot: Robot, options: DriverOptions) -> RobotDriver:
        """Return a driver of a robot, not connected.

        Raises:
            InvalidDescription: unusable settings.
            InvalidConfig: unsupported options.
        """

    @abstractmethod
    def connect(self) -> None:
        """Open the connection; the robot does not move and its drives stay as they are.

        Raises:
            DriverFault: with a remedy.
        """

    @abstractmethod
    def read(self) -> RobotReading:
        """Return the measured state.

        Raises:
            LinkLost: the robot does not respond.
            DriverFault: the response is invalid.
        """

    @abstractmethod
    def enable(self, position: Array) -> None:
        """Enable the drives, holding a position.

        Args:
            position: the measured positions [rad or m], shape (n,); the first reference.

        Raises:
            DriverFault: the drives are not ready yet, or do not start; it is called again.
        """

    @abstractmethod
    def write(self, reference: StreamSample) -> None:
        """Send a reference.

        Args:
            reference: finite position and velocity of all joints, shape (n,); NaN positions for
                joints that are driven by velocity; efforts are feed-forward, NaN if there are none.

        Raises:
            DriverFault: it could not be sent.
        """

    def hold(self) -> None:  # noqa: B027
        """Called once at a fault, before the references that brake the robot, and at the end.

        For robots that brake by themselves and ignore further references. Default: no command.
        """

    @abstractmethod
    def disable(self) -> None:
        """Disable the drives."""

    def clear_faults(self) -> None:  # noqa: B027
        """Acknowledge the robot's faults before it is enabled again.

        Raises:
            DriverFault: a fault that cannot be acknowledged.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection; the drives stay as they are. Never raises."""

    def check(self) -> list[CheckResult]:
        """Return findings about firmware, calibration and settings of a connected robot."""
        return []
