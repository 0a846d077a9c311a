# SPDX-License-Identifier: Apache-2.0
"""One stop for a running suite of an arm and a base, over DDS."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator

import even_streams
import pytest
from control_msgs.action import GripperCommand
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from even_streams import begun_anew_after_pauses
from geometry_msgs.msg import PoseStamped, TwistStamped
from joint_client import ABORTED, ARM, CONTROLLER, HOME, SUCCEEDED, JointClient, smooth
from nav_msgs.msg import Odometry
from navigation_client import NavigationClient
from planner_client import Planner, at
from ros_client import BEST_EFFORT, LATCHED, RosClient, values_of
from sensor_msgs.msg import JointState
from std_msgs.msg import Empty
from std_srvs.srv import Trigger

from motion_nodes.core.control.joint_command import STREAM_PAUSE
from motion_nodes.nodes.articulation.gripper_actions import COMMAND_NAMES
from motion_nodes.ros.names import BASE_NAVIGATOR, PLANNER, REACTIVE_POLICY
from motion_nodes.ros.stop_latch import AT_REST, INACTIVE, MOTION, RESUMED, SECONDS, STOPPED

ARM_NODE, BASE_NODE = f"/arm{CONTROLLER}", "/base/diff_drive_controller"
ALL = (
    ARM_NODE, BASE_NODE, f"/arm/{PLANNER}", f"/arm/{REACTIVE_POLICY}",
    "/arm/trajectory_generator", f"/base/{BASE_NAVIGATOR}",
)  # fmt: skip
FAR = {**{name: HOME[name] for name in ARM}, "panda_joint1": 1.2}
pytestmark = pytest.mark.timeout(900)


class StoppableSuite:
    """An arm and a base with their clients."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.arm = JointClient(client, namespace="/arm")
        self.navigator = NavigationClient(client, "base")
        self.odom = client.listen(Odometry, f"{BASE_NODE}/odom")
        self.states = client.listen(DiagnosticStatus, "/stop_state", LATCHED)
        self.stop_topic = client.publisher(Empty, "/stop")
        self.twists = client.publisher(TwistStamped, f"{BASE_NODE}/cmd_vel")
        self.targets = client.publisher(PoseStamped, f"/arm/{REACTIVE_POLICY}/reference")
        self.references = client.publisher(JointState, f"{ARM_NODE}/reference")

    def state(self, node: str) -> dict[str, str]:
        """Newest state of a node; empty before the first."""
        name = node.lstrip("/")
        found = [m for m in self.states.messages if m.name == name]
        return {} if not found else values_of(found[-1])

    def stopped(self, node: str) -> bool:
        values = self.state(node)
        return bool(values) and int(values[STOPPED]) > int(values[RESUMED])

    def stop(self) -> None:
        self.stop_topic.publish(Empty())
        self.wait_stopped()

    def wait_stopped(self) -> None:
        self.client.wait(lambda: all(map(self.stopped, ALL)), "all nodes to be stopped")

    def resume(self, node: str = ARM_NODE) -> None:
        assert self.client.call(Trigger, f"{node}/resume").success
        self.client.wait(lambda: not any(map(self.stopped, ALL)), "all nodes to be resumed")

    def rests(self) -> None:
        """Wait until both robots report rest, and check their speeds."""
        for node in (ARM_NODE, BASE_NODE):
            self.client.wait(lambda n=node: self.state(n).get(MOTION) == AT_REST, f"rest of {node}")
        # States from before the report may still be queued, at most as many as the depth.
        self.arm.states.clear()
        self.client.wait(lambda: len(self.arm.states) > BEST_EFFORT.depth, "newer states")
        assert self.arm.speed() < 0.03
        assert abs(self.speed) < 0.02

    @property
    def speed(self) -> float:
        return float(self.odom.newest.twist.twist.linear.x) if self.odom else 0.0

    def drive(self) -> None:
        message = TwistStamped()
        message.twist.linear.x = 0.2
        self.twists.publish(message)

    def reach(self) -> None:
        self.references.publish(JointState(name=["panda_joint1"], position=[1.2]))

    def go(self, position: tuple[float, float, float]) -> None:
        """Publish a target of the policy at a position [m]."""
        message = PoseStamped()
        p, q = message.pose.position, message.pose.orientation
        (p.x, p.y, p.z), (q.x, q.w) = position, (1.0, 0.0)
        self.targets.publish(message)

    @contextlib.contextmanager
    def streamed(self, *sends: Callable[[], None], pause: float = math.inf) -> Iterator[None]:
        """Publish at 33 Hz; StreamPaused: it paused for almost ``pause`` [s]."""
        with contextlib.ExitStack() as stack:
            for send in sends:
                stack.enter_context(
                    even_streams.streamed(self.client, send, pause=pause, rate=33.0)
                )
            yield

    def begin_anew(self) -> None:
        """Resume if stopped, let streams pause, and bring the arm home."""
        if any(map(self.stopped, ALL)):
            self.resume()
        self.client.spin(0.7)
        self.arm.go_home()

    def stays(self, seconds: float = 0.4) -> None:
        """Check that nothing moves for ``seconds``."""
        self.client.spin(0.1)
        before, place = self.arm.joints, self.odom.newest.pose.pose.position.x
        self.client.spin(seconds)
        assert self.arm.away(before) < 2e-3
        assert abs(self.odom.newest.pose.pose.position.x - place) < 2e-3


