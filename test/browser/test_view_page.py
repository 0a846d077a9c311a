# SPDX-License-Identifier: Apache-2.0
"""The viewer's page in a real browser: it draws robots, follows them, and sends commands."""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from browser.chromium import PICTURES, Page, difference, pixel_of, spread, wait_for

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = pytest.mark.timeout(900)

REST = ("jetbot", 0.0, 0.0, 0.0)


class Wishes:
    """Commands of the page."""

    def __init__(self, viewer: BrowserViewer) -> None:
        self._lock = threading.Lock()
        self._seen: list[tuple] = []
        viewer.on_joint_target = self._note
        viewer.on_named_state = self._note
        viewer.on_twist = self._note
        viewer.on_go = self._note

    def _note(self, *wish: object) -> None:
        with self._lock:
            self._seen.append(wish)

    def seen(self) -> list[tuple]:
        """Return all commands so far."""
        with self._lock:
            return list(self._seen)

    def wait_for(self, condition: Callable[[list[tuple]], bool], what: str) -> list[tuple]:
        """Wait until the commands meet a condition; return them."""
        try:
            wait_for(lambda: condition(self.seen()), what)
        except AssertionError as error:
            raise AssertionError(f"{error}; wishes: {self.seen()[-5:]}") from None
        return self.seen()


@pytest.fixture(scope="module")
def viewer(page):
    """A viewer with an arm and a base beside it, open in the page."""
    beside = np.eye(4)
    beside[:2, 3] = 0.5, -0.5
    robots = [
        ViewedRobot.of(load_robot("franka")),
        ViewedRobot.of(load_robot("jetbot"), X_WR=beside, in_suite=True),
    ]
    with BrowserViewer(robots, PageSettings(port=0, shadows=False)) as opened:
        page.open(opened.url)
        wait_for(lambda: opened.client_count == 1, "the page is connected")
        yield opened


@pytest.fixture
def wishes(viewer):
    """Commands of the page during one test."""
    return Wishes(viewer)


def moved(page: Page, before: np.ndarray) -> np.ndarray:
    """Wait until the scene has changed and rests; return its pixels."""
    wait_for(lambda: difference(page.canvas(), before) > 0.002, "the scene changes")
    return page.wait_until_drawn()


@pytest.mark.long
def test_robots_are_drawn_and_move_with_their_state(page, viewer, tmp_path):
    home = load_robot("franka").home

    def connected() -> bool:
        viewer.robot("franka").update_joints(home)
        return "connected" in page.text()

    wait_for(connected, "the page shows that states come")
    before = page.wait_until_drawn()
    assert spread(before) > 10.0
    # Only the arm has dark parts, only the JetBot is green.
    assert (before.max(axis=-1) < 60).mean() > 0.002
    red, green, blue = (before[..., channel].astype(int) for channel in range(3))
    assert ((green > red + 30) & (green > blue + 60)).sum() > 50
    q = home.copy()
    q[0] += 1.0
    viewer.robot("franka").update_joints(q)
    after = moved(page, before)
    viewer.robot("franka").update_joints(home)
    moved(page, after)
    assert difference(page.wait_until_drawn(), before) < 0.002
    assert spread(page.screenshot(tmp_path / "view.png")) > 10.0


def test_arrow_keys_move_a_slider_by_one_step(page, viewer, wishes):
    viewer.robot("franka").update_joints(load_robot("franka").home)
    page.check("Sliders show actual position", True, "franka")
    wait_for(lambda: page.slider_value("joint1", "franka") == 0.0, "the slider follows")
    page.nudge_slider("joint1", 5, "franka")
    wait_for(
        lambda: wishes.seen()[-1:] and wishes.seen()[-1][1] == "panda_joint1", "a target arrives"
    )
    name, joint, value = wishes.wait_for(
        lambda seen: seen[-1][2] > 0.003, "all steps have arrived"
    )[-1]
    assert (name, joint) == ("franka", "panda_joint1")
    assert value == pytest.approx(0.005, abs=0.0015)


def test_sliders_follow_the_robot(page, viewer, wishes):
    page.check("Sliders show actual position", True, "franka")
    q = load_robot("franka").home.copy()
    q[2] = 0.75
    viewer.robot("franka").update_joints(q)
    wait_for(lambda: page.slider_value("joint3", "franka") == 0.75, "the slider follows")
    assert wishes.seen() == []


def test_named_state_button(page, viewer, wishes):
    page.click("extended", "franka")
    wishes.wait_for(lambda seen: seen == [("franka", "extended")], "the state arrives")


def test_held_drive_button_drives_and_release_stops(page, viewer, wishes):
    speed = page.slider_value("Speed", "jetbot")
    with page.held("Forward", "jetbot"):
        # With software rendering the page may pause for longer than the dead man's switch allows.
        driving = wishes.wait_for(
            lambda seen: sum(wish != REST for wish in seen) >= 10, "the drive is repeated"
        )
        assert driving[0] == ("jetbot", pytest.approx(speed), 0.0, 0.0)
        assert set(driving) <= {driving[0], REST}
    wishes.wait_for(lambda seen: seen[-3:] == [REST] * 3, "the base is stopped")


def test_a_click_on_the_floor_is_a_goal(page, viewer, wishes):
    page.click("2D Goal Pose", "jetbot")
    page.wait_for_text("Click on the floor")
    page.wait_until_drawn()
    # Once: the button applies to one click.
    page.click_at(pixel_of(page, viewer._server, np.array((0.8, -0.3, 0.0))))
    wishes.wait_for(lambda seen: bool(seen), "the goal is given")
    name, x, y, yaw = wishes.seen()[-1]
    assert (name, x, y) == ("jetbot", pytest.approx(0.8, abs=0.03), pytest.approx(-0.3, abs=0.03))
    assert yaw == pytest.approx(np.arctan2(y + 0.5, x - 0.5))
    viewer.robot("jetbot").set_drive_message("arrived")
    page.wait_for_text("arrived")


@pytest.mark.long
def test_a_page_draws_seldom(page, viewer):
    """By the harness, to leave processors to other tests."""
    elapsed, canceled_came = page.driver.execute_async_script(
        "const done = arguments[0], start = performance.now();"
        "let count = 0, came = false;"
        "cancelAnimationFrame(requestAnimationFrame(() => { came = true; }));"
        "const draw = () => ++count < 5 ? requestAnimationFrame(draw)"
        " : done([performance.now() - start, came]);"
        "requestAnimationFrame(draw);"
    )
    assert elapsed > 0.9 * 4 * 1000.0 / PICTURES
    assert not canceled_came


def test_messages_are_shown_as_they_are(page, viewer):
    text = "<b>rejected</b>: joint *x* [a](b) `c` {1}"
    viewer.robot("franka").set_message(text)
    page.wait_for_text(text)


@pytest.mark.long
def test_page_left_for_another_stops_a_latched_base(page, viewer, wishes):
    page.check("Latch", True, "jetbot")
    page.click("Forward", "jetbot")
    wishes.wait_for(lambda seen: len(seen) >= 5, "the base drives")
    # The browser may keep the page and its connection for "Back".
    page.driver.get("about:blank")
    wishes.wait_for(lambda seen: seen[-3:] == [REST] * 3, "the base is stopped")
    # After the return, earlier commands do not restart.
    count = len(wishes.seen())
    page.open(viewer.url)
    assert set(wishes.seen()[count:]) <= {REST}
