# SPDX-License-Identifier: Apache-2.0
"""Bounds of every floating-point field of every message type that the suite reads."""

import importlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, Twist
from moveit_msgs.action import MoveGroupSequence
from moveit_msgs.srv import GetMotionPlan, GetMotionSequence, GetPositionIK
from nav2_msgs.action import FollowPath, NavigateToPose
from nav_msgs.msg import Path as PathMessage
from raised_errors import about
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.bringup.bringup_config import BringupConfig
from motion_nodes.bringup.compose import nodes_for
from motion_nodes.core.robot import bounds
from motion_nodes.core.robot.placement import parse_placements
from motion_nodes.errors import InvalidCommand
from motion_nodes.ros.messages.message_bounds import (
    READ_ELSEWHERE,
    check_bounds,
    fault_of,
    fill_failure,
)
from motion_nodes.ros.messages.trajectory_messages import MAX_BYTES, size_fault, trajectory_from

INTERFACES = Path(__file__).parents[1] / "contracts" / "interfaces.yaml"


def types_read() -> list[type[Any]]:
    """Return the types that nodes of the suite read."""
    kinds = set()
    for node in yaml.safe_load(INTERFACES.read_text())["nodes"]:
        for endpoint in node["endpoints"]:
            package, space, name = endpoint["type"].split("/")
            found = getattr(importlib.import_module(f"{package}.{space}"), name)
            if endpoint["kind"] == "subscription":
                kinds.add(found)
            elif endpoint["kind"] == "service":
                kinds.add(found.Request)
            elif endpoint["kind"] == "action":
                kinds.add(found.Goal)
    return sorted(kinds, key=lambda kind: (kind.__module__, kind.__name__))


TYPES = types_read()


def numbers_in(message: Any, path: str = "") -> Iterator[tuple[str, Callable[[float], None]]]:
    """Yield path and setter of each floating-point field of a message; lists get one entry."""
    kind = type(message)
    owner = f"{kind.__module__.split('.')[0]}/{kind.__name__}"
    for field, form in message.get_fields_and_field_types().items():
        here = f"{path}.{field}" if path else field
        if (owner, field) in READ_ELSEWHERE or field == "covariance":
            continue
        value = getattr(message, field)
        if form in ("double", "float"):
            yield here, lambda x, m=message, f=field: setattr(m, f, x)
        elif form in ("sequence<double>", "sequence<float>"):
            yield here, lambda x, m=message, f=field: setattr(m, f, [0.0, x])
        elif hasattr(value, "get_fields_and_field_types"):
            yield from numbers_in(value, here)
        elif form.startswith("sequence<") and "/" in form:
            package, _, name = form[9:-1].partition("/")
            item = getattr(importlib.import_module(f"{package}.msg"), name)()
            setattr(message, field, [item])
            yield from numbers_in(item, f"{here}[0]")
            setattr(message, field, [])


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_no_number_of_any_type_is_unbounded(kind):
    """Default messages pass; a message with any number at 1e38 is refused, naming the field."""
    assert fault_of(kind()) == ""
    for path, put in list(numbers_in(kind())):
        message = kind()
        # The same field of a fresh message.
        del put
        for other, fresh in numbers_in(message):
            if other == path:
                fresh(1e38)
                with pytest.raises(InvalidCommand) as refusal:
                    check_bounds(message)
                assert path.partition("[")[0] in str(refusal.value)
                assert "1e+38" in str(refusal.value)
                assert "allowed is" in str(refusal.value)
                break
        else:
            raise AssertionError(path)


def test_the_number_that_ended_processes_is_refused():
    request = GetPositionIK.Request()
    request.ik_request.pose_stamped.pose.orientation.x = 1e155
    assert "orientation.x is 1e+155; allowed is -10 to 10" in fault_of(request)


def test_what_is_no_number_is_left_to_the_reader():
    twist = Twist()
    twist.linear.x, twist.angular.z = math.nan, math.inf
    assert fault_of(twist) == ""


def test_coordinates_on_the_earth_are_for_bases():
    stamped = PoseStamped()
    stamped.pose.position.y = 4.2e6
    assert fault_of(stamped)
    assert not fault_of(stamped, bounds.EARTH_LENGTH)
    assert not fault_of(PathMessage(poses=[stamped]))


