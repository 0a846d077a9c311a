# SPDX-License-Identifier: Apache-2.0
"""plan_kinematic_path, move_action and execute_trajectory, called from another process."""

import math

import numpy as np
import pytest
from joint_client import ABORTED, ARM, FINGERS, FRANKA, HOME, SUCCEEDED, JointClient
from joint_client import trajectory as trajectory_of
from moveit_msgs.msg import Constraints, DisplayTrajectory, MoveItErrorCodes, OrientationConstraint
from moveit_msgs.srv import (
    GetCartesianPath,
    GetPlannerParams,
    QueryPlannerInterfaces,
    SetPlannerParams,
)
from planner_client import Planner, at, end_of, state
from ros_client import LATCHED

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
ASIDE = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.8, "panda_joint4": -1.9}
NEAR = {**{name: HOME[name] for name in ARM}, "panda_joint1": 0.3}
SLOW = 0.05
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def controller(module_suite):
    """The process of the joint controller."""
    return module_suite.node(
        "articulation_controller", robot="franka", use_sim_time=True, update_rate=100.0
    )


@pytest.fixture(scope="module")
def arm(module_suite, module_client, controller):
    """A robot without physics, its controller and the planner."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("rrt_planner", robot="franka", use_sim_time=True)
    made = JointClient(module_client)
    made.wait_for()
    yield made
    made.close()


@pytest.fixture
def planner(arm):
    made = Planner(arm)
    made.wait()
    status, result = made.move({name: HOME[name] for name in ARM}).result()
    assert status == SUCCEEDED, result.error_code.message
    # A result may precede the arrival of the drives.
    arm.rest()
    return made


# ---- plan_kinematic_path


def test_extra_joints_in_the_start_state_are_ignored(planner):
    start = state({**HOME, "panda_joint1": 0.5, "wheel_of_another_robot": 7.0})
    answer = planner.plan(ASIDE, start_state=start)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    first = answer.trajectory.joint_trajectory.points[0].positions
    assert first[ARM.index("panda_joint1")] == pytest.approx(0.5)


def test_a_gripper_plans_without_a_base_frame(planner):
    answer = planner.plan(dict.fromkeys(FINGERS, 0.01), group_name="gripper")
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    assert end_of(answer.trajectory) == pytest.approx(dict.fromkeys(FINGERS, 0.01), abs=1e-3)


def test_the_plan_is_shown_to_late_subscribers_too(planner):
    ends = [end_of(planner.plan(ASIDE).trajectory)]
    shown = planner.client.listen(DisplayTrajectory, "/display_planned_path", LATCHED)
    for number in range(2):
        planner.client.wait(
            lambda: shown and end_of(shown.newest.trajectory[0]) == ends[-1], f"plan {number}"
        )
        ends.append(end_of(planner.plan(NEAR).trajectory))
    assert shown.newest.model_id == "franka"


def test_other_bad_requests_are_refused_in_words(planner):
    code, text = planner.refused(ASIDE, group_name="leg")
    assert code == Codes.INVALID_GROUP_NAME
    assert "panda_arm" in text
    code, text = planner.refused(ASIDE, start_state=state({"panda_joint1": math.inf}))
    assert code == Codes.INVALID_ROBOT_STATE
    code, text = planner.refused(ASIDE, allowed_planning_time=-1.0)
    assert "allowed_planning_time" in text
    upright = OrientationConstraint(
        link_name="panda_hand",
        absolute_x_axis_tolerance=0.1,
        absolute_y_axis_tolerance=0.1,
        absolute_z_axis_tolerance=4.0,
    )
    code, text = planner.refused(
        ASIDE, path_constraints=Constraints(orientation_constraints=[upright])
    )
    assert code == Codes.START_STATE_VIOLATES_PATH_CONSTRAINTS
    assert "panda_hand" in text
    upright.absolute_x_axis_tolerance = upright.absolute_y_axis_tolerance = 4.0
    answer = planner.plan(ASIDE, path_constraints=Constraints(orientation_constraints=[upright]))
    assert answer.error_code.val == Codes.SUCCESS, "satisfied by every path"


# ---- compute_cartesian_path


def line(planner, *offsets: tuple[float, float, float], **fields: object):
    """Request lines to offsets from the tool [m]; return the tool's path (k, 3) and the answer."""
    X = KINEMATICS.pose(FRANKA.home, TIP)
    request = GetCartesianPath.Request(group_name="arm", max_step=0.01)
    request.start_state = state(HOME)
    for offset in offsets:
        pose = pose_message(X)
        pose.position.x += offset[0]
        pose.position.y += offset[1]
        pose.position.z += offset[2]
        request.waypoints.append(pose)
    for name, value in fields.items():
        setattr(request, name, value)
    answer = planner.client.call(GetCartesianPath, "/compute_cartesian_path", request)
    Q = np.tile(FRANKA.home, (len(answer.solution.joint_trajectory.points), 1))
    for row, point in zip(Q, answer.solution.joint_trajectory.points, strict=True):
        row[FRANKA.group("arm").indices] = point.positions
    way = KINEMATICS.pose_batch(Q, TIP)[:, :3, 3] - X[:3, 3] if len(Q) else np.empty((0, 3))
    return way, answer


