# SPDX-License-Identifier: Apache-2.0
"""What base motion costs, and how closely three bases in MuJoCo follow paths.

Run: ``python benchmarks/bench_base_motion.py`` (4 min).

The first tables time the core alone, in this process. The last one drives a JetBot, a Kaya and a
Leatherback along a circle, a figure of eight and a square (rounded for the car) through the
follow_path action, and compares odometry and the simulation's truth with the path.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from child_processes import isolate, node_command, running
from report import Cell, Report, Spread, arguments, progress

from motion_nodes.base_navigation.base_motion import BaseMotion
from motion_nodes.base_navigation.dubins import dubins_path
from motion_nodes.base_navigation.follow_path import FollowConfig, FollowPath
from motion_nodes.base_navigation.go_to_pose import GoToPose
from motion_nodes.base_navigation.motion_limits import BaseKind, MotionLimits
from motion_nodes.base_navigation.navigator import Navigator
from motion_nodes.base_navigation.planar_path import PlanarPath
from motion_nodes.base_navigation.planar_pose import Pose2
from motion_nodes.base_navigation.quintic_path import SOURCE_DURATIONS, PathEnd, plan_quintic
from motion_nodes.base_navigation.stanley import SteeringConfig
from motion_nodes.bases.base import Twist2
from motion_nodes.bases.odometry import Odometry

DT = 0.02
LIMITS = MotionLimits(
    max_velocity=0.5, max_acceleration=1.0, max_deceleration=1.0,
    max_yaw_velocity=2.5, max_yaw_acceleration=8.0, max_yaw_deceleration=8.0,
)  # fmt: skip
ROBOTS = {
    "jetbot": ("differential_base", "diff_drive_controller"),
    "kaya": ("holonomic_base", "mecanum_drive_controller"),
    "leatherback": ("ackermann_base", "ackermann_steering_controller"),
}


def circle(radius: float) -> PlanarPath:
    """Return a circle to the left."""
    a = np.linspace(0.0, math.tau, 200)
    return PlanarPath(np.column_stack((radius * np.sin(a), radius * (1.0 - np.cos(a)), a)))


def figure_of_eight(size: float) -> PlanarPath:
    """Return a figure of eight, 4 sizes long and 2 wide, begun at its crossing."""
    a = np.linspace(0.0, math.tau, 400)
    yaw = np.unwrap(np.arctan2(np.cos(2.0 * a), np.cos(a)))
    points = np.column_stack((2.0 * size * np.sin(a), size * np.sin(2.0 * a), yaw))
    return PlanarPath(points)


def square(side: float, radius: float) -> PlanarPath:
    """Return a square begun in the middle of a side, its corners rounded unless radius is 0."""
    rows: list[Sequence[float]] = [(0.0, 0.0, 0.0)]
    inner = 0.5 * side - radius
    for corner in range(4):
        middle = Pose2(0.0, 0.5 * side, 0.5 * math.pi * corner)
        centre = middle.compose(Pose2(inner, -inner))
        for angle in np.linspace(0.0, 0.5 * math.pi, 20 if radius else 1):
            yaw = middle.yaw + float(angle)
            x, y = centre.x + radius * math.sin(yaw), centre.y - radius * math.cos(yaw)
            rows.append((x, y, yaw))
    return PlanarPath([*rows, (0.0, 0.0, math.tau)])


def shapes(robot: str) -> dict[str, PlanarPath]:
    """Return the paths that a robot drives."""
    if robot == "leatherback":
        # What its steering can do: 0.46 m is its tightest curve.
        return {"circle": circle(0.8), "eight": figure_of_eight(1.3), "square": square(2.4, 0.8)}
    return {"circle": circle(0.8), "eight": figure_of_eight(0.7), "square": square(1.2, 0.0)}


# ---- the core alone


def steps_of(motion: BaseMotion, kind: BaseKind) -> Spread:
    """Return the time of one control step [µs] while an ideal base carries a motion out."""
    navigator, odometry, times = Navigator(LIMITS, kind=kind), Odometry(), []
    navigator.start(motion, "benchmark", Twist2())
    for _ in range(20_000):
        pose = Pose2(odometry.x, odometry.y, odometry.yaw)
        begin = time.perf_counter_ns()
        twist = navigator.step(pose, odometry.twist, DT)
        times.append(1e-3 * (time.perf_counter_ns() - begin))
        if twist is None:
            break
        odometry.advance(twist.scaled(DT), DT)
    return Spread.of(times)


def timed(work: Callable[[], Any], count: int) -> Spread:
    """Return the time of a piece of work [µs]."""
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        work()
        times.append(1e-3 * (time.perf_counter_ns() - begin))
    return Spread.of(times)


def show_steps(report: Report) -> None:
    """Time control steps."""
    progress("control steps")
    goal, eight = Pose2(4.0, 2.0, 1.0), figure_of_eight(1.0)
    steering = SteeringConfig(wheelbase=0.32, max_steering_angle=0.6)
    motions: list[tuple[str, BaseKind, BaseMotion]] = [
        (f"to a pose, {kind}", kind, GoToPose(kind, goal, LIMITS))
        for kind in ("differential", "holonomic")
    ]
    for kind, law in (("differential", "stanley"), ("differential", "rear_axle"),
                      ("ackermann", "stanley"), ("holonomic", "stanley")):  # fmt: skip
        config = FollowConfig(limits=LIMITS, steering=steering, law=law)
        name = kind if kind == "holonomic" else f"{kind}, {law}"
        motions.append((f"figure of eight, {name}", kind, FollowPath(kind, eight, config)))
    rows: list[list[Cell]] = []
    for text, kind, motion in motions:
        spread = steps_of(motion, kind)
        rows.append([text, spread.p50, spread.p99, spread.count])
    report.table(
        "One control step of the navigator, ramp and checks included",
        ["", "median [µs]", "p99 [µs]", "steps"], rows,
    )  # fmt: skip


def show_plans(report: Report) -> None:
    """Time plans, and show what the first possible duration saves."""
    progress("plans")
    rng = np.random.default_rng(1)
    pairs = [
        (Pose2(), Pose2(float(x), float(y), float(yaw)))
        for x, y, yaw in rng.uniform((2.0, -3.0, -2.0), (6.0, 3.0, 2.0), (100, 3))
    ]
    ends = [[PathEnd(pose=p, velocity=0.5, acceleration=0.02) for p in pair] for pair in pairs]
    limits = {"max_acceleration": 1.5, "max_jerk": 0.3}
    thousand = figure_of_eight(4.0).resampled(0.04).poses()
    config = FollowConfig(limits=LIMITS, steering=SteeringConfig(wheelbase=0.3))
    turns, more = iter(ends * 2), iter(pairs * 2)
    works = {
        "quintic, first duration": lambda: plan_quintic(*next(turns), **limits),
        "Dubins path": lambda: dubins_path(*next(more), 0.5),
        f"path of {len(thousand)} poses, ready to follow": lambda: FollowPath(
            "differential", PlanarPath(thousand), config
        ),
    }
    rows: list[list[Cell]] = []
    for text, work in works.items():
        spread = timed(work, 100)
        rows.append([text, spread.p50, spread.p99])
    report.table("Plans", ["", "median [µs]", "p99 [µs]"], rows)
    ours = [plan_quintic(*pair, **limits).duration for pair in ends]
    grid = [plan_quintic(*pair, **limits, durations=SOURCE_DURATIONS).duration for pair in ends]
    report.table(
        "Duration of 100 random quintic paths [s]",
        ["", "mean", "shortest", "longest"],
        [[text, float(np.mean(values)), min(values), max(values)]
         for text, values in (("first possible", ours), ("first of 5, 10, 15, ...", grid))],
    )  # fmt: skip


# ---- in MuJoCo


class Tracks:
    """Poses that a robot's odometry and the simulation tell."""

    def __init__(self, node: Any, controller: str) -> None:
        """Subscribe."""
        from nav_msgs.msg import Odometry as Message

        self.odom: list[Pose2] = []
        self.truth: list[Pose2] = []
        node.create_subscription(Message, f"{controller}/odom", self._add(self.odom), 100)
        node.create_subscription(Message, "ground_truth", self._add(self.truth), 100)

    def clear(self) -> None:
        """Forget all."""
        self.odom.clear()
        self.truth.clear()

    @staticmethod
    def _add(poses: list[Pose2]) -> Callable[[Any], None]:
        def add(message: Any) -> None:
            p, q = message.pose.pose.position, message.pose.pose.orientation
            poses.append(Pose2(p.x, p.y, 2.0 * math.atan2(q.z, q.w)))

        return add


