# SPDX-License-Identifier: Apache-2.0
"""Logger of the nodes."""

from __future__ import annotations

import os
import sys
from typing import Any

from rclpy.impl import rcutils_logger
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.impl.logging_severity import LoggingSeverity

# rclpy's own search of the caller, used with filters, leaves this file out.
rcutils_logger._internal_callers.append(os.path.realpath(__file__))


class NodeLogger(rcutils_logger.RcutilsLogger):  # type: ignore[misc]
    """Logger whose messages name the line that logs them, without a search by ``inspect``.

    rclpy reads the caller's source file and resolves the paths of all modules, which takes tens of
    milliseconds at the first messages of a process.
    """

    def log(self, message: str, severity: int, **filters: Any) -> bool:
        """Log a message; called by ``info``, ``warning`` and the like.

        Args:
            message: its text.
            severity: of rclpy.logging.LoggingSeverity.
            filters: of rclpy, for example ``throttle_duration_sec``.

        Returns:
            Whether it was logged.
        """
        if filters:
            return bool(super().log(message, severity, **filters))
        if not self.is_enabled_for(severity):
            return False
        caller = sys._getframe(2)
        rclpy_implementation.rclpy_logging_rcutils_log(
            LoggingSeverity(severity), self.name, message,
            caller.f_code.co_name, caller.f_code.co_filename, caller.f_lineno,
        )  # fmt: skip
        return True
