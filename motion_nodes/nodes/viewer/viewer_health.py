# SPDX-License-Identifier: Apache-2.0
"""What nodes report of themselves, for the viewer's page."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from motion_nodes.view.health_panel import Health

WORDS = {
    DiagnosticStatus.OK: "OK",
    DiagnosticStatus.WARN: "WARN",
    DiagnosticStatus.ERROR: "ERROR",
    DiagnosticStatus.STALE: "STALE",
}


def health_of(message: DiagnosticArray) -> list[Health]:
    """Return the reports of a message."""
    return [
        Health(status.name, WORDS.get(status.level, "ERROR"), status.message)
        for status in message.status
    ]
