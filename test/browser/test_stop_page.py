# SPDX-License-Identifier: Apache-2.0
"""Stop and Esc in a real browser: sent whatever has the focus; Resume appears."""

import pytest
from browser.chromium import PAGE_LIMIT, Page, chromium_page, wait_for

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.suite_panels import Health
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Calls:
    """Counts stops and resumes of the page; a stop is latched, as by the suite."""

    def __init__(self, viewer: BrowserViewer) -> None:
        self.stops = self.resumes = 0
        self._viewer = viewer
        viewer.on_stop, viewer.on_resume = self._stop, self._resume

    def _stop(self) -> None:
        self.stops += 1
        self._viewer.set_stopped("stopped on the page")

    def _resume(self) -> None:
        self.resumes += 1
        self._viewer.set_stopped("")


@pytest.fixture(scope="module")
def viewer(page):
    """A viewer with a base and the stop, open in the page."""
    robots = [ViewedRobot.of(load_robot("jetbot"))]
    with BrowserViewer(robots, PageSettings(port=0, shadows=False), stops=True) as opened:
        opened.update_health([Health(f"node_{i}", "OK", "ready") for i in range(40)])
        page.open(opened.url)
        wait_for(lambda: opened.client_count == 1, "the page is connected")
        yield opened


@pytest.fixture
def calls(viewer):
    """Calls of the page during one test; the robots are not stopped."""
    viewer.set_stopped("")
    return Calls(viewer)


def press_escape(page: Page) -> None:
    """Press Esc, whatever has the focus."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()


def resumed(page: Page, calls: Calls) -> None:
    """Wait for Resume and the reason, and press it."""
    page.wait_for_text("stopped on the page")
    page.click("Resume")
    wait_for(lambda: calls.resumes == 1, "resume is called")


def test_the_button_stops_and_resume_appears(page, calls):
    page.click("Stop all robots")
    wait_for(lambda: calls.stops == 1, "stop is called")
    resumed(page, calls)


def test_the_key_stops_while_a_number_is_typed(page, calls):
    page.set_slider("Speed", 0.2)
    press_escape(page)
    wait_for(lambda: calls.stops >= 1, "stop is called")
    resumed(page, calls)


def test_the_key_stops_with_the_scene_in_focus(page, calls):
    height, width = page.canvas_size()
    page.click_at((width // 2, height // 2))
    press_escape(page)
    wait_for(lambda: calls.stops >= 1, "stop is called")
    resumed(page, calls)


def test_stop_and_resume_stay_visible_while_the_panel_is_scrolled(page, viewer, calls):
    page.open_folder("View")
    page.open_folder("Nodes")
    below = page.button("Clear trail")

    def top_element(button) -> bool:
        """Return whether a click at the centre of a button would hit it."""
        return bool(
            page.driver.execute_script(
                "const b = arguments[0].getBoundingClientRect();"
                "const hit = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
                "return arguments[0].contains(hit);",
                button,
            )
        )

    page.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", below)
    stop = page.button("Stop all robots")
    assert top_element(stop)
    stop.click()
    page.wait_for_text("Resume")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", below)
    resume = page.button("Resume")
    assert top_element(stop)
    assert top_element(resume)
    resume.click()
    wait_for(lambda: calls.resumes == 1, "resume is called")


@pytest.mark.long
def test_without_webgl_a_notice_stops_and_resumes(viewer, calls, tmp_path):
    with chromium_page(tmp_path, flags=("--disable-3d-apis",)) as blind:
        blind.driver.get(viewer.url)
        blind.wait_for_text("This browser has no WebGL", PAGE_LIMIT)
        notice = blind.driver.find_element("id", "no-webgl")
        for button in notice.find_elements("tag name", "button"):
            button.click()
        wait_for(lambda: (calls.stops, calls.resumes) == (1, 1), "both are called")
        blind.wait_for_text("Resume: sent")
