# SPDX-License-Identifier: Apache-2.0
"""What every benchmark prints: the machine, tables in Markdown, and the same figures as JSON."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import itertools
import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = (
    "ros-jazzy-rclpy", "ros-kilted-rclpy", "numpy", "numba", "mujoco", "viser", "ruckig",
    "scipy", "osqp", "proxsuite",
)  # fmt: skip
"""Packages whose versions bear on the figures; those that are not installed are left out."""

Cell = str | float | int | None


@dataclass(frozen=True)
class Spread:
    """Median, 99th percentile and greatest of some values."""

    p50: float
    p99: float
    maximum: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarise values; NaN throughout where there are none."""
        ordered = sorted(values)
        if not ordered:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        return cls(_quantile(ordered, 0.5), _quantile(ordered, 0.99), ordered[-1], len(ordered))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values, linear between neighbours as NumPy's default."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def gaps(moments: Sequence[int]) -> Spread:
    """Return the spread of the times between successive moments [ms]; moments in ns."""
    return Spread.of((after - before) * 1e-6 for before, after in itertools.pairwise(moments))


def ratio(ours: float, peer: float) -> float | None:
    """Return ours by the peer's; None where the peer has nothing."""
    return ours / peer if peer else None


def machine() -> dict[str, Any]:
    """Return what the figures were measured on, and how busy it was."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions,
    }


def machine_lines(facts: dict[str, Any]) -> str:
    """Return the facts of :func:`machine` as two lines of text."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['date']}; {facts['cpu']}, {facts['cores']} cores, {facts['system']}; "
        f"load before the run {facts['load']}\nPython {facts['python']}, {versions}"
    )


class Report:
    """The tables of one benchmark: printed as they come, written as JSON at the end."""

    def __init__(self, title: str) -> None:
        """Print title and machine."""
        self._content: dict[str, Any] = {"title": title, "machine": machine(), "tables": []}
        print(f"## {title}\n\n{machine_lines(self._content['machine'])}", flush=True)

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
        """Write everything as JSON, where a file is given."""
        if file is not None:
            file.write_text(json.dumps(self._content, indent=1) + "\n")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    """Return a cell's text: three significant digits, but whole numbers whole."""
    if cell is None or cell != cell:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100.0 else f"{cell:.3g}"
    return str(cell)


def progress(text: str) -> None:
    """Say on stderr what is being measured."""
    print(f"... {text}", file=sys.stderr, flush=True)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with what all benchmarks take."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser
