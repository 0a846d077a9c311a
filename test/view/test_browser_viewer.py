# SPDX-License-Identifier: Apache-2.0
"""The viewer as a whole, without a page: names, bad input, callbacks, threads, clean close."""

import asyncio
import logging
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from raised_errors import about
from scipy.linalg import expm
from view.toy_robot import hand_made, pose

from motion_nodes.core.robot.loader import available_robots, load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig, RobotNotFound, UnknownJoint
from motion_nodes.extras.viewer.browser import BrowserViewer
from motion_nodes.extras.viewer.page_server import PageSettings
from motion_nodes.extras.viewer.preview import Preview, planar_step
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

LIMIT = 10.0


def page(answer=lambda *_, **__: None):
    """Return a stand-in for an open page."""
    return SimpleNamespace(client_id=99, local_storage=SimpleNamespace(get_item=answer))


def as_page(viewer, handle, **updates):
    """Deliver a message as a page would send it."""
    from viser._messages import GuiUpdateMessage

    viewer._server._connected_clients.setdefault(99, page())
    gui = viewer._server.gui
    update = gui._handle_gui_updates(99, GuiUpdateMessage(handle._impl.uuid, updates))
    asyncio.run_coroutine_threadsafe(update, viewer._loop).result(LIMIT)


def hold_as_page(viewer, handle):
    """Report once that a button is pressed."""
    from viser._messages import GuiButtonHoldMessage

    viewer._server._connected_clients.setdefault(99, page())
    message = GuiButtonHoldMessage(handle._impl.uuid, 10.0)
    held = viewer._server.gui._handle_gui_button_hold(99, message)
    asyncio.run_coroutine_threadsafe(held, viewer._loop).result(LIMIT)


def refresh(viewer):
    """Refresh the panel now."""

    async def run():
        viewer._refresh_panels()

    asyncio.run_coroutine_threadsafe(run(), viewer._loop).result(LIMIT)


class Record:
    """Records the calls of a callback, and waits for them."""

    def __init__(self):
        self.calls = []
        self._more = threading.Condition()

    def __call__(self, *given):
        with self._more:
            self.calls.append(given)
            self._more.notify_all()

    def wait_for(self, condition):
        with self._more:
            assert self._more.wait_for(lambda: condition(self.calls), LIMIT), self.calls


def test_several_robots_of_one_model_have_their_own_place(open_viewer, toy):
    viewer = open_viewer(
        ViewedRobot(toy, "left/arm", pose((0, 1, 0))), ViewedRobot(toy, "/right/", pose((0, -1, 0)))
    )
    assert viewer.robot_names == ("left/arm", "right")
    viewer.robot("right").update_joints(np.full(4, 0.05))
    viewer.flush()
    np.testing.assert_allclose(viewer._robots["left/arm"].view.q, toy.home)
    np.testing.assert_allclose(viewer._robots["right"].view.q, 0.05)
    assert viewer._robots["left/arm"].view.base.position[1] == 1.0


def test_folders_name_the_model(toy):
    titles = {name: ViewedRobot(toy, name).title for name in ("toy", "left/toy", "toy_2", "a", "")}
    assert titles == {
        "toy": "toy", "left/toy": "left/toy", "toy_2": "toy_2", "a": "a (toy)", "": "toy",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(available_robots()))
