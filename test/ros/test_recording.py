# SPDX-License-Identifier: Apache-2.0
"""motion record: messages in files, numbers by field name, data sets of LeRobot."""

import contextlib
import csv
import importlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as parquet
import pytest
import rclpy
from geometry_msgs.msg import Point, Point32, Polygon
from mcap.reader import make_reader
from mcap.writer import Writer
from nav_msgs.msg import Odometry
from PIL import Image as Picture
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rosbags.highlevel import AnyReader
from rosbags.typesys import get_types_from_msg
from rosidl_adapter.parser import parse_message_string
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from typer.testing import CliRunner

from motion_nodes.cli.app import app
from motion_nodes.cli.values import read_motion
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.environment import MESSAGE_PACKAGES
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.recorded_episodes import DatasetTopics, recorded_episode
from motion_nodes.ros.recording import (
    McapFile,
    Received,
    Recorder,
    RecordingFile,
    definition_of,
    message_type,
    numbers_of,
    plain_message,
    read_mcap,
    recording_file,
)


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


# ---- MCAP


@pytest.mark.parametrize("form", ["1", "transient_local"])  # Jazzy's, and that of later versions
def test_qos_of_recordings_of_ros2_bag_is_read(tmp_path, form):
    reliability = "2" if form == "1" else "best_effort"
    profile = f"- history: 3\n  depth: 0\n  reliability: {reliability}\n  durability: {form}\n"
    both = profile + profile.replace(f"durability: {form}", "durability: volatile")
    with (tmp_path / "a.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        for topic, offered in (("/a", profile), ("/b", both)):
            metadata = {"offered_qos_profiles": offered, "topic_type_hash": "RIHS01_0"}
            writer.add_message(writer.register_channel(topic, "cdr", schema, metadata), 1, b"", 1)
        writer.finish()
    found = [(each.topic, each.latched, each.reliable) for each in read_mcap(tmp_path / "a.mcap")]
    assert found == [("/a", True, False), ("/b", False, False)]


def test_a_definition_holds_those_of_all_its_types_as_rosidl_reads_them():
    text = definition_of("nav_msgs/msg/Odometry")
    own, *others = text.split("=" * 80 + "\nMSG: ")
    named = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in others}
    assert {"std_msgs/Header", "builtin_interfaces/Time", "geometry_msgs/Quaternion"} <= set(named)
    fields = [f.name for f in parse_message_string("nav_msgs", "Odometry", own).fields]
    assert fields == list(Odometry.get_fields_and_field_types())
    with pytest.raises(InvalidConfig):
        definition_of("nav_msgs/msg/Odometri")


def message_kinds():
    """Return the names of all message types of the packages that the suite uses."""
    found = []
    for package in MESSAGE_PACKAGES:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"{package}.msg")
            found += [f"{package}/msg/{name}" for name, kind in sorted(vars(module).items())
                      if hasattr(kind, "get_fields_and_field_types")]  # fmt: skip
    return found


def test_definitions_of_all_types_are_parsed_by_another_implementation():
    kinds = message_kinds()
    assert len(kinds) > 200
    for kind in kinds:
        text = definition_of(kind)
        marks = [line for line in text.splitlines() if "=====" in line and "#" not in line]
        assert set(marks) <= {"=" * 80}, kind  # each begins a line
        parsed = get_types_from_msg(text, kind)
        assert kind in parsed
        for name, (_, fields) in parsed.items():
            own = list(message_type(name).get_fields_and_field_types())
            names = [field for field, _ in fields]
            assert names == own, (kind, name)


@pytest.mark.parametrize(
    ("patterns", "topic", "selected"),
    [
        (["*"], "/a/joint_states", True),
        (["*"], "/a/move/_action/status", False),
        (["*"], "/_supervision/ping", False),
        (["*/_action/*"], "/a/move/_action/status", True),
        (["/_supervision/*"], "/_supervision/ping", True),
    ],
)
def test_hidden_topics_are_recorded_if_named_so(patterns, topic, selected):
    recorder = Recorder(None, None, patterns)
    assert recorder._selected(topic, ["std_msgs/msg/String"]) == selected


