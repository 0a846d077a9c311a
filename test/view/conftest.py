# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the tests of the viewer."""

import pytest
from view.toy_robot import hand_made

from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

FREE_PORT = PageSettings(port=0)


@pytest.fixture
def toy():
    """An arm."""
    return hand_made()


@pytest.fixture
def open_viewer():
    """Open viewers on free ports, closed after the test."""
    opened: list[BrowserViewer] = []

    def make(
        *robots: ViewedRobot, page: PageSettings = FREE_PORT, **parts: object
    ) -> BrowserViewer:
        opened.append(BrowserViewer(robots, page, **parts))
        return opened[-1]

    yield make
    for viewer in opened:
        viewer.close()
