# SPDX-License-Identifier: Apache-2.0
"""Learning curve of a training run as CSV and SVG files."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.learning.trainer import TrainingProgress
from motion_nodes.trajectory.svg_axes import COLOURS, Axes, page, text

_FIELDS = [field.name for field in dataclasses.fields(TrainingProgress)]
_WIDTH, _HEIGHT = 760.0, 260.0


def append_csv(file: Path, *rows: TrainingProgress) -> None:
    """Append rows; a new file gets a header."""
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        if new:
            writer.writerow(_FIELDS)
        for row in rows:
            values = dataclasses.astuple(row)
            writer.writerow(v if isinstance(v, int) else f"{v:.7g}" for v in values)


def read_csv(file: Path) -> list[TrainingProgress]:
    """Return the rows of a file of :func:`append_csv`, without an incomplete last one."""
    fields = dataclasses.fields(TrainingProgress)
    with file.open(newline="", encoding="utf-8") as rows:
        return [
            TrainingProgress(*(_number(field.type, row[field.name]) for field in fields))
            for row in csv.DictReader(rows)
            if None not in row.values()
        ]


def rewind_csv(file: Path, iteration: int) -> None:
    """Remove the rows after an update, which a resumed run writes again; atomic.

    Args:
        file: a file of :func:`append_csv`; there need not be one.
        iteration: number of the last update that is kept.
    """
    if not file.exists():
        return
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    append_csv(part, *(row for row in read_csv(file) if row.iteration <= iteration))
    part.replace(file)


def curve_svg(rows: Sequence[TrainingProgress], title: str) -> str:
    """Return returns and success over environment steps as an SVG document.

    Args:
        rows: figures after each update.
        title: heading.
    """
    steps = np.array([row.steps for row in rows], dtype=float)
    end = max(float(steps.max(initial=0.0)), 1.0)
    parts = [text(12.0, 20.0, title, size=15, weight="600")]
    for k, (name, heading) in enumerate(
        (("mean_return", "mean return of episodes"), ("success", "share of successful episodes"))
    ):
        values = np.array([getattr(row, name) for row in rows], dtype=float)
        known = np.isfinite(values)
        shown = values[known] if known.any() else np.zeros(1)
        low, high = (0.0, 1.0) if name == "success" else (float(shown.min()), float(shown.max()))
        axes = Axes(
            0.0, 30.0 + k * _HEIGHT, _WIDTH, _HEIGHT, heading,
            (0.0, end), (low, max(high, low + 1e-6)), "steps of all environments",
        )  # fmt: skip
        axes.curve(steps[known], values[known], COLOURS[k])
        parts.append(axes.svg())
    return page(_WIDTH, 40.0 + 2.0 * _HEIGHT, parts)


def _number(kind: object, word: str) -> Any:
    return int(word) if kind == "int" else float(word)