def distances(poses: list[Pose2], path: PlanarPath, X: Pose2) -> Spread:
    """Return the distances of poses from a path [mm]; ``X`` takes them into its frame."""
    points = path.resampled(0.005).xy
    return Spread.of(
        1e3 * float(np.hypot(*(points - X.compose(pose)[:2]).T).min()) for pose in poses
    )


def drive(node: Any, client: Any, tracks: Tracks, shape: PlanarPath) -> list[Cell]:
    """Follow one path, and return its figures."""
    import rclpy
    from geometry_msgs.msg import PoseStamped
    from nav2_msgs.action import FollowPath as Action

    def spin(until: Callable[[], Any]) -> None:
        end = time.monotonic() + 120.0
        while not until():
            if time.monotonic() > end:
                raise RuntimeError("the robot did not answer in 120 s")
            rclpy.spin_once(node, timeout_sec=0.05)

    tracks.clear()
    spin(lambda: tracks.odom and tracks.truth)
    start, truth = tracks.odom[-1], tracks.truth[-1]
    rows = shape.poses().tolist()
    # Begun in its direction: a car could only swing onto it.
    X = start.compose(Pose2(*rows[0]).inverse())
    wanted = PlanarPath([X.compose(Pose2(*row)) for row in rows])
    goal = Action.Goal()
    goal.path.header.frame_id = "odom"
    for x, y, yaw in wanted.poses().tolist():
        pose = PoseStamped()
        pose.pose.position.x, pose.pose.position.y = x, y
        pose.pose.orientation.z, pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        goal.path.poses.append(pose)
    begin = time.monotonic()
    sent = client.send_goal_async(goal)
    spin(sent.done)
    answer = sent.result().get_result_async()
    spin(answer.done)
    took, result = time.monotonic() - begin, answer.result().result
    odom = distances(tracks.odom, wanted, Pose2())
    true = distances(tracks.truth, wanted, start.compose(truth.inverse()))
    return [odom.p50, odom.maximum, true.p50, true.maximum,
            1e3 * tracks.odom[-1].distance(wanted.end), shape.length, took,
            "arrived" if result.error_code == 0 else f"code {result.error_code}"]  # fmt: skip


