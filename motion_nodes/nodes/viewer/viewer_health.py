# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of the nodes, for the viewer's page."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from motion_nodes.view.health_panel import Health

LEVELS = {
    DiagnosticStatus.OK: "OK",
    DiagnosticStatus.WARN: "WARN",
    DiagnosticStatus.ERROR: "ERROR",
    DiagnosticStatus.STALE: "STALE",
}


def health_of(message: DiagnosticArray) -> list[Health]:
    """Convert a diagnostics message."""
    return [
        Health(status.name, LEVELS.get(status.level, "ERROR"), status.message)
        for status in message.status
    ]