def test_small_steps_of_a_line_are_bounded_and_negative_thresholds_are_none(planner):
    way, answer = line(planner, (0.0, 0.0, -0.05), max_step=1e-6)
    assert answer.error_code.val == Codes.SUCCESS
    assert "max_step is 1e-06 m; 0.0001 m is used" in answer.error_code.message
    assert answer.fraction == 1.0
    assert way[-1] == pytest.approx([0.0, 0.0, -0.05], abs=1e-4)
    names = ("jump_threshold", "revolute_jump_threshold", "prismatic_jump_threshold")
    _, answer = line(planner, (0.0, 0.0, -0.05), **dict.fromkeys(names, -1.0))
    assert (answer.error_code.val, answer.fraction) == (Codes.SUCCESS, 1.0)
    _, answer = line(planner, (0.0, 0.0, -0.05), jump_threshold=float("nan"))
    assert answer.error_code.val != Codes.SUCCESS


def test_bad_lines_are_refused(planner):
    for fields, word in (
        ({"max_step": 0.0}, "max_step"),
        ({"link_name": "elbow"}, "elbow"),
        ({"max_cartesian_speed": -1.0}, "max_cartesian_speed"),
        ({"start_state": state({**HOME, "panda_joint1": 9.0})}, "panda_joint1"),
        ({"waypoints": []}, "no waypoints"),
    ):
        way, answer = line(planner, (0.0, 0.0, -0.1), **fields)
        assert answer.error_code.val != Codes.SUCCESS, word
        assert word in answer.error_code.message
        assert not len(way)
        assert answer.fraction == 0.0


def test_the_speed_of_the_tool_is_kept_by_plans_too(planner):
    free, slow = planner.plan(ASIDE), planner.plan(ASIDE, max_cartesian_speed=0.02)
    assert slow.error_code.val == Codes.SUCCESS, slow.error_code.message
    ends = [a.trajectory.joint_trajectory.points[-1].time_from_start.sec for a in (free, slow)]
    assert ends[1] > 5.0 > ends[0]


# ---- planners and their settings


def test_planners_are_listed_and_set_by_words(planner):
    client = planner.client
    interface = client.call(QueryPlannerInterfaces, "/query_planner_interface").planner_interfaces
    assert interface[0].pipeline_id == "motion_nodes"
    assert interface[1].pipeline_id == "pilz_industrial_motion_planner"
    assert interface[1].planner_ids == ["PTP", "LIN", "CIRC"]
    assert {"RRTConnect", "RRT", "RRTstar"} <= set(interface[0].planner_ids)

    def words(config: str, group: str = "") -> dict[str, str]:
        request = GetPlannerParams.Request(planner_config=config, group=group)
        params = client.call(GetPlannerParams, "/get_planner_params", request).params
        assert len(params.keys) == len(params.values) == len(params.descriptions)
        return dict(zip(params.keys, params.values, strict=True))

    def change(config: str, group: str, replace: bool = False, **values: str) -> None:
        request = SetPlannerParams.Request(planner_config=config, group=group, replace=replace)
        request.params.keys, request.params.values = list(values), list(values.values())
        client.call(SetPlannerParams, "/set_planner_params", request)

    before = words("RRT")
    assert "step_size" in before
    change("RRT", "panda_arm", step_size="0.125")
    assert words("RRT", "arm")["step_size"] == "0.125"
    assert words("RRT") == before
    change("RRT", "arm", step_size="wide", max_iterations="5")
    assert words("RRT", "arm") == before | {"step_size": "0.125"}
    change("RRT", "arm", max_iterations="1")
    code, text = planner.refused([at(ASIDE | {"panda_joint1": 2.8})] * 2, planner_id="RRT",
                                 start_state=state({**HOME, "panda_joint1": -2.8}))  # fmt: skip
    assert code == Codes.PLANNING_FAILED, text
    change("RRT", "arm", replace=True)
    assert words("RRT", "arm") == before
    assert words("NoSuchPlanner") == {}


