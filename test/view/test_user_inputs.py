# SPDX-License-Identifier: Apache-2.0
"""Inputs of users: typed, held, out of range, in degrees; each is told once and in order."""

import asyncio
import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh
from view.toy_robot import hand_made

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.extras.viewer import ui_commands
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.drive_panel import Direction
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.plot_panel import Curves
from motion_nodes.extras.viewer.preview import Preview
from motion_nodes.extras.viewer.scene_view import escaped
from motion_nodes.extras.viewer.sphere_editor import SphereEditor, SphereSession
from motion_nodes.extras.viewer.target_gizmo import DragHandles
from motion_nodes.extras.viewer.ui_commands import (
    CallbackQueue,
    DebouncedValues,
    PageWatch,
    SliderHold,
)
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, ViewedRobot

FRANKA = load_robot("franka")
JOINT = FRANKA.joint_names[0]


@pytest.fixture
def viewer(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(IK,), edits_scene=True))
    viewer.on_joint_target = Record()
    viewer.robot("franka").update_joints(FRANKA.home)
    viewer.flush()
    refresh(viewer)
    return viewer


def live(viewer):
    return viewer._robots["franka"]


def test_a_value_that_is_no_number_leaves_the_slider_as_it_was(viewer):
    panel = live(viewer).joints
    before = dict(panel.values)
    as_page(viewer, panel.sliders[JOINT], value=math.nan)
    as_page(viewer, panel.gripper, value=math.inf)
    assert panel.values == before
    assert panel.follow.value
    as_page(viewer, viewer._angles, value="deg")
    assert set(panel.sliders) == set(before), "all sliders are replaced by those of the other unit"
    assert viewer.on_joint_target.calls == []


def test_sliders_show_no_new_state_while_one_is_held(viewer):
    panel = live(viewer).joints
    shown = dict(panel.values)
    viewer.slider_hold.hold()
    viewer.robot("franka").update_joints(FRANKA.home + 0.1)
    refresh(viewer)
    assert panel.values == shown
    viewer.slider_hold.release()
    refresh(viewer)
    assert panel.values[JOINT] == pytest.approx(FRANKA.home[0] + 0.1, abs=1e-3)


def test_drive_speeds_stay_in_their_range(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True, max_linear=0.5, max_angular=1.0))
    drive = viewer._robots["rover"].drive
    for value in (1e9, math.nan, -1.0):
        as_page(viewer, drive.linear, value=value)
        as_page(viewer, drive.angular, value=value)
        assert 0.0 <= drive._state._linear <= 0.5
        assert 0.0 <= drive._turn_rate == drive._state._angular <= 1.0


def test_a_pose_entered_after_a_drag_moves_the_handles(viewer, monkeypatch):
    target = live(viewer).target
    dragged, jogged = from_xyz_rpy((0.4, 0.0, 0.5)), from_xyz_rpy((0.4, 0.0, 0.52))
    target.handles.place(dragged)
    monkeypatch.setattr(DragHandles, "held", property(lambda self: self._held_until > 0.0))
    target.handles._held_until = math.inf
    target.handles.place(from_xyz_rpy((0.0, 0.0, 1.0)))
    np.testing.assert_allclose(target.handles.pose, dragged, err_msg="received meanwhile")
    target._pose_set(jogged)
    np.testing.assert_allclose(target.current(), jogged)
    target.handles._held_until = math.inf
    target._reset_to_tool()
    viewer.flush()
    np.testing.assert_allclose(target.current(), target._tool(FRANKA.home), atol=1e-9)


def test_a_pose_is_not_replaced_while_it_is_edited(viewer):
    pose = live(viewer).target.pose
    as_page(viewer, pose.position, value=(0.4, 0.1, 0.5))
    viewer.robot("franka").update_joints(
        FRANKA.home + 0.1
    )  # the tool, where the target would be, moves
    viewer.flush()
    refresh(viewer)
    assert pose.position.value == pytest.approx((0.4, 0.1, 0.5))
    pose._edited_until = 0.0  # after a while
    refresh(viewer)
    moved = live(viewer).target.current()
    assert pose.position.value == pytest.approx(moved[:3, 3], abs=1e-4)


