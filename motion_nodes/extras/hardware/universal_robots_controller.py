# SPDX-License-Identifier: Apache-2.0
"""Connections to a controller of Universal Robots: Real-Time Data Exchange, dashboard server.

The client of the Real-Time Data Exchange (RTDE, protocol version 2) has one recipe of outputs and
one of inputs. Its packages:

    size (uint16, with the header)  type (uint8)  payload        numbers are big-endian

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide".

The dashboard server executes functions of the pendant by text commands. Source: Universal Robots,
"Dashboard Server e-Series, port 29999".
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Sequence

from motion_nodes.errors import MotionError
from motion_nodes.extras.hardware.connections import TcpLink
from motion_nodes.extras.hardware.robot_driver import DriverFault, LinkLost

PROTOCOL_VERSION, CONTROLLER_VERSION, TEXT_MESSAGE = ord("V"), ord("v"), ord("M")
DATA, SETUP_OUTPUTS, SETUP_INPUTS = ord("U"), ord("O"), ord("I")
START, PAUSE = ord("S"), ord("P")
TYPES = (
    PROTOCOL_VERSION, CONTROLLER_VERSION, TEXT_MESSAGE, DATA, SETUP_OUTPUTS, SETUP_INPUTS, START,
    PAUSE,
)  # fmt: skip
_HEADER = struct.Struct(">HB")
_FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT32": "I", "UINT64": "Q", "INT32": "i", "DOUBLE": "d",
    "VECTOR3D": "3d", "VECTOR6D": "6d", "VECTOR6INT32": "6i", "VECTOR6UINT32": "6I",
}  # fmt: skip
ANSWER_TIMEOUT = 1.0
"""Max time to wait for an answer during the setup [s]."""
PAUSE_TIMEOUT = 0.2
"""Max time to wait at the end [s]."""
VERSION = 2
Outputs = dict[str, tuple[float, ...]]
"""Values by field."""
DASHBOARD_TIMEOUT = 1.0
"""[s]"""


class UnknownField(MotionError):
    """The controller does not have a field of a recipe."""


def package(kind: int, payload: bytes = b"") -> bytes:
    """Return a package."""
    return _HEADER.pack(_HEADER.size + len(payload), kind) + payload


def take_package(buffer: bytearray) -> tuple[int, bytes] | None:
    """Remove the first package from received bytes.

    Args:
        buffer: received bytes; incomplete packages remain.

    Returns:
        Type and payload; None if no package is complete.

    Raises:
        LinkLost: invalid header; the stream has no markers to resynchronize.
    """
    if len(buffer) < _HEADER.size:
        return None
    size, kind = _HEADER.unpack_from(buffer)
    if size < _HEADER.size or kind not in TYPES:
        raise LinkLost("invalid RTDE package from the controller; reconnecting")
    if len(buffer) < size:
        return None
    payload = bytes(buffer[_HEADER.size : size])
    del buffer[:size]
    return kind, payload


def names_payload(names: Sequence[str]) -> bytes:
    """Return the encoded names of a recipe's fields."""
    return ",".join(names).encode("ascii")


class Recipe:
    """Names, types and id of the fields in one kind of data package."""

    def __init__(self, names: Sequence[str], answer: bytes) -> None:
        """Read the controller's answer to a setup request.

        Args:
            names: the fields that were requested.
            answer: payload: id and types.

        Raises:
            UnknownField: the controller does not have one of them.
            DriverFault: an input is used by another client, or an invalid answer.
        """
        types = answer[1:].decode("ascii", "replace").split(",")
        if not answer or len(types) != len(names):
            raise DriverFault("the controller's answer to an RTDE recipe is unusable")
        for name, kind in zip(names, types, strict=True):
            if kind == "NOT_FOUND":
                raise UnknownField(name)
            if kind == "IN_USE":
                raise DriverFault(
                    f"{name} is in use: another program controls the robot by RTDE, or a fieldbus "
                    "has reserved the register. Stop it; only one program may drive a robot"
                )
            if kind not in _FORMATS:
                raise DriverFault(f"the RTDE type '{kind}' of {name} is not known")
        self.id = answer[0]
        self._struct = struct.Struct(">B" + "".join(_FORMATS[kind] for kind in types))
        self._slices: dict[str, slice] = {}
        at = 1
        for name, kind in zip(names, types, strict=True):
            count = int(_FORMATS[kind][0]) if len(_FORMATS[kind]) > 1 else 1
            self._slices[name] = slice(at, at + count)
            at += count

    def read(self, payload: bytes) -> dict[str, tuple[float, ...]] | None:
        """Return the values of a data package by field [SI units]; None if it is of another recipe.

        Raises:
            DriverFault: a package of another length.
        """
        if not payload or payload[0] != self.id:
            return None
        if len(payload) != self._struct.size:
            raise DriverFault(
                f"an RTDE data package has {len(payload)} bytes instead of {self._struct.size}"
            )
        numbers = self._struct.unpack(payload)
        return {name: numbers[where] for name, where in self._slices.items()}

    def data(self, values: Sequence[float]) -> bytes:
        """Return a data package with the values of all fields [SI units], in their order."""
        return package(DATA, self._struct.pack(self.id, *values))


