# SPDX-License-Identifier: Apache-2.0
"""Interface and registry of drivers of real robots.

A driver converts between SI units by joint name and its bus, without rules of motion. Enabling,
references and holding are managed by
:class:`~motion_nodes.extras.hardware.driver_session.DriverSession`, the same for all drivers.

Other packages register a driver by an entry point in the group ``motion_nodes.drivers``: a subclass
of :class:`RobotDriver` (docs/extending.md).
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, TypeVar

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.robot.robot import Robot
from motion_nodes.core.robot.robot_yaml import DriveMode
from motion_nodes.core.robot.tree import JointKind
from motion_nodes.core.robot.yaml_schema import decode
from motion_nodes.errors import (
    InvalidConfig,
    InvalidDescription,
    MotionError,
    UnknownJoint,
    did_you_mean,
)
from motion_nodes.typing import Array

T = TypeVar("T")
GROUP = "motion_nodes.drivers"
_OWN = {
    "dynamixel": "motion_nodes.extras.hardware.dynamixel:DynamixelDriver",
    "feetech": "motion_nodes.extras.hardware.feetech:FeetechDriver",
    "franka": "motion_nodes.extras.hardware.franka:FrankaDriver",
    "two_wheels": "motion_nodes.extras.hardware.two_wheels:TwoWheelsDriver",
    "ur": "motion_nodes.extras.hardware.universal_robots:UniversalRobotsDriver",
    "xarm": "motion_nodes.extras.hardware.xarm:XArmDriver",
}
READS = 50
"""Number of reads for the loop rate."""
MOVED = 0.05
"""Min joint displacement that is shown [rad or m]."""


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


def require_joints(robot: Robot, joints: Iterable[str]) -> None:
    """Check that a robot has the joints of a driver's settings.

    Raises:
        UnknownJoint: names the first joint that it does not have.
    """
    for joint in joints:
        if joint not in robot.joint_names:
            raise UnknownJoint(joint, robot.joint_names, f"hardware of {robot.name}")


def select_joints(
    robot: Robot, joints: Sequence[str], counts: Sequence[int], rule: str, field: str = "joints"
) -> tuple[str, ...]:
    """Return the joints of a driver.

    Args:
        robot: the robot.
        joints: joints of the settings, or those found in the robot's description.
        counts: allowed numbers of joints.
        rule: these numbers as text, for errors, such as "an arm has 6 joints".
        field: name of the setting.

    Raises:
        UnknownJoint: a joint that the robot does not have.
        InvalidDescription: another number of joints, or a joint that is named twice.
    """
    require_joints(robot, joints)
    if len(joints) not in counts or len(set(joints)) != len(joints):
        raise InvalidDescription(
            f"{robot.name}: {rule}, not {len(set(joints))}; name them in hardware.settings.{field}",
            field=f"hardware.settings.{field}",
        )
    return tuple(joints)


def revolute_arm_joints(robot: Robot) -> tuple[str, ...]:
    """Return the joints of the arm that are not prismatic, from the base on."""
    kinds = {name: robot.tree.joint(name).kind for name in robot.arm_joints}
    return tuple(name for name, kind in kinds.items() if kind is not JointKind.PRISMATIC)


def available_drivers() -> tuple[str, ...]:
    """Return the names of all drivers, in alphabetical order."""
    return tuple(sorted({*_OWN, *_registered()}))


def driver_name(robot: Robot) -> str | None:
    """Return the driver name in a robot's robot.yaml, None if there is none."""
    hardware = robot.description.hardware
    return None if hardware is None else hardware.driver


