# SPDX-License-Identifier: Apache-2.0
"""compute_ik, compute_fk, check_state_validity and ~/target_pose, called from another process."""

import dataclasses
import math
from typing import Any

import numpy as np
import pinocchio
import pytest
from geometry_msgs.msg import PoseStamped, TransformStamped
from joint_client import ARM, FRANKA, HOME, JointClient
from moveit_msgs.msg import Constraints, JointConstraint, MoveItErrorCodes, RobotState
from moveit_msgs.srv import GetPositionFK, GetPositionIK, GetStateValidity
from ros_client import RosClient, values_of
from tf2_msgs.msg import TFMessage

from motion_nodes.core.robot.poses import from_xyz_rpy, inverse, to_quat_xyzw
from motion_nodes.ros import qos

Codes = MoveItErrorCodes
TIP = FRANKA.group("arm").tip
READY = dict(zip(ARM, FRANKA.named_state("ready", "arm").tolist(), strict=True))
REFERENCE = pinocchio.buildModelFromXML(FRANKA.urdf)


def frame_pose(joints: dict[str, float], frame: str) -> np.ndarray:
    """Pose of a link in the base, by pinocchio."""
    q = pinocchio.neutral(REFERENCE)
    for name, value in (HOME | joints).items():
        q[REFERENCE.joints[REFERENCE.getJointId(name)].idx_q] = value
    data = REFERENCE.createData()
    pinocchio.framesForwardKinematics(REFERENCE, data, q)
    return data.oMf[REFERENCE.getFrameId(frame)].homogeneous


def stamped(X: np.ndarray, frame: str = "") -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = frame
    p, r = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = X[:3, 3].tolist()
    r.x, r.y, r.z, r.w = to_quat_xyzw(X).tolist()
    return message


def state(joints: dict[str, float]) -> RobotState:
    message = RobotState()
    message.joint_state.name = list(joints)
    message.joint_state.position = list(joints.values())
    return message