def test_what_is_written_is_read_by_the_library_as_it_was_received(tmp_path):
    file = tmp_path / "run.mcap"
    sink = recording_file(file)
    states = [
        JointState(name=["b", "other", "a"], position=[0.1 * k, 9.0, -0.2 * k]) for k in range(50)
    ]
    for k, state in enumerate(states):
        data, at = serialize_message(state), 10**9 + 10**7 * k
        kind = "sensor_msgs/msg/JointState"
        sink.write(Received("/joint_states", kind, data, at, at - 5))
    word = serialize_message(String(data="robot"))
    sink.write(Received("/robot_description", "std_msgs/msg/String", word, at, at, latched=True))
    sink.write(Received("/quick", "std_msgs/msg/String", word, at, at, reliable=False))
    sink.close()
    with file.open("rb") as opened:
        reader = make_reader(opened, validate_crcs=True)
        assert reader.get_header().profile == "ros2"
        found = list(reader.iter_messages(topics=["/joint_states"]))
        assert len(found) == len(states)
        for (schema, channel, message), state in zip(found, states, strict=True):
            assert (schema.encoding, channel.message_encoding) == ("ros2msg", "cdr")
            assert deserialize_message(message.data, JointState) == state
            assert message.log_time - message.publish_time == 5
    (latched,), (quick,) = (list(read_mcap(file, [topic])) for topic in ("/robot*", "/quick"))
    assert (latched.latched, latched.reliable) == (True, True)
    assert (quick.latched, quick.reliable) == (False, False)
    with AnyReader([file]) as other:  # another implementation of rosbag2
        offered = {each.topic: each.ext.offered_qos_profiles for each in other.connections}
        policies = {
            t: (q.durability.name, q.reliability.name, q.depth) for t, (q,) in offered.items()
        }
        assert policies == {
            "/joint_states": ("VOLATILE", "RELIABLE", 10),
            "/robot_description": ("TRANSIENT_LOCAL", "RELIABLE", 10),
            "/quick": ("VOLATILE", "BEST_EFFORT", 10),
        }
        (of,) = (each for each in other.connections if each.topic == "/joint_states")
        heard = [deserialize_message(data, JointState) for _, _, data in other.messages([of])]
        assert heard == states
        fields = [name for name, _ in other.typestore.get_msgdef(of.msgtype).fields]
        assert fields == list(JointState.get_fields_and_field_types())
    motion = read_motion(str(file), ["a", "b", "c"])
    assert motion.joint_names == ("a", "b")
    assert motion.positions[10] == pytest.approx([-2.0, 1.0])
    assert motion.times[-1] == pytest.approx(0.49)


def test_of_a_recording_that_was_killed_its_beginning_is_read(tmp_path):
    file = tmp_path / "run.mcap"
    sink = recording_file(file)
    rng = np.random.default_rng(0)
    for k in range(40):
        data = serialize_message(Float64MultiArray(data=rng.normal(size=10_000)))
        sink.write(Received("/numbers", "std_msgs/msg/Float64MultiArray", data, k + 1, k + 1))
    sink.close()
    whole = [m.arrived for m in read_mcap(file)]
    assert whole == list(range(1, 41))
    file.write_bytes(file.read_bytes()[:2_000_000])
    kept = [m.arrived for m in read_mcap(file)]
    assert kept == whole[: len(kept)]
    assert len(kept) > 5
    for at in rng.integers(0, 2_000_000, 40).tolist():  # damaged: an error, or what can be read
        damaged = bytearray(file.read_bytes()[:200_000])
        damaged[at % 1000 if at % 2 else at % 200_000] ^= 1 + at % 255
        (tmp_path / "damaged.mcap").write_bytes(damaged)
        with contextlib.suppress(InvalidConfig):
            assert all(m.kind for m in read_mcap(tmp_path / "damaged.mcap"))


@pytest.mark.parametrize("content", [b"", b"text", b"\x89MCAP0\r\n" + b"\xff" * 40])
def test_what_is_no_recording_is_told(tmp_path, content):
    file = tmp_path / "a.mcap"
    with pytest.raises(InvalidConfig):
        list(read_mcap(file))
    file.write_bytes(content)
    with pytest.raises(InvalidConfig):
        list(read_mcap(file))
    with pytest.raises(InvalidConfig):
        McapFile(file)
    with pytest.raises(InvalidConfig):
        read_motion(str(file), ["a"])