# ---- move_action


# ---- execute_trajectory


def test_a_single_point_where_the_robot_is(planner):
    joints = planner.arm.joints
    message = trajectory_of(ARM, [[joints[name] for name in ARM]], [0.0])
    status, result = planner.execute(message).result()
    assert (status, result.error_code.val) == (SUCCEEDED, Codes.SUCCESS), result.error_code.message


def test_trajectories_that_cannot_be_carried_out(planner):
    before = planner.arm.joints
    elsewhere = trajectory_of(["panda_joint1"], [[1.0], [1.1]], [0.0, 1.0])
    status, result = planner.execute(elsewhere).result()
    assert (status, result.error_code.val) == (ABORTED, Codes.CONTROL_FAILED)
    assert "panda_joint1" in result.error_code.message
    unknown = trajectory_of(["hip"], [[1.0]], [0.0])
    status, result = planner.execute(unknown).result()
    assert (status, result.error_code.val) == (ABORTED, Codes.INVALID_MOTION_PLAN)
    assert "hip" in result.error_code.message
    status, result = planner.execute(trajectory_of([], [], [])).result()
    assert (status, result.error_code.val) == (ABORTED, Codes.INVALID_MOTION_PLAN)
    leap = trajectory_of(["panda_joint1"], [[0.5]], [0.001])
    status, result = planner.execute(leap).result()
    assert (status, result.error_code.val) == (ABORTED, Codes.CONTROL_FAILED)
    assert "panda_joint1" in result.error_code.message, "the controller's reason"
    named = planner.execute(elsewhere, controller_names=["arm_controller"])
    status, result = named.result()
    assert result.error_code.val == Codes.CONTROL_FAILED
    assert "joint_trajectory_controller" in result.error_code.message
    planner.arm.rest()
    assert planner.arm.away(before) < 1e-3


# ---- life


@pytest.mark.long
def test_every_request_is_answered_when_the_node_goes(planner):
    client = planner.client
    call = planner.move(ASIDE, max_velocity_scaling_factor=SLOW)
    assert call.accepted()
    planner.arm.moving(0.02)
    assert client.change_state("/move_group", "deactivate")
    status, result = call.result()
    assert (status, result.error_code.val) == (ABORTED, Codes.PREEMPTED)
    planner.arm.rest()
    assert not planner.move(ASIDE).accepted()
    code, text = planner.refused(ASIDE)
    assert code == Codes.FAILURE
    assert "inactive" in text
    assert client.change_state("/move_group", "cleanup")
    assert client.change_state("/move_group", "configure")
    assert client.change_state("/move_group", "activate")
    status, result = planner.move(NEAR).result()
    assert status == SUCCEEDED, result.error_code.message


@pytest.mark.long
def test_a_motion_waits_while_time_stands(planner):
    client = planner.client
    call = planner.move(ASIDE, max_velocity_scaling_factor=0.2)
    assert call.accepted()
    planner.arm.moving(0.02)
    planner.arm.pause("/mock_sim", True)
    try:
        client.spin(4.0)
        assert not call.done
    finally:
        planner.arm.pause("/mock_sim", False)
    status, result = call.result(within=30.0)
    assert status == SUCCEEDED, result.error_code.message
    planner.arm.rest()
    planner.arm.arrives(ASIDE)


@pytest.mark.long
def test_a_controller_that_dies_on_the_way_is_told(planner, controller):
    """The last test of the file: it kills the controller."""
    call = planner.move(ASIDE, max_velocity_scaling_factor=SLOW)
    assert call.accepted()
    planner.arm.moving(0.02)
    controller.kill()
    status, result = call.result(within=20.0)
    assert (status, result.error_code.val) == (ABORTED, Codes.CONTROL_FAILED)
    assert "follow_joint_trajectory" in result.error_code.message
    status, result = planner.move(ASIDE).result(within=20.0)
    assert (status, result.error_code.val) == (ABORTED, Codes.CONTROL_FAILED)
