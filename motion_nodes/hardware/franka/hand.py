# SPDX-License-Identifier: Apache-2.0
"""The Franka Hand, which executes single motions instead of a stream.

A thread starts a motion when the commanded width is constant: ``move`` to open and ``grasp`` to
close, so that objects are held with a force. The width is read by the same thread. A motion under
way ends early at :meth:`FrankaHand.hold`, and when the command comes to rest elsewhere.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from motion_nodes.hardware.robot_driver import DriverFault

PERIOD = 0.02
"""Period of readings of the width [s]."""
REST = 15
"""Number of consecutive commands of constant width before the hand moves."""
RESTING = 5e-5
"""Change of the commanded width above which it is not constant [m]."""
STEP = 5e-4
"""Change of the commanded width that starts a new motion [m]."""
MIN_SPEED = 0.02
"""[m/s]"""
READ_TIMEOUT = 2.0
"""Time without a reading after which the hand is reported as lost [s]."""


class FrankaHand:
    """A hand and its thread."""

    def __init__(self, franky: Any, host: str, force: float, max_speed: float) -> None:
        """Create it, not connected.

        Args:
            franky: the library.
            host: name or address of the robot.
            force: when it closes [N].
            max_speed: of the width [m/s].
        """
        self._franky, self._host, self._force, self._max_speed = franky, host, force, max_speed
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._commanded: float | None = None
        self._moving_from, self._unchanged = 0.0, 0
        self._sent: float | None = None
        self._speed = 0.0
        self._read_at = 0.0
        self._motion: threading.Thread | None = None
        self._held: float | None = None
        self._stop = False
        self.width, self.velocity = 0.0, 0.0
        """Measured distance of the fingers [m] and its rate [m/s]."""
        self.problem = ""
        """Fault of the hand; empty if it follows the command."""

    def open(self) -> None:
        """Connect.

        Raises:
            DriverFault: there is no hand, or it is used by another program.
        """
        try:
            gripper = self._franky.Gripper(self._host)
            self.width = float(gripper.width)
        except (self._franky.Exception, RuntimeError) as error:
            raise DriverFault(
                f"the Franka Hand does not answer ({str(error).strip()}); is it attached and "
                "initialized in Desk? Without a hand: hardware.settings.hand: false"
            ) from None
        # A thread of the last connection may still be blocked in a call; it keeps its own event.
        self._end = threading.Event()
        self._commanded = self._sent = self._motion = self._held = None
        self._stop = False
        self._read_at, self.problem = time.monotonic(), ""
        self._thread = threading.Thread(
            target=self._run, args=(gripper, self._end), name="franka_hand", daemon=True
        )
        self._thread.start()

    @property
    def lost(self) -> bool:
        """Whether the hand is not connected, or readings of the width have timed out."""
        return self._thread is None or time.monotonic() - self._read_at > READ_TIMEOUT

    def command(self, width: float, speed: float) -> None:
        """Set the commanded distance of the fingers.

        Args:
            width: finite [m].
            speed: of the command [m/s].
        """
        with self._lock:
            if self._commanded is None or abs(self._moving_from - width) > RESTING:
                self._moving_from, self._unchanged = width, 0
            self._commanded = width
            self._unchanged += 1
            self._speed = max(self._speed, abs(speed))

    def hold(self) -> None:
        """Stop a motion under way; a grasped object is still held.

        Commands of the same width, which a braking robot still receives, have no effect until
        :meth:`discard`.
        """
        with self._lock:
            self._held = self._held if self._commanded is None else self._commanded
            self._commanded, self._sent, self._speed = None, None, 0.0
            self._stop = True

    def discard(self) -> None:
        """Discard the command; the next one may be of any width."""
        with self._lock:
            self._commanded, self._sent, self._speed = None, None, 0.0
            self._held = None

    def close(self) -> None:
        """End the thread; the hand keeps its force. Never raises."""
        thread, self._thread = self._thread, None
        self._end.set()
        if thread is not None:
            thread.join(1.0)

    # ---- internal

    def _run(self, gripper: Any, end: threading.Event) -> None:
        last, stamp = self.width, time.monotonic()
        while not end.wait(PERIOD):
            try:
                width = float(gripper.width)
            except (self._franky.Exception, RuntimeError) as error:
                if not end.is_set():
                    self.problem = f"the Franka Hand: {str(error).strip()}"
                break
            if end.is_set():
                break
            now = time.monotonic()
            self.velocity = (width - last) / max(now - stamp, PERIOD)
            self.width, last, stamp, self._read_at = width, width, now, now
            self._stop_motion(gripper)
            self._start_motion(gripper)
        if end is self._end:
            self._stop_motion(gripper)

    @property
    def _moving(self) -> bool:
        return self._motion is not None and self._motion.is_alive()

    def _stop_motion(self, gripper: Any) -> None:
        """End the motion under way if it was stopped or the command rests elsewhere."""
        with self._lock:
            desired, sent = self._commanded, self._sent
            elsewhere = False
            if desired is not None and sent is not None and self._unchanged > REST:
                elsewhere = abs(desired - sent) > STEP
            stop, self._stop = (self._stop or elsewhere) and self._moving, False
            if not stop:
                return
            self._sent = None
        try:
            gripper.stop()
        except (self._franky.Exception, RuntimeError) as error:
            self.problem = f"the Franka Hand was not stopped: {str(error).strip()}"

    def _start_motion(self, gripper: Any) -> None:
        if self._moving:
            return
        with self._lock:
            desired = self._commanded
            if desired is None or self._unchanged <= REST:
                return
            if self._held is not None and abs(desired - self._held) <= STEP:
                return
            self._held = None
            before = self.width if self._sent is None else self._sent
            if abs(desired - before) <= STEP:
                return
            if abs(desired - self.width) <= STEP:
                self._sent = desired  # at the target; a motion would release a held object
                return
            speed = min(max(self._speed, MIN_SPEED), self._max_speed)
            self._sent, self._speed = desired, 0.0
        arguments = (gripper, desired, speed, desired < before)
        self._motion = threading.Thread(target=self._move, args=arguments, daemon=True)
        self._motion.start()

    def _move(self, gripper: Any, width: float, speed: float, closes: bool) -> None:
        """Move; returns when the hand has come to rest."""
        try:
            if closes:
                # Any width is a success: the width of the object is unknown.
                gripper.grasp(width, speed, self._force, 1.0, 1.0)
            else:
                gripper.move(width, speed)
            self.problem = ""
        except (self._franky.Exception, RuntimeError) as error:
            if self._sent == width:  # else it was stopped
                self.problem = f"the Franka Hand: {str(error).strip()}"
