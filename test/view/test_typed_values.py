# SPDX-License-Identifier: Apache-2.0
"""Typed values are neither applied before completion nor overwritten."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from view.toy_robot import hand_made

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.extras.viewer import ui_commands
from motion_nodes.extras.viewer.sphere_editor import SphereEditor, SphereSession
from motion_nodes.extras.viewer.ui_commands import DebouncedValues, SliderHold
from motion_nodes.extras.viewer.viewed_robot import ViewedRobot

LIMIT = 10.0
FRANKA = load_robot("franka")


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
    viewer.update_plan("franka", np.linspace(0.0, 100.0, 5), rows)
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
