# SPDX-License-Identifier: Apache-2.0
"""The viewer node follows plans and scenes of robots in namespaces, and ignores invalid ones."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import Point, PoseStamped
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    CollisionObject,
    DisplayTrajectory,
    MoveItErrorCodes,
    PlanningScene,
    RobotTrajectory,
)
from nodes.viewer_cell import FRANKA, NAMES, box, objects, tell, viewer_cell
from raised_errors import about
from rclpy.action import ActionServer
from ros_client import LATCHED, RELIABLE
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from visualization_msgs.msg import Marker, MarkerArray

from motion_nodes.core.robot.poses import from_xyz_quat, from_xyz_rpy
from motion_nodes.core.robot.tree import Sphere
from motion_nodes.core.scene.scene import world_object
from motion_nodes.errors import InvalidCommand
from motion_nodes.extras.viewer.ui_commands import MotionScaling, PlanCommand, TargetCommand
from motion_nodes.extras.viewer.viewed_robot import IK, PLANNER, RMPFLOW
from motion_nodes.nodes.viewer.viewer_planning import displayed_path

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def displayed(
    rows: dict[float, list[float]], names: list[str], start: dict[str, float] | None = None
) -> DisplayTrajectory:
    """Return a plan from positions [rad] by time [s]."""
    trajectory = RobotTrajectory()
    trajectory.joint_trajectory.joint_names = names
    for when, row in rows.items():
        point = JointTrajectoryPoint(positions=row)
        point.time_from_start.sec = int(when)
        point.time_from_start.nanosec = round((when - int(when)) * 1e9)
        trajectory.joint_trajectory.points.append(point)
    message = DisplayTrajectory(model_id="franka", trajectory=[trajectory])
    start = start or {}
    message.trajectory_start.joint_state.name = list(start)
    message.trajectory_start.joint_state.position = list(start.values())
    return message


class TestConversion:
    def test_joints_that_are_not_named_stay(self):
        message = displayed({0.0: [0.1], 1.5: [0.5]}, [NAMES[1]], {NAMES[0]: 0.7, "other": 1.0})
        times, rows = displayed_path(message, NAMES, FRANKA.home)
        assert times == pytest.approx([0.0, 0.0, 1.5])
        assert rows[:, 0] == pytest.approx([0.7] * 3)
        assert rows[:, 1] == pytest.approx([FRANKA.home[1], 0.1, 0.5])
        assert rows[:, 2:] == pytest.approx(np.tile(FRANKA.home[2:], (3, 1)))

    def test_several_trajectories_follow_each_other(self):
        message = displayed({1.0: [0.1]}, [NAMES[0]])
        message.trajectory += displayed({0.5: [0.2], 2.0: [0.3]}, ["other"]).trajectory
        message.trajectory += displayed({1.0: [0.4]}, [NAMES[0]]).trajectory
        times, rows = displayed_path(message, NAMES, FRANKA.home)
        assert times == pytest.approx([0.0, 1.0, 1.5, 3.0, 4.0])
        assert rows[:, 0] == pytest.approx([FRANKA.home[0], 0.1, 0.1, 0.1, 0.4])

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (DisplayTrajectory(), "points"),
            (displayed({1.0: [0.1, 0.2]}, [NAMES[0]]), "positions"),
            (displayed({1.0: [math.nan]}, [NAMES[0]]), "positions"),
        ],
    )
    def test_bad_messages(self, message, text):
        with pytest.raises(InvalidCommand, check=about(text)):
            displayed_path(message, NAMES, FRANKA.home)


@pytest.fixture(scope="module")
def cell(ros, module_client):
    """A viewer of an arm, and an owner of its scene."""
    with viewer_cell(module_client) as opened:
        yield opened


def test_the_whole_scene_first_then_what_changes(cell):
    """The whole scene comes from the service, as for late subscribers."""
    follower = cell.node._watched["left"].planning.follower
    cell.client.wait(lambda: follower.synchronised, "the whole scene")
    # After the first numbered message the scene is requested again, which is empty here.
    requested_at = follower._requested_at
    tell(cell)
    cell.client.wait(
        lambda: follower._requested_at > requested_at and follower.synchronised, "it once more"
    )
    tell(cell, box("table", 0.6), box("cup", 0.5))
    cell.client.wait(lambda: set(objects(cell)) == {"table", "cup"}, "two objects drawn")
    assert objects(cell)["table"].position[0] == pytest.approx(0.6)
    tell(cell, box("cup", 0.3, CollisionObject.MOVE))
    cell.client.wait(lambda: abs(objects(cell)["cup"].position[0] - 0.3) < 1e-9, "the cup moved")
    tell(cell, box("table", math.nan), box("cup", 0.0, CollisionObject.REMOVE))
    cell.client.wait(lambda: set(objects(cell)) == {"table"}, "the cup gone")
    assert objects(cell)["table"].position[0] == pytest.approx(0.6), "NaN is ignored"


def test_commanded_positions_in_collision_are_reported_once(cell, monkeypatch):
    notes = []
    monkeypatch.setattr(cell.page, "notify", lambda _, text: notes.append(text))
    states = cell.client.publisher(JointState, "/left/joint_states", RELIABLE)
    state = JointState(name=NAMES, position=FRANKA.home.tolist())

    def command(value):
        states.publish(state)
        cell.page.on_joint_target("left", NAMES[0], value)
        return any(q[NAMES[0]] == value for q in cell.checked)

    for value in (0.5, 1.5, 1.6, 0.6, 1.7):
        cell.client.wait(lambda v=value: command(v), f"{value} is checked")
    cell.client.wait(lambda: len(notes) == 2, "two notifications")
    assert all("panda_hand and table are in collision" in note for note in notes)
    others = [cell.checked[-1][name] for name in NAMES[1:]]
    assert others == pytest.approx(FRANKA.home[1:], abs=1e-3)


def test_a_plan_is_passed_by_the_ghost(cell):
    path = cell.page._robots["left"].planning.path
    cell.plans.publish(displayed({0.0: [0.0], 1.0: [0.8]}, [NAMES[0]]))
    cell.client.wait(lambda: path.playing, "the plan")
    path.playback.play.value = False
    path.playback.scrub.value = 100.0
    cell.page.flush()
    assert path.ghost.q[0] == pytest.approx(0.8)
    assert path.ghost.q[1:] == pytest.approx(FRANKA.home[1:])
    cell.plans.publish(displayed({0.0: [math.nan]}, [NAMES[0]]))
    cell.client.wait_for_diagnosis("/browser_viewer", "")
    cell.plans.publish(displayed({0.0: [0.0], 1.0: [-0.4]}, [NAMES[0]]))

    def newest() -> bool:
        cell.page.flush()
        return bool(abs(path.ghost.q[0] + 0.4) < 1e-9)

    cell.client.wait(newest, "the plan after the bad one")
    assert cell.page._robots["jetbot"].planning is None


def follower_answers(cell: SimpleNamespace, accept: bool) -> list[Any]:
    """Serve /left/move_action as a planner does; return the list of received goals."""
    goals: list[Any] = []

    def carry_out(handle: Any) -> Any:
        goals.append(handle.request)
        result = MoveGroup.Result()
        result.error_code.val = MoveItErrorCodes.SUCCESS if accept else MoveItErrorCodes.FAILURE
        result.error_code.message = "" if accept else "the goal touches the table"
        handle.succeed() if accept else handle.abort()
        return result

    cell.server = ActionServer(cell.client.node, MoveGroup, "/left/move_action", carry_out)
    return goals


def words(cell: SimpleNamespace, follower: str) -> str:
    return cell.page._robots["left"].target._texts.get(follower, "")


X_TARGET = from_xyz_rpy((0.4, 0.1, 0.5), (np.pi, 0.0, 0.3))


def test_a_dragged_target_goes_to_who_follows_it(cell):
    """Without a subscriber, the page reports that."""
    for follower, topic in ((RMPFLOW, "rmpflow_policy/reference"), (IK, "ik_service/target_pose")):
        wish = TargetCommand(X_TARGET, follower)
        if follower == IK:
            cell.page.on_target("left", wish)
            cell.client.wait(lambda: "is ik_service running?" in words(cell, IK), "the page's text")
        heard = cell.client.listen(PoseStamped, f"/left/{topic}")
        message = cell.client.repeat(
            lambda wish=wish: cell.page.on_target("left", wish),
            lambda heard=heard: heard.newest,
            f"a target on {topic}",
        )
        assert message.header.frame_id == "panda_link0"
        p, q = message.pose.position, message.pose.orientation
        sent = from_xyz_quat((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))
        np.testing.assert_allclose(sent, X_TARGET, atol=1e-12)
        assert not words(cell, follower)


def test_a_target_of_others_is_shown_in_any_frame(cell):
    gizmo = cell.page._robots["left"].target
    target = cell.client.publisher(PoseStamped, "/left/rmpflow_policy/reference")

    def tell(frame: str, x: float) -> None:
        message = PoseStamped()
        message.header.frame_id = frame
        message.pose.position.x, message.pose.orientation.w = x, 1.0
        target.publish(message)

    def shown() -> Any:
        cell.page.flush()
        return gizmo.handles.pose[:3, 3]

    tell("panda_link0", 0.45)
    cell.client.wait(lambda: np.allclose(shown(), (0.45, 0.0, 0.0)), "the target")
    # Link 1 is 0.333 m above the base.
    tell("panda_link1", 0.25)
    cell.client.wait(lambda: np.allclose(shown(), (0.25, 0.0, 0.333)), "the target above")
    tell("panda_link0", math.nan)
    tell("no_such_frame", 0.1)
    cell.client.spin(0.3)
    np.testing.assert_allclose(shown(), (0.25, 0.0, 0.333))


def test_the_planner_is_asked_and_its_words_are_shown(cell):
    cell.page.on_plan("left", PlanCommand("go", X_BT=X_TARGET))
    cell.client.wait(lambda: "is the planner running?" in words(cell, PLANNER), "the note")
    for accept, said in (
        (False, "the goal touches the table"),
        (True, "executed; planned in 0.00 s"),
    ):
        goals = follower_answers(cell, accept)
        verb = "go" if accept else "plan"
        cell.client.wait(cell.node._watched["left"].target._planner._client.server_is_ready, "it")
        command = PlanCommand(verb, X_BT=X_TARGET, scaling=MotionScaling(0.3, 0.4))
        cell.page.on_plan("left", command)
        cell.client.wait(lambda said=said: words(cell, PLANNER) == said, f"the text '{said}'")
        goal = goals[0]
        assert goal.request.group_name == "arm"
        assert goal.planning_options.plan_only is (verb == "plan")
        assert goal.request.max_velocity_scaling_factor == pytest.approx(0.3)
        assert goal.request.max_acceleration_scaling_factor == pytest.approx(0.4)
        place = goal.request.goal_constraints[0].position_constraints[0]
        assert (place.link_name, place.header.frame_id) == ("panda_hand_tcp", "panda_link0")
        point = place.constraint_region.primitive_poses[0].position
        assert (point.x, point.y, point.z) == pytest.approx(X_TARGET[:3, 3])
        cell.server.destroy()


@pytest.mark.parametrize("follower", [RMPFLOW, PLANNER, None])
def test_a_stop_ends_what_moves_whichever_controller_is_selected(cell, follower):
    watched, calls = cell.node._watched["left"].target, []

    def clear(_: Any, response: Any) -> Any:
        calls.append("clear")
        return response

    service = cell.client.node.create_service(Trigger, "/left/rmpflow_policy/clear_target", clear)
    goals = follower_answers(cell, True)
    cell.client.wait(watched._planner._client.server_is_ready, "the planner")
    cell.client.wait(watched._clear.service_is_ready, "the policy")
    before = watched._planner._canceled
    cell.page.on_plan("left", PlanCommand("go", X_BT=X_TARGET))
    cell.client.wait(lambda: goals, "the goal")
    if follower is None:
        cell.page.on_plan("left", PlanCommand("stop"))
    else:
        cell.page.on_target("left", TargetCommand(X_TARGET, follower, "stop"))
    cell.client.wait(lambda: calls and watched._planner._canceled > before, "both are stopped")
    cell.client.node.destroy_service(service)
    cell.server.destroy()


def test_objects_of_the_page_become_changes_of_the_scene(cell):
    ball = world_object("ball", Sphere(0.1), from_xyz_rpy((0.5, 0.2, 0.3)))
    cell.page.on_object("left", "ball", ball)
    editor = cell.page._robots["left"].planning.editor
    cell.client.wait(lambda: "is its planner running?" in editor._text, "the note")
    heard = cell.client.listen(PlanningScene, "/left/planning_scene")
    cell.client.wait(
        lambda: cell.node._watched["left"].planning._changes.get_subscription_count(), "it"
    )
    cell.page.on_object("left", "ball", ball)
    message = cell.client.wait(lambda: heard.newest, "the new object")
    (added,) = message.world.collision_objects
    assert message.is_diff
    assert message.robot_state.is_diff
    assert (added.id, added.operation) == ("ball", CollisionObject.ADD)
    assert added.primitives[0].dimensions[0] == pytest.approx(0.1)
    assert not editor._text
    # Once its owner has published it, a drag only moves it.
    tell(cell, added)
    cell.client.wait(lambda: "ball" in objects(cell), "the ball drawn")
    known = cell.node._watched["left"].planning.follower.scene.objects["ball"]
    for item, operation in (
        (replace(known, X_WO=from_xyz_rpy((0.1, 0.2, 0.9))), CollisionObject.MOVE),
        (None, CollisionObject.REMOVE),
    ):
        heard.clear()
        cell.page.on_object("left", "ball", item)
        (change,) = cell.client.wait(lambda: heard.newest, "the change").world.collision_objects
        assert (change.id, change.operation) == ("ball", operation)
        if item is not None:
            assert change.pose.position.z == pytest.approx(0.9)
            assert not change.primitives


def test_a_trajectory_and_a_search_tree_are_shown(cell):
    planning = cell.page._robots["left"].planning
    trajectories = cell.client.publisher(JointTrajectory, "/left/trajectory_generator/trajectory")
    plan = displayed({0.0: [0.1], 2.5: [0.6]}, [NAMES[2]]).trajectory[0]
    trajectories.publish(plan.joint_trajectory)
    cell.client.wait(
        lambda: planning.path.playback.duration == pytest.approx(2.5), "the trajectory"
    )
    marker = Marker(type=Marker.LINE_LIST, action=Marker.ADD, ns="tree")
    marker.points = [Point(x=0.1 * k) for k in range(4)]
    odd = Marker(type=Marker.LINE_LIST, action=Marker.ADD, points=[Point(x=math.nan), Point()])
    tree = cell.client.node.create_publisher(MarkerArray, "/left/move_group/markers", LATCHED)
    tree.publish(MarkerArray(markers=[marker]))
    cell.client.spin(0.2)
    assert not tree.get_subscription_count(), "no subscription while it is hidden"
    planning.show_tree.value = True
    cell.client.wait(tree.get_subscription_count, "a subscription")

    def drawn() -> int:
        cell.page.flush()
        return len(planning.tree.nodes)

    cell.client.wait(lambda: drawn() == 1, "the tree")
    assert planning.tree.nodes[0].points.shape == (2, 2, 3)
    tree.publish(MarkerArray(markers=[marker, odd]))
    cell.client.spin(0.3)
    assert drawn() == 1, "markers that are not finite are ignored"
    planning.show_tree.value = False
    cell.client.wait(lambda: not tree.get_subscription_count(), "the end of the subscription")


def test_the_button_on_the_plan_tab_recovers(cell):
    planning = cell.page._robots["left"].planning

    def shown() -> str:
        planning.refresh_panel()
        return str(planning._recovery.content)

    cell.page.on_recover("left")
    cell.client.wait(lambda: "is the planner running" in shown(), "the note")
    calls = []

    def recover(_: Any, response: Any) -> Any:
        calls.append(1)
        response.success, response.message = True, "collision *free*"
        return response

    service = cell.client.node.create_service(Trigger, "/left/move_group/recover", recover)

    def recovered() -> bool:
        if not calls:
            cell.page.on_recover("left")
            cell.client.spin(0.2)
        return shown() == r"collision \*free\*"

    cell.client.wait(recovered, "the result")
    cell.client.node.destroy_service(service)


def test_the_health_of_nodes_is_shown(cell):
    status = DiagnosticStatus(level=DiagnosticStatus.ERROR, name="left/arm", message="too hot")
    out = cell.client.publisher(DiagnosticArray, "/diagnostics")
    # The first subscriber may be this test's own client.
    cell.client.repeat(
        lambda: out.publish(DiagnosticArray(status=[status])),
        lambda: "1 ERROR" in cell.page._health.summary(),
        "the error",
    )


def test_configured_again_it_follows_again(cell):
    """The last test: it replaces the page."""
    for verb in ("deactivate", "cleanup", "configure", "activate"):
        assert cell.client.change_state("/browser_viewer", verb)
    cell.page = cell.node._viewer
    cell.client.wait(
        lambda: cell.node._watched["left"].planning.follower.synchronised, "the whole scene"
    )
    tell(cell, box("shelf", 0.4))
    cell.client.wait(lambda: "shelf" in objects(cell), "the shelf drawn")
