# SPDX-License-Identifier: Apache-2.0
"""Plots of joint positions and velocities over time; all methods run on viser's event loop.

Values are drawn relative to their limits. A training run has a page of its own with its learning
curve.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import viser
from numpy.typing import ArrayLike
from viser import uplot

from motion_nodes.core.robot.limits import JointLimits
from motion_nodes.extras.viewer.joint_panel import short_labels
from motion_nodes.extras.viewer.page_server import PageSettings, ServedPage
from motion_nodes.extras.viewer.panel_style import RAD, AngleUnit, on_loop, plain
from motion_nodes.typing import Array

WINDOW = 20.0
"""Length of the history [s]."""
PERIOD = 0.1
"""Min time between two samples [s]."""
QUANTITIES = ("position", "velocity")
ALL = "all, in % of their limits"
"""Selects all joints that have limits."""
COLOURS = (
    "#4c8bf5", "#e8710a", "#34a853", "#a142f4", "#d93025", "#12b5cb", "#b8860b", "#e52592",
    "#607d8b", "#7cb342",
)  # fmt: skip
LIMIT_COLOUR = "#d93025"
HEIGHT = 220
"""[pixels]"""
CURVES = {"mean return of episodes": None, "share of successful episodes": (0.0, 1.0)}
"""Names of the plots, and their ranges; None: that of the values."""


@dataclass(frozen=True)
class Curves:
    """Data of a plot."""

    times: Array
    """Times relative to now, at most 0 [s], shape (m,)."""
    names: tuple[str, ...]
    """Joints."""
    values: tuple[Array, ...]
    """Values of each joint, shape (m,), in ``unit``."""
    limits: tuple[float, ...]
    """Limits in ``unit``; empty for a joint without limits."""
    unit: str
    """``rad``, ``m``, ``rad/s``, ``m/s`` or ``%``."""


class JointHistory:
    """A ring buffer of joint states; not thread-safe, the caller provides the time.

    Args:
        limits: of the joints.
        prismatic: whether each joint is prismatic, n values.
    """

    def __init__(self, limits: JointLimits, prismatic: tuple[bool, ...]) -> None:
        self._limits, self._prismatic = limits, prismatic
        self._samples: deque[tuple[float, Array, Array]] = deque(maxlen=round(WINDOW / PERIOD))

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, now: float, q: Array, v: Array) -> None:
        """Add a sample; skipped if the last one is less than ``PERIOD`` old.

        Args:
            now: current time [s].
            q: positions [rad or m], shape (n,).
            v: velocities [rad/s or m/s], shape (n,).
        """
        if not self._samples or now - self._samples[-1][0] >= PERIOD:
            self._samples.append((now, q.copy(), v.copy()))

    def curves(self, now: float, quantity: str, joint: str) -> Curves:
        """Return the data of a plot.

        Args:
            now: current time [s].
            quantity: one of ``QUANTITIES``.
            joint: name of a joint, or ``ALL`` for those that have limits.
        """
        kept = [sample for sample in self._samples if now - sample[0] <= WINDOW]
        times = np.array([sample[0] - now for sample in kept])
        names = self._limits.names
        q, v = (np.array([sample[k] for sample in kept]).reshape(-1, len(names)) for k in (1, 2))
        if joint == ALL:
            return self.of(times, q, v, quantity)
        i, (low, high) = names.index(joint), self._bounds(quantity)
        limits = tuple(float(x) for x in (low[i], high[i]) if np.isfinite(x))
        unit = "m" if self._prismatic[i] else "rad"
        unit += "/s" if quantity == "velocity" else ""
        values = (q if quantity == "position" else v)[:, i]
        return Curves(times, (joint,), (values,), limits, unit)

    def of(self, times: Array, q: Array, v: Array, quantity: str) -> Curves:
        """Return curves of all joints with limits, in percent.

        Args:
            times: of the samples [s], shape (m,).
            q: positions [rad or m], shape (m, n).
            v: velocities [rad/s or m/s], shape (m, n).
            quantity: one of ``QUANTITIES``.
        """
        names, values = self._limits.names, q if quantity == "position" else v
        low, high = self._bounds(quantity)
        with_limits = np.flatnonzero(np.isfinite(high - low) & (high > low))
        # Positions: 0 to 100 % of the range; velocities: -100 to 100 % of the limit.
        ends = (0.0, 100.0) if quantity == "position" else (-100.0, 100.0)
        share = (values - low) / np.where(high > low, high - low, 1.0)
        percent = ends[0] + (ends[1] - ends[0]) * share
        chosen = tuple(names[i] for i in with_limits)
        return Curves(times, chosen, tuple(percent[:, i] for i in with_limits), ends, "%")

    def _bounds(self, quantity: str) -> tuple[Array, Array]:
        if quantity == "position":
            return self._limits.lower, self._limits.upper
        return -self._limits.velocity, self._limits.velocity


class PlotPanel:
    """One plot, which sends no data until it is enabled.

    Args:
        gui: viser's panel; elements are added to the active container.
        joints: names of the joints to select from.
        unit: of angles.
    """

    def __init__(self, gui: viser.GuiApi, joints: Sequence[str], unit: AngleUnit) -> None:
        self._gui, self._unit = gui, unit
        self._labels = dict(zip(joints, short_labels(tuple(joints)), strict=True))
        self._plot: viser.GuiUplotHandle | None = None
        self._shape: tuple[object, ...] = ()
        self.show = gui.add_checkbox("Plot joints", False)
        self.quantity = gui.add_dropdown("Quantity", QUANTITIES, visible=False)
        self.joint = gui.add_dropdown("Joint", (ALL, *joints), visible=False)
        self._frame = gui.add_folder(None)
        self.show.on_update(on_loop(self._switched))

    @property
    def enabled(self) -> bool:
        """Whether the plot is shown."""
        return bool(self.show.value)

    def draw(self, curves: Curves) -> None:
        """Update the plot; ``curves`` in rad and m."""
        curves = self._converted(curves)
        names = tuple(self._labels.get(name, name) for name in curves.names)
        shape = (names, curves.limits, curves.unit)
        data = data_of(curves)
        if self._plot is None or shape != self._shape:
            self._shape = shape
            self._replace(curves, names, data)
        else:
            self._plot.data = data

    def _converted(self, curves: Curves) -> Curves:
        """Return curves in the unit of the panel."""
        if not curves.unit.startswith(RAD):
            return curves
        scale = self._unit.per_radian
        return replace(
            curves,
            values=tuple(scale * line for line in curves.values),
            limits=tuple(scale * limit for limit in curves.limits),
            unit=curves.unit.replace(RAD, self._unit.name),
        )

    def _replace(self, curves: Curves, names: tuple[str, ...], data: tuple[Array, ...]) -> None:
        """Replace the plot: viser cannot change the series of an existing one."""
        if self._plot is not None:
            self._plot.remove()
        title = f"{self.quantity.value} [{curves.unit}]"
        with self._frame:
            self._plot = joint_plot(
                self._gui, title, replace(curves, names=names), data, (-WINDOW, 0.0)
            )

    def _switched(self) -> None:
        for element in (self.quantity, self.joint):
            element.visible = self.enabled
        if self._plot is not None and not self.enabled:
            self._plot.remove()
            self._plot = None


def joint_plot(
    gui: viser.GuiApi,
    title: str,
    curves: Curves,
    data: tuple[Array, ...],
    span: tuple[float, float],
) -> viser.GuiUplotHandle:
    """Add a plot of joints over time to the active container.

    Args:
        gui: viser's panel.
        title: of the plot, with the unit.
        curves: names, limits and unit of the lines.
        data: times, then the values of each line, shape (m,).
        span: first and last time shown [s].
    """
    series = [uplot.Series(label="s")]
    for name, colour in zip(curves.names, COLOURS * len(curves.names), strict=False):
        series.append(uplot.Series(label=name, stroke=colour, width=2, points=_no_points()))
    for limit in curves.limits:
        series.append(
            uplot.Series(
                label=f"{limit:.3g} {curves.unit}", stroke=LIMIT_COLOUR, width=1, dash=(6, 4),
                points=_no_points(),
            )
        )  # fmt: skip
    grid = uplot.Axis_Grid(stroke="#8884", width=1)
    return gui.add_uplot(
        data, tuple(series), height=HEIGHT, title=title,
        scales={"x": uplot.Scale(time=False, range=span)},
        axes=(uplot.Axis(stroke="#888", grid=grid), uplot.Axis(stroke="#888", size=48, grid=grid)),
        # A click on a name hides its line.
        legend=uplot.Legend(show=True, live=False),
    )  # fmt: skip


def planned_curves(
    times: Array, rows: Array, quantity: str, limits: JointLimits, columns: Sequence[int]
) -> Curves:
    """Return a plan over time, in percent of the limits as in :class:`JointHistory`.

    Args:
        times: from the start of the plan [s], shape (m,).
        rows: positions of all joints [rad or m], shape (m, n).
        quantity: one of ``QUANTITIES``; velocities are differences of the positions.
        limits: of all joints.
        columns: joints to show.
    """
    history = JointHistory(limits, (False,) * rows.shape[1])
    when = np.maximum.accumulate(times + 1e-6 * np.arange(len(times)))
    speeds = np.gradient(rows, when, axis=0) if len(times) > 1 else np.zeros_like(rows)
    kept = history.of(times, rows, speeds, quantity)
    names = [limits.names[k] for k in columns]
    shown = [k for k, name in enumerate(kept.names) if name in names]
    return replace(
        kept, names=tuple(kept.names[k] for k in shown), values=tuple(kept.values[k] for k in shown)
    )


def _no_points() -> uplot.Series_Points:
    return uplot.Series_Points(show=False)


def data_of(curves: Curves) -> tuple[Array, ...]:
    """Return times, then the values of each line and limit, shape (m,) each."""
    lines = tuple(np.full(len(curves.times), limit) for limit in curves.limits)
    return (curves.times, *curves.values, *lines)


class LearningPage(ServedPage):
    """Serves the learning curve of one run; a context manager.

    Args:
        title: title of the panel.
        port: TCP port of the page; 0: any free port.

    Raises:
        InvalidConfig: the host or port cannot be used.
        PortInUse: no port is free.
    """

    def __init__(self, title: str, port: int) -> None:
        super().__init__(PageSettings(port, title=title))
        gui = self._server.gui
        self.status = gui.add_markdown("Waiting for the first update.")
        self.plots = [
            _plot(gui, name, bounds, colour)
            for (name, bounds), colour in zip(CURVES.items(), COLOURS, strict=False)
        ]

    def show(self, steps: ArrayLike, returns: ArrayLike, success: ArrayLike, status: str) -> None:
        """Replace the curves.

        Args:
            steps: steps of all environments after each update, shape (k,).
            returns: mean returns of the episodes that ended, NaN: none, shape (k,).
            success: shares of successful episodes likewise, 0 to 1, shape (k,).
            status: the newest values, as text.
        """
        x = np.asarray(steps, dtype=np.float64)
        for plot, values in zip(self.plots, (returns, success), strict=True):
            y = np.asarray(values, dtype=np.float64)
            known = np.isfinite(y)
            plot.data = (x[known], y[known])
        self.status.content = plain(status)


def _plot(
    gui: viser.GuiApi, name: str, bounds: tuple[float, float] | None, colour: str
) -> viser.GuiUplotHandle:
    """Add an empty plot over the steps."""
    grid = uplot.Axis_Grid(stroke="#8884", width=1)
    return gui.add_uplot(
        (np.zeros(0), np.zeros(0)),
        (uplot.Series(label="steps"), uplot.Series(label=name, stroke=colour, width=2)),
        height=HEIGHT,
        title=name,
        scales={
            "x": uplot.Scale(time=False),
            "y": uplot.Scale(auto=True) if bounds is None else uplot.Scale(range=bounds),
        },
        axes=(uplot.Axis(stroke="#888", grid=grid), uplot.Axis(stroke="#888", size=48, grid=grid)),
    )
