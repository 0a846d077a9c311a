# SPDX-License-Identifier: Apache-2.0
"""Recordings as data sets of LeRobot: what the files hold is what was recorded at each frame."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow.parquet as parquet
import pytest
from PIL import Image as Picture
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
from typer.testing import CliRunner

from motion_nodes.cli.app import app
from motion_nodes.errors import InvalidConfig
from motion_nodes.ros.joint_topics import set_stamp
from motion_nodes.ros.recorded_episodes import DatasetTopics, recorded_episode
from motion_nodes.ros.recording import Received, recording_file

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


def recorded(file, messages, begin=10**18, stamped=True):
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
    file = recorded(tmp_path / "a.mcap", run(), stamped=stamped)
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
    files = [recorded(tmp_path / f"{k}.mcap", run(k, 500 + 100 * k)) for k in range(3)]
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
    file = recorded(tmp_path / "a.mcap", BROKEN[name])
    with pytest.raises(InvalidConfig):
        recorded_episode(file, "turn", DatasetTopics())


def test_topics_are_chosen_by_name_and_a_clock_that_was_set_back_is_told(tmp_path):
    two = [(k, f"/{robot}{topic}", message) for robot in "ab" for k, topic, message in run()]
    file = recorded(tmp_path / "two.mcap", two)
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
    file = recorded(tmp_path / "back.mcap", back, stamped=False)
    with pytest.raises(InvalidConfig):
        recorded_episode(file, "turn", DatasetTopics())
