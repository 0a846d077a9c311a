# SPDX-License-Identifier: Apache-2.0
"""The page of a training run plots the updates with completed episodes."""

from __future__ import annotations

import urllib.request

import numpy as np

from motion_nodes.extras.viewer.plot_panel import LearningPage


def test_curves_are_those_of_updates_with_episodes() -> None:
    with LearningPage("learning reach", 0) as page:
        assert urllib.request.urlopen(page.url, timeout=10.0).status == 200
        page.show([100, 200, 300], [np.nan, -2.0, 1.5], [np.nan, 0.0, 0.25], "300 steps")
        returns, success = (np.array(plot.data) for plot in page.plots)
        np.testing.assert_array_equal(returns, [[200, 300], [-2.0, 1.5]])
        np.testing.assert_array_equal(success, [[200, 300], [0.0, 0.25]])
        assert "300 steps" in page.status.content
