# SPDX-License-Identifier: Apache-2.0
"""Picture of the divergence between recorded and replayed actions."""

from __future__ import annotations

import numpy as np

from motion_nodes.trajectory.svg_axes import COLOURS, Axes, page
from motion_nodes.typing import Array

WIDTH, HEIGHT = 760.0, 320.0
"""[px]"""


def divergence_svg(differences: Array, period: float) -> str:
    """Return an SVG with one curve for each action.

    Args:
        differences: magnitudes, shape (k, m).
        period: of the policy [s].
    """
    t = np.asarray(period * np.arange(len(differences)), dtype=np.float64)
    top = float(differences.max()) or 1.0
    axes = Axes(
        0.0, 0.0, WIDTH, HEIGHT, "difference of actions", (0.0, max(float(t[-1]), period)),
        (0.0, 1.05 * top), "t [s]",
    )  # fmt: skip
    for i, column in enumerate(differences.T):
        axes.curve(t, column, COLOURS[i % len(COLOURS)])
    return page(WIDTH, HEIGHT, [axes.svg()])