@pytest.fixture(scope="module")
def running(module_suite, module_client):
    module_suite.bring_up(
        "arm:=franka", "base:=jetbot@2,0,0", backend="mock", rate=100.0,
        without=("ik_service", "robot_state", "controller_manager"),
    )  # fmt: skip
    module_client.wait_for_diagnosis(ARM_NODE, "holding", within=60.0)
    module_client.wait_for_diagnosis(BASE_NODE, "no command yet", within=60.0)
    made = StoppableSuite(module_client)
    made.navigator.wait_for()
    made.client.wait(lambda: all(made.state(node) for node in ALL), "all nodes", within=60.0)
    yield made
    made.arm.close()
    made.navigator.close()


@pytest.fixture
def cell(running):
    yield running
    running.begin_anew()


@pytest.mark.real_time
@begun_anew_after_pauses
def test_a_stop_from_the_topic_brings_both_to_rest_until_the_resume(cell):
    with cell.streamed(cell.reach, cell.drive, pause=STREAM_PAUSE):
        cell.arm.moving(above=0.3)
        cell.client.wait(lambda: cell.speed > 0.1, "the base to drive")
        cell.stop()
        cell.rests()
        assert float(cell.state(ARM_NODE)[SECONDS]) > 0.0
        cell.stays()
        for node in (ARM_NODE, BASE_NODE):
            assert cell.client.wait_for_diagnosis(node, "stopped by /stop").level == (
                DiagnosticStatus.WARN
            )
        cell.resume()
        # The streams have not paused: they are ignored until they start again.
        cell.stays()
    cell.client.spin(0.7)
    with cell.streamed(cell.reach, cell.drive):
        cell.arm.moving(above=0.3)
        cell.client.wait(lambda: cell.speed > 0.1, "the base to drive again")


@pytest.mark.real_time
@begun_anew_after_pauses
def test_streams_that_began_while_stopped_are_not_obeyed_at_the_resume(cell):
    cell.stop()
    with cell.streamed(cell.reach, cell.drive, pause=STREAM_PAUSE):
        cell.client.spin(0.4)
        cell.resume(BASE_NODE)
        cell.stays()


def test_goals_end_aborted_and_new_ones_are_refused_with_the_reason(cell):
    planner = Planner(cell.arm, "/arm")
    planner.wait()
    calls = [
        cell.arm.follow(smooth(FAR, 6.0)),
        cell.navigator.go((3.0, 0.0, 0.0), "base/odom"),
    ]
    cell.arm.moving(above=0.1)
    cell.client.wait(lambda: cell.speed > 0.05, "the base to drive")
    cell.stop()
    for call in calls:
        status, result = call.result()
        assert status == ABORTED
        assert "stopped by /stop" in getattr(result, "error_string", "") + getattr(
            result, "error_msg", ""
        )
    cell.rests()
    for call in (
        cell.arm.follow(smooth(FAR, 1.0)),
        cell.navigator.go((3.0, 0.0, 0.0), "base/odom"),
    ):
        status, result = call.result()
        assert status == ABORTED
        assert "stopped by /stop" in str(result)
    grip = GripperCommand.Goal()
    grip.command.position = 0.01
    assert cell.arm.send(grip, GripperCommand, f"/arm/{COMMAND_NAMES[0]}").result()[0] == ABORTED
    status, result = planner.move(at(FAR)).result()
    assert status == ABORTED
    assert "stopped by /stop" in result.error_code.message
    cell.stays()


def test_a_planned_motion_is_aborted_and_can_be_repeated_after_the_resume(cell):
    planner = Planner(cell.arm, "/arm")
    planner.wait()
    call = planner.move(at(FAR), max_velocity_scaling_factor=0.3)  # for two seconds
    cell.arm.moving(above=0.1)
    cell.stop()
    status, result = call.result()
    assert status == ABORTED
    assert "stopped by /stop" in result.error_code.message
    cell.resume()
    assert planner.move(at(FAR)).result()[0] == SUCCEEDED


