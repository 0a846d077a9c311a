# SPDX-License-Identifier: Apache-2.0
"""RMPflow leads arms with PD drives in MuJoCo: lag behind a moving target, jerk, one process.

Run: ``python benchmarks/bench_rmpflow_tracking.py`` (two minutes).

The target stands where the tool is in the named state "ready" until the arm is there, then goes
around a circle at 0.1 m/s. Its pose is told 50 or 10 times a second to the follower of the node
``rmpflow_policy``, without ROS, so that nothing is late but what has to be. The policy works at
250 Hz, MuJoCo at 500 Hz or more. Lag is the distance of the tool, by the joints that MuJoCo has,
from where the target is at that time; the first two seconds of its motion do not count. Jerk is the
second difference of the reference's speeds, for a target that jumps by 0.2 m each second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from report import Cell, Report, arguments, progress

from motion_nodes.model.loader import load_robot
from motion_nodes.rmpflow.follower_settings import RobotMotion
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.rmpflow.target_follower import Follower
from motion_nodes.rmpflow.time_scaling import SmoothingSettings
from motion_nodes.sim.drive_targets import JointTargets
from motion_nodes.sim.mujoco_world import MujocoWorld
from motion_nodes.sim.placement import RobotPlacement

PERIOD = 0.004  # [s]
APPROACH, SETTLING = 10.0, 2.0  # [s]
SPEED, RADIUS = 0.1, 0.12  # [m/s], [m]
ROBOTS = ("franka", "ur10e")

Target = Callable[[float], np.ndarray]


def follow(
    name: str, policy: RmpflowPolicy, target: Target, every: float, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return lag at each step [m], shape (k,), and the policy's speeds of joints, shape (k, n)."""
    robot = policy.robot
    world, follower = MujocoWorld([RobotPlacement(robot, name)]), Follower(policy)
    active, watched = robot.indices(policy.active_joints), robot.indices(policy.watched_joints)
    lags, speeds, next_target = [], [], 0.0
    ready = robot.named_state("ready")[active]
    follower.follow_posture(ready, 0.0)
    X = policy.tool_pose(ready).copy()
    for k in range(round(seconds / PERIOD)):
        now = k * PERIOD
        if now >= next_target - 1e-9:
            X[:3, 3] = target(now)
            follower.follow_pose(X.copy(), now)
            next_target += every
        state = world.state(name)
        q, qd = state.position, state.velocity
        motion = RobotMotion(q[active], qd[active], q[watched], qd[watched])
        step = follower.step(motion, PERIOD, now)
        if step is not None:
            positions, velocities = (np.full(len(q), np.nan) for _ in range(2))
            positions[active], velocities[active] = step
            world.command(name, JointTargets(positions, velocities))
        world.step(round(PERIOD / world.time_step))
        own_state = policy.get_internal_robot_joint_states()
        if own_state is not None:
            speeds.append(own_state[1])
        place = policy.tool_pose(world.state(name).position[active])[:3, 3]
        lags.append(float(np.linalg.norm(place - target(now + PERIOD))))
    return np.array(lags), np.array(speeds)


def _ready(policy: RmpflowPolicy) -> np.ndarray:
    robot = policy.robot
    q = robot.named_state("ready")[robot.indices(policy.active_joints)]
    return np.array(policy.tool_pose(q)[:3, 3])


def circle(policy: RmpflowPolicy) -> Target:
    """Return a target that stands for a while, then goes around."""
    begin = _ready(policy)

    def at(t: float) -> np.ndarray:
        angle = SPEED / RADIUS * max(t - APPROACH, 0.0)
        offset = np.array((0.0, RADIUS * np.sin(angle), RADIUS * (1.0 - np.cos(angle))))
        return np.asarray(begin + offset)

    return at


def jumps(policy: RmpflowPolicy) -> Target:
    """Return a target that jumps to and fro each second."""
    begin = _ready(policy)
    return lambda t: np.asarray(begin + np.array((0.0, 0.2 * (int(t) % 2), 0.0)))


def lag_row(name: str, own: bool, every: float, seconds: float) -> list[Cell]:
    """Return lag on the circle."""
    policy = RmpflowPolicy(load_robot(name), ignore_robot_state_updates=own)
    lags, _ = follow(name, policy, circle(policy), every, seconds)
    lags = 1e3 * lags[round((APPROACH + SETTLING) / PERIOD) :]
    mode = "own state" if own else "measured state"
    return [f"{name}, {mode}, target at {1.0 / every:.0f} Hz", float(np.median(lags)),
            float(np.percentile(lags, 95)), float(lags.max())]  # fmt: skip


def jerk_row(name: str, what: str, policy: RmpflowPolicy) -> list[Cell]:
    """Return jerk with a target that jumps."""
    lags, speeds = follow(name, policy, jumps(policy), 0.02, 10.0)
    jerk = np.abs(np.diff(speeds[round(4.0 / PERIOD) :], 2, axis=0)) / PERIOD**2
    return [f"{name}, {what}", float(np.sqrt((jerk**2).mean())), float(jerk.max()),
            1e3 * float(np.median(lags))]  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=22.0)
    options = parser.parse_args()
    report = Report("RMPflow in MuJoCo")
    rows = []
    for name in ROBOTS:
        for own in (True, False):
            for every in (0.02, 0.1):
                progress(f"{name}, lag")
                rows.append(lag_row(name, own, every, options.seconds))
    report.table("Lag behind a target at 0.1 m/s", ["", "median [mm]", "95 % [mm]", "most [mm]"],
                 rows)  # fmt: skip
    rows = []
    for name in ROBOTS:
        progress(f"{name}, jerk")
        robot = load_robot(name)
        ways = {
            "jerk free": {"bounded_jerk": False},
            "jerk bounded": {},
            "jerk bounded, time scaled": {"smoothing": SmoothingSettings()},
        }
        for what, given in ways.items():
            policy = RmpflowPolicy(robot, ignore_robot_state_updates=True, **given)  # type: ignore[arg-type]
            rows.append(jerk_row(name, what, policy))
    report.table(
        "Jerk with a target that jumps",
        ["", "root mean square [rad/s^3]", "most [rad/s^3]", "median lag [mm]"],
        rows,
    )
    report.write(options.json)


if __name__ == "__main__":
    main()
