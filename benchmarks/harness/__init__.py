# SPDX-License-Identifier: Apache-2.0
"""Shared code of the benchmarks; adds the folder of the tests' helpers to the path."""

from __future__ import annotations

from harness.processes import Child, CpuShare, isolate, motion_up, script_command
from harness.report import Cell, Report, Row, benchmark, progress, ratio
from harness.timing import Spread, Times, available, least_cpu, median, pin_to_core, take_turns

__all__ = [
    "Cell", "Child", "CpuShare", "Report", "Row", "Spread", "Times", "available", "benchmark",
    "isolate", "least_cpu", "median", "motion_up", "pin_to_core", "progress", "ratio",
    "script_command", "take_turns",
]  # fmt: skip
