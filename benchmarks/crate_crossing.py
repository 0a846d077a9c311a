# SPDX-License-Identifier: Apache-2.0
"""Reaction of an arm to a crate in view of depth cameras, in lockstep with MuJoCo.

The tool follows a target that moves from side to side at a constant speed. A crate appears on its
path a stated time before the undisturbed arm would touch it. Images are rendered at the cameras'
rate and mapped ``DELAY`` later, which stands for rendering, transport and planning scene; the
policy receives the map only. Contacts are those of MuJoCo.
"""

from __future__ import annotations

from typing import NamedTuple

import harness  # noqa: F401 (the path of the tests' helpers)
import numpy as np
from rmpflow.judged_arm import FRAME, JudgedArm, Verdict
from sim.lockstep_robot import NAME

from motion_nodes.core.reactive.policy import RmpflowPolicy
from motion_nodes.core.reactive.target_follower import Follower
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.tree import Box
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.core.scene.scene import Scene, world_object
from motion_nodes.core.scene.voxels import OCTOMAP
from motion_nodes.extras.perception.occupancy_map import OccupancyMap
from motion_nodes.extras.perception.settings import MapSettings
from motion_nodes.extras.sim.cell_words import parse_camera
from motion_nodes.extras.sim.sensors import CameraSettings, SimulatedCamera, snapshot
from motion_nodes.nodes.demo.surprise import SIZE
from motion_nodes.typing import Array

CAMERAS = (
    "camera:=panda_link0@1.1,0.8,0.9,0,0.6,-2.214",
    "camera2:=panda_link0@1.1,-0.8,0.9,0,0.6,2.214",
)
"""On both sides, since unseen space counts as free."""
LEFT, RIGHT = np.array([0.45, 0.45, 0.25]), np.array([0.45, -0.45, 0.25])
"""Ends of the target's path [m]."""
DELAY = 0.07
"""Delay from an image's time stamp to the policy [s]; that over ROS on an idle machine."""
LASTS, SETTLING = 9.0, 8.0  # [s]
_PERIODS = 5  # number of periods between two targets


def target_at(t: float, speed: float) -> Array:
    """Return the target's position [m], ``t`` [s] after its start, at ``speed`` [m/s]."""
    way = RIGHT - LEFT
    return LEFT + way * min(speed * t / float(np.linalg.norm(way)), 1.0)


def crate_scene(position: Array) -> Scene:
    """Return a scene with the crate at a position [m], shape (3,)."""
    return Scene(objects={"crate": world_object("crate", Box(SIZE), from_xyz_rpy(position))})


def touch_time(checker: CollisionChecker, times: Array, path: Array, crate: Array) -> float:
    """Return the time at which an undisturbed arm first overlaps a crate [s]; inf: never."""
    checker.set_scene(crate_scene(crate))
    gaps = checker.world_distances(path)[0].min(axis=1)
    return float(times[np.argmax(gaps <= 0.0)]) if gaps.min() <= 0.0 else np.inf


class Crossing(NamedTuple):
    """A motion to the other side; times since its start [s]."""

    times: Array
    q: Array
    """Measured joint positions at these times, shape (k, n)."""
    velocity: Array
    """Commanded joint velocities [rad/s], shape (k, n)."""
    seen: float
    """Time at which the policy first received an obstacle [s]; inf: never."""
    verdict: Verdict

    def reaction(self, undisturbed: Crossing, since: float, least: float = 0.01) -> float:
        """Return the time at which velocities first deviate from ``undisturbed``; inf: never."""
        other = np.abs(self.velocity - undisturbed.velocity).max(axis=1) > least
        return float(self.times[other & (self.times >= since)].min(initial=np.inf))


class CrateCrossing:
    """One policy's arm between two cameras."""

    def __init__(self, policy: RmpflowPolicy, speed: float, rate: float) -> None:
        """Move the arm to its first side.

        Args:
            policy: policy of a Franka.
            speed: of the target [m/s].
            rate: of the cameras [Hz].
        """
        self.arm, self.policy, self.speed, self.rate = JudgedArm(policy), policy, speed, rate
        self._robot = CollisionChecker(policy.robot, policy.robot.joint_names)
        mounted = [parse_camera(word) for word in CAMERAS]
        self._cameras = [(SimulatedCamera(self.arm.world, NAME, m), m.X_LO) for m in mounted]
        self._settings = CameraSettings()
        self._points = DepthProjection(self._settings.pinhole).points
        self._side = policy.default_cspace_target
        self._side = self.run(lasts=SETTLING, moves=False).q[-1]

    def run(
        self, crate: Array | None = None, placed: float = np.inf, phase: float = 0.0, *,
        lasts: float = LASTS, moves: bool = True,
    ) -> Crossing:  # fmt: skip
        """Follow the target.

        Args:
            crate: position of the crate [m], shape (3,).
            placed: time at which it appears [s].
            phase: time of the first image before the start [s].
            lasts: duration [s].
            moves: whether the target moves.
        """
        self.policy.reset()
        arm, follower = self.arm, Follower(self.policy)
        nothing = known = Scene()
        there = nothing if crate is None else crate_scene(crate)
        arm.start(self._side, nothing)
        mapped = OccupancyMap(MapSettings())
        images: list[tuple[float, list[Array], Array]] = []
        rendered, before, seen, found = -1, self._side, np.inf, []
        for k in range(round(lasts / FRAME)):
            now = k * FRAME
            if k % _PERIODS == 0:
                at = target_at(now, self.speed) if moves else LEFT
                follower.follow_pose(from_xyz_rpy(at, (np.pi, 0.0, 0.0)), now)
            scene = there if now >= placed else nothing
            if int((now + phase) * self.rate) > rendered:
                rendered = int((now + phase) * self.rate)
                world, q = snapshot(arm.world), arm.state(slice(None))[0]
                depths = [camera.render(world, self._settings)[0] for camera, _ in self._cameras]
                images.append((now, depths, self._robot.sphere_positions(q)))
            if images and now - images[0][0] >= DELAY:
                taken, depths, spheres = images.pop(0)
                for depth, (_, X_BC) in zip(depths, self._cameras, strict=True):
                    mapped.add_view(self._points(depth), X_BC, taken, spheres)
                solid, known = mapped.voxels(), nothing
                if solid is not None:
                    known = Scene(objects={OCTOMAP: world_object(OCTOMAP, solid, np.eye(4))})
                    seen = min(seen, now)
            q, _ = arm.follow(follower, scene, now, known)
            found.append((now, q, (arm.sent - before) / FRAME))
            before = arm.sent
        times, q, velocity = (np.array(each) for each in zip(*found, strict=True))
        return Crossing(times, q, velocity, seen, arm.verdict)
