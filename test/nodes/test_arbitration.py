# SPDX-License-Identifier: Apache-2.0
"""Command arbitration over DDS: the newest motion command preempts; coming to rest does not.

Every ordered pair of inputs is tested at the core (test/control/test_arbitration.py); here are
the cases with nodes, publishers and actions.
"""

from collections.abc import Callable

import pytest
from control_msgs.action import GripperCommand
from even_streams import begun_anew_after_pauses, streamed
from joint_client import ARM, CANCELED, CONTROLLER, FINGERS, HOME, SUCCEEDED, JointClient, smooth
from policy_client import POLICY, PolicyClient
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES
from motion_nodes.nodes.policy.policy_inputs import INPUT_PAUSE

PLACE, ELSEWHERE = (0.45, 0.15, 0.4), (0.45, -0.2, 0.5)
J1, J2 = ARM[:2]
GOAL = {**{name: HOME[name] for name in ARM}, J1: 0.3}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def arm(module_suite, module_client):
    """A robot without physics, its controller and the policy."""
    common = {"robot": "franka", "use_sim_time": True, "update_rate": 100.0, "state_timeout": 3.0}
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    module_suite.node("articulation_controller", **common)
    # On a loaded machine, commands of a client may arrive late.
    patient = {"servo__incoming_command_timeout": 0.5, "max_tracking_error": 1.0}
    module_suite.node("rmpflow_policy", **patient, **common)
    made = JointClient(module_client)
    for node, word in ((CONTROLLER, "holding"), (POLICY, "idle")):
        module_client.wait_for_diagnosis(node, word, within=60.0)
    made.wait_for()
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_policy(arm):
    """The policy, once its commands reach the controller."""
    made = PolicyClient(arm)
    arm.client.repeat(
        lambda: made.go(PLACE), lambda: arm.states and arm.speed() > 0.05, "motion", rate=2.0
    )
    return made


@pytest.fixture
def policy(module_policy):
    module_policy.begin_anew()
    return module_policy


def reference(
    arm: JointClient, goal: dict[str, float], topic: str = "reference"
) -> Callable[[], None]:
    publisher = arm.client.node.create_publisher(JointState, f"{CONTROLLER}/{topic}", 10)
    message = JointState(name=list(goal), position=list(goal.values()))
    arm.client.wait(lambda: publisher.get_subscription_count() > 0, "the controller to listen")
    return lambda: publisher.publish(message)


def set_out(policy: PolicyClient) -> None:
    """Follow a target; older messages are discarded before, as the motion is short."""
    policy.arm.clear()
    policy.go(PLACE)
    policy.client.wait(lambda: policy.arm.states and policy.arm.speed() > 0.3, "motion")


def carried_out(arm: JointClient, seconds: float = 1.0) -> None:
    """Execute a trajectory; it succeeds, and its goal is held."""
    status, result = arm.follow(smooth(GOAL, seconds)).result()
    assert status == SUCCEEDED, result.error_string
    arm.client.spin(0.3)
    assert arm.away(GOAL) < 0.01


@pytest.mark.long
def test_a_policy_that_follows_a_target_lets_a_trajectory_have_the_joints(policy):
    set_out(policy)
    carried_out(policy.arm)
    assert "another command has the joints: preempted by action goal" in policy.wait_for("idle")
    # A new target is a new command, however soon it comes.
    policy.go(ELSEWHERE)
    policy.wait_for("following")


@begun_anew_after_pauses
def test_a_target_that_is_streamed_on_waits_for_a_pause(policy):
    with streamed(policy.client, lambda: policy.go(PLACE), pause=INPUT_PAUSE):
        policy.arm.moving(above=0.3)
        carried_out(policy.arm)
        policy.wait_for_warning("ignored: it was preempted")
    policy.client.spin(0.6)
    policy.go(ELSEWHERE)
    policy.wait_for("following")


