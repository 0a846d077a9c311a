# SPDX-License-Identifier: Apache-2.0
"""Plots of joint positions and velocities over time; all methods run on viser's event loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import viser
from viser import uplot

from motion_nodes.typing import Array
from motion_nodes.view.angle_unit import RAD, AngleUnit
from motion_nodes.view.joint_history import ALL, QUANTITIES, WINDOW, Curves
from motion_nodes.view.joint_panel import short_labels

COLOURS = (
    "#4c8bf5", "#e8710a", "#34a853", "#a142f4", "#d93025", "#12b5cb", "#b8860b", "#e52592",
    "#607d8b", "#7cb342",
)  # fmt: skip
LIMIT_COLOUR = "#d93025"
HEIGHT = 220
"""[pixels]"""


class PlotPanel:
    """One plot, which sends no data until it is enabled.

    Args:
        gui: viser's panel; elements are added to the active container.
        joints: names of the joints to select from.
        unit: of angles.
    """

    def __init__(self, gui: viser.GuiApi, joints: Sequence[str], unit: AngleUnit) -> None:
        """Add the elements to the panel."""
        self._gui, self._unit = gui, unit
        self._labels = dict(zip(joints, short_labels(tuple(joints)), strict=True))
        self._plot: viser.GuiUplotHandle | None = None
        self._shape: tuple[object, ...] = ()
        self.show = gui.add_checkbox("Plot joints", False)
        self.quantity = gui.add_dropdown("Quantity", QUANTITIES, visible=False)
        self.joint = gui.add_dropdown("Joint", (ALL, *joints), visible=False)
        self._frame = gui.add_folder(None)
        self.show.on_update(self._switched)

    @property
    def enabled(self) -> bool:
        """Whether the plot is shown."""
        return bool(self.show.value)

    def draw(self, curves: Curves) -> None:
        """Update the plot; ``curves`` in rad and m."""
        curves = self._converted(curves)
        names = tuple(self._labels.get(name, name) for name in curves.names)
        shape = (names, curves.limits, curves.unit)
        data = _data(curves)
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
        series = [uplot.Series(label="s")]
        for name, colour in zip(names, COLOURS * len(names), strict=False):
            series.append(uplot.Series(label=name, stroke=colour, width=2, points=_no_points()))
        for limit in curves.limits:
            series.append(
                uplot.Series(
                    label=f"{limit:.3g} {curves.unit}", stroke=LIMIT_COLOUR, width=1, dash=(6, 4),
                    points=_no_points(),
                )
            )  # fmt: skip
        with self._frame:
            self._plot = self._gui.add_uplot(
                data, tuple(series), height=HEIGHT, title=f"{self.quantity.value} [{curves.unit}]",
                scales={"x": uplot.Scale(time=False, range=(-WINDOW, 0.0))},
                axes=(
                    uplot.Axis(stroke="#888", grid=uplot.Axis_Grid(stroke="#8884", width=1)),
                    uplot.Axis(
                        stroke="#888", size=48, grid=uplot.Axis_Grid(stroke="#8884", width=1)
                    ),
                ),
                # A click on a name hides its line.
                legend=uplot.Legend(show=True, live=False),
            )  # fmt: skip

    async def _switched(self, _: viser.GuiEvent[viser.GuiCheckboxHandle]) -> None:
        for element in (self.quantity, self.joint):
            element.visible = self.enabled
        if self._plot is not None and not self.enabled:
            self._plot.remove()
            self._plot = None


def _no_points() -> uplot.Series_Points:
    return uplot.Series_Points(show=False)


def _data(curves: Curves) -> tuple[Array, ...]:
    lines = tuple(np.full(len(curves.times), limit) for limit in curves.limits)
    return (curves.times, *curves.values, *lines)
