# SPDX-License-Identifier: Apache-2.0
"""Behaviors of move_group's capabilities, over its actions and services."""

import itertools
from typing import Any

import numpy as np
import pytest
import scene_requests as requests
from action_msgs.msg import GoalStatus
from joint_client import ARM, FRANKA, HOME, SUCCEEDED, smooth
from moveit_msgs.msg import Constraints, MoveItErrorCodes, OrientationConstraint, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene, GetCartesianPath, QueryPlannerInterfaces
from planner_client import Planner, at, end_of, planning_cell, pose_constraints, state
from std_msgs.msg import String

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HERE = KINEMATICS.pose(FRANKA.home, TIP)
AT_HOME = {name: HOME[name] for name in ARM}
CANCELED = GoalStatus.STATUS_CANCELED
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def planner(module_suite, module_client):
    yield from planning_cell(module_suite, module_client)


def home(planner: Planner) -> None:
    planner.arm.rest()
    assert planner.move(AT_HOME).result()[0] == SUCCEEDED
    planner.arm.rest()


def turned(by: float) -> dict[str, float]:
    return {**AT_HOME, "panda_joint1": HOME["panda_joint1"] + by}


def beside(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Constraints:
    return pose_constraints(HERE[:3, 3] + (x, y, z), to_quat_xyzw(HERE))


def test_goals_are_reached(planner):
    before = planner.arm.joints
    call = planner.move(turned(0.3))
    status, result = call.result()
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.arrives(turned(0.3))
    assert end_of(result.planned_trajectory) == pytest.approx(turned(0.3), abs=2e-3)
    start = result.trajectory_start.joint_state
    began = dict(zip(start.name, start.position, strict=True))
    assert [began[name] for name in ARM] == pytest.approx([before[n] for n in ARM], abs=5e-3)
    states = [entry.feedback.state for entry in call.feedback]
    assert [s for s in ("PLANNING", "MONITOR", "IDLE") if s in states] == states[:3]
    status, result = planner.move(beside(0.0, 0.1)).result()
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.rest()
    q = [planner.arm.joints[name] for name in FRANKA.joint_names]
    assert KINEMATICS.pose(q, TIP)[:3, 3] == pytest.approx(HERE[:3, 3] + (0, 0.1, 0), abs=5e-3)


def test_planning_alone(planner):
    home(planner)
    before = planner.arm.joints
    status, result = planner.move(turned(0.4), options={"plan_only": True}).result()
    assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS)
    start = {**HOME, "panda_joint1": HOME["panda_joint1"] + 0.2}
    answer = planner.plan(turned(0.4), start_state=state(start))
    first = answer.trajectory.joint_trajectory.points[0].positions
    names = answer.trajectory.joint_trajectory.joint_names
    assert dict(zip(names, first, strict=True))["panda_joint1"] == pytest.approx(
        start["panda_joint1"], abs=1e-3
    )
    assert planner.arm.away(before) < 1e-3


def test_cancellation(planner):
    home(planner)
    for plan_only in (False, True):
        call = planner.move(turned(0.8), options={"plan_only": plan_only})
        assert call.accepted()
        canceled = call.cancel()
        status, result = call.result()
        if canceled and status == CANCELED:
            assert result.error_code.val == Codes.PREEMPTED
        else:
            assert (plan_only, status) == (True, SUCCEEDED), "planned before the cancellation"
    planner.arm.rest()
    assert planner.move(turned(0.1)).result()[0] == SUCCEEDED


@pytest.mark.parametrize(
    ("goal", "fields", "code"),
    [
        ([], {}, None),
        (AT_HOME, {"group_name": "foot"}, Codes.INVALID_GROUP_NAME),
        (AT_HOME, {"pipeline_id": "no_such_pipeline"}, None),
        (beside(3.0), {"allowed_planning_time": 1.0}, None),
        (AT_HOME, {"start_state": state({**HOME, "panda_joint2": 9.0})}, None),
    ],
)
def test_refused_goals(planner, goal, fields, code):
    found, _ = planner.refused(goal, **fields)
    assert code in (None, found)


