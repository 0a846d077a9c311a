# SPDX-License-Identifier: Apache-2.0
"""The unit of angles: all panels show it, commands stay in radians."""

from __future__ import annotations

import numpy as np
import pytest
from view.test_browser_viewer import Record, as_page, refresh
from view.toy_robot import hand_made

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, to_rpy
from motion_nodes.extras.viewer.plot_panel import Curves
from motion_nodes.extras.viewer.viewed_robot import IK, ViewedRobot

FRANKA = load_robot("franka")


def show(viewer, unit):
    """Choose the unit as a page does."""
    as_page(viewer, viewer._angles.box, value=unit)


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
    viewer.update_joints("toy", [0.5, np.nan, 0.02, 0.0])
    refresh(viewer)
    live = viewer._robots["toy"]
    assert live.joints.sliders["toy_pan"].value == pytest.approx(np.rad2deg(0.5), abs=0.05)
    assert live.slider_values()["toy_pan"] == pytest.approx(0.5, abs=1e-3)
    assert live.slider_values()["toy_slide"] == pytest.approx(0.02)


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
    viewer.update_target("franka", X)
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
