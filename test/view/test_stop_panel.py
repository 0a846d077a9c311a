# SPDX-License-Identifier: Apache-2.0
"""The Stop button of the page, its key, and Resume."""

from __future__ import annotations

import asyncio

from view.test_browser_viewer import LIMIT, Record, as_page, drive_button, page, refresh
from view.toy_robot import hand_made

from motion_nodes.extras.viewer.viewed_robot import ViewedRobot


def press_key(viewer):
    """Deliver the hotkey as from a page."""
    from viser._messages import CommandTriggerMessage

    viewer._server._connected_clients.setdefault(99, page())
    gui = viewer._server.gui
    pressed = gui._handle_command_trigger(99, CommandTriggerMessage(viewer._stop.key._impl.uuid))
    asyncio.run_coroutine_threadsafe(pressed, viewer._loop).result(LIMIT)


def test_stop_stands_above_all_robots_and_is_called_by_button_and_key(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"), stops=True)
    panel = viewer._stop
    inside = viewer._robots["arm"]._status._impl.parent_container_id
    folder = viewer._server.gui._container_handle_from_uuid[inside]
    assert panel.stop._impl.parent_container_id == folder._impl.parent_container_id
    assert panel.stop.order < folder.order
    assert panel.stop.visible
    assert viewer._stop.key.hotkey == "escape"
    record = Record()
    viewer.on_stop = record
    as_page(viewer, panel.stop, value=True)
    record.wait_for(lambda calls: len(calls) == 1)
    press_key(viewer)
    record.wait_for(lambda calls: len(calls) == 2)


def test_resume_is_shown_with_the_reason_while_stopped(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"), stops=True)
    panel, record = viewer._stop, Record()
    viewer.on_resume = record
    assert not panel.resume.visible
    viewer.set_stopped("stopped by /stop")
    refresh(viewer)
    assert panel.resume.visible
    assert panel.stop.visible
    assert "stopped by" in panel.line.content
    as_page(viewer, panel.resume, value=True)
    record.wait_for(lambda calls: len(calls) == 1)
    viewer.set_stopped("")
    refresh(viewer)
    assert not panel.resume.visible
    assert not panel.line.visible


def test_stop_lets_go_of_the_drive_pads(open_viewer):
    viewer = open_viewer(ViewedRobot(hand_made("differential")), stops=True)
    viewer.on_twist = record = Record()
    as_page(viewer, viewer._robots["toy"].drive.latch, value=True)
    as_page(viewer, drive_button(viewer, "Left"), value=True)
    record.wait_for(lambda calls: calls.count(("toy", 0.0, 0.0, 1.0)) >= 3)
    as_page(viewer, viewer._stop.stop, value=True)
    record.wait_for(lambda calls: calls[-3:] == [("toy", 0.0, 0.0, 0.0)] * 3)


def test_a_page_without_a_suite_has_no_stop(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy, "arm"))
    assert viewer._stop is None
    viewer.set_stopped("nobody sees this")
    refresh(viewer)
