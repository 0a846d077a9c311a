# SPDX-License-Identifier: Apache-2.0
"""Figures of results: panels of curves, drawn by Matplotlib where it is installed, else as SVG."""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motion_nodes.core.trajectory.trajectory_plot import COLOURS, Axes, page, text
from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

_WIDTH, _HEIGHT, _HEAD, _LEGEND = 900.0, 230.0, 40.0, 130.0
"""[px]"""


@dataclass(frozen=True, eq=False)
class Panel:
    """Curves over one axis."""

    title: str
    curves: tuple[tuple[Array, Array, str], ...]
    """Values of both axes, shape (k,) each, and a name; empty: not in the legend."""
    x_label: str = ""
    levels: tuple[float, ...] = ()
    """Heights of dashed lines, such as limits."""
    bars: bool = False
    """Whether the points are ends of bars from 0."""


class SvgFigure:
    """An SVG picture, which notebooks display; the part of Matplotlib's interface that it has."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def __repr__(self) -> str:
        """Return its size."""
        return f"SvgFigure({len(self.svg) // 1000 + 1} kB; savefig('name.svg') writes it)"

    def _repr_svg_(self) -> str:
        return self.svg

    def savefig(self, path: str | Path) -> None:
        """Write the picture.

        Args:
            path: of the file, ``.svg``.

        Raises:
            InvalidConfig: another suffix, or the file cannot be written.
        """
        file = Path(path).expanduser()
        if file.suffix != ".svg":
            raise InvalidConfig(
                f"{path}: without Matplotlib (pip install motion_nodes[plot]) figures are written "
                "as .svg only.",
                field="path",
            )
        try:
            file.write_text(self.svg, encoding="utf-8")
        except OSError as error:
            raise InvalidConfig(f"{path} cannot be written: {error.strerror}.") from None


def figure_of(panels: Sequence[Panel], title: str, svg: bool | None = None) -> Any:
    """Return panels one below the other.

    Args:
        panels: the panels.
        title: of the figure.
        svg: whether to draw SVG; None: only where Matplotlib is missing.

    Returns:
        A ``matplotlib.figure.Figure``, or :class:`SvgFigure`; notebooks display both, and
        ``savefig(path)`` writes both.
    """
    if svg or (svg is None and importlib.util.find_spec("matplotlib") is None):
        return SvgFigure(_svg(panels, title))
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(9.0, 0.6 + 2.3 * len(panels)), layout="constrained"
    )
    figure.suptitle(title)
    grid = figure.subplots(len(panels), squeeze=False)[:, 0]
    for axes, panel in zip(grid, panels, strict=True):
        for k, (x, y, label) in enumerate(panel.curves):
            colour = COLOURS[k % len(COLOURS)]
            if panel.bars:
                axes.bar(x, y, color=colour, label=label)
            else:
                axes.plot(x, y, color=colour, label=label)
        for level in panel.levels:
            axes.axhline(level, color="#c00000", linestyle="--", linewidth=1.0)
        axes.set_title(panel.title, fontsize="medium", loc="left")
        axes.set_xlabel(panel.x_label)
        axes.grid(alpha=0.3)
        if any(label for _, _, label in panel.curves):
            axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure._repr_png_ = lambda: _png(figure)
    return figure


def trajectory_figure(motion: Any, title: str, svg: bool | None = None) -> Any:
    """Return positions, velocities and accelerations of a trajectory over time.

    Args:
        motion: a ``Trajectory``.
        title: of the figure.
        svg: see :func:`figure_of`.
    """
    from motion_nodes.core.trajectory.trajectory_plot import curves_of

    curves = curves_of(motion, 400)
    panels = [
        Panel(
            f"{what} [rad{unit} or m{unit}]",
            tuple(
                (curves.times, values[:, k], name if not unit else "")
                for k, name in enumerate(curves.joint_names)
            ),
            "time [s]",
        )
        for what, unit, values in (
            ("position", "", curves.positions),
            ("velocity", "/s", curves.velocities),
            ("acceleration", "/s²", curves.accelerations),
        )
    ]
    return figure_of(panels, title, svg)


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()


def _svg(panels: Sequence[Panel], title: str) -> str:
    parts, y = [text(20.0, 26.0, title, size=16, weight="600")], _HEAD
    for panel in panels:
        spans = (
            _span([x for x, _, _ in panel.curves]),
            _span([*(v for _, v, _ in panel.curves), np.array(panel.levels),
                   np.zeros(int(panel.bars))]),
        )  # fmt: skip
        axes = Axes(
            0.0, y, _WIDTH - _LEGEND, _HEIGHT, panel.title, spans[0], spans[1], panel.x_label
        )
        for k, (x, values, label) in enumerate(panel.curves):
            colour = COLOURS[k % len(COLOURS)]
            if panel.bars:
                half = 0.01 * (spans[0][1] - spans[0][0])
                for place, value in zip(x.tolist(), values.tolist(), strict=True):
                    ends = min(value, 0.0), max(value, 0.0)
                    axes.cell((place - half, place + half), ends, colour)
            else:
                axes.curve(x, values, colour)
            if label:
                place = y + 40.0 + 16.0 * k
                parts.append(
                    f'<rect x="{_WIDTH - _LEGEND:.0f}" y="{place - 8.0:.1f}" width="14" '
                    f'height="8" fill="{colour}"/>'
                )
                parts.append(text(_WIDTH - _LEGEND + 18.0, place, label[:16], size=11))
        for level in panel.levels:
            axes.level(level)
        parts.append(axes.svg())
        y += _HEIGHT
    return page(_WIDTH, y + 10.0, parts)


def _span(values: Sequence[Array]) -> tuple[float, float]:
    """Return the range of finite values with room around it."""
    every = np.concatenate([np.ravel(v) for v in values]) if values else np.zeros(1)
    every = every[np.isfinite(every)]
    low, high = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
    room = max(0.03 * (high - low), 1e-3)
    return low - room, high + room
