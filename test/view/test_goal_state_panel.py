# SPDX-License-Identifier: Apache-2.0
"""Joint sliders as the goal state; scaling factors; steps of jogged poses."""

import asyncio
import math

import numpy as np
import pytest
from patience import wait_until
from view.test_browser_viewer import LIMIT, Record, as_page, refresh

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, to_rpy
from motion_nodes.errors import UnknownJoint
from motion_nodes.extras.viewer import panel_style, ui_commands
from motion_nodes.extras.viewer.joint_panel import GOAL, MIN_CHANGE, ROBOT
from motion_nodes.extras.viewer.planning_view import SLIDERS
from motion_nodes.extras.viewer.suite_panels import MIN_PERCENT
from motion_nodes.extras.viewer.target_gizmo import BASE, DIRECTIONS, TOOL, jogged
from motion_nodes.extras.viewer.ui_commands import MotionScaling
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, ViewedRobot

FRANKA = load_robot("franka")
ARM = FRANKA.groups["arm"].joints
FINGERS = FRANKA.groups["gripper"].joints


@pytest.fixture
def viewer(open_viewer, monkeypatch):
    monkeypatch.setattr(ui_commands, "SETTLING_TIME", 0.1)
    viewer = open_viewer(ViewedRobot.of(FRANKA, followers=(IK, PLANNER)))
    viewer.on_joint_target, viewer.on_named_state = Record(), Record()
    viewer.on_plan = Record()
    viewer.robot("franka").update_joints(FRANKA.home)
    viewer.flush()
    refresh(viewer)
    return viewer


def live(viewer):
    return viewer._robots["franka"]


def choose(viewer, mode):
    as_page(viewer, live(viewer).goal_state.mode, value=mode)


def slide(viewer, joint, value):
    as_page(viewer, live(viewer).joints.sliders[joint], value=value)
    viewer.flush()


def settle(viewer):
    """Wait until a delayed command would have been sent."""
    pause = ui_commands.SETTLING_TIME + 0.2
    asyncio.run_coroutine_threadsafe(asyncio.sleep(pause), viewer._loop).result(LIMIT)


def test_sliders_move_the_ghost_and_command_nothing(viewer):
    goal = live(viewer).goal_state
    choose(viewer, GOAL)
    viewer.flush()
    assert goal.ghost is None, "a goal where the robot is would only cover it"
    aims = {ARM[0]: 1.2, ARM[3]: -1.0, ARM[6]: 0.1}
    for joint, value in aims.items():
        slide(viewer, joint, value)
    expected = FRANKA.home.copy()
    for joint, value in aims.items():
        expected[FRANKA.joint_names.index(joint)] = value
    assert goal.ghost.base.visible
    np.testing.assert_allclose(goal.ghost.q, expected, atol=1e-3)
    np.testing.assert_allclose(live(viewer).view.q, FRANKA.home)
    # The robot's motion changes neither sliders nor ghost, except joints that are not planned.
    moved = FRANKA.home + 0.01
    viewer.robot("franka").update_joints(moved)
    refresh(viewer)
    viewer.flush()
    assert goal.ghost.base.visible
    rows = FRANKA.indices(ARM)
    np.testing.assert_allclose(goal.ghost.q[rows], expected[rows], atol=1e-3)
    settle(viewer)
    assert viewer.on_joint_target.calls == []
    assert viewer.on_plan.calls == []


def test_plan_and_execute_take_the_goal_from_both_tabs(viewer):
    choose(viewer, GOAL)
    slide(viewer, ARM[1], 0.5)
    assert live(viewer).planning.goals.goal.value == SLIDERS
    as_page(viewer, live(viewer).goal_state.verbs, value="Plan")
    viewer.on_plan.wait_for(lambda calls: len(calls) == 1)
    as_page(viewer, live(viewer).planning.goals.verbs, value="Execute")
    viewer.on_plan.wait_for(lambda calls: len(calls) == 2)
    for (name, command), verb in zip(viewer.on_plan.calls, ("plan", "execute"), strict=True):
        assert (name, command.verb, command.state, command.X_BT) == ("franka", verb, "", None)
        assert set(command.joints) == set(ARM), "only what the planner moves"
        assert command.joints[ARM[1]] == pytest.approx(0.5)
        assert command.joints[ARM[0]] == pytest.approx(FRANKA.home[0], abs=1e-3)
    viewer.robot("franka").set_plan_message("no path")
    refresh(viewer)
    assert "no path" in live(viewer).goal_state._message.content