def test_shipped_robots_open_with_their_states_and_speeds(open_viewer, name):
    robot = load_robot(name)
    viewed = ViewedRobot.of(robot)
    viewer = open_viewer(viewed)
    live = viewer._robots[name]
    np.testing.assert_allclose(live.view.q, robot.home)
    assert live.view.meshes.missing == ()
    assert (live.drive is not None) == (robot.base is not None)
    sliders = live.joints.sliders if live.joints is not None else {}
    for joint, slider in sliders.items():
        row = robot.joint_names.index(joint)
        assert slider.min == pytest.approx(robot.limits.lower[row])
        assert slider.max == pytest.approx(robot.limits.upper[row])
    # One slider moves all fingers.
    assert tuple(sliders) == tuple(j for j in robot.arm_joints if j not in viewed.gripper)
    steered = robot.base is not None and bool(robot.base.steering_names)
    assert ("Wheel angles" in wheel_angles(viewer, name)) == steered


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda v: v.robot("tyo").update_joints(np.zeros(4)), RobotNotFound, "tyo"),
        (lambda v: v.robot("x").update_base(np.eye(4)), RobotNotFound, "x"),
        (lambda v: v.robot("x").set_message(""), RobotNotFound, "x"),
        (lambda v: v.robot("toy").update_joints(np.zeros(3)), InvalidCommand, "update_joints"),
        (lambda v: v.robot("toy").update_joints(np.zeros((2, 4))), InvalidCommand, "update_joints"),
        (lambda v: v.robot("toy").update_joints("abcd"), InvalidCommand, "update_joints"),
        (lambda v: v.robot("toy").update_joints(None), InvalidCommand, "update_joints"),
        (lambda v: v.robot("toy").update_reference([1]), InvalidCommand, "update_reference"),
        (lambda v: v.robot("toy").update_base(np.eye(3)), InvalidCommand, "toy: base pose X_WB"),
        (
            lambda v: v.robot("toy").update_base(np.full((4, 4), np.nan)),
            InvalidCommand,
            "toy: base pose X_WB",
        ),
        (
            lambda v: v.robot("toy").update_base(3 * np.eye(4)),
            InvalidCommand,
            "toy: base pose X_WB",
        ),
    ],
)
def test_bad_input_is_named_and_changes_nothing(open_viewer, toy, call, error, text):
    viewer = open_viewer(ViewedRobot(toy))
    with pytest.raises(error, check=about(text)):
        call(viewer)
    viewer.flush()
    np.testing.assert_array_equal(viewer._robots["toy"].view.q, toy.home)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda t: ViewedRobot(t, "two words"), InvalidConfig, "name"),
        (lambda t: ViewedRobot(t, sliders=["toy_pn"]), UnknownJoint, "toy_pn"),
        (lambda t: ViewedRobot(t, max_linear=0.0), InvalidConfig, "max_linear"),
        (lambda t: ViewedRobot(t, max_angular=np.nan), InvalidConfig, "max_angular"),
        (lambda t: ViewedRobot(t, X_WR=np.zeros((4, 4))), InvalidCommand, "toy: placement X_WR"),
        (
            lambda t: BrowserViewer([ViewedRobot(t), ViewedRobot(t)], PageSettings(0)),
            InvalidConfig,
            "name",
        ),
        (
            lambda t: BrowserViewer([ViewedRobot(t)], PageSettings(0, rate=0.0)),
            InvalidConfig,
            "rate",
        ),
    ],
)
def test_bad_settings(toy, make, error, text):
    with pytest.raises(error, check=about(text)):
        make(toy)


def test_slider_moved_on_a_page_reports_joint_and_value(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"))
    viewer.on_joint_target = record = Record()
    panel = viewer._robots["arm"].joints
    as_page(viewer, panel.sliders["toy_tilt"], value=-1.25)
    record.wait_for(lambda calls: calls == [("arm", "toy_tilt", -1.25)])


def test_sliders_follow_the_robot_until_somebody_takes_hold(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, named_states=("home", "ready")))
    viewer.on_joint_target, viewer.on_named_state = Record(), Record()
    panel = viewer._robots["toy"].joints
    pan = panel.sliders["toy_pan"]
    viewer.robot("toy").update_joints([1.0, np.nan, 99.0, 3 * np.pi])
    refresh(viewer)
    assert pan.value == pytest.approx(1.0)
    assert panel.sliders["toy_tilt"].value == pytest.approx(0.8)
    assert panel.sliders["toy_slide"].value == pytest.approx(0.1)
    assert viewer.on_joint_target.calls == []
    as_page(viewer, pan, value=-0.5)
    assert not panel.follow.value
    viewer.robot("toy").update_joints([0.2, 0.2, 0.0, 0.0])
    refresh(viewer)
    assert pan.value == pytest.approx(-0.5)
    viewer.on_joint_target.wait_for(lambda calls: calls == [("toy", "toy_pan", -0.5)])
    as_page(viewer, panel.states, value="ready")
    viewer.on_named_state.wait_for(lambda calls: calls == [("toy", "ready")])
    refresh(viewer)
    assert pan.value == pytest.approx(0.2)
    assert viewer.on_joint_target.calls == [("toy", "toy_pan", -0.5)]