def test_replaced_values(planner):
    for planner_id in ("BiTRRT", "BiTRRTkConfigDefault", "TRRT"):
        answer = planner.plan(turned(0.2), planner_id=planner_id, start_state=state(HOME))
        assert answer.error_code.val == Codes.SUCCESS
        assert planner_id in answer.error_code.message
    answer = planner.plan(turned(0.2), num_planning_attempts=-1, start_state=state(HOME))
    assert answer.error_code.val == Codes.SUCCESS
    assert "num_planning_attempts" in answer.error_code.message


def test_planners_are_announced(planner):
    found = planner.client.call(QueryPlannerInterfaces, "/query_planner_interface")
    assert len(found.planner_interfaces) >= 2
    assert all(each.pipeline_id and each.planner_ids for each in found.planner_interfaces)


def test_path_constraints(planner):
    upright = OrientationConstraint(
        link_name=TIP,
        orientation=pose_message(HERE).orientation,
        absolute_x_axis_tolerance=0.1,
        absolute_y_axis_tolerance=0.1,
        absolute_z_axis_tolerance=6.28,
        weight=1.0,
    )
    upright.header.frame_id = FRANKA.base_frame
    answer = planner.plan(
        turned(0.8),
        start_state=state(HOME),
        path_constraints=Constraints(orientation_constraints=[upright]),
        allowed_planning_time=20.0,
    )
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    message = answer.trajectory.joint_trajectory
    Q = np.tile(FRANKA.home, (len(message.points), 1))
    Q[:, [FRANKA.joint_names.index(n) for n in message.joint_names]] = [
        point.positions for point in message.points
    ]
    tilt = KINEMATICS.pose_batch(Q, TIP)[:, :3, 2] @ HERE[:3, 2]
    assert tilt.min() > np.cos(0.15)


def test_objects_are_avoided(planner):
    def apply(*objects: Any) -> None:
        scene = PlanningScene(is_diff=True)
        scene.robot_state.is_diff = True
        scene.world.collision_objects = list(objects)
        request = ApplyPlanningScene.Request(scene=scene)
        assert planner.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success

    place = HERE[:3, 3] + (0.0, 0.2, 0.0)
    apply(requests.box("block", (0.15, 0.15, 0.15), tuple(place)))
    planner.refused(beside(0.0, 0.2), start_state=state(HOME), allowed_planning_time=2.0)
    apply(requests.removed("block"))
    answer = planner.plan(beside(0.0, 0.2), start_state=state(HOME))
    assert answer.error_code.val == Codes.SUCCESS
    # A ball where the tool is halfway: the direct motion passes through it.
    radius, goal = 0.04, turned(1.8)
    q = FRANKA.home.copy()
    q[FRANKA.joint_names.index("panda_joint1")] += 0.9
    place = KINEMATICS.pose(q, TIP)[:3, 3]
    direct = planner.plan(goal, start_state=state(HOME))
    assert nearest(direct.trajectory.joint_trajectory, place) < radius
    apply(requests.sphere("ball", radius, tuple(place)))
    answer = planner.plan(goal, start_state=state(HOME), allowed_planning_time=20.0)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert nearest(answer.trajectory.joint_trajectory, place) > radius
    assert end_of(answer.trajectory) == pytest.approx(goal, abs=2e-3)
    apply(requests.removed("ball"))


def nearest(message: Any, place: np.ndarray) -> float:
    """Return the least distance of the tool's origin from a place along a trajectory [m]."""
    points = np.array([point.positions for point in message.points])
    steps = np.linspace(0.0, 1.0, 20)[:, None]
    rows = np.concatenate([a + steps * (b - a) for a, b in itertools.pairwise(points)])
    Q = np.tile(FRANKA.home, (len(rows), 1))
    Q[:, [FRANKA.joint_names.index(n) for n in message.joint_names]] = rows
    return float(np.linalg.norm(KINEMATICS.pose_batch(Q, TIP)[:, :3, 3] - place, axis=1).min())


