# SPDX-License-Identifier: Apache-2.0
"""Debian's headless Chromium, driven through selenium: a page as a user operates it."""

from __future__ import annotations

import base64
import ctypes
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from browser.panel import Panel
from browser.waiting import LIMIT, PAGE_LIMIT, wait_for
from numpy.typing import NDArray

CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser")
DRIVER = "/usr/bin/chromedriver"
WITHOUT_SHADOWS = str(Path(__file__).with_name("without_shadows.yaml"))
"""Parameters of a suite whose page is drawn in software."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    # Only this machine can be reached, whatever a page requests.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    "--hide-scrollbars",
)

PICTURES = 7.0
"""[Hz] How often a page is drawn at most: in software, a picture costs much of a processor."""

SELDOM = """
(() => {
  const native = window.requestAnimationFrame.bind(window);
  let asked = false, last = -Infinity, number = 0, waiting = new Map(), due = new Map();
  const draw = now => {
    [asked, last, due, waiting] = [false, performance.now(), waiting, new Map()];
    for (const callback of due.values()) {
      try { callback(now); } catch (error) { reportError(error); }
    }
  };
  window.requestAnimationFrame = callback => {
    waiting.set(++number, callback);
    if (!asked) {
      asked = true;
      setTimeout(() => native(draw), Math.max(0, last + PERIOD - performance.now()));
    }
    return number;
  };
  window.cancelAnimationFrame = id => { waiting.delete(id); due.delete(id); };
})();
""".replace("PERIOD", f"{1000.0 / PICTURES:.0f}")
"""Has pages draw so seldom: they draw when they are told that a picture is due."""

Image = NDArray[np.uint8]


def skip_without_chromium() -> str:
    """Return the path of Chromium, or skip the test."""
    found = [path for path in CHROMIUM if Path(path).exists()]
    if not found or not Path(DRIVER).exists():
        pytest.skip("no Chromium")
    pytest.importorskip("selenium", reason="no selenium")
    return found[0]


_LIBC = ctypes.CDLL(None)
_PR_CAPBSET_DROP, _CAP_SYS_NICE = 24, 23  # of linux/prctl.h and linux/capability.h


def _stand_back() -> None:
    """Lower the priority of a new process and its children below that of robots.

    Software rendering takes all processors available, and as root Chromium would raise its own
    priority.
    """
    _LIBC.prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE, 0, 0, 0)
    os.nice(5)


class Page(Panel):
    """One open viewer page."""

    def open(self, url: str) -> None:
        """Load a viewer's page, and wait until it is connected and drawn."""
        self.driver.get(url)
        wait_for(lambda: self._find("//canvas"), "the page has a canvas", PAGE_LIMIT)
        wait_for(
            lambda: self._find("//label[@for] | //button[@id]"), "the panel appears", PAGE_LIMIT
        )
        self.wait_until_drawn()

    def wait_until_drawn(self) -> Image:
        """Return the canvas once it is not blank and no longer changes."""
        before = self.canvas()

        def at_rest() -> Image | None:
            nonlocal before
            self.wait_for_pictures()
            last, before = before, self.canvas()
            same = last.shape == before.shape and difference(last, before) < 1e-4
            return before if same and spread(before) > 2.0 else None

        return wait_for(lambda: _Truthy.of(at_rest()), "the scene is drawn", PAGE_LIMIT).value

    def wait_for_pictures(self) -> None:
        """Wait for two more frames of the page."""
        self.driver.execute_async_script(
            "const done = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def canvas(self) -> Image:
        """Return the pixels of the 3D scene, without the panel, shape (h, w, 3)."""
        from PIL import Image as Pillow

        data = self.driver.execute_script(
            "const all = [...document.querySelectorAll('canvas')];"
            "all.sort((a, b) => b.width * b.height - a.width * a.height);"
            "return all.length ? all[0].toDataURL('image/png').split(',')[1] : '';"
        )
        if not data:
            return np.zeros((1, 1, 3), np.uint8)
        image = Pillow.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")
        # The scene is drawn over the background of the page, here white.
        white = Pillow.new("RGBA", image.size, "white")
        return np.asarray(Pillow.alpha_composite(white, image).convert("RGB"))

    def canvas_size(self) -> tuple[int, int]:
        """Return height and width of the 3D scene on the page [pixels]."""
        width, height = self.driver.execute_script(
            "const all = [...document.querySelectorAll('canvas')].map(c => "
            "c.getBoundingClientRect()).sort((a, b) => b.width * b.height - a.width * a.height);"
            "return [all[0].width, all[0].height];"
        )
        return int(height), int(width)

    def drag(self, start: tuple[int, int], end: tuple[int, int], steps: int = 6) -> None:
        """Drag from one pixel of the page to another in ``steps`` steps."""
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        # Handles need pointer moves before the press.
        approach = ActionBuilder(self.driver, duration=50)
        approach.pointer_action.move_to_location(start[0] - 3, start[1] - 3)
        approach.pointer_action.move_to_location(*start)
        approach.perform()
        self.wait_for_pictures()
        hand = ActionBuilder(self.driver, duration=50)
        hand.pointer_action.pointer_down()
        for step in range(1, steps + 1):
            x, y = (round(a + (b - a) * step / steps) for a, b in zip(start, end, strict=True))
            hand.pointer_action.move_to_location(x, y)
        hand.pointer_action.pointer_up()
        hand.perform()

    def click_at(self, place: tuple[int, int]) -> None:
        """Click on a pixel of the page."""
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        hand = ActionBuilder(self.driver, duration=50)
        hand.pointer_action.move_to_location(*place)
        hand.perform()
        self.wait_for_pictures()
        hand = ActionBuilder(self.driver, duration=50)
        hand.pointer_action.pointer_down()
        hand.pointer_action.pointer_up()
        hand.perform()

    def resize(self, width: int, height: int) -> None:
        """Resize the page [pixels]."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def count(self, path: str) -> int:
        """Return the number of elements at an XPath."""
        return len(self._all(path))

    def screenshot(self, path: Path) -> Image:
        """Write the whole page, panel included, to a PNG file and return its pixels."""
        from PIL import Image as Pillow

        path.parent.mkdir(parents=True, exist_ok=True)
        self.close_notices()
        # On a loaded machine a picture may take longer than Chromium's timeout of 10 s.
        wait_for(lambda: self.driver.save_screenshot(str(path)), "the picture is taken", PAGE_LIMIT)
        return np.asarray(Pillow.open(path).convert("RGB"))

    def close_notices(self) -> None:
        """Close the notices in the corner, such as the one on software WebGL."""
        for button in self._all("//*[contains(@class, 'Notification-closeButton')]"):
            self.driver.execute_script("arguments[0].click()", button)
        wait_for(
            lambda: not self._all("//*[contains(@class, 'mantine-Notification-root')]"),
            "the notices are gone",
        )

    def text(self) -> str:
        """Return the text of the whole page."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def wait_for_text(self, text: str, limit: float = LIMIT) -> None:
        """Wait until the page shows a text."""
        wait_for(lambda: text in self.text(), f"the page shows '{text}'", limit)


class _Truthy:
    """Wraps an array in a true value, as arrays have no truth value."""

    def __init__(self, value: Image) -> None:
        self.value = value

    @staticmethod
    def of(value: Image | None) -> _Truthy | None:
        """Wrap a value; None stays None."""
        return None if value is None else _Truthy(value)


def pixel_of(page: Page, server, p_W: np.ndarray) -> tuple[int, int]:
    """Return the pixel of a point of the world on the page, by the page's camera.

    Args:
        page: the one opened last.
        server: the viser server.
        p_W: the point [m], shape (3,).
    """
    # A closed page may still be connected.
    clients = server.get_clients()
    camera = clients[max(clients)].camera
    w, x, y, z = camera.wxyz
    R_WC = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    right, down, ahead = R_WC.T @ (p_W - camera.position)
    height, width = page.canvas_size()
    focal = 0.5 * height / np.tan(0.5 * camera.fov)
    return round(0.5 * width + focal * right / ahead), round(0.5 * height + focal * down / ahead)


def spread(image: Image) -> float:
    """Return the standard deviation of the pixels of an image."""
    return float(image.astype(np.float64).std())


def difference(first: Image, second: Image) -> float:
    """Return the fraction of pixels that differ visibly."""
    if first.shape != second.shape:
        return 1.0
    apart = np.abs(first.astype(np.int16) - second.astype(np.int16)).max(axis=-1)
    return float((apart > 12).mean())


@contextmanager
def chromium_page(
    folder: Path, width: int = 1280, height: int = 800, flags: tuple[str, ...] = ()
) -> Iterator[Page]:
    """Start Chromium with a new profile, and close it at the end.

    Args:
        folder: an empty folder for its profile and log.
        width: of the page [pixels].
        height: of the page [pixels].
        flags: further command-line flags.
    """
    binary = skip_without_chromium()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    profile = folder / "chromium_profile"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, *flags, f"--window-size={width},{height}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    service = Service(
        DRIVER,
        log_output=str(folder / "chromedriver.log"),
        popen_kw={"preexec_fn": _stand_back},
    )
    driver = webdriver.Chrome(options=options, service=service)
    try:
        # The window's size includes its invisible frame; this sets the size of the page.
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SELDOM})
        driver.set_script_timeout(PAGE_LIMIT)
        yield Page(driver)
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)
