# SPDX-License-Identifier: Apache-2.0
"""Scene, collision spheres and planned path on the page, in a real browser."""

from collections.abc import Callable

import numpy as np
import pytest
from browser.chromium import PAGE_LIMIT, Page, chromium_page, difference
from browser.chromium import wait_for as wait_within
from browser.pictures import keep_picture

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.scene import world_object
from motion_nodes.core.scene.shapes import Capsule
from motion_nodes.core.scene.world import World
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
FRANKA = load_robot("franka")
SMALL = (900, 600)
"""[pixels] The page is drawn without a graphics card here."""


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait with the long timeout of drawn pages."""
    wait_within(condition, what, PAGE_LIMIT)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as opened:
        yield opened


@pytest.fixture(scope="module")
def viewer(page):
    with BrowserViewer([ViewedRobot.of(FRANKA)], PageSettings(port=0, shadows=False)) as opened:
        page.open(opened.url)
        wait_for(lambda: opened.client_count == 1, "the page is connected")
        yield opened


def red(page: Page) -> int:
    """Return the number of pixels of a colour that is rare on the page."""
    image = page.canvas().astype(int)
    return int(((image[..., 0] > image[..., 1] + 60) & (image[..., 0] > image[..., 2] + 60)).sum())


def orange(page: Page) -> int:
    """Return the number of pixels in the colours of plans and spheres."""
    image = page.canvas().astype(int)
    return int(((image[..., 0] > image[..., 2] + 40) & (image[..., 1] > image[..., 2] + 15)).sum())


@pytest.mark.long
def test_the_scene_is_drawn_and_its_switch_hides_it(page, viewer):
    page.tab("Scene")
    nothing = red(page)
    world = World()
    X = from_xyz_rpy((0.55, 0.1, 0.25))
    world.add(world_object("box", Box((0.2, 0.2, 0.5)), X, rgba=(0.9, 0.05, 0.05, 1.0)))
    viewer.robot("franka").update_scene(world.scene)
    wait_for(lambda: red(page) > nothing + 500, "the box is drawn")
    page.check("Show objects", False)
    wait_for(lambda: red(page) <= nothing, "the box is hidden")
    page.check("Show objects", True)
    wait_for(lambda: red(page) > nothing + 500, "the box is back")
    before = page.wait_until_drawn()
    world.move({"box": from_xyz_rpy((0.3, -0.4, 0.25))})
    world.add(world_object("pole", Capsule(0.05, 0.5), from_xyz_rpy((0.0, 0.5, 0.3))))
    viewer.robot("franka").update_scene(world.scene)
    wait_for(lambda: difference(page.canvas(), before) > 0.01, "the box moves")
    world.clear()
    viewer.robot("franka").update_scene(world.scene)
    wait_for(lambda: red(page) <= nothing, "the box is gone")


@pytest.mark.long
def test_a_plan_is_played_scrubbed_and_hidden(page, viewer, tmp_path):
    nothing = orange(page)
    page.tab("Plan")
    page.wait_for_text("No plan yet")
    assert "Time" not in page.text()
    path = viewer._robots["franka"].planning.path
    goal = FRANKA.home.copy()
    goal[0] += 1.2
    viewer.robot("franka").update_plan(
        np.linspace(0.0, 2.0, 21), np.linspace(FRANKA.home, goal, 21)
    )
    wait_for(lambda: "Time" in page.text(), "the plan's panel appears")
    wait_for(lambda: path.ghost is not None and path.ghost.q[0] > 0.5, "the ghost plays")
    wait_for(lambda: orange(page) > nothing + 500, "the ghost is drawn")
    page.wait_for_text("of 2.0 s")
    # A typed time ends playback, and is not overwritten by it.
    page.set_slider("Time", 1.0)
    wait_for(lambda: not page.is_checked("Play"), "the play is off")
    wait_for(lambda: abs(path.ghost.q[0] - FRANKA.home[0] - 0.6) < 1e-9, "the ghost is half way")
    middle = page.wait_until_drawn()
    keep_picture(page, "plan", tmp_path)
    page.set_slider("Time", 2.0)
    wait_for(lambda: difference(page.canvas(), middle) > 0.005, "the ghost moves on the page")
    assert path.ghost.q == pytest.approx(goal)
    page.check("Show plan", False)
    wait_for(lambda: orange(page) < nothing + 200, "the plan is hidden")
    page.check("Show plan", True)
    page.check("Play", True)
    wait_for(lambda: path.ghost.q[0] < 0.5, "the ghost plays again")
    page.check("Show plan", False)
