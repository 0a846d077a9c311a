# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON between the supervisor and the processes that it has started.

Processes report on the pipe of :mod:`motion_nodes.ros.readiness`; each has its own pipe for orders
of the supervisor. The state that a replacement process needs at its start is in its environment.
Imports no ROS, so that the supervisor need not load it.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from motion_nodes.core.control.stop_state import StopState
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.readiness import VARIABLE

CONTROL_VARIABLE = "MOTION_NODES_CONTROL_FD"
"""Environment variable with the file descriptor on which a process receives from its supervisor."""
STOP_VARIABLE = "MOTION_NODES_STOP_STATE"
"""Environment variable with the state of the suite's stop at the start of a process."""
REPLACED_VARIABLE = "MOTION_NODES_REPLACES"
"""Environment variable of a process that replaces another one: why that ended."""
ECHO_VARIABLE = "MOTION_NODES_ECHO"
"""Environment variable with a word that is unique to the supervisor, for topics of echoes."""

HEARTBEAT_PERIOD = 0.4
"""[s] Between two heartbeats of a process, and its max delay of an echo over DDS."""


@dataclass(frozen=True)
class Beat:
    """A heartbeat of a process."""

    pid: int
    overdue: float = 0.0
    """Of the loop that is most overdue [s]."""
    loop: str = ""
    """Full name of that loop's node."""
    executor: float = 0.0
    """Time for which the executor has not served its queue [s]."""
    received: dict[str, float] = field(default_factory=dict)
    """Time of the newest message of each topic that other processes may receive, too [s]."""


@dataclass(frozen=True)
class Echo:
    """The last echo of a process over DDS."""

    pid: int
    """Of the probe."""
    target: int
    """Id of the process that was pinged."""
    silent: float
    """Time since then [s]."""
    delay: float = 0.0
    """Round-trip time of the newest answered ping [s]."""


@dataclass(frozen=True)
class StopReport:
    """A node's copy of the suite's latched stop has changed."""

    pid: int
    stopped_ns: int
    resumed_ns: int
    reason: str = ""

    def state(self) -> StopState | None:
        """Return the state; None for invalid times."""
        with contextlib.suppress(InvalidCommand, TypeError):
            return StopState(self.stopped_ns, self.resumed_ns, self.reason)
        return None


Record = Beat | Echo | StopReport
_KINDS: dict[str, type[Record]] = {"beat": Beat, "echo": Echo, "stop": StopReport}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def report(record: Record) -> None:
    """Send a record to the parent process if it reads them; never blocks."""
    number = os.environ.get(VARIABLE, "")
    if not number.isdecimal():
        return
    line = json.dumps({"record": _NAMES[type(record)], **asdict(record)}).encode() + b"\n"
    # The reader may have exited; the process continues without it.
    with contextlib.suppress(OSError):
        os.write(int(number), line)


def read_record(line: bytes) -> Record | None:
    """Return the record of a line; None for an invalid line."""
    try:
        fields: dict[str, Any] = json.loads(line)
        return _KINDS[fields.pop("record")](**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def stop_text(state: StopState) -> str:
    """Return the state of the stop as the value of :data:`STOP_VARIABLE`."""
    return json.dumps([state.stopped_ns, state.resumed_ns, state.reason])


def inherited_stop() -> StopState:
    """Return the state of the stop that this process was started with."""
    try:
        return StopState(*json.loads(os.environ.get(STOP_VARIABLE, "")))
    except (ValueError, TypeError, InvalidCommand):
        return StopState()
