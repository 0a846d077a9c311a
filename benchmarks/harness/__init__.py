# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share; only :mod:`harness.clients` imports ROS."""

from __future__ import annotations

from harness.processes import TEST, Child, CpuShare, isolate, motion_up, script_command
from harness.report import Cell, Report, arguments, progress, ratio
from harness.timing import Spread, Times, available, pin_to_core, take_turns

__all__ = [
    "TEST", "Cell", "Child", "CpuShare", "Report", "Spread", "Times", "arguments", "available",
    "isolate", "motion_up", "pin_to_core", "progress", "ratio", "script_command", "take_turns",
]  # fmt: skip
