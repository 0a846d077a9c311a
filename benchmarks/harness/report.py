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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = (
    "ros-jazzy-rclpy", "ros-kilted-rclpy", "numpy", "numba", "llvmlite", "mujoco", "viser",
    "ruckig", "scipy", "pin", "osqp", "proxsuite",
)  # fmt: skip
"""Packages whose versions bear on the figures; those that are not installed are left out."""
QUIET = 0.1
"""Share of the processors that others may use before a run; more makes the figures pessimistic."""

Cell = str | float | int | None


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with what all benchmarks take."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser


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

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = ""
    ) -> None:
        """Print one table, with a note below it."""
        texts = [[_text(cell) for cell in row] for row in rows]
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
            {"title": title, "columns": list(columns), "rows": [list(r) for r in rows]}
        )

    def write(self, file: Path | None) -> None:
        """Print the command; write everything as JSON, where a file is given."""
        print(f"\n`{command()}`", flush=True)
        self._content["command"] = command()
        if file is not None:
            file.write_text(json.dumps(self._content, indent=1) + "\n")


def command() -> str:
    """Return the command line of this process, with paths of this machine left out."""
    words = ["PATH" if os.sep in word else word for word in sys.argv[1:]]
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    """Return a cell's text: three significant digits, but whole numbers whole."""
    if cell is None or cell != cell:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100.0 else f"{cell:.3g}"
    return str(cell)