def test_drive_pads_stop_even_if_the_stop_of_the_robots_fails(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover", drive=True), stops=True)

    def fail() -> None:
        raise RuntimeError("the middleware is shut down")

    viewer.on_stop = fail
    viewer._robots["rover"].drive._state.latch(Direction.FORWARD, 1, 0.0)
    with pytest.raises(RuntimeError):
        viewer._stop_all()
    assert viewer._robots["rover"].drive._state.direction is None


def test_a_page_that_cannot_be_polled_counts_as_lost():
    class Server:
        def get_clients(self):
            raise ValueError("unforeseen")

    watch = PageWatch(Server(), lambda: set(), lambda page: None)
    try:
        assert not watch._responds(1)
    finally:
        watch.close()


def test_names_of_nodes_are_different_for_different_objects():
    names = ["a/0", "a\u02f0", "a%2f0", "a 0", "a_0", "ä/", "a.0"]
    assert len({escaped(name) for name in names}) == len(names)
    assert escaped("a box/1") == "a%20box%2f1"


def test_an_empty_image_is_not_shown(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "rover"), displays=True)
    panel = viewer.displays._panel
    viewer.displays.set_topics({"image": ["/image"]})
    refresh(viewer)
    as_page(viewer, panel.image, value="/image")
    panel.show_image("/image", np.zeros((0, 0, 3), np.uint8))
    assert panel.picture is None


def test_controls_of_the_planner_are_shown_only_with_a_planner(viewer, open_viewer):
    planning = live(viewer).planning
    assert not planning.recover.visible
    assert not planning.show_tree.visible
    with_planner = live(open_viewer(ViewedRobot.of(FRANKA, followers=(PLANNER,), edits_scene=True)))
    assert with_planner.planning.recover.visible
    assert with_planner.planning.show_tree.visible


def test_a_scene_is_loaded_in_the_preview():
    preview = Preview([FRANKA], 1.0, lambda robots: BrowserViewer(robots, PageSettings(0)))
    try:
        ball = world_object("ball", Sphere(0.1), np.eye(4))
        preview.viewer.on_scene_load("franka", (ball,))
        preview.viewer.flush()
        assert "ball" in live(preview.viewer).planning.objects.shown.objects
    finally:
        preview.close()


LIMIT = 10.0


def on_loop(server, call):
    """Run ``call`` on viser's event loop; return its result."""

    async def run():
        found = call()
        return await found if asyncio.iscoroutine(found) else found

    return asyncio.run_coroutine_threadsafe(run(), server.get_event_loop()).result(LIMIT)


def typed(server, handle, value):
    """Deliver a value as from a page."""
    from viser._messages import GuiUpdateMessage

    server._connected_clients.setdefault(99, SimpleNamespace(client_id=99))
    message = GuiUpdateMessage(handle._impl.uuid, {"value": value})
    on_loop(server, lambda: server.gui._handle_gui_updates(99, message))


def pushed(server, handle):
    """Return a list that collects the values sent to a slider from now on."""
    values, queue = [], server.gui._websock_interface.queue_message

    def note(message):
        updates = getattr(message, "updates", {})
        if getattr(message, "uuid", "") == handle._impl.uuid and "value" in updates:
            values.append(updates["value"])
        queue(message)

    server.gui._websock_interface.queue_message = note
    return values


@pytest.fixture
def hold():
    """Reports of the pages on held sliders."""
    return SliderHold()


@pytest.fixture
def settled(monkeypatch, hold):
    """Inputs with a short settling time, their outputs, and an event loop."""
    monkeypatch.setattr(ui_commands, "SETTLING_TIME", 0.02)
    told = []
    loop = asyncio.new_event_loop()
    yield DebouncedValues(lambda *values: told.append(values), hold), told, loop
    loop.close()


def run(loop, *steps):
    """Execute steps on an event loop; a number is a delay [s]."""

    async def all_of_them():
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                step()

    loop.run_until_complete(all_of_them())


def test_of_a_number_that_is_typed_only_the_whole_is_told(settled):
    values, told, loop = settled
    values.set_shown("elbow", 0.3)
    run(loop, *[lambda v=v: values.set_input("elbow", v, 6.0) for v in (0.0, 0.1, 0.15)])
    assert told == []
    run(loop, 0.1)
    assert told == [("elbow", 0.15)]


