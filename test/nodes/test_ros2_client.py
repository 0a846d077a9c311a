# SPDX-License-Identifier: Apache-2.0
"""The verbs of ros2: messages from and to YAML, and calls to a small node."""

import math
import subprocess
import sys
import threading

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from patience import wait_until
from rcl_interfaces.msg import ParameterType, ParameterValue
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python
from sensor_msgs.msg import Imu, JointState
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import Bool, Float64, String, UInt8
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from motion_nodes.cli.ros2 import run
from motion_nodes.errors import InvalidCommand, MotionError
from motion_nodes.nodes.clients.ros2.messages import interface_type, message_from, message_text
from motion_nodes.nodes.clients.ros2.nodes import _typed


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (PoseStamped(), "{header: {frame_id: base}, pose: {position: {x: 1, y: -2.5e-3}}}"),
        (JointState(), "{name: [a, b], position: [1, 2.5]}"),
        (JointTrajectory(), "{points: [{positions: [1], time_from_start: {sec: 2}}, {}]}"),
        (DiagnosticStatus(), "{level: 2, values: [{key: it's, value: 'x: y'}]}"),
        (SolidPrimitive(), "{type: 1, dimensions: [1, 2, 3]}"),
        (Imu(), "{orientation_covariance: [0, 0, 0, 0, 0, 0, 0, 0, 7]}"),
        (Bool(), "{data: true}"),
        (Float64(), ""),
    ],
)
def test_a_printed_message_reads_as_the_same_message(message, text):
    filled = message_from(text, message)
    assert message_from(message_text(filled), type(message)()) == filled


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1e9", "DOUBLE", 1e9),  # PyYAML alone takes it for text
        ("-2E-3", "DOUBLE", -2e-3),
        ("2", "DOUBLE", 2.0),
        ("[1e3, 2, 0.5]", "DOUBLE_ARRAY", [1000.0, 2.0, 0.5]),
        ("[]", "DOUBLE_ARRAY", []),
        ("5", "INTEGER", 5),
        ("1e9", "STRING", "1e9"),
        ("['1e9', x]", "STRING_ARRAY", ["1e9", "x"]),
        ("true", "BOOL", True),
    ],
)
def test_values_of_parameters_have_the_type_of_the_parameter(text, kind, value):
    wanted = getattr(ParameterType, f"PARAMETER_{kind}")
    typed = _typed(text, ParameterValue(type=wanted))
    assert typed.type == wanted
    assert list(np.atleast_1d(parameter_value_to_python(typed))) == list(np.atleast_1d(value))


@pytest.mark.parametrize("text", ["@x", "{", "[1", "99999999999999999999"])
def test_values_that_no_parameter_has_are_refused(text):
    with pytest.raises(MotionError):
        _typed(text, ParameterValue(type=ParameterType.PARAMETER_INTEGER))
    assert _typed("{a: b}", ParameterValue()).string_value == "{a: b}"


@pytest.mark.parametrize("word", [".nan", "nan", "NaN"])
def test_not_a_number(word):
    filled = message_from(f"{{data: {word}}}", Float64())
    assert math.isnan(filled.data)
    assert message_text(filled) == "data: .nan"


