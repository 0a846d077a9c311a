# SPDX-License-Identifier: Apache-2.0
"""Client of an xArm controller, by the vendor's SDK.

Each call is one request; its answer contains an error flag. The report threads of the SDK are not
used.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
from typing import Any

import numpy as np

from motion_nodes.hardware.robot_driver import DriverFault, LinkLost
from motion_nodes.hardware.tcp_link import TcpLink
from motion_nodes.hardware.xarm import vendor_sdk as sdk_codes
from motion_nodes.hardware.xarm.vendor_sdk import VendorSdk
from motion_nodes.typing import Array

FIRMWARE = (1, 9, 0)
"""Min version, which reports measured positions and velocities."""
ANSWER_TIMEOUT = 1.0
"""Timeout of the first answer [s]."""
SERVO_MODE = 1
MAX_AXES = 7
MOVE_STATE, STOP_STATE = 0, 4
_ASK_VERSION = bytes((0, 1, 0, 2, 0, 1, 1))


class XArmController:
    """One controller; all methods are called from one thread."""

    def __init__(self, sdk: VendorSdk, host: str, port: int, timeout: float) -> None:
        """Create it, not connected.

        Args:
            sdk: the vendor's package.
            host: name or address.
            port: TCP port.
            timeout: max time for an answer [s].
        """
        self._sdk, self._host, self._port, self._timeout = sdk, host, port, timeout
        self._arm: Any = None

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: with the reason and a remedy.
        """
        self.close()
        self._probe()
        default = socket.getdefaulttimeout()
        try:
            address = socket.gethostbyname(self._host)
            self._sdk.constants.SocketConf.TCP_CONTROL_PORT = self._port
            with contextlib.redirect_stdout(io.StringIO()):
                arm = self._sdk.api(
                    address,
                    is_radian=True,
                    do_not_open=True,
                    enable_report=False,
                    timed_comm=False,
                    forbid_uds=True,
                )
                self._arm = arm
                arm.connect()
        except Exception as error:  # the SDK raises nothing more specific
            self.close()
            raise DriverFault(f"the xArm at {self._host} does not answer: {error}") from None
        finally:
            socket.setdefaulttimeout(default)  # the SDK sets it for the whole process
        arm.set_timeout(self._timeout)
        if tuple(arm.version_number) < FIRMWARE:
            version = ".".join(map(str, arm.version_number))
            self.close()
            raise DriverFault(
                f"the firmware {version} sends no measured velocities; update it to "
                f"{'.'.join(map(str, FIRMWARE))} or later in UFACTORY Studio"
            )

    @property
    def version(self) -> str:
        """Version of the firmware."""
        return ".".join(map(str, self._opened().version_number))

    @property
    def axes(self) -> int:
        """Number of joints."""
        return int(self._opened().axis)

    @property
    def device_type(self) -> int:
        """The vendor's number of the model."""
        return int(self._opened().device_type)

    @property
    def has_error(self) -> bool:
        """Whether the last answer reported an error or a warning."""
        return bool(self._opened().core.has_err_warn)

    @property
    def is_ready(self) -> bool:
        """Whether the arm accepts motions, according to the last answer."""
        return bool(self._opened().core.state_is_ready)

    def measure(self) -> tuple[Array, Array, Array]:
        """Return positions [rad], velocities [rad/s] and torques [N m], shape (7,) each.

        Raises:
            DriverFault: no answer, or an invalid one.
        """
        code, states = self._opened().get_joint_states(is_radian=True, num=3)
        self._require(code, "does not report its joint states")
        try:
            position, velocity, effort = np.array(states, dtype=np.float64).reshape(3, MAX_AXES)
        except (TypeError, ValueError):
            raise DriverFault(f"the xArm sent unusable joint states: {states}") from None
        return position, velocity, effort

    def error_code(self) -> int:
        """Return the error code, 0 if there is none.

        Raises:
            DriverFault: no answer.
        """
        code, found = self._opened().get_err_warn_code()
        self._require(code, "does not report its errors")
        return int(found[0])

    def servo_errors(self) -> dict[int, int]:
        """Return the errors of servos by the number of the joint, from 1 on.

        Raises:
            DriverFault: no answer.
        """
        code, found = self._opened().get_servo_debug_msg()
        if code in sdk_codes.LOST:
            raise self._lost()
        return {int(m["servo_id"]): int(m["code"]) for m in found if m["code"]}

    def state(self) -> int:
        """Return the state: 1 moving, 2 ready, 3 paused, 4 and more: stopped.

        Raises:
            DriverFault: no answer.
        """
        code, state = self._opened().get_state()
        self._require(code, "does not report its state")
        return int(state)

    def move_to(self, position: Array) -> int:
        """Send a target of servo motion [rad], shape (n,); return the SDK's code.

        Raises:
            LinkLost: the controller does not answer.
        """
        core = self._opened().core
        # As set_servo_angle_j, which logs a warning about the mode in each call.
        target = [*position.tolist(), *([0.0] * (MAX_AXES - len(position)))]
        code = int(core.move_servoj(target, 0.0, 0.0, 0.0)[0])
        if code in sdk_codes.LOST:
            raise self._lost()
        if code in (sdk_codes.OK, sdk_codes.HAS_WARNING):
            return sdk_codes.OK if core.state_is_ready else sdk_codes.NOT_READY
        return code

    def start(self, step: int) -> bool:
        """Execute one step of the preparation of servo motion; return whether it was the last.

        Args:
            step: its number, from 0 on.

        Raises:
            DriverFault: the controller refuses it.
        """
        arm = self._opened()
        steps = (
            ("clearing of its warnings", arm.clean_warn, ()),
            ("the motors", arm.motion_enable, (True,)),
            ("the servo mode", arm.set_mode, (SERVO_MODE,)),
            ("the motion state", arm.set_state, (MOVE_STATE,)),
        )
        what, call, arguments = steps[step]
        self._require(call(*arguments), f"refuses {what}")
        return step == len(steps) - 1

    def stop(self) -> None:
        """Stop the arm and disable its motors; the brakes hold it.

        Raises:
            DriverFault: the controller refuses it.
        """
        arm = self._opened()
        self._require(arm.set_state(STOP_STATE), "refuses to stop")
        self._require(arm.motion_enable(False), "refuses to switch its motors off")

    def clear(self) -> None:
        """Clear errors and warnings.

        Raises:
            LinkLost: the controller does not answer.
        """
        arm = self._opened()
        for call in (arm.clean_error, arm.clean_warn):
            if call() in sdk_codes.LOST:
                raise self._lost()

    def close(self) -> None:
        """Close the connection; the arm holds its last target. Never raises."""
        arm, self._arm = self._arm, None
        if arm is not None:
            with contextlib.suppress(Exception):
                arm.disconnect()

    # ---- internal

    def _probe(self) -> None:
        """Request the version first, because the SDK retries for minutes without an answer.

        Raises:
            DriverFault: no answer, or not from an xArm controller.
        """
        link = TcpLink(self._host, self._port, "the controller of the xArm")
        try:
            link.open()
            link.write(_ASK_VERSION)
            answer = link.read(ANSWER_TIMEOUT)
        finally:
            link.close()
        if not answer:
            raise DriverFault(f"the xArm at {self._host} accepts connections, but does not answer")
        if not re.match(rb"\x00\x01\x00\x02..\x01", answer, re.DOTALL):
            raise DriverFault(f"the host {self._host} is not an xArm controller")

    def _opened(self) -> Any:
        if self._arm is None:
            raise LinkLost("the xArm is not connected")
        return self._arm

    def _lost(self) -> LinkLost:
        return LinkLost(f"the xArm at {self._host} does not answer; check cable and power")

    def _require(self, code: int, what: str) -> None:
        if code in sdk_codes.LOST:
            raise self._lost()
        if code != sdk_codes.OK:
            raise DriverFault(f"the xArm {what} (code {code})")
