# SPDX-License-Identifier: Apache-2.0
"""Behaviors of moveit_servo, over its topics and services."""

import statistics
from typing import Any

import numpy as np
import pytest
from control_msgs.msg import JointJog
from geometry_msgs.msg import PoseStamped
from joint_client import ARM, CONTROLLER, FRANKA, JointClient
from moveit_msgs.msg import ServoStatus
from moveit_msgs.srv import ServoCommandType
from policy_client import POLICY, SERVO, PolicyClient

Types = ServoCommandType.Request
RATE = 100.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def policy(module_suite, module_client):
    common = {"robot": "franka", "use_sim_time": True, "update_rate": RATE, "state_timeout": 6.0}
    module_suite.node("mock_sim", robots=["franka"], update_rate=RATE)
    module_suite.node("articulation_controller", **common)
    patient = {"servo__incoming_command_timeout": 1.0, "max_tracking_error": 1.0}
    module_suite.node("rmpflow_policy", **patient, **common)
    arm = JointClient(module_client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        module_client.wait_for_diagnosis(node, word, within=60.0)
    arm.wait_for()
    yield PolicyClient(arm)
    arm.close()


def select(policy: PolicyClient, kind: int) -> bool:
    name = f"{SERVO}/switch_command_type"
    request = ServoCommandType.Request(command_type=kind)
    return bool(policy.client.call(ServoCommandType, name, request).success)


def says(policy: PolicyClient, status: Any, within: float = 30.0) -> None:
    policy.client.wait(
        lambda: policy.servo_statuses.newest.code == status, "the status", within=within
    )


def rests(policy: PolicyClient) -> None:
    policy.trigger(f"{SERVO}/start_servo")
    policy.wait_for("idle")
    policy.rest()
    policy.sent.clear()


def test_types_of_commands(policy):
    for kind in (Types.JOINT_JOG, Types.TWIST, Types.POSE):
        assert select(policy, kind)
    assert not select(policy, 17)


def test_jogs(policy):
    assert select(policy, Types.JOINT_JOG)
    before = policy.arm.joints
    speeds = {**dict.fromkeys(ARM, 0.0), "panda_joint7": 0.5}

    def turned() -> bool:
        return policy.arm.joints["panda_joint7"] - before["panda_joint7"] > 0.1

    policy.arm.clear()
    policy.client.wait(lambda: policy.arm.states, "a state")
    policy.client.repeat(policy.jog(**speeds), turned, "the joint", rate=50.0)
    k = policy.arm.states.newest.name.index("panda_joint7")
    rates = [m.velocity[k] for m in policy.arm.states.messages]
    scale = policy.client.get_parameter(POLICY, "servo.scale.joint")
    # On a busy machine the arm catches up for a moment.
    moving = [rate for rate in rates if rate > 0.1 * scale]
    assert statistics.median(moving) == pytest.approx(0.5 * scale, rel=0.1)
    assert policy.servo_statuses.newest.code == ServoStatus.NO_WARNING
    rests(policy)
    assert max(abs(policy.arm.joints[name] - before[name]) for name in ARM[:6]) < 0.03


def test_invalid_commands(policy):
    assert select(policy, Types.JOINT_JOG)
    sender = policy.publisher(JointJog, f"{SERVO}/delta_joint_cmds")
    for names, velocities in (
        (ARM, [0.1] * 6),
        (ARM, [0.1] * 8),
        (["panda_joint1"], [float("nan")]),
        (["panda_joint8"], [0.1]),
        (["panda_joint1"] * 2, [0.3, -0.3]),
    ):
        rests(policy)
        sender.publish(JointJog(joint_names=list(names), velocities=velocities))
        says(policy, ServoStatus.INVALID)
        assert not policy.sent
    rests(policy)
    policy.twist(linear_x=0.3)()
    says(policy, ServoStatus.INVALID)
    assert select(policy, Types.TWIST)
    policy.twist(linear_x=float("nan"))()
    says(policy, ServoStatus.INVALID)
    assert not policy.sent


def test_twists(policy):
    assert select(policy, Types.TWIST)
    for frame, sign in ((FRANKA.base_frame, 1.0), ("panda_link8", -1.0)):
        before = policy.tool

        def turned(before: Any = before) -> float:
            R = policy.tool[:3, :3] @ before[:3, :3].T
            return float(np.arctan2(R[1, 0], R[0, 0]))

        send = policy.twist(frame=frame, angular_z=0.5)
        policy.client.repeat(send, lambda s=sign, f=turned: s * f() > 0.1, "a turn", rate=50.0)
        assert policy.servo_statuses.newest.code == ServoStatus.NO_WARNING
        rests(policy)


def test_a_twist_without_a_frame(policy):
    assert select(policy, Types.TWIST)
    policy.client.repeat(
        policy.twist(linear_z=0.3), lambda: policy.tool_speed[2] > 0.02, "motion", rate=50.0
    )
    rests(policy)
    assert policy.client.set_parameters(POLICY, peer_defaults=True).successful
    policy.client.repeat(
        policy.twist(linear_z=-0.3),
        lambda: policy.servo_statuses.newest.code == ServoStatus.INVALID,
        "the status",
        rate=50.0,
    )
    assert not policy.sent
    policy.client.repeat(
        policy.twist(linear_z=-0.3, frame=FRANKA.base_frame),
        lambda: policy.tool_speed[2] < -0.02,
        "motion",
        rate=50.0,
    )
    assert policy.client.set_parameters(POLICY, peer_defaults=False).successful
    rests(policy)


def test_poses(policy):
    assert select(policy, Types.POSE)
    sender = policy.publisher(PoseStamped, f"{SERVO}/pose_target_cmds")
    target = policy.target(policy.tool[:3, 3] + (0.0, 0.1, 0.0), frame=FRANKA.base_frame)
    place = policy.tool[:3, 3] + (0.0, 0.1, 0.0)

    def there() -> bool:
        return bool(np.linalg.norm(policy.tool[:3, 3] - place) < 0.01)

    policy.client.repeat(lambda: sender.publish(target), there, "the pose")
    assert policy.servo_statuses.newest.code == ServoStatus.NO_WARNING
    policy.trigger(f"{POLICY}/clear_target")
    rests(policy)


def test_a_paused_servo(policy):
    assert select(policy, Types.TWIST)
    policy.switch(f"{SERVO}/pause_servo", True)
    policy.sent.clear()
    policy.client.repeat_for(policy.twist(linear_z=0.3), 0.3)
    assert not policy.sent
    policy.switch(f"{SERVO}/pause_servo", False)
    policy.client.repeat(policy.twist(linear_z=0.3), lambda: policy.sent, "motion", rate=50.0)
    rests(policy)


def test_stale_commands(policy):
    assert select(policy, Types.TWIST)
    policy.client.repeat(
        policy.twist(linear_z=-0.3), lambda: policy.tool_speed[2] < -0.02, "motion", rate=50.0
    )
    policy.wait_for("idle")
    policy.rest()


def test_limits(policy):
    assert select(policy, Types.JOINT_JOG)
    policy.client.repeat(
        policy.jog(panda_joint7=1.0),
        lambda: policy.servo_statuses.newest.code == ServoStatus.JOINT_BOUND,
        "the limit",
        rate=50.0,
        within=40.0,
    )
    policy.client.repeat(
        policy.jog(panda_joint7=1.0),
        lambda: policy.arm.speed(["panda_joint7"]) < 0.005,
        "rest at the limit",
        rate=50.0,
    )
    assert policy.arm.joints["panda_joint7"] < FRANKA.limits.select(["panda_joint7"]).upper[0]
    rests(policy)


def test_singularities(policy):
    assert select(policy, Types.TWIST)
    fastest = FRANKA.group("arm").limits.velocity
    policy.arm.clear()
    codes, out = [], policy.twist(linear_x=0.8, frame=FRANKA.base_frame)

    def halted() -> bool:
        code = policy.servo_statuses.newest.code
        codes.extend([code] if code not in codes else [])
        return bool(code == ServoStatus.HALT_FOR_SINGULARITY)

    policy.client.repeat(out, halted, "the end of reach", rate=50.0, within=40.0)
    assert ServoStatus.DECELERATE_FOR_APPROACHING_SINGULARITY in codes
    policy.client.repeat(out, lambda: abs(policy.tool_speed[0]) < 0.005, "rest", rate=50.0)
    rows = np.array([m.velocity[:7] for m in policy.arm.states.messages])
    assert (np.abs(rows) <= 1.2 * fastest).all()
    back = policy.twist(linear_x=-0.8, frame=FRANKA.base_frame)
    policy.client.repeat(back, lambda: policy.tool_speed[0] < -0.05, "the way back", rate=50.0)
    rests(policy)
