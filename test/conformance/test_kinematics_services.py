# SPDX-License-Identifier: Apache-2.0
"""Behaviors of MoveIt's kinematics and state validity services."""

from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from joint_client import ARM, FRANKA, HOME
from moveit_msgs.msg import (
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    PositionIKRequest,
    RobotState,
    VisibilityConstraint,
)
from moveit_msgs.srv import GetPositionFK, GetPositionIK, GetStateValidity
from planner_client import at, pose_constraints, state

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.ros.messages.moveit_messages import pose_message

Codes = MoveItErrorCodes
TIP = FRANKA.group("arm").tip
KINEMATICS = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
HERE = KINEMATICS.pose(FRANKA.home, TIP)
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ros(module_suite, module_client):
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("ik_service", robot="franka", use_sim_time=True)
    client = module_client
    client.wait(lambda: client.state("/ik_service") == "active", "the service")
    client.wait(
        lambda: forward(client, TIP).error_code.val == Codes.SUCCESS, "the state of the robot"
    )
    return client


def target(X: Any = HERE, frame: str = FRANKA.base_frame) -> PoseStamped:
    made = PoseStamped(pose=pose_message(X))
    made.header.frame_id = frame
    return made


def inverse(ros: Any, **fields: Any) -> Any:
    fields = {"group_name": "arm", "robot_state": state(HOME), "pose_stamped": target(), **fields}
    request = GetPositionIK.Request(ik_request=PositionIKRequest(**fields))
    return ros.call(GetPositionIK, "/compute_ik", request)


def forward(ros: Any, *links: str, frame: str = "", given: RobotState | None = None) -> Any:
    request = GetPositionFK.Request(fk_link_names=list(links), robot_state=given or state(HOME))
    request.header.frame_id = frame
    return ros.call(GetPositionFK, "/compute_fk", request)


def valid(ros: Any, given: RobotState | None = None, **fields: Any) -> Any:
    request = GetStateValidity.Request(
        robot_state=given or state(HOME), **{"group_name": "arm", **fields}
    )
    return ros.call(GetStateValidity, "/check_state_validity", request)


def pose_of(answer: Any) -> np.ndarray:
    joints = dict(zip(answer.solution.joint_state.name, answer.solution.joint_state.position,
                      strict=True))  # fmt: skip
    return KINEMATICS.pose([joints[name] for name in FRANKA.joint_names], TIP)


def up(z: float) -> np.ndarray:
    X = HERE.copy()
    X[2, 3] += z
    return X


def test_inverse_kinematics(ros):
    X = up(0.05)
    for fields in (
        {"pose_stamped": target(X)},
        {"pose_stamped": target(X), "ik_link_name": TIP},
        {"pose_stamped_vector": [target(X)], "ik_link_names": [TIP]},
    ):
        answer = inverse(ros, **fields)
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        assert pose_of(answer) == pytest.approx(X, abs=1e-3)
        assert set(answer.solution.joint_state.name) >= set(FRANKA.joint_names)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"pose_stamped": target(up(3.0))}, Codes.NO_IK_SOLUTION),
        ({"group_name": "foot"}, Codes.INVALID_GROUP_NAME),
        ({"pose_stamped": target(frame="nowhere")}, Codes.FRAME_TRANSFORM_FAILURE),
        (
            {"pose_stamped_vector": [target(), target()], "ik_link_names": [TIP]},
            Codes.INVALID_LINK_NAME,
        ),
    ],
)
def test_refused_inverse_kinematics(ros, fields, code):
    assert inverse(ros, **fields).error_code.val == code


def test_constraints_of_solutions(ros):
    X = up(0.05)
    bent = JointConstraint(
        joint_name="panda_joint7", position=HOME["panda_joint7"], tolerance_above=0.3,
        tolerance_below=0.3, weight=1.0,
    )  # fmt: skip
    for by in (0.0, 0.5, -0.5):
        bent.position = HOME["panda_joint7"] + by
        only = Constraints(joint_constraints=[bent])
        answer = inverse(ros, pose_stamped=target(X), constraints=only)
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        found = dict(zip(answer.solution.joint_state.name, answer.solution.joint_state.position,
                         strict=True))  # fmt: skip
        assert found["panda_joint7"] == pytest.approx(bent.position, abs=0.3 + 1e-6)
        assert pose_of(answer) == pytest.approx(X, abs=1e-3)
    here = pose_constraints(X[:3, 3], to_quat_xyzw(X), tolerance=0.02)
    answer = inverse(ros, pose_stamped=target(X), constraints=here)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    away = pose_constraints(X[:3, 3] + (0.3, 0.0, 0.0), to_quat_xyzw(X), tolerance=0.02)
    answer = inverse(ros, pose_stamped=target(X), constraints=away)
    assert answer.error_code.val == Codes.NO_IK_SOLUTION