def test_a_recording_is_played_and_recorded_again_with_latched_topics(ros, tmp_path):
    first, second = tmp_path / "first.mcap", tmp_path / "second.mcap"
    sink = recording_file(first)
    for k in range(20):
        state = serialize_message(JointState(name=["elbow"], position=[float(k)]))
        at = 10**18 + 10**7 * k
        sink.write(Received("/played/joint_states", "sensor_msgs/msg/JointState", state, at, at))
    word = serialize_message(String(data="<robot/>"))
    topic = "/played/robot_description"
    sink.write(Received(topic, "std_msgs/msg/String", word, at, at, latched=True))
    for name, kind in (
        ("/played/no name", "String"),
        ("/played/joint_states", "Float64MultiArray"),
    ):
        sink.write(Received(name, f"std_msgs/msg/{kind}", word, at, at))
    sink.close()
    command = [sys.executable, "-m", "motion_nodes.cli.main", "play", str(first), "--rate", "0.5"]
    player = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    node = rclpy.create_node("reader")
    again = recording_file(second)
    recorder = Recorder(node, again, ["/played/*"])
    end = time.monotonic() + 90.0
    while player.poll() is None and time.monotonic() < end:
        recorder.discover()
        recorder.poll()
        time.sleep(0.02)
    recorder.poll(last=True)
    node.destroy_node()
    again.close()
    assert player.wait(60) == 0
    assert "20" in player.stdout.read()
    assert recorder.skipped == {}
    heard = {m.topic: m for m in read_mcap(second)}
    assert heard[topic].message().data == "<robot/>"
    assert heard[topic].latched
    assert heard["/played/joint_states"].message().position[0] == 19.0


KINDS = {
    JointState: "sensor_msgs/msg/JointState",
    Image: "sensor_msgs/msg/Image",
    String: "std_msgs/msg/String",
}
MS = 1_000_000


def state(names, position, velocity=()):
    return JointState(name=names, position=position, velocity=velocity)


def picture(level, encoding="rgb8"):
    count = 3 if encoding == "rgb8" else 4
    data = np.full((4, 6, count), level % 256, np.uint8)
    return Image(height=4, width=6, encoding=encoding, step=6 * count, data=data.tobytes())


def recorded_of_recorded_episodes(file, messages, begin=10**18, stamped=True):
    """Write (ms, topic, message) to a file."""
    sink = recording_file(file)
    for ms, topic, message in sorted(messages, key=lambda each: each[0]):
        if stamped and hasattr(message, "header"):
            set_stamp(message, begin + ms * MS)
        kind = KINDS[type(message)]
        arrived = begin + ms * MS + (5 * MS if stamped else 0)
        sink.write(Received(topic, kind, serialize_message(message), arrived, arrived))
    sink.close()
    return file


