# SPDX-License-Identifier: Apache-2.0
"""Data sets of LeRobot, format v3.0: parquet files of frames, with images as PNG.

A folder with ``meta/info.json``, ``meta/stats.json``, ``meta/tasks.parquet``, ``meta/episodes/``
and one file per episode in ``data/``.

Source: https://huggingface.co/docs/lerobot/lerobot-dataset-v3, and files written by LeRobot 0.4.4.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from motion_nodes.errors import InvalidConfig
from motion_nodes.typing import Array

VERSION = "v3.0"
PER_FOLDER = 1000
"""Files per folder ``chunk-...``."""
ROW_GROUP = 256
"""Frames that are written at once."""
SAMPLED_IMAGES, SAMPLED_PIXELS = 20, 1024
"""Max number of an episode's images, and of pixels of each, from which statistics are taken."""
IMAGES = "observation.images."
_PATH = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_COUNTED = {
    "timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64",
    "task_index": "int64",
}  # fmt: skip


class CameraFrames(NamedTuple):
    """The images of a camera in an episode; one may serve several frames."""

    shape: tuple[int, int, int]
    """Height, width and channels (3)."""
    files: Sequence[bytes]
    """PNG of each image."""
    shown: NDArray[np.int64]
    """Number of the image of each frame, shape (n,)."""


@dataclass(frozen=True)
class DatasetEpisode:
    """What was observed and commanded at each of n frames."""

    task: str
    """The task as a sentence."""
    vectors: Mapping[str, Mapping[str, Array]]
    """For ``observation.state`` and ``action``: columns, shape (n,), by name."""
    cameras: Mapping[str, CameraFrames] = field(default_factory=dict)
    robot: str = ""
    """Name of the robot."""

    def __len__(self) -> int:
        return len(next(iter(next(iter(self.vectors.values())).values())))