def measure_robot(robot: str) -> list[list[Cell]]:
    """Return one row for each path."""
    import rclpy
    from nav2_msgs.action import FollowPath as Action
    from rclpy.action import ActionClient

    progress(f"{robot} in MuJoCo")
    executable, controller = ROBOTS[robot]
    rows: list[list[Cell]] = []
    with running(
        node_command("mujoco_sim", robots=[robot]),
        node_command(executable, robot=robot, use_sim_time=True),
        node_command("base_navigator", robot=robot, use_sim_time=True),
    ) as children:
        for child in children:
            child.wait_for("configured in")
        node = rclpy.create_node("bench_base_motion")
        tracks, client = Tracks(node, controller), ActionClient(node, Action, "follow_path")
        client.wait_for_server(30.0)
        time.sleep(1.0)
        for name, shape in shapes(robot).items():
            rows.append([f"{robot}, {name}", *drive(node, client, tracks, shape)])
        client.destroy()
        node.destroy_node()
    return rows


def main() -> None:
    """Time the core, then drive in MuJoCo."""
    parser = arguments(__doc__)
    parser.add_argument("--core-only", action="store_true", help="leave MuJoCo out")
    options = parser.parse_args()
    report = Report("Base motion: control steps, plans, and tracking in MuJoCo")
    show_steps(report)
    show_plans(report)
    if not options.core_only:
        isolate()
        import rclpy

        rclpy.init(args=[])
        rows = [row for robot in ROBOTS for row in measure_robot(robot)]
        rclpy.shutdown()
        report.table(
            "Distance from the path",
            ["", "odometry median [mm]", "max [mm]", "truth median [mm]", "max [mm]",
             "end [mm]", "path [m]", "time [s]", "goal"],
            rows,
            "Odometry: what the navigator can see. Truth: with what the wheels slipped on the way.",
        )  # fmt: skip
    report.write(options.json)


if __name__ == "__main__":
    main()
