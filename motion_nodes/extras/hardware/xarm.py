# SPDX-License-Identifier: Apache-2.0
"""Driver of xArms: servo motion (``set_servo_angle_j``) by the vendor's SDK.

The client of the controller uses the SDK, too. Each call is one request; its answer contains an
error flag. The report threads of the SDK are not used. Errors of a controller have the texts of the
vendor's package ``xarm-python-sdk``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import socket
from dataclasses import dataclass
from typing import Any

import numpy as np

from motion_nodes.core.control.stream_resampler import StreamSample
from motion_nodes.core.robot.robot import Robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.hardware.connections import TcpLink
from motion_nodes.extras.hardware.robot_driver import (
    CheckResult,
    DriverFault,
    DriverOptions,
    LinkLost,
    RobotDriver,
    RobotReading,
    revolute_arm_joints,
    select_joints,
)
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

OK, HAS_WARNING, TIMEOUT, NOT_SENT, NOT_READY = 0, 2, 3, 8, 9
NOT_CONNECTED = -1
LOST = frozenset({NOT_CONNECTED, TIMEOUT, NOT_SENT})
"""SDK codes of a lost link."""
SERVO_ERRORS = range(10, 18)
"""Errors of the controller that are caused by joint errors."""
_STATES = {3: "paused", 4: "stopped", 5: "stopped, since its mode was changed", 6: "stopping"}
_ADVICE = {
    24: "lower --speed",
    60: "lower --speed",
    31: "free the arm; is the payload right in UFACTORY Studio?",
}
FIRMWARE = (1, 9, 0)
"""Min version, which reports measured positions and velocities."""
ANSWER_TIMEOUT = 1.0
"""Timeout of the first answer [s]."""
SERVO_MODE = 1
MAX_AXES = 7
MOVE_STATE, STOP_STATE = 0, 4
_ASK_VERSION = bytes((0, 1, 0, 2, 0, 1, 1))
AXES = (5, 6, 7)
OTHER_MODELS = {9: "a Lite 6", 12: "a UFACTORY 850"}
"""Arms with as many joints as an xArm, by the vendor's number."""


@dataclass(frozen=True)
class XArmSettings:
    """The block ``hardware.settings``.

    Raises:
        InvalidConfig: a value out of its range.
    """

    joints: tuple[str, ...] = ()
    """The joints from the base on; empty: those of the arm."""
    rate: float = setting(
        100.0, doc="Rate of the references; UFACTORY recommends 30 to 200 Hz for servo motion.",
        unit="Hz", ge=20.0, le=250.0,
    )  # fmt: skip
    link_timeout: float = setting(
        0.2, doc="Time without an answer after which the link is lost.", unit="s", ge=0.01, le=5.0
    )
    port: int = setting(502, doc="TCP port of the controller.", ge=1, le=65535)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class VendorSdk:
    """The parts of the package used by the driver."""

    api: Any
    """The class XArmAPI."""
    constants: Any
    """The class XCONF: ports and registers."""
    codes: Any
    """The module with the texts of errors."""

    def error_text(self, code: int) -> str:
        """Return an error of the controller as the vendor's text, with a remedy."""
        found = self.codes.ControllerErrorCodeMap.get(code, {}).get("en", {})
        advice = _ADVICE.get(code) or found.get("desc", "")
        words = [_sentence(found.get("title", "")) or "not known to the SDK", _sentence(advice)]
        return f"error {code}: {': '.join(word for word in words if word)}; then reset"

    def servo_text(self, joint: str, code: int) -> str:
        """Return an error of a joint's servo as the vendor's text."""
        found = self.codes.ServoCodeMap.get(code, {}).get("en", {})
        return f"{joint}: servo error {code}, {_sentence(found.get('title', '')) or 'not known'}"


def load_sdk() -> VendorSdk:
    """Return the vendor's package, with its console output suppressed.

    Raises:
        InvalidConfig: it is not installed.
    """
    try:
        # Its loggers keep the current standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            wrapper = importlib.import_module("xarm.wrapper")
            constants = importlib.import_module("xarm.core.config.x_config").XCONF
            codes = importlib.import_module("xarm.core.config.x_code")
            log = importlib.import_module("xarm.core.utils.log")
    except ImportError as error:
        raise InvalidConfig(
            f"the xArm SDK cannot be loaded ({error}); run: pip install 'motion-nodes[xarm]'"
        ) from None
    for logger in (log.logger, log.origin_logger):
        logger.setLevel(log.logger.CRITICAL)  # errors are reported by the driver
    return VendorSdk(wrapper.XArmAPI, constants, codes)


def state_text(state: int) -> str:
    """Return why a state prevents motion; empty if it does not."""
    if state < 3:
        return ""
    return (
        f"the arm is {_STATES.get(state, 'not ready')} (state {state}): by UFACTORY Studio, a "
        "button or another program; reset when it may move"
    )


def _sentence(text: str) -> str:
    return text.strip().rstrip(".")


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
        if code in LOST:
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
        if code in LOST:
            raise self._lost()
        if code in (OK, HAS_WARNING):
            return OK if core.state_is_ready else NOT_READY
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
            if call() in LOST:
                raise self._lost()

    def close(self) -> None:
        """Close the connection; the arm holds its last target. Never raises."""
        arm, self._arm = self._arm, None
        if arm is not None:
            with contextlib.suppress(Exception):
                arm.disconnect()

    # ---- internal

    def _probe(self) -> None:
        """Request the version first, because the SDK retries for minutes without an answer."""
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
        if code in LOST:
            raise self._lost()
        if code != OK:
            raise DriverFault(f"the xArm {what} (code {code})")


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
        if text := state_text(self._controller.state()):
            raise DriverFault(text)
        self._following = True

    def write(self, reference: StreamSample) -> None:
        """Send a target; no effect after the arm has stopped."""
        if not np.isfinite(reference.position).all():
            raise DriverFault("a reference is not finite")
        if not self._following:
            return
        code = self._controller.move_to(reference.position)
        if code == OK:
            return
        self._following = False
        texts = self._error_texts() or (state_text(self._controller.state()),)
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
        words = state_text(state)
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
            if text := state_text(self._controller.state()):
                self._following = False
                return (text,)
        return ()

    def _error_texts(self) -> tuple[str, ...]:
        """Return the controller's error as text; requested only if the last answer had the flag."""
        number = self._controller.error_code() if self._controller.has_error else 0
        if number != self._error:
            self._error = number
            texts = [self._sdk.error_text(number)]
            if number in SERVO_ERRORS:
                for joint, code in self._controller.servo_errors().items():
                    if joint <= len(self.joint_names):
                        texts.append(self._sdk.servo_text(self.joint_names[joint - 1], code))
            self._texts = tuple(texts)
        return self._texts if number else ()