def test_cartesian_paths(planner):
    def path(*offsets: tuple[float, float, float]) -> Any:
        request = GetCartesianPath.Request(group_name="arm", start_state=state(HOME), max_step=0.01)
        request.header.frame_id = FRANKA.base_frame
        for offset in offsets:
            X = HERE.copy()
            X[:3, 3] += offset
            request.waypoints.append(pose_message(X))
        return planner.client.call(GetCartesianPath, "/compute_cartesian_path", request)

    whole = path((0.0, 0.1, 0.0), (0.0, 0.1, 0.1))
    assert whole.fraction == pytest.approx(1.0)
    followed = whole.solution.joint_trajectory
    for offset in ((0.0, 0.1, 0.0), (0.0, 0.1, 0.1)):
        assert nearest(followed, HERE[:3, 3] + offset) < 0.01
    assert nearest(followed, HERE[:3, 3] + (0.0, 0.05, 0.05)) > 0.045
    assert whole.error_code.val == Codes.SUCCESS
    part = path((0.0, 0.1, 0.0), (2.0, 0.1, 0.0))
    assert 0.0 < part.fraction < 0.9
    assert not path().solution.joint_trajectory.points


def test_executions(planner):
    home(planner)
    status, result = planner.execute(smooth(turned(0.2), 1.0)).result()
    assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS)
    planner.arm.rest()
    call = planner.execute(smooth(turned(-0.4), 4.0))
    assert call.accepted()
    planner.arm.moving()
    assert call.cancel()
    assert call.result()[1].error_code.val == Codes.PREEMPTED
    home(planner)
    call = planner.execute(smooth(turned(0.5), 4.0))
    assert call.accepted()
    planner.arm.moving()
    planner.client.publisher(String, "/trajectory_execution_event").publish(String(data="stop"))
    assert call.result()[1].error_code.val != Codes.SUCCESS
    home(planner)
    away = planner.plan(turned(0.1), start_state=state({**HOME, **turned(-0.8)}))
    status, result = planner.execute(away.trajectory.joint_trajectory).result()
    assert status != SUCCEEDED
    assert result.error_code.val != Codes.SUCCESS


def test_preemption_and_scaling(planner):
    home(planner)
    slow = planner.move(turned(1.0), max_velocity_scaling_factor=0.1)
    assert slow.accepted()
    planner.arm.moving()
    limits = FRANKA.group("arm").limits
    assert planner.arm.speed(ARM) < 0.15 * float(limits.velocity.max())
    status, _ = planner.move(turned(0.0)).result()
    assert status == SUCCEEDED
    assert slow.result()[0] != SUCCEEDED


def test_goals_without_tolerance(planner):
    answer = planner.plan(at(turned(0.2), tolerance=0.0), start_state=state(HOME))
    assert answer.error_code.val == Codes.SUCCESS
    assert end_of(answer.trajectory) == pytest.approx(turned(0.2), abs=1e-6)


def test_executed_plans_start_where_the_robot_is(planner):
    away = state({**HOME, "panda_joint1": HOME["panda_joint1"] + 0.5})
    status, result = planner.move(turned(0.1), start_state=away).result()
    assert status != SUCCEEDED
    assert result.error_code.val == Codes.START_STATE_INVALID


def test_removing_an_object_that_does_not_exist(planner):
    def removes(name: str) -> bool:
        message = ApplyPlanningScene.Request()
        message.scene.is_diff = message.scene.robot_state.is_diff = True
        message.scene.world.collision_objects = [requests.removed(name)]
        answer = planner.client.call(ApplyPlanningScene, "/apply_planning_scene", message)
        return bool(answer.success)

    node = "/move_group"
    assert removes("ghost")
    assert planner.client.set_parameters(node, peer_defaults=True).successful
    assert not removes("ghost")
    assert removes("")
    assert planner.client.set_parameters(node, peer_defaults=False).successful
    assert removes("ghost")
