# SPDX-License-Identifier: Apache-2.0
"""Latency from a crate that appears before a depth camera to the arm's reaction, over ROS.

A suite in MuJoCo as in ``motion demo surprise``: the tool moves from side to side, first without
the crate, then with a crate that appears in the middle as soon as the tool has left its side. The
first reference that deviates from those of undisturbed motions, by more than twice what these
differ and 2 mrad, is the reaction. All times are simulated: the crate counts from the time of the
last joint state before it was placed.
"""

from __future__ import annotations

import tempfile

import numpy as np
from harness import Row, motion_up, progress
from sensor_msgs.msg import JointState

from motion_nodes.model.tree import Array
from motion_nodes.nodes.demo import surprise
from motion_nodes.ros import qos
from motion_nodes.ros.joint_topics import stamp_ns
from motion_nodes.ros.names import JOINT_CONTROLLER, REACTIVE_POLICY

UNDISTURBED = 4
LEFT, RIGHT = surprise.SIDES
LEAST = 2e-3  # [rad]
LEFT_ITS_SIDE = 0.01  # [m]


class Watcher(surprise.SurpriseClient):
    """Notes when references, states and octomaps came, in simulated time."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[tuple[float, Array]] = []
        self.states: list[tuple[float, Array]] = []
        self.seen = np.inf
        topic = f"/{surprise.ARM}/{JOINT_CONTROLLER}/reference"
        self.subscribe(JointState, topic, self._on_reference, qos.STREAM)

    def _on_reference(self, message: JointState) -> None:
        if len(message.position) >= len(self._joints):
            q = dict(zip(message.name, message.position, strict=False))
            at = 1e-9 * stamp_ns(message)
            self.references.append((at, np.array([q[name] for name in self._joints])))

    def _on_state(self, message: JointState) -> None:
        super()._on_state(message)
        if self.q is not None:
            self.states.append((self.now, self.q))

    def _on_octomap(self, message: object) -> None:
        super()._on_octomap(message)
        if self.occupied:
            self.seen = min(self.seen, self.now)

    def cross(self, crate: bool) -> float:
        """Move from left to right; return when the crate was placed [s], inf without one."""
        assert self.go(LEFT)
        self.spin(0.5)
        begin, placed, sent = self.now, np.inf, -np.inf
        self.references.clear()
        self.states.clear()
        self.seen = np.inf
        while not self.is_at(RIGHT) and self.now - begin < surprise.WITHIN:
            if self.now - sent > 0.05:
                sent = self.now
                self._send(RIGHT)
            if crate and placed == np.inf and LEFT[1] - self.tool[1] > LEFT_ITS_SIDE:
                placed = self.now
                self.put_crate(surprise.THERE)
            if not self.spin(0.002):
                break
        return placed


def deviation(motion: list[tuple[float, Array]], other: list[tuple[float, Array]]) -> Array:
    """Return times since the begin and distances of a motion's references from another's."""
    (t, q), (u, r) = ([np.array(x) for x in zip(*each, strict=True)] for each in (motion, other))
    t, u = t - t[0], u - u[0]
    there = np.column_stack([np.interp(t, u, column) for column in r.T])
    return np.column_stack((t, np.abs(q - there).max(axis=1)))


def latency_row(policy: str, crates: int) -> Row:
    """Return a row of the table about one policy."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        node = f"/{surprise.ARM}/{REACTIVE_POLICY}"
        file.write(f"{node}:\n  ros__parameters:\n    policy: {policy}\n")
        file.flush()
        words = (f"{surprise.ARM}:={surprise.ARM}", "--viewer", "none", "--params-file", file.name,
                 "--camera", surprise.CAMERA, "--object", surprise.OBJECT)  # fmt: skip
        with motion_up(*words):
            client = Watcher()
            row = _measured(client, policy, crates)
            client.node.destroy_node()
    return row


def _measured(client: Watcher, policy: str, crates: int) -> Row:
    assert client.wait(lambda: client.ready, 300.0)
    plain = []
    for _ in range(UNDISTURBED):
        client.cross(crate=False)
        plain.append(list(client.references))
    spread = max(float(deviation(a, plain[0])[:, 1].max()) for a in plain[1:])
    threshold = max(LEAST, 2.0 * spread)
    progress(f"{policy}: undisturbed motions differ by {1e3 * spread:.1f} mrad")
    rows = []
    for k in range(crates):
        placed = client.cross(crate=True)
        first = client.references[0][0]
        far = deviation(client.references, plain[0])
        reaction = far[far[:, 1] > threshold, 0].min(initial=np.inf) + first - placed
        client.path[:] = [q for _, q in client.states]
        surprise.clearance(client)  # the crate is in the checker's scene now
        states = [(t - placed, q) for t, q in client.states if t >= placed]
        gaps = [float(client.checker.sphere_distances(q).distance.min()) for _, q in states]
        after = states[int(np.argmin(gaps))][0]
        rows.append((client.seen - placed, reaction, after, min(gaps), client.crate_moved > 5e-3))
        progress(f"{policy}: crate {k + 1}: {rows[-1]}")
        client.put_crate(surprise.AWAY)
        client.wait_for_map(occupied=False, within=surprise.WITHIN)
    seen, reaction, after, gap, touched = np.array(rows, float).T
    return {
        "": policy, "crates": len(rows), "in the octomap [s]": float(np.median(seen)),
        "octomap, max [s]": float(seen.max()), "other command [s]": float(np.median(reaction)),
        "command, max [s]": float(reaction.max()), "closest after [s]": float(np.median(after)),
        "closest [mm]": 1e3 * float(gap.min()), "touched": int(touched.sum()),
    }  # fmt: skip