def apart(X: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Distance [m] and angle [rad] between two poses."""
    turned = X[:3, :3].T @ Y[:3, :3]
    cosine = np.clip((np.trace(turned) - 1.0) / 2.0, -1.0, 1.0)
    return float(np.linalg.norm(X[:3, 3] - Y[:3, 3])), float(np.arccos(cosine))


@dataclasses.dataclass
class Kinematics:
    """The services as a client sees them."""

    client: RosClient

    def ik(self, target: PoseStamped, **fields: Any) -> Any:
        request = GetPositionIK.Request()
        request.ik_request.pose_stamped = target
        fields.setdefault("group_name", "arm")
        for name, value in fields.items():
            setattr(request.ik_request, name, value)
        return self.client.call(GetPositionIK, "/compute_ik", request)

    def solved(self, target: PoseStamped, **fields: Any) -> dict[str, float]:
        answer = self.ik(target, **fields)
        assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
        joints = answer.solution.joint_state
        return dict(zip(joints.name, joints.position, strict=True))

    def refused(self, target: PoseStamped, **fields: Any) -> tuple[int, str]:
        answer = self.ik(target, **fields)
        assert answer.error_code.val != Codes.SUCCESS
        assert not answer.solution.joint_state.name, "no solution must look like one"
        return answer.error_code.val, answer.error_code.message

    def fk(self, links: list[str], frame: str = "", **fields: Any) -> Any:
        request = GetPositionFK.Request(fk_link_names=links, **fields)
        request.header.frame_id = frame
        return self.client.call(GetPositionFK, "/compute_fk", request)

    def valid(self, **fields: Any) -> Any:
        return self.client.call(
            GetStateValidity, "/check_state_validity", GetStateValidity.Request(**fields)
        )


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """A robot without physics, its controller, its frames, and the service."""
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    common = {"robot": "franka", "use_sim_time": True}
    module_suite.node("articulation_controller", **common, update_rate=100.0)
    for executable in ("robot_state", "ik_service"):
        module_suite.node(executable, **common)
    made = JointClient(module_client)
    made.wait_for()
    service, known = Kinematics(module_client), Codes.SUCCESS
    module_client.wait(lambda: module_client.state("/ik_service") == "active", "the service")
    module_client.wait(
        lambda: service.fk([TIP]).error_code.val == known, "the robot's state at the service"
    )
    yield made
    made.close()


@pytest.fixture
def kinematics(arm):
    client = arm.client
    client.wait(lambda: client.state("/ik_service") == "active", "the service")
    return Kinematics(client)


@pytest.mark.parametrize("group", ["arm", "panda_arm", ""])
def test_group_names_aliases_and_the_only_group(kinematics, group):
    assert kinematics.solved(stamped(frame_pose(READY, TIP)), group_name=group)


def test_another_link_and_a_link_that_hangs_on_fingers(kinematics):
    found = kinematics.solved(stamped(frame_pose(READY, "panda_link8")), ik_link_name="panda_link8")
    assert apart(frame_pose(READY, "panda_link8"), frame_pose(found, "panda_link8"))[0] < 2e-4
    finger = READY | {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.02}
    X = frame_pose(finger, "panda_leftfinger")
    found = kinematics.solved(
        stamped(X), ik_link_name="panda_leftfinger", robot_state=state(finger)
    )
    assert found["panda_finger_joint1"] == 0.02, "not a joint of the group"
    assert apart(X, frame_pose(found, "panda_leftfinger"))[0] < 2e-4


def test_several_links_are_solved_for_at_once(kinematics):
    """The elbow and the tool of one arm, whose joints they share."""
    links = ["panda_link4", TIP]
    targets = [stamped(frame_pose(READY, link)) for link in links]
    fields = {"ik_link_names": links, "pose_stamped_vector": targets}
    found = kinematics.solved(PoseStamped(), robot_state=state(HOME), **fields)
    for link in links:
        distance, angle = apart(frame_pose(READY, link), frame_pose(found, link))
        assert distance < 1.1e-4
        assert angle < 1.1e-3
    for bad in (
        {"pose_stamped_vector": targets[:1]},
        {"ik_link_names": [TIP, TIP]},
        {"ik_link_names": [TIP, "panda_link0"]},
        {"ik_link_names": [TIP, "elbow"]},
    ):
        assert kinematics.refused(PoseStamped(), **(fields | bad))[0] == Codes.INVALID_LINK_NAME


def test_frames_of_the_robot_and_of_tf(kinematics):
    X = frame_pose(READY, TIP)
    seed = state(HOME | READY)
    in_link = inverse(frame_pose(READY, "panda_link4")) @ X
    found = kinematics.solved(stamped(in_link, "panda_link4"), robot_state=seed)
    assert apart(X, frame_pose(found, TIP))[0] < 2e-4
    X_WB = from_xyz_rpy((2.0, -1.0, 0.5), (0.0, 0.0, 1.0))
    transform = TransformStamped(child_frame_id="panda_link0")
    transform.header.frame_id = "workshop"
    t, r = transform.transform.translation, transform.transform.rotation
    t.x, t.y, t.z = X_WB[:3, 3].tolist()
    r.x, r.y, r.z, r.w = to_quat_xyzw(X_WB).tolist()
    sender = kinematics.client.publisher(TFMessage, "/tf")
    answers = []

    def known() -> bool:
        sender.publish(TFMessage(transforms=[transform]))
        answers.append(kinematics.ik(stamped(X_WB @ X, "workshop"), robot_state=seed))
        return answers[-1].error_code.val == Codes.SUCCESS

    kinematics.client.wait(known, "the frame to be known")
    joints = answers[-1].solution.joint_state
    found = dict(zip(joints.name, joints.position, strict=True))
    assert apart(X, frame_pose(found, TIP))[0] < 2e-4


def test_validity_names_the_limit(kinematics):
    assert kinematics.valid(robot_state=state(HOME | READY)).valid
    bent = HOME | {"panda_joint4": 0.5}
    answer = kinematics.valid(robot_state=state(bent), group_name="arm")
    assert not answer.valid
    (contact,) = answer.contacts
    assert contact.contact_body_2 == "limit of panda_joint4"
    assert contact.depth == pytest.approx(0.5 + 0.0698, abs=1e-6)
    limited = Constraints(
        joint_constraints=[
            JointConstraint(
                joint_name="panda_joint1", position=1.0, tolerance_above=0.1, tolerance_below=0.1
            )
        ]
    )
    answer = kinematics.valid(robot_state=state(HOME), constraints=limited)
    assert not answer.valid
    assert answer.constraint_result[0].distance == pytest.approx(0.9)
    for group in ("", "gripper"):
        answer = kinematics.valid(robot_state=state(HOME), constraints=limited, group_name=group)
        assert not answer.valid
        assert [r.distance for r in answer.constraint_result] == [pytest.approx(0.9)], group


nan = math.nan
SQUASHED = PoseStamped()
SQUASHED.pose.orientation.w = 0.0
LONG = stamped(frame_pose(READY, TIP))
for axis in "xyzw":
    part = getattr(LONG.pose.orientation, axis)
    setattr(LONG.pose.orientation, axis, 2.5 * part)
BROKEN = stamped(frame_pose(READY, TIP))
BROKEN.pose.position.y = nan
HUGE = stamped(frame_pose(READY, TIP))
HUGE.pose.position.x = 1e12
GOOD = stamped(frame_pose(READY, TIP))


@pytest.mark.parametrize(
    ("target", "fields", "code", "text"),
    [
        (SQUASHED, {}, Codes.INVALID_GOAL_CONSTRAINTS, "not a rotation"),
        (BROKEN, {}, Codes.INVALID_GOAL_CONSTRAINTS, "not finite"),
        (HUGE, {}, Codes.INVALID_GOAL_CONSTRAINTS, "pose.position.x is"),
        (GOOD, {"group_name": "amr"}, Codes.INVALID_GROUP_NAME, "Did you mean 'arm'?"),
        (GOOD, {"group_name": "hand"}, Codes.INVALID_GROUP_NAME, "no base and tip"),
        (GOOD, {"ik_link_name": "panda_tcp"}, Codes.INVALID_LINK_NAME, "'panda_tcp' is not known"),
        (GOOD, {"ik_link_name": "panda_link0"}, Codes.INVALID_LINK_NAME, "no joint moves"),
        (
            GOOD,
            {"robot_state": state({"elbow": 1.0})},
            Codes.INVALID_ROBOT_STATE,
            "none of which the robot has",
        ),
        (
            GOOD,
            {"robot_state": state({"panda_joint1": nan})},
            Codes.INVALID_ROBOT_STATE,
            "panda_joint1 at nan",
        ),
        (stamped(np.eye(4), "moon"), {}, Codes.FRAME_TRANSFORM_FAILURE, "'moon' is not known"),
    ],
)
def test_bad_requests_are_refused_in_words(kinematics, target, fields, code, text):
    got, words = kinematics.refused(target, **fields)
    assert got == code, words
    assert text in words


def test_lengths_that_differ_in_the_seed(kinematics):
    broken = RobotState()
    broken.joint_state.name = ["panda_joint1", "panda_joint2"]
    broken.joint_state.position = [0.0]
    code, text = kinematics.refused(GOOD, robot_state=broken)
    assert (code, "2 joint names and 1 positions" in text) == (Codes.INVALID_ROBOT_STATE, True)


def test_a_quaternion_of_another_length_is_normalised_with_notice(kinematics):
    answer = kinematics.ik(LONG, robot_state=state(HOME))
    assert answer.error_code.val == Codes.SUCCESS
    assert "had norm 2.5 and was normalized" in answer.error_code.message


def test_timeouts(kinematics):
    request = GetPositionIK.Request()
    request.ik_request.group_name = "arm"
    request.ik_request.pose_stamped = GOOD
    request.ik_request.robot_state = state(HOME)
    request.ik_request.timeout.nanosec = 100_000_000
    answer = kinematics.client.call(GetPositionIK, "/compute_ik", request)
    assert answer.error_code.val == Codes.SUCCESS
    request.ik_request.timeout.sec = -1
    request.ik_request.timeout.nanosec = 0
    answer = kinematics.client.call(GetPositionIK, "/compute_ik", request)
    assert "timeout is -1 s" in answer.error_code.message


def test_hundreds_of_requests_at_once_are_all_answered(kinematics):
    client, name = kinematics.client, "/compute_fk"
    served = client.node.create_client(GetPositionFK, name, qos_profile=qos.SERVICES)
    # Responses to its first request wait until the server has discovered it.
    client.wait(served.call_async(GetPositionFK.Request()).done, "the client's discovery")
    pending = [served.call_async(GetPositionFK.Request()) for _ in range(300)]
    client.wait(lambda: all(each.done() for each in pending), "all answers")
    client.node.destroy_client(served)


def test_many_short_lived_clients(kinematics):
    for i in range(15):
        other = RosClient(f"test_short_{i}")
        service = other.node.create_client(GetPositionIK, "/compute_ik")
        other.wait(service.service_is_ready, "the service")
        request = GetPositionIK.Request()
        request.ik_request.group_name = "arm"
        request.ik_request.pose_stamped = GOOD
        future = service.call_async(request)
        if i % 2:
            other.wait(future.done, "the answer")
            assert future.result().error_code.val == Codes.SUCCESS
        other.close()
    assert kinematics.solved(GOOD)


def test_inactive_answers_with_a_failure(kinematics):
    assert kinematics.client.change_state("/ik_service", "deactivate")
    code, text = kinematics.refused(GOOD)
    assert (code, "not active" in text) == (Codes.FAILURE, True)
    assert kinematics.client.change_state("/ik_service", "activate")
    assert kinematics.solved(GOOD)


def test_solver_parameters_change_while_running(kinematics):
    client = kinematics.client
    fine = {"position_tolerance": 1e-6, "orientation_tolerance": 1e-6}
    assert client.set_parameters("/ik_service", **fine).successful
    X = frame_pose(READY, TIP)
    found = kinematics.solved(stamped(X), robot_state=state(HOME))
    distance, angle = apart(X, frame_pose(found, TIP))
    assert distance < 1.01e-6
    assert angle < 1e-5
    assert not client.set_parameters("/ik_service", position_tolerance=0.0).successful


def test_a_target_pose_moves_the_robot_there(kinematics, arm):
    X = frame_pose(READY, TIP) @ from_xyz_rpy((0.02, 0.05, -0.05), (0.1, 0.0, 0.2))
    target = kinematics.client.publisher(PoseStamped, "/ik_service/target_pose")
    kinematics.client.wait(lambda: target.get_subscription_count() > 0, "the node to listen")

    def there() -> bool:
        distance, angle = apart(X, frame_pose(arm.joints, TIP))
        return distance < 1e-3 and angle < 5e-3

    goal = stamped(X, "panda_link0")
    kinematics.client.repeat(lambda: target.publish(goal), there, "the robot at the pose")
    before = arm.rest()
    # FK without a state is that of the current one.
    answer = kinematics.fk([TIP])
    assert answer.error_code.val == Codes.SUCCESS
    p = answer.pose_stamped[0].pose.position
    assert arm.away(HOME) > 0.01
    np.testing.assert_allclose((p.x, p.y, p.z), frame_pose(before, TIP)[:3, 3], atol=1e-4)
    far = np.eye(4)
    far[:3, 3] = (3.0, 0.0, 0.0)
    target.publish(stamped(far, "panda_link0"))
    target.publish(BROKEN)
    kinematics.client.spin(0.3)
    assert arm.away(before) < 1e-4, "unreachable targets move nothing"


def test_closed_form_solutions_by_parameter(kinematics):
    """The solver is changed while running; its solutions are exact where one exists."""
    client = kinematics.client
    name = client.get_parameter("/ik_service", "kinematics_solver")

    def uses(solver: str) -> bool:
        status = client.diagnostics("/ik_service")
        return status is not None and values_of(status)["solver"] == solver

    assert client.set_parameters("/ik_service", kinematics_solver="analytic").successful
    assert kinematics.solved(GOOD), "the previous solver serves until then"
    # Its kernel is compiled once for all robots, which takes long unless cached.
    client.wait(lambda: uses("analytic"), "the other solver", within=90.0)
    rng = np.random.default_rng(12)
    limits = FRANKA.group("arm").limits
    for _ in range(15):
        joints = dict(zip(ARM, rng.uniform(limits.lower, limits.upper), strict=True))
        X = frame_pose(joints, TIP)
        # Joint 7 is free and stays as in the seed.
        found = kinematics.solved(stamped(X), robot_state=state(HOME | joints))
        assert limits.within([found[each] for each in ARM])
        distance, angle = apart(X, frame_pose(found, TIP))
        assert distance < 1e-9
        assert angle < 1e-6
        assert found["panda_joint7"] == pytest.approx(joints["panda_joint7"], abs=1e-9)
    far = np.eye(4)
    far[:3, 3] = (2.0, 0.0, 0.5)
    code, text = kinematics.refused(stamped(far), robot_state=state(HOME))
    assert code == Codes.NO_IK_SOLUTION
    assert "reaches" in text
    assert not client.set_parameters("/ik_service", kinematics_solver="anlytic").successful
    assert client.set_parameters("/ik_service", kinematics_solver=name).successful
    client.wait(lambda: uses(name), "the solver of before")
    assert kinematics.solved(GOOD)


def test_reachable_poses_are_solved_within_a_constraint_of_any_joint(kinematics):
    rng, limits = np.random.default_rng(2), FRANKA.group("arm").limits
    for k in range(40):
        joints = dict(zip(ARM, rng.uniform(limits.lower, limits.upper).tolist(), strict=True))
        name = ARM[k % len(ARM)]
        narrow = JointConstraint(joint_name=name, position=joints[name], weight=1.0)
        narrow.tolerance_above = narrow.tolerance_below = 0.05
        X = frame_pose(joints, TIP)
        found = kinematics.solved(
            stamped(X), robot_state=state(HOME), constraints=Constraints(joint_constraints=[narrow])
        )
        assert abs(found[name] - joints[name]) < 0.05 + 1e-4
        distance, angle = apart(X, frame_pose(found, TIP))
        assert distance < 1.1e-4
        assert angle < 1.1e-3