@pytest.mark.parametrize(
    ("message", "text", "named"),
    [
        (Float64(), "{dat: 1}", "dat"),
        (Float64(), "{data: x}", "data"),
        (Float64(), "{data: true}", "data"),
        (Float64(), "[1]", "fields"),
        (Float64(), "{data: 1", "YAML"),
        (UInt8(), "{data: 256}", "data"),
        (UInt8(), "{data: -1}", "data"),
        (UInt8(), "{data: 1.0}", "data"),
        (String(), "{data: 5}", "data"),
        (Bool(), "{data: 1}", "data"),
        (JointState(), "{position: 1}", "position"),
        (JointState(), "{position: [a]}", "position"),
        (Imu(), "{orientation_covariance: [1]}", "orientation_covariance"),
        (SolidPrimitive(), "{dimensions: [1, 2, 3, 4]}", "dimensions"),
        (PoseStamped(), "{pose: 3}", "pose"),
        (PoseStamped(), "{pose: now}", "now"),
        (JointTrajectory(), "{points: [{position: []}]}", "points[0].position"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(message, text, named):
    with pytest.raises(MotionError) as error:
        message_from(text, message)
    assert named in str(error.value)


@pytest.mark.parametrize("name", ["Bool", "std_msgs/srv/Bool", "std_msgs/msg/Boo", "no_msgs/Bool"])
def test_unknown_types(name):
    with pytest.raises(InvalidCommand):
        interface_type(name, "msg")
    assert interface_type("std_msgs/Bool", "msg") is Bool


@pytest.fixture(scope="module")
def listener():
    """A node with a topic, a service and a parameter, spun by a thread."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("listener", context=context)
    node.received = []
    node.create_subscription(Float64, "number", lambda m: node.received.append(m.data), 10)
    latched = node.create_publisher(
        String,
        "word",
        rclpy.qos.QoSProfile(depth=1, durability=rclpy.qos.DurabilityPolicy.TRANSIENT_LOCAL),
    )
    latched.publish(String(data="hello"))

    def answer(request, response):
        response.success, response.message = request.data, "heard"
        return response

    node.create_service(SetBool, "switch", answer)
    node.declare_parameter("gain", 1.5)
    node.declare_parameter("label", "5")
    node.declare_parameter("axes", rclpy.Parameter.Type.STRING_ARRAY)  # without a value
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield node
    executor.shutdown()
    thread.join(5.0)
    node.destroy_node()  # or it would stay in the graph of later tests
    context.shutdown()


def ros2(capsys, *words):
    code = run(list(words), "ros2")
    told = capsys.readouterr()
    return code, told.out + told.err


def ros2_process(*words):
    """The same in a separate process, as other tests of this one have initialized rclpy."""
    code = "import sys; from motion_nodes.cli.ros2 import run; sys.exit(run(sys.argv[1:], 'ros2'))"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_verbs_against_a_node(listener):
    code, told = ros2_process(
        "topic", "pub", "--once", "/number", "std_msgs/msg/Float64", "{data: 2}"
    )
    assert code == 0, told
    wait_until(lambda: listener.received, "the number")
    assert listener.received == [2.0]
    # Latched: it was published before.
    code, told = ros2_process("topic", "echo", "--once", "/word")
    assert (code, told) == (0, "data: 'hello'\n---\n")
    code, told = ros2_process("topic", "echo", "--once", "--timeout", "0.3", "/number")
    assert code == 1
    code, told = ros2_process("service", "call", "/switch", "std_srvs/srv/SetBool", "{data: true}")
    assert code == 0
    assert "success: true" in told
    code, told = ros2_process("param", "set", "/listener", "gain", "2e0")
    assert code == 0, told
    assert listener.get_parameter("gain").value == 2.0
    assert ros2_process("param", "set", "/listener", "label", "6")[0] == 0
    assert listener.get_parameter("label").value == "6"
    assert ros2_process("param", "get", "/listener", "axes")[0] == 0
    assert ros2_process("param", "dump", "/listener")[0] == 0
    assert ros2_process("param", "set", "/listener", "axes", "['z']")[0] == 0
    assert listener.get_parameter("axes").value == ["z"]
    code, told = ros2_process("param", "get", "/listener", "gian")
    assert code == 1
    assert "'gain'" in told
    code, told = ros2_process("param", "set", "/listener", "axes", "2")
    assert code == 1
    assert "string array" in told
    code, told = ros2_process(
        "topic", "pub", "--once", "--max-wait-time-secs", "2.5", "/nunber", "std_msgs/msg/Float64"
    )
    assert code == 1
    assert "Did you mean '/number'?" in told
    code, told = ros2_process(
        "topic", "pub", "--once", "--max-wait-time-secs", "2.5", "/number", "std_msgs/String"
    )
    assert code == 1
    assert "whose type is std_msgs/msg/Float64" in told
    # On a loaded machine nodes are discovered one by one.
    listed = ros2_process("node", "list", "--spin-time", "3")[1].split()
    assert "/listener" in listed
    code, told = ros2_process("topic", "list", "-t")
    assert "/number [std_msgs/msg/Float64]" in told.splitlines()
    assert "_ros2cli" not in told


def test_what_is_no_command(capsys):
    code, told = ros2(capsys, "bag", "record")
    assert code == 2
    assert "motion record" in told
    with pytest.raises(SystemExit):
        ros2(capsys, "topic", "pub", "/a", "sensor_msgs/msg/JointState", "{name:", "[joint]}")
    assert "quotes" in capsys.readouterr().err
    assert ros2(capsys, "launch", "nav2_bringup", "x.launch.py")[0] == 1
    assert ros2(capsys, "launch", "motion_nodes", "bringup.launch.py", "robt:=franka")[0] == 1
    assert ros2(capsys, "run", "motion_nodes", "moveit")[0] == 1
    code, told = ros2(capsys, "launch", "motion_nodes", "bringup.launch.py", "--show-args")
    assert code == 0
    assert "'robot'" in told
