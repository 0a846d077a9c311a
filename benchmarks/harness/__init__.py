# SPDX-License-Identifier: Apache-2.0
"""Shared code of the benchmarks; adds the folder of the tests' helpers to the path."""

from __future__ import annotations

from harness.peers import available, peer_lines
from harness.processes import CpuShare, isolate, motion_up, script_command, started
from harness.report import Cell, Report, Row, benchmark, progress, ratio
from harness.timing import Spread, Times, least_cpu, mean, median, pin_to_core, take_turns

__all__ = [
    "Cell", "CpuShare", "Report", "Row", "Spread", "Times", "available", "benchmark", "isolate",
    "least_cpu", "mean", "median", "motion_up", "peer_lines", "pin_to_core", "progress", "ratio",
    "script_command", "started", "take_turns",
]  # fmt: skip