def test_the_policy_forgets_its_target(cell):
    cell.go((0.45, 0.3, 0.4))
    cell.arm.moving(above=0.3)
    cell.stop()
    cell.rests()
    cell.go((0.45, -0.3, 0.4))
    cell.client.wait_for_diagnosis(f"/arm/{REACTIVE_POLICY}", "stopped by /stop")
    cell.resume()
    cell.stays()
    cell.go((0.45, -0.3, 0.4))  # far away, wherever it was stopped
    cell.arm.moving(above=0.3)


def test_two_stops_and_one_resume(cell):
    for _ in range(2):
        cell.stop_topic.publish(Empty())
        cell.client.spin(0.1)
    cell.wait_stopped()
    cell.resume()
    cell.client.spin(0.3)
    assert not any(map(cell.stopped, ALL))
    assert cell.client.call(Trigger, f"{ARM_NODE}/resume").success


@pytest.mark.parametrize(
    "values",
    [
        {},
        {STOPPED: "nan", RESUMED: "nan"},
        {STOPPED: "5", RESUMED: "9" * 15},
        {STOPPED: str(2**63 - 1), RESUMED: str(2**63 - 1)},
        {STOPPED: "1", RESUMED: "1"},
        {STOPPED: "9" * 6000, RESUMED: "1"},
    ],
    ids=["empty", "nan", "unknown", "future", "late", "huge"],
)
def test_garbage_and_late_messages_do_not_resume(cell, values):
    cell.stop()
    publisher = cell.client.publisher(DiagnosticStatus, "/stop_state", LATCHED)
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    for name in ("rogue", ARM_NODE.lstrip("/")):
        publisher.publish(DiagnosticStatus(name=name, values=pairs))
    cell.client.spin(0.3)
    cell.states.messages = [m for m in cell.states.messages if list(m.values) != pairs]
    assert all(map(cell.stopped, ALL))
    assert cell.arm.follow(smooth(FAR, 1.0)).result()[0] == ABORTED
    cell.client.node.destroy_publisher(publisher)


def test_a_stop_reaches_nodes_that_are_not_active(cell):
    assert cell.client.change_state(BASE_NODE, "deactivate")
    cell.stop()
    cell.client.wait(lambda: cell.state(BASE_NODE).get(MOTION) == INACTIVE, "the state of the base")
    assert cell.client.change_state(BASE_NODE, "activate")
    with cell.streamed(cell.drive):
        cell.client.wait_for_diagnosis(BASE_NODE, "stopped by /stop")
        cell.stays()


def test_a_stop_while_time_stands_holds_when_time_goes_on(cell):
    with cell.streamed(cell.reach):
        cell.arm.moving(above=0.3)
        cell.arm.pause("/mock_sim", True)
        cell.client.spin(0.3)
        cell.stop()
        cell.arm.pause("/mock_sim", False)
        cell.rests()
        cell.stays()


def test_a_node_that_starts_later_is_stopped(cell, suite):
    cell.stop()
    process = suite.node("differential_base", robot="jetbot", namespace="late")
    late = "/late/diff_drive_controller"
    cell.client.wait(lambda: cell.stopped(late), "the node that came later")
    assert process.running
    # Any controller resumes all of them.
    cell.resume(late)


def test_the_commands_stop_and_resume(cell, suite):
    motion = [sys.executable, "-m", "motion_nodes.cli.main"]
    with cell.streamed(cell.reach, cell.drive):
        cell.arm.moving(above=0.3)
        process = suite.run([*motion, "stop"])
        cell.client.wait(lambda: not process.running, "motion stop")
    assert process.exit_code() == 0, process.output
    for node in (ARM_NODE, BASE_NODE):
        assert f"{node.lstrip('/')}: at rest after" in process.output
    cell.rests()
    # The stop outlives the command's node.
    assert all(map(cell.stopped, ALL))
    process = suite.run([*motion, "resume"])
    cell.client.wait(lambda: not process.running, "motion resume")
    assert process.exit_code() == 0, process.output
    assert "stopped by" not in process.output
    cell.client.wait(lambda: not any(map(cell.stopped, ALL)), "all nodes to be resumed")


@pytest.mark.long
def test_commands_without_a_suite_say_so(suite):
    alone = {"ROS_DOMAIN_ID": "0", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    motion = [sys.executable, "-m", "motion_nodes.cli.main"]
    # One after the other: a second one would resume the first.
    for word, missing in (("stop", "no controller"), ("resume", "no node")):
        process = suite.run([*motion, word, "--timeout", "1.5"], **alone)
        assert process.exit_code() == 1, process.output
        assert missing in process.output