def test_a_hand_on_the_slider_is_obeyed_at_once(settled):
    values, told, loop = settled
    values.set_shown("elbow", 0.3)
    way = [round(0.3 + 0.05 * k, 3) for k in range(1, 20)]
    run(loop, *[lambda v=v: values.set_input("elbow", v, 6.0) for v in way])
    assert told == [("elbow", value) for value in way]


def test_a_slider_that_is_held_is_obeyed_at_once_however_fast(settled, hold):
    values, told, loop = settled
    values.set_shown("elbow", 0.0)

    def drag(*positions):
        run(loop, *[lambda v=v: values.set_input("elbow", v, 6.0) for v in positions])

    hold.hold()
    drag(2.0, 0.5)
    assert told == [("elbow", 2.0), ("elbow", 0.5)]
    hold.release()
    drag(2.0)
    assert len(told) == 2, "may be the beginning of 2.5"


def test_a_page_that_is_gone_holds_no_slider(hold, monkeypatch):
    hold.hold()
    assert hold.held
    monkeypatch.setattr(ui_commands, "HOLD_TIMEOUT", 0.0)
    hold.hold()
    assert not hold.held


def test_what_waits_is_replaced_forgotten_and_kept_apart_from_others(settled):
    values, told, loop = settled
    for key in ("elbow", "wrist"):
        values.set_shown(key, 0.0)
    run(
        loop,
        lambda: values.set_input("elbow", 2.0, 6.0),
        lambda: values.set_input("wrist", 1.0, 6.0),
        lambda: values.set_input("elbow", 0.05, 6.0),
        0.1,
    )
    assert told == [("elbow", 0.05), ("wrist", 1.0)]
    run(loop, lambda: values.set_input("elbow", 2.0, 6.0), values.cancel, 0.1)
    assert told == [("elbow", 0.05), ("wrist", 1.0)]


def test_a_robot_at_rest_sends_nothing_to_its_sliders(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made()))
    server, panel = viewer._server, viewer._robots["toy"].joints
    slider = panel.sliders["toy_pan"]
    on_loop(server, lambda: panel.mirror(np.array([0.3005, 0.8, 0.05, 0.0])))
    values = pushed(server, slider)
    rng = np.random.default_rng(7)
    for noise in rng.normal(0.0, 1e-4, 50):
        on_loop(server, lambda n=noise: panel.mirror(np.array([0.3005 + n, 0.8, 0.05, 0.0])))
    assert values == []
    on_loop(server, lambda: panel.mirror(np.array([0.31, 0.8, 0.05, 0.0])))
    assert values == [pytest.approx(0.31)]


def test_a_plan_that_plays_sends_nothing_to_its_slider(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA))
    server, path = viewer._server, viewer._robots["franka"].planning.path
    rows = np.linspace(FRANKA.home, FRANKA.home + 0.2, 5)
    viewer.robot("franka").update_plan(np.linspace(0.0, 100.0, 5), rows)
    on_loop(server, path.refresh_panel)
    values = pushed(server, path.playback.scrub)
    path.playback._start -= 30.0
    on_loop(server, path.refresh_panel)
    assert values == []
    assert path.playback.text.content.startswith("**3")
    # A value typed meanwhile is used, and ends playback.
    typed(server, path.playback.scrub, 75.0)
    assert not path.playback.play.value
    on_loop(server, path.refresh_panel)
    assert values == [75.0], "only the update of other pages"
    viewer.flush()
    np.testing.assert_allclose(path.ghost.q, rows[3], atol=1e-9)
    # Playback continues from there, and stops at the ghost.
    typed(server, path.playback.play, True)
    assert path.playback.now == pytest.approx(75.0, abs=LIMIT)
    path.playback._start -= 15.0
    typed(server, path.playback.play, False)
    assert path.playback.scrub.value == pytest.approx(90.0, abs=LIMIT)
    assert path.playback.scrub.value >= 90.0 - 0.01


def work_is_done(editor):
    """Wait until the editor has executed all requests."""
    over = threading.Event()
    editor._work.put("over", over.set)
    assert over.wait(LIMIT)


