# SPDX-License-Identifier: Apache-2.0
"""Shared code of the benchmarks; adds the folder of the tests' helpers to the path."""

from __future__ import annotations

from harness.processes import CpuShare, motion_up
from harness.report import CLUSTER, Options, Report, Row, benchmark, progress, workers
from harness.timing import Spread, median, take_turns

__all__ = ["CLUSTER", "CpuShare", "Options", "Report", "Row", "Spread", "benchmark", "median",
           "motion_up", "progress", "take_turns", "workers"]  # fmt: skip
