# SPDX-License-Identifier: Apache-2.0
"""Simulated depth cameras against exact ray casts, and parsing of their descriptions."""

from __future__ import annotations

import numpy as np
import pytest
from perception.boxes_seen import depth_of
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidConfig
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_camera, parse_free_body
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import CameraSettings, SimulatedCamera, snapshot

JETBOT = load_robot("jetbot")
SETTINGS = CameraSettings(width=48, height=36, noise=0.0)


@pytest.fixture(scope="module")
def world():
    box = parse_free_body("box:=box:0.2,0.3,0.4:1@2,0.1,0.2")
    X = np.eye(4)
    X[1, 3] = -5.0  # behind the camera
    return MujocoWorld([RobotPlacement(JETBOT, "r", X)], WorldConfig(objects=(box,)))


def test_depth_equals_exact_ray_casts(world):
    link = JETBOT.tree.root
    camera = SimulatedCamera(world, "r", parse_camera(f"eye:={link}@0.3,4.6,1.1,0,0.5,0.3"))
    depth, _ = camera.render(snapshot(world), SETTINGS)
    root = world.data.body(f"r/{link}")
    X_WL = np.eye(4)
    X_WL[:3, :3], X_WL[:3, 3] = root.xmat.reshape(3, 3), root.xpos
    X_WC = X_WL @ camera.camera.X_LO
    boxes = np.array(
        [[(1.9, -0.05, 0.0), (2.1, 0.25, 0.4)], [(-50.0, -50.0, -1.0), (50.0, 50.0, 0.0)]]
    )
    expected = depth_of(boxes, X_WC, SETTINGS.pinhole)
    expected[expected > SETTINGS.max_range] = np.inf
    near = np.isfinite(expected) & np.isfinite(depth)
    assert near.mean() > 0.5
    assert depth[near] == pytest.approx(expected[near], abs=2e-3)
    assert (np.isfinite(expected) != np.isfinite(depth)).mean() < 0.03
    assert (depth < 2.2).sum() > 10


def test_objects_are_put_elsewhere(world):
    link = JETBOT.tree.root
    camera = SimulatedCamera(world, "r", parse_camera(f"eye:={link}@0.3,5,0.3"))
    before, _ = camera.render(snapshot(world), SETTINGS)
    X = np.eye(4)
    X[:3, 3] = (1.0, 0.0, 0.2)
    world.place_object("box", X)
    after, _ = camera.render(snapshot(world), SETTINGS)
    assert after[18, 24] < before[18, 24] - 0.5
    noisy, _ = camera.render(snapshot(world), CameraSettings(width=48, height=36, noise=0.01))
    both = np.isfinite(after) & np.isfinite(noisy)
    assert 1e-3 < np.abs(noisy[both] - after[both]).mean() < 0.5


@pytest.mark.parametrize(
    "word",
    ["", "camera", "camera:=link", "camera:=link@1,2", "camera:=link@1,2,x", "a b:=l@1,2,3",
     "camera:=link@1,2,nan", "camera:=link@1,2,3,4"],
)  # fmt: skip
def test_invalid_cameras(word):
    with pytest.raises(InvalidConfig):
        parse_camera(word)


def test_cameras_on_unknown_links(world):
    with pytest.raises(InvalidConfig, check=about("mast")):
        SimulatedCamera(world, "r", parse_camera("lab/eye:=mast@0,0,0"))
    assert parse_camera("lab/a/eye:=mast@0,0,0").namespace == "lab/a"
