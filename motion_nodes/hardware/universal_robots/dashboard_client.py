# SPDX-License-Identifier: Apache-2.0
"""Client of the dashboard server: text commands for functions of the pendant.

Source: Universal Robots, "Dashboard Server e-Series, port 29999".
"""

from __future__ import annotations

import re

from motion_nodes.hardware.robot_driver import DriverFault
from motion_nodes.hardware.tcp_link import TcpLink

ANSWER_TIMEOUT = 1.0
"""[s]"""


class DashboardClient:
    """Connects on the first command, and reconnects after a lost connection."""

    def __init__(self, link: TcpLink) -> None:
        """Use a connection."""
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
                self._link.read_line(self._buffer, ANSWER_TIMEOUT)  # the greeting
            self._link.write(command.encode("ascii") + b"\n")
            return self._link.read_line(self._buffer, ANSWER_TIMEOUT)
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
