# SPDX-License-Identifier: Apache-2.0
"""The plugin, and data sets, in LeRobot itself; skipped without it (``make test-lerobot``)."""

import importlib

import lerobot_standin as standin
import numpy as np
import pytest

from motion_nodes.extras.formats.lerobot_dataset import (
    CameraFrames,
    DatasetEpisode,
    png,
    write_dataset,
)

torch = pytest.importorskip("torch")
robots = pytest.importorskip("lerobot.robots")


def test_lerobot_makes_the_robot_from_its_configuration(monkeypatch):
    monkeypatch.syspath_prepend(str(standin.PLUGIN))
    plugin = importlib.import_module("lerobot_robot_motion_nodes")
    config = plugin.MotionNodesArmConfig(robot="so101", id="test")
    assert config.type == "motion_nodes_arm"
    made = importlib.import_module("lerobot.robots.utils").make_robot_from_config(config)
    assert isinstance(made, plugin.MotionNodesArm)
    assert isinstance(made, robots.Robot)
    assert "shoulder_pan.pos" in made.action_features


@pytest.mark.parametrize("joints", [1, 2])
def test_its_loader_reads_a_data_set_and_its_statistics_agree(tmp_path, monkeypatch, joints):
    loader = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rng = np.random.default_rng(2)
    names = [f"j{k}.pos" for k in range(joints)]
    episodes = []
    for task, count in (("pick", 300), ("place", 40), ("pick", 7)):
        columns = rng.normal(size=(2, joints, count))
        vectors = {
            key: dict(zip(names, of, strict=True))
            for key, of in zip(("observation.state", "action"), columns, strict=True)
        }
        images = rng.integers(0, 256, (count // 2 + 1, 12, 16, 3), dtype=np.uint8)
        camera = CameraFrames((12, 16, 3), [png(image) for image in images], np.arange(count) // 2)
        episodes.append((DatasetEpisode(task, vectors, {"front": camera}, "arm"), images))
    assert write_dataset(tmp_path / "set", [each for each, _ in episodes], 20) == 347
    found = loader.LeRobotDataset(
        "me/set", root=tmp_path / "set", delta_timestamps={"action": [0.0, 0.05]}
    )
    assert (found.num_episodes, found.num_frames, found.fps) == (3, 347, 20)
    index = 0
    for number, (episode, images) in enumerate(episodes):
        for k in range(len(episode)):
            frame = found[index]
            index += 1
            assert (frame["task"], int(frame["episode_index"])) == (episode.task, number)
            for key, shift in (("observation.state", (0,)), ("action", (0, 1))):
                table = np.stack(list(episode.vectors[key].values()), axis=1)
                rows = [table[min(k + s, len(table) - 1)] for s in shift]
                assert frame[key].numpy().reshape(-1) == pytest.approx(np.ravel(rows), abs=1e-6)
            shown = (255.0 * frame["observation.images.front"]).round().byte().numpy()
            assert (shown == images[k // 2].transpose(2, 0, 1)).all()
    batch = next(iter(torch.utils.data.DataLoader(found, batch_size=8, shuffle=True)))
    assert batch["observation.images.front"].shape == (8, 3, 12, 16)
    assert len(loader.LeRobotDataset("me/set", root=tmp_path / "set", episodes=[1])) == 40
    # LeRobot's own writer of the same frames describes them alike.
    features = {k: v for k, v in found.meta.features.items() if "." in k or k == "action"}
    own = loader.LeRobotDataset.create(
        "me/own", 20, features, root=tmp_path / "own", robot_type="arm", use_videos=False
    )
    for episode, images in episodes:
        for k in range(len(episode)):
            frame = {"task": episode.task, "observation.images.front": images[k // 2]}
            for key, columns in episode.vectors.items():
                frame[key] = np.array([column[k] for column in columns.values()], np.float32)
            own.add_frame(frame)
        own.save_episode()
    own.finalize()
    assert found.meta.info == own.meta.info
    parquet = importlib.import_module("pyarrow.parquet")
    for file in ("meta/episodes/chunk-000/file-000", "data/chunk-000/file-000", "meta/tasks"):
        here, there = (
            parquet.read_schema(tmp_path / f"{of}/{file}.parquet") for of in ("set", "own")
        )
        assert set(here.names) == set(there.names)
        for name in here.names:
            same = here.field(name).type, there.field(name).type
            assert same[0] == same[1] or "string" in str(same[0]), name
    for key in ("observation.state", "action"):
        for name in ("min", "max", "mean", "std", "count"):
            assert found.meta.stats[key][name] == pytest.approx(own.meta.stats[key][name], abs=1e-5)
    for name, tolerance in (("mean", 0.01), ("q50", 0.02), ("max", 0.02)):
        key = "observation.images.front"
        assert found.meta.stats[key][name] == pytest.approx(
            own.meta.stats[key][name], abs=tolerance
        )
