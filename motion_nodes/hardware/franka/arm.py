# SPDX-License-Identifier: Apache-2.0
"""The arm at its control interface (FCI), through franky.

franky's own thread computes joint torques at 1 kHz from the last reference (a spring and a damper
per joint, gravity and Coriolis torques compensated), and limits their change per cycle. A late
reference therefore leaves the target where it is; no reference can cause a discontinuity reflex.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from motion_nodes.hardware.franka.driver_settings import FrankaSettings
from motion_nodes.hardware.franka.robot_faults import control_fault
from motion_nodes.hardware.robot_driver import Array, DriverFault, LinkLost
from motion_nodes.hardware.tcp_link import TcpLink

ARM_PORT = 1337
MAX_TORQUE_STEP = 0.9
"""Max change of a commanded torque per cycle of 1 ms [N m]; the robot permits 1."""
STOP_TIMEOUT = 3.0
"""Max time until the arm rests after it was stopped [s]."""
REALTIME_FLAG = Path("/sys/kernel/realtime")


class FrankaArm:
    """One robot; all methods are called from one thread."""

    def __init__(self, franky: Any, host: str, settings: FrankaSettings) -> None:
        """Create it, not connected.

        Args:
            franky: the library.
            host: name or address of the robot.
            settings: gains and thresholds.
        """
        self._franky, self._host, self._settings = franky, host, settings
        self._robot: Any = None
        self._motion: Any = None
        self._lost = ""
        self._recovery: threading.Thread | None = None
        self._recovery_fault = ""

    @property
    def realtime(self) -> bool:
        """Whether real-time scheduling is required."""
        wanted = self._settings.realtime
        return wanted == "enforce" or (wanted == "auto" and has_realtime_kernel())

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: names the reason and what to do.
        """
        self.close()
        # libfranka waits a minute for an address that does not answer.
        probe = TcpLink(self._host, ARM_PORT, "the control interface (FCI)")
        try:
            probe.open()
        except DriverFault as error:
            raise DriverFault(f"{error} Is FCI activated in Desk?") from None
        finally:
            probe.close()
        self._lost = ""
        franky, settings = self._franky, self._settings
        config = franky.RealtimeConfig
        try:
            self._robot = franky.Robot(
                self._host,
                default_torque_threshold=settings.torque_threshold,
                default_force_threshold=settings.force_threshold,
                realtime_config=config.Enforce if self.realtime else config.Ignore,
            )
        except franky.IncompatibleVersionException as error:
            raise DriverFault(
                f"{_text(error)}. Install franky for this robot: pip install franky-control "
                "--extra-index-url https://timschneider42.github.io/franky/whl/"
                "by-robot-server-version/N/, where N is the server version; a Panda has 5"
            ) from None
        except (franky.Exception, RuntimeError) as error:
            raise DriverFault(f"the robot at {self._host}: {_text(error)}") from None

    def state(self) -> Any:
        """Return franky's state of the robot; waits 1 ms for it while the arm is not controlled.

        Raises:
            LinkLost: the robot does not answer, or it was not connected.
            DriverFault: it could not be read this time.
        """
        if self._robot is None:
            raise LinkLost("the robot is not connected")
        if self._lost:
            raise LinkLost(self._lost)  # Asking again would take a second.
        franky = self._franky
        try:
            return self._robot.state
        except (franky.NetworkException, franky.ProtocolException) as error:
            self._lost = (
                f"the robot at {self._host} does not answer ({_text(error)}); check cable and "
                "power, and FCI in Desk"
            )
            raise LinkLost(self._lost) from None
        except (franky.Exception, RuntimeError) as error:
            raise DriverFault(f"the state of the robot: {_text(error)}") from None

    @property
    def model(self) -> str:
        """URDF of the robot; empty for a Panda, which does not send it."""
        return str(getattr(self._robot, "model_urdf", "") or "")

    @property
    def controlled(self) -> bool:
        """Whether torques are sent to the arm."""
        return self._robot is not None and bool(self._robot.is_in_control)

    @property
    def tracking(self) -> bool:
        """Whether the arm follows the targets."""
        return self._motion is not None and self.controlled

    def start(self, position: Array) -> None:
        """Start the control at a position [rad], shape (7,).

        Raises:
            DriverFault: the robot does not accept it.
        """
        franky, settings = self._franky, self._settings
        try:
            self._robot.join_motion(0.0)
        except (franky.Exception, RuntimeError):
            pass  # Why the last motion ended; it has been reported.
        self._motion = franky.JointImpedanceTrackingMotion(
            stiffness=list(settings.stiffness),
            damping=list(settings.damping),
            max_delta_tau=MAX_TORQUE_STEP,
        )
        self._motion.set_reference(franky.JointReference(q=position))
        try:
            self._robot.move(self._motion, asynchronous=True)
        except (franky.Exception, RuntimeError) as error:
            self._motion = None
            raise DriverFault(control_fault(_text(error))) from None

    def track(self, position: Array, velocity: Array) -> None:
        """Set the target.

        Args:
            position: finite positions [rad], shape (7,).
            velocity: finite velocities [rad/s], shape (7,).
        """
        if self._motion is not None:
            self._motion.set_reference(self._franky.JointReference(q=position, dq=velocity))

    def stop(self) -> None:
        """Bring the arm to rest and end the control, without waiting for it."""
        self._motion = None
        if self.controlled:
            try:
                self._robot.move(self._franky.TorqueStopMotion(), asynchronous=True)
            except (self._franky.Exception, RuntimeError):
                pass  # It has ended just now.

    def end_of_control(self) -> str:
        """Return why the control has ended; empty if it has not."""
        if self.controlled:
            return ""
        self._motion = None
        try:
            self._robot.join_motion(0.0)
        except (self._franky.Exception, RuntimeError) as error:
            return control_fault(_text(error))
        return control_fault("")

    @property
    def recovering(self) -> bool:
        """Whether the automatic error recovery is under way."""
        return self._recovery is not None and self._recovery.is_alive()

    @property
    def recovery_fault(self) -> str:
        """Why the last recovery failed; empty if it did not."""
        return self._recovery_fault

    def recover(self) -> None:
        """Start the automatic error recovery, which takes up to some seconds."""
        if self.recovering:
            return
        self._recovery_fault = ""
        robot, franky = self._robot, self._franky

        def run() -> None:
            try:
                if not robot.recover_from_errors():
                    self._recovery_fault = "the robot does not recover: see Desk, then reset"
            except (franky.Exception, RuntimeError) as error:
                self._recovery_fault = f"the robot does not recover: {_text(error)}"

        self._recovery = threading.Thread(target=run, name="franka_recovery", daemon=True)
        self._recovery.start()

    def close(self) -> None:
        """Bring the arm to rest and close the connection; never raises."""
        robot, self._robot = self._robot, None
        if robot is None:
            return
        franky = self._franky
        self._motion, self._recovery_fault = None, ""
        try:
            if robot.is_in_control:
                robot.move(franky.TorqueStopMotion(), asynchronous=True)
                robot.join_motion(STOP_TIMEOUT)
        except (franky.Exception, RuntimeError):
            pass  # The robot brakes by itself when the connection ends.


def has_realtime_kernel() -> bool:
    """Return whether the kernel has PREEMPT_RT."""
    try:
        return REALTIME_FLAG.read_text().strip() == "1"
    except OSError:
        return False


def _text(error: BaseException) -> str:
    return str(error).replace("libfranka: ", "").strip() or type(error).__name__
