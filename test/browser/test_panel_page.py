# SPDX-License-Identifier: Apache-2.0
"""Joint sliders, the goal state, plots, and the rest of the panel in a real browser."""

import numpy as np
import pytest

from motion_nodes.extras.viewer import ui_commands

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_a_slider_acts_while_it_is_dragged_however_fast(cell, monkeypatch):
    monkeypatch.setattr(ui_commands, "SETTLING_TIME", 1000.0)  # numbers that are typed
    cell.page.tab("Joints")
    cell.joints.clear()
    with cell.page.held_slider("joint1") as move:

        def moved() -> bool:
            for share in (0.3, 0.7):
                move(share)
            return {joint for joint, _ in cell.joints} == {"panda_joint1"}

        cell.wait(moved, "the joint is commanded")
    cell.wait(lambda: not cell.viewer.slider_hold.held, "the slider is released")


def test_camera_presets_and_the_dark_page(cell):
    page = cell.page
    page.open_folder("View")

    def above() -> bool:
        camera = next(iter(cell.viewer._server.get_clients().values())).camera
        away = camera.position - camera.look_at
        return bool(away[2] > 0.95 * np.linalg.norm(away))

    def looked() -> bool:
        page.click("Top", "View")
        return above()

    cell.wait(looked, "the camera looks from above")
    page.check("Dark", True, "View")
    scheme = "return document.documentElement.getAttribute('data-mantine-color-scheme')"
    cell.wait(lambda: page.driver.execute_script(scheme) == "dark", "the page is dark")
    page.check("Dark", False, "View")
    cell.wait(lambda: page.driver.execute_script(scheme) == "light", "the page is light")
    page.click("Fit", "View")
    cell.wait(lambda: not above(), "the camera is back")


@pytest.mark.long
def test_on_a_phone_robots_stand_above_the_panel(cell):
    page = cell.page
    page.resize(360, 640)
    page.open(cell.viewer.url)
    elbow = np.array([0.2, 0.0, 0.5])
    cell.wait(lambda: cell.pixel(elbow)[1] < 0.4 * 640, "the robot is in the upper part")
    across, _ = cell.pixel(elbow)
    assert 0.2 * 360 < across < 0.8 * 360
    # A tap on the title closes the panel, another one opens it.
    for seen in (False, True):
        page.tap_title("motion_nodes")
        cell.wait(lambda seen=seen: ("joint1" in page.text()) is seen, "the panel moves")
