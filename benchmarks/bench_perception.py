# SPDX-License-Identifier: Apache-2.0
"""Occupancy maps: time per image, false and missed obstacles, distance fields, collision checks.

Run: ``python benchmarks/bench_perception.py`` (half a minute); ``--lockstep N`` or ``--latency N``
(minutes) measure reactions to crates instead. Times are CPU times of one thread. Recordings are
generated: exact ray casts of boxes from a moving camera, with noise, wrong and missing pixels; the
map is compared with the boxes after each image.

Reactions, in lockstep and over ROS: the tool follows a target at ``SPEED`` between two cameras
(``crate_crossing.py``), and a crate appears on its path ``room`` seconds before the undisturbed arm
would touch it. The reaction is the first commanded velocity that deviates from those of undisturbed
motions, over ROS by more than twice their spread. Times over ROS are simulated, from the last joint
state before the crate was placed.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from harness import Options, Report, Row, Spread, benchmark, motion_up, progress, take_turns
from crate_crossing import CAMERAS, RIGHT, CrateCrossing, touch_time
from crate_watcher import Watcher, deviation, series
from perception import boxes_seen
from perception.boxes_seen import EYE, SETTINGS, TABLE, camera, centres, depth_of, with_faults
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from motion_nodes.core.reactive.mpc_policy import MpcPolicy
from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.robot.loader import load_description, load_robot
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.core.scene.distance_field import field_around
from motion_nodes.core.scene.voxels import OCTOMAP, decode, encode, voxels
from motion_nodes.core.scene.world import World
from motion_nodes.extras.perception.occupancy_map import OccupancyMap
from motion_nodes.extras.perception.settings import MapSettings
from motion_nodes.nodes.demo import surprise
from motion_nodes.ros.names import REACTIVE_POLICY

LOW, HIGH = SETTINGS.region_min, SETTINGS.region_max
SEEDS = 2
SPEED = 0.25  # Velocity of the target [m/s]
POLICIES = {"rmpflow": RmpflowPolicy, "mpc": MpcPolicy}
UNDISTURBED = 3
LEAST = 0.05  # Min deviation of a reaction [rad/s]


def boxes_on_table(rng: np.random.Generator, count: int = 8) -> np.ndarray:
    """Return a table with boxes."""
    low = np.column_stack((rng.uniform((0.2, -0.5), (0.9, 0.4), (count, 2)), np.zeros(count)))
    high = low + rng.uniform(0.06, 0.2, (count, 3))
    return np.concatenate([TABLE[None], np.stack((low, high), 1)])


def cpu_times(work: Callable[[], object]) -> Spread:
    """Return the CPU times of 15 calls [s]."""
    return take_turns({"": work}, 15, 0.0, time.thread_time)[""]


def time_per_image(report: Report) -> None:
    """Time the processing of an image, from depth to message."""
    progress("time per image")
    rng = np.random.default_rng(0)
    boxes, pinhole = boxes_on_table(rng), camera(640, 480)
    depth = with_faults(depth_of(boxes, EYE, pinhole), rng)
    projection, made = DepthProjection(pinhole), OccupancyMap(MapSettings())
    spheres = np.column_stack((rng.uniform(-0.5, 0.5, (70, 3)), np.full(70, 0.06)))
    points = projection.points(depth)
    for k in range(3):
        made.add_view(points, EYE, 0.1 * k, spheres)
    solid = made.voxels()
    assert solid is not None
    data, many = encode(solid), np.tile(points, (16, 1))
    rows: list[Row] = []
    for name, work in {
        "depth image 640 x 480 to points": lambda: projection.points(depth),
        "307 200 points into the map": lambda: made.add_view(points, EYE, 1.0, spheres),
        "4.9 million points, of which a fifth are used":
            lambda: made.add_view(many, EYE, 1.0, spheres),
        f"{len(solid.cells)} occupied voxels as a solid": made.voxels,
        "merged to boxes": lambda: voxels(solid.resolution, solid.cells).boxes,
        "octomap encoded": lambda: encode(solid),
        "octomap decoded": lambda: decode(data, solid.resolution),
        "distance field of 800 000 voxels": made.distance_field,
    }.items():  # fmt: skip
        taken = cpu_times(work)
        rows.append({"": name, "least [ms]": 1e3 * taken.least, "median [ms]": 1e3 * taken.p50})
    report.table("Time per image", rows,
                 "Map of 100 x 100 x 80 voxels of 2 cm, 70 spheres of the robot.")  # fmt: skip


def recording(report: Report) -> None:
    """Replay recordings of a moving camera, and compare the map with the truth."""
    rows: list[Row] = []
    pinhole = camera(240, 180)
    projection = DepthProjection(pinhole)
    for noise, wrong in ((0.0, 0.0), (0.002, 0.002), (0.005, 0.01)):
        progress(f"recording with noise of {1e3 * noise:g} mm and {100 * wrong:g} % wrong pixels")
        false, missed, points, gone = list[int](), 0, 0, list[float]()
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            boxes = boxes_on_table(rng)
            made = OccupancyMap(SETTINGS)
            edge = made.settings.resolution
            for k in range(24):
                angle = 0.6 * np.sin(0.15 * k)
                eye = (0.6 - 1.1 * np.cos(angle), -1.1 * np.sin(angle), 0.9)
                X = boxes_seen.looking(eye, (0.6, 0.0, 0.1))
                depth = depth_of(boxes if k < 12 else boxes[:1], X, pinhole)
                image = with_faults(depth, rng, noise, wrong, 0.03) if noise else depth
                made.add_view(projection.points(image), X, 0.1 * k)
                found = centres(made)
                if k < 12 and len(found):
                    far = boxes_seen.surface_distance(boxes, found) > 2.0 * edge
                    false.append(int(far.sum()))
                if k == 11:
                    world = boxes_seen.points_inside(projection.points(depth), X, LOW, HIGH)
                    far = cKDTree(found).query(world)[0] > 2.0 * edge
                    missed, points = missed + int(far.sum()), points + len(far)
                if k >= 12 and not (found[:, 2] > 2.0 * edge).any():
                    gone.append(k - 11)
                    break
            else:
                gone.append(np.inf)
        rows.append({
            "noise at 1 m, wrong pixels": f"{1e3 * noise:g} mm, {100 * wrong:g} %",
            "false voxels": float(np.mean(false)), "max": max(false),
            "surface points missed": f"{missed} of {points}",
            "images until removed boxes are gone": max(gone),
        })  # fmt: skip
    report.table(
        "Recordings with a moving camera, 240 x 180 pixels, 8 boxes on a table", rows,
        "False: more than two voxels from any surface, mean over images. Missed: of one image, "
        "more than\ntwo voxels from any occupied one. 3 % of the pixels are missing.",
    )  # fmt: skip


def fields(report: Report) -> None:
    """Compare distance fields with exact distances."""
    rows: list[Row] = []
    for edge in (0.02, 0.05):
        progress(f"distance field of {100 * edge:g} cm")
        errors = []
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            made = OccupancyMap(replace(SETTINGS, resolution=edge, min_points=1))
            boxes_seen.seen(made, boxes_on_table(rng), count=2, pinhole=camera(320, 240))
            places = rng.uniform(LOW, HIGH, (200, 3))
            true = boxes_seen.voxel_distance(made.cells(), edge, places)
            errors.append(np.abs(made.distance_field().distance(places) - true) / edge)
        size = np.concatenate(errors)
        rows.append({"voxel": f"{100 * edge:g} cm", "points": len(size),
                     "mean error [voxels]": float(size.mean()),
                     "max [voxels]": float(size.max())})  # fmt: skip
    report.table("Distance fields against exact distances to the occupied voxels", rows)


def lookups(report: Report) -> None:
    """Time distances and gradients at points, beside the nearest of all voxels by brute force."""
    progress("distances and gradients at points")
    rng, edge = np.random.default_rng(0), 0.02
    solid = voxels(edge, np.floor(clutter(rng) / edge))
    field, places = (
        field_around(solid, 0.5),
        rng.uniform((0.0, -1.0, -0.2), (1.2, 1.0, 1.0), (1000, 3)),
    )
    assert field is not None
    exact: list[np.ndarray] = []
    calls = {
        "field around the voxels": lambda: field_around(solid, 0.5),
        "distances by the field": lambda: field.distance(places),
        "gradients by the field": lambda: field.gradient(places),
        "distances by brute force": lambda: exact.append(
            boxes_seen.voxel_distance(solid.cells.astype(float), edge, places)
        ),
    }  # fmt: skip
    rows = [{"": what, "least [ms]": 1e3 * cpu_times(call).least}
            for what, call in calls.items()]  # fmt: skip
    error = np.abs(field.distance(places) - exact[-1])[exact[-1] < 0.5] / edge
    report.table(
        f"{len(places)} points among {len(solid.cells)} voxels of 2 cm", rows,
        f"Errors within 0.5 m: mean {error.mean():.3f} voxels, max {error.max():.3f}.",
    )  # fmt: skip


def clutter(rng: np.random.Generator) -> np.ndarray:
    """Return points of a table and of 12 turned boxes on and above it [m], shape (n, 3)."""
    parts = [rng.uniform((0.2, -0.8, -0.06), (1.0, 0.8, -0.04), (40_000, 3))]
    for _ in range(12):
        half, middle = rng.uniform(0.03, 0.12, 3), rng.uniform((0.35, -0.7, 0.0), (0.9, 0.7, 0.6))
        points, axis = rng.uniform(-1.0, 1.0, (6000, 3)), rng.integers(0, 3, 6000)
        points[np.arange(6000), axis] = np.sign(points[np.arange(6000), axis])
        parts.append(middle + points * half @ Rotation.random(rng=rng).as_matrix())
    return np.concatenate(parts)


def reactions(report: Report) -> None:
    """Let RMPflow move to random goals among voxels, avoided as boxes and by their field."""
    robot, rows = load_robot("franka"), list[Row]()
    for edge in (0.03, 0.02, 0.01):
        progress(f"RMPflow among voxels of {1e3 * edge:g} mm")
        found: dict[bool, list[tuple[float, float, bool]]] = {False: [], True: []}
        counts: list[tuple[int, int]] = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            solid, world = voxels(edge, np.floor(clutter(rng) / edge)), World()
            world.add(OCTOMAP, solid)
            counts.append((len(solid.cells), len(solid.boxes)))
            checker = CollisionChecker(robot, "arm", scene=world.scene)
            Q = rng.uniform(checker.limits.lower, checker.limits.upper, (4000, 7))
            Q = Q[checker.are_free(Q)][:6]
            for by_field, runs in found.items():
                policy = RmpflowPolicy(robot)
                policy.use_distance_field(by_field)
                policy.set_scene(world.scene)
                for start, goal in itertools.pairwise(Q):
                    policy.set_internal_robot_joint_states(start, np.zeros(7))
                    policy.set_cspace_target(goal)
                    policy.set_end_effector_target(policy.tool_pose(goal)[:3, 3])
                    q, qd, touched = start, np.zeros(7), 0
                    begin = time.perf_counter()
                    path = []
                    for _ in range(480):
                        q, qd = policy.compute_joint_targets(q, qd, frame_duration=1.0 / 60.0)
                        path.append(q)
                    spent = (time.perf_counter() - begin) / 480
                    touched = int((~checker.exact.are_free(np.array(path[::4]))).any())
                    runs.append((spent, touched, policy.status.position_error < 0.01))
        for by_field, runs in found.items():
            spent, touched, arrived = np.array(runs, float).T
            rows.append({
                "voxel": f"{1e3 * edge:g} mm", "voxels": int(np.median([n for n, _ in counts])),
                "boxes": int(np.median([n for _, n in counts])),
                "avoided by": "field" if by_field else "boxes",
                "frame of 1/60 s [µs]": 1e6 * float(np.median(spent)), "runs": len(runs),
                "arrived": int(arrived.sum()), "touched": int(touched.sum()),
            })  # fmt: skip
    report.table("RMPflow of the Franka among voxels, random goals", rows)


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
    rows: list[Row] = []
    for edge in (0.02, 0.025, 0.03):
        solid, world = voxels(edge, np.floor(cloud / edge)), World()
        world.add("<octomap>", solid)
        checker = CollisionChecker(robot, "arm", scene=world.scene)
        Q = rng.uniform(checker.limits.lower, checker.limits.upper, (10_000, 7))
        free = Q[checker.are_free(Q)]
        times = [cpu_times(lambda q=q, c=checker: c.are_free(q)).least * 1e6 / len(q)
                 for q in (Q, free)]  # fmt: skip
        rows.append({
            "voxel": f"{1e3 * edge:g} mm", "voxels": len(solid.cells), "boxes": len(solid.boxes),
            "all [µs each]": times[0], "free ones [µs each]": times[1],
        })  # fmt: skip
    title = "The Franka against 100 000 points, 10 000 random configurations in a batch"
    report.table(title, rows)


def crate_row(label: str, found: list[tuple[float, float, bool, float, bool]]) -> Row:
    """Return a row of the table: when crates were seen, when the arm reacted, and how it ended."""
    seen, reaction, arrived, gap, touched = np.array(found, float).T
    return {
        "": label, "crates": len(found), "in the octomap [s]": float(np.median(seen)),
        "octomap, max [s]": float(seen.max()), "other velocity [s]": float(np.median(reaction)),
        "velocity, max [s]": float(reaction.max()), "arrived": int(arrived.sum()),
        "closest [mm]": 1e3 * float(gap.min()), "touched": int(touched.sum()),
    }  # fmt: skip


def lockstep_row(policy: str, crates: int, room: float, rate: float) -> Row:
    """Return a row of the table in lockstep."""
    crossing = CrateCrossing(POLICIES[policy](load_description(surprise.ARM)), SPEED, rate)
    checker = CollisionChecker(crossing.policy.robot, crossing.policy.active_joints)
    plain, rng, found = crossing.run(), np.random.default_rng(0), []
    for k in range(crates):
        crate = surprise.THERE + np.append(rng.uniform(-0.03, 0.03, 2), 0.0)
        placed = touch_time(checker, plain.times, plain.q, crate) - room
        run = crossing.run(crate, placed, k / crates / rate)
        end = crossing.policy.tool_pose(run.q[-1])[:3, 3]
        arrived = bool(np.linalg.norm(end - RIGHT) < surprise.ARRIVED)
        found.append((run.seen - placed, run.reaction(plain, placed) - placed, arrived,
                      run.verdict.clearance, run.verdict.touched()))  # fmt: skip
        progress(f"{policy}: crate {k + 1}: {found[-1]}")
    return crate_row(f"{policy}, {room:g} s, {rate:g} Hz", found)


def ros_row(policy: str, crates: int, room: float, rate: float) -> Row:
    """Return a row of the table over ROS."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        node = f"/{surprise.ARM}/{REACTIVE_POLICY}"
        file.write(f"{node}:\n  ros__parameters:\n    policy: {policy}\n")
        file.write(f"/mujoco_sim:\n  ros__parameters:\n    camera.rate: {rate}\n")
        file.flush()
        words = [f"{surprise.ARM}:={surprise.ARM}", "--viewer", "none", "--params-file", file.name,
                 "--object", surprise.OBJECT]  # fmt: skip
        for camera in CAMERAS:
            words += ["--camera", f"{surprise.ARM}/{camera}"]
        with motion_up(*words):
            client = Watcher()
            assert client.wait(lambda: client.ready, 300.0)
            row = crossings(client, f"{policy}, {room:g} s, {rate:g} Hz", crates, room)
            client.node.destroy_node()
    return row