def run(seed=0, length=1000):
    """Return messages: two joints at 100 Hz, a wheel that is commanded by velocity, a camera."""
    at = range(0, length + 1, 10)
    found = [(0, "/robot_description", String(data="<robot version='1' name='two'/>"))]
    found += [(k, "/joint_states", state(["b", "a"], [k + seed, -0.5 * k])) for k in at]
    found += [(k, "/joint_command", state(["a", "b"], [2.0 * k, np.nan])) for k in at]
    found += [(k, "/joint_command", state(["wheel", "b"], [np.nan, 3.0 * k], [0.1 * k, 0.0]))
              for k in at]  # fmt: skip
    found += [(k + 20, "/camera/color/image_raw", picture(k // 10)) for k in range(0, length, 100)]
    return [*found, (0, "/camera/depth/image_rect_raw", picture(0, "32FC1"))]


@pytest.mark.parametrize("stamped", [True, False])
def test_frames_hold_the_newest_state_and_image_and_the_next_command(tmp_path, stamped):
    file = recorded_of_recorded_episodes(tmp_path / "a.mcap", run(), stamped=stamped)
    episode = recorded_episode(file, "turn", DatasetTopics(fps=20))
    observed, action = episode.vectors["observation.state"], episode.vectors["action"]
    assert (list(observed), sorted(action)) == (["b.pos", "a.pos"], ["a.pos", "b.pos", "wheel.vel"])
    at = 20.0 + 50.0 * np.arange(18)  # from the first image, at 20 ms, to the last, at 920 ms
    assert observed["b.pos"] == pytest.approx(at)
    assert observed["a.pos"] == pytest.approx(-0.5 * at)
    assert action["a.pos"] == pytest.approx(2.0 * (at + 50.0))
    assert action["b.pos"] == pytest.approx(3.0 * (at + 50.0))
    assert action["wheel.vel"] == pytest.approx(0.1 * (at + 50.0))
    (camera,) = episode.cameras.values()
    assert list(episode.cameras) == ["camera"]
    assert [10 * k for k in range(9)] == [
        np.asarray(Picture.open(io.BytesIO(png)))[0, 0, 0] for png in camera.files
    ]
    assert camera.shown == pytest.approx((at - 20.0) // 100.0)


def test_the_command_writes_a_data_set(tmp_path):
    files = [
        recorded_of_recorded_episodes(tmp_path / f"{k}.mcap", run(k, 500 + 100 * k))
        for k in range(3)
    ]
    folder = tmp_path / "set"
    words = ["dataset", *map(str, files), "-o", str(folder), "--fps", "10"]
    assert isinstance(CliRunner().invoke(app, words).exception, Exception)  # no task
    tasks = ["--task", "turn", "--task", "push", "--task", "turn"]
    done = CliRunner().invoke(app, [*words, *tasks])
    assert (done.exit_code, done.exception) == (0, None)
    info = json.loads((folder / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", 10, "two")
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (3, 15, 2)
    assert info["features"]["observation.images.camera"]["shape"] == [4, 6, 3]
    episodes = parquet.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    frames = []
    for episode in episodes:
        place = {key: episode[f"data/{key}"] for key in ("chunk_index", "file_index")}
        part = parquet.read_table(folder / info["data_path"].format(**place)).to_pylist()
        assert (episode["dataset_from_index"], episode["length"]) == (len(frames), len(part))
        frames += part
        assert {frame["episode_index"] for frame in part} == {episode["episode_index"]}
        assert [frame["timestamp"] for frame in part] == pytest.approx(0.1 * np.arange(len(part)))
    assert [frame["index"] for frame in frames] == list(range(15))
    tasks = parquet.read_table(folder / "meta/tasks.parquet").to_pydict()
    assert tasks == {"task_index": [0, 1], "__index_level_0__": ["turn", "push"]}
    assert [frame["task_index"] for frame in frames] == 4 * [0] + 5 * [1] + 6 * [0]
    stats = json.loads((folder / "meta/stats.json").read_text())
    for key in ("observation.state", "action"):
        rows = np.array([frame[key] for frame in frames])
        assert stats[key]["mean"] == pytest.approx(rows.mean(0), rel=1e-6)
        assert stats[key]["std"] == pytest.approx(rows.std(0), rel=1e-6)
        assert stats[key]["count"] == [15]
    image = frames[1]["observation.images.camera"]["bytes"]
    assert (np.asarray(Picture.open(io.BytesIO(image))) == 10).all()
    again = CliRunner().invoke(app, [*words, "--task", "turn"])
    assert again.exit_code != 0
    assert not list(tmp_path.glob(".set*"))


BROKEN = {
    "no states": [(0, "/joint_command", state(["a"], [0.0]))],
    "no commands": [(k, "/joint_states", state(["a"], [0.0])) for k in range(100)],
    "two robots": [(k, f"/{r}/joint_states", state(["a"], [0.0])) for k in (0, 1) for r in "ab"],
    "no common time": [(0, "/joint_states", state(["a"], [0.0])),
                       (99, "/joint_command", state(["a"], [0.0]))],
    "a gap": [each for each in run(0, 4000) if not 1000 < each[0] < 3000],
    "a gap at the end": [each for each in run() if "camera" not in each[1]]
    + [(9000, f"/joint_{of}", state(["a"], [1.0])) for of in ("states", "command")],
    "a camera that stops": [each for each in run(0, 4000) if "image" not in each[1]]
    + [(0, "/image", picture(0))],
    "two sizes": [*run(), (500, "/camera/color/image_raw",
                           Image(height=1, width=1, encoding="rgb8", step=3, data=bytes(3)))],
    "nothing finite": [(k, t, state(["a"], [np.nan])) for k in range(0, 100, 10)
                       for t in ("/joint_states", "/joint_command")],
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_episode_is_told(tmp_path, name):
    file = recorded_of_recorded_episodes(tmp_path / "a.mcap", BROKEN[name])
    with pytest.raises(InvalidConfig):
        recorded_episode(file, "turn", DatasetTopics())


def test_topics_are_chosen_by_name_and_a_clock_that_was_set_back_is_told(tmp_path):
    two = [(k, f"/{robot}{topic}", message) for robot in "ab" for k, topic, message in run()]
    file = recorded_of_recorded_episodes(tmp_path / "two.mcap", two)
    episode = recorded_episode(file, "turn", DatasetTopics(topics=["/b/joint*", "*color*"]))
    assert list(episode.cameras) == ["a_camera", "b_camera"]
    one = DatasetTopics(topics=["/b/joint_states", "/a/camera/*"], action="/a/joint_states")
    episode = recorded_episode(file, "turn", one)
    assert (list(episode.vectors["action"]), list(episode.cameras)) == (
        ["b.pos", "a.pos"], ["a_camera"],
    )  # fmt: skip
    with pytest.raises(InvalidConfig):
        recorded_episode(file, "turn", DatasetTopics(action="/c/joint_command"))
    with pytest.raises(InvalidConfig):
        DatasetTopics(fps=0)
    back = run()[1:]
    for ms, _, message in back:
        set_stamp(message, (ms if ms < 500 else ms - 400) * 10 * MS + MS)
    file = recorded_of_recorded_episodes(tmp_path / "back.mcap", back, stamped=False)
    with pytest.raises(InvalidConfig):
        recorded_episode(file, "turn", DatasetTopics())
