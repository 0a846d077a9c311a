# SPDX-License-Identifier: Apache-2.0
"""Report of a benchmark: machine, tables and command, as Markdown and as JSON."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.processes import isolate
from motion_nodes.cli.cluster import cluster

PACKAGES = (
    "ros-jazzy-rclpy", "ros-kilted-rclpy", "numpy", "numba", "llvmlite", "mujoco", "viser",
    "ruckig", "scipy", "pin", "osqp", "proxsuite",
)  # fmt: skip
"""Packages whose versions are reported, if installed."""
QUIET = 0.1
"""Max CPU share of other processes before a run; a higher one makes results pessimistic."""

Cell = str | float | int | None
Row = dict[str, Cell]
"""Row of a table, by column."""
Options = argparse.Namespace
Measure = Callable[["Report", Options], object]


def benchmark(
    title: str, *, ros: bool = False, folders: bool = False, **flags: Any
) -> Callable[[Measure], Measure]:
    """Return a decorator that calls a measuring function if its file is run as a script.

    The function is the last one of its file. It receives report and options; the script exits with
    code 1 if it returns True.

    Args:
        title: title of the report, a format string of the options.
        ros: isolate this process and its children from other ROS traffic, and initialize rclpy.
        folders: whether the positional arguments are folders, at least one.
        flags: options: a default, or (default, help, choices). A type is an option without a
            default, a list one of several values, False a switch.
    """

    def decorated(measure: Measure) -> Measure:
        if measure.__module__ == "__main__":
            options = _parsed(str(sys.modules["__main__"].__doc__), folders, flags)
            sys.exit(_run(measure, title, options, ros))
        return measure

    return decorated


def _run(measure: Measure, title: str, options: argparse.Namespace, ros: bool) -> int:
    """Measure and report; return the exit code."""
    if ros:
        import rclpy

        isolate()
        rclpy.init(args=[])
    report = Report(title.format(**vars(options)))
    failed = measure(report, options) is True
    if ros:
        rclpy.try_shutdown()
    report.write(options.json)
    return int(failed)


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
    """Print the progress to stderr."""
    print(f"... {text}", file=sys.stderr, flush=True)


CLUSTER = ("", "address of a Dask scheduler that computes; its workers read the same folders")
"""The option of benchmarks of many problems."""


@contextlib.contextmanager
def workers(options: Options) -> Iterator[Executor]:
    """Context manager of the executor of ``options.cluster``, or of ``options.jobs`` threads."""
    with cluster(options.cluster) as remote:
        if remote is not None:
            yield remote
            return
        with ThreadPoolExecutor(options.jobs) as threads:
            yield threads


def busy_share(seconds: float = 0.5) -> float:
    """Return the share of all processors in use while this process sleeps for a time [s]."""

    def ticks() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]

    before, _, after = ticks(), time.sleep(seconds), ticks()
    spent = [b - a for a, b in zip(before, after, strict=True)]
    return 1.0 - (spent[3] + spent[4]) / max(1, sum(spent))  # idle, and waiting for a disk


def machine() -> dict[str, Any]:
    """Return the description of the machine and its load."""
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
    """Tables of one benchmark: printed immediately, written as JSON at the end."""

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
        """Print a table with a note below; nothing without rows. Rows may lack columns."""
        if not rows:
            return
        columns = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[row.get(name) for name in columns] for row in rows]
        texts = [[_text(cell) for cell in row] for row in cells]
        widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
        print(f"\n### {title}\n")
        print(_line([name.ljust(w) for name, w in zip(columns, widths, strict=True)]))
        print(_line(["-" * widths[0]] + ["-" * (w - 1) + ":" for w in widths[1:]]))
        for first, *others in texts:
            aligned = [text.rjust(w) for text, w in zip(others, widths[1:], strict=True)]
            print(_line([first.ljust(widths[0]), *aligned]))
        if note:
            print(f"\n{note}")
        sys.stdout.flush()
        self._content["tables"].append({"title": title, "columns": columns, "rows": cells})

    def write(self, file: Path | None) -> None:
        """Print the command without paths; write everything as JSON, if a file is given."""
        words = ["PATH" if os.sep in word else word for word in sys.argv[1:]]
        command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
        print(f"\n`{command}`", flush=True)
        if file is not None:
            file.write_text(json.dumps({**self._content, "command": command}, indent=1) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    """Return a cell's text: numbers with three significant digits, integers in full."""
    if cell is None or cell != cell:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100.0 else f"{cell:.3g}"
    return str(cell)