def crossings(client: Watcher, label: str, crates: int, room: float) -> Row:
    """Let crates appear during crossings, which are compared with undisturbed ones."""
    plain = []
    for _ in range(UNDISTURBED):
        client.cross(SPEED)
        plain.append(list(client.references))
        times, path = series(client.states)
    after = touch_time(client.checker, times - times[0], path, surprise.THERE) - room
    threshold = max([LEAST, *(2.0 * float(deviation(a, plain[0])[:, 1].max()) for a in plain[1:])])
    progress(f"{label}: crates after {after:.2f} s; reactions are above {threshold:.3f} rad/s")
    found = []
    for k in range(crates):
        placed = client.cross(SPEED, after)
        far = deviation(client.references, plain[0])
        others = far[(far[:, 1] > threshold) & (far[:, 0] >= placed), 0]
        reaction = float(others.min(initial=np.inf)) - placed
        client.path[:] = [q for t, q in client.states if t >= placed]
        found.append((client.seen - placed, reaction, client.is_at(RIGHT),
                      surprise.clearance(client), client.crate_moved > 1e-3))  # fmt: skip
        progress(f"{label}: crate {k + 1}: {found[-1]}")
        client.put_crate(surprise.AWAY)
        client.wait_for_map(occupied=False, within=surprise.WITHIN)
    return crate_row(label, found)


@benchmark(
    "Perception", ros=True, latency=(0, "crates to place in a suite, instead of all else"),
    lockstep=(0, "crates to place in lockstep with the physics, instead of all else"),
    room=(1.0, "time before a touch at which they appear [s]"), rate=(10.0, "of cameras [Hz]"),
)  # fmt: skip
def main(report: Report, options: Options) -> None:
    """Measure and print."""
    if options.latency or options.lockstep:
        for measure, crates, how in (
            (lockstep_row, options.lockstep, "in lockstep"), (ros_row, options.latency, "over ROS")
        ):  # fmt: skip
            rows = [measure(k, crates, options.room, options.rate) for k in POLICIES if crates]
            report.table(f"From a crate to another velocity, {how}", rows)
        return
    for measure in (time_per_image, recording, fields, lookups, reactions, checks):
        measure(report)
