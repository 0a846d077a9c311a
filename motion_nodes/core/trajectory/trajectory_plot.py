# SPDX-License-Identifier: Apache-2.0
"""Plots of trajectories: joints over time with their limits, and the path of the tool.

Plots are written as SVG text, without a plotting library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

import numpy as np

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.core.trajectory.joint_trajectory import JointTrajectory, Trajectory
from motion_nodes.core.trajectory.timed_path import TimedPath
from motion_nodes.typing import Array

COLOURS = (
    "#1f6fb4", "#d9541e", "#2a9d4e", "#8a4fb5", "#b8860b", "#0e8f9e", "#c2307a", "#5b6b7a",
)  # fmt: skip
_LEFT, _TOP, _BOTTOM = 62.0, 28.0, 30.0
"""Margins for numbers and titles [px]."""
_CLOSE_TICKS = 70.0
"""Min distance of two numbers on an axis [px]."""
SAMPLES = 1500
"""Number of samples."""
_CLOSE = 0.025
"""Points closer than this are drawn directly as the curve [s]."""
_WIDTH, _PANEL, _TOOL, _HEAD, _ROW = 1120.0, 210.0, 380.0, 50.0, 19.0


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


@dataclass(frozen=True)
class TrajectoryCurves:
    """Samples of a trajectory, arrays of shape (k, n)."""

    joint_names: tuple[str, ...]
    times: Array
    """[s], shape (k,)."""
    positions: Array
    velocities: Array
    accelerations: Array
    jerks: Array


def curves_of(motion: Trajectory, samples: int = SAMPLES) -> TrajectoryCurves:
    """Return samples of a trajectory; jerks by differences if it does not provide them.

    Dense points in time are drawn as they are, because their interpolation depends on the robot.
    """
    times = np.linspace(motion.start_time, motion.end_time, samples)
    if isinstance(motion, TimedPath):
        q, v, a, j = motion.states(times)
    elif isinstance(motion, JointTrajectory) and _is_dense(motion):
        assert motion.velocities is not None
        assert motion.accelerations is not None
        times, q = motion.times, motion.positions
        v, a = motion.velocities, motion.accelerations
        j = np.gradient(a, times, axis=0)
    else:
        found = [motion.sample(t) for t in times.tolist()]
        q, v, a = (np.array([s[k] for s in found]) for k in range(3))
        j = np.gradient(a, times, axis=0) if motion.duration > 0.0 else np.zeros_like(a)
    return TrajectoryCurves(motion.joint_names, times, q, v, a, j)


def _is_dense(motion: JointTrajectory) -> bool:
    return (
        motion.accelerations is not None
        and len(motion.times) > 2
        and float(np.diff(motion.times).max()) <= _CLOSE
    )


def trajectory_svg(
    curves: TrajectoryCurves, limits: JointLimits, tool: Array | None = None, title: str = ""
) -> str:
    """Return the plot as SVG text.

    Velocities, accelerations and jerks are divided by each joint's limit, so that the lines at -1
    and 1 are the limits of all joints; joints without a limit are omitted there.

    Args:
        curves: samples.
        limits: of its joints, in its order.
        tool: positions of the tool [m], shape (k, 3); None: not drawn.
        title: heading.
    """
    parts = [text(20.0, 30.0, title, size=17, weight="600")]
    parts += _table(curves, limits)
    y = _HEAD + _ROW * (len(curves.joint_names) + 2)
    span = _span(curves.times)
    low, high = _padded(curves.positions)
    axes = Axes(0.0, y, _WIDTH, _PANEL, "position [rad or m]", span, (low, high), "time [s]")
    for k in range(len(curves.joint_names)):
        axes.curve(curves.times, curves.positions[:, k], *_style(k))
    parts.append(axes.svg())
    for values, bounds, what in (
        (curves.velocities, limits.velocity, "velocity"),
        (curves.accelerations, limits.acceleration, "acceleration"),
        (curves.jerks, limits.jerk, "jerk"),
    ):
        y += _PANEL
        parts.append(_shares(curves.times, values, bounds, what, y))
    y += _PANEL
    if tool is not None:
        parts += _tool_views(tool, y)
        y += _TOOL
    return page(_WIDTH, y + 10.0, parts)


def _style(k: int) -> tuple[str]:
    return (COLOURS[k % len(COLOURS)],)


def _shares(times: Array, values: Array, bounds: Array, what: str, y: float) -> str:
    known = np.flatnonzero(np.isfinite(bounds))
    span = _span(times)
    if not len(known):
        axes = Axes(
            0.0, y, _WIDTH, _PANEL, f"{what}: the joints have no limits of it", span,
            _padded(values), "time [s]",
        )  # fmt: skip
        for k in range(values.shape[1]):
            axes.curve(times, values[:, k], *_style(k))
        return axes.svg()
    shares = values[:, known] / bounds[known]
    most = max(1.0, float(np.abs(shares).max())) * 1.08
    axes = Axes(
        0.0, y, _WIDTH, _PANEL, f"{what}, share of its limit", span, (-most, most), "time [s]"
    )
    for column, k in enumerate(known.tolist()):
        axes.curve(times, shares[:, column], *_style(k))
    axes.level(1.0)
    axes.level(-1.0)
    return axes.svg()


def _table(curves: TrajectoryCurves, limits: JointLimits) -> list[str]:
    """Return a line for each joint: its colour, and its max limit utilization."""
    columns = (20.0, 260.0, 470.0, 620.0, 790.0)
    heads = ("joint", "position, of its limits", "velocity", "acceleration", "jerk")
    y = _HEAD + 6.0
    parts = [
        text(x, y, head, size=12, weight="600") for x, head in zip(columns, heads, strict=True)
    ]
    for k, name in enumerate(curves.joint_names):
        y += _ROW
        q = curves.positions[:, k]
        words = [
            name,
            f"{q.min():.4g} to {q.max():.4g} of {limits.lower[k]:.4g} to {limits.upper[k]:.4g}",
            _share(curves.velocities[:, k], limits.velocity[k]),
            _share(curves.accelerations[:, k], limits.acceleration[k]),
            _share(curves.jerks[:, k], limits.jerk[k]),
        ]
        parts.append(
            f'<rect x="20" y="{y - 9.0:.1f}" width="14" height="9" fill="{_style(k)[0]}"/>'
        )
        places = (columns[0] + 20.0, *columns[1:])
        parts += [text(x, y, word, size=12) for x, word in zip(places, words, strict=True)]
    return parts


def _share(values: Array, bound: float) -> str:
    most = float(np.abs(values).max())
    if not np.isfinite(bound):
        return f"{most:.4g}, no limit"
    return f"{100.0 * most / bound:.1f} % of {bound:.4g}"


def _tool_views(tool: Array, y: float) -> list[str]:
    """Return the tool's path in top and side view, with equal scales."""
    middle = 0.5 * (tool.min(axis=0) + tool.max(axis=0))
    half = max(0.02, 0.55 * float(np.ptp(tool, axis=0).max()))
    width = _WIDTH / 2.0
    # Equal scales in metres per pixel, within the margins of Axes.
    wide = half * (width - 72.0) / (_TOOL - 58.0)
    parts = []
    for column, (i, j, title) in enumerate(
        ((0, 1, "tool from above: y over x [m]"), (0, 2, "tool from the side: z over x [m]"))
    ):
        axes = Axes(
            column * width, y, width, _TOOL, title,
            (middle[i] - wide, middle[i] + wide), (middle[j] - half, middle[j] + half), "x [m]",
        )  # fmt: skip
        axes.curve(tool[:, i], tool[:, j], COLOURS[0], width=2.0)
        first, last = tool[0, [i, j]], tool[-1, [i, j]]
        # Two words at one place could not be read.
        together = bool(np.abs(last - first).max() < 0.05 * half)
        axes.dot(first[0], first[1], COLOURS[2], "start, end" if together else "start")
        if not together:
            axes.dot(last[0], last[1], COLOURS[1], "end")
        parts.append(axes.svg())
    return parts


def _span(times: Array) -> tuple[float, float]:
    """Return the range of the time axis [s]; one second for a single point."""
    return float(times[0]), float(times[-1]) if times[-1] > times[0] else float(times[0]) + 1.0


def _padded(values: Array) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = max(0.05 * (high - low), 1e-3)
    return low - room, high + room
