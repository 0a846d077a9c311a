# SPDX-License-Identifier: Apache-2.0
"""The trajectory generator: waypoints, tool paths, bad input, stops meanwhile."""

import dataclasses
import math
import re
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from joint_client import ARM, FRANKA
from moveit_msgs.msg import (
    Constraints,
    GenericTrajectory,
    JointConstraint,
    MotionPlanRequest,
    MoveItErrorCodes,
)
from moveit_msgs.srv import GetMotionPlan
from nav_msgs.msg import Path
from planner_client import state
from ros_client import BEST_EFFORT, LATCHED, Heard, RosClient
from scipy.interpolate import CubicHermiteSpline
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from two_arms import TIPS, write_two_arms

from motion_nodes.core.robot.kinematics import Kinematics
from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import to_quat_xyzw
from motion_nodes.core.scene.scene import Scene
from motion_nodes.nodes.generator_params import TrajectoryGeneratorParams
from motion_nodes.nodes.generator_requests import GeneratorRequests
from motion_nodes.nodes.trajectory_generator import TrajectoryGeneratorNode
from motion_nodes.ros.clients.trajectory_execution import ExecutionResult
from motion_nodes.ros.messages.moveit_messages import RequestRejected
from motion_nodes.ros.parameters import declared

Codes = MoveItErrorCodes
NODE = "/trajectory_generator"
LIMITS = FRANKA.limits.select(ARM)
HOME = FRANKA.home[FRANKA.indices(ARM)]
WAY = HOME + np.array(
    [[0, 0, 0, 0, 0, 0, 0], [0.3, 0.1, 0, -0.1, 0, 0.1, 0.2], [0.5, -0.1, 0.1, 0.1, 0, 0, 0.4]]
)
WITHIN = 60.0
"""[s] For the first request, which loads kernels or compiles them."""


def waypoints(points: Any, names: Any = ARM, times: Any = None) -> JointTrajectory:
    message = JointTrajectory(joint_names=list(names))
    for i, row in enumerate(np.asarray(points).tolist()):
        point = JointTrajectoryPoint(positions=row)
        if times is not None:
            point.time_from_start.sec = int(times[i])
            point.time_from_start.nanosec = round(1e9 * (times[i] % 1.0))
        message.points.append(point)
    return message


