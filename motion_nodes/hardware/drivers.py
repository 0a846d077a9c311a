# SPDX-License-Identifier: Apache-2.0
"""Driver registry: drivers of the suite and of other packages.

Other packages register a driver by an entry point in the group ``motion_nodes.drivers``: a subclass
of :class:`~motion_nodes.hardware.robot_driver.RobotDriver` (docs/extending.md).
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points

from motion_nodes.errors import InvalidConfig, did_you_mean
from motion_nodes.hardware.robot_driver import DriverOptions, RobotDriver
from motion_nodes.model.robot import Robot

GROUP = "motion_nodes.drivers"

_OWN = {
    "dynamixel": "motion_nodes.hardware.dynamixel.driver:DynamixelDriver",
    "feetech": "motion_nodes.hardware.feetech.driver:FeetechDriver",
    "franka": "motion_nodes.hardware.franka.driver:FrankaDriver",
    "two_wheels": "motion_nodes.hardware.two_wheels.driver:TwoWheelsDriver",
    "ur": "motion_nodes.hardware.universal_robots.driver:UniversalRobotsDriver",
    "xarm": "motion_nodes.hardware.xarm.driver:XArmDriver",
}


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