def test_counts_and_texts_are_bounded():
    assert not fault_of(JointState(name=["a"] * bounds.NAMES))
    assert "name has 1001 entries; allowed are 1000" in fault_of(JointState(name=["a"] * 1001))
    assert fault_of(TFMessage(transforms=TFMessage().transforms * 0)) == ""
    assert "has 1000001 characters" in fault_of(String(data="x" * 1_000_001))
    pose = PoseStamped()
    pose.header.frame_id = "f" * 2000
    assert "header.frame_id has 2000 characters" in fault_of(pose)


@pytest.mark.parametrize("channel", ["positions", "velocities", "accelerations"])
def test_points_of_trajectories_are_bounded_where_they_are_read(channel):
    point = JointTrajectoryPoint(positions=[0.0], velocities=[0.0], accelerations=[0.0])
    point.time_from_start.sec = 1
    setattr(point, channel, [1e200])
    with pytest.raises(InvalidCommand, check=about(f"{channel} of j")):
        trajectory_from(JointTrajectory(joint_names=["j"], points=[point]), ["j"])
    setattr(point, channel, [0.0])
    point.time_from_start.sec = 2_000_000
    with pytest.raises(InvalidCommand, check=about("time_from_start of point[0]")):
        trajectory_from(JointTrajectory(joint_names=["j"], points=[point]), ["j"])


def test_giant_trajectories_are_refused_by_their_bytes():
    message = JointTrajectory(joint_names=["a", "b"])
    message.header.frame_id = "base"
    message.points = [JointTrajectoryPoint(positions=[0.0, 1.0])] * 100
    data = serialize_message(message)
    assert size_fault(data) == ""
    for part in range(4, len(data) // 4, 7):
        size_fault(data[:part])  # must not raise
    count = data.index((100).to_bytes(4, "little"))
    giant = data[:count] + (100_001).to_bytes(4, "little") + data[count + 4 :]
    assert size_fault(giant) == "a list of 100001 entries; allowed are 100000"
    message.joint_names = ["j"] * 20_000
    assert "20000 entries; allowed are 1000" in size_fault(serialize_message(message))
    assert "bytes; allowed are" in size_fault(bytes(MAX_BYTES + 1))


def test_the_supervisors_report_on_a_large_suite_is_read():
    placements = parse_placements([f"robot_{i}:=jetbot@{i},0,0" for i in range(16)])
    specs = nodes_for(BringupConfig(placements=placements, backend="mock"))
    nodes = ", ".join(spec.full_name.strip("/") for spec in specs)
    assert len(nodes) > bounds.NAME_LENGTH
    status = DiagnosticStatus(name="supervisor: container", message=nodes)
    status.values = [KeyValue(key="nodes", value=nodes)]
    assert not fault_of(DiagnosticArray(status=[status]))
    status.values[0].value = "x" * (bounds.REPORT_LENGTH + 1)
    assert "values[0].value" in fault_of(DiagnosticArray(status=[status]))


def test_a_failure_is_written_in_the_words_of_its_type():
    answer = fill_failure(Trigger.Response(success=True), "why")
    assert (answer.success, answer.message) == (False, "why")
    ik = fill_failure(GetPositionIK.Response(), "why", rejected=True)
    assert ik.error_code.val == ik.error_code.INVALID_GOAL_CONSTRAINTS
    assert ik.error_code.message == "why"
    assert fill_failure(GetPositionIK.Response(), "").error_code.val == ik.error_code.FAILURE
    # Its type has NONE only: a failure must have another code.
    for kind in (GetMotionSequence.Response, MoveGroupSequence.Result, GetMotionPlan.Response):
        inner = fill_failure(kind(), "why", rejected=True)
        code = getattr(inner, "response", None) or inner.motion_plan_response
        assert code.error_code.val == ik.error_code.INVALID_GOAL_CONSTRAINTS
        assert code.error_code.message == "why"
    drive = fill_failure(NavigateToPose.Result(), "why", rejected=True)
    assert (drive.error_code, drive.error_msg) == (FollowPath.Result.INVALID_PATH, "why")
    assert fill_failure(NavigateToPose.Result(), "").error_code == FollowPath.Result.UNKNOWN