def test_named_states_become_the_goal(viewer):
    panel, goal = live(viewer).joints, live(viewer).goal_state
    assert set(goal._states) == {"home", "ready", "extended", "transport"}, "without the gripper's"
    choose(viewer, GOAL)
    assert goal.states.visible
    assert not panel.states.visible
    as_page(viewer, goal.states, value="extended")
    for joint, value in FRANKA.states["extended"].items():
        assert panel.values[joint] == pytest.approx(value, abs=1e-3)
    # A late press of a button that is hidden now moves nothing.
    as_page(viewer, panel.states, value="home")
    settle(viewer)
    assert viewer.on_named_state.calls == []
    choose(viewer, ROBOT)
    as_page(viewer, goal.states, value="extended")
    refresh(viewer)
    assert panel.values[ARM[3]] == pytest.approx(FRANKA.home[3], abs=1e-3)


def test_only_planned_joints_can_be_set(viewer):
    panel = live(viewer).joints
    choose(viewer, GOAL)
    assert list(panel.sliders) == list(ARM)
    assert panel.gripper.disabled
    as_page(viewer, panel.gripper, value=10.0)
    choose(viewer, ROBOT)
    assert not any(slider.disabled for slider in panel.sliders.values())
    assert not panel.gripper.disabled
    settle(viewer)
    assert viewer.on_joint_target.calls == []


def test_the_goal_is_no_command_when_the_sliders_set_the_robot_again(viewer):
    panel, goal = live(viewer).joints, live(viewer).goal_state
    choose(viewer, GOAL)
    slide(viewer, ARM[0], 1.5)
    held = panel.sliders[ARM[0]]
    choose(viewer, ROBOT)
    # Another page still drags the slider.
    as_page(viewer, held, value=1.6)
    viewer.flush()
    refresh(viewer)
    assert not goal.ghost.base.visible
    assert panel.follow.value
    step = panel.sliders[ARM[0]].step
    for joint in ARM:
        actual = FRANKA.home[FRANKA.joint_names.index(joint)]
        assert abs(panel.values[joint] - actual) <= MIN_CHANGE * step
    settle(viewer)
    assert viewer.on_joint_target.calls == []
    slide(viewer, ARM[0], panel.values[ARM[0]] + 0.01)
    viewer.on_joint_target.wait_for(lambda calls: len(calls) == 1)


def test_a_command_that_is_still_delayed_is_dropped(viewer):
    slide(viewer, ARM[0], 1.5)
    choose(viewer, GOAL)
    settle(viewer)
    assert viewer.on_joint_target.calls == []
    assert live(viewer).joints.values[ARM[0]] == pytest.approx(0.0, abs=1e-3)


def test_the_goal_survives_another_unit(viewer):
    choose(viewer, GOAL)
    slide(viewer, ARM[0], 1.0)
    as_page(viewer, viewer._angles, value="deg")
    panel = live(viewer).joints
    assert panel.sliders[ARM[0]].value == pytest.approx(np.rad2deg(1.0), abs=0.1)
    slide(viewer, ARM[0], 90.0)
    assert live(viewer).goal_state.command("plan").joints[ARM[0]] == pytest.approx(np.pi / 2)
    settle(viewer)
    assert viewer.on_joint_target.calls == []


def test_the_goal_of_the_plan_tab_selects_the_mode(viewer):
    goals, goal = live(viewer).planning.goals, live(viewer).goal_state
    as_page(viewer, goals.goal, value=SLIDERS)
    assert goal.active
    assert goal.mode.value == GOAL
    choose(viewer, ROBOT)
    as_page(viewer, goals.verbs, value="Execute")
    refresh(viewer)
    assert "Sliders set" in goals._message.content
    assert viewer.on_plan.calls == [], "where the sliders are is no goal any more"
    as_page(viewer, goals.goal, value="home")
    refresh(viewer)
    assert "Sliders set" not in goals._message.content


def test_without_a_planner_the_sliders_set_the_robot(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy), ViewedRobot.of(FRANKA, followers=(IK,)))
    assert all(robot.goal_state is None for robot in viewer._robots.values())
    with pytest.raises(UnknownJoint):
        ViewedRobot(toy, planned_joints=("no_joint",))


@pytest.fixture
def viewer_of_scaling_panel(open_viewer):
    robots = [ViewedRobot.of(FRANKA, name, followers=(IK, PLANNER)) for name in ("a", "b")]
    viewer = open_viewer(*robots, stops=True)
    viewer.on_plan, viewer.on_target = Record(), Record()
    return viewer