def test_the_radius_of_a_sphere_is_not_written_over(tmp_path):
    session = SphereSession(FRANKA, tmp_path / "spheres.yaml")
    with SphereEditor(session, 0, shadows=False) as editor:
        work_is_done(editor)
        server = editor._server
        values = pushed(server, editor.radius)
        # "0.0", typed before 0.03, is no radius.
        for value in (0.0, 0.03, 0.034):
            typed(server, editor.radius, value)
            work_is_done(editor)
        assert session.chosen[3] == pytest.approx(0.034)
        assert values == [0.0, 0.03, 0.034], "only the update of other pages"
        typed(server, editor.history, "Undo")
        work_is_done(editor)
        assert session.chosen[3] != pytest.approx(0.034)
        assert editor.radius.value == pytest.approx(session.chosen[3])


def test_one_movement_of_a_radius_is_one_step_to_undo(tmp_path):
    session = SphereSession(FRANKA, tmp_path / "spheres.yaml")
    before = session.spheres
    for step, radius in enumerate((0.03, 0.031, 0.032, 0.033)):
        session.resize(radius, merge=step > 0)
    assert session.chosen[3] == pytest.approx(0.033)
    assert session.undo()
    assert session.spheres is before
    assert session.redo()
    assert session.chosen[3] == pytest.approx(0.033)


def show(viewer, unit):
    """Choose the unit as a page does."""
    as_page(viewer, viewer._angles, value=unit)


def test_joint_sliders_show_degrees_and_command_radians(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made()))
    viewer.on_joint_target = record = Record()
    panel = viewer._robots["toy"].joints
    names = list(panel.sliders)
    ends = {name: (slider.min, slider.max) for name, slider in panel.sliders.items()}
    before = panel.sliders["toy_tilt"]
    show(viewer, "deg")
    assert list(panel.sliders) == names
    tilt, slide = panel.sliders["toy_tilt"], panel.sliders["toy_slide"]
    assert tilt.label == "tilt [deg]"
    assert slide.label == "slide [m]"
    assert tilt.order == before.order
    np.testing.assert_allclose((tilt.min, tilt.max), np.rad2deg(ends["toy_tilt"]))
    assert (slide.min, slide.max) == ends["toy_slide"]
    assert tilt.value == 45.8  # rounded to a step; the command stays 0.8 rad
    assert panel.values["toy_tilt"] == 0.8
    as_page(viewer, tilt, value=45.0)
    record.wait_for(lambda calls: calls == [("toy", "toy_tilt", pytest.approx(np.pi / 4))])
    # What a page still sends to the slider in radians is ignored.
    as_page(viewer, before, value=1.0)
    show(viewer, "rad")
    assert panel.sliders["toy_tilt"].value == 0.785
    assert len(record.calls) == 1


def test_sliders_follow_the_robot_in_degrees(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made()))
    show(viewer, "deg")
    viewer.robot("toy").update_joints([0.5, np.nan, 0.02, 0.0])
    refresh(viewer)
    live = viewer._robots["toy"]
    assert live.joints.sliders["toy_pan"].value == pytest.approx(np.rad2deg(0.5), abs=0.05)
    assert live.joint_sliders["toy_pan"] == pytest.approx(0.5, abs=1e-3)
    assert live.joint_sliders["toy_slide"] == pytest.approx(0.02)


def test_a_value_rounded_beyond_a_limit_commands_the_limit(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA))
    viewer.on_joint_target = record = Record()
    show(viewer, "deg")
    slider = viewer._robots["franka"].joints.sliders["panda_joint2"]
    as_page(viewer, slider, value=slider.max + 0.05)
    limit = FRANKA.limits.upper[FRANKA.joint_names.index("panda_joint2")]
    record.wait_for(lambda calls: calls == [("franka", "panda_joint2", pytest.approx(limit))])


