# SPDX-License-Identifier: Apache-2.0
"""Simulated laser scanners and depth cameras against exact ray casts."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from base_navigation.obstacle_scenes import Scene
from perception.boxes_seen import depth_of
from raised_errors import about

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.core.robot.poses import from_xyz_rpy
from motion_nodes.core.robot.robot_yaml import LaserScannerDescription
from motion_nodes.errors import InvalidConfig, InvalidDescription
from motion_nodes.extras.sim.backend import RobotPlacement
from motion_nodes.extras.sim.cell_words import parse_camera, parse_free_body
from motion_nodes.extras.sim.mjcf import WorldConfig
from motion_nodes.extras.sim.mujoco_world import MujocoWorld
from motion_nodes.extras.sim.sensors import (
    CameraSettings,
    SimulatedCamera,
    SimulatedLaser,
    snapshot,
)
from motion_nodes.nodes.cell_topics import LaserTopics

BURGER = load_robot("turtlebot3_burger")
LDS = BURGER.description.laser_scanners[0]
EXACT = dataclasses.replace(LDS, noise=0.0)


@pytest.fixture(scope="module")
def world():
    objects = (
        "box:=box:0.4,0.2,0.4:1@2.5,0.1,0.2",
        "pole:=cylinder:0.1,0.5:1@1.0,1.2,0.25",
        "close:=box:0.02,0.02,0.4:1@0.86,0.0,0.2",
        "low:=box:0.2,0.2,0.1:1@0.2,0,0.05",
    )
    config = WorldConfig(objects=tuple(map(parse_free_body, objects)))
    X = from_xyz_rpy((1.0, 0.0, 0.0), (0.0, 0.0, 0.4))
    return MujocoWorld([RobotPlacement(BURGER, "r", X)], config)


def test_scans_equal_exact_ray_casts(world):
    """The scanner's own link is transparent; objects below the scan plane are not seen."""
    body = world.data.body("r/base_scan")
    x, y, _ = body.xpos
    angles = 0.4 + np.linspace(LDS.angle_min, LDS.angle_max, 360)
    scene = Scene(discs=np.array([(1.0, 1.2, 0.1)]),
                  boxes=np.array([(2.3, 0.0, 2.7, 0.2), (0.85, -0.01, 0.87, 0.01)]))  # fmt: skip
    expected = scene.ranges(x, y, angles)
    found = SimulatedLaser(world, "r", EXACT).scan()
    assert found.dtype == np.float32
    too_close = expected < LDS.range_min
    assert 5 < too_close.sum() < 30
    hits = np.isfinite(found) & np.isfinite(expected)
    assert hits.sum() > 15
    assert found[hits] == pytest.approx(expected[hits], abs=3e-3)
    # Rays that graze an edge may differ.
    assert (np.isneginf(found) != too_close).sum() <= 2
    assert (np.isposinf(found) != np.isposinf(expected)).sum() <= 6


def test_scans_come_at_their_rate_whatever_the_step(world):
    """Steps that are no fraction of the period delay single scans, not all that follow."""
    sent: list[object] = []
    node = SimpleNamespace(advertise=lambda *_: SimpleNamespace(publish=sent.append))
    robot = SimpleNamespace(namespace="", link_frame=lambda link: link)
    lasers = LaserTopics(node, world, {"r": robot})  # type: ignore[arg-type, dict-item]
    period = round(1e9 / LDS.rate)
    step = round(0.7 * period)
    for stamp in range(0, 100 * period, step):
        lasers.tick(stamp)
    assert 99 <= len(sent) <= 100


def test_noise_and_sectors(world):
    noisy = SimulatedLaser(world, "r", LDS)
    scans = np.array([noisy.scan() for _ in range(40)])
    seen = np.isfinite(scans).all(axis=0)
    assert np.std(scans[:, seen], axis=0).mean() == pytest.approx(0.01, rel=0.2)
    sector = dataclasses.replace(EXACT, angle_min=-0.3, angle_max=0.3, rays=61)
    assert len(SimulatedLaser(world, "r", sector).scan()) == 61


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("laser_scanners[0].link", {"link": "mast"}),
        ("laser_scanners[0].range_min", {"range_min": 4.0}),
        ("laser_scanners[0].angle_max", {"angle_max": -1.0}),
        ("laser_scanners[0].angle_max", {"angle_max": 7.0}),
    ],
)
def test_invalid_scanners(field, change, tmp_path):
    from motion_nodes.core.robot.robot_builder import assemble

    scanner = dataclasses.replace(LDS, **change)
    description = dataclasses.replace(BURGER.description, laser_scanners=(scanner,))
    with pytest.raises(InvalidDescription, check=about(field)):
        assemble(tmp_path / "robot.yaml", description, BURGER.tree, BURGER.urdf, {})


def test_two_scanners_on_one_topic(tmp_path):
    from motion_nodes.core.robot.robot_builder import assemble

    two = (LaserScannerDescription("base_scan"), LaserScannerDescription("base_link"))
    description = dataclasses.replace(BURGER.description, laser_scanners=two)
    with pytest.raises(InvalidDescription, check=about("laser_scanners[1].topic")):
        assemble(tmp_path / "robot.yaml", description, BURGER.tree, BURGER.urdf, {})


JETBOT = load_robot("jetbot")
SETTINGS = CameraSettings(width=48, height=36, noise=0.0)


@pytest.fixture(scope="module")
def world_of_depth_camera():
    box = parse_free_body("box:=box:0.2,0.3,0.4:1@2,0.1,0.2")
    X = np.eye(4)
    X[1, 3] = -5.0  # behind the camera
    return MujocoWorld([RobotPlacement(JETBOT, "r", X)], WorldConfig(objects=(box,)))


def test_depth_equals_exact_ray_casts(world_of_depth_camera):
    link = JETBOT.tree.root
    camera = SimulatedCamera(
        world_of_depth_camera, "r", parse_camera(f"eye:={link}@0.3,4.6,1.1,0,0.5,0.3")
    )
    depth, _ = camera.render(snapshot(world_of_depth_camera), SETTINGS)
    root = world_of_depth_camera.data.body(f"r/{link}")
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


def test_objects_are_put_elsewhere(world_of_depth_camera):
    link = JETBOT.tree.root
    camera = SimulatedCamera(world_of_depth_camera, "r", parse_camera(f"eye:={link}@0.3,5,0.3"))
    before, _ = camera.render(snapshot(world_of_depth_camera), SETTINGS)
    X = np.eye(4)
    X[:3, 3] = (1.0, 0.0, 0.2)
    world_of_depth_camera.place_object("box", X)
    after, _ = camera.render(snapshot(world_of_depth_camera), SETTINGS)
    assert after[18, 24] < before[18, 24] - 0.5
    noisy, _ = camera.render(
        snapshot(world_of_depth_camera), CameraSettings(width=48, height=36, noise=0.01)
    )
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


def test_cameras_on_unknown_links(world_of_depth_camera):
    with pytest.raises(InvalidConfig, check=about("mast")):
        SimulatedCamera(world_of_depth_camera, "r", parse_camera("lab/eye:=mast@0,0,0"))
    assert parse_camera("lab/a/eye:=mast@0,0,0").namespace == "lab/a"
