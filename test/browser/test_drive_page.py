# SPDX-License-Identifier: Apache-2.0
"""The drive pad in a real browser: a cross of buttons, and arrow keys that hold them."""

import itertools
import threading
import time

import pytest
from browser.chromium import Page, wait_for

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.drive_panel import HOLD_TIMEOUT
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = pytest.mark.timeout(900)

JITTER = 1.5
"""[s] Allowance for a busy machine."""


class Base:
    """Twists that the page sends, by robot."""

    def __init__(self, viewer: BrowserViewer) -> None:
        self._lock = threading.Lock()
        self._sent: list[tuple[float, str, tuple[float, float, float]]] = []
        viewer.on_twist = self._take

    def _take(self, name: str, vx: float, vy: float, wz: float) -> None:
        with self._lock:
            self._sent.append((time.monotonic(), name, (vx, vy, wz)))

    def newest(self, name: str) -> tuple[float, float, float]:
        """Return the newest twist of a robot; zero if none was sent."""
        with self._lock:
            return next((twist for _, n, twist in reversed(self._sent) if n == name), (0, 0, 0))

    def last_motion(self) -> float:
        """Return the time of the newest twist that is not zero [s]."""
        with self._lock:
            return next((at for at, _, twist in reversed(self._sent) if any(twist)), 0.0)

    def longest_pause(self, end: float) -> float:
        """Return the longest time without a twist that is not zero, until an end [s]."""
        with self._lock:
            moving = [at for at, _, twist in self._sent if any(twist) and at < end]
        return max(b - a for a, b in itertools.pairwise([*moving, end]))

    def wait_for(self, name: str, signs: tuple[int, int, int]) -> None:
        """Wait until the newest twist has these signs."""
        wait_for(
            lambda: tuple((x > 0) - (x < 0) for x in self.newest(name)) == signs,
            f"{name} is sent a twist of signs {signs}, not {self.newest(name)}",
            20.0,
        )


@pytest.fixture(scope="module")
def viewer(page):
    """A viewer with a differential and a holonomic base, open in the page."""
    robots = [ViewedRobot.of(load_robot(name)) for name in ("jetbot", "kaya")]
    with BrowserViewer(robots, PageSettings(port=0, shadows=False), stops=True) as opened:
        page.open(opened.url)
        wait_for(lambda: opened.client_count == 1, "the page is connected")
        yield opened


@pytest.fixture
def base(viewer):
    """The twists during one test."""
    return Base(viewer)


def place(page: Page, label: str, folder: str) -> tuple[float, float]:
    """Return the centre of a button [pixels]."""
    button = page.button(label, folder)
    box = page.driver.execute_script("return arguments[0].getBoundingClientRect()", button)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("folder", ["jetbot", "kaya"])
def test_the_buttons_are_a_cross_around_stop(page, viewer, folder):
    x, y = place(page, "Stop", folder)
    for label, column, row in (
        ("Forward", 0, -1), ("Back", 0, 1), ("Left", -1, 0), ("Right", 1, 0),
    ):  # fmt: skip
        dx, dy = place(page, label, folder)[0] - x, place(page, label, folder)[1] - y
        assert ((dx > 20) - (dx < -20), (dy > 15) - (dy < -15)) == (column, row), label
    if folder == "kaya":
        assert place(page, "Slide left", folder)[1] == place(page, "Back", folder)[1]
        assert place(page, "Slide left", folder)[0] < x < place(page, "Slide right", folder)[0]


@pytest.mark.long
def test_a_held_button_drives_until_its_release(page, base):
    with page.held("Left", "kaya"):
        base.wait_for("kaya", (0, 0, 1))
        time.sleep(2 * HOLD_TIMEOUT)
        assert time.monotonic() - base.last_motion() < HOLD_TIMEOUT
    base.wait_for("kaya", (0, 0, 0))


def press(page: Page, *keys: str) -> None:
    """Press keys and keep them down."""
    from selenium.webdriver.common.action_chains import ActionChains

    hand = ActionChains(page.driver)
    for key in keys:
        hand.key_down(key)
    hand.perform()


def release(page: Page, *keys: str) -> None:
    """Release keys."""
    from selenium.webdriver.common.action_chains import ActionChains

    hand = ActionChains(page.driver)
    for key in keys:
        hand.key_up(key)
    hand.perform()


