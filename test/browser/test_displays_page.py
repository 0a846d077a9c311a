# SPDX-License-Identifier: Apache-2.0
"""Displays and scene files in a real browser, on two pages at once."""

from collections.abc import Callable

import pytest
from browser.chromium import PAGE_LIMIT, chromium_page
from browser.chromium import wait_for as wait_within

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SMALL = (1000, 600)
"""[pixels] The page is drawn without a graphics card here."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as opened:
        yield opened


@pytest.fixture(scope="module")
def viewer(page):
    viewed = ViewedRobot.of(load_robot("jetbot"))
    arm = ViewedRobot.of(load_robot("so101"), X_WR=from_xyz_rpy((0.4, 0, 0)), edits_scene=True)
    with BrowserViewer([viewed, arm], PageSettings(port=0, shadows=False), displays=True) as opened:
        page.open(opened.url)
        wait(lambda: opened.client_count == 1, "the page is connected")
        yield opened


def wait(condition: Callable[[], object], what: str) -> None:
    """Wait with the long timeout of drawn pages."""
    wait_within(condition, what, PAGE_LIMIT)


@pytest.mark.long
def test_a_second_page_shows_and_commands_the_same(page, viewer):
    twists: list[tuple[float, ...]] = []
    viewer.on_twist = lambda _, *twist: twists.append(twist)
    first = page.driver.current_window_handle
    page.check("TF", True)
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    page.open(viewer.url)
    wait(lambda: viewer.client_count == 2, "both pages are connected")
    page.wait_for_text("2 pages open")
    page.open_folder("Displays")
    assert page.is_checked("TF"), "state of the other page is shown"
    page.check("Latch", True, "jetbot")
    page.click("Forward", "jetbot")
    wait(lambda: twists and twists[-1][0] > 0.0, "the second page drives")
    page.driver.switch_to.window(first)
    wait(lambda: page.is_checked("Latch", "jetbot"), "the first page follows")
    page.click("Stop", "jetbot")
    wait(lambda: not any(twists[-1]), "the first page stops what the second one started")
    page.driver.switch_to.window(second)
    page.driver.close()
    page.driver.switch_to.window(first)
    wait(lambda: viewer.client_count == 1, "one page is left")
    page.wait_for_text("1 page open")
