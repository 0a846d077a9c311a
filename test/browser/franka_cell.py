# SPDX-License-Identifier: Apache-2.0
"""The page of a Franka, and a world that it changes."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser.chromium import PAGE_LIMIT, Page, chromium_page, pixel_of
from browser.chromium import wait_for as wait_within

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.scene.scene import WorldObject
from motion_nodes.core.scene.world import World
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.ui_commands import PlanCommand, TargetCommand
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, RMPFLOW, ViewedRobot
from motion_nodes.typing import Array

FRANKA = load_robot("franka")
SMALL = (760, 420)
"""[pixels] The page is drawn without a graphics card here."""


class Cell:
    """A viewer, its page, and a world that it changes, as the owner of a scene would."""

    def __init__(self, page: Page, viewer: BrowserViewer) -> None:
        self.page, self.viewer = page, viewer
        self.world = World()
        self.live = viewer._robots["franka"]
        self.targets: list[TargetCommand] = []
        self.objects: list[tuple[str, WorldObject | None]] = []
        self.joints: list[tuple[str, float]] = []
        self.plans: list[PlanCommand] = []
        self._lock = threading.Lock()
        viewer.on_target = lambda _, command: self.targets.append(command)
        viewer.on_joint_target = lambda _, joint, value: self.joints.append((joint, value))
        viewer.on_plan = lambda _, command: self.plans.append(command)
        viewer.on_object = self._change
        viewer.on_attach = self._attach

    def _attach(self, _: str, name: str, link: str) -> None:
        tree = FRANKA.tree
        with self._lock:
            body = self.world.scene.attached.get(name)
            carrier = tree.frame_names.index(link or body.link)
            X_BL = self.live.target._poses.in_root(FRANKA.home)[carrier]
            if link:
                self.world.attach_object(name, link, X_BL)
            else:
                self.world.detach(name, X_BL)
            self.viewer.robot("franka").update_scene(self.world.scene)

    def _change(self, _: str, name: str, item: WorldObject | None) -> None:
        with self._lock:
            if item is None:
                self.world.remove(name)
            else:
                self.world.add(item)
            self.objects.append((name, item))
            self.viewer.robot("franka").update_scene(self.world.scene)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_within(condition, what, PAGE_LIMIT)

    def settle(self) -> None:
        """Wait until no more targets are received."""
        counts = [-1]
        while counts[-1] != len(self.targets):
            counts.append(len(self.targets))
            time.sleep(2.0)  # events of a busy page are late

    def pixel(self, p_W: Array) -> tuple[int, int]:
        """Return the pixel of a point of the world on the page, by the page's camera."""
        return pixel_of(self.page, self.viewer._server, p_W)


@contextmanager
def open_cell(folder: Path) -> Iterator[Cell]:
    """Open the page in a Chromium with its profile in a folder."""
    viewed = ViewedRobot.of(FRANKA, followers=(RMPFLOW, IK, PLANNER), edits_scene=True)
    with (
        chromium_page(folder, *SMALL) as page,
        BrowserViewer([viewed], PageSettings(port=0, shadows=False)) as viewer,
    ):
        page.open(viewer.url)
        yield Cell(page, viewer)


def arrow(cell: Cell, handles: Any, axis: int, share: float) -> tuple[int, int]:
    """Return the pixel of a point on an arrow of handles, at a share of its length."""
    X = handles.pose
    return cell.pixel(X[:3, 3] + share * handles.size * X[:3, axis])
