# SPDX-License-Identifier: Apache-2.0
"""What every benchmark prints: the machine, tables in Markdown, its command; the same as JSON."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.processes import isolate

PACKAGES = (
    "ros-jazzy-rclpy", "ros-kilted-rclpy", "numpy", "numba", "llvmlite", "mujoco", "viser",
    "ruckig", "scipy", "pin", "osqp", "proxsuite",
)  # fmt: skip
"""Packages whose versions bear on the figures; those that are not installed are left out."""
QUIET = 0.1
"""Share of the processors that others may use before a run; more makes the figures pessimistic."""

Cell = str | float | int | None
Row = dict[str, Cell]
"""A line of a table, by the names of the columns."""
Measure = Callable[["Report", Any], object]


def benchmark(
    title: str, *, ros: bool = False, folders: bool = False, **flags: Any
) -> Callable[[Measure], Callable[[], None]]:
    """Return what makes a script of a function that measures.

    The function gets the report and the options; the script exits with 1 where it returns True.

    Args:
        title: of the report, a format string of the options.
        ros: keep this process and its children away from other ROS traffic, and initialize rclpy.
        folders: whether the arguments without a name are folders, at least one.
        flags: options, each a default, or (default, help, choices). A type stands for an option
            without a default, a list for one of several values, False for a switch.
    """

    def decorated(measure: Measure) -> Callable[[], None]:
        def script() -> None:
            options = _parsed(str(sys.modules[measure.__module__].__doc__), folders, flags)
            if ros:
                import rclpy

                isolate()
                rclpy.init(args=[])
            report = Report(title.format(**vars(options)))
            failed = measure(report, options)
            if ros:
                rclpy.try_shutdown()
            report.write(options.json)
            sys.exit(int(failed is True))

        return script

    return decorated


def _parsed(description: str, folders: bool, flags: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    if folders:
        parser.add_argument("folders", nargs="+", type=Path)
    for name, flag in flags.items():
        default, text, choices = (*(flag if isinstance(flag, tuple) else (flag,)), "", None)[:3]
        named: dict[str, Any] = {"help": text or None}
        if default is False:
            named["action"] = "store_true"
        elif isinstance(default, list):
            named |= {"default": default, "nargs": "+", "type": type(default[0])}
        elif isinstance(default, type):
            named |= {"type": default}
        else:
            named |= {"default": default, "type": type(default)}
        if choices:
            named["choices"] = choices
        parser.add_argument(f"--{name.replace('_', '-')}", **named)
    return parser.parse_args()


def progress(text: str) -> None:
    """Print on stderr what is being measured."""
    print(f"... {text}", file=sys.stderr, flush=True)


def ratio(ours: float, peer: float) -> float | None:
    """Return ours by the peer's; None where the peer has no figure."""
    return ours / peer if peer and math.isfinite(peer) else None


def busy_share(seconds: float = 0.5) -> float:
    """Return the share of all processors that is in use while this process sleeps."""

    def ticks() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]

    before, _, after = ticks(), time.sleep(seconds), ticks()
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return 1.0 - (spent[3] + spent[4]) / max(1, sum(spent))  # idle, and waiting for a disk


def machine() -> dict[str, Any]:
    """Return what the figures were measured on, and how busy it was."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "busy": round(busy_share(), 2),
        "versions": versions,
    }


class Report:
    """The tables of one benchmark: printed as they come, written as JSON at the end."""

    def __init__(self, title: str) -> None:
        """Print title and machine."""
        facts = machine()
        self._content: dict[str, Any] = {"title": title, "machine": facts, "tables": []}
        versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        print(f"## {title}\n\n{facts['date']}; {facts['cpu']}, {facts['cores']} cores, "
              f"{facts['system']}; load before the run {facts['load']}\n"
              f"Python {facts['python']}, {versions}", flush=True)  # fmt: skip
        if facts["busy"] > QUIET:
            print(f"**Not quiet**: other processes used {facts['busy']:.0%} of the processors "
                  "before the run, so times and maxima are pessimistic.")  # fmt: skip

    def table(self, title: str, rows: Sequence[Row], note: str = "") -> None:
        """Print one table, with a note below it; no table where there are no rows."""
        if not rows:
            return
        columns = list(rows[0])
        texts = [[_text(cell) for cell in row.values()] for row in rows]
        widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
        print(f"\n### {title}\n")
        print(_line([name.ljust(w) for name, w in zip(columns, widths, strict=True)]))
        print(_line(["-" * widths[0]] + ["-" * (w - 1) + ":" for w in widths[1:]]))
        for row in texts:
            cells = [row[0].ljust(widths[0])]
            cells += [text.rjust(w) for text, w in zip(row[1:], widths[1:], strict=True)]
            print(_line(cells))
        if note:
            print(f"\n{note}")
        sys.stdout.flush()
        self._content["tables"].append(
            {"title": title, "columns": columns, "rows": [list(row.values()) for row in rows]}
        )

    def write(self, file: Path | None) -> None:
        """Print the command, paths left out; write everything as JSON, where a file is given."""
        words = ["PATH" if os.sep in word else word for word in sys.argv[1:]]
        command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
        print(f"\n`{command}`", flush=True)
        if file is not None:
            file.write_text(json.dumps({**self._content, "command": command}, indent=1) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    """Return a cell's text: three significant digits, but whole numbers whole."""
    if cell is None or cell != cell:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100.0 else f"{cell:.3g}"
    return str(cell)
