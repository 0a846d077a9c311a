# SPDX-License-Identifier: Apache-2.0
"""Displays and scene files in a real browser, on two pages at once."""

from collections.abc import Callable

import numpy as np
import pytest
from browser.chromium import PAGE_LIMIT, Page, chromium_page, difference
from browser.chromium import wait_for as wait_within

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.moveit_scene_file import read_scene_text
from motion_nodes.core.scene.scene import WorldObject, world_object
from motion_nodes.core.scene.world import World
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.displays import FrameTree, thinned_cloud
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.recording_panel import RecordedMotion
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
SMALL = (1000, 600)
"""[pixels] The page is drawn without a graphics card here."""
CUBE = world_object("cube", Box((0.1, 0.1, 0.1)), from_xyz_rpy((0.4, 0.2, 0.05)))


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


def pixels(page: Page, rgb: tuple[int, int, int]) -> int:
    """Return the number of pixels near a colour."""
    return int((np.abs(page.canvas().astype(int) - rgb).max(axis=-1) < 40).sum())


@pytest.mark.long
def test_frames_a_cloud_and_an_image_are_switched(page, viewer):
    displays = viewer.displays
    assert displays is not None
    page.open_folder("Displays")
    transforms = {"tip": ("base", from_xyz_rpy((0.2, 0.0, 0.3)))}
    tree = FrameTree.of(transforms, [("base", np.eye(4))])
    plain = page.wait_until_drawn()
    displays.set_frames(tree)
    page.check("TF", True)
    # Only the x axis of a frame is red.
    wait(lambda: pixels(page, (230, 20, 20)) > 20, "axes are drawn")
    page.check("TF", False)
    wait(lambda: np.array_equal(page.canvas(), plain), "the scene is as before")
    displays.set_topics({"cloud": ["/camera/points"], "image": ["/camera/image"]})
    points = np.random.default_rng(0).uniform(-0.2, 0.2, (3000, 3)).astype(np.float32)
    magenta = np.full((3000, 3), (255, 0, 255), np.uint8)
    page.choose("PointCloud2", "/camera/points")
    wait(lambda: displays.selected.cloud, "the cloud is selected")
    displays.set_cloud(
        thinned_cloud("/camera/points", points, magenta, from_xyz_rpy((0.2, 0.3, 0.3)))
    )
    wait(lambda: pixels(page, (255, 0, 255)) > 500, "the cloud is drawn")
    page.choose("PointCloud2", "(off)")
    wait(lambda: pixels(page, (255, 0, 255)) == 0, "the cloud is gone")
    page.choose("Image", "/camera/image")
    wait(lambda: displays.selected.image, "the image is selected")
    picture = "//img[starts-with(@src, 'blob:')]"
    displays.set_image("/camera/image", np.full((30, 40, 3), 128, np.uint8))
    wait(lambda: page.count(picture) == 1, "the image is shown")
    page.choose("Image", "(off)")
    wait(lambda: page.count(picture) == 0, "the image is gone")


def test_scene_files_are_downloaded_and_uploaded(page, viewer, tmp_path):
    loaded: list[tuple[WorldObject, ...]] = []
    viewer.on_scene_load = lambda _, items: loaded.append(items)
    world = World()
    world.add(CUBE)
    viewer.update_scene("so101", world.scene)
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.tab("Scene", "so101")
    page.click("Save scene", "so101")
    file = tmp_path / "so101.scene"
    wait(lambda: file.exists() and file.stat().st_size, "the file is downloaded")
    (item,) = read_scene_text(file.read_text(), file.name)
    assert item.name == "cube"
    np.testing.assert_allclose(item.X_WO, CUBE.X_WO, atol=1e-6)
    upload = page.driver.find_element("xpath", "//input[@type='file'][@accept='.scene']")
    upload.send_keys(str(file))
    wait(lambda: loaded, "the objects of the file are loaded")
    assert [item.name for item in loaded[0]] == ["cube"]
    other = tmp_path / "notes.scene"
    other.write_text("cell\n* box\nnot a number\n")
    upload.send_keys(str(other))
    page.wait_for_text("so101: no scene was loaded", PAGE_LIMIT)
    page.wait_for_text("notes.scene, line 3")
    assert len(loaded) == 1


def test_a_recording_is_uploaded_played_scrubbed_and_closed(page, viewer, tmp_path):
    home = load_robot("so101").home
    times = np.array([0.0, 60.0])
    motion = RecordedMotion(times, np.array([home, home + 0.5]))
    drive = RecordedMotion(
        np.empty(0), np.empty((0, 2)), times,
        np.array([np.eye(4), from_xyz_rpy((0.5, -0.4, 0.0), (0.0, 0.0, 2.0))]),
    )  # fmt: skip

    def opened(name: str, content: bytes) -> None:
        viewer.show_recording({"so101": motion, "jetbot": drive}, f"{name}: {content.decode()}")

    viewer.on_recording = opened
    file = tmp_path / "run.mcap"
    file.write_text("2 robots")
    page.open_folder("Recording")
    upload = page.driver.find_element("xpath", "//input[@type='file'][@accept='.mcap']")
    upload.send_keys(str(file))
    page.wait_for_text("run.mcap: 2 robots", PAGE_LIMIT)
    page.wait_for_text("of 60.0 s", PAGE_LIMIT)
    page.choose("Speed", "10", "Recording")
    panel = viewer._recording
    wait(lambda: panel.playback.now > 5.0, "it plays ten times as fast")
    page.set_slider("Time", 30.0, "Recording")
    wait(lambda: not page.is_checked("Play", "Recording"), "a typed time pauses it")
    wait(lambda: np.allclose(panel.ghosts["so101"].q, home + 0.25), "the arm is half way")
    np.testing.assert_allclose(panel.ghosts["jetbot"].base.position, (0.25, -0.2, 0.0), atol=1e-6)
    shown = page.wait_until_drawn()
    page.click("Close recording", "Recording")
    wait(lambda: difference(page.canvas(), shown) > 0.001, "the ghosts are gone")
    wait(lambda: not viewer._recording.close.visible, "there is nothing to close")


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
