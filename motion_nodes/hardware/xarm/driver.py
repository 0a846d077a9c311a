# SPDX-License-Identifier: Apache-2.0
"""Driver of xArms: servo motion (``set_servo_angle_j``) by the vendor's SDK."""

from __future__ import annotations

import numpy as np

from motion_nodes.control.stream_pieces import StreamSample
from motion_nodes.hardware.joint_selection import revolute_arm_joints, select_joints
from motion_nodes.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    RobotDriver,
    RobotReading,
)
from motion_nodes.hardware.xarm import vendor_sdk as sdk_codes
from motion_nodes.hardware.xarm.controller import XArmController
from motion_nodes.hardware.xarm.driver_settings import XArmSettings
from motion_nodes.hardware.xarm.vendor_sdk import VendorSdk, load_sdk
from motion_nodes.model.robot import Robot
from motion_nodes.typing import Array

AXES = (5, 6, 7)
OTHER_MODELS = {9: "a Lite 6", 12: "a UFACTORY 850"}
"""Arms with as many joints as an xArm, by the vendor's number."""


class XArmDriver(RobotDriver):
    """Position control of an arm; its controller holds the last target."""

    device_example = "192.168.1.200"

    def __init__(self, robot: Robot, host: str, settings: XArmSettings, sdk: VendorSdk) -> None:
        """Create the driver.

        Args:
            robot: the robot.
            host: name or address of the controller.
            settings: joints, rate, timeouts.
            sdk: the vendor's package.

        Raises:
            UnknownJoint: the settings name a joint that the robot does not have.
            InvalidDescription: a number of joints that no xArm has.
        """
        found, rule = settings.joints or revolute_arm_joints(robot), "an xArm has 5, 6 or 7 joints"
        joints = select_joints(robot, found, AXES, rule)
        self.joint_names, self.rate = joints, settings.rate
        self._is_xarm = robot.name.startswith("xarm")
        self._controller = XArmController(sdk, host, settings.port, settings.link_timeout)
        self._sdk = sdk
        self._following, self._step = False, 0
        self._error = 0
        self._texts: tuple[str, ...] = ()

    @classmethod
    def create(cls, robot: Robot, options: DriverOptions) -> XArmDriver:
        """Return a driver; see :meth:`RobotDriver.create`.

        Raises:
            InvalidConfig: the vendor's SDK is not installed.
        """
        settings = options.decoded(XArmSettings, robot)
        return cls(robot, options.device, settings, load_sdk())

    def connect(self) -> None:
        """Connect and compare the model.

        Raises:
            DriverFault: no answer, an old firmware, or an arm of another model.
        """
        self._following, self._step, self._error = False, 0, 0
        self._controller.open()
        axes, n = self._controller.axes, len(self.joint_names)
        other = OTHER_MODELS.get(self._controller.device_type, "")
        if axes != n or (other and self._is_xarm):
            found = other or f"an arm with {axes} joints"
            raise DriverFault(f"the controller is that of {found}, but the description has {n}")
        self._controller.measure()

    def read(self) -> RobotReading:
        """Return the measured state, and the errors of the controller."""
        n = len(self.joint_names)
        position, velocity, effort = (part[:n] for part in self._controller.measure())
        return RobotReading(position, velocity, effort, self._faults())

    def enable(self, position: Array) -> None:
        """Enable the motors and start the servo mode, one step per call."""
        step, self._step = self._step, 0
        if not self._controller.start(step):
            self._step = step + 1
            raise DriverFault("the arm is being enabled")
        if text := sdk_codes.state_text(self._controller.state()):
            raise DriverFault(text)
        self._following = True

    def write(self, reference: StreamSample) -> None:
        """Send a target; no effect after the arm has stopped."""
        if not np.isfinite(reference.position).all():
            raise DriverFault("a reference is not finite")
        if not self._following:
            return
        code = self._controller.move_to(reference.position)
        if code == sdk_codes.OK:
            return
        self._following = False
        texts = self._error_texts() or (sdk_codes.state_text(self._controller.state()),)
        raise DriverFault(", ".join(filter(None, texts)) or f"the arm refuses a target ({code})")

    def disable(self) -> None:
        """Stop the arm and disable its motors; the brakes hold it."""
        self._following, self._step = False, 0
        self._controller.stop()

    def clear_faults(self) -> None:
        """Clear the controller's errors; the arm is enabled again."""
        self._following, self._step, self._error = False, 0, 0
        self._controller.clear()

    def close(self) -> None:
        """Close the connection; the arm holds its last target."""
        self._following, self._step = False, 0
        self._controller.close()

    def check(self) -> list[CheckResult]:
        """Return findings: firmware, errors and state."""
        state, errors = self._controller.state(), self._error_texts()
        words = sdk_codes.state_text(state)
        # Enabling starts a stopped arm.
        text = "to be enabled" if words else "ready"
        return [
            CheckResult("firmware", True, self._controller.version),
            CheckResult("errors", not errors, ", ".join(errors) or "none"),
            CheckResult("state", True, f"{state}, {text}"),
        ]

    # ---- internal

    def _faults(self) -> tuple[str, ...]:
        if texts := self._error_texts():
            self._following = False
            return texts
        if self._following and not self._controller.is_ready:
            if text := sdk_codes.state_text(self._controller.state()):
                self._following = False
                return (text,)
        return ()

    def _error_texts(self) -> tuple[str, ...]:
        """Return the controller's error as text; requested only if the last answer had the flag."""
        number = self._controller.error_code() if self._controller.has_error else 0
        if number != self._error:
            self._error = number
            texts = [self._sdk.error_text(number)]
            if number in sdk_codes.SERVO_ERRORS:
                for joint, code in self._controller.servo_errors().items():
                    if joint <= len(self.joint_names):
                        texts.append(self._sdk.servo_text(self.joint_names[joint - 1], code))
            self._texts = tuple(texts)
        return self._texts if number else ()
