# SPDX-License-Identifier: Apache-2.0
"""The LeRobot plugin against a stand-in of LeRobot's interface and of the suite."""

import importlib
import math
import sys
import tomllib
from typing import Any

import lerobot_standin as standin
import numpy as np
import pytest

from motion_nodes.core.robot.loader import load_robot
from motion_nodes.errors import InvalidCommand, InvalidConfig
from motion_nodes.nodes.clients.action_link import LinkFailed

SO101 = load_robot("so101")
JOINTS = (*SO101.group("arm").joints, "gripper")
LIMITS = SO101.limits.select(JOINTS)
FPS = 30.0


class FakeLink:
    """Replaces the suite: records the streamed references; a joint may be blocked by a wall."""

    def __init__(self, namespace: str, group: str, joints: tuple[str, ...]) -> None:
        self.joints, self.sent, self.checked = joints, [], []
        self.wall, self.silent, self.stopped, self.open = math.inf, False, "", True

    def wait(self, timeout: float, *, checked: bool) -> None:
        pass

    def positions(self) -> dict[str, float]:
        return dict.fromkeys(self.joints, 0.0)

    def problem(self, way: np.ndarray, timeout: float) -> str:
        if self.silent:
            raise LinkFailed("collisions could not be checked")
        self.checked.append(way)
        return "collision of arm and wall" if (way[:, 0] > self.wall).any() else ""

    def send(self, position: np.ndarray, velocity: np.ndarray) -> None:
        if self.stopped:
            raise InvalidCommand(self.stopped)
        self.sent.append((position, velocity))

    def close(self) -> None:
        self.open = False


class Clock:
    """A clock that advances by one period per action."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        self.now += 1.0 / FPS
        return self.now


@pytest.fixture
def plugin(monkeypatch):
    monkeypatch.syspath_prepend(str(standin.PLUGIN))
    for name, module in standin.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    standin.forget_plugin()
    yield importlib.import_module("lerobot_robot_motion_nodes")
    standin.forget_plugin()


@pytest.fixture
def make(plugin, monkeypatch):
    module = sys.modules["lerobot_robot_motion_nodes.motion_nodes_arm"]
    monkeypatch.setattr(module, "ActionLink", FakeLink)
    monkeypatch.setattr(module, "time", Clock())

    def made(**settings: Any) -> Any:
        robot = plugin.MotionNodesArm(plugin.MotionNodesArmConfig(robot="so101", **settings))
        robot.connect()
        return robot

    return made


def action(value: float) -> dict[str, float]:
    return {f"{joint}.pos": value for joint in JOINTS}


def test_lerobot_finds_it_by_its_conventions(plugin):
    project = tomllib.loads((standin.PLUGIN / "pyproject.toml").read_text())["project"]
    assert project["name"] == plugin.__name__  # LeRobot imports the package of this name.
    assert project["name"].startswith("lerobot_robot_")
    config = standin.RobotConfig.registered["motion_nodes_arm"]
    assert config is plugin.MotionNodesArmConfig
    assert config.__name__ == plugin.MotionNodesArm.__name__ + "Config"
    assert plugin.MotionNodesArm.config_class is config
    assert plugin.MotionNodesArm.name == "motion_nodes_arm"


def test_features_are_known_before_the_connection_and_are_what_is_observed(plugin, make):
    cameras = {"front": standin.CameraConfig(height=2, width=3)}
    config = plugin.MotionNodesArmConfig(robot="so101", cameras=cameras)
    unconnected = plugin.MotionNodesArm(config)
    assert set(unconnected.action_features) == set(action(0.0))
    assert unconnected.observation_features["front"] == (2, 3, 3)
    assert not unconnected.is_connected
    with pytest.raises(LinkFailed):
        unconnected.get_observation()
    robot = make(cameras=cameras)
    assert robot.is_connected
    assert set(robot.get_observation()) == set(robot.observation_features)
    link = robot._link
    robot.disconnect()
    assert not robot.is_connected
    assert not link.open


def test_a_chunk_of_actions_keeps_the_limits(make):
    robot = make()
    rng = np.random.default_rng(3)
    previous = np.zeros(len(JOINTS))
    for value in rng.uniform(-4.0, 4.0, 60):
        sent = robot.send_action(action(float(value)))
        position, velocity = robot._link.sent[-1]
        assert list(sent.values()) == pytest.approx(position.tolist())
        assert (position >= LIMITS.lower).all()
        assert (position <= LIMITS.upper).all()
        assert (np.abs(velocity) <= LIMITS.velocity + 1e-9).all()
        assert position == pytest.approx(previous + velocity / FPS)
        previous = position


def test_an_arm_holds_in_front_of_what_is_in_the_way_and_follows_again(make):
    robot = make()
    robot._link.wall = 0.5
    for k in range(60):
        robot.send_action(action(min(0.02 * k, 1.0)))
    held, velocity = robot._link.sent[-1]
    assert 0.3 < held[0] < 0.5
    assert not velocity.any()
    # The stopping distance was checked, too.
    assert robot._link.checked[-1][:, 0].max() > held[0] + 0.02
    robot.send_action(action(held[0] - 0.01))
    assert robot._link.sent[-1][0][0] < held[0]


def test_without_answers_it_holds(make):
    robot = make()
    robot._link.silent = True
    robot.send_action(action(0.5))
    assert not robot._link.sent[-1][0].any()
    unchecked = make(check_collisions=False)
    unchecked._link.silent = True
    unchecked.send_action(action(0.5))
    assert unchecked._link.sent[-1][0].any()


def test_degrees(make):
    robot = make(degrees=True)
    sent = robot.send_action(action(1.0))
    assert sent["shoulder_pan.pos"] == pytest.approx(1.0)
    assert robot._link.sent[-1][0] == pytest.approx(np.full(len(JOINTS), math.radians(1.0)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"gripper.pos": math.nan}, "finite"), ({"elbow.pos": 0.0}, "elbow.pos")],
)
def test_unusable_actions_send_nothing(make, changes, words):
    robot = make()
    with pytest.raises(InvalidCommand, match=words):
        robot.send_action(action(0.0) | changes)
    with pytest.raises(InvalidCommand):
        robot.send_action({"shoulder_pan.pos": 0.0})
    robot._link.stopped = "stopped by the page"
    with pytest.raises(InvalidCommand, match="stopped by the page"):
        robot.send_action(action(0.0))
    assert not robot._link.sent


def test_settings_that_cannot_work(make):
    for settings in ({"fps": 5.0}, {"fps": math.nan}, {"speed": 0.0}):
        with pytest.raises(InvalidConfig):
            make(**settings)