def arrays(message: JointTrajectory) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return times [s], (k,), positions, velocities and accelerations, (k, n) each."""
    times = [p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in message.points]
    q, v, a = (
        np.array([getattr(point, channel) for point in message.points])
        for channel in ("positions", "velocities", "accelerations")
    )
    return np.array(times), q, v, a


class Generator:
    """The node as its clients see it."""

    def __init__(self, client: RosClient) -> None:
        self.client = client
        self.trajectory = client.listen(JointTrajectory, f"{NODE}/trajectory", LATCHED)
        self.tool_path = client.listen(Path, f"{NODE}/tool_path", LATCHED)
        self.status: Heard = client.listen(DiagnosticStatus, f"{NODE}/status")
        self._waypoints = client.publisher(JointTrajectory, f"{NODE}/waypoints")
        self._spec = client.publisher(String, f"{NODE}/path_spec")
        # A subscriber discovers its publisher slightly later than vice versa.
        client.spin(1.0)

    def ask(self, message: JointTrajectory | str) -> DiagnosticStatus:
        """Send waypoints or a path; return the first status on it."""
        for heard in (self.status, self.trajectory, self.tool_path):
            heard.clear()
        if isinstance(message, str):
            self._spec.publish(String(data=message))
        else:
            self._waypoints.publish(message)
        self.client.wait(lambda: len(self.status), "a status", WITHIN)
        status = self.status.messages[0]
        if status.level == DiagnosticStatus.OK:
            self.client.wait(lambda: len(self.trajectory), "a trajectory")
        return status

    def refusal(self, message: JointTrajectory | str) -> str:
        """Return the reason of the refusal; no trajectory may be published."""
        status = self.ask(message)
        assert status.level == DiagnosticStatus.ERROR
        assert not len(self.trajectory)
        return status.message

    def retime(self, points: Any = None, names: Any = ARM, **fields: Any) -> Any:
        """Call the service ~/retime_path."""
        call = GetMotionPlan.Request()
        request = call.motion_plan_request
        if points is not None:
            reference = GenericTrajectory(joint_trajectory=[waypoints(points, names)])
            request.reference_trajectories = [reference]
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.client.call(GetMotionPlan, f"{NODE}/retime_path", call, WITHIN)
        return answer.motion_plan_response


@pytest.fixture(scope="module")
def generator(module_suite, module_client):
    module_suite.node("mock_sim", robots=["franka"], update_rate=100.0)
    nodes = [
        ("articulation_controller", "joint_trajectory_controller"),
        ("trajectory_generator", "trajectory_generator"),
    ]
    module_suite.container(
        [
            {
                "executable": executable,
                "ros_args": ["--ros-args", "-r", f"__node:={name}", "-p", "robot:=franka",
                             "-p", "use_sim_time:=true", "-p", "state_timeout:=3.0"],
            }
            for executable, name in nodes
        ]
    )  # fmt: skip
    module_client.wait_for_diagnosis(NODE, "", within=30.0)
    return Generator(module_client)


def check_motion(message: JointTrajectory, scale: float = 1.0) -> None:
    """Check rest at both ends, increasing times, and limits times ``scale``."""
    t, q, v, a = arrays(message)
    assert t[0] == 0.0
    assert (np.diff(t) > 0.0).all()
    assert not v[[0, -1]].any()
    limits = LIMITS.select(tuple(message.joint_names))
    assert (np.abs(v) <= scale * limits.velocity + 1e-6).all()
    assert (np.abs(a) <= scale * limits.acceleration + 1e-6).all()
    assert q.shape == v.shape == a.shape == (len(t), len(message.joint_names))


def test_waypoints_without_times_become_the_fastest_motion_through_them(generator):
    status = generator.ask(waypoints(WAY))
    assert status.level == DiagnosticStatus.OK, status.message
    message = generator.trajectory.newest
    check_motion(message)
    t, q, _, _ = arrays(message)
    np.testing.assert_allclose(q[[0, -1]], WAY[[0, -1]], atol=1e-9)
    for row in WAY:
        assert np.abs(q - row).max(axis=1).min() < 0.02
    values = {entry.key: entry.value for entry in status.values}
    assert float(values["duration [s]"]) == pytest.approx(t[-1], abs=1e-6)


def test_the_tool_path_is_that_of_the_motion(generator):
    generator.ask(waypoints(WAY))
    generator.client.wait(lambda: len(generator.tool_path), "the tool's path")
    path = generator.tool_path.newest
    assert path.header.frame_id == FRANKA.base_frame
    kinematics = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
    t, rows, speeds, _ = arrays(generator.trajectory.newest)
    np.testing.assert_allclose(rows[-1], WAY[-1], atol=1e-9)
    times = np.append(0.02 * np.arange(len(path.poses) - 1), t[-1])
    q = np.tile(FRANKA.home, (len(times), 1))
    q[:, FRANKA.indices(ARM)] = CubicHermiteSpline(t, rows, speeds)(times)
    points = np.array([(p.pose.position.x, p.pose.position.y, p.pose.position.z)
                       for p in path.poses])  # fmt: skip
    expected = kinematics.pose_batch(q, FRANKA.group("arm").tip)[:, :3, 3]
    np.testing.assert_allclose(points[[0, -1]], expected[[0, -1]], atol=1e-6)
    np.testing.assert_allclose(points, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (waypoints(WAY[:1]), "1 waypoint given; a motion needs at least 2"),
        (waypoints(WAY[[0, 0, 0]]), "all 3 waypoints are equal"),
        (waypoints(WAY + np.nan), "waypoint 0 has nan for joint"),
        (waypoints(WAY, names=ARM[:6]), "point 0 has 7 positions for 6 joints"),
        (waypoints(WAY, names=("elbow", *ARM[1:])), "elbow"),
        (waypoints(WAY, names=(ARM[1], *ARM[1:])), "more than once"),
        (waypoints(WAY, times=[0.0, 2.0, 1.0]), "time of waypoint 2 .* is not after"),
        (waypoints(WAY, times=[0.0, 0.05, 0.1]), "cannot be kept to their times"),
        (waypoints(WAY, times=[0.0, 1e9, 2e9]), "the motion takes 2e.09 s, which is more than"),
        (waypoints(WAY + 5.0), "its limits are"),
        (JointTrajectory(joint_names=list(ARM)), "no points"),
        (JointTrajectory(), "names no joints"),
        ("[", "is not YAML"),
        ("", "this is nothing"),
        ("task_space: {start: 3}", "path_spec"),
        ("c_space: {start: [0, 0], waypoints: [[0, 1]]}", "waypoints have shape"),
    ],
)  # fmt: skip
def test_bad_input_is_told_and_changes_nothing(generator, message, words):
    assert re.search(words, generator.refusal(message))


def tool_line(way: tuple[float, float, float]) -> str:
    """Return a straight tool path from the home pose by ``way`` [m], as YAML."""
    kinematics = Kinematics(FRANKA.tree, FRANKA.joint_names, base=FRANKA.base_frame)
    X = kinematics.pose(FRANKA.home, FRANKA.group("arm").tip)
    begin, end = X[:3, 3].tolist(), (X[:3, 3] + way).tolist()
    return (
        f"task_space:\n  start: {{position: {begin}, quat_xyzw: {to_quat_xyzw(X).tolist()}}}\n"
        f"  pieces:\n    - translation: {{position: {end}}}\n"
    )


def test_a_path_out_of_reach_says_how_far_it_can_be_followed(generator):
    assert "was followed for" in generator.refusal(tool_line((2.0, 0.0, 0.0)))


def test_a_motion_into_the_table_of_the_robot_itself_is_refused(generator):
    folded = WAY[[0, 0]].copy()
    folded[1] = [0.0, 1.7, 0.0, -3.0, 0.0, 0.1, 0.0]
    assert "collision" in generator.refusal(waypoints(folded))


def test_a_path_is_retimed_with_scalings(generator):
    answer = generator.retime(WAY)
    assert answer.error_code.val == Codes.SUCCESS, answer.error_code.message
    check_motion(answer.trajectory.joint_trajectory)
    full = arrays(answer.trajectory.joint_trajectory)[0][-1]
    half = generator.retime(
        WAY, max_velocity_scaling_factor=0.5, max_acceleration_scaling_factor=0.25
    )
    check_motion(half.trajectory.joint_trajectory, 0.5)
    assert arrays(half.trajectory.joint_trajectory)[0][-1] > 1.5 * full


def test_waypoints_may_be_constraints_and_begin_at_a_state(generator):
    rows = [
        Constraints(
            joint_constraints=[
                JointConstraint(joint_name=name, position=value)
                for name, value in zip(ARM, row.tolist(), strict=True)
            ]
        )
        for row in WAY[1:]
    ]
    call = GetMotionPlan.Request()
    call.motion_plan_request.trajectory_constraints.constraints = rows
    call.motion_plan_request.start_state = state(dict(zip(ARM, WAY[0].tolist(), strict=True)))
    answer = generator.client.call(GetMotionPlan, f"{NODE}/retime_path", call, WITHIN)
    plan = answer.motion_plan_response
    assert plan.error_code.val == Codes.SUCCESS, plan.error_code.message
    q = arrays(plan.trajectory.joint_trajectory)[1]
    np.testing.assert_allclose(q[[0, -1]], WAY[[0, -1]], atol=1e-9)


@pytest.mark.parametrize(
    ("points", "fields", "code", "words"),
    [
        (None, {}, Codes.INVALID_MOTION_PLAN, "give the waypoints once"),
        (WAY[:1], {}, Codes.INVALID_MOTION_PLAN, "at least 2"),
        (WAY + math.inf, {}, Codes.INVALID_MOTION_PLAN, "has inf"),
        (WAY, {"max_velocity_scaling_factor": -2.0}, Codes.INVALID_MOTION_PLAN, "is -2.0; allowed"),
        (WAY, {"max_velocity_scaling_factor": 1e-6}, Codes.INVALID_MOTION_PLAN, "is more than"),
        (WAY, {"max_cartesian_speed": 1e-9}, Codes.INVALID_MOTION_PLAN, "is more than"),
        (WAY, {"group_name": "leg"}, Codes.INVALID_GROUP_NAME, "leg"),
        (WAY, {"planner_id": "saturate"}, Codes.INVALID_MOTION_PLAN, "Did you mean 'saturation'"),
        (WAY, {"goal_constraints": [Constraints()]}, Codes.INVALID_GOAL_CONSTRAINTS, "planning"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_served_have_a_code_and_words(
    generator, points, fields, code, words
):
    answer = generator.retime(points, **fields)
    assert answer.error_code.val == code
    assert words in answer.error_code.message
    assert not answer.trajectory.joint_trajectory.points


def test_with_execute_the_robot_goes_there(generator):
    client = generator.client
    joints = client.listen(JointState, "/joint_states", BEST_EFFORT)

    def away() -> float:
        """Max distance of a joint from the last waypoint [rad]."""
        place = dict(zip(joints.newest.name, joints.newest.position, strict=True))
        return float(max(abs(place[name] - x) for name, x in zip(ARM, WAY[-1], strict=True)))

    assert client.set_parameters(NODE, execute=True).successful
    try:
        elsewhere = generator.ask(waypoints(WAY[1:] + 0.2))
        client.wait(lambda: generator.status.newest.level != DiagnosticStatus.OK, "a refusal")
        assert elsewhere.level == DiagnosticStatus.OK
        assert "start_tolerance" in generator.status.newest.message
        generator.ask(waypoints(WAY))
        client.wait(lambda: "execution succeeded" in generator.status.newest.message, "its end")
        client.wait(lambda: len(joints) and away() < 0.01, "the robot there")
        generator.ask(waypoints(WAY[::-1]))
        client.wait(lambda: len(generator.status) == 2, "its end")
        assert "execution succeeded" in generator.status.newest.message
    finally:
        assert client.set_parameters(NODE, execute=False, velocity_scaling=1.0).successful


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    robot = load_robot(str(write_two_arms(tmp_path_factory.mktemp("two_arms"))))
    defaults = {
        entry.field: entry.default
        for entry in declared(TrajectoryGeneratorParams)
        if entry.default is not dataclasses.MISSING
    }
    params = TrajectoryGeneratorParams(**{**defaults, "robot": "two_arms"})
    node = SimpleNamespace(robot=robot, params=params)
    state = SimpleNamespace(newest=lambda: (robot.home, ""))
    return GeneratorRequests(node, state, SimpleNamespace(scene=Scene(), note=""))


def asked(requests, joints, **fields):
    """Return a request for a short motion of joints from the home state."""
    home = requests.robot.home[requests.robot.indices(joints)]
    points = [home, home + 0.1, home + 0.15]
    message = JointTrajectory(joint_names=list(joints))
    message.points = [JointTrajectoryPoint(positions=q.tolist()) for q in points]
    reference = GenericTrajectory(joint_trajectory=[message])
    return MotionPlanRequest(reference_trajectories=[reference], **fields)


def test_the_speed_limit_applies_to_the_tip_of_the_requested_group(requests):
    joints = requests.robot.group("left_arm").joints
    free = requests.retimed(asked(requests, joints, group_name="left_arm"))
    fields = {"group_name": "left_arm", "max_cartesian_speed": 0.02}
    slow = requests.retimed(asked(requests, joints, **fields))
    named = requests.retimed(
        asked(requests, joints, cartesian_speed_limited_link=TIPS[0], **fields)
    )
    assert slow.motion.duration > 2.0 * free.motion.duration
    assert slow.motion.duration == pytest.approx(named.motion.duration)
    with pytest.raises(RequestRejected, match="name a group"):
        requests.retimed(asked(requests, joints, max_cartesian_speed=0.02))


@pytest.mark.parametrize("end", ["halt", "stopped", "newer"])
def test_a_request_under_way_is_not_executed_after_the_end(ros, monkeypatch, end):
    node = TrajectoryGeneratorNode(
        ros_args=["--ros-args", "-r", "__node:=another", "-p", "robot:=franka", "-p",
                  "execute:=true", "-p", "autostart:=false"]
    )  # fmt: skip
    try:
        node.trigger_configure()
        assert node.failure is None
        joints = node.robot.group("arm").joints
        message = asked(node.requests, joints).reference_trajectories[0].joint_trajectory[0]
        made = node.requests.from_waypoints(message)
        begun, go, generated, executed = threading.Event(), threading.Event(), [], []

        def generate(name: str, *, waits: bool):
            def job():
                generated.append(name)
                if waits:
                    begun.set()
                    assert go.wait(30.0)
                return made

            return job

        def execute(motion, _message):
            executed.append(generated[-1])
            return ExecutionResult(MoveItErrorCodes.SUCCESS, "")

        run, finished = node._run, threading.Event()

        def run_and_tell(job):
            try:
                run(job)
            finally:
                finished.set()

        monkeypatch.setattr(node, "_run", run_and_tell)
        monkeypatch.setattr(node._execution, "execute", execute)
        node._enqueue("waypoints", generate("first", waits=True))
        assert begun.wait(30.0)
        node._enqueue("waypoints", generate("second", waits=False))
        if end != "newer":
            node.halt() if end == "halt" else node.stopped("the suite was stopped")
        go.set()
        assert finished.wait(30.0)
        node._received.put(None)
        for worker in node._workers:
            worker.join()
        if end == "newer":
            # Perhaps twice: to find it valid, and where the first one stopped.
            assert generated[0] == "first"
            assert set(generated[1:]) == {"second"}
            assert executed[-1] == "second"
        else:
            assert (generated, executed) == (["first"], [])
    finally:
        node.destroy_node()


def test_a_wrong_request_leaves_the_motion_under_way(generator):
    client = generator.client
    assert client.set_parameters(NODE, execute=True, velocity_scaling=0.05).successful
    try:
        generator.trajectory.clear()
        message = waypoints(WAY)
        generator._waypoints.publish(message)
        states = client.listen(JointState, "/joint_states", BEST_EFFORT)
        client.wait(
            lambda: generator.status and "executing" in generator.status.newest.message, "the start"
        )
        client.wait(lambda: states and np.abs(states.newest.velocity).max() > 0.01, "motion")
        for wrong in (
            waypoints(WAY + 9.0),
            waypoints(WAY * np.nan),
            waypoints(WAY, names=["x"] * 7),
        ):
            assert "rejected" in generator.refusal(wrong)
        assert "rejected" in generator.refusal("{")
        client.wait(lambda: "succeeded" in generator.status.newest.message, "the end", 60.0)
    finally:
        assert client.set_parameters(NODE, execute=False, velocity_scaling=1.0).successful