def text_in(payload: bytes) -> str:
    """Return the text of a text message, without level and source."""
    length = payload[0] if payload else 0
    return payload[1 : 1 + length].decode("utf-8", "replace").strip()


class RtdeClient:
    """Receives outputs at a rate, and sends inputs."""

    def __init__(self, link: TcpLink) -> None:
        """Use a connection, which is opened by :meth:`open`."""
        self._link = link
        self._buffer = bytearray()
        self._outputs: Recipe | None = None
        self._inputs: Recipe | None = None
        self.controller_version = (0, 0, 0, 0)
        """Major, minor, bug fix and build."""
        self.message = ""
        """Newest text message of the controller."""

    def open(self) -> None:
        """Connect, negotiate the protocol, and request the controller's version.

        Raises:
            DriverFault: with a remedy.
        """
        self._link.open()
        self._buffer.clear()
        self._outputs = self._inputs = None
        self.message = ""
        if self._request(PROTOCOL_VERSION, struct.pack(">H", VERSION))[:1] != b"\x01":
            raise DriverFault(
                f"the controller does not accept RTDE protocol {VERSION}; update it to PolyScope "
                "3.10, 5.4 or later"
            )
        answer = self._request(CONTROLLER_VERSION)
        if len(answer) < 16:
            raise DriverFault("the controller's answer about its version is unusable")
        self.controller_version = struct.unpack_from(">4I", answer)

    def start(
        self, outputs: Sequence[str], optional: Sequence[str], inputs: Sequence[str], rate: float
    ) -> None:
        """Set up both recipes and start the data packages.

        Args:
            outputs: fields to receive.
            optional: further fields, used only if the controller has all of them.
            inputs: fields to send.
            rate: of the data packages [Hz].

        Raises:
            DriverFault: a field is unknown or in use, or the controller does not start.
        """
        try:
            try:
                self._outputs = self._setup_outputs((*outputs, *optional), rate)
            except UnknownField:
                self._outputs = self._setup_outputs(outputs, rate)
            payload = names_payload(inputs)
            self._inputs = Recipe(inputs, self._request(SETUP_INPUTS, payload))
        except UnknownField as error:
            raise DriverFault(
                f"the controller does not have the RTDE field {error}; update it to PolyScope "
                "3.10, 5.4 or later"
            ) from None
        if self._request(START)[:1] != b"\x01":
            raise DriverFault("the controller does not start the RTDE data packages")

    def newest(self, timeout: float) -> Outputs | None:
        """Return the newest outputs received since the last call.

        Args:
            timeout: max time to wait for outputs [s].

        Returns:
            The outputs; None if none were received.

        Raises:
            LinkLost: the connection is lost.
            DriverFault: invalid data.
        """
        end = time.monotonic() + timeout
        found: Outputs | None = None
        wait = 0.0
        while True:
            self._buffer += (received := self._link.read(wait))
            while (taken := self._take()) is not None:
                kind, payload = taken
                if kind == DATA and self._outputs is not None:
                    found = self._outputs.read(payload) or found
            wait = end - time.monotonic()
            if found is not None or (not received and wait <= 0.0):
                return found
            wait = max(wait, 0.0)

    def send(self, values: Sequence[float]) -> None:
        """Send all inputs [SI units], in the order of their recipe.

        Raises:
            LinkLost: the connection is lost.
        """
        if self._inputs is not None:
            self._link.write(self._inputs.data(values))

    def close(self) -> None:
        """Stop the data packages and close the connection; never raises.

        Waits for the controller's answer, which acknowledges all data sent before; closing at once
        could discard them.
        """
        try:
            if self._inputs is not None:
                self._request(PAUSE, timeout=PAUSE_TIMEOUT)
        except DriverFault:
            pass
        self._inputs = None
        self._link.close()

    # ---- internal

    def _setup_outputs(self, names: Sequence[str], rate: float) -> Recipe:
        payload = struct.pack(">d", rate) + names_payload(names)
        return Recipe(names, self._request(SETUP_OUTPUTS, payload))

    def _request(self, kind: int, payload: bytes = b"", timeout: float = ANSWER_TIMEOUT) -> bytes:
        self._link.write(package(kind, payload))
        end = time.monotonic() + timeout
        while True:
            while (taken := self._take()) is not None:
                if taken[0] == kind:
                    return taken[1]
            received = self._link.read(end - time.monotonic())
            if not received or time.monotonic() > end:
                raise DriverFault(
                    f"the controller does not answer the RTDE request '{chr(kind)}'"
                    + (f": {self.message}" if self.message else "")
                )
            self._buffer += received

    def _take(self) -> tuple[int, bytes] | None:
        taken = take_package(self._buffer)
        if taken is not None and taken[0] == TEXT_MESSAGE:
            self.message = text_in(taken[1])
        return taken


