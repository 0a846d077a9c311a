# SPDX-License-Identifier: Apache-2.0
"""Axes with curves as SVG text: minimal plotting for trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

import numpy as np

from motion_nodes.typing import Array

COLOURS = (
    "#1f6fb4", "#d9541e", "#2a9d4e", "#8a4fb5", "#b8860b", "#0e8f9e", "#c2307a", "#5b6b7a",
)  # fmt: skip
_LEFT, _TOP, _BOTTOM = 62.0, 28.0, 30.0
"""Margins for numbers and titles [px]."""
_CLOSE_TICKS = 70.0
"""Min distance of two numbers on an axis [px]."""


@dataclass
class Axes:
    """A frame with axes; curves are clipped to it."""

    x: float
    """Left edge including numbers [px]."""
    y: float
    """Upper edge [px]."""
    width: float
    height: float
    title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_label: str = ""
    _drawn: list[str] = field(default_factory=list)

    @property
    def _frame(self) -> tuple[float, float, float, float]:
        """Return left, top, width and height of the plot area."""
        width, height = self.width - _LEFT - 10.0, self.height - _TOP - _BOTTOM
        return self.x + _LEFT, self.y + _TOP, width, height

    def pixels(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the coordinates [px] of values."""
        left, top, width, height = self._frame
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return left + (x - x0) / (x1 - x0) * width, top + (y1 - y) / (y1 - y0) * height

    def curve(self, x: Array, y: Array, colour: str, *, dash: str = "", width: float = 1.6) -> None:
        """Draw a line through points, shape (k,) each."""
        px, py = self.pixels(np.asarray(x), np.asarray(y))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self._drawn.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}" stroke-linejoin="round"{style}/>'
        )

    def cell(self, x: tuple[float, float], y: tuple[float, float], colour: str) -> None:
        """Fill a rectangle between two values of each axis."""
        px, py = self.pixels(np.array(x), np.array(y))
        self._drawn.append(
            f'<rect x="{px[0]:.1f}" y="{py[1]:.1f}" width="{px[1] - px[0]:.1f}" '
            f'height="{py[0] - py[1]:.1f}" fill="{colour}"/>'
        )

    def level(self, y: float, colour: str = "#c00000") -> None:
        """Draw a dashed line over the whole width."""
        self.curve(np.array(self.x_range), np.array([y, y]), colour, dash="6 4", width=1.2)

    def dot(self, x: float, y: float, colour: str, word: str) -> None:
        """Mark a point."""
        px, py = self.pixels(np.array([x]), np.array([y]))
        self._drawn.append(
            f'<circle cx="{px[0]:.1f}" cy="{py[0]:.1f}" r="4" fill="{colour}"/>'
            + text(px[0] + 7.0, py[0] - 5.0, word, size=11)
        )

    def svg(self) -> str:
        """Return the SVG text."""
        left, top, width, height = self._frame
        name = f"clip{abs(hash((self.x, self.y)))}"
        lines = [
            f'<clipPath id="{name}"><rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"/></clipPath>',
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
            'fill="#fcfcfd" stroke="#9aa4b0"/>',
            text(left, top - 9.0, self.title, size=13, weight="600"),
            text(left + width, top + height + 25.0, self.x_label, size=11, anchor="end"),
        ]
        for value in ticks(*self.x_range, width / _CLOSE_TICKS):
            px = left + (value - self.x_range[0]) / (self.x_range[1] - self.x_range[0]) * width
            lines.append(_line(px, top, px, top + height))
            lines.append(text(px, top + height + 14.0, f"{value:.6g}", size=10, anchor="middle"))
        for value in ticks(*self.y_range, height / (0.5 * _CLOSE_TICKS)):
            py = top + (self.y_range[1] - value) / (self.y_range[1] - self.y_range[0]) * height
            lines.append(_line(left, py, left + width, py))
            lines.append(text(left - 6.0, py + 3.5, f"{value:.6g}", size=10, anchor="end"))
        return "\n".join([*lines, f'<g clip-path="url(#{name})">', *self._drawn, "</g>"])


def ticks(low: float, high: float, count: float) -> list[float]:
    """Return round numbers between two values, about ``count`` at most."""
    rough = (high - low) / max(count, 1.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1.0 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def text(
    x: float, y: float, words: str, *, size: float, anchor: str = "start", weight: str = "400"
) -> str:
    """Return SVG text at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="#27313b">{escape(words)}</text>'
    )


def page(width: float, height: float, parts: list[str]) -> str:
    """Return an SVG document."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _line(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#e6e9ed"/>'
