# SPDX-License-Identifier: Apache-2.0
"""The sphere editor in a real browser: selection by click, drag, fit, undo, save."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from browser.chromium import PAGE_LIMIT, chromium_page, pixel_of
from browser.chromium import wait_for as wait_within

from motion_nodes.core.robot.link_poses import LinkPoses
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer.sphere_editor import SphereEditor, SphereSession
from motion_nodes.typing import Array

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
FRANKA = load_robot("franka")
LINK = "panda_hand"
SMALL = (760, 420)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as opened:
        yield opened


@pytest.fixture(scope="module")
def editor(page, tmp_path_factory):
    session = SphereSession(FRANKA, tmp_path_factory.mktemp("robot") / "spheres.yaml")
    session.file.write_text("# made by hand\n")
    with SphereEditor(session, 0, shadows=False) as opened:
        page.open(opened.url)
        yield opened


def wait(condition: Callable[[], Any], what: str) -> Any:
    return wait_within(condition, what, PAGE_LIMIT)


def place(editor: SphereEditor, centre: Array) -> Array:
    """Return a point of the chosen link in the world [m], shape (3,)."""
    X_RL = LinkPoses(FRANKA.tree).in_root(FRANKA.home)
    X = X_RL[FRANKA.tree.frame_names.index(editor.session.link)]
    return X[:3, :3] @ centre + X[:3, 3]


def test_notices_take_no_clicks_of_the_scene(page, editor):
    # As viser's on software rendering, which else covers the scene for good.
    taken = page.driver.execute_script(
        "const made = document.createElement('div'); made.className = 'mantine-Notification-root';"
        "made.style = 'position: fixed; inset: 0 60% 60% 0; z-index: 999';"
        "document.body.append(made); const found = document.elementFromPoint(50, 50);"
        "const under = made.contains(found); made.remove(); return [under, document.title];"
    )
    assert taken == [False, "spheres of franka"]
    wait(lambda: page.driver.execute_script(
        "return performance.getEntriesByType('resource').some(e => e.name.endsWith('alive'))"
    ), "the page asks whether the editor is there")  # fmt: skip
    assert not page.driver.find_element("id", "no-connection").is_displayed()


def test_a_click_on_a_sphere_chooses_it_and_its_link(page, editor):
    session = editor.session
    session.choose("panda_link0")
    target = session.spheres.of(LINK)[0]
    X_RL = LinkPoses(FRANKA.tree).in_root(FRANKA.home)
    X = X_RL[FRANKA.tree.frame_names.index(LINK)]
    centre = X[:3, :3] @ target[:3] + X[:3, 3]

    def chosen() -> bool:
        page.click_at(pixel_of(page, editor._server, centre))
        return session.link == LINK

    wait(chosen, "the hand is chosen")
    wait(lambda: editor.link.value == LINK, "the panel shows it")
    page.wait_for_text("of the surface")


@pytest.mark.long
def test_a_sphere_is_dragged_and_that_is_undone(page, editor):
    session = editor.session
    wait(lambda: editor.picture.handles.visible, "the handles are there")
    page.wait_until_drawn()
    before, index = session.spheres, session.index
    start = np.array(session.chosen[:3])
    along = np.array([0.0, 0.0, editor.picture.handles.size])

    def dragged() -> bool:
        ends = (place(editor, start + share * along) for share in (0.9, 1.8))
        page.drag(*(pixel_of(page, editor._server, p) for p in ends))
        return session.spheres is not before

    wait(dragged, "the sphere is moved")
    # The first changes are from the beginning of the drag.
    wait(lambda: session.spheres.of(session.link)[index][2] > start[2] + 0.02, "it moves up")
    moved = session.spheres.of(session.link)[index]
    np.testing.assert_allclose(moved[:2], start[:2], atol=1e-4)
    page.wait_for_text("Unsaved changes")
    while session.spheres is not before:
        now = session.spheres
        page.click("Undo")
        wait(lambda now=now: session.spheres is not now, "a change is taken back")
    wait(lambda: np.allclose(editor.picture.nodes[LINK].batched_positions[index], start),
         "it is drawn where it was")  # fmt: skip