def make_driver(
    robot: Robot, name: str = "", *, device: str = "", calibration: str = ""
) -> RobotDriver:
    """Return a driver for a robot, not connected.

    Args:
        robot: the robot.
        name: name of the driver; empty: that of its robot.yaml.
        device: serial port, host name or address; empty: that of its robot.yaml.
        calibration: calibration file, for drivers that use one.

    Raises:
        InvalidConfig: no such driver, or no driver in robot.yaml.
        InvalidDescription: unusable settings in robot.yaml.
    """
    hardware = robot.description.hardware
    name = name or (driver_name(robot) or "")
    if not name:
        raise InvalidConfig(
            f"{robot.name} has no driver: its robot.yaml has no block 'hardware'. Name one of "
            f"{', '.join(available_drivers())}, or start your own driver of joint_command and "
            "joint_states"
        )
    own = hardware is not None and hardware.driver == name
    settings = hardware.settings if hardware is not None and own else {}
    device = device or (hardware.device if hardware is not None and own else "")
    options = DriverOptions(device=device, calibration=calibration, settings=settings)
    driver = _driver_class(name)
    if driver.device_example and not device:
        raise InvalidConfig(
            f"driver '{name}' has no device; name one, such as --device {driver.device_example}, "
            "or set hardware.device in robot.yaml",
            field="device",
        )
    return driver.create(robot, options)


def _registered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _driver_class(name: str) -> type[RobotDriver]:
    registered = _registered()
    if name not in registered and name not in _OWN:
        raise InvalidConfig(
            f"driver '{name}' is not known.{did_you_mean(name, available_drivers())}"
        )
    try:
        if name in registered:
            found = registered[name].load()
        else:
            module, _, attribute = _OWN[name].partition(":")
            found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidConfig(f"driver '{name}' cannot be loaded: {error}") from None
    if not (isinstance(found, type) and issubclass(found, RobotDriver)):
        raise InvalidConfig(f"entry point '{name}' of {GROUP} is not a subclass of RobotDriver")
    return found


def check_robot(driver: RobotDriver, limits: JointLimits) -> list[CheckResult]:
    """Connect and check; the driver stays connected if the first check passes.

    Args:
        driver: not connected.
        limits: of the robot's joints.
    """
    try:
        driver.connect()
    except DriverFault as error:
        return [CheckResult("connection", False, str(error))]
    results = [CheckResult("connection", True, f"{len(driver.joint_names)} joints respond")]
    try:
        results += [_read_rate(driver), *_positions(driver, limits), *driver.check()]
    except DriverFault as error:
        results.append(CheckResult("reading", False, str(error)))
    return results


def show_motion(driver: RobotDriver, report: Callable[[str], None]) -> None:
    """Report which joint moves in which direction, for a robot that is moved by hand.

    Args:
        driver: connected.
        report: called with each line; KeyboardInterrupt ends it.

    Raises:
        LinkLost: the robot does not respond any more.
        DriverFault: the first answer is damaged; later ones are left out.
    """
    report("move one joint at a time in its positive direction; Ctrl-C ends")
    try:
        last = driver.read().position.copy()
        while True:
            time.sleep(0.1)
            try:
                now = driver.read().position
            except LinkLost:
                raise
            except DriverFault:
                continue
            for i in np.flatnonzero(np.abs(now - last) > MOVED).tolist():
                sign = "+" if now[i] > last[i] else "-"
                report(f"  {driver.joint_names[i]}: {sign}  {now[i]:.3f}")
                last[i] = now[i]
    except KeyboardInterrupt:
        return


def _read_rate(driver: RobotDriver) -> CheckResult:
    failed, begin = 0, time.monotonic()
    for _ in range(READS):
        try:
            driver.read()
        except DriverFault:
            failed += 1
    rate = READS / (time.monotonic() - begin)
    text = f"{rate:.0f} Hz possible, {driver.rate:g} Hz needed; {failed} of {READS} reads failed"
    return CheckResult("bus", failed == 0 and rate >= driver.rate, text)


def _positions(driver: RobotDriver, limits: JointLimits) -> list[CheckResult]:
    reading, mine = driver.read(), limits.select(driver.joint_names)
    results = []
    for i, name in enumerate(driver.joint_names):
        q, low, high = reading.position[i], mine.lower[i], mine.upper[i]
        inside = bool(low <= q <= high)
        text = f"{q:.3f}, limits {low:.3f} to {high:.3f}"
        hint = "" if inside else "; outside: it may only move inwards. Is the calibration right?"
        results.append(CheckResult(f"{name}: position", inside, text + hint))
    results += [CheckResult("robot", False, text) for text in reading.faults]
    return results
