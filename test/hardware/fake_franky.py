# SPDX-License-Identifier: Apache-2.0
"""Fake of the part of franky that the driver uses, with an ideal arm and a hand."""

from __future__ import annotations

import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

READY = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]


class FrankaError(Exception):
    """Stands for franky.Exception."""


class NetworkError(FrankaError):
    pass


class ProtocolError(FrankaError):
    pass


class ControlError(FrankaError):
    pass


class VersionError(FrankaError):
    pass


class JointReference:
    def __init__(self, q: Any, dq: Any = None, tau_ff: Any = None) -> None:
        self.q = np.array(q, dtype=float)
        self.dq = np.zeros(7) if dq is None else np.array(dq, dtype=float)
        self.tau_ff = np.zeros(7) if tau_ff is None else np.array(tau_ff, dtype=float)
        if not np.isfinite([self.q, self.dq, self.tau_ff]).all():
            raise ValueError("must contain only finite values")


class TrackingMotion:
    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.references: list[JointReference] = []

    def set_reference(self, reference: JointReference) -> None:
        self.references.append(reference)


class StopMotion:
    pass


class FakeFranky:
    """Stands for the module; its attributes are also the robot's state and faults."""

    Exception = FrankaError
    NetworkException = NetworkError
    ProtocolException = ProtocolError
    ControlException = ControlError
    IncompatibleVersionException = VersionError
    RealtimeConfig = SimpleNamespace(Enforce="Enforce", Ignore="Ignore")
    JointReference = JointReference
    JointImpedanceTrackingMotion = TrackingMotion
    TorqueStopMotion = StopMotion

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.listener = socket.create_server((host, port))
        self.port = self.listener.getsockname()[1]
        self.q, self.mode = np.array(READY), "Idle"
        self.follows = True
        self.errors: list[str] = []
        self.motions: list[Any] = []
        self.motion: TrackingMotion | None = None
        self.ended: Exception | None = None
        self.clock = 0.0
        self.reads = 0
        self.stopped_clock = False
        self.dead = False
        self.refuses: Exception | None = None
        self.recoveries = 0
        self.recovery_gate = threading.Event()
        self.recovery_gate.set()
        self.recovers = True
        self.model = "<robot name='fr3'/>"
        self.width = 0.08
        self.object_width = 0.0
        self.hand_motions: list[tuple[str, float]] = []
        self.hand_dead = False
        self.hand_gate = threading.Event()
        """Motions of the hand end when it is set, or by a stop."""
        self.hand_gate.set()
        self.hand_stops = 0

    def Robot(self, host: str, **arguments: Any) -> FakeRobot:
        if self.refuses is not None:
            raise self.refuses
        return FakeRobot(self)

    def Gripper(self, host: str) -> FakeGripper:
        if self.hand_dead:
            raise NetworkError("libfranka gripper: Connection refused")
        return FakeGripper(self)

    def reflex(self, *errors: str) -> None:
        """End the motion as the robot does after an error."""
        self.errors, self.mode, self.motion = list(errors), "Reflex", None
        shown = ", ".join(f'"{name}"' for name in errors)
        self.ended = ControlError(
            f"libfranka: Move command aborted: motion aborted by reflex! [{shown}]\nlast packets"
        )

    def close(self) -> None:
        self.listener.close()


class FakeRobot:
    def __init__(self, fake: FakeFranky) -> None:
        self._fake = fake

    @property
    def model_urdf(self) -> str:
        return self._fake.model

    @property
    def is_in_control(self) -> bool:
        return self._fake.motion is not None

    @property
    def state(self) -> SimpleNamespace:
        fake = self._fake
        fake.reads += 1
        if fake.dead:
            raise NetworkError("libfranka: UDP receive: Timeout")
        if not fake.stopped_clock:
            fake.clock = time.monotonic()
        dq = np.zeros(7)
        if fake.motion is not None and fake.follows and fake.motion.references:
            fake.q, dq = fake.motion.references[-1].q.copy(), fake.motion.references[-1].dq
        shown = ", ".join(f'"{name}"' for name in fake.errors)
        return SimpleNamespace(
            q=fake.q.copy(),
            dq=dq,
            tau_J=np.full(7, 1.5),
            current_errors=f"[{shown}]",
            robot_mode=f"RobotMode.{fake.mode}",
            time=SimpleNamespace(to_sec=lambda: fake.clock),
        )

    def move(self, motion: Any, asynchronous: bool = False) -> None:
        fake = self._fake
        assert asynchronous, "a blocking motion in the control loop"
        fake.motions.append(motion)
        if isinstance(motion, StopMotion):
            fake.motion, fake.mode = None, "Idle"
        elif fake.mode != "Idle":
            fake.ended = ControlError("libfranka: Move command rejected: command not possible")
        else:
            fake.motion, fake.mode = motion, "Move"

    def join_motion(self, timeout: float) -> bool:
        ended, self._fake.ended = self._fake.ended, None
        if ended is not None:
            raise ended
        return self._fake.motion is None

    def recover_from_errors(self) -> bool:
        self._fake.recoveries += 1
        assert self._fake.recovery_gate.wait(10.0)
        if self._fake.recovers:
            self._fake.errors, self._fake.mode = [], "Idle"
        return self._fake.recovers


class FakeGripper:
    def __init__(self, fake: FakeFranky) -> None:
        self._fake = fake

    @property
    def width(self) -> float:
        if self._fake.hand_dead:
            raise NetworkError("libfranka gripper: UDP receive: Timeout")
        return self._fake.width

    def move(self, width: float, speed: float) -> bool:
        self._fake.hand_motions.append(("move", width))
        self._wait()
        self._fake.width = width
        return True

    def grasp(self, width: float, speed: float, force: float, inner: float, outer: float) -> bool:
        self._fake.hand_motions.append(("grasp", width))
        self._wait()
        self._fake.width = max(width, self._fake.object_width)
        return True

    def stop(self) -> bool:
        self._fake.hand_stops += 1
        self._fake.hand_gate.set()
        return True

    def _wait(self) -> None:
        before = self._fake.hand_stops
        assert self._fake.hand_gate.wait(60.0)
        if self._fake.hand_stops > before:
            raise ControlError("libfranka gripper: Command preempted!")
