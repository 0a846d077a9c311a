# SPDX-License-Identifier: Apache-2.0
"""Targets, objects and goal states set in a real browser, and the rest of the panel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser.chromium import PAGE_LIMIT, Page, chromium_page, pixel_of
from browser.chromium import wait_for as wait_within
from browser.pictures import keep_picture

from motion_nodes.model.loader import load_robot
from motion_nodes.model.poses import from_xyz_rpy
from motion_nodes.model.tree import Array, Box, Sphere
from motion_nodes.scene.scene import WorldObject, world_object
from motion_nodes.scene.world import World
from motion_nodes.view import debounced_inputs
from motion_nodes.view.browser import BrowserViewer
from motion_nodes.view.health_panel import Health
from motion_nodes.view.ui_commands import PlanCommand, TargetCommand
from motion_nodes.view.viewed_robot import IK, PLANNER, RMPFLOW, ViewedRobot

pytestmark = pytest.mark.timeout(900)
FRANKA = load_robot("franka")
PLOT = "//div[contains(@class, 'uplot-container')]"
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
            self.viewer.update_scene("franka", self.world.scene)

    def _change(self, _: str, name: str, item: WorldObject | None) -> None:
        with self._lock:
            if item is None:
                self.world.remove(name)
            else:
                self.world.add(item)
            self.objects.append((name, item))
            self.viewer.update_scene("franka", self.world.scene)

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


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    viewed = ViewedRobot.of(FRANKA, followers=(RMPFLOW, IK, PLANNER), edits_scene=True)
    with (
        chromium_page(tmp_path_factory.mktemp("chromium"), *SMALL) as page,
        BrowserViewer([viewed], port=0, shadows=False) as viewer,
    ):
        page.open(viewer.url)
        yield Cell(page, viewer)


def arrow(cell: Cell, handles: Any, axis: int, share: float) -> tuple[int, int]:
    """Return the pixel of a point on an arrow of handles, at a share of its length."""
    X = handles.pose
    return cell.pixel(X[:3, 3] + share * handles.size * X[:3, axis])


def test_a_target_is_dragged_along_an_arrow(cell: Cell) -> None:
    page, handles = cell.page, cell.live.target.handles
    page.tab("Target")
    assert not handles.visible, "no handles to drag by accident"
    page.check("Show target handle", True)
    cell.wait(lambda: handles.visible, "the handles are there")
    before = handles.pose
    tool = FRANKA.tree.frame_names.index("panda_hand_tcp")
    poses = cell.live.target._poses.in_root(FRANKA.home)
    np.testing.assert_allclose(before, poses[tool], atol=1e-9)
    page.wait_until_drawn()

    def dragged() -> bool:
        page.drag(arrow(cell, handles, 0, 0.7), arrow(cell, handles, 0, 1.5))
        return bool(cell.targets)

    def moved(command: TargetCommand) -> Array:
        return np.asarray(before[:3, :3].T @ (command.X_BT[:3, 3] - before[:3, 3]))

    cell.wait(dragged, "the target is asked for")
    # The first commands are from the beginning of the drag.
    cell.wait(lambda: moved(cell.targets[-1])[0] > 0.03, "it moves along the arrow")
    command = cell.targets[-1]
    assert (command.follower, command.verb) == (RMPFLOW, "follow")
    np.testing.assert_allclose(moved(command)[1:], 0.0, atol=1e-4)
    np.testing.assert_allclose(command.X_BT[:3, :3], before[:3, :3], atol=1e-6)


def test_a_target_is_jogged_and_entered(cell: Cell) -> None:
    page, target = cell.page, cell.live.target
    page.tab("Target")
    page.open_folder("Pose")
    cell.settle()  # the last drag
    before, count = target.current(), len(cell.targets)
    page.click("+Z")
    cell.wait(lambda: len(cell.targets) == count + 1, "the jogged target is commanded")
    jogged = cell.targets[-1].X_BT
    np.testing.assert_allclose(jogged[:3, 3] - before[:3, 3], (0.0, 0.0, 0.005), atol=1e-9)
    page.click("Move target to pose")
    cell.wait(lambda: len(cell.targets) == count + 2, "the entered target is commanded")
    np.testing.assert_allclose(cell.targets[-1].X_BT, jogged, atol=2e-3)


def test_goals_of_the_planner(cell: Cell) -> None:
    page = cell.page
    page.tab("Plan", "franka")
    goals = cell.live.planning.goals
    assert goals.goal.value == cell.live.viewed.named_states[0]
    page.type_text("Velocity", "50")
    cell.wait(lambda: cell.viewer.scaling.velocity == 0.5, "the velocity is scaled")
    page.click("Execute")
    command = cell.wait(lambda: cell.plans and cell.plans[-1], "the motion is commanded")
    assert (command.verb, command.state) == ("execute", cell.live.viewed.named_states[0])
    assert (command.velocity_scaling, command.acceleration_scaling) == (0.5, 1.0)
    page.type_text("Velocity", "100")
    cell.wait(lambda: cell.viewer.scaling.full, "the velocity is not scaled")
    below = page.button("Recover")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'start'})", below)
    on_top = (
        "const b = arguments[0].getBoundingClientRect();"
        "return arguments[0] === document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
    )
    for field in (cell.viewer._scaling.velocity, cell.viewer._scaling.acceleration):
        shown = page.driver.find_element("id", field._impl.uuid)
        assert page.driver.execute_script(on_top, shown), "it stays visible"
    cell.viewer.set_plan_message("franka", "moving")
    page.wait_for_text("moving")
    cell.viewer.notify("franka: planner", "the goal is in collision")
    page.wait_for_text("the goal is in collision")
    page.close_notices()


def test_a_planner_is_asked_by_buttons_alone(cell: Cell) -> None:
    page = cell.page
    page.tab("Target")
    cell.live.target.follower.value = PLANNER
    count = len(cell.targets)
    for verb in ("Plan", "Execute", "Stop"):
        page.click(verb, "franka")
        cell.wait(lambda verb=verb: cell.targets[-1].verb == verb.lower(), f"'{verb}' is told")
    assert len(cell.targets) == count + 3
    np.testing.assert_allclose(cell.targets[-2].X_BT, cell.live.target.handles.pose)
    cell.viewer.set_target_message("franka", "no path: *box* is in the way", PLANNER)
    cell.viewer.set_target_message("franka", "stuck", RMPFLOW)
    page.wait_for_text("no path: *box* is in the way")
    cell.live.target.follower.value = RMPFLOW
    page.wait_for_text("stuck")
    assert "in the way" not in page.text()
    cell.viewer.set_target_message("franka", "", RMPFLOW)
    page.check("Show target handle", False)
    cell.wait(lambda: not cell.live.target.handles.visible, "the handles are hidden")


def test_a_target_that_somebody_else_moves_is_shown(cell: Cell, tmp_path: Path) -> None:
    gizmo = cell.live.target
    cell.page.tab("Target")
    gizmo._was_shown = False
    X = from_xyz_rpy((0.4, -0.2, 0.5), (np.pi, 0.0, 0.0))
    cell.viewer.update_target("franka", X)
    cell.wait(lambda: cell.page.is_checked("Show target handle"), "the target is shown")
    cell.wait(lambda: gizmo.handles.visible, "the handles are there")
    np.testing.assert_allclose(gizmo.handles.pose, X)
    keep_picture(cell.page, "target", tmp_path)
    cell.page.check("Show target handle", False)


def test_an_object_is_added_dragged_and_removed(cell: Cell, tmp_path: Path) -> None:
    page, editor = cell.page, cell.live.planning.editor
    page.tab("Scene")
    page.click("Add object")
    name, item = cell.wait(lambda: cell.objects[-1:], "the object is asked for")[0]
    assert name == "box_1"
    assert item.parts[0].solid == Box((0.1, 0.1, 0.1))
    cell.wait(lambda: editor.handles.visible and editor.choice.value == name, "it is chosen")
    page.wait_until_drawn()
    keep_picture(page, "object", tmp_path)
    before = editor.handles.pose

    def dragged() -> bool:
        page.drag(arrow(cell, editor.handles, 2, 0.7), arrow(cell, editor.handles, 2, 1.6))
        return len(cell.objects) > 1

    cell.wait(dragged, "the object is dragged")
    cell.wait(lambda: cell.objects[-1][1].X_WO[2, 3] > before[2, 3] + 0.02, "it moves up")
    name, moved = cell.objects[-1]
    assert name == "box_1"
    assert moved.parts is item.parts, "moved, not made anew"
    np.testing.assert_allclose(moved.X_WO[:2, 3], before[:2, 3], atol=1e-4)
    cell.wait(lambda: not editor.animated, "the owner's pose is shown again")
    node = cell.live.planning.objects._nodes["object", "box_1"]

    def shown() -> bool:
        place = cell.world.scene.objects["box_1"].X_WO[:3, 3]
        return bool(np.allclose(node.position, place, rtol=1e-7, atol=0.0))

    cell.wait(shown, "it is drawn where it is")
    page.click("Remove object")
    cell.wait(lambda: cell.objects[-1] == ("box_1", None), "the object is to go")
    cell.wait(lambda: not editor.handles.visible, "the handles are gone")
    cell.wait(lambda: editor.choice.value == "(none)", "nothing is chosen")


def test_a_click_on_an_object_chooses_it(cell: Cell) -> None:
    editor = cell.live.planning.editor
    place = from_xyz_rpy((0.3, 0.45, 0.4))
    cell.world.add(world_object("ball", Sphere(0.12), place))
    cell.viewer.update_scene("franka", cell.world.scene)
    cell.wait(lambda: "ball" in editor.choice.options, "the ball is known")
    cell.page.wait_until_drawn()

    def chosen() -> bool:
        cell.page.click_at(cell.pixel(place[:3, 3]))
        return editor.choice.value == "ball"

    cell.wait(chosen, "the ball is chosen")
    cell.wait(lambda: editor.handles.visible, "it can be dragged")
    cell.world.clear()
    cell.viewer.update_scene("franka", cell.world.scene)
    cell.wait(lambda: editor.choice.value == "(none)", "nothing is chosen")


def test_a_slider_acts_while_it_is_dragged_however_fast(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debounced_inputs, "SETTLING_TIME", 1000.0)  # numbers that are typed
    cell.page.tab("Joints")
    cell.joints.clear()
    with cell.page.held_slider("joint1") as move:

        def moved() -> bool:
            for share in (0.3, 0.7):
                move(share)
            return {joint for joint, _ in cell.joints} == {"panda_joint1"}

        cell.wait(moved, "the joint is commanded")
    cell.wait(lambda: not cell.viewer.slider_hold.held, "the slider is released")


def test_sliders_set_a_goal_state_that_is_planned(cell: Cell) -> None:
    page, goal = cell.page, cell.live.goal_state
    cell.viewer.update_joints("franka", FRANKA.home)
    page.tab("Joints")
    page.choose("Sliders set", "goal state")
    cell.wait(lambda: goal.active, "the sliders set the goal")
    slider = cell.live.joints.sliders["panda_joint1"]
    cell.wait(lambda: page._id("joint1", "") == slider._impl.uuid, "the page has its new sliders")
    cell.joints.clear()
    cell.plans.clear()

    def ghost() -> bool:
        return goal.ghost is not None and goal.ghost.base.visible and goal.ghost.q[0] > 0.5

    def moved() -> bool:
        page.set_slider("joint1", 0.8)  # again, should the panel have moved meanwhile
        until = time.monotonic() + 5.0
        while not ghost() and time.monotonic() < until:
            time.sleep(0.05)
        return ghost()

    cell.wait(moved, "the ghost moves")
    page.click("Execute")
    command = cell.wait(lambda: cell.plans and cell.plans[-1], "the motion is commanded")
    assert command.verb == "execute"
    assert command.joints["panda_joint1"] == pytest.approx(goal.ghost.q[0])
    np.testing.assert_allclose(cell.live.view.q, FRANKA.home)
    page.choose("Sliders set", "robot")
    cell.wait(lambda: not goal.active and not goal.ghost.base.visible, "the ghost is gone")
    cell.wait(lambda: abs(page.slider_value("joint1")) < 1e-3, "the slider shows the robot")
    assert cell.joints == [], "the robot was not commanded"


def test_an_object_is_attached_to_the_tool_and_detached(cell: Cell) -> None:
    page, world = cell.page, cell.world
    page.tab("Scene")
    page.click("Add object")
    (name,) = cell.wait(lambda: tuple(world.scene.objects), "the object is added")
    page.click("Attach object")
    body = cell.wait(lambda: world.scene.attached.get(name), "the object is attached")
    assert body.link == "panda_hand_tcp"
    page.wait_for_text("Attached to panda_hand_tcp")
    node = cell.wait(
        lambda: cell.live.planning.objects._nodes.get(("attached", name)), "it is drawn"
    )
    assert node.name.rpartition("/")[0].endswith("/panda_hand_tcp"), "it moves with its link"
    page.click("Detach object")
    cell.wait(lambda: name in world.scene.objects, "the object is in the world")
    page.click("Remove object")
    cell.wait(lambda: not world.scene.objects, "the object is removed")


def test_the_gripper_slider_moves_all_fingers(cell: Cell) -> None:
    cell.page.tab("Joints")
    cell.page.set_slider("Gripper", 25.0)
    fingers = {"panda_finger_joint1", "panda_finger_joint2"}

    def asked() -> bool:
        # Values change while one types.
        last = dict(cell.joints[-2:])
        return set(last) == fingers and list(last.values()) == pytest.approx([0.01, 0.01])

    cell.wait(asked, "both fingers are asked for")


def test_joints_are_plotted(cell: Cell) -> None:
    page = cell.page
    for k in range(5):
        cell.viewer.update_joints("franka", FRANKA.home + 0.1 * k, np.full(9, 0.1))
    page.tab("Plots")
    page.check("Plot joints", True)
    cell.wait(
        lambda: page.count("//div[contains(@class, 'uplot-container')]") == 1, "the plot appears"
    )
    # Nine joints, both limits and the time.
    assert len(cell.live.plots._plot.series) == 12
    cell.live.plots.joint.value = "panda_joint1"
    cell.wait(lambda: len(cell.live.plots._plot.series) == 4, "one joint is plotted")
    page.check("Plot joints", False)
    cell.wait(
        lambda: page.count("//div[contains(@class, 'uplot-container')]") == 0, "the plot is gone"
    )


def test_nodes_tell_how_they_are(cell: Cell) -> None:
    reports = [
        Health("franka/move_group", "OK", "running"),
        Health("sim", "ERROR", "no <b>time</b>"),
    ]
    cell.viewer.update_health(reports)
    cell.page.wait_for_text("1 ERROR of 2 nodes")
    cell.page.open_folder("Nodes")
    cell.page.wait_for_text("no <b>time</b>")


def test_camera_presets_and_the_dark_page(cell: Cell) -> None:
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


def test_on_a_phone_robots_stand_above_the_panel(cell: Cell) -> None:
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


def test_a_page_whose_suite_has_ended_says_so(cell: Cell) -> None:
    text = "No connection to the suite"
    assert text not in cell.page.text()
    cell.viewer.close()
    cell.page.wait_for_text(text)
