# SPDX-License-Identifier: Apache-2.0
"""A client of the Real-Time Data Exchange: one recipe of outputs, one of inputs."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

from motion_nodes.hardware.robot_driver import DriverFault
from motion_nodes.hardware.tcp_link import TcpLink
from motion_nodes.hardware.universal_robots import rtde_packages as rtde
from motion_nodes.hardware.universal_robots.rtde_packages import Recipe, UnknownField

ANSWER_TIMEOUT = 1.0
"""Max time to wait for an answer during the setup [s]."""
PAUSE_TIMEOUT = 0.2
"""Max time to wait at the end [s]."""
VERSION = 2

Outputs = dict[str, tuple[float, ...]]
"""Values by field."""


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
        if self._request(rtde.PROTOCOL_VERSION, struct.pack(">H", VERSION))[:1] != b"\x01":
            raise DriverFault(
                f"the controller does not accept RTDE protocol {VERSION}; update it to PolyScope "
                "3.10, 5.4 or later"
            )
        answer = self._request(rtde.CONTROLLER_VERSION)
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
            payload = rtde.names_payload(inputs)
            self._inputs = Recipe(inputs, self._request(rtde.SETUP_INPUTS, payload))
        except UnknownField as error:
            raise DriverFault(
                f"the controller does not have the RTDE field {error}; update it to PolyScope "
                "3.10, 5.4 or later"
            ) from None
        if self._request(rtde.START)[:1] != b"\x01":
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
                if kind == rtde.DATA and self._outputs is not None:
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
                self._request(rtde.PAUSE, timeout=PAUSE_TIMEOUT)
        except DriverFault:
            pass
        self._inputs = None
        self._link.close()

    # ---- internal

    def _setup_outputs(self, names: Sequence[str], rate: float) -> Recipe:
        payload = struct.pack(">d", rate) + rtde.names_payload(names)
        return Recipe(names, self._request(rtde.SETUP_OUTPUTS, payload))

    def _request(self, kind: int, payload: bytes = b"", timeout: float = ANSWER_TIMEOUT) -> bytes:
        self._link.write(rtde.package(kind, payload))
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
        taken = rtde.take_package(self._buffer)
        if taken is not None and taken[0] == rtde.TEXT_MESSAGE:
            self.message = rtde.text_in(taken[1])
        return taken
