# SPDX-License-Identifier: Apache-2.0
"""motion record: messages of topics in files, and numbers by field name."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import rclpy
from geometry_msgs.msg import Point, Point32, Polygon
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.recording import RecordingFile, numbers_of, plain_message


def test_messages_become_plain_data_and_names():
    state = JointState(name=["a", "b"], position=[0.1, math.nan], velocity=[1.0, 2.0])
    state.header.frame_id = "base"
    data = plain_message(state)
    assert data["position"] == [0.1, None]
    assert data["effort"] == []
    json.dumps(data)
    numbers = dict(numbers_of(data))
    assert numbers["a.position"] == 0.1
    assert numbers["b.velocity"] == 2.0
    assert "b.position" not in numbers
    points = [
        JointTrajectoryPoint(positions=[1.0, 2.0]),
        JointTrajectoryPoint(positions=[3.0, 4.0]),
    ]
    trajectory = JointTrajectory(joint_names=["a", "b"], points=points)
    inside = dict(numbers_of(plain_message(trajectory)))
    assert [v for k, v in inside.items() if "positions" in k] == [1.0, 2.0, 3.0, 4.0]
    assert dict(numbers_of(plain_message(Polygon(points=[Point32(x=0.5)]))))["points[0].x"] == 0.5
    assert dict(numbers_of(plain_message(Point(x=1.5)))) == {"x": 1.5, "y": 0.0, "z": 0.0}


def test_a_file_that_is_there_is_kept(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("mine")
    with pytest.raises(InvalidConfig):
        RecordingFile(file)
    assert file.read_text() == "mine"
    with pytest.raises(InvalidConfig):
        RecordingFile(tmp_path / "a.bag")
    with pytest.raises(InvalidConfig):
        RecordingFile(tmp_path / "no" / "a.csv")


@pytest.fixture(scope="module")
def speaker():
    """A node that publishes joint states (best effort) and odometry (reliable)."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("speaker", context=context, namespace="cell")
    effort = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
    states = node.create_publisher(JointState, "joint_states", effort)
    odom = node.create_publisher(Odometry, "odom", 5)

    def say(count):
        everyone = all(p.get_subscription_count() > 0 for p in (states, odom))
        states.publish(JointState(name=["elbow"], position=[float(count)]))
        message = Odometry()
        message.pose.pose.position.x = 0.1 * count
        odom.publish(message)
        return everyone

    yield say
    node.destroy_node()
    rclpy.shutdown(context=context)


def recorded(speaker, file, *options, stop=False):
    """Run the command while the node publishes; return exit code, stdout and stderr.

    And the first message that had subscribers on both topics.
    """
    command = [sys.executable, "-m", "motion_nodes.cli.main", "record", "-o", str(file), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    count, first, end = 0, math.inf, time.monotonic() + 60.0
    while process.poll() is None:
        assert time.monotonic() < end
        if speaker(count):
            first = min(first, count)
        count += 1
        time.sleep(0.01)
        if stop and file.exists() and file.stat().st_size > 10_000:
            process.send_signal(signal.SIGINT)
            stop = False
    out, err = process.communicate()
    return process.returncode, out, err, first


def test_joints_and_odometry_are_recorded_from_the_first_message_on(speaker, tmp_path):
    file = tmp_path / "run.jsonl"
    code, out, err, first = recorded(speaker, file, "--seconds", "1.6")
    assert code == 0, err
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {line["topic"] for line in lines} == {"/cell/joint_states", "/cell/odom"}
    assert "recording /cell/odom" in err
    assert f"{len(lines)} messages in" in out
    states = [x["message"] for x in lines if x["type"] == "sensor_msgs/msg/JointState"]
    values = [state["position"][0] for state in states]
    assert len(values) > 5
    assert values == sorted(values)
    assert values[0] <= first
    places = [x["message"]["pose"]["pose"]["position"]["x"] for x in lines if "Odom" in x["type"]]
    assert places[0] <= 0.1 * first + 1e-9
    times = [line["time"] for line in lines]
    assert times == sorted(times)
    assert 0.3 < times[-1] - times[0] < 5.0


@pytest.mark.long
def test_one_topic_as_a_table_until_ctrl_c(speaker, tmp_path):
    file = tmp_path / "run.csv"
    code, out, err, _ = recorded(speaker, file, "--topic", "*/joint_states", stop=True)
    assert code == 0, err
    assert "messages in" in out
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    assert {row["topic"] for row in rows} == {"/cell/joint_states"}
    elbow = [float(row["value"]) for row in rows if row["name"] == "elbow.position"]
    assert len(elbow) > 5
    assert elbow == sorted(elbow)