def test_one_pair_applies_to_the_plans_and_targets_of_all_robots(viewer_of_scaling_panel):
    as_page(viewer_of_scaling_panel, viewer_of_scaling_panel._scaling.velocity, value=30.0)
    as_page(viewer_of_scaling_panel, viewer_of_scaling_panel._scaling.acceleration, value=45.0)
    assert viewer_of_scaling_panel.scaling == MotionScaling(0.3, 0.45)
    for name in ("a", "b"):
        live = viewer_of_scaling_panel._robots[name]
        as_page(viewer_of_scaling_panel, live.planning.goals.verbs, value="Execute")
        as_page(viewer_of_scaling_panel, live.target.follower, value=PLANNER)
        as_page(viewer_of_scaling_panel, live.target.plan, value="Plan")
    record = viewer_of_scaling_panel.on_plan
    record.wait_for(lambda calls: len(calls) == 4)
    for kind, verb in (("state", "execute"), ("target", "plan")):
        commands = {
            name: command
            for name, command in record.calls
            if (command.X_BT is None) == (kind == "state")
        }
        assert set(commands) == {"a", "b"}
        for command in commands.values():
            assert command.verb == verb
            assert command.scaling == MotionScaling(0.3, 0.45)


@pytest.mark.parametrize("typed", [0.0, -5.0, 1e9, math.nan, math.inf, "", "fast", None, True])
def test_whatever_is_typed_the_factors_are_in_range(viewer_of_scaling_panel, typed):
    """A page sends each state of a field that is being typed."""
    viewer_of_scaling_panel._scaling.velocity.value = 50.0
    viewer_of_scaling_panel._scaling.velocity._impl.value = typed
    scaling = viewer_of_scaling_panel.scaling
    for factor in (scaling.velocity, scaling.acceleration):
        assert MIN_PERCENT / 100.0 <= factor <= 1.0
        assert np.isfinite(factor)
    assert scaling.acceleration == 1.0


@pytest.mark.parametrize(("typed", "kept"), [(1000.0, 100.0), (0.0, MIN_PERCENT), (42.0, 42.0)])
def test_all_pages_show_the_number_that_holds_once_it_is_typed(
    viewer_of_scaling_panel, monkeypatch, typed, kept
):
    viewer = viewer_of_scaling_panel
    monkeypatch.setattr(panel_style, "TYPING_PAUSE", 0.05)
    live = viewer._robots["a"]
    for field in (viewer._scaling.velocity, viewer._scaling.acceleration):
        as_page(viewer, field, value=typed)
        assert field.value == typed, "while it is being typed"
        wait_until(lambda field=field: field.value == kept, "bounded")
    as_page(viewer, live.planning.goals.attempts, value=1000)
    wait_until(lambda: live.planning.goals.attempts.value == 100, "bounded")


def test_they_are_above_all_robots(viewer_of_scaling_panel):
    panel = viewer_of_scaling_panel._scaling
    folder = viewer_of_scaling_panel._server.gui._container_handle_from_uuid[
        viewer_of_scaling_panel._robots["a"]._status._impl.parent_container_id
    ]
    for field in (panel.velocity, panel.acceleration):
        assert field._impl.parent_container_id == folder._impl.parent_container_id
        assert viewer_of_scaling_panel._stop.resume.order < field.order < folder.order


def test_a_page_without_a_planner_has_none(open_viewer, toy):
    viewer = open_viewer(ViewedRobot(toy), ViewedRobot.of(FRANKA, followers=(IK,)))
    assert viewer._scaling is None
    assert viewer.scaling == MotionScaling()
    assert viewer.scaling.full


X = from_xyz_rpy((0.4, -0.1, 0.3), (0.3, -0.5, 1.1))
STEP = (0.02, 5.0)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_steps_are_along_and_about_the_axes(direction):
    axis = np.eye(3)["XYZ".index(direction[1])] * (1.0 if direction[0] == "+" else -1.0)
    along = jogged(X, direction, STEP, BASE, turn=False)
    np.testing.assert_allclose(along[:3, 3] - X[:3, 3], 0.02 * axis, atol=1e-12)
    np.testing.assert_allclose(along[:3, :3], X[:3, :3], atol=1e-12)
    about = jogged(X, direction, STEP, BASE, turn=True)
    np.testing.assert_allclose(about[:3, 3], X[:3, 3], atol=1e-12)
    change = np.eye(4)
    change[:3, :3] = about[:3, :3] @ X[:3, :3].T
    np.testing.assert_allclose(to_rpy(change), np.deg2rad(5.0) * axis, atol=1e-12)
    for turn in (False, True):
        own = inverse(X) @ jogged(X, direction, STEP, TOOL, turn=turn)
        wanted = (np.zeros(3), np.deg2rad(5.0) * axis) if turn else (0.02 * axis, np.zeros(3))
        np.testing.assert_allclose(own[:3, 3], wanted[0], atol=1e-12)
        np.testing.assert_allclose(to_rpy(own), wanted[1], atol=1e-12)


def test_opposite_steps_return():
    for frame in (BASE, TOOL):
        for turn in (False, True):
            there = jogged(X, "+Y", STEP, frame, turn=turn)
            np.testing.assert_allclose(jogged(there, "-Y", STEP, frame, turn=turn), X, atol=1e-12)