def png(image: NDArray[np.uint8]) -> bytes:
    """Return an image, shape (h, w, 3), as a PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", compress_level=1)
    return file.getvalue()


def write_dataset(folder: Path, episodes: Iterable[DatasetEpisode], fps: int) -> int:
    """Write a data set; the folder appears when it is complete.

    Args:
        folder: a new one.
        episodes: with the same columns and cameras.
        fps: rate of the frames [Hz].

    Returns:
        Number of frames.

    Raises:
        InvalidConfig: the folder exists or cannot be written, there are no episodes, one differs
            from the first, or a library is missing.
    """
    try:
        import PIL.Image  # noqa: F401
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise InvalidConfig(
            f"{error.name} is not installed; run: pip install 'motion-nodes[lerobot]'"
        ) from None
    if folder.exists():
        raise InvalidConfig(f"{folder} already exists; choose another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            dataset = _Dataset(part, fps)
            for episode in episodes:
                dataset.add(episode)
            dataset.finish()
            part.chmod(0o755)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be written: {error.strerror}.") from None
    return dataset.frames


class _Dataset:
    def __init__(self, folder: Path, fps: int) -> None:
        self._folder, self._fps = folder, fps
        self.frames = 0
        self._robot = ""
        self._features: dict[str, dict[str, Any]] = {}
        self._tasks: dict[str, int] = {}
        self._rows: list[dict[str, Any]] = []
        """Of the table of episodes."""
        self._samples: dict[str, list[NDArray[Any]]] = {}
        """Rows of each feature, for each episode."""

    def add(self, episode: DatasetEpisode) -> None:
        """Write the frames of an episode."""
        number, count = len(self._rows), len(episode)
        self._set_features(episode)
        self._robot = self._robot or episode.robot
        columns = {
            key: np.stack([of[name] for name in self._features[key]["names"]], axis=1)
            for key, of in episode.vectors.items()
        }
        steps = np.arange(count)
        task = self._tasks.setdefault(episode.task, len(self._tasks))
        counted = (
            steps / self._fps, steps, np.full(count, number), self.frames + steps,
            np.full(count, task),
        )  # fmt: skip
        columns |= {k: v.reshape(-1, 1) for k, v in zip(_COUNTED, counted, strict=True)}
        columns = {k: v.astype(self._features[k]["dtype"]) for k, v in columns.items()}
        cameras = {IMAGES + name: frames for name, frames in episode.cameras.items()}
        place = {"chunk_index": number // PER_FOLDER, "file_index": number % PER_FOLDER}
        self._write(
            f"data/{_PATH.format(**place)}",
            (_frames(columns, cameras, slice(k, min(k + ROW_GROUP, count)))
             for k in range(0, count, ROW_GROUP)),
        )  # fmt: skip
        samples = columns | {key: _pixels(frames) for key, frames in cameras.items()}
        for key, rows in samples.items():
            self._samples.setdefault(key, []).append(rows)
        self._rows.append({
            "episode_index": number, "tasks": [episode.task], "length": count,
            **{f"data/{name}": value for name, value in place.items()},
            "dataset_from_index": self.frames, "dataset_to_index": self.frames + count,
            **{f"stats/{key}/{name}": value for key, rows in samples.items()
               for name, value in _statistics(rows, count, IMAGES in key).items()},
            "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0,
        })  # fmt: skip
        self.frames += count

    def finish(self) -> None:
        """Write what describes all episodes."""
        if not self._rows:
            raise InvalidConfig("a data set needs an episode.")
        from pyarrow import table

        keys = {name: [row[name] for row in self._rows] for name in self._rows[0]}
        self._write(f"meta/episodes/{_PATH.format(chunk_index=0, file_index=0)}", [table(keys)])
        self._write("meta/tasks.parquet", [_task_table(list(self._tasks))])
        stats = {
            key: _statistics(np.concatenate(rows), self.frames, IMAGES in key)
            for key, rows in self._samples.items()
        }
        info = {
            "codebase_version": VERSION, "robot_type": self._robot, "fps": self._fps,
            "total_episodes": len(self._rows), "total_frames": self.frames,
            "total_tasks": len(self._tasks), "chunks_size": PER_FOLDER,
            "data_files_size_in_mb": 100, "video_files_size_in_mb": 200,
            "splits": {"train": f"0:{len(self._rows)}"},
            "data_path": f"data/{_PATH}", "video_path": None, "features": self._features,
        }  # fmt: skip
        for name, content in (("info", info), ("stats", stats)):
            text = json.dumps(content, indent=4, ensure_ascii=False)
            (self._folder / "meta" / f"{name}.json").write_text(text, "utf-8")

    def _set_features(self, episode: DatasetEpisode) -> None:
        """Set the features by the first episode."""
        found: dict[str, dict[str, Any]] = {}
        for key, columns in episode.vectors.items():
            first = self._features.get(key, {}).get("names", [])
            names = first if set(first) == set(columns) else list(columns)
            found[key] = {"dtype": "float32", "shape": [len(names)], "names": names}
            if not all(np.isfinite(np.float32(column)).all() for column in columns.values()):
                raise InvalidConfig(f"{key} has values that are not finite", field=key)
        for name, frames in episode.cameras.items():
            axes = ["height", "width", "channels"]
            found[IMAGES + name] = {"dtype": "image", "shape": list(frames.shape), "names": axes}
        found |= {k: {"dtype": kind, "shape": [1], "names": None} for k, kind in _COUNTED.items()}
        self._features = self._features or found
        for key in {**self._features, **found}:
            here, first = found.get(key, {}), self._features.get(key, {})
            if here != first:
                raise InvalidConfig(
                    f"episode {len(self._rows)} has {key} of {here.get('shape', 'nothing')} "
                    f"{here.get('names', '')}, the first one {first.get('shape', 'nothing')} "
                    f"{first.get('names', '')}",
                    field=key,
                )

    def _write(self, name: str, tables: Iterable[Any]) -> None:
        from pyarrow.parquet import ParquetWriter

        path, writer = self._folder / name, None
        path.parent.mkdir(parents=True, exist_ok=True)
        for table in tables:
            writer = writer or ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer:
            writer.close()


def _frames(
    columns: Mapping[str, NDArray[Any]], cameras: Mapping[str, CameraFrames], part: slice
) -> Any:
    """Return a table of some frames."""
    import pyarrow as arrow

    found = {}
    for key, rows in columns.items():
        flat = arrow.array(rows[part].ravel())
        width = rows.shape[1]
        found[key] = arrow.FixedSizeListArray.from_arrays(flat, width) if width > 1 else flat
    kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    for key, frames in cameras.items():
        images = [{"bytes": frames.files[k], "path": None} for k in frames.shown[part]]
        found[key] = arrow.array(images, kind)
    return arrow.table(found)


def _task_table(tasks: list[str]) -> Any:
    """Return the table of tasks, whose sentences are the index for pandas."""
    import pyarrow as arrow

    index = "__index_level_0__"
    kinds = ((None, index, "unicode", "object"), ("task_index",) * 2 + ("int64",) * 2)
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    described = [dict(zip(keys, (*kind, None), strict=True)) for kind in kinds]
    pandas = {"index_columns": [index], "column_indexes": [], "columns": described}
    table = arrow.table({"task_index": list(range(len(tasks))), index: tasks})
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def _pixels(frames: CameraFrames) -> NDArray[np.float32]:
    """Return a sample of the pixels of a camera, shape (m, 3), in 0 to 1."""
    from PIL import Image

    chosen = np.linspace(0, len(frames.files) - 1, min(len(frames.files), SAMPLED_IMAGES))
    images = [np.asarray(Image.open(io.BytesIO(frames.files[int(k)]))) for k in chosen]
    flat = [image.reshape(-1, 3) for image in images]
    rows = np.concatenate([pixels[:: -(-len(pixels) // SAMPLED_PIXELS)] for pixels in flat])
    return rows.astype(np.float32) / np.float32(255.0)


def _statistics(rows: NDArray[Any], count: int, image: bool) -> dict[str, list[Any]]:
    """Return the statistics of a feature's rows; of an image by channel."""
    wide = rows.astype(np.float64)
    found = {"min": rows.min(0), "max": rows.max(0), "mean": wide.mean(0), "std": wide.std(0)}
    levels = np.quantile(wide, _QUANTILES, axis=0)
    found |= {f"q{round(100 * q):02d}": of for q, of in zip(_QUANTILES, levels, strict=True)}
    shaped = {k: v.reshape((3, 1, 1) if image else -1).tolist() for k, v in found.items()}
    return {**shaped, "count": [count]}
