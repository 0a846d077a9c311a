# SPDX-License-Identifier: Apache-2.0
"""Latency from a crate in view of depth cameras to the arm's reaction, in lockstep and over ROS.

The scenario is that of ``crate_crossing.py``: the tool follows a target at ``SPEED`` between two
cameras, and a crate appears on its path ``room`` seconds before the undisturbed arm would touch it.
The reaction is the first commanded velocity that deviates from those of undisturbed motions, over
ROS by more than twice their spread. Times over ROS are simulated, from the last joint state before
the crate was placed.
"""

from __future__ import annotations

import tempfile

import numpy as np
from harness import Row, motion_up, progress
from perception.crate_crossing import CAMERAS, RIGHT, CrateCrossing, touch_time
from perception.crate_watcher import Watcher, deviation, series

from motion_nodes.mpc.policy import MpcPolicy
from motion_nodes.nodes.demo import surprise
from motion_nodes.rmpflow.policy import RmpflowPolicy
from motion_nodes.robot_setup.derived_robot import load_description
from motion_nodes.ros.names import REACTIVE_POLICY
from motion_nodes.scene.checker import CollisionChecker

SPEED = 0.25  # Velocity of the target [m/s]
POLICIES = {"rmpflow": RmpflowPolicy, "mpc": MpcPolicy}
UNDISTURBED = 3
LEAST = 0.05  # Min deviation of a reaction [rad/s]


def _row(label: str, found: list[tuple[float, float, bool, float, bool]]) -> Row:
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
    return _row(f"{policy}, {room:g} s, {rate:g} Hz", found)


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
            row = _measured(client, f"{policy}, {room:g} s, {rate:g} Hz", crates, room)
            client.node.destroy_node()
    return row


def _measured(client: Watcher, label: str, crates: int, room: float) -> Row:
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
    return _row(label, found)
