# SPDX-License-Identifier: Apache-2.0
"""The node rmpflow_policy over DDS: targets, servo commands, obstacles, services, parameters."""

import sys
from pathlib import Path

import pytest
import scene_requests as requests
from control_msgs.msg import DynamicJointState
from geometry_msgs.msg import TransformStamped
from joint_client import ARM, CONTROLLER, FRANKA, HOME, JointClient
from moveit_msgs.msg import ServoStatus
from moveit_msgs.srv import ApplyPlanningScene, ServoCommandType
from policy_client import DOWN, POLICY, SERVO, PolicyClient
from ros_client import LATCHED
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

OWNER = [sys.executable, str(Path(__file__).parents[1] / "scene_owner.py")]
OWNER += ["--ros-args", "-p", "robot:=franka"]
PLACE = (0.45, 0.15, 0.4)
FASTEST = 1.2 * max(FRANKA.group("arm").limits.velocity)
"""[rad/s] What references may ask for, with a margin for stamps that stand for a tick."""
RATE = 100.0
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """A robot without physics, its controller, a scene and the policy."""
    # On a loaded machine, states and commands of a client may arrive late.
    common = {"robot": "franka", "use_sim_time": True, "update_rate": RATE, "state_timeout": 6.0}
    # Simulated time runs at double speed, to halve the waiting.
    module_suite.node("mock_sim", robots=["franka"], update_rate=RATE, real_time_factor=2.0)
    module_suite.node("articulation_controller", **common)
    patient = {"servo__incoming_command_timeout": 1.0, "max_tracking_error": 1.0}
    module_suite.node("rmpflow_policy", **patient, **common)
    module_suite.run([*OWNER, "-p", "use_sim_time:=true"])
    made = JointClient(module_client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        module_client.wait_for_diagnosis(node, word, within=60.0)
    made.wait_for()
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_policy(arm):
    return PolicyClient(arm)


@pytest.fixture
def policy(module_policy):
    module_policy.begin_anew()
    return module_policy


# ---- targets


@pytest.mark.long
def test_targets_in_frames_of_the_robot_and_of_tf(policy):
    before = policy.tool
    policy.go((0.0, 0.0, 0.1), (0.0, 0.0, 0.0), frame="panda_hand_tcp")
    policy.wait_for("arrived")
    policy.rest()
    assert policy.tool[:3, 3] == pytest.approx((before @ (0, 0, 0.1, 1))[:3], abs=0.006)
    transform = TransformStamped(child_frame_id="table")
    transform.header.frame_id = "panda_link0"
    transform.transform.translation.x = 0.4
    transform.transform.rotation.w = 1.0
    publisher = policy.client.node.create_publisher(TFMessage, "/tf_static", LATCHED)
    publisher.publish(TFMessage(transforms=[transform]))
    policy.client.repeat(
        lambda: policy.go((0.1, 0.1, 0.4), DOWN, frame="table"),
        lambda: policy.text == "arrived" and policy.tool[1, 3] > 0.09,
        "the target on the table",
        rate=2.0,
    )
    policy.client.spin(0.5)
    assert policy.tool[:3, 3] == pytest.approx((0.5, 0.1, 0.4), abs=0.006)


@pytest.mark.long
def test_a_posture_by_names_in_any_order(policy):
    goal = {name: HOME[name] for name in reversed(ARM)} | {"panda_joint1": 0.4}
    policy.tend([*goal, "panda_finger_joint1"], [*goal.values(), 0.01])
    policy.wait_for("arrived")
    policy.client.spin(1.0)
    assert policy.arm.away(goal) < 0.011
    policy.tend(["panda_joint1"], [7.0])
    policy.wait_for_warning("outside the joint limits")
    policy.tend(["panda_joint9"], [0.0])
    policy.wait_for_warning("panda_joint9")


def test_a_target_at_a_kilohertz_that_jumps_is_followed_within_the_limits(policy):
    count = 0

    def jump():
        nonlocal count
        count += 1
        policy.go((0.45, 0.5 if count // 200 % 2 else -0.5, 0.4))

    policy.client.repeat_for(jump, 2.0, rate=1000.0)
    policy.statuses.clear()
    policy.client.repeat(
        jump, lambda: policy.text.startswith("following"), "it to follow", rate=20.0
    )
    policy.client.repeat(jump, lambda: len(policy.sent) > 5, "references", rate=20.0)
    policy.client.spin(0.05)  # until the last target has arrived
    assert policy.fastest < FASTEST
    policy.trigger(f"{POLICY}/clear_target")
    policy.wait_for("idle")
    policy.rest()


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (lambda m: setattr(m.pose.position, "x", float("nan")), "not finite"),
        (lambda m: setattr(m.pose.orientation, "x", float("inf")), "not finite"),
        (lambda m: setattr(m.pose.orientation, "x", 0.0), "not a rotation"),
        (lambda m: setattr(m.pose.position, "x", 1e9), "position.x is 1e+09; allowed is"),
        (lambda m: setattr(m.header, "frame_id", "nowhere"), "nowhere"),
    ],
)
def test_a_bad_target_changes_nothing(policy, fill, words):
    policy.go(PLACE)
    policy.wait_for("following")
    message = policy.target((0.3, -0.4, 0.5))
    if "rotation" in words:
        message.pose.orientation.y = message.pose.orientation.z = message.pose.orientation.w = 0.0
    fill(message)
    policy.send(message)
    policy.wait_for_warning(words)
    policy.wait_for("arrived")
    policy.rest()
    assert policy.tool[:3, 3] == pytest.approx(PLACE, abs=0.01)


def test_an_old_target_is_ignored(policy):
    message = policy.target(PLACE)
    now = policy.arm.now
    assert now > 3.0
    message.header.stamp.sec = int(now - 2.0)
    message.header.stamp.nanosec = 1
    policy.send(message)
    policy.wait_for_warning("old")
    policy.stays("idle", 0.5)


def test_a_lost_target_ends_in_a_stop(policy):
    assert policy.client.set_parameters(POLICY, target_timeout=0.8).successful
    try:
        policy.client.repeat(
            lambda: policy.go((0.45, -0.3, 0.4)), lambda: policy.arm.speed() > 0.05, "motion"
        )
        assert "not renewed for 0.8 s" in policy.wait_for("stopped")
        policy.rest()
    finally:
        assert policy.client.set_parameters(POLICY, target_timeout=float("inf")).successful


# ---- obstacles


def test_a_body_on_another_link_does_not_end_the_view_of_the_world(policy):
    scene = requests.diff()
    body = requests.attached("camera", "panda_link0")
    body.object = requests.box("camera", (0.05,) * 3, (0.0, 0.0, 0.1))
    body.object.header.frame_id = "panda_link0"
    scene.robot_state.attached_collision_objects = [body]
    scene.world.collision_objects = [requests.sphere("ball", 0.07, (0.42, 0.1, 0.45))]
    request = ApplyPlanningScene.Request(scene=scene)
    assert policy.client.call(ApplyPlanningScene, "/apply_planning_scene", request).success
    policy.wait_for_warning("camera")
    policy.wait_for("idle")
    policy.go((0.4, 0.3, 0.45))
    policy.wait_for("arrived")
    values = {v.key: v.value for v in policy.statuses.newest.values}
    assert float(values["clearance [m]"]) < 0.2, "the ball is known"
    remove = requests.diff()
    remove.robot_state.attached_collision_objects = [requests.detached("camera")]
    assert policy.client.call(ApplyPlanningScene, "/apply_planning_scene",
                              ApplyPlanningScene.Request(scene=remove)).success  # fmt: skip
    policy.scene()


# ---- servo


def test_servo_stops_before_an_obstacle_and_says_so(policy):
    x = policy.tool[0, 3]
    policy.scene(requests.box("wall", (0.02, 1.0, 1.0), (x + 0.2, 0.0, 0.5)))
    policy.client.repeat(
        policy.twist(linear_x=0.6),
        lambda: policy.servo_statuses.newest.code == ServoStatus.HALT_FOR_COLLISION,
        "a halt before the wall",
        rate=50.0,
        within=30.0,
    )
    assert policy.tool[0, 3] < x + 0.19
    assert "m away" in policy.servo_statuses.newest.message
    policy.scene()


def test_servo_can_be_stopped_paused_and_told_what_to_take(policy):
    send = policy.twist(linear_z=0.3)
    policy.trigger(f"{SERVO}/stop_servo")
    policy.client.repeat_for(send, 0.3)
    policy.wait_for_warning("start_servo")
    policy.client.wait(
        lambda: policy.servo_statuses.newest.code == ServoStatus.INVALID, "servo to say so"
    )
    policy.trigger(f"{SERVO}/start_servo")
    policy.switch(f"{SERVO}/pause_servo", True)
    policy.client.repeat_for(send, 0.3)
    policy.wait_for_warning("pause_servo")
    assert not policy.sent
    policy.switch(f"{SERVO}/pause_servo", False)
    for kind, taken in ((ServoCommandType.Request.JOINT_JOG, False), (9, False), (1, True)):
        request = ServoCommandType.Request(command_type=kind)
        name = f"{SERVO}/switch_command_type"
        assert policy.client.call(ServoCommandType, name, request).success == (kind != 9)
        policy.sent.clear()
        if taken:
            policy.client.repeat(send, lambda: policy.sent, "references")
        else:
            policy.client.repeat_for(send, 0.4)
            assert not policy.sent
    policy.wait_for("idle")


# ---- services, parameters, markers


@pytest.mark.long
def test_pause_and_reset(policy):
    policy.go((0.45, -0.3, 0.4))
    policy.wait_for("following")
    policy.switch(f"{POLICY}/pause", True)
    policy.wait_for("paused")
    policy.rest()
    policy.switch(f"{POLICY}/pause", False)
    policy.wait_for("arrived")
    request = ServoCommandType.Request(command_type=ServoCommandType.Request.JOINT_JOG)
    assert policy.client.call(ServoCommandType, f"{SERVO}/switch_command_type", request).success
    assert policy.trigger(f"{POLICY}/reset").success
    policy.wait_for("idle")
    policy.sent.clear()
    policy.client.repeat(policy.twist(linear_z=0.1), lambda: policy.sent, "any type of commands")
    policy.wait_for("idle")


@pytest.mark.long
def test_parameters_of_leaves_change_while_it_runs_all_or_none(policy):
    client, leaf = policy.client, "axis_target_rmp.accel_p_gain"
    assert client.get_parameter(POLICY, leaf) == 210.0
    answer = client.set_parameters(
        POLICY, axis_target_rmp__accel_p_gain=100.0, target_rmp__accel_norm_eps=-1.0
    )
    assert not answer.successful
    assert "accel_norm_eps" in answer.reason
    assert client.get_parameter(POLICY, leaf) == 210.0
    answer = client.set_parameters(POLICY, joint_velocity_cap_rmp__velocity_damping_region=9.0)
    assert not answer.successful
    assert "at most max_velocity" in answer.reason
    # A lower cap acts at once.
    assert client.set_parameters(
        POLICY,
        joint_velocity_cap_rmp__max_velocity=0.2,
        joint_velocity_cap_rmp__velocity_damping_region=0.1,
    ).successful
    policy.go((0.4, -0.4, 0.4))
    policy.wait_for("following")
    policy.sent.clear()
    client.spin(1.0)
    fastest = max(max(map(abs, m.velocity)) for m in policy.sent.messages)
    assert 0.05 < fastest <= 0.2 + 1e-9
    assert client.set_parameters(
        POLICY,
        joint_velocity_cap_rmp__max_velocity=4.0,
        joint_velocity_cap_rmp__velocity_damping_region=1.5,
    ).successful


def test_position_alone_leaves_the_orientation(policy):
    assert policy.client.set_parameters(POLICY, use_orientation=False).successful
    policy.go(PLACE, (0.0, 0.0, 0.0))
    policy.wait_for("arrived")
    assert policy.tool[2, 2] < 0.0, "the requested orientation is ignored"
    assert policy.client.set_parameters(POLICY, use_orientation=True).successful


@pytest.mark.long
def test_markers_and_figures_come_while_somebody_listens(policy):
    node = policy.client.node
    markers = policy.client.listen(MarkerArray, f"{POLICY}/markers")
    figures = policy.client.listen(DynamicJointState, f"{POLICY}/leaf_metrics")
    policy.scene(requests.sphere("ball", 0.05, (0.45, -0.1, 0.5)))
    policy.go((0.45, -0.3, 0.4))

    def shown():
        return {
            marker.ns
            for message in markers.messages  # at the target, its RMP has no arrow
            for marker in message.markers
            if marker.action == Marker.ADD
        }

    wanted = {"spheres", "target", "tool", "target_rmp"}
    policy.client.wait(lambda: wanted <= shown() and len(figures) > 3, "markers", within=30.0)
    colours = {round(m.color.r, 3) for m in markers.newest.markers if m.ns == "spheres"}
    assert len(colours) > 3, "coloured by distance"
    assert all(m.header.frame_id == "panda_link0" for m in markers.newest.markers)
    newest = figures.newest
    of = dict(zip(newest.joint_names, newest.interface_values, strict=True))
    assert of["target_rmp"].interface_names == ["weight", "force", "acceleration"]
    assert of["target_rmp"].values[0] > 0.0
    assert of["collision_rmp"].values[0] > 0.0
    policy.scene()
    for subscription in list(node.subscriptions):
        if subscription.topic_name.startswith((f"{POLICY}/markers", f"{POLICY}/leaf")):
            node.destroy_subscription(subscription)
