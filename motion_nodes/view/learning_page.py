# SPDX-License-Identifier: Apache-2.0
"""The page of a training run: its learning curve, updated during training."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser
from numpy.typing import ArrayLike
from viser import uplot

from motion_nodes.view.page_server import address_of, start_server, stop_server
from motion_nodes.view.page_token import page_token
from motion_nodes.view.plot_panel import COLOURS, HEIGHT
from motion_nodes.view.status_text import plain

CURVES = {"mean return of episodes": None, "share of successful episodes": (0.0, 1.0)}
"""Names of the plots, and their ranges; None: that of the values."""


class LearningPage:
    """Serves the learning curve of one run; a context manager.

    Args:
        title: title of the panel.
        port: TCP port of the page; 0: any free port.
        host: address to listen on.

    Raises:
        InvalidConfig: the host or port cannot be used.
        PortInUse: no port is free.
    """

    def __init__(self, title: str, port: int, *, host: str = "127.0.0.1") -> None:
        """Start the server."""
        self._token = page_token()
        self._server = start_server(host, port, 10, title, False, self._token)
        gui = self._server.gui
        self.status = gui.add_markdown("Waiting for the first update.")
        self.plots = [
            _plot(gui, name, bounds, colour)
            for (name, bounds), colour in zip(CURVES.items(), COLOURS, strict=False)
        ]

    @property
    def url(self) -> str:
        """Address of the page."""
        return address_of(self._server, self._token)

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

    def close(self) -> None:
        """Stop the server."""
        stop_server(self._server)

    def __enter__(self) -> LearningPage:
        """Return the page."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Stop the server."""
        self.close()


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