def test_forward_kinematics(ros):
    answer = forward(ros, TIP, "panda_link4")
    assert answer.error_code.val == Codes.SUCCESS
    assert answer.fk_link_names == [TIP, "panda_link4"]
    p = answer.pose_stamped[0].pose.position
    assert (p.x, p.y, p.z) == pytest.approx(HERE[:3, 3], abs=1e-6)
    assert answer.pose_stamped[0].header.frame_id == FRANKA.base_frame
    answer = forward(ros, TIP, frame=TIP)
    p = answer.pose_stamped[0].pose.position
    assert (p.x, p.y, p.z) == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)


@pytest.mark.parametrize("links", [(), ("panda_link99",), (TIP, "panda_link99")])
def test_refused_forward_kinematics(ros, links):
    answer = forward(ros, *links)
    assert answer.error_code.val == Codes.INVALID_LINK_NAME
    assert not answer.pose_stamped


def test_forward_kinematics_of_some_unknown_links(ros):
    known = forward(ros, TIP, "panda_link4").pose_stamped
    assert ros.set_parameters("/ik_service", peer_defaults=True).successful
    answer = forward(ros, TIP, "panda_link99", "panda_link4")
    assert answer.error_code.val == Codes.INVALID_LINK_NAME
    assert list(answer.fk_link_names) == [TIP, "panda_link4"]
    assert [p.pose for p in answer.pose_stamped] == [p.pose for p in known]
    assert ros.set_parameters("/ik_service", peer_defaults=False).successful
    assert not forward(ros, TIP, "panda_link99").pose_stamped


def test_forward_kinematics_in_an_unknown_frame(ros):
    assert forward(ros, TIP, frame="nowhere").error_code.val == Codes.FRAME_TRANSFORM_FAILURE


def test_incomplete_states(ros):
    moved = forward(ros, TIP, given=state({"panda_joint1": HOME["panda_joint1"] + 0.3}))
    p = moved.pose_stamped[0].pose.position
    assert np.hypot(p.x, p.y) == pytest.approx(np.hypot(*HERE[:2, 3]), abs=1e-3)
    assert abs(p.y - HERE[1, 3]) > 0.08


def test_validity_of_states(ros):
    answer = valid(ros)
    assert answer.valid
    assert not answer.contacts
    folded = {**HOME, "panda_joint2": 1.7, "panda_joint4": -3.0, "panda_joint6": 0.1}
    answer = valid(ros, state(folded))
    assert not answer.valid
    assert answer.contacts


def test_constraints_of_states(ros):
    here = pose_constraints(HERE[:3, 3], to_quat_xyzw(HERE), tolerance=0.02)
    here.joint_constraints = at({name: HOME[name] for name in ARM}).joint_constraints
    answer = valid(ros, constraints=here)
    assert answer.valid
    assert [r.result for r in answer.constraint_result] == [True] * 9
    bent = at({name: HOME[name] for name in ARM})
    bent.joint_constraints[3].position += 0.2
    answer = valid(ros, constraints=bent)
    assert not answer.valid
    assert [r.result for r in answer.constraint_result] == [k != 3 for k in range(7)]
    away = pose_constraints(HERE[:3, 3] + (0.0, 0.1, 0.0), to_quat_xyzw(HERE), tolerance=0.02)
    answer = valid(ros, constraints=away)
    assert not answer.valid
    assert [r.result for r in answer.constraint_result] == [False, True]
    assert answer.constraint_result[0].distance == pytest.approx(0.08, abs=0.011)
    turned = HERE.copy()
    turned[:3, :3] = HERE[:3, :3] @ [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    tilted = pose_constraints(HERE[:3, 3], to_quat_xyzw(turned), tolerance=0.02)
    answer = valid(ros, constraints=tilted)
    assert [r.result for r in answer.constraint_result] == [True, False]
    assert not answer.valid


def test_lines_of_sight(ros):
    sight = VisibilityConstraint(target_radius=0.1, cone_sides=4, max_range_angle=0.5)
    sight.sensor_pose.header.frame_id = TIP
    sight.sensor_pose.pose.orientation.w = 1.0
    sight.target_pose.header.frame_id = TIP
    sight.target_pose.pose.orientation.w = 1.0
    for z, seen in ((0.5, True), (-0.5, False)):
        sight.target_pose.pose.position.z = z
        answer = valid(ros, constraints=Constraints(visibility_constraints=[sight]))
        assert [r.result for r in answer.constraint_result] == [seen]
        assert answer.valid == seen
