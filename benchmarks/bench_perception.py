# SPDX-License-Identifier: Apache-2.0
"""Occupancy maps: time for an image, false and missed obstacles, distance fields, collision checks.

Run: ``python benchmarks/bench_perception.py`` (half a minute), and with ``--latency N`` (minutes) a
suite in MuJoCo, see ``camera_latency.py``. Times are processor times of one thread. The recording
is made here: exact ray casts of boxes from a moving camera, with noise, wrong and missing pixels;
what is mapped is compared with the boxes after each image.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Cell, Report, arguments, progress
from scipy.spatial import cKDTree

from motion_nodes.model.loader import load_robot
from motion_nodes.perception.depth_camera import DepthProjection
from motion_nodes.perception.map_settings import MapSettings
from motion_nodes.perception.occupancy_map import OccupancyMap
from motion_nodes.scene.checker import CollisionChecker
from motion_nodes.scene.octree import decode, encode
from motion_nodes.scene.voxels import voxels
from motion_nodes.scene.world import World

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from perception.boxes_seen import camera, depth_of, looking, with_faults

TABLE = np.array([(0.1, -0.6, -0.1), (1.1, 0.6, 0.0)])
REGION = {"region_min": (0.0, -0.8, -0.2), "region_max": (1.2, 0.8, 0.8)}
SEEDS = 2


def cpu(work: Callable[[], object], count: int = 15) -> tuple[float, float]:
    """Return least and median processor time of a call [ms]."""
    taken = []
    for _ in range(count):
        begin = time.thread_time()
        work()
        taken.append(1e3 * (time.thread_time() - begin))
    return min(taken), float(np.median(taken))


def boxes_on_table(rng: np.random.Generator, count: int = 8) -> np.ndarray:
    """Return a table and boxes on it."""
    low = np.column_stack((rng.uniform((0.2, -0.5), (0.9, 0.4), (count, 2)), np.zeros(count)))
    high = low + rng.uniform(0.06, 0.2, (count, 3))
    return np.concatenate([TABLE[None], np.stack((low, high), 1)])


def time_per_image(report: Report) -> None:
    """Time an image from depth to message."""
    progress("time per image")
    rng = np.random.default_rng(0)
    boxes, pinhole = boxes_on_table(rng), camera(640, 480)
    X = looking((0.2, -0.9, 1.0), (0.6, 0.0, 0.1))
    depth = with_faults(depth_of(boxes, X, pinhole), rng)
    projection, made = DepthProjection(pinhole), OccupancyMap(MapSettings())
    spheres = np.column_stack((rng.uniform(-0.5, 0.5, (70, 3)), np.full(70, 0.06)))
    points = projection.points(depth)
    for k in range(3):
        made.add_view(points, X, 0.1 * k, spheres)
    solid = made.voxels()
    assert solid is not None
    data, many = encode(solid), np.tile(points, (16, 1))
    rows: list[list[Cell]] = [
        [name, *cpu(work)]
        for name, work in (
            ("depth image 640 x 480 to points", lambda: projection.points(depth)),
            ("307 200 points into the map", lambda: made.add_view(points, X, 1.0, spheres)),
            ("4.9 million points, of which a fifth are used",
             lambda: made.add_view(many, X, 1.0, spheres)),
            (f"{len(solid.cells)} occupied voxels as a solid", made.voxels),
            ("merged to boxes", lambda: voxels(solid.resolution, solid.cells).boxes),
            ("octomap encoded", lambda: encode(solid)),
            ("octomap decoded", lambda: decode(data, solid.resolution)),
            ("distance field of 800 000 voxels", made.distance_field),
        )
    ]  # fmt: skip
    report.table("Time per image", ("", "least [ms]", "median [ms]"), rows,
                 "Map of 100 x 100 x 80 voxels of 2 cm, 70 spheres of the robot.")  # fmt: skip


def outside(boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distance of points from the surfaces of boxes."""
    best = np.full(len(points), np.inf)
    for low, high in boxes:
        beyond = np.maximum(low - points, points - high)
        far = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
        best = np.minimum(best, np.abs(far + np.minimum(beyond.max(axis=1), 0.0)))
    return best