@pytest.fixture
def keys(page, viewer):
    """Keys, all of them up after the test; those of the JetBot drive."""
    from selenium.webdriver.common.keys import Keys

    page.check("Latch", False, "jetbot")
    page.tab("Drive", "jetbot")
    page.check("Arrow keys", True, "jetbot")
    page.driver.execute_script("document.activeElement.blur()")
    yield Keys
    release(page, Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.SHIFT)


def test_a_held_key_drives_until_its_release(page, base, keys):
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    time.sleep(2 * HOLD_TIMEOUT)
    assert time.monotonic() - base.last_motion() < HOLD_TIMEOUT
    # The newest of two keys counts.
    press(page, keys.ARROW_LEFT)
    base.wait_for("jetbot", (0, 0, 1))
    release(page, keys.ARROW_LEFT)
    base.wait_for("jetbot", (1, 0, 0))
    release(page, keys.ARROW_UP)
    base.wait_for("jetbot", (0, 0, 0))
    assert base.newest("kaya") == (0, 0, 0)


def test_only_the_pad_whose_box_is_on_has_the_keys(page, base, keys):
    page.check("Arrow keys", True, "kaya")
    assert not page.is_checked("Arrow keys", "jetbot")
    press(page, keys.SHIFT, keys.ARROW_LEFT)
    base.wait_for("kaya", (0, 1, 0))
    release(page, keys.ARROW_LEFT, keys.SHIFT)
    base.wait_for("kaya", (0, 0, 0))
    page.check("Arrow keys", False, "kaya")
    press(page, keys.ARROW_UP)
    time.sleep(HOLD_TIMEOUT)
    release(page, keys.ARROW_UP)
    assert base.newest("jetbot") == (0, 0, 0)


def test_a_slider_with_the_focus_keeps_its_keys(page, base, keys):
    before = page.slider_value("Speed", "jetbot")
    page.nudge_slider("Speed", 3, "jetbot")
    wait_for(lambda: page.slider_value("Speed", "jetbot") > before, "the slider moves")
    assert base.last_motion() == 0.0


def test_focus_on_a_slider_and_escape_stop_a_held_key(page, viewer, base, keys):
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    page.driver.execute_script("document.querySelector('[role=slider]').focus()")
    base.wait_for("jetbot", (0, 0, 0))
    release(page, keys.ARROW_UP)
    page.driver.execute_script("document.activeElement.blur()")
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    press(page, keys.ESCAPE)
    base.wait_for("jetbot", (0, 0, 0))
    time.sleep(2 * HOLD_TIMEOUT)
    assert time.monotonic() - base.last_motion() > HOLD_TIMEOUT
    release(page, keys.ESCAPE, keys.ARROW_UP)


def test_a_window_that_loses_the_focus_stops_even_with_latch(page, base, keys):
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    page.driver.execute_script("window.dispatchEvent(new Event('blur'))")
    base.wait_for("jetbot", (0, 0, 0))
    release(page, keys.ARROW_UP)
    page.check("Latch", True, "jetbot")
    page.driver.execute_script("document.activeElement.blur()")
    press(page, keys.ARROW_UP)
    page.driver.execute_script("window.dispatchEvent(new Event('blur'))")
    release(page, keys.ARROW_UP)
    time.sleep(HOLD_TIMEOUT)
    base.wait_for("jetbot", (0, 0, 0))


@pytest.mark.long
def test_a_closed_tab_of_the_panel_ends_the_drive(page, base, keys):
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    page.tab("Plots", "jetbot")
    base.wait_for("jetbot", (0, 0, 0))
    release(page, keys.ARROW_UP)
    press(page, keys.ARROW_UP)
    time.sleep(HOLD_TIMEOUT)
    assert base.newest("jetbot") == (0, 0, 0)
    release(page, keys.ARROW_UP)
    page.tab("Drive", "jetbot")


def test_a_page_that_hangs_stops_the_base(page, base, keys):
    press(page, keys.ARROW_UP)
    base.wait_for("jetbot", (1, 0, 0))
    page.driver.execute_script("const end = Date.now() + 4000; while (Date.now() < end) {}")
    end = time.monotonic()
    release(page, keys.ARROW_UP)
    base.wait_for("jetbot", (0, 0, 0))
    # There was no twist for the rest of these 4 s.
    assert base.longest_pause(end) > 4.0 - HOLD_TIMEOUT - JITTER