class DashboardClient:
    """Connects on the first command, and reconnects after a lost connection."""

    def __init__(self, link: TcpLink) -> None:
        self._link = link
        self._buffer = bytearray()

    def request(self, command: str) -> str:
        """Send a command and return its answer, one line.

        Raises:
            DriverFault: the server cannot be reached or does not answer.
        """
        try:
            if not self._link.is_open:
                self._link.open()
                self._buffer.clear()
                self._link.read_line(self._buffer, DASHBOARD_TIMEOUT)  # the greeting
            self._link.write(command.encode("ascii") + b"\n")
            return self._link.read_line(self._buffer, DASHBOARD_TIMEOUT)
        except DriverFault as error:
            self._link.close()
            # Not part of the control loop: a lost dashboard connection is not a lost robot.
            raise DriverFault(f"dashboard: {error}") from None

    def require_model(self, model: str) -> None:
        """Check the model of the controller, such as UR5e.

        Raises:
            DriverFault: another model.
        """
        answer = self.request("get robot model")
        found = model_in(answer)
        # Controllers of the e-Series omit the letter; old versions do not support the command.
        if found and found.rstrip("E") != model.upper().rstrip("E"):
            raise DriverFault(
                f"the controller is that of a {answer}, but the description is of a {model}"
            )

    def remote_fault(self) -> str:
        """Return why external programs are rejected; empty if accepted (CB3: always).

        Raises:
            DriverFault: no answer.
        """
        if self.request("is in remote control").lower() != "false":
            return ""
        return (
            "the robot is not in remote control: switch it over on the pendant (top right; "
            "Settings, System, Remote Control)"
        )

    def release_brakes(self) -> None:
        """Power the arm on, if needed, and release its brakes; takes several seconds.

        Raises:
            DriverFault: no answer.
        """
        self.request("brake release")

    def leave_protective_stop(self) -> None:
        """Acknowledge a protective stop, at least 5 s after it.

        Raises:
            DriverFault: rejected by the controller, with its text.
        """
        self.request("close safety popup")
        answer = self.request("unlock protective stop")
        if not answer.lower().startswith("protective stop releasing"):
            raise DriverFault(f"the controller does not leave the protective stop: {answer}")

    def close(self) -> None:
        """Close the connection; never raises."""
        self._link.close()


def model_in(text: str) -> str:
    """Return the model in a name or an answer, such as UR5E; empty if there is none."""
    found = re.search(r"\bUR\d+E?\b", text.upper())
    return found.group() if found else ""