def recording(report: Report) -> None:
    """Replay recordings of a moving camera, and compare the map with the truth."""
    rows: list[list[Cell]] = []
    pinhole = camera(240, 180)
    projection = DepthProjection(pinhole)
    for noise, wrong in ((0.0, 0.0), (0.002, 0.002), (0.005, 0.01)):
        progress(f"recording with noise of {1e3 * noise:g} mm and {100 * wrong:g} % wrong pixels")
        false, missed, seen, gone = [], 0, 0, []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            boxes, made = boxes_on_table(rng), OccupancyMap(MapSettings(**REGION))
            edge = made.settings.resolution
            for k in range(24):
                here = boxes if k < 12 else boxes[:1]
                angle = 0.6 * np.sin(0.15 * k)
                X = looking((0.6 - 1.1 * np.cos(angle), -1.1 * np.sin(angle), 0.9), (0.6, 0.0, 0.1))
                depth = depth_of(here, X, pinhole)
                image = with_faults(depth, rng, noise, wrong, 0.03) if noise else depth
                made.add_view(projection.points(image), X, 0.1 * k)
                centres = (made.cells() + 0.5) * edge
                if k < 12 and len(centres):
                    false.append(int((outside(here, centres) > 2.0 * edge).sum()))
                if k == 11:
                    truth = projection.points(depth)
                    world = truth @ X[:3, :3].T + X[:3, 3]
                    low, high = REGION["region_min"], REGION["region_max"]
                    world = world[np.all((world > low) & (world < high), axis=1)]
                    far = cKDTree(centres).query(world)[0] > 2.0 * edge
                    missed, seen = missed + int(far.sum()), seen + len(far)
                if k >= 12 and not (centres[:, 2] > 2.0 * edge).any():
                    gone.append(k - 11)
                    break
            else:
                gone.append(np.inf)
        rows.append([f"{1e3 * noise:g} mm, {100 * wrong:g} %", float(np.mean(false)), max(false),
                     f"{missed} of {seen}", max(gone)])  # fmt: skip
    report.table(
        "Recordings with a moving camera, 240 x 180 pixels, 8 boxes on a table",
        ("noise at 1 m, wrong pixels", "false voxels", "max", "surface points missed",
         "images until removed boxes are gone"),
        rows,
        "False: more than two voxels from any surface, mean over images. Missed: of one image, "
        "more than\ntwo voxels from any occupied one. 3 % of the pixels are missing.",
    )  # fmt: skip


def fields(report: Report) -> None:
    """Compare distance fields with exact distances."""
    rows: list[list[Cell]] = []
    for edge in (0.02, 0.05):
        progress(f"distance field of {100 * edge:g} cm")
        error = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            made = OccupancyMap(MapSettings(resolution=edge, min_points=1, **REGION))
            X = looking((0.2, -0.9, 1.0), (0.6, 0.0, 0.1))
            pinhole = camera(320, 240)
            points = DepthProjection(pinhole).points(depth_of(boxes_on_table(rng), X, pinhole))
            for k in range(2):
                made.add_view(points, X, 0.1 * k)
            field, low = made.distance_field(), made.cells() * edge
            places = rng.uniform(REGION["region_min"], REGION["region_max"], (200, 3))
            for place, found in zip(places, field.distance(places), strict=True):
                beyond = np.maximum(np.maximum(low - place, place - low - edge), 0.0)
                error.append((found - np.sqrt((beyond**2).sum(axis=1).min())) / edge)
        size = np.abs(error)
        rows.append([f"{100 * edge:g} cm", len(error), float(size.mean()), float(size.max())])
    report.table("Distance fields against exact distances to the occupied voxels",
                 ("voxel", "points", "mean error [voxels]", "max [voxels]"), rows)  # fmt: skip


def checks(report: Report) -> None:
    """Time collision checks against 100 000 points."""
    progress("collision checks against 100 000 points")
    rng = np.random.default_rng(0)
    parts = [rng.uniform((0.2, -0.8, -0.02), (1.2, 0.8, 0.0), (40_000, 3))]
    for _ in range(20):
        half, middle = rng.uniform(0.03, 0.15, 3), rng.uniform((0.3, -0.7, 0.0), (1.1, 0.7, 0.6))
        points = rng.uniform(-1.0, 1.0, (3000, 3))
        axis = rng.integers(0, 3, len(points))
        points[np.arange(len(points)), axis] = np.sign(points[np.arange(len(points)), axis])
        parts.append(middle + points * half)
    cloud = np.concatenate(parts)
    robot = load_robot("franka")
    rows: list[list[Cell]] = []
    for edge in (0.02, 0.025, 0.03):
        solid, world = voxels(edge, np.floor(cloud / edge)), World()
        world.add("<octomap>", solid)
        checker = CollisionChecker(robot, "arm", scene=world.scene)
        Q = rng.uniform(checker.limits.lower, checker.limits.upper, (10_000, 7))
        free = Q[checker.are_free(Q)]
        times = [cpu(lambda q=q, c=checker: c.are_free(q))[0] * 1e3 / len(q) for q in (Q, free)]
        rows.append([f"{1e3 * edge:g} mm", len(solid.cells), len(solid.boxes), *times])
    report.table(
        "The Franka against 100 000 points, 10 000 random configurations in a batch",
        ("voxel", "voxels", "boxes", "all [µs each]", "free ones [µs each]"),
        rows,
    )


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--latency", type=int, default=0, metavar="N", help="crates to place")
    options = parser.parse_args()
    report = Report("Perception")
    if options.latency:
        from camera_latency import latency_row

        report.table(
            "From a crate before the camera to another command, over ROS; simulated time",
            ("", "crates", "in the octomap [s]", "max [s]", "other command [s]", "max [s]",
             "closest after [s]", "closest [mm]", "touched"),
            [latency_row(policy, options.latency) for policy in ("rmpflow", "mpc")],
        )  # fmt: skip
        report.write(options.json)
        return
    time_per_image(report)
    recording(report)
    fields(report)
    checks(report)
    report.write(options.json)


if __name__ == "__main__":
    main()