def test_the_rotation_of_a_target_and_its_steps(open_viewer):
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(IK,)))
    viewer.on_target = record = Record()
    pose = viewer._robots["franka"].target.pose
    X = from_xyz_rpy((0.4, 0.1, 0.3), (0.2, -0.3, 0.5))
    viewer.robot("franka").update_target(X)
    viewer.flush()
    refresh(viewer)
    assert pose.rotation.label == "RPY [rad]"
    assert pose.rotation.value == pytest.approx((0.2, -0.3, 0.5), abs=1e-4)
    assert pose.step.value == "5 mm, 0.035 rad"
    show(viewer, "deg")
    assert pose.rotation.label == "RPY [deg]"
    assert pose.rotation.value == pytest.approx(np.rad2deg((0.2, -0.3, 0.5)), abs=0.01)
    assert pose.step.value == "5 mm, 2°"
    as_page(viewer, pose.rotate, value="+Z")
    record.wait_for(len)
    turned = record.calls[0][1].X_BT[:3, :3] @ X[:3, :3].T
    assert np.arccos((np.trace(turned) - 1.0) / 2.0) == pytest.approx(np.deg2rad(2.0), rel=1e-3)
    refresh(viewer)  # shows the turned pose, which must not follow the typed one
    as_page(viewer, pose.rotation, value=(0.0, 90.0 - 1e-6, 0.0))
    pressed = next(
        handle
        for handle in viewer._server.gui._gui_input_handle_from_uuid.values()
        if getattr(handle, "label", "") == "Move target to pose"
    )
    as_page(viewer, pressed, value=True)
    record.wait_for(lambda calls: len(calls) == 2)
    assert to_rpy(record.calls[1][1].X_BT)[1] == pytest.approx(np.pi / 2, abs=1e-3)


def test_plots_and_turn_rates(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("ackermann"), max_angular=2.0))
    live = viewer._robots["toy"]
    show(viewer, "deg")
    assert live.drive.angular.label == "Turn rate [deg/s]"
    assert (live.drive.angular.max, live.drive.angular.value) == (114.0, 57.0)
    as_page(viewer, live.drive.angular, value=90.0)
    assert live.drive._state._angular == pytest.approx(np.pi / 2)
    line = np.array([0.0, np.pi])
    times = np.array([-1.0, 0.0])
    shown = live.plots._converted(Curves(times, ("a",), (line,), (np.pi,), "rad/s"))
    assert shown.unit == "deg/s"
    np.testing.assert_allclose(shown.values[0], (0.0, 180.0))
    assert shown.limits == (pytest.approx(180.0),)
    same = Curves(times, ("a",), (line,), (), "m")
    assert live.plots._converted(same) is same


@pytest.fixture
def start():
    started = []

    def make(repeat=lambda: False):
        started.append(CallbackQueue(repeat))
        return started[-1]

    yield make
    for queue in started:
        queue.close()


def test_calls_come_in_order_on_one_thread(start):
    queue, seen, done = start(), [], threading.Event()
    for number in range(100):
        queue.put(number, lambda n=number: seen.append((n, threading.current_thread().name)))
    queue.put("end", done.set)
    assert done.wait(LIMIT)
    assert seen == [(number, "viewer-callbacks") for number in range(100)]


def test_slow_receiver_gets_the_newest_value_after_older_wishes(start):
    queue, seen = start(), []
    entered, gate, done = threading.Event(), threading.Event(), threading.Event()
    queue.put("block", lambda: (entered.set(), gate.wait(LIMIT)))
    assert entered.wait(LIMIT)
    for value in range(50):
        queue.put("slider", lambda v=value: seen.append(v))
    queue.put("state", lambda: seen.append("state"))
    queue.put("slider", lambda: seen.append("last"))
    queue.put("end", done.set)
    gate.set()
    assert done.wait(LIMIT)
    assert seen == ["state", "last"]


def test_failing_callback_does_not_end_the_thread(start, caplog):
    queue, done = start(), threading.Event()
    queue.put("bad", lambda: 1 / 0)
    queue.put("good", done.set)
    assert done.wait(LIMIT)
    assert "viewer callback failed" in caplog.text


def test_repeats_until_there_is_nothing_more(start):
    times, over = [], threading.Event()

    def repeat():
        times.append(1)
        if len(times) == 4:
            over.set()
        return len(times) < 4

    queue = start(repeat)
    queue.start_repeating()
    assert over.wait(LIMIT)
    queue.close()
    assert len(times) == 4


def test_close_makes_the_calls_that_are_still_queued():
    seen = []
    queue = CallbackQueue(lambda: False)
    for number in range(20):
        queue.put(number, lambda n=number: seen.append(n))
    queue.close()
    assert seen == list(range(20))