def test_a_target_that_is_cleared_at_once_is_not_followed(policy):
    """Topics are polled, services are not: the target may be read after the request."""
    for _ in range(10):
        policy.go(PLACE)
        assert policy.trigger(f"{POLICY}/clear_target").success
    rested = policy.arm.rest()
    policy.client.spin(0.4)
    assert policy.arm.away(rested) < 1e-3
    policy.wait_for("idle")


def test_a_policy_that_is_deactivated_takes_nothing_back(policy):
    set_out(policy)
    call = policy.arm.follow(smooth(GOAL, 1.0))
    assert call.accepted()
    assert policy.client.change_state(POLICY, "deactivate")
    status, result = call.result()
    assert status == SUCCEEDED, result.error_string
    assert policy.client.change_state(POLICY, "activate")
    policy.client.wait_for_diagnosis(POLICY, "idle")


def test_a_canceled_trajectory_leaves_the_joints_at_rest(policy):
    set_out(policy)
    call = policy.arm.follow(smooth(GOAL, 3.0))
    assert call.accepted()
    assert call.cancel()
    assert call.result()[0] == CANCELED
    rested = policy.arm.rest()
    policy.client.spin(0.4)
    assert policy.arm.away(rested) < 1e-3
    policy.wait_for("idle")


def test_a_reset_of_the_controller_stops_a_policy(policy):
    set_out(policy)
    assert policy.client.call(Trigger, f"{CONTROLLER}/reset", Trigger.Request()).success
    assert "preempted by a reset of the controller" in policy.wait_for("idle")
    rested = policy.arm.rest()
    policy.client.spin(0.4)
    assert policy.arm.away(rested) < 1e-3


@begun_anew_after_pauses
def test_the_newer_of_two_streams_has_the_joint_and_the_fight_is_reported(policy):
    arm = policy.arm
    older, newer = reference(arm, {J1: -0.4}), reference(arm, {J1: 0.4})
    with streamed(arm.client, older):
        arm.moving(joints=[J1])
        with streamed(arm.client, newer):
            arm.arrives({J1: 0.4})
            arm.client.spin(0.3)
            assert arm.away({J1: 0.4}) < 0.01
            arm.client.wait_for_diagnosis(CONTROLLER, "several senders command the joints")


@begun_anew_after_pauses
def test_a_topic_trajectory_preempts_an_array_stream(policy):
    arm = policy.arm
    array = arm.publisher(Float64MultiArray, "commands")
    values = [HOME[name] + 0.2 * (name == J1) for name in (*ARM, *FINGERS)]
    with streamed(arm.client, lambda: array.publish(Float64MultiArray(data=values))):
        arm.moving(joints=[J1])
        topic = arm.publisher(type(smooth(GOAL, 1.0)), "joint_trajectory")
        arm.client.wait(lambda: topic.get_subscription_count() > 0, "the controller to listen")
        topic.publish(smooth({**GOAL, J1: -0.3}, 0.8))
        arm.arrives({J1: -0.3}, within=1e-3)


@begun_anew_after_pauses
def test_a_grip_takes_the_fingers_of_a_stream_that_goes_on_with_the_arm(policy):
    arm = policy.arm
    goal = {**GOAL, **dict.fromkeys(FINGERS, 0.04)}
    with streamed(arm.client, reference(arm, goal)):
        arm.moving(joints=[J1])
        grip = GripperCommand.Goal()
        grip.command.position, grip.command.max_effort = 0.01, 20.0
        status, result = arm.send(grip, GripperCommand, f"/{COMMAND_NAMES[0]}").result()
        assert (status, result.reached_goal) == (SUCCEEDED, True)
        arm.arrives({**GOAL, **dict.fromkeys(FINGERS, 0.01)})


@begun_anew_after_pauses
def test_a_stream_takes_joints_of_the_policy(policy):
    set_out(policy)
    with streamed(policy.client, reference(policy.arm, {J2: HOME[J2] + 0.2})):
        assert "preempted by ~/reference" in policy.wait_for("idle")
    policy.arm.arrives({J2: HOME[J2] + 0.2})
