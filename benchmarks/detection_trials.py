# SPDX-License-Identifier: Apache-2.0
"""Detection of the objects of random scenes in depth images of MuJoCo, against their true poses.

    python benchmarks/detection_trials.py 100 [--width 320] [--noise 0.001]

prints how many objects are missed or invented, and the errors of position and size.
"""

import argparse

import numpy as np

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.scene.checker import CollisionChecker
from motion_nodes.core.scene.depth_camera import DepthProjection
from motion_nodes.extras.perception.object_detection import ObjectDetector, extents
from motion_nodes.extras.perception.settings import DetectorSettings
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_camera, parse_free_body
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import CameraSettings, SimulatedCamera, snapshot

CAMERA = "camera:=panda_link0@1.2,0.3,0.9,0,0.8,-2.8"
FOUND = 0.03
"""Max distance between a detection and its object [m]."""
GAP = 0.035
"""Min distance of the bounding circles of objects [m]."""
POSES = 10
"""Number of scenes with the same objects."""


class Trials:
    """A Franka, a camera beside it, and objects on the floor."""

    def __init__(self, seed: int, settings: CameraSettings) -> None:
        self.rng = rng = np.random.default_rng((6, seed))
        words = []
        for k in range(5):
            x, y, z = rng.uniform((0.03, 0.03, 0.03), (0.07, 0.12, 0.1))
            kind, sizes = [
                ("box", f"{x:.4f},{y:.4f},{z:.4f}"), ("box", f"{x:.4f},{x:.4f},{x:.4f}"),
                ("cylinder", f"{0.5 * x:.4f},{z:.4f}"), ("sphere", f"{0.5 * x:.4f}"),
                ("box", f"{y:.4f},{x:.4f},{0.5 * z:.4f}"),
            ][k]  # fmt: skip
            words.append(f"o{k}:={kind}:{sizes}:0.1@0,{k},0.1")
        robot = load_robot("franka")
        config = WorldConfig(objects=tuple(map(parse_free_body, words)))
        self.world = MujocoWorld([RobotPlacement(robot, "arm")], config)
        self.mounted = parse_camera(CAMERA)
        self.camera = SimulatedCamera(self.world, "arm", self.mounted)
        self.settings = settings
        self.spheres = CollisionChecker(robot, robot.joint_names).sphere_positions(robot.home)
        self.spheres[:, 3] += 0.03
        self.truth: dict[str, np.ndarray] = {}
        self.detector = ObjectDetector(DetectorSettings(region_min=(0.2, -0.6, -0.1)))

    def scatter(self) -> None:
        """Place the objects randomly on the floor, with gaps."""
        placed: list[tuple[np.ndarray, float]] = []
        for name in self.world.objects:
            size = extents(self.world.free_body(name).geometry)
            radius = 0.5 * float(np.hypot(size[0], size[1]))
            while True:
                at = self.rng.uniform((0.35, -0.35), (0.75, 0.35))
                if all(np.linalg.norm(at - p) > r + radius + GAP for p, r in placed):
                    break
            placed.append((at, radius))
            yaw = self.rng.uniform(-np.pi, np.pi)
            pose = from_xyz_rpy((at[0], at[1], 0.5 * size[2]), (0.0, 0.0, yaw))
            self.world.place_object(name, pose)
            self.truth[name] = pose

    def judge(self) -> tuple[list[str], int, list[tuple[float, float, bool]]]:
        """Return names of missed objects, the number of invented ones, and errors of the others.

        An error is that of the position [m], that of the size [m], and whether the kind is right.
        """
        depth, _ = self.camera.render(snapshot(self.world), self.settings)
        points, X = DepthProjection(self.settings.pinhole).points(depth), self.mounted.X_LO
        found = self.detector.detect(points @ X[:3, :3].T + X[:3, 3], self.spheres)
        rest, missed, errors = list(found), [], []
        for name in self.world.objects:
            pose, shape = self.truth[name], self.world.free_body(name).geometry
            away = [float(np.linalg.norm(f.X_WO[:3, 3] - pose[:3, 3])) for f in rest]
            if not away or min(away) > FOUND:
                missed.append(f"{name} {shape}")
                continue
            each = rest.pop(int(np.argmin(away)))
            a, b = (np.append(np.sort(extents(s)[:2]), extents(s)[2]) for s in (each.shape, shape))
            same = type(each.shape) is type(shape)
            errors.append((min(away), float(np.abs(a - b).max()), same))
        return missed, len(rest), errors


def main() -> None:
    """Print the counts and errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenes", type=int)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--noise", type=float, default=0.001)
    given = parser.parse_args()
    settings = CameraSettings(width=given.width, height=3 * given.width // 4, noise=given.noise)
    missed, invented, errors = [], 0, []
    for seed in range(-(-given.scenes // POSES)):
        trials = Trials(seed, settings)
        for _ in range(min(POSES, given.scenes - seed * POSES)):
            trials.scatter()
            lost, more, found = trials.judge()
            missed, invented, errors = missed + lost, invented + more, errors + found
    print(*missed, sep="\n")
    away, size, kinds = np.array(errors).T
    print(f"{len(errors)} found, {len(missed)} missed, {invented} invented; "
          f"{int(len(kinds) - kinds.sum())} of another kind")  # fmt: skip
    for name, values in (("position", away), ("size", size)):
        middle, high, most = 1e3 * np.quantile(values, (0.5, 0.95, 1.0))
        print(f"{name} [mm]: median {middle:.1f}, 95 % {high:.1f}, max {most:.1f}")


if __name__ == "__main__":
    main()