def test_wheels_of_a_base_have_no_sliders(toy):
    assert "toy_wheel" in ViewedRobot(toy).sliders
    assert "toy_wheel" not in ViewedRobot(hand_made("differential")).sliders


def test_drive_pad_repeats_while_held_and_stops_when_the_page_falls_silent(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential"), max_linear=0.4))
    viewer.on_twist = record = Record()
    button = drive_button(viewer, "Forward")
    hold_as_page(viewer, button)
    record.wait_for(lambda calls: len(calls) >= 3 and calls[-1] == ("toy", 0.0, 0.0, 0.0))
    assert record.calls[0] == ("toy", 0.2, 0.0, 0.0)
    assert record.calls[1] == ("toy", 0.2, 0.0, 0.0)


def test_release_stop_and_latch(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")))
    viewer.on_twist = record = Record()
    drive = viewer._robots["toy"].drive
    as_page(viewer, drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Left"), value=True)
    record.wait_for(lambda calls: calls.count(("toy", 0.0, 0.0, 1.0)) >= 8)
    as_page(viewer, drive.angular, value=0.5)
    record.wait_for(lambda calls: calls[-1] == ("toy", 0.0, 0.0, 0.5))
    as_page(viewer, drive_button(viewer, "Stop"), value=True)
    record.wait_for(lambda calls: calls[-3:] == [("toy", 0.0, 0.0, 0.0)] * 3)


def test_last_page_gone_stops_the_base(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")))
    viewer.on_twist = record = Record()
    as_page(viewer, viewer._robots["toy"].drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Forward"), value=True)
    record.wait_for(lambda calls: len(calls) >= 2)
    client = viewer._server._connected_clients.pop(99)
    viewer._client_left(client)
    record.wait_for(lambda calls: calls[-1] == ("toy", 0.0, 0.0, 0.0))


def test_page_that_no_longer_answers_stops_its_base(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")))
    viewer.on_twist = record = Record()
    asleep = threading.Event()

    def answer(key, timeout):
        if asleep.is_set():
            raise TimeoutError

    viewer._server._connected_clients[99] = page(answer)
    as_page(viewer, viewer._robots["toy"].drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Forward"), value=True)
    record.wait_for(lambda calls: len(calls) >= 20)
    assert record.calls[-1] != ("toy", 0.0, 0.0, 0.0)
    asleep.set()
    record.wait_for(lambda calls: calls[-1] == ("toy", 0.0, 0.0, 0.0))


def test_close_stops_a_base_that_drives(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")))
    viewer.on_twist = record = Record()
    as_page(viewer, viewer._robots["toy"].drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Forward"), value=True)
    record.wait_for(lambda calls: len(calls) >= 1)
    viewer.close()
    assert record.calls[-1] == ("toy", 0.0, 0.0, 0.0)


def test_the_button_of_a_surface_gripper_appears_with_its_state(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy))
    panel = viewer.robot(viewer.robot_names[0]).suction
    record = Record()
    viewer.on_suction = record
    for state, held, closing in (("open", "", True), ("closed", "a *box*", False)):
        viewer.robot(viewer.robot_names[0]).set_suction(state, held)
        refresh(viewer)
        assert panel.button.visible
        assert state in panel.text.content
        as_page(viewer, panel.button, value=True)
        record.wait_for(lambda calls, closing=closing: calls and calls[-1][-1] is closing)
    with pytest.raises(RobotNotFound):
        viewer.robot("nobody").set_suction("open", "")


def test_buttons_of_each_kind_of_base(open_viewer):
    labels = {}
    for kind in ("arm", "differential", "holonomic", "ackermann"):
        viewer = open_viewer(ViewedRobot(hand_made(kind)))
        labels[kind] = {button.label for button in drive_buttons(viewer) if button.visible}
    plain = {"Forward", "Back", "Left", "Right", "Stop", "Clear trail"}
    assert labels == {
        "arm": set(),
        "differential": plain,
        "holonomic": plain | {"Slide left", "Slide right"},
        "ackermann": plain | {"Back left", "Back right"},
    }


def test_angles_of_steered_wheels_are_shown(open_viewer):
    viewer = open_viewer(ViewedRobot.of(load_robot("leatherback")))
    assert "left **?**, right **?**" in wheel_angles(viewer, "leatherback")
    q, names = np.zeros(6), load_robot("leatherback").joint_names
    q[names.index("Knuckle__Upright__Front_Left")] = 0.3
    q[names.index("Knuckle__Upright__Front_Right")] = -0.2
    viewer.robot("leatherback").update_joints(q)
    refresh(viewer)
    assert "left **+0.300 rad**, right **-0.200 rad**" in wheel_angles(viewer, "leatherback")


def test_steering_joints_must_be_the_robots(toy):
    with pytest.raises(UnknownJoint):
        ViewedRobot(toy, steering=("toy_pam",))


@pytest.mark.long
def test_failing_callback_is_logged_and_the_next_one_comes(open_viewer, toy, caplog):
    viewer = open_viewer(ViewedRobot(toy))
    sliders = viewer._robots["toy"].joints.sliders
    record = Record()

    def fail_once(*given):
        record(*given)
        raise ValueError("not today")

    viewer.on_joint_target = fail_once
    with caplog.at_level(logging.ERROR):
        as_page(viewer, sliders["toy_pan"], value=0.1)
        record.wait_for(len)
        as_page(viewer, sliders["toy_pan"], value=0.2)
        record.wait_for(lambda calls: calls[-1] == ("toy", "toy_pan", 0.2))
    assert "not today" in caplog.text


def test_without_a_page_nothing_is_sent_but_the_newest_is_kept(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy))
    sent = []
    viewer._server.scene._queue_scene_message = sent.append
    for value in np.linspace(0.0, 1.0, 200):
        viewer.robot("toy").update_joints([value, np.nan, np.nan, np.nan])
    assert sent == []
    viewer.flush()
    assert len(sent) == 1
    assert viewer._robots["toy"].view.q[0] == 1.0


def test_close_ends_threads_and_may_be_repeated(toy):
    before = set(threading.enumerate())
    viewer = BrowserViewer([ViewedRobot(toy)], PageSettings(0))
    started = {thread.name for thread in set(threading.enumerate()) - before}
    assert {"viewer-draw", "viewer-callbacks", "viewer-watch"} <= started
    viewer.close()
    viewer.close()
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert not left & {"viewer-draw", "viewer-callbacks", "viewer-watch"}
    assert not viewer._server._websock_server._server_thread.is_alive()
    # Late updates, such as from a node that shuts down at the same time, are ignored.
    viewer.robot("toy").update_joints(toy.home)


def test_nothing_is_printed(toy, capsys):
    with BrowserViewer([ViewedRobot(toy)], PageSettings(0)):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("twist", [(0.3, 0.0, 0.0), (0.2, -0.1, 1.5), (0.4, 0.2, 1e-8)])
def test_preview_base_follows_the_exponential_map(twist):
    vx, vy, wz = twist
    generator = np.zeros((4, 4))
    generator[0, 1], generator[1, 0] = -wz, wz
    generator[:2, 3] = vx, vy
    np.testing.assert_allclose(planar_step(*twist, 0.1), expm(0.1 * generator), atol=1e-12)


def test_preview_robot_obeys(open_viewer):
    robot = load_robot("franka")
    preview = Preview([robot, robot], 1.0, lambda shown: open_viewer(*shown))
    try:
        assert preview.viewer.robot_names == ("franka", "franka_2")
        preview.viewer.on_joint_target("franka_2", "panda_joint1", 0.5)
        arrived = threading.Event()
        shown = preview.viewer.robot("franka_2")
        seen = shown.update_joints

        def watch(q):
            seen(q)
            if abs(q[0] - 0.5) < 1e-9:
                arrived.set()

        shown.update_joints = watch
        assert arrived.wait(LIMIT)
    finally:
        preview.close()


def wheel_angles(viewer, name):
    """Return the panel's text on steered wheels; empty without any."""
    drive = viewer._robots[name].drive
    return drive.angles.content if hasattr(drive, "angles") else ""


def drive_buttons(viewer):
    """Return all plain buttons of the panel."""
    import viser

    handles = viewer._server.gui._gui_input_handle_from_uuid.values()
    return [handle for handle in handles if isinstance(handle, viser.GuiButtonHandle)]


def drive_button(viewer, label):
    """Return the button with a label."""
    return next(button for button in drive_buttons(viewer) if button.label == label)
